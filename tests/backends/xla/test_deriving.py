"""Both owners of derivatives agree: jax.vjp of a function (`backend-vjp`), and our backward graph, compiled.

In double precision, within `BOUND` of the largest entry: both are sums of the same terms in another order. Where an
entry is infinite or a policy decides, the two may differ by definition; each such place is in a test of its own.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from backends.xla.kit import XLA

import torchlean as tl
from torchlean import debug, ops
from torchlean.backends import VjpMode, profiles, reference, xla
from torchlean.backends.xla.deriving import TAPE
from torchlean.conformance.kit.calls import Trial, calls_of
from torchlean.conformance.kit.derivatives import graph_of_trial
from torchlean.conformance.samples.cases import KIT_CASES
from torchlean.errors import ConfigError, GradError, PlanRejected, TorchLeanError, TypeRuleError
from torchlean.ir.builder import bind, bind1
from torchlean.ir.op import NO_PARAMS, NoParams, Op
from torchlean.ir.ops import ALL_OPS, PRIMITIVES
from torchlean.ir.ops.pulling import FUNCTION_VJP, TAPED
from torchlean.ir.rules import Bilinear, Custom, Elementwise, Linear, NoTangent

JAX = xla.with_vjp("backend-vjp", XLA)
ALONE = JAX.under(replace(JAX.policy, vjp=VjpMode.BACKEND))
BOUND = 1e-12

Function = Callable[..., Any]


def normal(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape)


def leaves(tree: Any) -> list[Any]:
    return [np.asarray(leaf) for leaf in tl.pytree.leaves(tree)]


def agree(f: Function, *arguments: Any, bound: float = BOUND, taped: str = "") -> Any:
    """The function, already a gradient, is lowered for both; `taped`: what the plan says is not jax's."""
    ours, theirs = tl.lower(f, *arguments, profile=XLA), tl.lower(f, *arguments, profile=JAX)
    made = theirs.plan.derivatives()
    assert made
    assert {(one.op, one.mode, one.capsule) for one in made} == {("function.vjp", VjpMode.BACKEND, "xla.function.vjp")}
    noted = "0·∞ is NaN in it" + (f"; by torchlean-tape in it: {taped}" if taped else "")
    assert {one.note for one in made} == {noted}
    assert not [one for one in ours.plan.derivatives() if one.op == "function.vjp"]
    for got, want in zip(leaves(theirs(*arguments)), leaves(ours(*arguments)), strict=True):
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        np.testing.assert_allclose(got, want, rtol=0, atol=bound * max(1.0, float(np.max(np.abs(want), initial=0.0))))
    return theirs


# -- programs ----------------------------------------------------------------------------------------------------------
def mlp(params: Any, x: Any, y: Any) -> Any:
    for w, b in params[:-1]:
        x = ops.tanh(x @ w + b)
    w, b = params[-1]
    return ops.mean(ops.cross_entropy(x @ w + b, y))


def layers(dtype: Any = np.float64) -> Any:
    sizes = (4, 8, 8, 3)
    return [
        (normal(m, n, seed=at).astype(dtype) / 2, normal(n, seed=9 + at).astype(dtype))
        for at, (m, n) in enumerate(pairwise(sizes))
    ]


LABELS = np.array([0, 2, 1, 1, 0], np.int32)


def attention(q: Any, k: Any, v: Any) -> Any:
    return ops.sum(ops.square(ops.attention(q, k, v)))


def convolution(x: Any, kernel: Any) -> Any:
    made = ops.relu(ops.conv(x, kernel, padding=((1, 1), (1, 1))))
    return ops.sum(ops.square(ops.avg_pool(ops.max_pool(made, (2, 2), (2, 2)), (2, 2), (2, 2))))


def walk(w: Any, xs: Any) -> Any:
    def step(c: Any, x: Any) -> Any:
        c = ops.tanh(c @ w + x)
        return c, ops.sum(c)

    last, sums = tl.scan(step, ops.sum(xs, 0), xs)
    return ops.sum(last) + ops.sum(ops.square(sums))


def branches(x: Any) -> Any:
    return ops.sum(ops.cond(x[0] > 0, lambda v: ops.sin(v) * v, lambda v: ops.exp(-v), x))


