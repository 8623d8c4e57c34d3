"""Is the strict CPU the fast one? Training steps and kernels, each with its goal, ratio and spread.

Generated C (`checked_cpu`) against NumPy by hand, jax.jit and torch; products on one thread, as OpenBLAS runs here;
everything else on the threads that each takes by itself. What is compared is checked first: the results are those of
the strict NumPy kernels, bit for bit, and close to the peers'. Where a goal may be missed, the shares of its parts are
measured too. The framework's own cost is in `framework.py`, `trace_grad.py` and `import_time.py`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

if os.environ.get("OPENBLAS_NUM_THREADS") != "1":  # read when NumPy is imported
    os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "OPENBLAS_NUM_THREADS": "1"})

import numpy as np
from _paired import paired, report, restart_unpinned, table
from train_step import RATE, digits_by_hand, problem, sgd_step, small_by_hand, theirs

import torchlean as tl
from torchlean import nn, ops, optim
from torchlean.backends import profiles
from torchlean.backends.compiled import module
from torchlean.backends.compiled.loading import THREADS, Builds

COMPILED = profiles.checked_cpu.under(profiles.checked_cpu.policy.allowing_stale())
ALONE = COMPILED.with_modules(module(Builds({**os.environ, THREADS: "1"})))
STRICT = profiles.reference_cpu.under(profiles.reference_cpu.policy.allowing_stale())
RNG = np.random.default_rng(2026)


def normal(*shape: int) -> Any:
    return RNG.normal(size=shape).astype(np.float32)


def lowered(f: Callable[..., Any], *arguments: Any, profile: Any = COMPILED) -> Any:
    """The program in C, after comparing its results with the strict kernels', bit for bit."""
    made, strict = tl.lower(f, *arguments, profile=profile), tl.lower(f, *arguments, profile=STRICT)
    for got, want in zip(tl.pytree.flatten(made(*arguments))[0], tl.pytree.flatten(strict(*arguments))[0], strict=True):
        a, b = np.asarray(got), np.asarray(want)
        assert a.tobytes() == b.tobytes() or bool(np.all((a == b) | ((a != a) & (b != b)))), f
    return made


# What a profile of a line showed, printed where its goal is missed.
WHY = {
    "softmax": "exp, sums and maxima as defined, no approximations; the rows `share of softmax` say what each takes",
    "layer norm": "its sums are left folds along rows; the rows `share of layer norm` say what each takes",
}


def row(what: str, against: str, goal: float | None, ours: Any, other: Any, *, calls: int, median: bool = False) -> Any:
    """One comparison. Peers that hand work to other threads have rare minima; for them the median ratio is quoted."""
    measured = paired(ours, other, rounds=11, calls=calls)
    quoted = "median_ratio" if median else "ratio_of_minima"
    return {
        "what": f"{what} / {against} ({quoted.replace('_', ' ')})",
        "value": measured[quoted],
        "unit": "ratio",
        "goal": goal,
        "against": against,
        "measured": measured,
    }


# -- training steps ----------------------------------------------------------------------------------------------------
def torch_step(params: list[Any], x: Any, t: Any, classes: bool) -> Callable[[], None]:
    import torch

    p = [torch.tensor(each, requires_grad=True) for each in params]
    x, t = torch.tensor(x), torch.tensor(t).long() if classes else torch.tensor(t)

    def run() -> None:
        y = torch.relu(x @ p[0].T + p[1]) @ p[2].T + p[3]
        loss = torch.nn.functional.cross_entropy(y, t) if classes else torch.mean((y - t) ** 2)
        loss.backward()
        with torch.no_grad():
            for each in p:
                each -= RATE * each.grad
                each.grad = None

    return run


