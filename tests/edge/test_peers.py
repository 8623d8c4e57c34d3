"""The recorded results of JAX are what it gives today, where it is installed and of the recorded version."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import numpy as np
import pytest

from torchlean.conformance.check import Check, agrees
from torchlean.conformance.namespaces import Absent, Jax
from torchlean.conformance.run import CHECKS, peers

RECORDED = [check for check in CHECKS if check.id in peers()["checks"]]
SECOND = ("hessian_norm_sq_1_2_3_symmetric", "prod_pow1_mixed_4th", "d2_x_pow_2_at_0")
# The recorded run measured another function under the same name.
OTHERWISE = (
    "poly_x_pow_arange_at_0",
    "betaln_hess_at_0",
    "hvp_norm_at_0_second_order",
    "xlogy_00_value_grad",
    "sdpa_all_masked_value",
    "sdpa_all_masked_grad_q",
)


def _verdict(check: Check) -> str:
    """✓ or ✗ for value (where no slope is expected) or gradient, in JAX's float32."""
    import jax
    import jax.numpy as jnp

    ns = Jax()

    def f(x: Any) -> Any:
        return check.f(ns, x)

    x = jnp.asarray(check.at.astype(np.float32))
    if check.id in SECOND:
        second = jax.hessian(f)(x)
        symmetric = bool((second == jnp.swapaxes(second, -1, -2)).all()) if second.ndim > 1 else True
        return "✓" if agrees(second, check.second, 1e-4) and symmetric else "✗"
    if check.slope is None:
        return "✓" if agrees(f(x), check.value, 1e-4) else "✗"
    return "✓" if agrees(jax.jacrev(f)(x), check.slope, 1e-4) else "✗"


@pytest.mark.slow
@pytest.mark.parametrize("check", RECORDED, ids=lambda check: check.id)
def test_the_recorded_verdict_on_jax_is_todays(check: Check) -> None:
    recorded = peers()["checks"][check.id]["jax"]
    if version("jax") != peers()["versions"]["jax"]:
        pytest.skip(f"recorded for JAX {peers()['versions']['jax']}, this is {version('jax')}")
    if recorded[0] not in "✓✗" or check.id in OTHERWISE:
        pytest.skip(f"no verdict was recorded: {recorded}")
    try:
        made = _verdict(check)
    except Absent as absent:
        pytest.skip(f"jax has no {absent}")
    assert made == recorded[0], f"recorded {recorded}"
