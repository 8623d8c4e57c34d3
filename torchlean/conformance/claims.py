"""Dtypes, casts, refusals, provenance: what no derivative shows. Each claim looks for itself and says what it saw."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from torchlean.backends.capsule import Ulp
from torchlean.conformance.check import Claim, Outcome, shown
from torchlean.conformance.logs import SHARED_WEIGHTS
from torchlean.conformance.namespaces import Torchlean
from torchlean.conformance.place import Place
from torchlean.errors import GradError, OutOfRangeError, StructureError, TorchLeanError, TypeRuleError
from torchlean.ir import ops
from torchlean.runtime.config import RunConfig
from torchlean.transforms.api import complex_grad, grad, jvp
from torchlean.transforms.custom import custom_vjp
from torchlean.transforms.jacobian import jacfwd, jacrev

NS = Torchlean()


def _refuses(run: Callable[[], Any], kind: type[Exception], *words: str) -> Outcome:
    """Right when `run` raises `kind` with all of `words` in its text."""
    try:
        made = run()
    except Exception as error:
        text = str(error)
        fits = isinstance(error, kind) and all(word in text for word in words)
        return Outcome(fits, f"{type(error).__name__}: {text.splitlines()[0]}")
    return Outcome(False, f"no error: {shown(made)}")


def _is(got: Any, want: Any) -> Outcome:
    return Outcome(str(got) == str(want), str(got))


def _equals(got: Any, want: Any) -> Outcome:
    return Outcome(bool(np.array_equal(np.asarray(got), np.asarray(want))), shown(got))


# -- derivatives that are no single number -----------------------------------------------------------------------------
def _angle_of_tiny(place: Place) -> Outcome:
    z = np.complex128(5.68e-14 + 1e-13j)
    made = complex(np.asarray(place.call(complex_grad(lambda z: NS.atan2(ops.imag(z), ops.real(z))), z)))
    size = abs(z) ** -1
    return Outcome(bool(abs(abs(made) - size) <= 1e-9 * size), f"{made:.8g}")


def _abs_of_complex(at: complex, want: complex) -> Callable[[Place], Outcome]:
    def run(place: Place) -> Outcome:
        made = complex(np.asarray(place.call(complex_grad(lambda z: NS.abs(z)), np.complex128(at))))
        return Outcome(made == want, f"{made}")

    return run


def _many_ties(place: Place) -> Outcome:
    """70 000 equal float16 numbers: 1/n each going back, and the mean going forward."""
    x = np.ones(70_000, np.float16)
    back = np.asarray(place.call(grad(lambda x: NS.max(x)), x))
    _, along = place.call(lambda x, t: jvp(lambda x: NS.max(x), (x,), (t,)), x, x)
    right = bool((back == np.float16(1 / 70_000)).all()) and float(np.asarray(along)) == 1.0
    return Outcome(right, f"{float(back[0]):.6g} each, {float(np.asarray(along)):g} along ones")


def _between_grid_slopes(place: Place) -> Outcome:
    def f(x: Any) -> Any:
        return NS.interp(x, np.arange(3.0), np.array([0.0, 1.0, 3.0]))

    made = [float(np.asarray(place.call(d(f), np.float64(1.0)))) for d in (jacrev, jacfwd)]
    return Outcome(made[0] == made[1] and 1 <= made[0] <= 2, f"{made[0]:g}, {made[1]:g} forward")


def _shared_weights(place: Place) -> Outcome:
    made = np.asarray(place.call(grad(lambda w: SHARED_WEIGHTS(NS, w)), np.eye(2)))
    return Outcome(bool(np.isfinite(made).all()), f"finite: {bool(np.isfinite(made).all())}")


# -- indexing ----------------------------------------------------------------------------------------------------------
def _constant_index_outside(place: Place) -> Outcome:
    return _refuses(lambda: place.call(lambda x: x[7], np.arange(3.0)), OutOfRangeError, "index 7", "axis 0")


def _traced_index_outside(place: Place) -> Outcome:
    """Reads the declared fill, 0, where the index is known only at run time; an eager index is checked at once."""
    if place.mode == "eager":
        return _refuses(
            lambda: place.call(lambda x: x[np.array([7])], np.arange(3.0)), OutOfRangeError, "index 7", "axis 0"
        )
    made = place.call(lambda x, i: ops.take(x, i), np.arange(3.0), np.array(7, np.int32))
    return Outcome(float(np.asarray(made)) == 0.0, f"{float(np.asarray(made)):g} (declared: Mode.FILL reads 0)")


# -- dtypes ------------------------------------------------------------------------------------------------------------
def _dtype_of(f: Callable[..., Any], *arguments: Any) -> Callable[[Place], str]:
    return lambda place: place.call(f, *arguments).type.dtype.label


def _keeps_float64(place: Place) -> Outcome:
    return _is(_dtype_of(lambda: NS.ones((2,), dtype="float64"))(place), "float64")


def _keeps_float64_of_numpy(place: Place) -> Outcome:
    return _is(_dtype_of(lambda x: NS.where(np.array(True), x, np.nan), np.ones(2))(place), "float64")


def _wide_integers(place: Place) -> Outcome:
    return _equals(place.call(lambda x: x + 0, np.array([2**40, 2**32])), [2**40, 2**32])


def _python_float_is_weak(place: Place) -> Outcome:
    return _is(_dtype_of(lambda x: x * 0.1, np.ones(2, np.float32))(place), "float32")


def _mixed_kinds(first: Any, second: Any) -> Callable[[Place], Outcome]:
    return lambda place: _refuses(
        lambda: place.call(lambda x, y: x * y, first, second), TypeRuleError, "no common type", "convert"
    )


def _cast(x: Any, dtype: str, want: int) -> Callable[[Place], Outcome]:
    return lambda place: _equals(place.call(lambda x: ops.convert(x, dtype), x), want)


def _mean_of_halves(place: Place) -> Outcome:
    made = place.call(lambda x: NS.mean(x), np.full(10, 60_000, np.float16))
    return _equals(made, np.float16(60_000))


def _sum_of_many_ones(place: Place) -> Outcome:
    """More than 2²⁴, or the plan says that the sum is a left fold in the operand's precision."""
    n = 2**25
    ones = np.ones(n, np.float32)
    lowered = place.lowered(lambda x: ops.sum(x), ones)
    numerics = [step.capsule.numerics for step in lowered.plan.steps if step.node.op.reduces]
    declared = [f"{entry.reduction.value}, accumulator {entry.accumulator.value}" for entry in numerics]
    made = float(np.asarray(place.call(lambda x: ops.sum(x), ones)))
    fold = any("left" in text and "operand" in text for text in declared)
    return Outcome(made == n or (fold and made == 2**24), f"{made:.0f} ({'; '.join(declared)})")


