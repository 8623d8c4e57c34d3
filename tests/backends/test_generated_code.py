"""Generated programs: their text, that they compute what the graph denotes, and that results belong to the caller."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from backends.toolbox import Array, normal, same_bits, traced, tried

import torchlean as tl
from torchlean.backends import (
    CapsuleModule,
    Executable,
    Expression,
    Profile,
    accept,
    always_available,
    plan,
    profiles,
    reference,
)
from torchlean.errors import BindError, InternalError
from torchlean.ir import ops
from torchlean.ir.evaluate import denote
from torchlean.ir.graph import Graph
from torchlean.ir.ops.elementwise import EXP

PROFILES = (profiles.reference_cpu, profiles.numpy_cpu)


def executable(graph: Graph, profile: Profile = profiles.reference_cpu) -> Executable:
    return Executable(accept(plan(graph, profile)))


def body_of(made: Executable) -> list[str]:
    """The lines after `with …:`, without indentation."""
    lines = made.source.splitlines()
    start = next(position for position, line in enumerate(lines) if line.startswith("    with "))
    return [line.strip() for line in lines[start + 1 :]]


def agrees(graph: Graph, *arrays: Array, profile: Profile = profiles.reference_cpu) -> Executable:
    """Run the strict program and compare bits with the definition."""
    made = executable(graph, profile)
    for got, want in zip(made.checked(*arrays), denote(graph, arrays), strict=True):
        assert type(got) is np.ndarray
        if profile is profiles.reference_cpu:
            assert same_bits(got, want)
        else:
            assert got.shape == want.shape
            assert got.dtype == want.dtype
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
    return made


# -- text --------------------------------------------------------------------------------------------------------------
def test_the_source_of_a_layer() -> None:
    graph = traced(lambda x, w, b: ops.relu(ops.linear(x, w, b)), normal(4, 3), normal(2, 3), normal(2), name="layer")
    assert executable(graph, profiles.numpy_cpu).source == (
        "# k0 = numpy.dot\n"
        "# k1 = numpy.add\n"
        "# k2 = numpy.maximum\n"
        "# k3 = constant float32[] 0.0\n"
        "# k4 = numpy.errstate\n"
        "def run(v0, v1, v2):\n"
        '    with k4(all="ignore"):\n'
        "        v3 = v1.T  # %3 reference.permute\n"
        "        v4 = k0(v0, v3); del v3  # %4 numpy.matmul\n"
        "        v6 = k1(v4, v2, v4); del v4  # %6 reference.add\n"
        "        v7 = k2(v6, k3); del v6  # %7 numpy.relu\n"
        "        return (v7,)\n"
    )


def test_no_user_text_reaches_the_source() -> None:
    graph = traced(lambda x: ops.tanh(x) + 1.0, normal(3), name='x"); import os  #')
    made = executable(graph)
    code = [line.split("#")[0] for line in made.source.splitlines()]
    words = set(re.findall(r"[A-Za-z_]\w*", " ".join(code)))
    assert {word for word in words if not re.fullmatch(r"[vk]\d+", word)} <= {
        "def", "run", "with", "all", "ignore", "return", "del"
    }  # fmt: skip


def test_a_value_is_freed_where_it_was_last_used() -> None:
    made = executable(traced(lambda x: ops.exp(ops.tanh(ops.sin(x))), normal(3)))
    assert [line.split("  #")[0] for line in body_of(made)] == [
        "v1 = k0(v0)",
        "v2 = k1(v1); del v1",
        "v3 = k2(v2); del v2",
        "return (v3,)",
    ]


def test_a_dying_temporary_is_written_over_and_nothing_else_is() -> None:
    made = agrees(traced(lambda x, y: ((x + y) * y, x - y), normal(3), normal(3, seed=1)), normal(3), normal(3, seed=1))
    assert [line.split("  #")[0] for line in body_of(made)] == [
        "v2 = k0(v0, v1)",
        "v3 = k1(v2, v1, v2); del v2",
        "v4 = k2(v0, v1)",
        "return (v3, v4)",
    ]


def test_numpys_largest_and_least_are_written_over_by_name() -> None:
    """A third positional operand of np.maximum warns, from NumPy 2.4 on."""
    x, y = normal(3), normal(3, seed=1)
    made = agrees(traced(lambda x, y: ops.min(ops.max(x + y, y), x), x, y), x, y, profile=profiles.numpy_cpu)
    assert [line.split("  #")[0] for line in body_of(made)] == [
        "v2 = k0(v0, v1)",
        "v3 = k1(v2, v1, out=v2); del v2",
        "v4 = k2(v3, v0, out=v3); del v3",
        "return (v4,)",
    ]


def test_a_temporary_with_a_view_is_not_written_over() -> None:
    def f(x: Any) -> Any:
        y = x + x
        turned = ops.transpose(y)
        return y * y, turned

    x = normal(3, 3)
    made = agrees(traced(f, x), x)
    assert not any(", v1)" in line and line.startswith("v3 = k1(v1, v1, v1)") for line in body_of(made))
    squared, turned = made.call(x)
    assert same_bits(turned, (x + x).T)
    assert same_bits(squared, (x + x) * (x + x))


def test_a_comparison_does_not_write_over_its_operand() -> None:
    agrees(traced(lambda x: (x + x) > x, normal(3)), normal(3))


# -- broadcasting left to consumers ------------------------------------------------------------------------------------
def test_a_broadcast_operand_is_not_made() -> None:
    x, row, column = normal(4, 3), normal(3, seed=1), normal(4, seed=2)

    def f(a: Any, b: Any, c: Any) -> Any:
        return a + b, a * ops.broadcast(c, (4, 3), (0,)), a * 2.0

    for profile in PROFILES:
        made = agrees(traced(f, x, row, column), x, row, column, profile=profile)
        assert "broadcast_to" not in made.source
        assert any(
            "v2.reshape((4, 1))  # %5 reference.broadcast, left to its consumers" in line for line in body_of(made)
        )


def test_a_broadcast_is_made_when_no_operand_has_the_shape() -> None:
    """Two spread operands; one spread operand; a spread operand of a product."""
    row, column = normal(3), normal(4, seed=1)

    def f(a: Any, b: Any) -> Any:
        wide, tall = ops.broadcast(a, (4, 3), (1,)), ops.broadcast(b, (4, 3), (0,))
        return wide + tall, ops.tanh(wide), ops.matmul(ops.transpose(tall), wide), ops.sum(wide, 0)

    for profile in PROFILES:
        agrees(traced(f, row, column), row, column, profile=profile)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: ops.select(x > 0, 1.0, x),
        lambda x: ops.select(x > 0, 1.0, 2.0),
        lambda x: ops.clamp(x, -0.5, 0.5),
        lambda x: ops.max(ops.full((3, 4), 0.0), x),
        lambda x: ops.pow(ops.abs(x), 2.0),
        lambda x: ops.pow(2.0, x),
        lambda x: 1.0 - ops.full((3, 4), 0.25) * x,
        lambda x: ops.full((3, 4), 2.0) * ops.full((3, 4), 3.0),
        lambda x: (ops.full((3, 4), 2.0), x),
        lambda x: ops.concatenate([ops.full((3, 4), 2.0), x]),
        lambda x: ops.matmul(ops.full((2, 3), 2.0), x),
        lambda x: x * ops.broadcast_to(ops.sum(x), (3, 4)),
        lambda x: x / ops.sum(x, 1, keepdims=True),
        lambda x: ops.broadcast(x, (3, 4), (0, 1)) + x if False else x + x,
        lambda x: ops.broadcast_to(ops.constant(np.arange(4, dtype=np.float32)), (3, 4)) + x,
        lambda x: ops.broadcast_to(x, (2, 3, 4)),
        lambda x: (x > 0.0, ops.logical_and(x > 0.0, ops.full((3, 4), True))),
        lambda x: ops.integer_pow(x, 1) + ops.integer_pow(x, 0) + ops.integer_pow(x, -3) + ops.integer_pow(x, 5),
    ],
)
def test_broadcasting_keeps_the_bits(function: Any) -> None:
    x = normal(3, 4)
    for profile in PROFILES:
        agrees(traced(function, x), x, profile=profile)


def test_scalars_stay_arrays_of_rank_zero() -> None:
    x = np.array(0.5, dtype=np.float32)

    def f(v: Any) -> Any:
        w = ops.tanh(v) + 1.0
        return w, ops.reshape(w, (1,)), ops.broadcast_to(w, (3,)), ops.transpose(w), ops.convert(w, "f64"), w > 0.0, v

    for profile in PROFILES:
        agrees(traced(f, x), x, profile=profile)


# -- ownership ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("profile", PROFILES)
def test_results_share_memory_with_nothing(profile: Profile) -> None:
    constant = normal(3, 4, seed=7)

    def f(x: Any, y: Any) -> Any:
        z = x + y
        return (
            x,
            ops.reshape(x, (4, 3)),
            ops.transpose(x),
            ops.stop_gradient(y),
            ops.slice_(x, (0, 0), (2, 4)),
            ops.reverse(x, 0),
            ops.broadcast_to(ops.slice_(x, (0, 0), (1, 4)), (3, 4)),
            ops.constant(constant),
            ops.transpose(ops.constant(constant)),
            ops.full((3, 4), 2.0),
            ops.iota((3, 4)),
            z,
            ops.transpose(z),
            ops.reshape(z, (12,)),
            z,
            ops.broadcast_to(ops.sum(z, 0), (3, 4)),
            ops.take(x, np.array([0, 1, 2])),
            ops.convert(ops.convert(x, "f32"), "f32"),
            ops.integer_pow(x, 1),
            ops.sum(x, ()),
        )

    x, y = normal(3, 4), normal(3, 4, seed=1)
    before = x.copy(), y.copy()
    made = agrees(traced(f, x, y), x, y, profile=profile)
    results = made.call(x, y)
    assert len(results) == 20
    for position, result in enumerate(results):
        assert result.flags.writeable, position
        assert not np.shares_memory(result, x), position
        assert not np.shares_memory(result, y), position
        for other in results[position + 1 :]:
            assert not np.shares_memory(result, other), position
    for result in results:
        result[...] = 0
    assert same_bits(x, before[0])
    assert same_bits(y, before[1])
    for again, want in zip(made.call(x, y), denote(made.plan.graph, [x, y]), strict=True):
        np.testing.assert_allclose(again, want, rtol=1e-6)


def test_read_only_arguments_are_enough() -> None:
    x = normal(3, 4)
    x.flags.writeable = False
    agrees(traced(lambda v: (v + v, ops.sum(v), ops.relu(v), ops.transpose(v) * 2.0), x), x)


def test_arguments_of_other_types_are_refused_when_checked() -> None:
    made = executable(traced(lambda x: x + x, normal(3), name="double"))
    with pytest.raises(BindError) as refused:
        made.checked(normal(4))
    assert str(refused.value) == (
        "the arguments of double have other types than it was planned for\n"
        "  expected: f32[3]\n"
        "  got:      f32[4]\n"
        "  fix:      lower the function again for these types"
    )


def wide_exp() -> CapsuleModule:
    """A module whose exp gives float64 for float32."""
    held = next(made for made in reference.MODULE.capsules if made.op is EXP)
    handler = replace(held.handler, provider="wide", make=lambda params, types: lambda x: np.exp(x, dtype=np.float64))
    return tried(
        CapsuleModule(name="wide", capsules=(replace(held, provider="wide", handler=handler),), probe=always_available)
    )


WIDE_EXP = (
    "{} returned another type than it was bound for\n"
    "  expected: f32[3]\n"
    "  got:      float64[3]\n"
    "  fix:      correct the kernel; `torchlean evidence run --capsule {}` tries it"
)


def test_results_of_other_types_are_refused_when_checked_and_name_their_capsule() -> None:
    profile = profiles.reference_cpu.with_modules(wide_exp())
    made = Executable(accept(plan(traced(lambda x: (x + x, ops.exp(x)), normal(3)), profile)))
    with pytest.raises(InternalError) as refused:
        made.checked(normal(3))
    assert str(refused.value).splitlines()[:4] == WIDE_EXP.format("wide.exp", "wide.exp").splitlines()


def test_a_session_refuses_them_at_once() -> None:
    with (
        tl.Session(profiles.reference_cpu.with_modules(wide_exp())) as session,
        pytest.raises(InternalError) as refused,
    ):
        ops.exp(session.array(normal(3)))
    assert str(refused.value).splitlines()[:4] == WIDE_EXP.format("wide.exp", "wide.exp").splitlines()


def test_floating_point_warnings_are_silent_inside_and_as_before_outside() -> None:
    made = executable(traced(lambda x: x / ops.sub(x, x), normal(3)))
    with np.errstate(all="raise"):
        assert not np.isfinite(made.call(np.ones(3, dtype=np.float32))[0]).any()
        with pytest.raises(FloatingPointError):
            np.ones(1) / np.zeros(1)


# -- random programs ---------------------------------------------------------------------------------------------------
UNARY = (ops.tanh, ops.neg, ops.abs, ops.relu, lambda v: v * 0.5, lambda v: 1.0 - v, ops.stop_gradient, ops.sign)
BINARY = (ops.add, ops.sub, ops.mul, ops.max, ops.min, lambda a, b: ops.select(a > b, a, b))


def random_program(rng: np.random.Generator) -> Any:
    """Thirty steps over a pool of [4, 3] values: pointwise ops, views, reductions spread back, products."""
    plan_of = [(int(rng.integers(0, 8)), int(rng.integers(0, 1000)), int(rng.integers(0, 1000))) for _ in range(30)]
    returned = [int(rng.integers(0, 1000)) for _ in range(4)]

    def f(x: Any, y: Any) -> Any:
        pool = [x, y]
        for kind, i, j in plan_of:
            a, b = pool[i % len(pool)], pool[j % len(pool)]
            if kind < 2:
                made = UNARY[i % len(UNARY)](a)
            elif kind < 4:
                made = BINARY[j % len(BINARY)](a, b)
            elif kind == 4:
                made = ops.transpose(ops.reshape(a, (3, 4)))
            elif kind == 5:
                made = ops.broadcast_to(ops.sum(a, 0), (4, 3)) if i % 2 else ops.broadcast(ops.amax(a, 1), (4, 3), (0,))
            elif kind == 6:
                made = a * ops.broadcast_to(ops.sum(b, 0) * 0.1, (4, 3))
            else:
                made = ops.matmul(a, ops.matmul(ops.transpose(a), b) * 0.01)
            pool.append(ops.clamp(made, -4.0, 4.0) if j % 3 == 0 else made)
        return [pool[i % len(pool)] for i in returned]

    return f


@pytest.mark.parametrize("seed", range(150))
def test_random_programs_have_the_bits_of_their_definitions(seed: int) -> None:
    x, y = normal(4, 3, seed=seed), normal(4, 3, seed=seed + 1000)
    graph = traced(random_program(np.random.default_rng(seed)), x, y)
    before = x.copy(), y.copy()
    made = executable(graph)
    wants = denote(graph, [x, y])
    for got, want in zip(made.checked(x, y), wants, strict=True):
        assert same_bits(got, want), seed
    assert same_bits(x, before[0])
    assert same_bits(y, before[1])
    for got in made.call(x, y):
        assert not np.shares_memory(got, x)


# -- expressions -------------------------------------------------------------------------------------------------------
def test_an_expression_names_only_what_it_was_given() -> None:
    written = Expression("dot({0}, {1}.T).dot(dot2)", {"dot": np.dot, "dot2": 2})
    shown: list[Any] = []

    def rename(meaning: Any) -> str:
        shown.append(meaning)
        return f"k{len(shown)}"

    assert written.text(["v3", "v7"], rename) == "k1(v3, v7.T).dot(k2)"
    assert shown == [np.dot, 2]
    x, y = normal(2, 3), normal(4, 3, seed=1)
    assert same_bits(Expression("dot({0}, {1}.T)", {"dot": np.dot}).function(2)(x, y), np.dot(x, y.T))
    with pytest.raises(NameError):
        Expression("open({0})", {}).function(1)("file")


def test_equal_calls_share_one_kernel() -> None:
    made = executable(traced(lambda x, y: (ops.matmul(x, y), ops.matmul(y, x)), normal(3, 3), normal(3, 3, seed=1)))
    assert len({line.split("(")[0].split(" = ")[1] for line in body_of(made) if "matmul" in line}) == 1
    assert reference.MODULE.name == "reference"


def test_a_name_with_a_zero_byte_is_no_trouble() -> None:
    agrees(traced(lambda x: ops.tanh(x), normal(3), name="a\0b"), normal(3))
