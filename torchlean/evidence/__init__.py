"""Evidence: what was tried of a claim, on which source, with which versions; and whether that still holds here."""
