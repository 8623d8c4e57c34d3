"""Programs whose plans the golden files show; the files name these lines, so new programs go at the end."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import torchlean as tl
from torchlean import ops

F32 = tl.DType.F32
W, X = tl.TensorType((3, 2), F32), tl.TensorType((4, 3), F32)
V = tl.TensorType((8,), F32)


def loss(w: Any, x: Any) -> Any:
    return ops.mse_loss(ops.relu(x @ w), x @ w)


def layer(w: Any, x: Any) -> Any:
    return ops.softmax(x @ w, -1).sum()


def other_layer(w: Any, x: Any) -> Any:
    return ops.tanh(x @ w).sum()


def loop(w: Any, x: Any) -> Any:
    return tl.scan(lambda c, row: (ops.tanh(c + (row @ w).sum()), c), x[0, 0], x)


def still(profile: Any) -> Any:
    """The profile without what its libraries read from this environment."""
    return replace(profile, modules=tuple([replace(module, settings=()) for module in profile.modules]))


def timeless(text: str) -> str:
    """A text without the states of evidence, which are of this machine."""
    text = re.sub(r" \((fresh|other-version|stale|failed|never run)\)", "", text)
    return "\n".join([line for line in text.splitlines() if not line.startswith("  evidence ")])
