"""Programs drawn at random, and whole training runs: the same bits from C as from the definitions."""

from __future__ import annotations

from typing import Any

import hypothesis
import numpy as np
import pytest
from backends.compiled.kit import COMPILED, REFERENCE, run
from backends.toolbox import same_bits, traced
from transforms.test_random_programs import Program, ours, programs

import torchlean as tl
from torchlean import ops, optim, pytree
from torchlean.ir.builder import bind1
from torchlean.ir.op import NO_PARAMS
from torchlean.ir.ops.chain import CHAIN_MUL
from torchlean.train.examples import digits_cnn, digits_data, digits_mlp, quickstart_data, quickstart_model

pytestmark = pytest.mark.usefixtures("compiler")

EXAMPLES = 40
STEPS = 200


def _leaves(tree: Any) -> list[Any]:
    return [np.asarray(leaf) for leaf in pytree.flatten(tree)[0]]


@hypothesis.settings(max_examples=EXAMPLES, suppress_health_check=list(hypothesis.HealthCheck))
@hypothesis.given(programs())
def test_a_random_program_and_its_gradient_have_the_same_bits(program: Program) -> None:
    x = np.random.default_rng(program.seed).normal(size=program.shape).astype(np.float32)

    def f(x: Any) -> Any:
        return tl.value_and_grad(lambda x: ops.sum(ours(program, x)))(x)

    compiled, strict = tl.lower(f, x, profile=COMPILED), tl.lower(f, x, profile=REFERENCE)
    for got, want in zip(_leaves(compiled(x)), _leaves(strict(x)), strict=True):
        assert same_bits(got, want)


def trained(profile: Any, model: Any, loss: Any, batches: list[Any], optimizer: Any) -> list[Any]:
    with tl.Session(REFERENCE):
        params = model.init(tl.random.key(0))
        state = optimizer.init(params)

    def step(params: Any, state: Any, x: Any, t: Any) -> Any:
        value, gradient = tl.value_and_grad(lambda p: loss(model(p, x), t))(params)
        new, state = optimizer.update(gradient, state, params)
        return new, state, value

    lowered = tl.lower(step, params, state, *batches[0], profile=profile)
    if profile is COMPILED:
        assert {each.capsule.provider for each in lowered.plan.steps} == {"compiled"}
    losses = []
    for number in range(STEPS):
        params, state, value = lowered(params, state, *batches[number % len(batches)])
        losses.append(np.asarray(value))
    assert np.mean(losses[-20:]) < np.mean(losses[:20])
    return [*_leaves(params), *_leaves(state), *losses]


def batches_of(data: Any, size: int) -> list[Any]:
    """Full batches in order."""
    return [(data.inputs[at : at + size], data.targets[at : at + size]) for at in range(0, len(data) - size + 1, size)]


def digits(images: bool) -> list[Any]:
    return batches_of(digits_data(2026, images=images)[0], 64)


RUNS = {
    "quickstart, one sample a step": (quickstart_model, ops.mse_loss, lambda: batches_of(quickstart_data(), 1), 0.03),
    "quickstart, all at once": (quickstart_model, ops.mse_loss, lambda: batches_of(quickstart_data(), 25), 0.03),
    "digits": (digits_mlp, ops.cross_entropy, lambda: digits(False), 0.003),
    "digits with convolutions": (digits_cnn, ops.cross_entropy, lambda: digits(True), 0.003),
}


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] if "conv" in n else []) for n in RUNS])
def test_training_has_the_same_bits_after_200_steps(name: str) -> None:
    model, loss, batches, rate = RUNS[name]
    results = [trained(profile, model(), loss, batches(), optim.Adam(rate)) for profile in (COMPILED, REFERENCE)]
    compiled, strict = results
    assert len(compiled) == len(strict)
    assert [same_bits(a, b) for a, b in zip(compiled, strict, strict=True)] == [True] * len(strict)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("slope", [0.17677669, -3.0, 0.0, -0.0, 1e-30, np.inf, np.nan])
def test_the_zeros_of_the_policy_hold_for_slopes_that_are_written_as_numbers(dtype: Any, slope: float) -> None:
    t = np.array([0.0, -0.0, 1.0, -2.5, 1e-38, np.inf, -np.inf, np.nan], dtype)
    same = dtype(slope)
    graph = traced(lambda t: bind1(CHAIN_MUL, NO_PARAMS, t, ops.full(t.shape, float(same), t.dtype)), t)
    many = traced(lambda t, s: bind1(CHAIN_MUL, NO_PARAMS, t, s), t, np.full(t.shape, same))
    want = run(graph, [t], REFERENCE)[0]
    assert same_bits(run(graph, [t])[0], want)
    assert same_bits(run(many, [t, np.full(t.shape, same)])[0], want)
