"""The command `torchlean`. The only package that prints."""