def _running_sum_of_many_ones(place: Place) -> Outcome:
    """As for the sum: a running sum is a left fold in float32, and the plan says so; float64 is exact.

    The first 2²⁴ ones are given as one entry, which is where the sum of ones in float32 stands still.
    """
    f: Any = lambda x: NS.cumulative_sum(x)[-1]  # noqa: E731
    x = np.array([2.0**24, 1, 1])
    wide = float(np.asarray(place.call(f, x)))
    lowered = place.lowered(f, x.astype(np.float32))
    numerics = [step.capsule.numerics for step in lowered.plan.steps if step.node.op.name == "cumsum"]
    declared = [f"{entry.reduction.value}, accumulator {entry.accumulator.value}" for entry in numerics]
    return Outcome(wide == 2**24 + 2 and bool(declared), f"f64 {wide:.0f}; f32 as declared: {'; '.join(declared)}")


def _keeps_subnormals(place: Place) -> Outcome:
    tiny = np.float32(1e-40)
    return _equals(place.call(lambda x: x * np.float32(1), tiny), tiny)


def _log_of_subnormal(place: Place) -> Outcome:
    made = float(np.asarray(place.call(lambda x: ops.log(x), np.float32(1e-40))))
    return Outcome(abs(made + 92.1034) < 1e-3, f"{made:.6g}")


# -- wrong input -------------------------------------------------------------------------------------------------------
def _integer_gradient(place: Place) -> Outcome:
    return _refuses(lambda: place.call(grad(lambda p: p["a"] ** 2), {"a": 3}), GradError, "args[0]['a']", "i32")


