"""A call of a composite, and what a sample and a call have in common: their graph, their float operands, a seed."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from torchlean.conformance.samples.draw import Sample
from torchlean.ir.builder import bind
from torchlean.ir.graph import Graph
from torchlean.ir.op import Op
from torchlean.ir.rules import NoReverse, Structured
from torchlean.ir.tracing import trace_flat
from torchlean.ir.types import type_of_array

Arrays = tuple[np.ndarray[Any, Any], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """One call of a composite: `function(*arrays)` is one node of `op`. `smooth` as in `Sample`."""

    op: Op
    function: Callable[..., Any]
    arrays: Arrays
    name: str
    smooth: bool

    def __repr__(self) -> str:
        return f"{self.op.name}-{self.name}"


Case = Sample | Call


def graph_of(case: Case) -> Graph:
    """The one-node graph of a case (a composite's constant operands may add others)."""
    types = [type_of_array(array) for array in case.arrays]
    if isinstance(case, Sample):
        return trace_flat(lambda *xs: bind(case.op, case.params, *xs), types, name=case.op.name).graph

    def flat(*xs: Any) -> Any:
        made = case.function(*xs)
        return made if isinstance(made, tuple) else (made,)

    return trace_flat(flat, types, name=case.op.name).graph


def is_float(array: np.ndarray[Any, Any]) -> bool:
    """Whether an array's entries are real floating point numbers."""
    return type_of_array(array).dtype.is_float


def has_reverse(op: Op) -> bool:
    """Whether the op has a reverse rule; one without says why."""
    return not (isinstance(op.diff, Structured) and isinstance(op.diff.vjp, NoReverse))


def float_operands(case: Case) -> tuple[int, ...]:
    """Positions of the operands a derivative can be taken in."""
    return tuple([at for at, array in enumerate(case.arrays) if is_float(array)])


def randoms(case: Case) -> np.random.Generator:
    """A generator seeded by the case's name."""
    return np.random.default_rng(zlib.crc32(repr(case).encode()))