def indexed(x: Any) -> Any:
    at = np.array([2, 0, 2, 5])
    gathered = ops.take(ops.sort(x, axis=0), at, axis=0)
    return ops.sum(ops.square(x.at[at].add(gathered * 2))) + ops.sum(ops.top_k(x, 2)[0])


def normalised(x: Any, scale: Any, shift: Any) -> Any:
    return ops.sum(ops.gelu(ops.layer_norm(x, scale, shift)) * ops.log_softmax(x) + ops.softplus(ops.silu(x)))


def folded(x: Any) -> Any:
    return ops.logsumexp(x) + ops.prod(x[:3]) + ops.sum(ops.cumsum(x) * ops.cumprod(x)) + ops.amax(x)


def checkpointed(w: Any, x: Any) -> Any:
    part = tl.checkpoint(lambda w, x: ops.tanh(ops.tanh(x @ w) @ w))
    return ops.sum(ops.square(part(w, part(w, x))))


def solved(a: Any, b: Any) -> Any:
    made = a @ ops.transpose(a, (1, 0)) + 3 * np.eye(3)
    return ops.sum(ops.solve(made, b)) + ops.slogdet(made)[1] + ops.sum(ops.svd(a)[1])


def spectrum(x: Any) -> Any:
    return ops.sum(ops.square(ops.abs(ops.fftn(ops.complex(x, x * 2)))))


