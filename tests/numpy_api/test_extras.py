"""The names beyond the standard, against NumPy: eager, traced and lowered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy_api.threeways import close, results

import torchlean.numpy as tnp

RNG = np.random.default_rng(20241)
A = RNG.normal(size=(4, 5)).astype(np.float32)
B = RNG.normal(size=(4, 5)).astype(np.float32)
M = RNG.normal(size=(4, 4)).astype(np.float32)
C = RNG.normal(size=(2, 3, 4)).astype(np.float32)
V = RNG.normal(size=7).astype(np.float32)
W = RNG.normal(size=3).astype(np.float32)
P = (np.abs(RNG.normal(size=(4, 5))) + 0.1).astype(np.float32)
N = A.copy()
N[0, 1] = N[2, 3] = N[2, 4] = np.nan
E3 = RNG.normal(size=(4, 3)).astype(np.float32)
S = np.sort(RNG.normal(size=6)).astype(np.float32)
N32 = RNG.integers(-6, 7, size=(4, 5)).astype(np.int32)
J = RNG.integers(1, 6, size=(4, 5)).astype(np.int32)
K = RNG.integers(0, 6, size=11).astype(np.int32)
Z = (RNG.normal(size=(3, 4)) + 1j * RNG.normal(size=(3, 4))).astype(np.complex64)
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -2.5, 1e-40], np.float32)

Call = Callable[..., Any]
# (name, call, arrays): the call is made with torchlean.numpy and with NumPy in place of `xp`.
CASES: tuple[tuple[str, Call, tuple[Any, ...]], ...] = (
    # arithmetic
    ("fmod", lambda xp, a, b: xp.fmod(a, b), (A, P)),
    ("fmod ints", lambda xp, a, b: xp.fmod(a, b), (N32, J)),
    ("mod ints", lambda xp, a, b: xp.mod(a, b), (N32, J)),
    ("divmod", lambda xp, a, b: xp.divmod(a, b), (N32, J)),
    ("float_power", lambda xp, a: xp.float_power(a, 2).astype(xp.float32), (P,)),
    ("fmax", lambda xp, a, b: xp.fmax(a, b), (N, A[::-1].copy())),
    ("fmin", lambda xp, a, b: xp.fmin(a, b), (N, A[::-1].copy())),
    ("heaviside", lambda xp, a: xp.heaviside(a, xp.float32(0.5) if xp is np else 0.5), (SPECIAL,)),
    ("gcd", lambda xp, a, b: xp.gcd(a, b), (N32, J)),
    ("lcm", lambda xp, a, b: xp.lcm(a, b), (N32, J)),
    ("cbrt", lambda xp, a: xp.cbrt(a), (A,)),
    ("fabs", lambda xp, a: xp.fabs(a), (SPECIAL,)),
    ("ptp", lambda xp, a: xp.ptp(a, axis=1), (A,)),
    # exponential, trigonometric
    ("exp2", lambda xp, a: xp.exp2(a), (A,)),
    ("logaddexp", lambda xp, a, b: xp.logaddexp(a, b), (A, B)),
    ("logaddexp infinite", lambda xp, a, b: xp.logaddexp(a, b), (SPECIAL, SPECIAL[::-1].copy())),
    ("logaddexp same", lambda xp, a: xp.logaddexp(a, a), (SPECIAL,)),
    ("logaddexp2", lambda xp, a, b: xp.logaddexp2(a, b), (A, B)),
    ("sinc", lambda xp, a: xp.sinc(a), (A,)),
    ("sinc at 0", lambda xp, a: xp.sinc(a), (np.zeros(2, np.float32),)),
    ("deg2rad", lambda xp, a: xp.deg2rad(a), (A,)),
    ("rad2deg", lambda xp, a: xp.rad2deg(a), (A,)),
    ("unwrap", lambda xp, a: xp.unwrap(a), (8 * A,)),
    ("hypot", lambda xp, a, b: xp.hypot(a, b), (SPECIAL, SPECIAL[::-1].copy())),
    # rounding
    ("round 2", lambda xp, a: xp.round(a, 2), (A,)),
    ("round -1", lambda xp, a: xp.round(a, -1), (100 * A,)),
    ("fix", lambda xp, a: xp.fix(a), (3 * A,)),
    ("rint", lambda xp, a: xp.rint(a), (3 * A,)),
    ("modf", lambda xp, a: xp.modf(a), (SPECIAL[1:],)),
    ("nan_to_num", lambda xp, a: xp.nan_to_num(a), (SPECIAL,)),
    ("nan_to_num to", lambda xp, a: xp.nan_to_num(a, nan=1.0, posinf=2.0, neginf=3.0), (SPECIAL,)),
    # comparison
    ("isclose", lambda xp, a, b: xp.isclose(a, b), (A, A + np.float32(1e-6))),
    ("isclose special", lambda xp, a, b: xp.isclose(a, b, equal_nan=True), (SPECIAL, SPECIAL)),
    ("allclose", lambda xp, a, b: xp.allclose(a, b), (A, B)),
    ("array_equal", lambda xp, a, b: xp.array_equal(a, b), (A, A)),
    ("array_equiv", lambda xp, a, b: xp.array_equiv(a, b), (A, A[:1])),
    ("isposinf", lambda xp, a: xp.isposinf(a), (SPECIAL,)),
    ("isneginf", lambda xp, a: xp.isneginf(a), (SPECIAL,)),
    ("iscomplex", lambda xp, a: xp.iscomplex(a), (Z,)),
    ("angle", lambda xp, a: xp.angle(a), (Z,)),
    # reductions
    ("average", lambda xp, a, b: xp.average(a, axis=1, weights=b), (A, P)),
    ("average vector", lambda xp, a, b: xp.average(a, axis=0, weights=b), (A, P[:, 0].copy())),
    ("mean where", lambda xp, a, b: xp.mean(a, axis=0, where=b > 0), (A, np.abs(B))),
    ("sum where", lambda xp, a, b: xp.sum(a, axis=0, where=b > 0, initial=xp.float32(2) if xp is np else 2), (A, B)),
    ("max where", lambda xp, a, b: xp.max(a, axis=0, where=b > 0, initial=-9), (A, B)),
    ("var ddof", lambda xp, a: xp.var(a, axis=0, ddof=1), (A,)),
    ("std ddof", lambda xp, a: xp.std(a, ddof=1), (A,)),
    ("nansum", lambda xp, a: xp.nansum(a, axis=0), (N,)),
    ("nanprod", lambda xp, a: xp.nanprod(a, axis=1), (N,)),
    ("nanmax", lambda xp, a: xp.nanmax(a, axis=1), (N,)),
    ("nanmin", lambda xp, a: xp.nanmin(a), (N,)),
    ("nanmean", lambda xp, a: xp.nanmean(a, axis=0), (N,)),
    ("nanvar", lambda xp, a: xp.nanvar(a, axis=0), (N,)),
    ("nanstd", lambda xp, a: xp.nanstd(a, axis=1, ddof=1), (N,)),
    ("nanargmax", lambda xp, a: xp.nanargmax(a, axis=1), (N,)),
    ("nanargmin", lambda xp, a: xp.nanargmin(a), (N,)),
    ("nancumsum", lambda xp, a: xp.nancumsum(a), (N,)),
    ("nancumprod", lambda xp, a: xp.nancumprod(a, axis=0), (N,)),
    ("nanmedian", lambda xp, a: xp.nanmedian(a, axis=1), (N,)),
    ("nanquantile", lambda xp, a: xp.nanquantile(a, 0.3, axis=0).astype(xp.float32), (N,)),
    ("nanpercentile", lambda xp, a: xp.nanpercentile(a, 30).astype(xp.float32), (N,)),
    ("median", lambda xp, a: xp.median(a, axis=0), (A,)),
    ("median nan", lambda xp, a: xp.median(a, axis=1), (N,)),
    ("quantile", lambda xp, a: xp.quantile(a, 0.3, axis=1).astype(xp.float32), (A,)),
    ("quantile several", lambda xp, a: xp.quantile(a, np.float32([0.1, 0.5, 1.0]), axis=0), (A,)),
    ("percentile", lambda xp, a: xp.percentile(a, 75, axis=1).astype(xp.float32), (A,)),
    *[
        (f"quantile {m}", lambda xp, a, m=m: xp.quantile(a, 0.4, axis=0, method=m).astype(xp.float32), (A,))
        for m in ("lower", "higher", "midpoint", "nearest")
    ],
    # cumulative
    ("cumsum", lambda xp, a: xp.cumsum(a), (A,)),
    ("cumsum axis", lambda xp, a: xp.cumsum(a, axis=1), (A,)),
    ("cumprod", lambda xp, a: xp.cumprod(a, axis=0), (A,)),
    ("diff", lambda xp, a: xp.diff(a, n=2, axis=0), (A,)),
    ("ediff1d", lambda xp, a: xp.ediff1d(a), (A,)),
    ("trapezoid", lambda xp, a, x: xp.trapezoid(a, x, axis=1), (A, np.sort(B, axis=1))),
    ("trapezoid dx", lambda xp, a: xp.trapezoid(a, dx=0.5, axis=0), (A,)),
    ("gradient", lambda xp, a: xp.gradient(a), (A,)),
    ("gradient 2", lambda xp, a: xp.gradient(a, 2.0, axis=1, edge_order=2), (A,)),
    # shapes
    ("ravel", lambda xp, a: xp.ravel(a), (C,)),
    ("swapaxes", lambda xp, a: xp.swapaxes(a, 0, -1), (C,)),
    ("rollaxis", lambda xp, a: xp.rollaxis(a, 2, 1), (C,)),
    ("rollaxis back", lambda xp, a: xp.rollaxis(a, 0, 3), (C,)),
    ("atleast_1d", lambda xp, a: xp.atleast_1d(a), (np.float32(2.0).reshape(()),)),
    ("atleast_2d", lambda xp, a: xp.atleast_2d(a), (V,)),
    ("atleast_3d", lambda xp, a: xp.atleast_3d(a), (A,)),
    ("fliplr", lambda xp, a: xp.fliplr(a), (A,)),
    ("flipud", lambda xp, a: xp.flipud(a), (A,)),
    *[(f"rot90 {k}", lambda xp, a, k=k: xp.rot90(a, k), (A,)) for k in range(4)],
    ("resize", lambda xp, a: xp.resize(a, (3, 9)), (A,)),
    ("transpose", lambda xp, a: xp.transpose(a, (1, 2, 0)), (C,)),
    # joining
    ("vstack", lambda xp, a, b: xp.vstack((a, b)), (V, V)),
    ("hstack", lambda xp, a, b: xp.hstack((a, b)), (A, B)),
    ("hstack vectors", lambda xp, a, b: xp.hstack((a, b)), (V, W)),
    ("dstack", lambda xp, a, b: xp.dstack((a, b)), (A, B)),
    ("column_stack", lambda xp, a, b: xp.column_stack((a, b)), (V, V)),
    ("append", lambda xp, a, b: xp.append(a, b), (A, V)),
    ("append axis", lambda xp, a, b: xp.append(a, b, axis=0), (A, B)),
    ("block", lambda xp, a, b: xp.block([[a, b], [b, a]]), (A, B)),
    ("split", lambda xp, a: xp.split(a, 2, axis=0), (A,)),
    ("split at", lambda xp, a: xp.split(a, [1, 3], axis=1), (A,)),
    ("array_split", lambda xp, a: xp.array_split(a, 3), (V,)),
    ("hsplit", lambda xp, a: xp.hsplit(a, [2]), (A,)),
    ("vsplit", lambda xp, a: xp.vsplit(a, 2), (A,)),
    ("dsplit", lambda xp, a: xp.dsplit(a, 2), (C,)),
    ("delete", lambda xp, a: xp.delete(a, [0, 2], axis=1), (A,)),
    ("delete one", lambda xp, a: xp.delete(a, -1), (V,)),
    ("insert", lambda xp, a: xp.insert(a, 2, 9.0), (V,)),
    ("insert row", lambda xp, a, b: xp.insert(a, 1, b, axis=0), (A, B[0].copy())),
    # padding
    *[
        (f"pad {m}", lambda xp, a, m=m: xp.pad(a, ((1, 2), (3, 2)), mode=m), (A,))
        for m in ("edge", "reflect", "symmetric", "wrap", "maximum", "minimum", "mean", "linear_ramp")
    ],
    ("pad constant", lambda xp, a: xp.pad(a, ((1, 2), (0, 3)), constant_values=7), (A,)),
    ("pad constants", lambda xp, a: xp.pad(a, 2, constant_values=((1, 2), (3, 4))), (A,)),
    ("pad wide reflect", lambda xp, a: xp.pad(a, 9, mode="reflect"), (W,)),
    ("pad wide symmetric", lambda xp, a: xp.pad(a, 9, mode="symmetric"), (W,)),
    ("pad wide wrap", lambda xp, a: xp.pad(a, 8, mode="wrap"), (W,)),
    ("pad ramp to", lambda xp, a: xp.pad(a, 3, mode="linear_ramp", end_values=2), (V,)),
    # diagonals
    ("diag", lambda xp, a: xp.diag(a), (M,)),
    *[(f"diag vector {k}", lambda xp, a, k=k: xp.diag(a, k), (W,)) for k in (-2, 0, 1)],
    *[(f"diagonal {k}", lambda xp, a, k=k: xp.diagonal(a, offset=k), (A,)) for k in (-4, -3, -1, 0, 2, 4, 5)],
    ("diagonal axes", lambda xp, a: xp.diagonal(a, axis1=2, axis2=0), (C,)),
    ("diagflat", lambda xp, a: xp.diagflat(a, 1), (A[:2, :2].copy(),)),
    ("trace", lambda xp, a: xp.trace(a, offset=1), (A,)),
    ("trace axes", lambda xp, a: xp.trace(a, axis1=1, axis2=2), (C,)),
    ("vander", lambda xp, a: xp.vander(a), (W,)),
    ("vander increasing", lambda xp, a: xp.vander(a, 5, increasing=True), (W,)),
    # products
    ("dot vectors", lambda xp, a, b: xp.dot(a, b), (V, V)),
    ("dot", lambda xp, a, b: xp.dot(a, b), (C, M)),
    ("dot many", lambda xp, a, b: xp.dot(a, b), (C, C.reshape(3, 4, 2))),
    ("inner", lambda xp, a, b: xp.inner(a, b), (A, B)),
    ("outer", lambda xp, a, b: xp.outer(a, b), (V, W)),
    ("vdot", lambda xp, a, b: xp.vdot(a, b), (Z, Z[::-1].copy())),
    ("kron", lambda xp, a, b: xp.kron(a, b), (A, W)),
    ("kron matrices", lambda xp, a, b: xp.kron(a, b), (A, C[0])),
    ("cross", lambda xp, a, b: xp.cross(a, b), (E3, E3[::-1].copy())),
    ("tensordot", lambda xp, a, b: xp.tensordot(a, b, axes=((1, 0), (0, 1))), (A, B.T.copy())),
    ("matvec", lambda xp, a, b: xp.matvec(a, b), (C, M[0].copy())),
    ("vecmat", lambda xp, a, b: xp.vecmat(a, b), (W, C)),
    # selection
    ("where", lambda xp, a, b: xp.where(a > 0, a, b), (A, B)),
    ("choose", lambda xp, s, a, b: xp.choose(s, (a, b)), (np.int32([0, 1, 1]), W, -W)),
    ("select", lambda xp, a: xp.select([a > 1, a > 0], [a, 2 * a], 0.0), (A,)),
    ("piecewise", lambda xp, a: xp.piecewise(a, [a < 0, a > 1], [lambda v: -v, lambda v: v * v, 5.0]), (A,)),
    ("take_along_axis", lambda xp, a: xp.take_along_axis(a, xp.argsort(a, axis=1), axis=1), (A,)),
    # sorting
    ("sort", lambda xp, a: xp.sort(a, axis=0), (N,)),
    ("lexsort", lambda xp, a, b: xp.lexsort((a, b)), (K, K[::-1].copy() % 2)),
    ("sort_complex", lambda xp, a: xp.sort_complex(a), (Z[0].copy(),)),
    ("searchsorted", lambda xp, a, v: xp.searchsorted(a, v), (S, np.concatenate([S[2:4], V]))),
    (
        "searchsorted right",
        lambda xp, a, v: xp.searchsorted(a, v, side="right"),
        (S, np.concatenate([S[2:4], SPECIAL])),
    ),
    # counting
    ("bincount", lambda xp, a: xp.bincount(a, **({"minlength": 8} if xp is np else {"length": 8})), (K,)),
    (
        "bincount weights",
        lambda xp, a, w: xp.bincount(a, w, **({"minlength": 8} if xp is np else {"length": 8})).astype(xp.float32),
        (K, np.abs(np.resize(V, 11))),
    ),
    ("digitize", lambda xp, a, b: xp.digitize(a, np.float32([-1, 0, 1])), (A, B)),
    ("digitize right", lambda xp, a: xp.digitize(a, np.int32([-1, 0, 3]), right=True), (N32,)),
    ("digitize down", lambda xp, a: xp.digitize(a, np.float32([1, 0, -1])), (A,)),
    ("histogram", lambda xp, a: xp.histogram(a, 5, (-2.0, 2.0)), (A,)),
    ("histogram edges", lambda xp, a: xp.histogram(a, bins=np.float32([-1, 0, 0.5, 2])), (A,)),
    ("histogram free", lambda xp, a: xp.histogram(a, 4), (A,)),
    ("cov", lambda xp, a: xp.cov(a).astype(xp.float32), (A,)),
    ("corrcoef", lambda xp, a: xp.corrcoef(a).astype(xp.float32), (A,)),
    ("isin", lambda xp, a, b: xp.isin(a, b), (N32, K)),
    # signals
    *[(f"convolve {m}", lambda xp, a, b, m=m: xp.convolve(a, b, m), (V, W)) for m in ("full", "same", "valid")],
    *[
        (f"convolve even {m}", lambda xp, a, b, m=m: xp.convolve(a, b, m), (V, V[:4].copy()))
        for m in ("full", "same", "valid")
    ],
    *[(f"correlate {m}", lambda xp, a, b, m=m: xp.correlate(a, b, m), (V, W)) for m in ("full", "same", "valid")],
    *[(f"correlate short {m}", lambda xp, a, b, m=m: xp.correlate(b, a, m), (V, W)) for m in ("full", "same", "valid")],
    ("interp", lambda xp, a, x, y: xp.interp(a, x, y).astype(xp.float32), (A, S, np.cos(S))),
    ("interp ends", lambda xp, a, x, y: xp.interp(a, x, y, left=-7.0, right=9.0).astype(xp.float32), (A, S, np.cos(S))),
    ("polyval", lambda xp, p, x: xp.polyval(p, x), (W, A)),
    ("polyadd", lambda xp, p, q: xp.polyadd(p, q), (W, V)),
    ("polysub", lambda xp, p, q: xp.polysub(p, q), (W, V)),
    ("polymul", lambda xp, p, q: xp.polymul(p, q), (W, V)),
    ("polyder", lambda xp, p: xp.polyder(p, 2).astype(xp.float32), (V,)),
    ("polyint", lambda xp, p: xp.polyint(p).astype(xp.float32), (V,)),
    # einsum
    *[
        (f"einsum {text}", lambda xp, *xs, text=text: xp.einsum(text, *xs), arrays)
        for text, arrays in (
            ("ij,kj->ik", (A, B)),
            ("ij,jk", (A, B.T.copy())),
            ("ij->ji", (A,)),
            ("ij->", (A,)),
            ("ii->i", (M,)),
            ("ii", (M,)),
            ("i,j->ij", (V, W)),
            ("ij,ij->i", (A, B)),
            ("...ij,jk->...ik", (C, M)),
            ("...j,j", (C, M[0].copy())),
            ("bij,bjk->bik", (C, C.transpose(0, 2, 1).copy())),
            ("ij,jk,kl->il", (A, B.T.copy(), M)),
            ("ij,j,i->", (A, A[0].copy(), A[:, 0].copy())),
            ("abc,abd->dc", (C, C)),
            ("ij,k->ik", (A, W)),
            ("iij->j", (np.stack([M] * 2, axis=-1).transpose(0, 1, 2).copy(),)),
            ("i...->...", (C,)),
            ("...,...", (A, A[:1])),
            ("ba", (A,)),
        )
    ],
    ("einsum lists", lambda xp, a, b: xp.einsum(a, [0, 1], b, [2, 1], [0, 2]), (A, B)),
    ("einsum lists dots", lambda xp, a, b: xp.einsum(a, [..., 0], b, [0, 1], [..., 1]), (C, M)),
)


@pytest.mark.parametrize(("name", "call", "arrays"), CASES, ids=[case[0] for case in CASES])
def test_the_value_is_numpys(name: str, call: Call, arrays: tuple[Any, ...]) -> None:
    with np.errstate(all="ignore"):
        wanted = call(np, *arrays)
    wanted = list(wanted) if isinstance(wanted, tuple | list) else [wanted]
    made = results(lambda *xs: call(tnp, *xs), *arrays)
    assert len(made) == len(wanted)
    for mine, theirs in zip(made, wanted, strict=True):
        theirs = np.asarray(theirs)
        if theirs.dtype == np.int64:
            theirs = theirs.astype(np.int32)  # positions and counts are int32 here
        if theirs.dtype == np.float64:
            theirs = theirs.astype(np.float32)
        close(mine, theirs, ulps=64)


def test_every_case_was_run() -> None:
    assert len(CASES) == len({case[0] for case in CASES}) >= 190
