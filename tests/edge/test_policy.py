"""The derivative policy itself: where it is heeded, what it costs nothing, what `ieee_derivatives` restores."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import torchlean as tl
from torchlean import ops
from torchlean.ir.evaluate import denote
from torchlean.ir.op import NO_PARAMS
from torchlean.ir.ops.chain import CHAIN_MUL
from torchlean.ir.ops.elementwise import MUL
from torchlean.ir.tracing import trace_flat
from torchlean.ir.types import type_of_array
from torchlean.transforms.slopes import Derivatives, Sign, signs_of, slopes_of

F64 = np.float64


def products(f: Callable[..., Any], *xs: Any) -> int:
    """How many watched products the gradient of `f` is made of, its composites' bodies included."""

    def count(graph: Any) -> int:
        bodies = [node.params.body for node in graph.nodes if hasattr(node.params, "body")]
        return sum(node.op is CHAIN_MUL for node in graph.nodes) + sum(map(count, bodies))

    return count(tl.make_graph(tl.grad(f, argnums=tuple(range(len(xs)))))(*xs))


# -- the product -------------------------------------------------------------------------------------------------------
TABLE = (
    (0.0, math.inf, 0.0),
    (-0.0, math.inf, 0.0),
    (0.0, math.nan, 0.0),
    (math.inf, 0.0, 0.0),
    (-math.inf, -0.0, 0.0),
    (math.nan, 0.0, math.nan),  # a NaN that arrives stays visible
    (math.nan, 1.0, math.nan),
    (1.0, math.nan, math.nan),
    (2.0, math.inf, math.inf),
    (-2.0, 3.0, -6.0),
    (0.0, -3.0, -0.0),  # the bits of a plain product where all is finite
)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(), (1,), (3, 2)])
@pytest.mark.parametrize("place", ["definition", "checked_cpu", "fast_cpu"])
def test_a_zero_wins_over_what_is_not_finite(dtype: Any, shape: tuple[int, ...], place: str) -> None:
    for t, slope, want in TABLE:
        operands = [np.full(shape, value, dtype) for value in (t, slope)]
        graph = trace_flat(lambda x, y: [_chain(x, y)], [type_of_array(o) for o in operands]).graph
        if place == "definition":
            made = denote(graph, operands)[0]
        else:
            made = np.asarray(tl.lower(_chain, *operands, profile=tl.profiles.named(place))(*operands))
        np.testing.assert_array_equal(made, np.full(shape, want, dtype))
        if not math.isnan(want):
            assert (np.signbit(made) == np.signbit(dtype(want))).all()


def _chain(x: Any, y: Any) -> Any:
    from torchlean.ir.builder import bind1

    return bind1(CHAIN_MUL, NO_PARAMS, x, y)


def test_where_all_is_finite_it_has_the_bits_of_a_product() -> None:
    random = np.random.default_rng(0)
    x, y = random.normal(size=(2, 1000)).astype(np.float32)
    made = np.asarray(tl.jit(_chain)(x, y))
    np.testing.assert_array_equal(made.view(np.uint32), (x * y).view(np.uint32))


def test_its_own_derivative_is_the_effective_factor() -> None:
    """At 0·∞ both slopes are declared 0; elsewhere those of a product."""
    t, slope = np.array([0.0, 2.0, 0.0, 0.0]), np.array([math.inf, 3.0, 5.0, math.nan])
    ones = np.ones(4)
    for derivative in ("forward", "reverse"):
        if derivative == "forward":
            by_t = tl.jvp(lambda t: _chain(t, slope), (t,), (ones,))[1]
            by_slope = tl.jvp(lambda s: _chain(t, s), (slope,), (ones,))[1]
        else:
            by_t, by_slope = tl.vjp(_chain, t, slope)[1](ones)
        np.testing.assert_array_equal(np.asarray(by_t), [0, 3, 5, 0])
        np.testing.assert_array_equal(np.asarray(by_slope), [0, 2, 0, 0])


