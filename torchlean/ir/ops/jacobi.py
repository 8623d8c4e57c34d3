"""Jacobi's method over an algebra: eigenvalues of Hermitian matrices, and singular values by one-sided rotations.

Fixed order: each sweep runs through the rounds of a round-robin tournament, whose pairs are disjoint and are rotated
together [Brent & Luk 1985]. A pair is left alone when its coupling is negligible, so a matrix that has converged is not
changed by the sweeps others in its batch still need. Rotations: [Golub & Van Loan 2013, §8.5, §8.6.3].
"""

from __future__ import annotations

from typing import Any

import numpy as np

from torchlean.ir.ops import matrices as mx

MOST_SWEEPS = 30  # quadratic convergence needs six to ten; a matrix with NaN never converges


def tournament(n: int) -> list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    """Rounds of disjoint pairs (p, q), p < q, that together hold every pair once."""
    players = [*range(n), *([-1] if n % 2 else [])]
    rounds: list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]] = []
    for _ in range(len(players) - 1):
        half = len(players) // 2
        pairs = [(a, b) for a, b in zip(players[:half], reversed(players[half:]), strict=True) if min(a, b) >= 0]
        low = np.array([min(pair) for pair in pairs], dtype=np.int64)
        high = np.array([max(pair) for pair in pairs], dtype=np.int64)
        rounds.append((low, high))
        players = [players[0], players[-1], *players[1:-1]]
    return rounds


def rotation(algebra: Any, first: Any, second: Any, coupling: Any, size: Any, idle: Any) -> tuple[Any, Any, Any]:
    """Cosine, sine and phase that end a coupling of absolute value `size` between real weights; idle ones turn nothing.

    ζ = (second - first)/(2·size), t = sign(ζ)/(|ζ| + √(1 + ζ²)), c = 1/√(1 + t²), s = t·c.
    """
    one, zero = mx.constant(algebra, 1, size), mx.constant(algebra, 0, size)
    safe = algebra.select(idle, one, size)
    zeta = algebra.div(algebra.sub(second, first), algebra.add(safe, safe))
    reach = algebra.add(algebra.abs(zeta), algebra.sqrt(algebra.add(one, algebra.mul(zeta, zeta))))
    sign = algebra.select(algebra.compare("ge", zeta, zero), one, algebra.neg(one))
    tangent = algebra.select(idle, zero, algebra.div(sign, reach))
    cosine = algebra.div(one, algebra.sqrt(algebra.add(one, algebra.mul(tangent, tangent))))
    phase = mx.over_real(algebra, mx.conjugate(algebra, coupling), safe)
    phase = algebra.select(idle, mx.constant(algebra, 1, phase), phase)
    return cosine, algebra.mul(tangent, cosine), phase


def turn_columns(algebra: Any, x: Any, pair: Any, cosine: Any, sine: Any, phase: Any) -> Any:
    """Columns p, q become c·p - s·d·q and s·p + c·d·q, d the phase."""
    low, high = pair
    p = mx.at(algebra, x, slice(None), low)
    q = mx.at(algebra, x, slice(None), high)

    def over(w: Any) -> Any:
        return algebra.shape(lambda v: np.broadcast_to(v[..., None, :], np.shape(p)), mx.widened(algebra, w, x))

    c, s, turned = over(cosine), over(sine), algebra.mul(over(phase), q)
    new_p = algebra.sub(algebra.mul(c, p), algebra.mul(s, turned))
    new_q = algebra.add(algebra.mul(s, p), algebra.mul(c, turned))
    return mx.put(algebra, mx.put(algebra, x, new_p, slice(None), low), new_q, slice(None), high)


def _swapped(algebra: Any, x: Any) -> Any:
    return mx.conjugate(algebra, algebra.shape(lambda v: np.swapaxes(v, -1, -2), x))


