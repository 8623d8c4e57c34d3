"""Every float32 there is through a kernel of one operand, compared with the exact value; in resumable blocks."""
