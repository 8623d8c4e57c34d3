"""The vjp contract, by who owns the derivative.

`backend-vjp`: the module's own kernel of `<op>.vjp` keeps its bound of the derived VJP, and is the adjoint of the JVP.
`torchlean-tape`: the VJP composed of IR nodes, run by the module's capsules, keeps the definition's bits where every
capsule is bitwise and its values otherwise, and is the adjoint of the JVP. `none`: nothing of the kind is offered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from torchlean.backends.capsule import Bitwise, Capsule, OfFinite, Unstated
from torchlean.backends.planner import serves_vjp
from torchlean.backends.vocabulary import Subnormals, VjpMode
from torchlean.conformance.kit.bounds import same_bits, within, without_subnormals
from torchlean.conformance.kit.calls import Arrays, Trial, calls_of, normal, run_graph, run_kernel, said
from torchlean.conformance.kit.factorised import FACTORED
from torchlean.conformance.kit.subject import Subject, thinned
from torchlean.conformance.kit.tally import Tally
from torchlean.conformance.samples.call import Case, has_reverse
from torchlean.conformance.samples.draw import Array
from torchlean.ir.builder import bind
from torchlean.ir.dtypes import dtype_of_carrier
from torchlean.ir.evaluate import denote
from torchlean.ir.graph import Graph
from torchlean.ir.op import Op
from torchlean.ir.ops.composite import Composite
from torchlean.ir.rules import NoTangent
from torchlean.ir.tracing import trace_flat
from torchlean.transforms.jvp import jvp_graph
from torchlean.transforms.vjp import vjp_graph

# Two ways to add the same products differ by at most their number times ε of Σ|terms| [Higham 2002, §4.2]; no sample
# adds more than 2⁹ in a row.
ROUNDINGS = 2.0**9
MOST = 60
QUICK_MOST = 3


def try_vjp(subject: Subject, tally: Tally, cases: Sequence[Case]) -> None:
    """Every check of the vjp contract."""
    capsule = subject.capsule
    if capsule.vjp_mode is VjpMode.NONE:
        _try_none(subject, tally)
        return
    if isinstance(capsule.op.diff, NoTangent) or not has_reverse(capsule.op):
        _try_no_reverse(subject, tally)
        return
    capsules = {other.op: other for other in reversed(subject.module.capsules) if other.device is capsule.device}
    capsules[capsule.op] = capsule
    if capsule.vjp_mode is VjpMode.BACKEND:
        native = _native(subject, tally)
        if native is None:
            return
        _try_native(subject, native, cases, tally)
        capsules = {native.op: native}
    for trial in _differentiable(subject):
        _try_composed(trial, capsules, tally)


def _differentiable(subject: Subject) -> list[Trial]:
    """Served trials with a float operand, and no more than are needed."""
    found = [trial for trial in subject.served if any([is_inexact(array) for array in trial.arrays])]
    return thinned(found, QUICK_MOST) if subject.quick else found


def is_inexact(array: Array) -> bool:
    """Whether entries are real or complex floats: what derivatives are taken of."""
    return dtype_of_carrier(array.dtype).is_inexact


def graph_of_trial(trial: Trial) -> Graph:
    """The graph of the one call."""
    return trace_flat(lambda *xs: bind(trial.op, trial.params, *xs), trial.types, name=trial.op.name).graph


# -- nothing -----------------------------------------------------------------------------------------------------------
def _try_none(subject: Subject, tally: Tally) -> None:
    capsule = subject.capsule
    gradient = capsule.op.gradient if isinstance(capsule.op, Composite) else None
    tally.tried()
    offered = [other.name for other in subject.module.capsules if gradient is not None and other.op is gradient]
    if offered:
        tally.failed(
            "says `none`, but its module serves the gradient",
            expected=f"no capsule of {capsule.op.name}.vjp beside it",
            got=", ".join(offered),
            fix="claim backend-vjp, with its evidence",
        )
    if not isinstance(capsule.op.diff, NoTangent):
        tally.tried()
        if serves_vjp(capsule, VjpMode.TAPE):
            tally.failed(
                "says `none`, but is planned where a gradient is asked for",
                expected="refused by a policy that asks for torchlean-tape",
                got="admitted",
                fix="report this: planning must refuse it",
            )
        return
    for trial in subject.served[:QUICK_MOST]:
        graph = graph_of_trial(trial)
        tally.tried()
        _, active = jvp_graph(graph, [is_inexact(array) for array in trial.arrays])
        if any(active):
            tally.failed(
                "says `none`, but the op passes tangents on",
                trial=trial,
                expected="no active result",
                got=f"results {[at for at, flag in enumerate(active) if flag]} are active",
                fix="claim torchlean-tape",
            )


def _try_no_reverse(subject: Subject, tally: Tally) -> None:
    """An op whose reverse mode is refused, or that has none: nothing is asked of the capsule but not to offer it."""
    tally.tried()
    if subject.capsule.vjp_mode is VjpMode.BACKEND:
        tally.failed(
            "claims backend-vjp for an op without reverse mode",
            expected="none or torchlean-tape",
            got="backend-vjp",
            fix="drop the claim",
        )


# -- the backend's own -------------------------------------------------------------------------------------------------
def _native(subject: Subject, tally: Tally) -> Capsule | None:
    """The capsule of the op's gradient in the same module."""
    capsule = subject.capsule
    gradient = capsule.op.gradient if isinstance(capsule.op, Composite) else None
    for other in subject.module.capsules:
        if gradient is not None and other.op is gradient and other.device is capsule.device:
            return other
    tally.tried()
    tally.failed(
        "claims backend-vjp without a kernel for it",
        expected=f"a capsule of {capsule.op.name}.vjp on {capsule.device} in module {subject.module.name}",
        got="none",
        fix="add it, or claim torchlean-tape",
    )
    return None


