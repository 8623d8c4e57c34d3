"""Operands for every op: ordinary, empty, scalar, special floats, ties, and sizes no power of two divides."""
