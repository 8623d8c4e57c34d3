"""What users read when a loop or a branch does not fit: the whole text, in their own terms, with their line."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from golden_text import require_golden

import torchlean as tl
from torchlean import ops
from torchlean.errors import (
    GradError,
    LeakedTracerError,
    StructureError,
    TorchLeanError,
    TraceError,
    TypeRuleError,
)

VECTOR = np.ones(4, dtype=np.float32)
ROWS = np.ones((5, 4), dtype=np.float32)
ONE = np.float32(1)


def step(carry: Any, x: Any) -> Any:
    return carry, x


def widen(carry: Any, x: Any) -> Any:
    return {"w": ops.reshape(carry["w"], (4, 1)), "b": carry["b"]}, x


def scanned() -> Any:
    return tl.scan(widen, {"w": VECTOR, "b": ONE}, ROWS)


def weak() -> Any:
    return tl.scan(lambda carry, x: ({"n": x.sum()}, None), {"n": 0}, ROWS)


def weak_wide() -> Any:
    return tl.scan(lambda carry, x: (x, None), 0.0, np.ones(3))


def other_tree() -> Any:
    return tl.scan(lambda carry, x: ([carry[0]], None), (VECTOR, ONE), ROWS)


def no_pair() -> Any:
    return tl.scan(lambda carry, x: carry + 1, ONE, ROWS)


def lengths() -> Any:
    return tl.scan(step, ONE, {"a": ROWS, "b": VECTOR, "c": np.ones((5, 2), np.float32)})


def declared_length() -> Any:
    return tl.scan(step, ONE, ROWS, length=3)


def no_length() -> Any:
    return tl.scan(step, ONE, None)


def negative_length() -> Any:
    return tl.scan(step, ONE, None, length=-1)


def float_unroll() -> Any:
    return tl.scan(step, ONE, ROWS, unroll=0)


def scalar_xs() -> Any:
    return tl.scan(step, ONE, (ROWS, ONE))


def text_in_carry() -> Any:
    return tl.scan(step, {"w": VECTOR, "name": "x"}, ROWS)


def text_in_result() -> Any:
    return tl.scan(lambda carry, x: (carry, "done"), ONE, ROWS)


def unknown_save() -> Any:
    return tl.scan(step, ONE, ROWS, save="nothing")


def mapped_scalar() -> Any:
    return tl.map(ops.sin, ONE)


def doubled(carry: Any) -> Any:
    return carry[0] * 2, carry[0]


def looped() -> Any:
    return tl.while_loop(lambda carry: carry[0] < 10, doubled, (ONE, 0))


def vector_condition() -> Any:
    return tl.while_loop(lambda carry: carry < 10, lambda carry: carry * 2, VECTOR)


def float_condition() -> Any:
    return tl.while_loop(lambda carry: carry - 10, lambda carry: carry * 2, ONE)


def nothing_carried() -> Any:
    return tl.while_loop(lambda carry: True, lambda carry: None, None)


def float_bound() -> Any:
    return tl.fori_loop(0, 2.5, lambda i, carry: carry, ONE)


def fori_carry() -> Any:
    return tl.make_graph(lambda n: tl.fori_loop(0, n, lambda i, c: {"x": c["x"][None]}, {"x": VECTOR}))(np.int32(3))


def positive(x: Any) -> Any:
    return {"a": x, "b": x}


def negative(x: Any) -> Any:
    return {"a": ops.sum(x), "b": x}


def branched() -> Any:
    return tl.cond(True, positive, negative, VECTOR)


def weak_branch() -> Any:
    return tl.cond(True, lambda x: x, lambda x: 0, ONE)


def branch_trees() -> Any:
    return tl.cond(True, positive, lambda x: (x, x), VECTOR)


def float_predicate() -> Any:
    return tl.cond(ONE, positive, positive, VECTOR)


def vector_predicate() -> Any:
    return tl.cond(VECTOR > 0, positive, positive, VECTOR)


def float_index() -> Any:
    return tl.switch(ONE, [positive, negative], VECTOR)


def no_branches() -> Any:
    return tl.switch(0, [], VECTOR)


def switched() -> Any:
    return tl.switch(0, [positive, positive, negative], VECTOR)


def no_function() -> Any:
    return tl.cond(True, VECTOR, positive, VECTOR)


def reversed_while() -> Any:
    return tl.grad(lambda x: tl.while_loop(lambda c: c < 10.0, lambda c: c * 2.0, x))(ONE)


def associative() -> Any:
    return tl.associative_scan(lambda a, b: a[:1], ROWS)


def associative_lengths() -> Any:
    return tl.associative_scan(ops.add, (ROWS, VECTOR))


def unknown_policy() -> Any:
    return tl.checkpoint(ops.sin, policy="all")(ONE)


FAULTS: tuple[tuple[Callable[[], Any], type[TorchLeanError]], ...] = (
    (scanned, TypeRuleError),
    (weak, TypeRuleError),
    (weak_wide, TypeRuleError),
    (other_tree, StructureError),
    (no_pair, StructureError),
    (lengths, StructureError),
    (declared_length, StructureError),
    (no_length, StructureError),
    (negative_length, TypeRuleError),
    (float_unroll, TypeRuleError),
    (scalar_xs, TypeRuleError),
    (text_in_carry, TypeRuleError),
    (text_in_result, TypeRuleError),
    (unknown_save, TypeRuleError),
    (mapped_scalar, TypeRuleError),
    (looped, TypeRuleError),
    (vector_condition, TypeRuleError),
    (float_condition, TypeRuleError),
    (nothing_carried, StructureError),
    (float_bound, TypeRuleError),
    (fori_carry, TypeRuleError),
    (branched, TypeRuleError),
    (weak_branch, TypeRuleError),
    (branch_trees, StructureError),
    (float_predicate, TypeRuleError),
    (vector_predicate, TypeRuleError),
    (float_index, TypeRuleError),
    (no_branches, TypeRuleError),
    (switched, TypeRuleError),
    (no_function, TypeRuleError),
    (reversed_while, GradError),
    (associative, StructureError),
    (associative_lengths, StructureError),
    (unknown_policy, TypeRuleError),
)


def text_of(call: Callable[[], Any], kind: type[TorchLeanError]) -> str:
    """The error's text; lines are counted from the `def` of the function that makes it."""
    with pytest.raises(kind) as caught:
        call()
    first = call.__code__.co_firstlineno
    return re.sub(r"test_errors\.py:(\d+)", lambda found: f"test_errors.py:+{int(found[1]) - first}", str(caught.value))


