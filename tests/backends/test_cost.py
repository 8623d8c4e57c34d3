"""What a plan costs: operations against formulas and XLA's count, peak memory against what is measured."""

from __future__ import annotations

import gc
import json
import math
import re
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from backends.plan_programs import W, X, loss, still
from golden_text import require_golden

import torchlean as tl
from torchlean import ops, profiles
from torchlean.backends.strides import contiguous, reshaped
from torchlean.ir import flops
from torchlean.ir.ops import ALL_OPS, CONTROL
from torchlean.ir.ops.composite import Composite

F32 = tl.DType.F32


def t(*shape: int, dtype: tl.DType = F32) -> tl.TensorType:
    return tl.TensorType(shape, dtype)


# -- operations --------------------------------------------------------------------------------------------------------
def test_the_table_is_complete_over_all_ops_and_names_no_others() -> None:
    named = [name for family in flops.FAMILIES for name in family.names]
    assert len(named) == len(set(named))
    holding = {"cond", "scan", "while", "checkpoint"}  # these count by the graphs they hold
    assert set(named) | holding == {op.name for op in ALL_OPS if not isinstance(op, Composite)}
    assert holding < {op.name for op in CONTROL}
    assert set(named) >= flops.TRANSCENDENTAL
    assert all([family.rule in flops.table_text() for family in flops.FAMILIES])


def counted(f: Callable[..., Any], *types: Any) -> tuple[int, int]:
    made = tl.lower(f, *types, profile=profiles.numpy_cpu).cost()
    assert made.uncounted == ()
    return made.flops, made.transcendental


def test_operations_are_those_of_hand_derived_formulas() -> None:
    assert counted(lambda x, w: x @ w, t(7, 5), t(5, 3)) == (2 * 7 * 5 * 3, 0)
    assert counted(lambda x, w: ops.conv(x, w), t(2, 3, 8, 8), t(5, 3, 3, 3)) == (2 * (2 * 5 * 6 * 6) * (3 * 3 * 3), 0)
    rows, columns = 6, 10
    # per row a maximum and a sum of columns - 1 operations and two comparisons (of a row of -∞, of a sum of 0);
    # per entry a difference, an exp and a quotient
    made, transcendental = counted(lambda x: ops.softmax(x, -1), t(rows, columns))
    assert transcendental == rows * columns
    assert made == 2 * rows * (columns - 1) + 2 * rows + 3 * rows * columns
    assert counted(lambda x: ops.cumsum(x, 0), t(9)) == (9, 0)
    assert counted(lambda x: ops.integer_pow(x, 7), t(4)) == (16, 0)


def test_loops_count_their_steps_and_choices_their_dearest() -> None:
    assert counted(lambda x: tl.scan(lambda c, _: (ops.sin(c), None), x, None, 5)[0], t(3)) == (15, 15)
    chosen = tl.lower(
        lambda p, x: tl.cond(p, lambda v: ops.sin(ops.sin(v)), lambda v: v + v, x), t(dtype=tl.DType.BOOL), t(3)
    )
    assert (chosen.cost().flops, chosen.cost().transcendental) == (6, 6)
    endless = tl.lower(lambda x: tl.while_loop(lambda c: c[0] < 1, lambda c: c * 2, x), t(3)).cost()
    assert endless.uncounted == ("while (one step is counted)",)
    assert tl.lower(lambda x: ops.sort(x), t(3)).cost().uncounted == ("sort",)
    assert tl.lower(tl.numpy.fft.fft, t(8, dtype=tl.DType.C64)).cost().flops == 5 * 8 * 3
    assert "cholesky" not in tl.lower(ops.cholesky, t(6, 6)).cost().uncounted


@pytest.mark.parametrize("name", ["matmul", "batched", "conv", "softmax parts"])
def test_operations_agree_with_xla_where_both_count_alike(name: str) -> None:
    """XLA counts no operation for what it need not compute, so padding is left out here."""
    jax = pytest.importorskip("jax", reason="jax is not installed: nothing to compare with")
    jnp = jax.numpy
    pairs: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[Any, ...]]] = {
        "matmul": (lambda x, w: x @ w, lambda x, w: x @ w, (t(7, 5), t(5, 3))),
        "batched": (lambda x, w: x @ w, lambda x, w: x @ w, (t(4, 7, 5), t(4, 5, 3))),
        "conv": (
            lambda x, w: ops.conv(x, w),
            lambda x, w: jax.lax.conv(x, w, (1, 1), "VALID"),
            (t(2, 3, 8, 8), t(5, 3, 3, 3)),
        ),
        "softmax parts": (
            lambda x: (lambda e: e / ops.sum(e, (1,), keepdims=True))(ops.exp(x)),
            lambda x: (lambda e: e / jnp.sum(e, 1, keepdims=True))(jnp.exp(x)),
            (t(6, 10),),
        ),
    }
    ours, theirs, types = pairs[name]
    arrays = [np.ones(type.shape, np.float32) for type in types]
    lowered = jax.jit(theirs).lower(*arrays)
    analysis = lowered.cost_analysis()
    analysis = analysis[0] if isinstance(analysis, list) else analysis
    if not analysis or "flops" not in analysis:
        pytest.skip("this jax gives no cost analysis before compiling")
    made = tl.lower(ours, *types, profile=profiles.numpy_cpu).cost()
    expected = analysis["flops"] + analysis.get("transcendentals", 0)
    print(f"{name}: {made.flops} here, {expected} in XLA")
    assert made.flops == pytest.approx(expected, rel=0.02)


