"""What is shown of a program on XLA: StableHLO, that jax's own parser accepts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from backends.xla.kit import REFERENCE, XLA

import torchlean as tl
from torchlean import ops
from torchlean.backends import numpy as numpy_provider
from torchlean.errors import ConfigError
from torchlean.ir.ops.elementwise import EXP

X = np.ones((4, 3), np.float32)


def network(x: Any) -> Any:
    return ops.softmax(x @ ops.transpose(x))


def test_a_program_on_xla_has_a_stablehlo_text() -> None:
    text = tl.lower(network, X, profile=XLA).as_text(dialect="stablehlo")
    assert text.startswith("module @jit_group")
    assert "stablehlo.dot_general" in text
    assert "tensor<4x3xf32>" in text
    assert text.count("func.func public @main") == 1


def test_groups_around_a_step_of_another_provider_are_numbered() -> None:
    exponentials = replace(
        numpy_provider.MODULE, capsules=tuple([c for c in numpy_provider.MODULE.capsules if c.op is EXP])
    )
    made = tl.lower(lambda x: ops.exp(x * 2) + 1, X, profile=XLA.with_modules(exponentials))
    assert [step.capsule.provider for step in made.plan.steps].count("numpy") == 1
    first, second = made.as_text("stablehlo").split("// group 2 of 2\n")
    assert first.startswith("// group 1 of 2\nmodule")
    assert "stablehlo.multiply" in first
    assert "stablehlo.add" in second
    np.testing.assert_allclose(np.asarray(made(X)), np.exp(X * 2) + 1, rtol=1e-6)


def test_groups_inside_a_loop_of_the_host_are_listed() -> None:
    def body(c: Any, x: Any) -> tuple[Any, Any]:
        tl.debug.check(ops.all(x > 0), "positive")
        return ops.tanh(c) + x, None

    text = tl.lower(lambda c, xs: tl.scan(body, c, xs)[0], X[0], X, profile=XLA).as_text("stablehlo")
    assert "stablehlo.tanh" in text
    assert "stablehlo.while" not in text


def test_a_program_without_xla_has_none() -> None:
    made = tl.lower(network, X, profile=REFERENCE)
    with pytest.raises(ConfigError) as caught:
        made.as_text("stablehlo")
    assert str(caught.value).splitlines()[:4] == [
        "network has no StableHLO text: none of its steps runs on XLA",
        "  expected: a step of the provider xla",
        "  got:      profile reference_cpu: reference",
        "  fix:      lower it with a profile that has the module torchlean.backends.xla.MODULE",
    ]