PROGRAMS: dict[str, tuple[Function, tuple[Any, ...], tuple[int, ...]]] = {
    "attention": (attention, (normal(2, 3, 5, 4), normal(2, 3, 5, 4, seed=1), normal(2, 3, 5, 4, seed=2)), (0, 1, 2)),
    "convolution": (convolution, (normal(2, 3, 8, 8), normal(4, 3, 3, 3, seed=1)), (0, 1)),
    "scan": (walk, (normal(4, 4) / 2, normal(20, 4, seed=1)), (0, 1)),
    "cond": (branches, (normal(5),), (0,)),
    "the other branch": (branches, (-normal(5),), (0,)),
    "sort, gather, scatter, top_k": (indexed, (normal(6),), (0,)),
    "composites": (normalised, (normal(3, 6), normal(6, seed=1), normal(6, seed=2)), (0, 1, 2)),
    "folds": (folded, (normal(6),), (0,)),
    "checkpoint": (checkpointed, (normal(4, 4) / 2, normal(3, 4, seed=1)), (0, 1)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_gradients_of_programs_agree(name: str) -> None:
    f, arguments, argnums = PROGRAMS[name]
    agree(tl.value_and_grad(f, argnums), *arguments)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_training_step_agrees_and_is_one_executable(dtype: Any) -> None:
    def step(params: Any, x: Any) -> Any:
        loss, slopes = tl.value_and_grad(mlp)(params, x, LABELS)
        return loss, tl.pytree.map(lambda p, g: p - 0.1 * g, params, slopes)

    bound = BOUND if dtype is np.float64 else 64 * float(np.finfo(np.float32).eps)
    made = agree(step, layers(dtype), normal(5, 4, seed=5).astype(dtype), bound=bound)
    assert made.source.count("module @") == 1
    assert "function.vjp" in str(made.graph)
    assert "derivatives='ieee'" in str(made.graph)


def derived_by_jax() -> list[Any]:
    """A smooth double-precision sample of each op whose derivative is jax's, a few ops at a time."""
    module = JAX.modules[0]
    assert module.derives is not None
    derived = [op for op in dict.fromkeys([capsule.op for capsule in module.capsules]) if op in module.derives]
    found: list[Trial] = []
    for op in derived:
        trials = [] if op is FUNCTION_VJP else calls_of(op, KIT_CASES)
        found += [t for t in trials if t.smooth and t.arrays and t.arrays[0].dtype == np.float64][:1]
    assert len(found) >= 110
    parts = [found[at : at + 30] for at in range(0, len(found), 30)]
    marks = [(), *[pytest.mark.slow] * (len(parts) - 1)]  # a minute each: decompositions, windows, special functions
    return [
        pytest.param(part, id=f"from {part[0].op.name}", marks=mark) for part, mark in zip(parts, marks, strict=True)
    ]


@pytest.mark.parametrize("trials", derived_by_jax())
def test_the_derivative_of_every_op_agrees(trials: list[Trial]) -> None:
    arrays = [trial.arrays for trial in trials]
    outs = [graph_of_trial(trial).output_types for trial in trials]
    seeds = [[normal(*type.shape, seed=7).astype(type.dtype.carrier) for type in types] for types in outs]

    def pulled(arrays: Any, seeds: Any) -> Any:
        made: list[Any] = []
        for trial, operands, cotangents in zip(trials, arrays, seeds, strict=True):
            _, pull = tl.vjp(lambda *xs, t=trial: list(bind(t.op, t.params, *xs)), *operands, ieee_derivatives=True)
            made.append(pull(cotangents))
        return made

    ours, theirs = (tl.lower(pulled, arrays, seeds, profile=profile)(arrays, seeds) for profile in (XLA, JAX))
    for trial, mine, yours in zip(trials, ours, theirs, strict=True):
        for got, want in zip(leaves(yours), leaves(mine), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-10, err_msg=str(trial))


def test_parts_that_stay_ours_are_named() -> None:
    agree(tl.grad(solved, (0, 1)), normal(3, 3), normal(3, 2, seed=1), taped="abs ×1")
    agree(tl.grad(spectrum), normal(8), taped="hypot ×1")
    agree(tl.grad(lambda x: ops.sum(ops.cholesky(x @ x + 9 * np.eye(3)))), normal(3, 3), taped="cholesky ×1")
    agree(tl.grad(lambda x: ops.sum(ops.convert(x, "f16"))), normal(5), taped="convert ×1")


# -- other ways to derivatives -----------------------------------------------------------------------------------------
def test_vjp_with_several_results_and_an_integer_argument() -> None:
    def f(x: Any, n: Any, w: Any) -> Any:
        return {"a": ops.sin(x) * w, "n": n + 1, "b": ops.sum(x * ops.convert(n, "f64"))}

    def pulled(x: Any, n: Any, w: Any, a: Any, b: Any) -> Any:
        value, pull = tl.vjp(f, x, n, w)
        return value, pull({"a": a, "n": np.zeros(4, np.int64), "b": b}), pull({"a": a * 2, "n": n, "b": b})

    n = np.arange(4)
    agree(pulled, normal(4), n, normal(4, seed=1), normal(4, seed=2), np.float64(3))


def test_auxiliary_results_and_functions_that_do_not_depend() -> None:
    agree(tl.value_and_grad(lambda x, y: (ops.sum(x * x), y + 1), has_aux=True), normal(4), normal(2))
    agree(lambda x: (tl.grad(lambda v: ops.sum(v) * 0 + 2)(x), tl.grad(lambda v: ops.sum(v * v))(x)), normal(4))
    constant = tl.lower(tl.grad(lambda x: ops.sum(np.ones(3))), normal(4), profile=JAX)
    assert not leaves(constant(normal(4)))[0].any()


def test_second_derivatives_mapped_ones_and_jacobians() -> None:
    def cubic(x: Any) -> Any:
        return ops.sum(ops.sin(x) * ops.square(x)) * x[0]

    x = normal(4)
    agree(tl.grad(lambda v: ops.sum(ops.square(tl.grad(cubic)(v)))), x)
    agree(tl.hessian(cubic), x)
    agree(tl.jacrev(tl.jacrev(lambda v: ops.sin(v) * v[0])), x)
    agree(tl.vmap(tl.grad(lambda v, w: ops.sum(ops.tanh(v * w))), (0, None)), normal(3, 4), x)
    agree(tl.vmap(tl.vmap(tl.grad(cubic))), normal(2, 3, 4))
    agree(lambda xs: tl.scan(lambda c, row: (c - 0.1 * tl.grad(cubic)(c + row), None), x, xs)[0], normal(5, 4))


def test_complex_numbers_keep_our_convention() -> None:
    z = normal(4) + 1j * normal(4, seed=1)
    agree(tl.complex_grad(lambda v: ops.sum(ops.square(ops.real(ops.exp(v * v))))), z)
    agree(tl.grad(lambda v: ops.sum(ops.sin(v) * v), holomorphic=True), z)
    agree(
        tl.complex_grad(lambda v: ops.real(ops.sum(ops.conj(v) * ops.cholesky(_positive(v))[0]))),
        z[:3],
        taped="cholesky ×1",
    )


def _positive(v: Any) -> Any:
    rows = ops.reshape(v, (3, 1)) @ ops.reshape(ops.conj(v), (1, 3))
    return rows + 5 * np.eye(3).astype(np.complex128)


def test_rules_of_users_are_honoured() -> None:
    @tl.custom_vjp
    def clipped(x: Any) -> Any:
        return ops.sum(x)

    clipped.defvjp(lambda x: (ops.sum(x), x), lambda x, ct: (ct * ops.tanh(x),))

    @tl.custom_jvp
    def straight(x: Any) -> Any:
        return ops.floor(x)

    straight.defjvp(lambda primals, tangents: (ops.floor(primals[0]), tangents[0] * 7))
    x = normal(5)
    agree(tl.grad(lambda v: clipped(ops.sin(v))), x, taped="custom_call clipped ×1")
    agree(tl.grad(lambda v: ops.sum(straight(v * 3))), x, taped="custom_call straight ×1")
    agree(
        tl.grad(lambda v: tl.scan(lambda c, _: (c + clipped(v) * c, None), ops.sum(v), None, length=3)[0]),
        x,
        taped="custom_call clipped ×1",
    )
    agree(
        tl.grad(lambda v: ops.sum(tl.grad(lambda u: clipped(u) * ops.sum(u))(v))),
        x,
        taped="function.vjp (custom_call clipped ×1) ×1",
    )


def test_a_mesh_of_one_device_serves_it() -> None:
    mesh = xla.with_vjp("backend-vjp", xla.with_mesh({"data": 1}, XLA.policy))
    made = tl.lower(tl.grad(mlp), layers(), normal(5, 4), LABELS, profile=mesh)
    want = tl.lower(tl.grad(mlp), layers(), normal(5, 4), LABELS, profile=XLA)
    for got, wanted in zip(
        leaves(made(layers(), normal(5, 4), LABELS)), leaves(want(layers(), normal(5, 4), LABELS)), strict=True
    ):
        np.testing.assert_allclose(got, wanted, rtol=0, atol=BOUND)


# -- where they differ by definition -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("f", "x", "tape", "jax"),
    [
        (lambda x: ops.sum(ops.select(x > 0, ops.log(x), x)), [0.0], [1.0], [np.nan]),
        (lambda x: ops.sum(ops.sqrt(x * x)), [0.0], [0.0], [np.nan]),
        (lambda x: ops.logsumexp(x), [np.inf, 1.0], [1.0, 0.0], [np.nan, 0.0]),
        (lambda x: ops.sum(ops.log1p(x)), [np.inf], [0.0], [np.nan]),
        (lambda x: ops.sum(ops.rsqrt(x)), [-0.0], [-np.inf], [np.inf]),
        (lambda x: ops.sum(x**-2), [0.0], [-np.inf], [np.nan]),
        (lambda x: ops.amax(x), [np.nan, 1.0], [1.0, 0.0], [0.0, 0.0]),
    ],
)
def test_where_they_differ_by_definition(f: Function, x: Any, tape: Any, jax: Any) -> None:
    """0·∞, slopes at poles, and NaN operands (docs/xla.md)."""
    x = np.array(x)
    for profile, want in ((XLA, tape), (JAX, jax)):
        np.testing.assert_array_equal(leaves(tl.lower(tl.grad(f), x, profile=profile)(x))[0], want)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: ops.sum(ops.abs(x) + ops.relu(x) + ops.sign(x) + ops.hypot(x, x * 0)),
        lambda x: ops.sum(ops.max(x, np.zeros(3)) + 3 * ops.min(x, np.zeros(3))),
        lambda x: ops.sum(ops.clamp(x, np.zeros(3), np.ones(3)) + ops.clamp(np.zeros(3), x, np.ones(3))),
        lambda x: ops.amax(x) + ops.sum(ops.cummax(x)) + ops.sum(ops.sort(x) * np.arange(3.0)),
        lambda x: ops.sum(ops.top_k(x, 2)[0] * np.array([1.0, 2.0])) + ops.sum(ops.atan2(x, x)),
        lambda x: ops.prod(x) + ops.sum(ops.cumprod(x)) + ops.sum(ops.sinc(x)) + ops.euclidean_norm(x),
    ],
)
def test_at_kinks_and_ties_they_agree(f: Function) -> None:
    x = np.zeros(3)
    ours, theirs = (leaves(tl.lower(tl.grad(f), x, profile=profile)(x))[0] for profile in (XLA, JAX))
    np.testing.assert_array_equal(ours, theirs)