# -- memory ------------------------------------------------------------------------------------------------------------
def arrays_of(types: tuple[Any, ...]) -> list[Any]:
    rng = np.random.default_rng(3)
    return [rng.normal(size=type.shape).astype(np.float32) for type in types]


def measured_peak(lowered: tl.Lowered, arrays: list[Any]) -> int:
    """What two runs allocate at most, results included, and what compiled kernels keep from the first to the second."""
    call = lowered.executable.call
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        for _ in range(2):
            made = call(*arrays)
            assert made
            del made
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    return peak


def mlp(a: Any, b: Any, c: Any, x: Any) -> Any:
    return ops.relu(ops.relu(x @ a) @ b) @ c


def mlp_loss(a: Any, b: Any, c: Any, x: Any) -> Any:
    return (ops.tanh(mlp(a, b, c, x)) ** 2).sum()


def network(x: Any, w: Any, v: Any) -> Any:
    return ops.relu(ops.conv(ops.relu(ops.conv(x, w, padding=1)), v))


def heads(x: Any, q: Any, k: Any, v: Any, o: Any) -> Any:
    def split(y: Any) -> Any:
        return ops.transpose(ops.reshape(y, (4, 128, 8, 16)), (0, 2, 1, 3))

    made = ops.attention(split(x @ q), split(x @ k), split(x @ v))
    return ops.reshape(ops.transpose(made, (0, 2, 1, 3)), (4, 128, 128)) @ o


def deep(w: Any, x: Any) -> Any:
    for _ in range(12):
        x = ops.tanh(x @ w)
    return x


def deep_checkpointed(w: Any, x: Any) -> Any:
    for _ in range(4):
        x = tl.checkpoint(lambda y: ops.tanh(ops.tanh(ops.tanh(y @ w) @ w) @ w))(x)
    return x


def recurrent(w: Any, x: Any) -> Any:
    return tl.scan(lambda c, u: (ops.tanh(c @ w + u), ops.sum(c, -1)), x[0], x)


LAYERS = (t(256, 512), t(512, 512), t(512, 64), t(512, 256))
IMAGES = (t(8, 3, 48, 48), t(16, 3, 3, 3), t(8, 16, 3, 3))
TOKENS = (t(4, 128, 128), *[t(128, 128)] * 4)
STEPS = (t(256, 256), t(16, 128, 256))
SQUARE = (t(256, 256), t(1024, 256))

PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "mlp": (mlp, LAYERS),
    "mlp gradient": (tl.value_and_grad(mlp_loss, (0, 1, 2)), LAYERS),
    "convolution": (network, IMAGES),
    "convolution gradient": (tl.grad(lambda *args: network(*args).sum(), (1, 2)), IMAGES),
    "attention": (heads, TOKENS),
    "attention gradient": (tl.grad(lambda *args: heads(*args).sum(), (1, 2, 3, 4)), TOKENS),
    "scan": (recurrent, STEPS),
    "scan gradient": (tl.grad(lambda w, x: recurrent(w, x)[0].sum()), STEPS),
    "deep gradient": (tl.grad(lambda w, x: deep(w, x).sum()), SQUARE),
    "rematerialised gradient": (tl.grad(lambda w, x: deep_checkpointed(w, x).sum()), SQUARE),
    "layer norm": (ops.layer_norm, (t(512, 512), t(512), t(512))),
}


@pytest.mark.parametrize("profile", profiles.OWN, ids=lambda profile: profile.name)
@pytest.mark.parametrize("name", PROGRAMS)
def test_peak_memory_is_within_a_tenth_of_what_is_measured(name: str, profile: Any) -> None:
    f, types = PROGRAMS[name]
    lowered = tl.lower(f, *types, profile=profile)
    made = lowered.cost()
    measured = measured_peak(lowered, arrays_of(types))
    print(f"{name} on {profile.name}: {made.peak_bytes:,} computed, {measured:,} measured")
    assert abs(made.peak_bytes - measured) <= 0.1 * measured


