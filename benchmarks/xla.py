"""Does the XLA bridge cost nothing over jax.jit? Calls, training steps, kernels, readiness, and a compiled scan.

Everything runs on `xla_cpu` beside the same program written in JAX, after comparing the results. Calls: NumPy arrays in
and out on both sides; where rows say "arrays on its device", jax keeps its operands and results as its own arrays, and
ours are NumPy arrays still, those of kernels aligned to 64 bytes. Parameters are the last step's results on both sides.
Readiness: from the Python function to an executable, `jax.jit(f).lower(…).compile()` on the other side, all afresh each
time: a new function, no executable kept, jax's caches cleared, none on disk. Values are median ratios of paired rounds.

Run: python benchmarks/xla.py [out.json]
"""

from __future__ import annotations

import gc
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

if os.environ.get("OPENBLAS_NUM_THREADS") != "1":  # read when NumPy is imported
    os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "OPENBLAS_NUM_THREADS": "1"})

import framework
import jax
import jax.numpy as jnp
import numpy as np
import scan
import xla_programs as programs
from _paired import paired, report, restart_unpinned, table
from train_step import problem, sgd_step, theirs

import torchlean as tl
from torchlean import ops
from torchlean.backends import xla
from torchlean.backends.profile import Profile

XLA = tl.profiles.xla_cpu.under(tl.profiles.xla_cpu.policy.allowing_stale())
ROUNDS, FRESH_ROUNDS = 11, 7
NUMPY, ON_DEVICE = "jax.jit, NumPy in and out", "jax.jit, arrays on its device"
COMPILED = "/jax/core/compile/backend_compile_duration"

# What a profile of a line showed, printed where its goal is missed.
DIGITS = "digits step, 64-128-10 MLP, batch 64"
WHY = {
    f"{DIGITS} / {ON_DEVICE}": (
        "12 µs of Python beside jax's 17: 4 make NumPy arrays of five results, 4 take trees apart, 3 bring operands in"
    ),
    "conv": "noise: on two threads, rounds of either side differ by a half and more",
    f"ready: gradient of a {programs.MLP_LAYERS}-layer MLP": (
        "XLA compiles as many fusions for us as for jax, with less effort, in 0.7 of the time; our part is 0.25 of all"
    ),
    f"ready: gradient of a scan of {scan.STEPS} steps": "10 ms accept the plan and list its text; XLA takes as long",
}


def row(what: str, against: str, goal: float | None, measured: dict[str, Any]) -> dict[str, Any]:
    return {
        "what": f"{what} / {against}",
        "value": measured["median_ratio"],
        "unit": "median ratio",
        "goal": goal,
        "against": against,
        "measured": measured,
    }


def same(got: Any, want: Any) -> None:
    """Results of the two sides, within what another order of sums makes."""
    a, b = jax.tree.leaves(tl.pytree.flatten(got)[0]), jax.tree.leaves(want)
    for one, other in zip(map(np.asarray, a), map(np.asarray, b), strict=True):
        assert one.dtype == other.dtype, (one.dtype, other.dtype)
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4 * float(np.abs(other).max() + 1e-30))


# -- calls -------------------------------------------------------------------------------------------------------------
def bridge() -> list[dict[str, Any]]:
    """One executable, its operands and results NumPy arrays: alone, and with the checks and trees of a user's call."""

    def one(x: Any) -> Any:
        return x + 1

    def many(*xs: Any) -> Any:
        return tuple([x + 1 for x in xs])

    rows = []
    for what, f, count, calls in (("x + 1 of 16 floats", one, 1, 4000), ("100 in, 100 out", many, 100, 200)):
        operands = [np.arange(16, dtype=np.float32) + each for each in range(count)]
        lowered, jitted = tl.lower(f, *operands, profile=XLA), jax.jit(f)
        same(lowered(*operands), jitted(*operands))
        run = lowered.executable.call

        def numpy(jitted: Any = jitted, operands: Any = operands) -> Any:
            made = jitted(*operands)
            return [np.asarray(each) for each in made] if isinstance(made, tuple) else np.asarray(made)

        for how, subject in (("bridge", run), ("lowered(…)", lowered)):
            measured = paired(lambda s=subject, o=operands: s(*o), numpy, rounds=ROUNDS, calls=calls)
            rows.append(row(f"{how}, {what}", NUMPY, 1.15, measured))
    return rows


def digits() -> list[dict[str, Any]]:
    """A step of training, whose parameters are the last step's; the peer's are NumPy arrays, or stay on its device."""
    params, x, t = problem((64, 128, 10), 64, True)
    step, jitted = tl.lower(sgd_step(True), params, x, t, profile=XLA), theirs(True)
    same(step(params, x, t), jitted(params, x, t))
    held, theirs_held, carried = [params], [params], [[jax.device_put(p) for p in params]]
    device = jax.device_put(x), jax.device_put(t)

    def ours() -> None:
        held[0], _ = step(held[0], x, t)

    def numpy() -> None:
        made, value = jitted(theirs_held[0], x, t)
        theirs_held[0], _ = [np.asarray(p) for p in made], np.asarray(value)

    def resident() -> None:
        carried[0], value = jitted(carried[0], *device)
        value.block_until_ready()

    return [
        row(DIGITS, against, 1.05, paired(ours, other, rounds=ROUNDS, calls=400))
        for against, other in ((NUMPY, numpy), (ON_DEVICE, resident))
    ]