SPECIAL = (-3.0, -2.0, -1.0, -0.5, -0.0, 0.0, 0.25, 1.0, 2.0, 3.0)


def slopes(op: Op, points: list[np.ndarray[Any, Any]], profile: Any) -> list[Any]:
    """The sums of an op's values at points, differentiated by each operand."""
    f = tl.grad(lambda *x: ops.sum(bind1(op, NO_PARAMS, *x)), tuple(range(len(points))))
    return leaves(tl.lower(f, *points, profile=profile)(*points))


@pytest.mark.parametrize("op", [op for op in PRIMITIVES if op.params is NoParams], ids=str)
def test_at_special_points_jax_has_our_slope_or_none(op: Op) -> None:
    """Where ours is finite jax's is the same, or NaN: its 0·∞. Infinite ones are poles, where jax may have NaN."""
    if op not in JAX.modules[0].derives or not isinstance(op.diff, Elementwise | Linear | Bilinear | Custom):  # type: ignore[operator]
        pytest.skip("it is no function of numbers that jax differentiates")
    pairs = np.array(list(itertools.product(SPECIAL, SPECIAL)))
    for points in ([pairs[:, 0]], [pairs[:, 0], pairs[:, 1]]):
        try:
            ours = slopes(op, points, XLA)
        except (TypeRuleError, TypeError, GradError):
            continue  # of another number of operands, or not of floats
        for mine, theirs in zip(ours, slopes(op, points, JAX), strict=True):
            known = np.isfinite(mine) & ~np.isnan(theirs)
            np.testing.assert_allclose(theirs[known], mine[known], rtol=1e-10, atol=1e-12)
            assert not np.isfinite(theirs[~np.isfinite(mine)]).any()


