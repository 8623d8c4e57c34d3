"""The samples of the first families of primitive ops."""

from __future__ import annotations

from torchlean.conformance.samples import arithmetic, folds, movement, windows
from torchlean.conformance.samples.draw import Sample
from torchlean.ir.ops import cut as cut_ops
from torchlean.ir.ops import elementwise as ew
from torchlean.ir.ops.chain import OPS as CHAIN
from torchlean.ir.ops.create import OPS as CREATE
from torchlean.ir.ops.dot import OPS as DOT
from torchlean.ir.ops.gather import OPS as POSITIONS
from torchlean.ir.ops.layout import OPS as LAYOUT
from torchlean.ir.ops.random import OPS as RANDOM
from torchlean.ir.ops.reduce import OPS as REDUCE
from torchlean.ir.ops.spread import OPS as SPREAD
from torchlean.ir.ops.window import OPS as WINDOW

SAMPLED = (*CREATE, *ew.OPS, *CHAIN, *LAYOUT, *SPREAD, *cut_ops.OPS, *POSITIONS, *DOT, *REDUCE, *WINDOW, *RANDOM)

SAMPLES: tuple[Sample, ...] = (
    *movement.create_samples(),
    *arithmetic.arithmetic_samples(),
    *arithmetic.choices_samples(),
    *movement.layout_samples(),
    *movement.spread_samples(),
    *movement.cut_samples(),
    *movement.positions_samples(),
    *folds.dot_samples(),
    *folds.reduce_samples(),
    *windows.window_samples(),
    *movement.random_samples(),
)
