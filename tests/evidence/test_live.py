"""Facts of live capsules: what a handler holds shows, addresses and private state do not."""

from __future__ import annotations

import functools
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from torchlean.backends import Bitwise, Expression, Reduction, Ulp, profiles
from torchlean.evidence.live import Walk, shortened
from torchlean.evidence.subject import all_facts, facts, origins
from torchlean.ir.ops.elementwise import EXP

CAPSULES = {capsule.name: capsule for module in profiles.fast_cpu.modules for capsule in module.capsules}


def running(count: int, step: Any) -> Any:
    def kernel(x: Any, scale: float = 2.0) -> Any:
        return step(x) * count * scale

    return kernel


class Held:
    def __init__(self) -> None:
        self.size = 3
        self._cache = object()

    def method(self) -> int:
        return self.size


@pytest.mark.parametrize(
    ("held", "text"),
    [
        (running(3, np.exp), "running.kernel(count=3, step=numpy.ufunc exp, 2.0)"),
        (functools.partial(max, 1, key=None), "partial(builtins.builtin_function_or_method max, (1), {'key': None})"),
        (Reduction.FIXED_LEFT, "Reduction.FIXED_LEFT"),
        ({"b": {2, 1}, "a": None}, "{'a': None, 'b': {1, 2}}"),
        (np.dtype("f4"), "numpy.dtypes.Float32DType float32"),
        (np.float32(1), "float32[]#"),
        (Ulp(4), "torchlean.backends.capsule.Ulp(n=4)"),
        (Expression("f({0})", {"f": np.exp}), "names={'f': numpy.ufunc exp}"),
        (Held().method, "Held.method of "),
        (Held(), "Held(size=3)"),
        (np, "module numpy"),
        (EXP, "op exp"),
    ],
)
def test_objects_as_text(held: Any, text: str) -> None:
    assert text in Walk().text(held)


def test_what_no_contract_speaks_of_is_left_out() -> None:
    handler = CAPSULES["numpy.matmul"].handler
    assert Walk().text(replace(handler, workspace=None)) == Walk().text(replace(handler, workspace=len))


def test_a_cycle_ends() -> None:
    held: list[Any] = [1]
    held.append(held)
    assert Walk().text(held) == "(1, …)"


def test_a_long_text_is_cut_and_hashed() -> None:
    one, other = "x" * 1000, "x" * 999 + "y"
    assert len(shortened(one)) < 520
    assert shortened(one) != shortened(other)
    assert shortened("short") == "short"


def test_facts_are_the_same_twice_and_hold_no_address() -> None:
    assert len(CAPSULES) >= 150
    for capsule in CAPSULES.values():
        held = all_facts(capsule)
        assert held == all_facts(capsule)
        assert not [text for text in held.values() if re.search(r"0x[0-9a-f]{6,}| at \d", text)], capsule.name


@pytest.mark.parametrize(
    ("changes", "fact", "claims"),
    [
        ({"bound": Bitwise()}, "bound", {"value", "vjp"}),
        ({"refuses": lambda params, types: None}, "refuses", {"shape", "layout", "value", "vjp"}),
        ({"layout_kind": "flat"}, "layout", {"layout"}),
        ({"handler": None}, "handler", {"shape", "layout", "value", "vjp"}),
    ],
)
def test_a_fact_belongs_to_the_claims_that_rest_on_it(changes: Any, fact: str, claims: set[str]) -> None:
    capsule = CAPSULES["numpy.matmul"]
    other = replace(capsule, **changes)
    differing = {claim for claim in ("shape", "layout", "value", "vjp") if facts(capsule, claim) != facts(other, claim)}
    assert differing == claims
    assert {name for name, text in all_facts(capsule).items() if all_facts(other)[name] != text} == {fact}


def test_where_claims_begin() -> None:
    value = set(origins(CAPSULES["reference.exp"], "value"))
    assert {"Implementation.bind", "unary.<locals>.<lambda>"} <= {origin.qualname for origin in value}
    rules = set(origins(CAPSULES["reference.exp"], "vjp")) - value
    assert [origin.module for origin in rules if origin.qualname == "<lambda>"] == ["torchlean.ir.ops.elementwise"]