@pytest.mark.parametrize("z", [2 + 1.5j, -2 + 1.5j, -2 - 1.5j, 0.3 - 0.2j])
def test_complex_slopes_on_both_sides_of_their_cuts(z: complex) -> None:
    for f in (ops.acosh, ops.asinh, ops.atanh, ops.acos, ops.asin, ops.atan, ops.log, ops.sqrt, ops.tanh):
        ours, theirs = (
            leaves(tl.lower(tl.grad(f, holomorphic=True), np.complex128(z), profile=profile)(np.complex128(z)))[0]
            for profile in (XLA, JAX)
        )
        np.testing.assert_allclose(theirs, ours, rtol=1e-12)


def test_ties_of_a_running_logsumexp() -> None:
    f = tl.grad(lambda x: ops.cumlogsumexp(x)[-1])
    np.testing.assert_allclose(leaves(tl.lower(f, np.zeros(3), profile=JAX)(np.zeros(3)))[0], 1 / 3, rtol=1e-15)


# -- ownership ---------------------------------------------------------------------------------------------------------
def test_capsules_say_who_owns_their_derivative() -> None:
    capsules = JAX.modules[0].capsules
    assert {str(capsule.vjp_mode) for capsule in capsules if capsule.op in TAPE} == {"torchlean-tape"}
    assert {capsule.op for capsule in capsules if capsule.vjp_mode is VjpMode.NONE} == {
        op for op in {capsule.op for capsule in capsules} if isinstance(op.diff, NoTangent)
    }
    theirs = [capsule for capsule in capsules if capsule.vjp_mode is VjpMode.BACKEND]
    assert {str(capsule.vjp.evidence) for capsule in theirs} == {
        "trusted boundary: jax's derivative rules and the XLA compiler"
    }
    assert FUNCTION_VJP in {capsule.op for capsule in theirs}
    assert len(theirs) > 150
    assert {op.name for op in TAPE} <= {op.name for op in ALL_OPS}
    made = tl.lower(tl.grad(lambda x: ops.sum(ops.sin(x))), normal(3), profile=JAX)
    assert "backend-vjp VJP" in str(made.audit)
    assert {step["vjp"] for step in made.as_json()["plan"]["steps"] if step["op"] == "function.vjp"} == {"backend-vjp"}
    assert made.as_json()["plan"]["derivatives"][0]["note"] == "0·∞ is NaN in it"
    assert "native function.vjp ×1 (backend-vjp): xla.function.vjp; 0·∞ is NaN in it" in str(made.plan)