def test_every_message_names_the_leaf_the_fix_and_the_users_line() -> None:
    texts = [text_of(call, kind) for call, kind in FAULTS]
    assert len(texts) == 34
    for text in texts:
        lines = text.splitlines()
        assert [line.split()[0] for line in lines[1:]] == ["expected:", "got:", "fix:"], text
        assert "(test_errors.py:+1 in " in lines[0]
    require_golden("control_errors", "\n\n".join(texts))


def test_a_fault_inside_a_body_is_reported_at_its_own_line() -> None:
    with pytest.raises(TypeRuleError, match=r"^add of f32\[4\], f32\[3\]: .* \(test_errors.py:\d+ in <lambda>\)"):
        tl.scan(lambda carry, x: (carry + np.ones(3, np.float32), x), VECTOR, ROWS)


def test_a_value_of_a_body_that_leaks_is_reported() -> None:
    kept: list[Any] = []

    def leaking(carry: Any, x: Any) -> Any:
        kept.append(carry)
        return carry, x

    with pytest.raises(LeakedTracerError, match="leaked out of leaking"):
        tl.scan(leaking, ONE, ROWS)


def test_python_control_flow_on_a_traced_value_names_the_alternative() -> None:
    with pytest.raises(TraceError, match=r"bool\(\) of a traced bool\[\]"):
        tl.scan(lambda carry, x: (carry if carry > 0 else -carry, None), ONE, ROWS)
