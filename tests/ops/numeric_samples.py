"""The samples of the numeric ops, which ship with the conformance kit."""

from torchlean.conformance.samples.complexes import COMPLEX_SMOOTH, HOLOMORPHIC
from torchlean.conformance.samples.matrices import MATRIX_DTYPES, definite, matrix, separated
from torchlean.conformance.samples.numeric import NUMERIC, NUMERIC_OPS

__all__ = [
    "COMPLEX_SMOOTH",
    "HOLOMORPHIC",
    "MATRIX_DTYPES",
    "NUMERIC",
    "NUMERIC_OPS",
    "definite",
    "matrix",
    "separated",
]