def training(name: str, sizes: tuple[int, int, int], batch: int, classes: bool, calls: int, goals: Any) -> list[Any]:
    import jax

    params, x, t = problem(sizes, batch, classes)
    step = lowered(sgd_step(classes), params, x, t)
    by_hand, jitted = (digits_by_hand if classes else small_by_hand)(batch), theirs(classes)
    new, _ = step(params, x, t)
    for a, b in zip(new, by_hand(params, x, t)[0], strict=True):
        np.testing.assert_allclose(np.asarray(a), b, rtol=1e-4, atol=1e-6)
    held, mine = [params], [params]
    device = jax.device_put(x), jax.device_put(t)
    carried = [[jax.device_put(p) for p in params]]

    def ours() -> None:
        held[0], _ = step(held[0], x, t)

    def numpy() -> None:
        mine[0], _ = by_hand(mine[0], x, t)

    def xla() -> None:
        carried[0], value = jitted(carried[0], *device)
        value.block_until_ready()

    return [
        row(name, "hand-written NumPy", goals[0], ours, numpy, calls=calls),
        row(name, "jax.jit", goals[1], ours, xla, calls=calls, median=True),
        row(name, "torch", goals[2], ours, torch_step(params, x, t, classes), calls=calls // 4),
    ]


def adam() -> list[Any]:
    """The step the goal is about: ours with Adam, NumPy's with plain SGD."""
    model, optimizer = nn.Sequential(nn.Linear(2, 8), nn.relu, nn.Linear(8, 1)), optim.Adam(0.01)
    params, x, t = problem((2, 8, 1), 25, False)
    with tl.Session(STRICT):
        tree = model.init(tl.random.key(0))
        state = optimizer.init(tree)

    def f(tree: Any, state: Any, x: Any, t: Any) -> Any:
        value, gradient = tl.value_and_grad(lambda p: ops.mse_loss(model(p, x), t))(tree)
        return *optimizer.update(gradient, state, tree), value

    step, by_hand = lowered(f, tree, state, x, t), small_by_hand(25)
    held, mine = [(tree, state)], [params]

    def ours() -> None:
        tree, state, _ = step(*held[0], x, t)
        held[0] = tree, state

    def numpy() -> None:
        mine[0], _ = by_hand(mine[0], x, t)

    return [row("2-8-1 MLP, batch 25, Adam", "hand-written NumPy with SGD", 0.5, ours, numpy, calls=2000)]


# -- kernels -----------------------------------------------------------------------------------------------------------
def products() -> list[Any]:
    made = []
    for n, goal, calls in ((512, 1.4, 8), (1024, 1.6, 2)):
        a, b, out = normal(n, n), normal(n, n), np.empty((n, n), np.float32)
        run = lowered(lambda a, b: a @ b, a, b, profile=ALONE).executable.call
        what = f"{n}³ float32 product, one thread"
        made.append(
            row(
                what,
                "OpenBLAS",
                goal,
                lambda r=run, a=a, b=b: r(a, b),
                lambda a=a, b=b, o=out: np.dot(a, b, out=o),
                calls=calls,
            )
        )
    return made


def against_peers(what: str, ours: Any, jax_f: Any, torch_f: Any, *arguments: Any, goal: float = 1.0) -> list[Any]:
    import jax
    import torch

    run = lowered(ours, *arguments).executable.call
    jitted, device = jax.jit(jax_f), [jax.device_put(each) for each in arguments]
    tensors = [torch.tensor(each) for each in arguments]
    for got, want in zip(_results(run(*arguments)), jax.tree.leaves(jitted(*device)), strict=True):
        np.testing.assert_allclose(got, np.asarray(want), rtol=1e-3, atol=1e-3 * float(np.abs(got).max()))
    return [
        row(what, "jax.jit", goal, lambda: run(*arguments), lambda: jax.block_until_ready(jitted(*device)), calls=3),
        row(what, "torch", goal, lambda: run(*arguments), lambda: torch_f(*tensors), calls=3),
    ]


def _results(made: Any) -> tuple[Any, ...]:
    return made if isinstance(made, tuple) else (made,)


def pulled(f: Any) -> Any:
    """Ours: the cotangents of all operands but the last, which is the result's."""
    return lambda *given: tl.vjp(f, *given[:-1])[1](given[-1])


def jax_pulled(f: Any) -> Any:
    import jax

    return lambda *given: jax.vjp(f, *given[:-1])[1](given[-1])


def torch_pulled(f: Any) -> Any:
    import torch

    def run(*given: Any) -> Any:
        operands = [each.detach().requires_grad_() for each in given[:-1]]
        return torch.autograd.grad(f(*operands), operands, given[-1])

    return run


def chain(x: Any, y: Any) -> Any:
    return (((x * y + 1.0) * x - y) * 0.5 + x) * y - 0.25


def kernels() -> list[Any]:
    import jax
    import torch

    def normed(x: Any, w: Any, b: Any) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        return centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * w + b

    rows, weight, bias = normal(4096, 1024), normal(1024), normal(1024)
    made = against_peers("chain of 8 on 10⁷", chain, chain, chain, normal(10**7), normal(10**7))
    made += against_peers(
        "softmax 4096×1024", lambda x: ops.softmax(x, -1), jax.nn.softmax, lambda x: torch.softmax(x, -1), rows
    )
    made += against_peers(
        "layer norm 4096×1024",
        lambda x, w, b: ops.layer_norm(x, w, b),
        normed,
        lambda x, w, b: torch.nn.functional.layer_norm(x, (1024,), w, b),
        rows,
        weight,
        bias,
    )
    for name, fs, operands, cotangent in (
        (
            "conv 64×3×32×32 → 64, 3×3",
            (
                lambda x, w: ops.conv(x, w, padding="same"),
                lambda x, w: jax.lax.conv_general_dilated(x, w, (1, 1), "SAME"),
                lambda x, w: torch.nn.functional.conv2d(x, w, padding=1),
            ),
            (normal(64, 3, 32, 32), normal(64, 3, 3, 3)),
            normal(64, 64, 32, 32),
        ),
        (
            "attention B4 H8 T256 D64",
            (
                lambda q, k, v: ops.attention(q, k, v),
                lambda q, k, v: jax.nn.softmax(q @ k.swapaxes(-1, -2) / 8, -1) @ v,
                torch.nn.functional.scaled_dot_product_attention,
            ),
            tuple([normal(4, 8, 256, 64) for _ in range(3)]),
            normal(4, 8, 256, 64),
        ),
    ):
        f, jax_f, torch_f = fs
        made += against_peers(name, f, jax_f, torch_f, *operands, goal=2.0)
        gradients = pulled(f), jax_pulled(jax_f), torch_pulled(torch_f)
        made += against_peers(f"{name}, gradient", *gradients, *operands, cotangent, goal=2.0)
    return made


def shares() -> list[Any]:
    """What parts of softmax and of layer norm take when they run alone, on one thread, of the whole's time."""
    x, w = normal(4096, 1024), normal(1024)
    moved, summed = ("reading and writing", lambda x: x * 2.0), ("sums along rows", lambda x: ops.sum(x, -1))
    largest = ("maxima along rows", lambda x: ops.amax(x, -1))
    exponential = ("exp and a division", lambda x: ops.exp(x - 1.0) / 1.5)
    made = []
    for name, whole, parts in (
        ("softmax", lambda x: ops.softmax(x, -1), (exponential, summed, largest, moved)),
        ("layer norm", lambda x: ops.layer_norm(x, w, w), (summed, moved)),
    ):
        all_of_it = lowered(whole, x, profile=ALONE).executable.call
        for part, f in parts:
            run = lowered(f, x, profile=ALONE).executable.call
            what = f"share of {name} 4096×1024: {part} alone"
            made.append(row(what, "the whole", None, lambda r=run: r(x), lambda r=all_of_it: r(x), calls=2))
    return made


def main() -> None:
    rows = adam()
    rows += training("2-8-1 MLP, batch 25, SGD", (2, 8, 1), 25, False, 2000, (0.5, None, None))
    rows += training("64-128-10 MLP, batch 64, SGD", (64, 128, 10), 64, True, 500, (1.0, 1.0, 1.0))
    rows += products()
    rows += kernels()
    rows += shares()
    report(str(__doc__), rows, __file__)
    print()
    print(table(rows, WHY))


if __name__ == "__main__":
    restart_unpinned()
    main()