def kernels() -> list[dict[str, Any]]:
    rows = []
    for what, f, jax_f, operands in programs.kernels():
        lowered, jitted = tl.lower(f, *operands, profile=XLA), jax.jit(jax_f)
        same(lowered(*operands), jitted(*operands))
        device, aligned = [jax.device_put(each) for each in operands], [programs.placed(each) for each in operands]

        def numpy(jitted: Any = jitted, operands: Any = operands) -> Any:
            return jax.tree.map(np.asarray, jitted(*operands))

        def resident(jitted: Any = jitted, device: Any = device) -> Any:
            return jax.block_until_ready(jitted(*device))

        for against, given, other in ((NUMPY, operands, numpy), (ON_DEVICE, aligned, resident)):
            measured = paired(lambda s=lowered, g=given: s(*g), other, rounds=ROUNDS, calls=8)
            rows.append(row(what, against, 1.05, measured))
    return rows


# -- ready -------------------------------------------------------------------------------------------------------------
class Clock:
    """Seconds that XLA itself compiled, as jax reports them."""

    def __init__(self) -> None:
        self.compiled = 0.0
        jax.monitoring.register_event_duration_secs_listener(self.heard)

    def heard(self, event: str, duration_secs: float, **_: Any) -> None:
        if event == COMPILED:
            self.compiled += duration_secs

    def timed(self, f: Callable[[], Any]) -> tuple[float, float]:
        """How long `f` took and how much of it was XLA's, with no cache of jax and no garbage to begin with."""
        jax.clear_caches()
        gc.collect()
        self.compiled = 0.0
        start = time.perf_counter()
        f()
        return time.perf_counter() - start, self.compiled


def afresh() -> Profile:
    """`xla_cpu`, whose executables are forgotten. A new module would look up its evidence again, as no user's does."""
    for capsule in xla.MODULE.capsules:
        capsule.handler.grouper._builds = None  # type: ignore[attr-defined]
    return XLA


def compared(clock: Clock, ours: Callable[[Profile], Any], other: Callable[[], Any]) -> dict[str, Any]:
    """As `paired`, of two sides that are made afresh in each round; and how either's time is divided."""
    sides: tuple[list[tuple[float, float]], ...] = ([], [])
    for _ in range(FRESH_ROUNDS):
        profile = afresh()
        sides[0].append(clock.timed(lambda profile=profile: ours(profile)))
        sides[1].append(clock.timed(other))
    (a, a_xla), (b, b_xla) = (list(zip(*side, strict=True)) for side in sides)
    ratios = sorted([one / two for one, two in zip(a, b, strict=True)])
    median = statistics.median
    parts = {"XLA": (median(a_xla), median(b_xla))}
    parts["before XLA"] = tuple([median([w - x for w, x in side]) for side in sides])  # type: ignore[assignment]
    return {
        "subject_min_s": min(a),
        "subject_median_s": median(a),
        "baseline_min_s": min(b),
        "baseline_median_s": median(b),
        "ratio_of_minima": min(a) / min(b),
        "median_ratio": median(ratios),
        "ratio_spread": [ratios[0], ratios[-1]],
        "median_parts_s": {name: {"ours": x, "jax": y} for name, (x, y) in parts.items()},
    }


def ready() -> list[dict[str, Any]]:
    """Gradients of deep programs, and the scan with its gradient. Each call of a maker gives a new function."""
    clock = Clock()
    rnn = (lambda: scan.rnn(ops, tl.scan)), (lambda: scan.rnn(jnp, jax.lax.scan))
    deep = (lambda: framework.deep(ops)), (lambda: framework.deep(jnp))
    stack = programs.our_transformer, programs.jax_transformer
    mlp, blocks, steps = programs.mlp_operands(), programs.transformer_operands(), scan.operands()
    rows = []
    for what, goal, (mine, peers), gradient, operands in (
        (f"ready: gradient of a {programs.MLP_LAYERS}-layer MLP", 0.7, deep, True, mlp),
        (f"ready: gradient of a {programs.BLOCKS}-layer transformer", 0.7, stack, True, blocks),
        (f"ready: a scan of {scan.STEPS} steps", 1.1, rnn, False, steps),
        (f"ready: gradient of a scan of {scan.STEPS} steps", 1.1, rnn, True, steps),
    ):
        ours, other = sides(mine, peers, gradient, operands)
        same(ours(afresh())(*operands), other()(*operands))
        measured = compared(clock, ours, other)
        rows.append(row(what, "jax.jit(f).lower().compile()", goal, measured))
        for part, both in measured["median_parts_s"].items():
            rows.append(
                {
                    "what": f"{what}: {part}, {both['ours']:.3g} s of ours / {both['jax']:.3g} s of jax's",
                    "value": both["ours"] / both["jax"],
                    "unit": "ratio of medians",
                }
            )
    return rows


def sides(mine: Any, peers: Any, gradient: bool, operands: Any) -> tuple[Callable[[Profile], Any], Callable[[], Any]]:
    """Ours and JAX's way from a new function to an executable."""

    def ours(profile: Profile) -> Any:
        return tl.lower(tl.grad(mine()) if gradient else mine(), *operands, profile=profile)

    def other() -> Any:
        return jax.jit(jax.grad(peers()) if gradient else peers()).lower(*operands).compile()

    return ours, other


def main() -> None:
    jax.config.update("jax_enable_compilation_cache", False)
    start = time.perf_counter()
    rows = [*bridge(), *digits(), *kernels(), *ready()]
    rows.append({"what": "this benchmark", "value": time.perf_counter() - start, "unit": "s"})
    report(str(__doc__), rows, __file__)
    print()
    print(table(rows, WHY))


if __name__ == "__main__":
    restart_unpinned()
    main()