@pytest.mark.parametrize("profile", [profiles.checked_cpu, profiles.numpy_cpu], ids=lambda profile: profile.name)
def test_rematerialisation_is_seen_to_save_memory(profile: Any) -> None:
    """What is kept between the passes: 12 activations of 1 MiB, or 4 and one part's own three."""
    kept, computed_again = [
        tl.lower(*[PROGRAMS[name][0], *SQUARE], profile=profile).cost()
        for name in ("deep gradient", "rematerialised gradient")
    ]
    assert computed_again.peak_bytes < 0.75 * kept.peak_bytes
    assert computed_again.flops > 1.2 * kept.flops


def test_bytes_moved_are_those_of_the_rules() -> None:
    def rows(f: Callable[..., Any], *types: Any) -> list[tuple[str, int, int]]:
        made = tl.lower(f, *types, profile=profiles.numpy_cpu).cost()
        assert made.bytes_read == sum([step.read for step in made.steps])
        assert made.bytes_written == sum([step.written for step in made.steps])
        return [(step.op, step.read, step.written) for step in made.steps]

    n = 4 * 12
    assert rows(lambda x: ops.exp(x.T), t(4, 3)) == [("permute", 0, 0), ("exp", n, n)]
    assert rows(lambda x: ops.reshape(x.T, (12,)), t(4, 3)) == [("permute", 0, 0), ("reshape", n, n)]
    assert rows(lambda x: x + 1.0, t(4, 3))[-1] == ("add", n + 4, n)  # the 1.0 is left unspread
    assert rows(lambda x: x * x, t(4, 3)) == [("mul", n, n)]  # one operand, read once
    taken = rows(lambda x, i: ops.take(x, i, 0), t(1000, 3), t(2, dtype=tl.DType.I32))
    assert ("gather", 2 * 3 * 4 + 2 * 4, 2 * 3 * 4) in taken
    (loop,) = rows(lambda x: tl.scan(lambda c, _: (ops.sin(c), c), x, None, 5), t(3))
    assert loop == ("scan", 5 * 12 + 5 * 12, 5 * 12 + 5 * 12)


def test_the_arguments_constants_and_results_are_counted_apart() -> None:
    table = np.ones((100, 100), np.float32)
    made = tl.lower(lambda x: x + table, t(100, 100), profile=profiles.reference_cpu).cost()
    assert (made.argument_bytes, made.constant_bytes, made.output_bytes) == (40_000, 40_000, 40_000)
    assert made.peak_bytes == 40_000
    assert (
        tl.lower(lambda x: (x, x), t(100, 100), profile=profiles.reference_cpu).cost().peak_bytes == 80_000
    )  # copies: nothing is shared


def test_what_is_not_known_is_listed() -> None:
    made = tl.lower(lambda x: ops.sort(ops.erf(x)), t(50), profile=profiles.reference_cpu).cost()
    assert made.undeclared == ("reference.erf", "reference.sort")
    assert str(made).splitlines()[-2:] == [
        "  no formula for the operations of: sort",
        "  workspace not declared, taken as 0: reference.erf, reference.sort",
    ]


def test_a_cost_reads_well() -> None:
    made = tl.lower(tl.value_and_grad(loss), W, X, profile=still(profiles.numpy_cpu)).cost()
    require_golden("cost_gradient", str(made))
    data = made.as_json()
    assert json.loads(json.dumps(data)) == data
    assert data["flops"] == made.flops == sum([step["flops"] for step in data["steps"]])
    assert repr(made) == f"<Cost of loss: {made.flops:,} flops, {made.peak_bytes:,} bytes at most>"
    assert "<pre>" in made._repr_html_()
    assert re.search(r"… \d+ more steps …", made.text(max_lines=2))


# -- strides -----------------------------------------------------------------------------------------------------------
def test_reshapes_copy_where_numpy_copies() -> None:
    rng = np.random.default_rng(5)
    tried = copied = 0
    for _ in range(2000):
        shape = tuple(rng.choice([1, 2, 3, 4, 6], size=rng.integers(1, 5)))
        x = np.zeros(shape, np.int8).transpose(rng.permutation(len(shape)))
        wanted = tuple(rng.permutation(factors(x.size, rng)))
        made = reshaped(x.shape, x.strides, wanted)
        seen = x.reshape(wanted)
        assert (made is not None) == np.shares_memory(seen, x), (x.shape, x.strides, wanted)
        if made is not None:
            assert all([n == 1 or a == b for n, a, b in zip(wanted, made, seen.strides, strict=True)])
        tried, copied = tried + 1, copied + (made is None)
    assert (tried, copied > 100) == (2000, True)
    assert reshaped((0, 3), (3, 1), (3, 0)) == contiguous((3, 0))


def factors(size: int, rng: Any) -> list[int]:
    made = [1] if rng.random() < 0.3 else []
    while size > 1:
        divisors = [n for n in range(2, size + 1) if size % n == 0]
        chosen = int(rng.choice(divisors))
        made.append(chosen)
        size //= chosen
    assert math.prod(made) >= 1
    return made or [1]