# -- where it costs nothing --------------------------------------------------------------------------------------------
X, W, B = np.ones((4, 3), np.float32), np.ones((2, 3), np.float32), np.ones(2, np.float32)
FREE: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "linear and tanh": (lambda x, w, b: ops.sum(ops.tanh(ops.linear(x, w, b))), (X, W, B)),
    "relu": (lambda x: ops.sum(ops.relu(x) * x), (X,)),
    "gelu": (lambda x: ops.sum(ops.gelu(x)), (X,)),
    "silu": (lambda x: ops.sum(ops.silu(x)), (X,)),
    "sigmoid": (lambda x: ops.sum(ops.logistic(x) * x), (X,)),
    "mean": (lambda x: ops.mean(x * x), (X,)),
    "mse": (lambda x: ops.mse_loss(x, X), (X,)),
    "layer_norm": (lambda x: ops.sum(ops.layer_norm(x)), (X,)),
    "layer_norm by hand": (
        lambda x: ops.sum((x - ops.mean(x)) * ops.rsqrt(ops.mean((x - ops.mean(x)) * (x - ops.mean(x))) + 1e-5)),
        (X,),
    ),
    "rms_norm by hand": (lambda x: ops.sum(x / ops.sqrt(ops.mean(x * x) + 1e-6)), (X,)),
    "root of a mean square": (lambda x: ops.sqrt(ops.mean(x * x)), (X,)),
    "norm": (lambda x: ops.sqrt(ops.sum(x * x)), (X,)),
    "softplus by hand": (lambda x: ops.sum(ops.log(1.0 + ops.abs(x))), (X,)),
    "division by a clamped number": (lambda x: ops.sum(x / ops.max(ops.abs(x), 1e-3)), (X,)),
    "sin and max": (lambda x: ops.amax(ops.sin(x) * x), (X,)),
    "conv and pool": (
        lambda x: ops.sum(ops.max_pool(ops.conv(x, np.ones((1, 1, 2, 2), np.float32)), 2)),
        (np.ones((1, 1, 5, 5), np.float32),),
    ),
}


@pytest.mark.parametrize("name", list(FREE))
def test_what_has_no_pole_in_reach_pays_nothing(name: str) -> None:
    f, arguments = FREE[name]
    assert products(f, *arguments) == 0


def test_what_has_one_is_watched_from_the_pole_to_the_inputs() -> None:
    assert products(lambda x: ops.sum(ops.log(x)), X) == 1
    assert products(lambda x: ops.sum(ops.log(ops.sin(x))), X) == 2
    assert products(lambda x: ops.sum(ops.tanh(x)) + ops.sum(ops.log(x)), X) == 1
    assert products(lambda x: ops.sum(ops.tanh(ops.log(x))), X) == 2


SIGNS: dict[str, tuple[Callable[[Any], Any], Sign]] = {
    "input": (lambda x: x, Sign.UNKNOWN),
    "x·x": (lambda x: x * x, Sign.EVEN),
    "x⁴": (lambda x: x**4, Sign.EVEN),
    "|x|·x²": (lambda x: ops.abs(x) * (x * x), Sign.NONNEGATIVE),
    "x²·2": (lambda x: (x * x) * 2.0, Sign.EVEN),
    "x²·x": (lambda x: (x * x) * x, Sign.UNKNOWN),
    "x³": (lambda x: x**3, Sign.UNKNOWN),
    "|x|": (ops.abs, Sign.NONNEGATIVE),
    "|x|³": (lambda x: ops.abs(x) ** 3, Sign.EVEN),
    "Σx²": (lambda x: ops.sum(x * x), Sign.EVEN),
    "x·x (dot)": (lambda x: x[0] @ x[0], Sign.EVEN),
    "gram matrix": (lambda x: x @ x.T, Sign.UNKNOWN),
    "x² - 1": (lambda x: x * x - 1.0, Sign.UNKNOWN),
    "x² + 1": (lambda x: x * x + 1.0, Sign.POSITIVE),
    "x² + |x|": (lambda x: x * x + ops.abs(x), Sign.NONNEGATIVE),
    "mean of squares": (lambda x: ops.mean(x * x), Sign.EVEN),
    "squared error": (lambda x: ops.mse_loss(x, X), Sign.EVEN),
    "masked squares": (lambda x: ops.select(x > 0, x * x, 0.0), Sign.EVEN),
    "masked": (lambda x: ops.select(x > 0, x * x, x), Sign.UNKNOWN),
    "exp": (ops.exp, Sign.NONNEGATIVE),
    "1 + exp": (lambda x: 1.0 + ops.exp(x), Sign.POSITIVE),
    "max(x, ε)": (lambda x: ops.max(x, 1e-6), Sign.POSITIVE),
    "max(x, 0)": (lambda x: ops.max(x, 0.0), Sign.NONNEGATIVE),
    "clamp": (lambda x: ops.clamp(x, 1e-6, 1.0), Sign.POSITIVE),
    "narrowed": (lambda x: ops.convert(ops.max(ops.convert(x, "f64"), 1e-60), "f32"), Sign.EVEN),
}