def eigen(algebra: Any, x: Any) -> tuple[Any, Any]:
    """Unsorted eigenvalues and eigenvectors of Hermitian matrices."""
    *batch, n, _ = np.shape(x)
    vectors = algebra.constant(np.broadcast_to(np.eye(n, dtype=x.dtype), (*batch, n, n)))
    rounds = tournament(n)
    for _ in range(MOST_SWEEPS):
        quiet = True
        for pair in rounds:
            low, high = pair
            first = mx.real_part(algebra, mx.at(algebra, x, low, low))
            second = mx.real_part(algebra, mx.at(algebra, x, high, high))
            coupling = mx.at(algebra, x, low, high)
            size = algebra.abs(coupling)
            small = [algebra.compare("eq", algebra.add(w, size), w) for w in map(algebra.abs, (first, second))]
            idle = algebra.exact(np.logical_and, *small)
            quiet = quiet and bool(np.all(idle))
            cosine, sine, phase = rotation(algebra, first, second, coupling, size, idle)
            x = turn_columns(algebra, x, pair, cosine, sine, phase)
            x = _swapped(algebra, turn_columns(algebra, _swapped(algebra, x), pair, cosine, sine, phase))
            none = mx.constant(algebra, 0, coupling)
            x = mx.put(algebra, mx.put(algebra, x, none, low, high), none, high, low)
            vectors = turn_columns(algebra, vectors, pair, cosine, sine, phase)
        if quiet:
            break
    diagonal = algebra.shape(lambda v: np.diagonal(v, axis1=-2, axis2=-1), x)
    return mx.real_part(algebra, diagonal), vectors


def orthogonalised(algebra: Any, x: Any) -> tuple[Any, Any]:
    """W = x·V with orthogonal columns, and V unitary, for matrices with at least as many rows as columns."""
    *batch, _, n = np.shape(x)
    vectors = algebra.constant(np.broadcast_to(np.eye(n, dtype=x.dtype), (*batch, n, n)))
    rounds = tournament(n)
    rows = len(batch)
    for _ in range(MOST_SWEEPS):
        quiet = True
        for pair in rounds:
            low, high = pair
            p, q = mx.at(algebra, x, slice(None), low), mx.at(algebra, x, slice(None), high)
            first = algebra.sum(mx.squared_size(algebra, p), (rows,))
            second = algebra.sum(mx.squared_size(algebra, q), (rows,))
            coupling = algebra.sum(algebra.mul(mx.conjugate(algebra, p), q), (rows,))
            size = algebra.abs(coupling)
            unit = mx.constant(algebra, np.finfo(x.dtype).eps, size)
            limit = algebra.mul(unit, algebra.mul(algebra.sqrt(first), algebra.sqrt(second)))
            idle = algebra.compare("le", size, limit)
            quiet = quiet and bool(np.all(idle))
            cosine, sine, phase = rotation(algebra, first, second, coupling, size, idle)
            x = turn_columns(algebra, x, pair, cosine, sine, phase)
            vectors = turn_columns(algebra, vectors, pair, cosine, sine, phase)
        if quiet:
            break
    return x, vectors


def with_fixed_phase(algebra: Any, x: Any, *others: Any) -> tuple[Any, ...]:
    """Columns turned so that the first entry of largest absolute value is positive; the same turns for the others."""
    sizes = algebra.abs(x)
    if np.shape(x)[-2] == 0:
        return (x, *others)
    where = np.asarray(sizes).argmax(-2)
    top = algebra.shape(lambda v: np.take_along_axis(v, where[..., None, :], -2), x)
    length = algebra.abs(top)
    none = algebra.compare("eq", length, mx.constant(algebra, 0, length))
    safe = algebra.select(none, mx.constant(algebra, 1, length), length)
    phase = mx.over_real(algebra, mx.conjugate(algebra, top), safe)
    phase = algebra.select(none, mx.constant(algebra, 1, phase), phase)
    return tuple([algebra.mul(v, mx.spread(algebra, phase, np.shape(v))) for v in (x, *others)])


def reordered(algebra: Any, order: np.ndarray[Any, Any], values: Any, *matrices: Any) -> tuple[Any, ...]:
    """Values and columns in another order."""
    return (
        algebra.shape(lambda v: np.take_along_axis(v, order, -1), values),
        *[algebra.shape(lambda v: np.take_along_axis(v, order[..., None, :], -1), m) for m in matrices],
    )
