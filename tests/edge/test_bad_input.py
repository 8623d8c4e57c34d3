"""Sizes near 2⁶³, empty axes, deep and cyclic trees, odd keys, generators and strings: an exact answer or a refusal.

Every refusal is torchlean's own, says what was wrong, and comes before anything large is made.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import torchlean as tl
from torchlean import ops
from torchlean.errors import GradError, LimitExceeded, StructureError, TorchLeanError, TypeRuleError

HUGE = 2**62
ONE = np.float32(1)


def refused(run: Callable[[], Any], kind: type[TorchLeanError], *words: str) -> str:
    """The text of the refusal, which comes at once and mentions no recursion."""
    started = time.perf_counter()
    with pytest.raises(kind) as caught:
        run()
    assert time.perf_counter() - started < 5
    text = str(caught.value)
    assert "recursion" not in text.lower()
    for word in words:
        assert word in text, text
    return text


# -- sizes near 2⁶³ ----------------------------------------------------------------------------------------------------
def test_shapes_of_any_size_have_exact_types() -> None:
    spread = tl.eval_shape(lambda x: ops.broadcast_to(x, (HUGE, 8)), ONE)
    assert spread.shape == (HUGE, 8)
    assert spread.size == 2**65
    assert spread.nbytes == 2**67
    merged = tl.eval_shape(lambda x: ops.reshape(ops.broadcast_to(x, (HUGE, 8)), (-1,)), ONE)
    assert merged.shape == (2**65,)
    padded = tl.eval_shape(lambda x: ops.pad(x, 0.0, ((2**63, 2**63),)), np.ones(3, np.float32))
    assert padded.shape == (2**64 + 3,)
    image = np.ones((1, 1, 3), np.float32)
    convolved = tl.eval_shape(lambda x, w: ops.conv(x, w, padding=((HUGE, HUGE),)), image, image)
    assert convolved.shape == (1, 1, 2**63 + 1)
    assert tl.make_graph(tl.grad(lambda x: ops.mean(ops.broadcast_to(x, (HUGE, 8)))))(ONE).output_types[0].shape == ()
    joined = tl.eval_shape(lambda x: ops.concatenate([ops.broadcast_to(x, (HUGE,))] * 4), ONE)
    assert joined.shape == (2**64,)


LARGE: dict[str, Callable[[], Any]] = {
    "full": lambda: ops.full((HUGE,), 1.0),
    "full of two axes": lambda: ops.full((HUGE, HUGE), 1.0),
    "full of 4 TiB": lambda: ops.full((2**40,), 1.0),
    "iota": lambda: ops.iota((2**61,), 0, "i64"),
    "pad": lambda: ops.pad(np.ones(2, np.float32), 0.0, ((2**61, 0),)),
    "broadcast": lambda: ops.broadcast_to(ONE, (HUGE, 8)),
    "one_hot": lambda: ops.one_hot(np.array([1]), 2**61),
    "matmul": lambda: ops.matmul(np.ones((2**20, 1), np.float32), np.ones((1, 2**20), np.float32)),
    "lowered": lambda: tl.lower(lambda x: ops.sum(ops.broadcast_to(x, (HUGE, 8))), ONE),
    "jit": lambda: tl.jit(lambda x: ops.broadcast_to(x, (2**38, 8)) + 1.0)(ONE),
    "fast_cpu": lambda: tl.lower(lambda x: ops.broadcast_to(x, (2**38, 8)) + 1.0, ONE, profile=tl.profiles.fast_cpu),
}


@pytest.mark.parametrize("name", list(LARGE))
def test_a_value_beyond_the_budget_is_refused_before_it_is_made(name: str) -> None:
    refused(LARGE[name], LimitExceeded, "would make", "entries", "bytes", "1 TiB", "test_bad_input.py")


def test_the_budget_is_exact() -> None:
    with pytest.raises(LimitExceeded, match="1099511627780 bytes"):
        ops.full((2**38 + 1,), 1.0)
    assert tl.lower(lambda x: ops.broadcast_to(x, (2**38,)), ONE)  # a view of exactly 1 TiB


# -- empty axes --------------------------------------------------------------------------------------------------------
EMPTY = np.zeros((0, 3))
EMPTIES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], Any]] = {
    "sum": (lambda x: ops.sum(x, 0), (EMPTY,), np.zeros(3)),
    "prod": (lambda x: ops.prod(x, 0), (EMPTY,), np.ones(3)),
    "mean": (lambda x: ops.mean(x, 0), (EMPTY,), np.full(3, np.nan)),
    "softmax": (lambda x: ops.softmax(x), (EMPTY,), EMPTY),
    "logsumexp": (lambda x: ops.logsumexp(x), (EMPTY,), np.zeros(0)),
    "norm": (lambda x: ops.euclidean_norm(x), (EMPTY,), np.zeros(())),
    "sort": (lambda x: ops.sort(x), (EMPTY,), EMPTY),
    "cumsum": (lambda x: ops.cumsum(x, 0), (EMPTY,), EMPTY),
    "cumprod": (lambda x: ops.cumprod(x, 0), (EMPTY,), EMPTY),
    "matmul": (lambda x: ops.matmul(ops.transpose(x), x), (EMPTY,), np.zeros((3, 3))),
    "take": (lambda x: ops.take(x, np.zeros(0, np.int32)), (np.ones(3),), np.zeros(0)),
    "concatenate": (lambda x: ops.concatenate([x, x]), (EMPTY,), EMPTY),
    "reshape": (lambda x: ops.reshape(x, (3, 0, 5)), (EMPTY,), np.zeros((3, 0, 5))),
    "layer_norm": (lambda x: ops.layer_norm(x), (EMPTY,), EMPTY),
    "attention": (lambda q: ops.attention(q, np.ones((0, 2)), np.ones((0, 4))), (np.ones((3, 2)),), np.zeros((3, 4))),
    "conv": (lambda x: ops.conv(x, np.ones((2, 1, 2))), (np.zeros((0, 1, 5)),), np.zeros((0, 2, 4))),
    "det": (lambda x: ops.det(x), (np.zeros((0, 0)),), np.ones(())),
}


@pytest.mark.parametrize("name", list(EMPTIES))
def test_an_empty_axis_has_a_value_and_derivatives(name: str) -> None:
    f, arguments, want = EMPTIES[name]
    np.testing.assert_array_equal(np.asarray(f(*arguments)), want)
    np.testing.assert_array_equal(np.asarray(tl.jit(f)(*arguments)), want)
    for derivative in (tl.jacfwd, tl.jacrev):
        made = np.asarray(derivative(f)(*arguments))
        assert made.shape == np.shape(want) + arguments[0].shape
    value, tangent = tl.jvp(f, arguments, tuple(np.ones_like(a) for a in arguments))
    assert tangent.type == value.type
    mapped = tl.vmap(f)(*[np.zeros((0, *a.shape)) for a in arguments])
    assert mapped.type.shape == (0, *np.shape(want))


def test_the_maximum_of_nothing_is_refused() -> None:
    refused(lambda: ops.amax(EMPTY, 0), TypeRuleError, "no entry to choose from", "f64[0,3]")


# -- trees -------------------------------------------------------------------------------------------------------------
def deep(leaf: Any, kind: str) -> Any:
    for _ in range(2000):
        leaf = [leaf] if kind == "list" else {"a": leaf} if kind == "dict" else (leaf,)
    return leaf


TRANSFORMS: dict[str, Callable[[Callable[..., Any], Any], Any]] = {
    "jit": lambda f, x: tl.jit(f)(x),
    "lower": lambda f, x: tl.lower(f, x),
    "grad": lambda f, x: tl.grad(f)(x),
    "value_and_grad": lambda f, x: tl.value_and_grad(f)(x),
    "vjp": lambda f, x: tl.vjp(f, x),
    "jvp": lambda f, x: tl.jvp(f, (x,), (x,)),
    "linearize": lambda f, x: tl.linearize(f, x),
    "jacfwd": lambda f, x: tl.jacfwd(f)(x),
    "jacrev": lambda f, x: tl.jacrev(f)(x),
    "vmap": lambda f, x: tl.vmap(f)(x),
    "eval_shape": lambda f, x: tl.eval_shape(f, x),
    "make_graph": lambda f, x: tl.make_graph(f)(x),
}


@pytest.mark.parametrize("kind", ["list", "dict", "tuple"])
@pytest.mark.parametrize("name", list(TRANSFORMS))
def test_a_tree_2000_deep_is_refused_going_in_and_coming_out(name: str, kind: str) -> None:
    x = np.ones(2)
    refused(lambda: TRANSFORMS[name](lambda p: p, deep(x, kind)), StructureError, "nested too deeply")
    refused(lambda: TRANSFORMS[name](lambda v: deep(v, kind), x), StructureError, "nested too deeply")


@pytest.mark.parametrize("name", list(TRANSFORMS))
def test_a_cyclic_tree_is_refused(name: str) -> None:
    cycle: list[Any] = [np.ones(2)]
    cycle.append(cycle)
    refused(lambda: TRANSFORMS[name](lambda p: p[0], cycle), StructureError, "possibly cyclic")
    refused(lambda: TRANSFORMS[name](lambda v: cycle, np.ones(2)), StructureError, "possibly cyclic")


def test_keys_of_several_types_come_in_one_order_whatever_order_they_were_put_in() -> None:
    given = {1: 2.0, "a": 3.0, (2,): 4.0, None: 5.0, 2.5: 6.0}
    turned = dict(reversed(given.items()))
    assert tl.pytree.leaves(given) == tl.pytree.leaves(turned)
    assert tl.pytree.paths(given, "p") == tl.pytree.paths(turned, "p")

    def f(p: Any) -> Any:
        return p[1] * p["a"] + p[(2,)] * p[None] + p[2.5]

    made = tl.grad(f)(given)
    assert {key: float(np.asarray(g)) for key, g in made.items()} == {1: 3.0, "a": 2.0, (2,): 5.0, None: 4.0, 2.5: 1.0}
    again = tl.jit(tl.grad(f))(turned)
    assert {key: float(np.asarray(g)) for key, g in again.items()} == {1: 3.0, "a": 2.0, (2,): 5.0, None: 4.0, 2.5: 1.0}


# -- results -----------------------------------------------------------------------------------------------------------
UNSEEN: dict[str, Callable[[Any], Any]] = {
    "generator": lambda x: (x for _ in range(3)),
    "empty generator": lambda x: (y for y in ()),
    "map": lambda x: map(str, [x]),
    "set": lambda x: {1.0, 2.0},
    "dict_values": lambda x: {"a": x}.values(),
    "nested": lambda x: {"a": [x, (x for _ in range(2))]},
}


@pytest.mark.parametrize("result", list(UNSEEN))
@pytest.mark.parametrize("name", list(TRANSFORMS))
def test_a_result_whose_entries_cannot_be_seen_is_refused(name: str, result: str) -> None:
    kind = "generator" if "generator" in result or result == "nested" else result
    place = "result['a'][1]" if result == "nested" else "result"
    refused(
        lambda: TRANSFORMS[name](UNSEEN[result], np.ones(2)), TypeRuleError, f"returned a {kind} at {place}", "list("
    )


def test_strings_pass_through_or_are_refused_by_name() -> None:
    made, text = tl.jit(lambda x: (x, "a"))(1.0)
    assert (float(np.asarray(made)), text) == (1.0, "a")
    assert tl.vmap(lambda x: (x, "a"))(np.ones(2))[1] == "a"
    refused(lambda: tl.grad(lambda x: "a")(1.0), GradError, "returns no tensor")
    refused(lambda: tl.jit(lambda x: x)("a"), TypeRuleError, "args[0]", "str", "static_argnums")
    refused(lambda: tl.jit(lambda x: x)(np.array(["a"])), TypeRuleError, "args[0]")
    refused(lambda: tl.jit(lambda x: x)(np.array([object()])), TypeRuleError, "args[0]")
    refused(lambda: tl.grad(lambda p: p["x"])({"x": "1.0"}), GradError, "args[0]['x']", "str")
    refused(lambda: ops.add("a", 1.0), TypeRuleError, "str", "'a'")
    refused(lambda: tl.jit(lambda x: x)(i for i in range(3)), TypeRuleError, "generator")