@pytest.mark.parametrize("name", list(SIGNS))
def test_what_is_known_of_a_sign(name: str) -> None:
    """And √ of it needs no care where it is positive, and has a slope of its own where it is even."""
    f, want = SIGNS[name]
    root = trace_flat(lambda x: [ops.sqrt(f(x))], [type_of_array(X)]).graph
    assert signs_of(root, [Sign.UNKNOWN])[root.nodes[-1].inputs[0]] == want
    found = slopes_of(root, Derivatives.STANDARD)
    assert found is not None
    out = root.outputs[0]
    assert (out in found.even_roots) is (want == Sign.EVEN)
    if want < Sign.EVEN:
        assert found.forward[out]


# -- ieee_derivatives --------------------------------------------------------------------------------------------------
def dead(x: Any) -> Any:
    return ops.select(x > 0, ops.log(x), x)


IEEE: dict[str, Callable[..., Any]] = {
    "grad": lambda f, x, ieee: tl.grad(f, ieee_derivatives=ieee)(x),
    "value_and_grad": lambda f, x, ieee: tl.value_and_grad(f, ieee_derivatives=ieee)(x)[1],
    "vjp": lambda f, x, ieee: tl.vjp(f, x, ieee_derivatives=ieee)[1](F64(1))[0],
    "jacrev": lambda f, x, ieee: tl.jacrev(f, ieee_derivatives=ieee)(x),
    "complex_grad": lambda f, x, ieee: tl.complex_grad(f, ieee_derivatives=ieee)(x),
}


@pytest.mark.parametrize("name", list(IEEE))
def test_the_raw_rules_can_be_had_in_reverse(name: str) -> None:
    x = F64(0)
    assert float(np.asarray(IEEE[name](dead, x, False))) == 1
    assert math.isnan(float(np.asarray(IEEE[name](dead, x, True))))


def test_the_raw_rules_can_be_had_forward_and_twice() -> None:
    root = lambda x: ops.sqrt(x * x)  # noqa: E731
    for ieee, want in ((False, 0.0), (True, math.nan)):
        _, tangent = tl.jvp(root, (F64(0),), (F64(1),), ieee_derivatives=ieee)
        _, pushforward = tl.linearize(root, F64(0), ieee_derivatives=ieee)
        for made in (
            tangent,
            pushforward(F64(1)),
            tl.jacfwd(root, ieee_derivatives=ieee)(F64(0)),
            tl.hessian(root, ieee_derivatives=ieee)(F64(0)),
        ):
            np.testing.assert_array_equal(np.asarray(made), want)


def test_raw_and_standard_bodies_of_one_composite_do_not_mix() -> None:
    """Both gradients in one graph: the composite's derived bodies are told apart."""
    x = np.array([-math.inf, -math.inf])

    @tl.jit
    def both(x: Any) -> Any:
        return tl.grad(ops.logsumexp)(x), tl.grad(ops.logsumexp, ieee_derivatives=True)(x)

    standard, raw = both(x)
    np.testing.assert_array_equal(np.asarray(standard), [0, 0])
    assert np.isnan(np.asarray(raw)).all()


def test_raw_rules_emit_plain_products_only() -> None:
    graph = tl.make_graph(tl.grad(lambda x: ops.sum(x * ops.log(x)), ieee_derivatives=True))(X)
    assert [node for node in graph.nodes if node.op is CHAIN_MUL] == []
    assert [node for node in graph.nodes if node.op is MUL]


