"""How each op is written in jax.lax. Importing this package imports jax."""

from __future__ import annotations

from types import MappingProxyType

from torchlean.backends.xla.rules import (
    composites,
    control,
    elementwise,
    folds,
    matrices,
    movement,
    positions,
    products,
    pulling,
    special,
    words,
)
from torchlean.backends.xla.rules.control import Higher
from torchlean.backends.xla.rules.elementwise import Rule
from torchlean.ir.op import Op

RULES: MappingProxyType[Op, Rule] = MappingProxyType(
    {
        **elementwise.table(),
        **special.table(),
        **words.table(),
        **movement.table(),
        **positions.table(),
        **folds.table(),
        **products.table(),
        **matrices.table(),
        **composites.table(),
    }
)
HIGHER: MappingProxyType[Op, Higher] = MappingProxyType({**control.table(), **pulling.table()})

__all__ = ["HIGHER", "RULES"]
