"""Programs drawn at random, and whole training runs: the same bits from C as from the definitions."""

from __future__ import annotations

from typing import Any

import hypothesis
import numpy as np
import pytest
from backends.compiled.kit import COMPILED, REFERENCE
from backends.toolbox import same_bits
from transforms.test_random_programs import Program, ours, programs

import torchlean as tl
from torchlean import nn, ops, optim, pytree

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


def trained(profile: Any, model: Any, loss: Any, x: Any, t: Any, optimizer: Any) -> list[Any]:
    with tl.Session(REFERENCE):
        params = model.init(tl.random.key(0))
        state = optimizer.init(params)

    def step(params: Any, state: Any, x: Any, t: Any) -> Any:
        value, gradient = tl.value_and_grad(lambda p: loss(model(p, x), t))(params)
        new, state = optimizer.update(gradient, state, params)
        return new, state, value

    lowered = tl.lower(step, params, state, x, t, profile=profile)
    losses = []
    for _ in range(STEPS):
        params, state, value = lowered(params, state, x, t)
        losses.append(np.asarray(value))
    assert losses[-1] < losses[0]
    return [*_leaves(params), *_leaves(state), *losses]


RUNS = {
    "2-8-1, Adam": (nn.Sequential(nn.Linear(2, 8), nn.tanh, nn.Linear(8, 1)), ops.mse_loss, 25, 2, 1, optim.Adam(0.01)),
    "64-128-10, SGD": (
        nn.Sequential(nn.Linear(64, 128), nn.relu, nn.Linear(128, 10)),
        ops.cross_entropy,
        64,
        64,
        10,
        optim.SGD(0.05),
    ),
}


@pytest.mark.parametrize("name", RUNS)
def test_training_has_the_same_bits_after_200_steps(name: str) -> None:
    model, loss, batch, inner, outer, optimizer = RUNS[name]
    rng = np.random.default_rng(7)
    x = rng.normal(size=(batch, inner)).astype(np.float32)
    t = rng.integers(0, outer, batch).astype(np.int32) if outer > 1 else rng.normal(size=(batch, 1)).astype(np.float32)
    compiled = trained(COMPILED, model, loss, x, t, optimizer)
    strict = trained(REFERENCE, model, loss, x, t, optimizer)
    assert len(compiled) == len(strict)
    assert [same_bits(a, b) for a, b in zip(compiled, strict, strict=True)] == [True] * len(strict)
