"""Operands nobody reads again are written over: intermediates between groups, and arguments that callers give up."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from backends.xla.kit import REFERENCE, XLA

import torchlean as tl
from torchlean import ops
from torchlean.backends import accept, plan, reference, xla
from torchlean.backends.donation import LEAST, DonatingGroup, of_use
from torchlean.backends.grouping import units
from torchlean.errors import CheckFailed, ConfigError, HandleError, PlanRejected, StructureError, TypeRuleError
from torchlean.ir.ops.elementwise import SIN

P = np.linspace(-1, 1, 300 * 300).reshape(300, 300)
X = np.cos(P)
SIZE = P.nbytes


def step(params: Any, x: Any) -> Any:
    return {"w": ops.tanh(params["w"] * 2) + x, "n": params["n"] + 1}, ops.sum(x)


def params() -> Any:
    return {"w": P, "n": np.float64(0)}


def memory(x: Any) -> int:
    return int(x.numpy().ctypes.data)


def donated(made: Any) -> list[tuple[str, ...]]:
    groups = [unit.group for unit in units(made.plan)]
    return [tuple([f"%{id}" for id in group.donated]) for group in groups if isinstance(group, DonatingGroup)]


def peak(made: Any) -> int:
    """What the executables hold at most, as XLA says."""
    fused: list[Any] = [unit.grouper.fuse(unit.group) for unit in units(made.plan) if unit.group and unit.grouper]
    held = [one.built.compiled().memory_analysis() for one in fused]
    return sum(
        [
            one.argument_size_in_bytes + one.output_size_in_bytes + one.temp_size_in_bytes - one.alias_size_in_bytes
            for one in held
        ]
    )


def test_a_donated_argument_is_written_over_and_released() -> None:
    plain = tl.lower(step, params(), X, profile=XLA)
    made = tl.lower(step, params(), X, profile=XLA, donate_argnums=0)
    assert made.plan.donated == (0, 1)
    assert "donated: %0, %1" in str(made.plan)
    assert made.as_json()["plan"]["donated"] == [0, 1]
    assert donated(made) == [("%1",)]  # the number is too small
    assert peak(made) == peak(plain) - SIZE
    assert "donated" not in str(plain.plan)

    first, _ = made(params(), X)  # NumPy arrays are the caller's
    np.testing.assert_array_equal(params()["w"], P)
    where, number = memory(first["w"]), first["n"]
    second, total = made(first, X)
    assert memory(second["w"]) == where
    for released in (first["w"], number):
        with pytest.raises(HandleError, match="a buffer was used after its release"):
            released.numpy()
    with pytest.raises(HandleError, match="a buffer was used after its release"):
        made(first, X)
    wanted, _ = plain(plain(params(), X)[0], X)
    np.testing.assert_array_equal(second["w"].numpy(), wanted["w"].numpy())
    assert float(second["n"]) == 2
    np.testing.assert_allclose(float(total), np.sum(X))


def test_memory_that_others_see_is_not_written_over() -> None:
    made = tl.lower(step, params(), X, profile=XLA, donate_argnums=(0,))
    first, _ = made(params(), X)
    seen = first["w"].numpy()
    before, where = seen.copy(), memory(first["w"])
    second, _ = made(first, X)
    np.testing.assert_array_equal(seen, before)
    assert memory(second["w"]) != where
    with pytest.raises(HandleError):
        first["w"].numpy()


def test_a_numpy_array_an_executable_made_stays_the_callers() -> None:
    """It would go in as the jax array it was, and be written over."""
    made = tl.lower(lambda p, x: p + x, P, X, profile=XLA, donate_argnums=0)
    (mine,) = tl.lower(lambda p: p * 2, P, profile=XLA).executable.call(P)
    for _ in range(2):
        np.testing.assert_array_equal(made(mine, X).numpy(), P * 2 + X)
        np.testing.assert_array_equal(mine, P * 2)


def test_an_array_is_donated_once() -> None:
    made = tl.lower(lambda p, x: p + x, P, X, profile=XLA, donate_argnums=0)
    p = made(P, X)
    with pytest.raises(HandleError, match=r"args\[0\] is donated and given a second time") as refused:
        made(p, p)
    assert "got:      args[0], args[1]" in str(refused.value)
    np.testing.assert_array_equal(p.numpy(), P + X)  # it was not released


def test_what_is_refused_is_not_released() -> None:
    made = tl.lower(lambda p, x: p + x, P, X, profile=XLA, donate_argnums=0)
    p = made(P, X)
    with pytest.raises(TypeRuleError):
        made(p, np.ones(3))
    with pytest.raises(StructureError):
        made()
    np.testing.assert_array_equal(p.numpy(), P + X)


def test_an_array_is_released_when_its_program_fails_after_it_began() -> None:
    """Its memory may be gone by then: the first group has written over it."""
    source = tl.lower(lambda x: x * 1 + 0.5, P, profile=XLA)

    def checked(p: Any) -> Any:
        q = ops.tanh(p) * 2
        tl.debug.check(ops.sum(q) < -1e9, "the sum is {}", ops.sum(q))
        return q + 1

    for profile in (XLA, REFERENCE):
        made = tl.lower(checked, P, profile=profile, donate_argnums=0)
        p = source(P)
        with pytest.raises(CheckFailed):
            made(p)
        with pytest.raises(HandleError):
            p.numpy()
        with pytest.raises(HandleError):
            made(p)


def test_a_program_that_calls_itself_from_the_host_releases_both() -> None:
    depth: list[Any] = []

    def watched(p: Any) -> Any:
        tl.debug.print("{}", ops.sum(p))
        return ops.tanh(p)

    made = tl.lower(watched, P, profile=XLA, donate_argnums=0)
    inner, outer = tl.lower(lambda x: x + 1, P, profile=XLA)(P), tl.lower(lambda x: x + 2, P, profile=XLA)(P)

    class Out:
        def write(self, text: str) -> None:
            if not depth:
                depth.append(1)
                made(inner)

        def flush(self) -> None: ...

    with contextlib.redirect_stdout(Out()):  # type: ignore[type-var]
        made(outer)
    for given in (inner, outer):
        with pytest.raises(HandleError):
            given.numpy()


def test_a_difference_of_plans_names_what_is_donated() -> None:
    plain, given = (tl.lower(step, params(), X, profile=XLA, donate_argnums=at) for at in ((), 0))
    assert "donated" in str(plain.diff(given))
    assert "donated" not in str(given.diff(given))


def test_jit_donates_too_on_every_provider_and_beside_static_arguments() -> None:
    f = tl.jit(lambda n, p, x: p * n + x, profile=XLA, static_argnums=0, donate_argnums=1)
    p = f(2.0, P, X)
    where = memory(p)
    q = f(2.0, p, X)
    assert memory(q) == where
    np.testing.assert_array_equal(q.numpy(), (P * 2 + X) * 2 + X)
    strict = tl.jit(lambda p, x: p + x, profile=REFERENCE, donate_argnums=0)
    p = strict(P, X)
    strict(p, X)
    with pytest.raises(HandleError):
        p.numpy()
    with pytest.raises(ConfigError, match="argument 0 is donated and static"):
        tl.lower(lambda n, x: x, 1, X, static_argnums=0, donate_argnums=0)
    with pytest.raises(TypeRuleError, match="donate_argnums 5 is no position"):
        tl.lower(lambda x: x, X, donate_argnums=5)


@pytest.mark.parametrize(
    "f",
    [
        lambda p, x: p,  # returned as it is
        lambda p, x: (p.T, p + x),  # a view of it is returned
        lambda p, x: (ops.sum(p), x * 2),  # no result of its type, but x's
        lambda p, x: (p * 2, p * 3, p * 4),
    ],
)
def test_results_are_those_without_donation(f: Any) -> None:
    made, plain = (tl.lower(f, P, X, profile=XLA, donate_argnums=at) for at in ((0,), ()))
    held = tl.lower(lambda p: p * 1, P, profile=XLA)
    for got, want in zip(tl.pytree.leaves(made(held(P), X)), tl.pytree.leaves(plain(P, X)), strict=True):
        np.testing.assert_array_equal(np.asarray(got), np.asarray(want))


def with_sin_elsewhere() -> Any:
    alone = replace(
        reference.MODULE,
        name="sin",
        capsules=tuple([capsule for capsule in reference.MODULE.capsules if capsule.op is SIN]),
    )
    return replace(XLA, modules=(alone, xla.MODULE))


def test_intermediates_between_groups_are_donated_where_they_die() -> None:
    def f(x: Any) -> Any:
        y = ops.tanh(x * 2)
        z = y * ops.sin(ops.sum(y))
        return z * ops.sin(ops.sum(z)) + x

    made = tl.lower(f, P, profile=with_sin_elsewhere())
    names = [id for group in donated(made) for id in group]
    assert len(names) == 2  # y and z; x is the caller's
    assert names[0] != names[1]
    np.testing.assert_allclose(made(P).numpy(), tl.lower(f, P, profile=XLA)(P).numpy(), rtol=1e-12)
    np.testing.assert_allclose(made(P).numpy(), made(P).numpy(), rtol=0)


def test_what_the_host_or_a_later_group_reads_is_kept() -> None:
    def f(x: Any) -> Any:
        y = ops.tanh(x * 2)
        s = ops.sin(y)  # on the host
        z = y * s
        t = ops.sin(ops.sum(z))
        return z * t, y + t

    made = tl.lower(f, P, profile=with_sin_elsewhere())
    assert len([id for group in donated(made) for id in group]) == 1  # z; y is read on the host
    got, want = made(P), tl.lower(f, P, profile=XLA)(P)
    for mine, theirs in zip(got, want, strict=True):
        np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=1e-12)


def test_only_what_a_result_can_take_is_donated() -> None:
    big, small = tl.TensorType((LEAST,), tl.DType.I8), tl.TensorType((LEAST - 1,), tl.DType.I8)
    types = (big, big, small, big, small)
    assert of_use([0, 1, 2], [3, 4], types) == (0,)
    assert of_use([2], [4], types) == ()


def test_a_plan_donates_only_arguments_there_are() -> None:
    graph = tl.make_graph(lambda x: x + 1)(P)
    with pytest.raises(PlanRejected, match="the plan donates arguments at 3, and there are 1"):
        accept(plan(graph, XLA, None, (3,)))