def _gradient_of_vector(place: Place) -> Outcome:
    return _refuses(lambda: place.call(grad(lambda x: 2 * x), np.ones(3)), GradError, "f64[3]", "jacrev")


def _loop_gradient(place: Place) -> Outcome:
    def thrice(x: Any) -> Any:
        return NS.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, 2.0 * c[1]), (np.int32(0), x))[1]

    return _refuses(lambda: place.call(grad(thrice), np.float64(1.0)), GradError, "while", "scan")


def _carry_drift(place: Place) -> Outcome:
    def run() -> Any:
        return place.call(lambda xs: NS.scan(lambda c, x: (ops.convert(c, "f32"), c), np.int32(0), xs), np.ones(3))

    drift = _refuses(run, TorchLeanError, "carry")
    weak = _refuses(
        lambda: place.call(lambda xs: NS.scan(lambda c, x: (c + 1.5, c), 0, xs), np.ones(3)), TorchLeanError
    )
    return drift if not drift.right else weak


def _float_tangent_of_mask(place: Place) -> Outcome:
    def f(x: Any) -> Any:
        return x * ops.convert(x > 0, "f64")

    _, tangent = place.call(lambda x, t: jvp(f, (x,), (t,)), np.float64(2.0), np.float64(1.0))
    return Outcome(tangent.type.dtype.label == "float64" and float(np.asarray(tangent)) == 1.0, str(tangent.type))


def _wrong_custom_rule(place: Place) -> Outcome:
    @custom_vjp
    def f(x: Any) -> Any:
        return x * 2.0

    f.defvjp(lambda x: (f(x), None), lambda residuals, ct: (np.ones(10),))
    return _refuses(lambda: place.call(grad(f), np.float64(1.0)), StructureError, "backward rule of f", "f64[10]")


def _reused_key(place: Place) -> Outcome:
    random = importlib.import_module("torchlean.random")
    if not hasattr(random, "check_key_reuse"):
        key = random.key(0)
        same = bool(np.array_equal(np.asarray(random.normal(key, (2,))), np.asarray(random.normal(key, (2,)))))
        return Outcome(False, f"no check_key_reuse; the same numbers twice: {same}")

    def twice() -> Any:
        with random.check_key_reuse():
            key = random.key(0)
            return random.normal(key, (2,)), random.normal(key, (2,))

    return _refuses(twice, TorchLeanError, "key")


# -- determinism and provenance ----------------------------------------------------------------------------------------
def _chain(x: Any) -> Any:
    return ops.sin(x) * x + ops.exp(x) / 3.0


def _eager_is_lowered(place: Place) -> Outcome:
    """Equal bits; or the plans name kernels that claim no bits, and the difference is within the ulps they do claim."""
    x = np.random.default_rng(0).normal(size=1000).astype(np.float32)
    eager, lowered = Place(place.profile, "eager"), Place(place.profile, "lowered")
    made = [np.asarray(at.call(_chain, x)) for at in (eager, lowered)]
    same = np.array_equal(made[0], made[1])
    loose = {
        capsule.name: capsule.bound.n
        for profile in (place.profile.for_sessions(), place.profile)
        for capsule in [step.capsule for step in Place(profile, "lowered").lowered(_chain, x).plan.steps]
        if isinstance(capsule.bound, Ulp) and capsule.bound.n
    }
    if same or not loose:
        return Outcome(same, f"equal bits: {same}")
    terms = np.abs(np.sin(x) * x) + np.abs(np.exp(x) / 3)
    within = np.all(np.abs(made[0] - made[1]) <= 2 * max(loose.values()) * np.finfo(np.float32).eps * terms)
    return Outcome(bool(within), "as declared: " + ", ".join([f"{name} within {n} ulp" for name, n in loose.items()]))


def _dot_is_declared(place: Place) -> Outcome:
    lowered = place.lowered(lambda x, y: x @ y, np.ones((2, 2), np.float32), np.ones((2, 2), np.float32))
    found = [step.capsule for step in lowered.plan.steps if step.node.op.name == "dot_general"]
    text = [f"{c.name}: {c.numerics.reduction.value}, accumulator {c.numerics.accumulator.value}" for c in found]
    return Outcome(len(found) == 1, "; ".join(text))


