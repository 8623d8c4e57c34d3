"""A provider of one capsule in a package of its own, written into a temporary folder and imported from there."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torchlean.backends import CapsuleModule

HELPERS = '''"""What the kernel calls."""

import numpy as np


class Sign:
    """Turns numbers round."""

    def turned(self, x):
        """Minus x."""
        return np.negative(x)

    def unused(self, x):
        return x


def negated(x):
    """Minus x."""
    return Sign().turned(x)


def unrelated(x):
    return x
'''

CAPSULES = '''"""The capsule."""

from torchlean import backends as tb
from torchlean.evidence.ledger import Ledger
from torchlean.ir.ops.elementwise import NEG

from {name}.helpers import negated


def make(params, types):
    return negated


def capsule(bound=tb.Bitwise()):
    return tb.Capsule(
        op=NEG,
        provider="chip",
        device=tb.Device.CPU,
        shape=tb.guarded(tb.Claim.SHAPE, "types derived again when bound"),
        layout=tb.guarded(tb.Claim.LAYOUT, "any strides"),
        value=tb.tested(tb.Claim.VALUE, "{name}/tests.py::test_bits"),
        vjp=tb.tested(tb.Claim.VJP, "{name}/tests.py::test_vjp"),
        vjp_mode=tb.VjpMode.TAPE,
        bound=bound,
        numerics=tb.NumericalPolicy(
            reduction=tb.Reduction.NOT_APPLICABLE,
            contraction=tb.Contraction.NOT_APPLICABLE,
            subnormals=tb.Subnormals.GRADUAL,
            accumulator=tb.Accumulator.NOT_APPLICABLE,
        ),
        handler=tb.Implementation(op=NEG, provider="chip", device=tb.Device.CPU, traits=tb.FRESH, make=make),
        refuses=tb.refuses_nothing,
    )


LEDGER = Ledger("chip", package="{name}", shipped="records/chip.json", libraries=("numpy",))
MODULE = tb.CapsuleModule(name="chip", capsules=(capsule(),), probe=tb.always_available, ledger=LEDGER)
'''


class Chip:
    """The package on disk and its module in memory."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self.package = folder / name
        self.package.mkdir(parents=True)
        (folder / "pyproject.toml").write_text("")  # what makes it a checkout
        (self.package / "__init__.py").write_text("")
        self.helpers.write_text(HELPERS)
        (self.package / "capsules.py").write_text(CAPSULES.format(name=name))
        self.code: Any = importlib.import_module(f"{name}.capsules")

    @property
    def helpers(self) -> Path:
        return self.package / "helpers.py"

    @property
    def module(self) -> CapsuleModule:
        return self.code.MODULE

    @property
    def ledger(self) -> Any:
        return self.code.LEDGER

    def edit(self, old: str, new: str) -> None:
        """Change the file the kernel's code is in, on disk only, and let the ledger look again."""
        text = self.helpers.read_text()
        assert text.count(old) == 1, old
        self.helpers.write_text(text.replace(old, new))
        self.ledger.forget()

    def state(self, obligation: str = "value") -> str:
        return str(self.ledger.standing(self.module.capsules[0], obligation).state)


@contextmanager
def importable(folder: Path, name: str) -> Iterator[Chip]:
    """The package under a name no other test uses, forgotten afterwards."""
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        yield Chip(folder, name)
    finally:
        sys.path.remove(str(folder))
        for module in [held for held in sys.modules if held.partition(".")[0] == name]:
            del sys.modules[module]