def _try_native(subject: Subject, native: Capsule, cases: Sequence[Case], tally: Tally) -> None:
    """The kernel of the gradient against the derived one, within the bound of its own capsule."""
    found = [trial for trial in calls_of(native.op, cases) if native.refuses(trial.params, trial.types) is None]
    for trial in thinned(found, QUICK_MOST) if subject.quick else found:
        tally.tried()
        try:
            got = run_kernel(native, trial.params, trial.arrays)
        except Exception as error:
            tally.failed(
                f"{native.name} raises", trial=trial, expected="cotangents", got=said(error), fix="serve these operands"
            )
            continue
        graph = graph_of_trial(trial)
        want = denote(graph, trial.arrays)
        if [(x.shape, x.dtype) for x in got] != [(x.shape, x.dtype) for x in want]:
            tally.failed(
                f"{native.name} returns other types than the gradient has",
                trial=trial,
                expected=", ".join([f"{x.dtype}{list(x.shape)}" for x in want]),
                got=", ".join([f"{x.dtype}{list(x.shape)}" for x in got]),
                fix="return one cotangent per operand of `wrt`",
            )
            continue
        verdict = within(native, trial.params, trial.arrays, got, want)
        tally.deviated(verdict.deviation, verdict.ulps)
        if not verdict.ok:
            expected, seen = verdict.first(got, want)
            tally.failed(
                f"{native.name} is not the VJP of {subject.capsule.op.name}",
                trial=trial,
                expected=expected,
                got=seen,
                fix=f"correct the kernel of {native.op.name}",
            )


