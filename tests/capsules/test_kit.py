"""The conformance kit: a planted lie is caught by the contract it breaks; honest and maintained modules keep all."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from capsules.lies import FOLD, FREE, HONEST, LIES, Lie, capsule, folded, pairwise

from torchlean.backends import Reduction, Relative, profiles
from torchlean.conformance.kit import run_capsule, run_module
from torchlean.conformance.kit.bounds import different_bits, ulp_distance
from torchlean.conformance.kit.calls import calls_of, defined
from torchlean.conformance.kit.probes import meeting_sizes, sums_of, tree_of, tree_text
from torchlean.conformance.samples.cases import KIT_CASES
from torchlean.conformance.samples.draw import Sample
from torchlean.errors import ConfigError
from torchlean.evidence.claim import CLAIMS
from torchlean.ir.op import NO_PARAMS, Op
from torchlean.ir.ops.elementwise import EXP, NEG
from torchlean.ir.ops.loss import CROSS_ENTROPY
from torchlean.ir.ops.spread import REDUCE_SUM

MAINTAINED = [
    pytest.param(module, made, id=made.name, marks=[pytest.mark.slow] if module.name == "xla" else [])  # all compile
    for module in {module.name: module for profile in profiles.MAINTAINED for module in profile.modules}.values()
    for made in module.capsules
]


def test_the_number_of_lies_is_known(root: Path) -> None:
    assert len(LIES) == len({lie.name for lie in LIES}) == 28
    assert len(MAINTAINED) >= 170
    assert {claim for lie in LIES for claim in lie.broken} == set(CLAIMS)
    assert f"holds {len(LIES)} capsules that lie" in (root / "docs" / "conformance.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("lie", "quick"),
    [
        pytest.param(lie, quick, id=f"{lie.name}{', quick' * quick}")
        for lie in LIES
        for quick in (False, True)[: 1 + lie.quick]
    ],
)
def test_a_lie_is_caught_by_the_contract_it_breaks(lie: Lie, quick: bool) -> None:
    outcomes = run_capsule(lie.capsule, module=lie.module, quick=quick)
    assert [outcome.claim for outcome in outcomes] == list(CLAIMS)
    broken = tuple([outcome.claim for outcome in outcomes if not outcome.passed])
    assert broken == lie.broken, [failure for outcome in outcomes for failure in outcome.failures]
    told = [failure for outcome in outcomes for failure in outcome.failures]
    assert any(lie.told in failure for failure in told), told


def test_an_honest_module_keeps_every_contract() -> None:
    outcomes = list(run_module(HONEST))
    assert len(outcomes) == 4 * len(HONEST.capsules) == 28
    assert [outcome.failures for outcome in outcomes if not outcome.passed] == []
    assert min([outcome.cases for outcome in outcomes if outcome.claim != "vjp"]) >= 20


@pytest.mark.parametrize(("module", "made"), MAINTAINED)
def test_the_maintained_capsules_keep_every_contract(module: Any, made: Any) -> None:
    missing = module.probe()
    if missing is not None:
        pytest.skip(f"{module.name} cannot run here: {missing}")
    outcomes = run_capsule(made, module=module)
    assert [outcome.failures for outcome in outcomes if not outcome.passed] == []


def test_a_failure_says_where_what_and_how_to_mend_it() -> None:
    lie = next(lie for lie in LIES if lie.name == "a bound of 1 ulp, 4 off")
    outcome = run_capsule(lie.capsule, module=lie.module)[2]
    first = next(calls_of(EXP, KIT_CASES))
    want = defined(EXP, first.params, first.arrays)[0][0, 0]
    assert outcome.failures[0].splitlines() == [
        "liar.exp value: lies outside the claimed bound (exp-f64[3,5] (f64[3,5]))",
        f"  expected: {want!r} at [0, 0], 1 ulp",
        f"  got:      {want + 4 * np.spacing(want)!r}, 4 ulp away",
        "  fix:      correct the kernel, or claim the bound it keeps",
    ]
    assert re.search(r"  … and \d+ failures more$", outcome.failures[-1])
    assert (outcome.worst, outcome.unit, outcome.tolerance) == (4.0, "ulp", "1 ulp")
    counted = dict(outcome.histogram)
    assert counted["3-4"] > 10
    assert sum(counted.values()) <= outcome.cases
    assert outcome.tests == ("torchlean.conformance.kit::liar.exp::value",)


def test_a_kernel_that_writes_to_operands_leaves_the_samples_alone() -> None:
    lie = next(lie for lie in LIES if lie.name == "an operand written to")
    before = [trial.arrays[0].copy() for trial in calls_of(NEG, KIT_CASES)]
    run_capsule(lie.capsule, module=lie.module)
    after = [trial.arrays[0] for trial in calls_of(NEG, KIT_CASES)]
    assert not any(different_bits(x, y).any() for x, y in zip(before, after, strict=True))


# -- ops the kit does not know -----------------------------------------------------------------------------------------
def twice() -> Op:
    return Op(
        "twice",
        NEG.params,
        NEG.type_rule,
        lambda algebra, params, x: (algebra.add(x, x),),
        NEG.diff,
        NEG.batch,
        False,
        "",
    )


def test_an_op_without_a_sample_cannot_be_tried() -> None:
    unknown = capsule(twice(), lambda params, x: x + x)
    with pytest.raises(ConfigError) as refused:
        run_capsule(unknown)
    assert str(refused.value).splitlines() == [
        "the conformance kit has no sample of twice, so liar.twice cannot be tried",
        "  expected: a sample or a call of every op a module serves",
        "  got:      none",
        "  fix:      name a tuple of samples: `SAMPLES` beside the module, or run_capsule(…, cases=…)",
    ]


def test_samples_may_be_brought_along() -> None:
    op = twice()
    cases = [Sample(op, NO_PARAMS, (np.linspace(-1, 1, 7, dtype=np.float32),), "f32[7]", False)]
    right = run_capsule(capsule(op, lambda params, x: x + x), cases=cases)
    assert [outcome.passed for outcome in right[:3]] == [True] * 3
    wrong = run_capsule(capsule(op, lambda params, x: x + x + x.dtype.type(1e-3)), cases=cases)
    assert [outcome.passed for outcome in wrong[:3]] == [True, True, False]


# -- measures ----------------------------------------------------------------------------------------------------------
def test_distances_are_counted_on_the_line_of_all_floats() -> None:
    for dtype in (np.float16, np.float32, np.float64):
        one, tiny = dtype(1), np.finfo(dtype).smallest_subnormal
        x = np.array([one, -one, tiny, 0.0, np.nan, np.nan, np.inf, -0.0], dtype)
        y = np.array([np.nextafter(one, dtype(2)), -one, -tiny, tiny, np.nan, 1, np.inf, 0.0], dtype)
        assert ulp_distance(x, y).tolist() == [1, 0, 2, 1, 0, np.inf, 0, 0]
    assert ulp_distance(np.array([1 + 2j]), np.array([1 + np.nextafter(2, 3) * 1j])).tolist() == [1]
    assert ulp_distance(np.array([1]), np.array([2])) is None
    assert ulp_distance(np.array(np.float32(1)), np.array(np.float32(1))).shape == ()


@pytest.mark.parametrize(
    ("kernel", "order"),
    [
        (folded, "((((((((0+1)+2)+3)+4)+5)+6)+7)+8)"),
        (lambda params, x: folded(params, x[::-1]), "(0+(1+(2+(3+(4+(5+(6+(7+8))))))))"),
        (pairwise, "((((0+1)+(2+3))+((4+5)+(6+7)))+8)"),
    ],
)
def test_the_order_of_additions_is_read_off(kernel: Any, order: str) -> None:
    """NumPy adds eight or more terms of a vector in eight columns."""
    made = capsule(REDUCE_SUM, kernel, Relative(1.0), numerics=FREE)
    assert tree_text(tree_of(meeting_sizes(made, sums_of(REDUCE_SUM)[0], np.float32, 9))) == order


def test_a_fixed_tree_is_accepted_as_what_it_is() -> None:
    """Right to left: one order, and not the left fold."""
    backwards = capsule(
        REDUCE_SUM,
        lambda params, x: folded(params, np.flip(x, params.axes)),
        Relative(1.0),
        numerics=replace(FOLD, reduction=Reduction.FIXED_TREE),
    )
    outcomes = run_capsule(backwards)
    assert [outcome.failures for outcome in outcomes if not outcome.passed] == []
    lying = replace(backwards, numerics=FOLD)
    assert "got:      (0+(1+(2+(3" in run_capsule(lying)[2].failures[0]


def test_every_call_of_a_gradient_is_found() -> None:
    """Each operand alone and all together, with the operands the definition computes for it."""
    names = [trial.name for trial in calls_of(CROSS_ENTROPY.gradient, KIT_CASES)]
    assert len(names) == len(set(names)) >= 10
    assert all(name.startswith("VJP of cross_entropy-") for name in names)
