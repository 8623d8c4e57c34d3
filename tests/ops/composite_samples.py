"""Samples and calls together, which ship with the conformance kit."""

from torchlean.conformance.samples.call import (
    Call,
    Case,
    float_operands,
    graph_of,
    has_reverse,
    is_float,
    randoms,
)
from torchlean.conformance.samples.cases import ALL_CASES, CALLS

__all__ = [
    "ALL_CASES",
    "CALLS",
    "Call",
    "Case",
    "float_operands",
    "graph_of",
    "has_reverse",
    "is_float",
    "randoms",
]