def _no_silent_device(place: Place) -> Outcome:
    return _refuses(RunConfig(device="metal").resolved_profile, TorchLeanError, "metal")


def _arrays_are_read_only(place: Place) -> Outcome:
    def f(x: Any) -> Any:
        x[0] = 1.0
        return x

    return _refuses(lambda: place.call(f, np.zeros(3)), TypeError)


CLAIMS = (
    Claim(id="angle_tiny_complex", item=10, expected="finite, |·| = 8.69e12", run=_angle_of_tiny),
    Claim(id="abs_complex_at_0", item=20, expected="0, as for real numbers", run=_abs_of_complex(0j, 0j)),
    Claim(id="abs_complex_at_inf", item=20, expected="1", run=_abs_of_complex(complex(np.inf, 0), 1 + 0j)),
    Claim(id="f16_max_70000_ties", item=23, expected="1/70000 each", run=_many_ties),
    Claim(id="mha_padded_row_poisons_weights", item=40, expected="finite", run=_shared_weights),
    Claim(id="oob_gather_value", item=49, expected="an IndexError, not a number", run=_constant_index_outside),
    Claim(id="oob_gather_jit_fill", item=49, expected="the declared fill", run=_traced_index_outside),
    Claim(id="map_coordinates_on_grid", item=52, expected="between the slopes 1 and 2", run=_between_grid_slopes),
    Claim(id="f64_requested", item=53, expected="float64", run=_keeps_float64),
    Claim(id="f64_numpy_input", item=53, expected="float64", run=_keeps_float64_of_numpy),
    Claim(id="i64_kept", item=54, expected="2**40 and 2**32", run=_wide_integers),
    Claim(id="f32_times_pyfloat", item=55, expected="float32", run=_python_float_is_weak),
    Claim(
        id="i32_times_f32",
        item=55,
        expected="refused, naming the conversion",
        run=_mixed_kinds(np.ones(2, np.int32), np.ones(2, np.float32)),
    ),
    Claim(
        id="f16_plus_i64",
        item=55,
        expected="refused, naming the conversion",
        run=_mixed_kinds(np.ones(2, np.float16), np.ones(2, np.int64)),
    ),
    Claim(id="neg_float_to_uint32", item=56, expected="0, saturated", run=_cast(np.float32(-20), "u32", 0)),
    Claim(id="nan_to_int32", item=56, expected="0", run=_cast(np.float32(np.nan), "i32", 0)),
    Claim(id="f16_mean_overflow", item=58, expected="60000", run=_mean_of_halves),
    Claim(id="f32_sum_1e8_ones_accuracy", item=58, expected="2**25, or a declared left fold", run=_sum_of_many_ones),
    Claim(id="f32_cumsum_ones_last", item=58, expected="exact in f64, declared in f32", run=_running_sum_of_many_ones),
    Claim(id="subnormal_preserved_eager", item=59, expected="1e-40", run=_keeps_subnormals),
    Claim(id="log_subnormal_f32", item=59, expected="-92.1034", run=_log_of_subnormal),
    Claim(id="grad_int_input", item=61, expected="an error naming leaf and dtype", run=_integer_gradient),
    Claim(id="grad_of_nonscalar", item=62, expected="an error naming the shape", run=_gradient_of_vector),
    Claim(id="while_loop_grad", item=64, expected="an error naming scan", run=_loop_gradient),
    Claim(id="scan_carry_dtype_drift", item=65, expected="refused, naming the carry", run=_carry_drift),
    Claim(id="jvp_through_mask", item=67, expected="a float tangent", run=_float_tangent_of_mask),
    Claim(id="custom_vjp_wrong_shape", item=68, expected="an error naming rule and type", run=_wrong_custom_rule),
    Claim(id="key_reuse_silent", item=71, expected="an error on the second use", run=_reused_key),
    Claim(id="jit_vs_eager_bitwise_chain", item=73, expected="equal bits, or as declared", run=_eager_is_lowered),
    Claim(id="dot_precision_declared", item=74, expected="in the plan", run=_dot_is_declared),
    Claim(id="missing_device_refused", item=76, expected="an error, no fallback", run=_no_silent_device),
    Claim(id="in_place_update_refused", item=77, expected="an error", run=_arrays_are_read_only),
)