def test_the_tape_remains_the_default_and_a_choice() -> None:
    assert profiles.xla_cpu.owner is None
    assert xla.with_vjp(VjpMode.TAPE, XLA) == XLA
    assert xla.with_vjp("backend-vjp", JAX) == JAX
    assert JAX.name == "xla_backend-vjp"
    assert xla.with_vjp("backend-vjp").owner is not None
    with pytest.raises(ConfigError, match="the module xla is one of backend-vjp"):
        xla.with_vjp("torchlean-tape", JAX)
    with pytest.raises(ConfigError, match="nobody owns derivatives by the mode 'jax'"):
        xla.with_vjp("jax")
    with pytest.raises(ConfigError, match="the profile reference_cpu has no module that differentiates"):
        xla.with_vjp("backend-vjp", profiles.reference_cpu)


def test_a_policy_that_asks_for_the_backend_alone_refuses_parts_of_ours() -> None:
    f = tl.grad(lambda x: ops.sum(ops.sin(x) * 2))
    x = normal(3)
    np.testing.assert_array_equal(
        leaves(tl.lower(f, x, profile=ALONE)(x))[0], leaves(tl.lower(f, x, profile=JAX)(x))[0]
    )
    with pytest.raises(GradError, match=r"parts by torchlean-tape: abs ×1"):
        tl.lower(tl.grad(lambda x: ops.sum(ops.abs(x))), x, profile=ALONE)
    with pytest.raises(PlanRejected, match=r"xla\.abs offers torchlean-tape, not requested backend-vjp, for abs"):
        tl.lower(ops.abs, x, profile=ALONE)


def printing(x: Any) -> Any:
    debug.print("{x}", x=x)
    return ops.sum(ops.sin(x))


def test_what_xla_does_not_serve_is_expanded_or_refused_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    x = normal(3)
    made = tl.lower(tl.grad(printing), x, profile=JAX)
    assert "expanded function.vjp ×1 (torchlean-tape): xla.function.vjp refuses function.vjp" in str(made.plan)
    assert "acts on the host" in str(made.plan)
    np.testing.assert_allclose(leaves(made(x))[0], np.cos(x))
    assert capsys.readouterr().out
    with pytest.raises(PlanRejected, match=r"xla\.function\.vjp refuses function.vjp"):
        tl.lower(tl.grad(printing), x, profile=ALONE)
    with pytest.raises(GradError, match="reverse-mode derivative of while"):
        tl.lower(tl.grad(lambda v: tl.while_loop(lambda s: s < 9, lambda s: s * 2, v[0])), x, profile=JAX)


def test_forward_mode_over_parts_of_ours_is_refused_by_name() -> None:
    with pytest.raises(GradError, match=r"the gradient of <lambda>, which the backend differentiates") as refused:
        tl.lower(tl.hessian(lambda x: ops.sum(ops.abs(x) * x)), normal(3), profile=JAX)
    assert "abs ×1" in str(refused.value)


def test_a_lowering_inside_a_trace_has_its_own_owner() -> None:
    found: list[Any] = []

    def outer(x: Any) -> Any:
        found.append(tl.lower(tl.grad(lambda v: ops.sum(ops.sin(v))), np.ones(3), profile=XLA))
        return tl.grad(lambda v: ops.sum(ops.sin(v)))(x)

    made = tl.lower(outer, np.ones(3), profile=JAX)
    assert FUNCTION_VJP in {node.op for node in made.graph.nodes}
    assert FUNCTION_VJP not in {node.op for node in found[0].graph.nodes}


def test_the_node_means_what_its_body_does() -> None:
    """Off XLA the node is expanded: the reference gives the same, and the plan says why."""
    mixed = replace(JAX, modules=(replace(JAX.modules[0], probe=lambda: "it is switched off"), reference.MODULE))
    made = tl.lower(tl.grad(mlp), layers(), normal(5, 4), LABELS, profile=mixed)
    assert "expanded function.vjp ×1 (torchlean-tape): xla.function.vjp is unavailable here" in str(made.plan)
    want = tl.lower(tl.grad(mlp), layers(), normal(5, 4), LABELS, profile=XLA)
    for got, wanted in zip(
        leaves(made(layers(), normal(5, 4), LABELS)), leaves(want(layers(), normal(5, 4), LABELS)), strict=True
    ):
        np.testing.assert_allclose(got, wanted, rtol=0, atol=BOUND)


def test_the_nodes_are_no_functions() -> None:
    for op in (FUNCTION_VJP, TAPED):
        with pytest.raises(TorchLeanError, match="a pullback has no function of its own"):
            op.function()