# -- composition -------------------------------------------------------------------------------------------------------
def test_a_composite_behind_a_dead_branch_is_watched_inside() -> None:
    """gelu(1/x) at 0: the composite's own body meets ∞, though nothing in it has a pole."""
    for name in ("gelu", "silu", "softplus", "relu", "log_sigmoid"):
        g = getattr(ops, name)
        f = lambda x, g=g: ops.select(x > 0, g(1.0 / x), 2.0 * x)  # noqa: E731
        for derivative in (tl.jacfwd, tl.jacrev):
            assert float(np.asarray(derivative(f)(F64(0)))) == 2, name
        assert float(np.asarray(tl.hessian(f)(F64(0)))) == 0, name


def test_under_vmap_and_under_jit() -> None:
    x = np.array([0.0, 4.0])
    f = lambda x: ops.select(x > 0, ops.sqrt(x), 0.0)  # noqa: E731
    np.testing.assert_array_equal(np.asarray(tl.vmap(tl.grad(f))(x)), [0, 0.25])
    np.testing.assert_array_equal(np.asarray(tl.jit(tl.vmap(tl.grad(f)))(x)), [0, 0.25])
    np.testing.assert_array_equal(np.asarray(tl.grad(lambda x: ops.sum(tl.vmap(f)(x)))(x)), [0, 0.25])
    norms = tl.vmap(lambda row: ops.euclidean_norm(row) ** 2)
    hessians = np.asarray(tl.vmap(tl.hessian(lambda row: ops.euclidean_norm(row) ** 2))(np.zeros((2, 3))))
    np.testing.assert_array_equal(hessians, np.stack([2 * np.eye(3)] * 2))
    np.testing.assert_array_equal(
        np.asarray(tl.hessian(lambda x: ops.sum(norms(x)))(np.zeros((1, 2)))).reshape(2, 2), 2 * np.eye(2)
    )
    curved = np.asarray(tl.hessian(lambda x: ops.sum(tl.vmap(ops.sinc)(x)))(np.zeros(1)))
    np.testing.assert_allclose(curved, [[-(math.pi**2) / 3]], rtol=1e-14)
    tied = tl.hessian(lambda x: ops.sum(tl.vmap(ops.logaddexp, in_axes=(0, None))(x, F64(1))))(np.ones(1))
    np.testing.assert_allclose(np.asarray(tied), [[0.25]], rtol=1e-14)


def test_inside_control_flow() -> None:
    def body(carry: Any, x: Any) -> Any:
        return carry + ops.select(x > 0, ops.sqrt(x), 0.0), carry

    total = lambda xs: ops.scan(body, F64(0), xs)[0]  # noqa: E731
    x = np.array([0.0, 4.0])
    np.testing.assert_array_equal(np.asarray(tl.grad(total)(x)), [0, 0.25])
    np.testing.assert_array_equal(np.asarray(tl.jacfwd(total)(x)), [0, 0.25])
    assert np.isnan(np.asarray(tl.grad(total, ieee_derivatives=True)(x))[0])


def test_on_a_tape() -> None:
    with tl.Session(track_gradients=True) as session:
        x = session.parameter(np.array([0.0, 2.0]))
        masked = ops.sum(ops.select(x > 0, x * ops.log(x), 0.0))
        norm = ops.sqrt(ops.sum((x - x) * (x - x)))
        made = session.backward(masked + norm + ops.sum(ops.sinc(x)))[x]
    want = [0.0, math.log(2) + 1 + math.pi / (2 * math.pi)]
    np.testing.assert_allclose(np.asarray(made), want, rtol=1e-12)


def test_a_nan_of_the_forward_pass_stays_visible() -> None:
    assert math.isnan(float(np.asarray(tl.grad(ops.log)(F64(math.nan)))))
    assert math.isnan(float(np.asarray(tl.grad(lambda x: ops.sqrt(x) * x)(F64(-1)))))
    assert math.isnan(float(np.asarray(tl.vjp(ops.exp, F64(-1e4))[1](F64(math.nan))[0])))


def test_known_limits_are_as_documented() -> None:
    """What the rule of zeros cannot know better: a wrong finite number where IEEE has NaN (docs/derivatives.md)."""
    assert float(np.asarray(tl.jacfwd(tl.jacfwd(lambda x: ops.sqrt(ops.sin(x) ** 4)))(F64(0)))) == 0  # 2
    assert float(np.asarray(tl.grad(lambda x: ops.pow(ops.pow(x, 0.5), 2.0))(F64(0)))) == 0  # 1