# -- composed ----------------------------------------------------------------------------------------------------------
def _try_composed(trial: Trial, capsules: Mapping[Op, Capsule], tally: Tally) -> None:
    """Jᵀw as the capsules run it: near the definition's, and the adjoint of J."""
    graph = graph_of_trial(trial)
    wrt = tuple([at for at, array in enumerate(trial.arrays) if is_inexact(array)])
    pulled = vjp_graph(graph, wrt)
    cotangents = [normal(type, 9) for type in graph.output_types]
    arrays = (*trial.arrays, *cotangents)
    tally.tried()
    try:
        got = run_graph(pulled, arrays, capsules)
    except Exception as error:
        tally.failed("the VJP raises", trial=trial, expected="cotangents", got=said(error), fix="serve its nodes")
        return
    used = [capsules[node.op] for node in pulled.nodes if node.op in capsules]
    zeros = any([capsule.numerics.subnormals is Subnormals.ZERO for capsule in used])
    exact = not zeros and all([isinstance(capsule.bound, Bitwise) for capsule in used])
    if not exact and not trial.smooth and trial.op in FACTORED:
        return  # near a kink, rounding decides between slopes that lie far apart
    if any([isinstance(capsule.bound, OfFinite | Unstated) for capsule in used]) and not _all_finite(trial.arrays):
        return  # what an infinity or a NaN gives is not claimed
    want = denote(pulled, arrays)
    flushed = denote(pulled, [without_subnormals(array) for array in arrays]) if zeros else want
    for at, mine, theirs, zero in zip(wrt, got, want, flushed, strict=True):
        scale = max(1.0, _largest(theirs))
        near = exact or _near(mine, theirs, zero, ROUNDINGS * _epsilon(theirs) * scale)
        if not near or (exact and not same_bits(mine, theirs)):
            tally.failed(
                f"the cotangent of operand {at} is not the definition's",
                trial=trial,
                expected="its bits: every capsule is bitwise" if exact else f"within {ROUNDINGS:g}·ε·{scale:.3g}",
                got="other bits" if exact else f"{_farthest(mine, theirs):.3g} away",
                fix="correct the kernels its nodes run",
            )
            return
    if trial.smooth:
        _try_adjoint(trial, graph, wrt, got, cotangents, tally)


def _near(mine: Array, theirs: Array, zero: Array, allowed: float) -> bool:
    """Every entry near the definition's, or near what it gives without subnormal numbers."""
    close = [np.isclose(_widened(mine), _widened(x), rtol=0, atol=allowed, equal_nan=True) for x in (theirs, zero)]
    return bool(np.logical_or(*close).all())


def _all_finite(arrays: Sequence[Array]) -> bool:
    return all([bool(np.isfinite(array).all()) for array in arrays if is_inexact(array)])


def _widened(x: Array) -> Array:
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def _farthest(mine: Array, theirs: Array) -> float:
    with np.errstate(invalid="ignore"):
        return float(np.nanmax(np.abs(_widened(mine) - _widened(theirs)), initial=0))


def _largest(x: Array) -> float:
    sizes = np.abs(_widened(x))
    return float(sizes[np.isfinite(sizes)].max(initial=0))


def _epsilon(x: Array) -> float:
    dtype = dtype_of_carrier(x.dtype)
    return 2.0**-7 if dtype.short == "bf16" else float(np.finfo(x.dtype).eps)


def _try_adjoint(
    trial: Trial, graph: Graph, wrt: tuple[int, ...], back: Arrays, ws: Sequence[Array], tally: Tally
) -> None:
    """⟨J v, w⟩ = ⟨v, Jᵀ w⟩ for one random v and the w of the VJP; J by definition."""
    random = np.random.default_rng(len(trial.name))
    vs = [random.uniform(-1, 1, trial.arrays[at].shape).astype(trial.arrays[at].dtype) for at in wrt]
    pushed, active = jvp_graph(graph, [at in wrt for at in range(len(graph.inputs))])
    values = denote(pushed, (*trial.arrays, *vs))
    tangents = list(values[len(graph.outputs) :])
    moved = [(tangents.pop(0), w) for w, flag in zip(ws, active, strict=True) if flag]
    left, left_size = _inner(moved)
    right, right_size = _inner(list(zip(vs, back, strict=True)))
    largest = max([_largest(a) for a in (*values[: len(graph.outputs)], *trial.arrays) if is_inexact(a)], default=0.0)
    unit = max([_epsilon(trial.arrays[at]) for at in wrt])
    allowed = ROUNDINGS * unit * (left_size + right_size + (1 + largest) * len(wrt))
    tally.tried()
    if not abs(left - right) <= allowed:
        tally.failed(
            "the VJP is not the adjoint of the JVP",
            trial=trial,
            expected=f"⟨v, Jᵀw⟩ = ⟨Jv, w⟩ = {left:.6g}, within {allowed:.2g}",
            got=f"{right:.6g}",
            fix="correct the kernels the VJP's nodes run",
        )


def _inner(pairs: Sequence[tuple[Array, Array]]) -> tuple[float, float]:
    """Σ x·y and Σ |x·y|, in float64; of complex numbers the real part of conj(x)·y."""
    total, size = 0.0, 0.0
    for x, y in pairs:
        products = np.real(np.conj(_widened(x)) * _widened(y))
        total += float(products.sum())
        size += float(np.abs(products).sum())
    return total, size
