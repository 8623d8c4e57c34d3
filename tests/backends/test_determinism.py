"""Levels of determinism and required orders: enforced by planning and, from the plan alone, by acceptance."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from backends.plan_programs import W, X, layer, loop, loss, still
from backends.toolbox import same_bits, tried

import torchlean as tl
from torchlean import ops, profiles
from torchlean.backends import (
    Capsule,
    CapsuleModule,
    Determinism,
    Plan,
    Reduction,
    Repeats,
    accept,
    always_available,
    plan,
    reference,
)
from torchlean.backends import numpy as numpy_provider
from torchlean.backends.plan import all_steps
from torchlean.errors import ConfigError, PlanRejected
from torchlean.ir.ops.dot import DOT_GENERAL

FAST = still(profiles.numpy_cpu)
ONLY_FAST = replace(FAST, name="only_fast", modules=FAST.modules[:1])
PRODUCT = next(made for made in reference.MODULE.capsules if made.op is DOT_GENERAL)


def with_product(**numerics: Any) -> Any:
    """The fast profile whose first matmul has other numerical facts; the strict one is gone."""
    made = replace(
        PRODUCT,
        provider="theirs",
        handler=replace(PRODUCT.handler, provider="theirs"),
        numerics=replace(PRODUCT.numerics, **numerics),
    )
    rest = [
        replace(module, capsules=tuple([c for c in module.capsules if c.op is not DOT_GENERAL]))
        for module in FAST.modules
    ]
    mine = tried(CapsuleModule(name="theirs", capsules=(made,), probe=always_available))
    return replace(FAST, name="mixed", modules=(mine, *rest))


def graph(f: Any = layer) -> Any:
    return tl.make_graph(f)(W, X)


@pytest.mark.parametrize("f", [layer, loop, tl.value_and_grad(loss)])
def test_bitwise_plans_hold_fixed_orders_only(f: Any) -> None:
    made = plan(graph(f), FAST.deterministic("bitwise"))
    accept(made)
    orders = {step.capsule.numerics.reduction for step in all_steps(made)}
    assert orders == {Reduction.FIXED_LEFT, Reduction.NOT_APPLICABLE}
    assert "numpy" in {step.capsule.provider for step in all_steps(plan(graph(f), FAST))}


@pytest.mark.parametrize(
    ("order", "admitted"),
    [(Reduction.FIXED_LEFT, True), (Reduction.FIXED_TREE, True), (Reduction.IMPLEMENTATION_DEFINED, False)],
)
def test_a_fixed_tree_is_bitwise_and_an_unknown_order_is_not(order: Reduction, admitted: bool) -> None:
    profile = with_product(reduction=order).deterministic(Determinism.BITWISE)
    if admitted:
        made = accept(plan(graph(), profile)).plan
        assert made.steps[0].capsule.numerics.reduction is order
        return
    with pytest.raises(PlanRejected) as refused:
        plan(graph(), profile)
    assert (
        "    theirs.matmul adds in implementation-defined order, which bitwise determinism excludes, for matmul"
        in str(refused.value).splitlines()
    )
    assert "plan_programs.py:22 in layer" in str(refused.value).splitlines()[0]


@pytest.mark.parametrize(
    ("repeats", "reason"),
    [
        (Repeats.SAME_BITS, None),
        (Repeats.MAY_DIFFER, "gives bits that may differ when it is run again"),
        (Repeats.UNSTATED, "gives bits it does not state when it is run again"),
    ],
)
def test_run_to_run_asks_what_a_capsule_states_of_repeated_runs(repeats: Repeats, reason: str | None) -> None:
    free = with_product(repeats=repeats, reduction=Reduction.IMPLEMENTATION_DEFINED)
    asked = free.deterministic("run-to-run")
    if reason is None:
        accept(plan(graph(), asked))
        return
    with pytest.raises(PlanRejected, match=reason):
        plan(graph(), asked)
    made = plan(graph(), free)
    text = rejected(Plan(graph=made.graph, profile=asked, steps=made.steps, expansions=made.expansions))
    assert text == [f"theirs.matmul {reason}, which run-to-run determinism excludes, for matmul (step %2, {WHERE})"]


WHERE = "plan_programs.py:22 in layer"


def rejected(made: Plan) -> list[str]:
    with pytest.raises(PlanRejected) as refused:
        accept(made)
    return [line.strip() for line in str(refused.value).splitlines()[1:]]


def test_acceptance_names_each_offending_step() -> None:
    """A plan made without the demand, presented as one made under it."""

    def twice(w: Any, x: Any) -> Any:
        return (x @ w).sum() + (x @ w * 2.0).sum()

    made = plan(graph(twice), FAST)
    asked = Plan(graph=made.graph, profile=FAST.deterministic(), steps=made.steps, expansions=made.expansions)
    lines = rejected(asked)
    offending = [step for step in made.steps if step.capsule.numerics.reduction is Reduction.IMPLEMENTATION_DEFINED]
    assert len(lines) == len(offending) == 3
    for line, step in zip(lines, offending, strict=True):
        name, op = step.capsule.name, "matmul" if step.node.op is DOT_GENERAL else step.node.op.name
        assert line == (
            f"{name} adds in implementation-defined order, which bitwise determinism excludes, for {op} "
            f"(step %{step.node.outputs[0]}, {step.node.where})"
        )
        assert "test_determinism.py:" in line


def test_the_demand_reaches_into_loops() -> None:
    made = plan(graph(loop), FAST)
    asked = FAST.deterministic()
    steps = tuple(
        [replace(step, inner=tuple([replace_profile(inner, asked) for inner in step.inner])) for step in made.steps]
    )
    lines = rejected(Plan(graph=made.graph, profile=asked, steps=steps, expansions=made.expansions))
    assert any([line.startswith("numpy.matmul adds in implementation-defined order") for line in lines])


def replace_profile(made: Plan, profile: Any) -> Plan:
    return Plan(graph=made.graph, profile=profile, steps=made.steps, expansions=made.expansions)


def test_without_a_fixed_kernel_there_is_no_bitwise_plan() -> None:
    with pytest.raises(PlanRejected) as refused:
        plan(graph(lambda w, x: x @ w), ONLY_FAST.deterministic())
    assert str(refused.value).splitlines()[0].startswith("no admissible kernel capsule for op matmul on device cpu")


@pytest.mark.parametrize("order", [Reduction.FIXED_LEFT, Reduction.FIXED_TREE])
def test_a_required_order_is_exactly_that_order(order: Reduction) -> None:
    profile = with_product(reduction=Reduction.FIXED_TREE).requiring(order)
    if order is Reduction.FIXED_TREE:
        accept(plan(graph(lambda w, x: x @ w), profile))
        return
    with pytest.raises(PlanRejected, match="adds in fixed-tree order, not fixed-left"):
        plan(graph(lambda w, x: x @ w), profile)


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(ConfigError) as refused:
        FAST.deterministic("always")
    assert str(refused.value).splitlines() == [
        "unknown level of determinism 'always'",
        "  expected: run-to-run or bitwise",
        "  got:      'always'",
        "  fix:      name one of these",
    ]
    assert FAST.deterministic(Determinism.RUN_TO_RUN) == FAST.deterministic("run-to-run")


def test_plans_and_reports_state_the_level() -> None:
    made = plan(graph(), FAST.deterministic())
    assert made.as_json()["determinism"] == "bitwise"
    assert str(made).splitlines()[0].endswith(", bitwise determinism required")


# -- what the maintained capsules state --------------------------------------------------------------------------------
def moved(array: Any, offset: int) -> Any:
    """The same entries elsewhere in memory, aligned to the entry only."""
    raw = np.empty(array.nbytes + 192, np.uint8)
    start = (-raw.ctypes.data) % 64 + offset * array.itemsize
    made = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    made[...] = array
    return made


LARGE: dict[str, tuple[Any, tuple[tuple[int, ...], ...]]] = {
    "products": (lambda a, b: a @ b, ((130, 1000), (1000, 70))),
    "long products": (lambda a, b: a @ b, ((1, 4096), (4096, 300))),
    "batches": (lambda a, b: a @ b, ((6, 40, 64), (6, 64, 33))),
    "sums": (lambda a: (ops.sum(a, (0,)), ops.sum(a, (1,)), a.sum()), ((333, 1001),)),
    "convolutions": (lambda x, w: ops.conv(x, w, padding=1), ((3, 5, 30, 31), (7, 5, 3, 3))),
    "losses": (tl.value_and_grad(lambda w, x: ops.mse_loss(ops.tanh(x @ w), x @ w)), ((77, 50), (200, 77))),
    "factors": (lambda a: (ops.qr(a), ops.svd(a), ops.cholesky(a.T @ a)), ((40, 23),)),
}


@pytest.mark.parametrize("name", LARGE)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_kernels_that_state_same_bits_give_them_wherever_operands_lie(name: str, dtype: Any) -> None:
    f, shapes = LARGE[name]
    rng = np.random.default_rng(11)
    arrays = [rng.normal(size=shape).astype(dtype) for shape in shapes]
    lowered = tl.lower(f, *arrays, profile=FAST)
    assert {step.capsule.numerics.repeats for step in all_steps(lowered.plan)} == {Repeats.SAME_BITS}
    assert "numpy" in {step.capsule.provider for step in all_steps(lowered.plan)}
    call = lowered.executable.call
    first = call(*arrays)
    for offset in (0, 1, 2, 3, 4, 7, 8, 13):
        for results in (call(*[moved(array, offset) for array in arrays]), call(*arrays)):
            assert all([same_bits(one, other) for one, other in zip(first, results, strict=True)]), (name, offset)


def test_every_maintained_capsule_states_what_repeated_runs_give() -> None:
    made: list[Capsule] = [c for module in (reference.MODULE, numpy_provider.MODULE) for c in module.capsules]
    assert len(made) > 150
    assert {capsule.numerics.repeats for capsule in made} == {Repeats.SAME_BITS}
