"""Calls of ops that are run for what they do. Their result is a token; that they act is tested where they are used."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from torchlean import pytree
from torchlean.conformance.samples.draw import F32, F64, Sample, uniform
from torchlean.ir.ops.effect import CHECK, DEBUG_PRINT, USE_KEY, KeyUse, Message


def _nowhere(line: str) -> None:
    """Who gets the printed lines."""


def _seen(keys: Any, params: KeyUse) -> None:
    """Who is told of used keys."""


def _message(text: str, values: int, operands: int) -> Message:
    treedef: Any = pytree.structure((tuple(range(values)), {}))
    return Message(text, treedef, (), "samples", _nowhere, (), ((),) * operands)


def effect_samples() -> Iterator[Sample]:
    for shape in ((3, 5), (), (0, 3)):
        x = uniform(shape, dtype=F32)
        holds = np.ones(shape, dtype=np.bool_)
        yield Sample(DEBUG_PRINT, _message("x = {}", 1, 1), (x,), f"f32{list(shape)}", False)
        yield Sample(CHECK, _message("x = {}", 1, 2), (holds, x), f"f32{list(shape)}", False)
        keys = np.zeros((*shape, 2), dtype=np.uint32)
        yield Sample(USE_KEY, KeyUse("normal", "samples", 0, _seen), (keys,), f"u32{[*shape, 2]}", False)
    pair = uniform((7,), dtype=F64), uniform((), dtype=F32)
    yield Sample(DEBUG_PRINT, _message("{} and {}", 2, 2), pair, "two values", False)


EFFECT_SAMPLES: tuple[Sample, ...] = tuple(effect_samples())
