"""The arithmetic of docs/scale.md: against whole traced steps of small models, and against the page."""

from __future__ import annotations

import importlib.util
import sys
from math import prod
from pathlib import Path
from typing import Any

import pytest

import torchlean as tl
from torchlean import pytree


@pytest.fixture(scope="module")
def scale(root: Path) -> Any:
    spec = importlib.util.spec_from_file_location("torchlean_scale", root / "benchmarks/scale.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules["torchlean_scale"] = made  # dataclasses look their module up
    spec.loader.exec_module(made)
    return made


def small(scale: Any, layers: int) -> Any:
    return scale.Model(layers=layers, width=16, heads=4, hidden=24, vocabulary=40, time=6, dtype="f32")


@pytest.mark.parametrize("layers", [1, 3])
def test_a_model_put_together_costs_what_the_whole_traced_step_costs(scale: Any, layers: int) -> None:
    model, run = small(scale, layers), scale.Run(micro=2, times=1, data=1, model=1)
    table, ends = scale.end_types(model, 1)
    params = (table, [scale.layer_types(model, 1)] * layers, ends)
    tokens, wanted = (tl.TensorType((2, 6, *more), tl.DType.I32) for more in ((), (1,)))

    def step(params: Any, tokens: Any, wanted: Any) -> Any:
        def loss(params: Any) -> Any:
            x = scale.embedding(params[0], tokens)
            for one in params[1]:
                x = scale.layer(one, x, model.heads)
            return scale.loss(params[2], x, wanted)

        return tl.value_and_grad(loss)(params)

    whole = scale.counted(step, params, tokens, wanted)
    made = scale.paper(model, run, recompute=False)
    shared = layers * 2 * 6  # a number per token, 1 / n of the means of norms, which the whole computes once
    assert made.flops == made.flops_of_all == whole.flops + shared
    assert made.parameters == made.held == sum([held.size for held in pytree.leaves(params)])
    assert made.bytes["parameters"] == made.bytes["gradients"] == sum([held.nbytes for held in pytree.leaves(params)])
    assert made.bytes["optimizer state"] == 12 * made.held
    assert made.exchanges == ()


def test_products_cost_what_one_counts_by_hand(scale: Any) -> None:
    model, run = small(scale, 1), scale.Run(micro=2, times=1, data=1, model=1)
    made = scale.traced(model, run)
    products = sum([step.flops for step in made.layer.steps if step.op in ("matmul", "dot_general")])
    rows, width, hidden = 2 * 6, 16, 24
    forward = 2 * rows * (4 * width**2 + 3 * width * hidden) + 2 * 2 * 2 * 6 * 6 * width
    assert products == 3 * forward
    assert sum([step.flops for step in made.forward.steps if step.op in ("matmul", "dot_general")]) == forward


def test_recomputing_costs_a_forward_pass_and_keeps_inputs_only(scale: Any) -> None:
    model, run = small(scale, 3), scale.Run(micro=2, times=5, data=1, model=1)
    kept, again = (scale.paper(model, run, recompute=recompute) for recompute in (False, True))
    assert again.flops - kept.flops == 5 * 3 * scale.traced(model, run).forward.flops
    assert again.bytes["activations kept between layers"] == 3 * prod((2, 6, 16, 4))
    assert kept.bytes["activations kept between layers"] > 3 * prod((2, 6, 16, 4))


def test_cutting_a_model_divides_its_products(scale: Any) -> None:
    model = small(scale, 2)
    one = scale.paper(model, scale.Run(micro=1, times=1, data=1, model=1))
    four = scale.paper(model, scale.Run(micro=1, times=1, data=2, model=4))
    whole = 2 * 2 * model.width + model.width  # the gains of norms are on every device
    assert 4 * (four.held - whole) == one.held - whole
    assert one.flops < 4 * four.flops < 1.3 * one.flops  # norms are computed on every device
    assert four.flops_of_all == 8 * four.flops
    assert [one.what for one in four.exchanges][-1] == "gradients"
    assert four.exchanges[-1].bytes == four.bytes["gradients"]


def test_the_page_shows_what_the_script_prints(scale: Any, root: Path) -> None:
    page = (root / "docs/scale.md").read_text()
    assert scale.paper(scale.SEVEN_B, scale.ON_256).text() in page
