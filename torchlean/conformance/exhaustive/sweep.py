"""All 2³² float32 through one kernel, block by block: the distance to the exact value, and whether the claim holds.

The deviation of a result is |result - exact| / ulp, where ulp is the spacing of float32 at the exact value (2⁻¹⁴⁹ below
the normal numbers) and ±∞ counts as ±2¹²⁸. A result is correctly rounded when it is the float32 nearest to the exact
value; where float64 cannot tell, balls do.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from torchlean.backends.capsule import Bitwise, Capsule, Ulp
from torchlean.conformance.exhaustive.oracle import MARGIN, ORACLES, Oracle, correctly_rounded, doubt
from torchlean.conformance.kit.bounds import different_bits, tolerance_of, ulp_distance
from torchlean.conformance.kit.calls import defined, kernel_for
from torchlean.errors import ConfigError, InternalError, message
from torchlean.evidence.claim import MOST_FAILURES, Outcome
from torchlean.ir.dtypes import DType
from torchlean.ir.types import TensorType
from torchlean.record import record

Array = np.ndarray[Any, Any]

ALL = 2**32
BLOCK = 2**26  # what is written down at a time
CHUNK = 2**16  # what is computed at a time; fits the cache
LIMITS = (1.0, 2.0, 4.0)
BUCKETS = ("correctly rounded", "≤ 1 ulp", "≤ 2 ulp", "≤ 4 ulp", "> 4 ulp", "NaN or sign of 0 differs")


@record
class Block:
    """What inputs `start` to `stop` (as 32-bit words) gave: counts per bucket, the largest deviation and its input."""

    start: int
    stop: int
    counts: tuple[int, ...]
    worst: float
    at: int
    faults: tuple[str, ...]  # where the capsule's claim fails


def serves(capsule: Capsule) -> bool:
    """Whether a capsule can be tried exhaustively: one float32 operand, and a function with an oracle."""
    return capsule.op in ORACLES and isinstance(capsule.bound, Bitwise | Ulp) and capsule.handler is not None


def run_block(capsule: Capsule, start: int, stop: int) -> Block:
    """Try the inputs from `start` up to `stop`."""
    oracle = ORACLES[capsule.op]
    counts = np.zeros(len(BUCKETS), np.int64)
    worst, at = -1.0, start
    faults: list[str] = []
    kernels: dict[int, Callable[..., tuple[Any, ...]]] = {}
    for low in range(start, stop, CHUNK):
        words = np.arange(low, min(low + CHUNK, stop), dtype=np.uint64).astype(np.uint32)
        x = words.view(np.float32)
        if x.size not in kernels:
            kernels[x.size] = kernel_for(capsule, None, (TensorType((x.size,), DType.F32),))
        got = np.asarray(kernels[x.size](x)[0])
        if len(faults) < MOST_FAILURES:
            faults += _faults(capsule, x, got)
        deviation, exact = _deviation(oracle, x, got)
        counts += _counted(deviation, exact)
        largest = int(np.argmax(np.where(np.isnan(deviation), -1.0, deviation)))
        if deviation[largest] > worst:
            worst, at = float(deviation[largest]), low + largest
    return Block(start, stop, tuple(counts.tolist()), worst, at, tuple(faults[:MOST_FAILURES]))


def _deviation(oracle: Oracle, x: Array, got: Array) -> tuple[Array, Array]:
    """The deviations in ulp, NaN where one of two is NaN or signs of zero differ; and which are correctly rounded."""
    with np.errstate(all="ignore"):
        wide = oracle.wide(x.astype(np.float64))
        rounded = wide.astype(np.float32)
        top = 2.0**128
        result = np.clip(got.astype(np.float64), -top, top)
        value = np.clip(wide, -top, top)
        power = (np.abs(value).view(np.uint64) & np.uint64(0x7FF0000000000000)).view(np.float64)
        ulp = np.clip(power, 2.0**-126, 2.0**127) * 2.0**-23
        deviation = np.abs(result - value) / ulp
        exact = (rounded == got) & (np.signbit(rounded) == np.signbit(got))
        both = np.isnan(wide) & np.isnan(got)
        deviation[both] = 0.0
        exact |= both
        deviation[(got == 0) & (rounded == 0) & (np.signbit(rounded) != np.signbit(got))] = np.nan
        steps = np.abs(value) / ulp
        close = np.abs(steps - np.floor(steps) - 0.5) <= MARGIN * 2.0**24 + 2.0**-28
        for position in np.flatnonzero(close & np.isfinite(wide) & (np.abs(wide) < top)):
            nearest = correctly_rounded(oracle, float(x[position]))
            exact[position] = nearest == got[position]
    return deviation, exact


def _counted(deviation: Array, exact: Array) -> Array:
    inexact = deviation[~exact]
    above = [int(np.count_nonzero(inexact > limit)) for limit in LIMITS]
    odd = int(np.count_nonzero(np.isnan(inexact)))
    measured = inexact.size - odd
    return np.array([exact.sum(), measured - above[0], above[0] - above[1], above[1] - above[2], above[2], odd])


def _faults(capsule: Capsule, x: Array, got: Array) -> list[str]:
    """Where the kernel is farther from the definition than the capsule claims."""
    want = defined(capsule.op, None, (x,))[0]
    match capsule.bound:
        case Bitwise():
            bad = different_bits(got, want)
        case Ulp(n):
            distance = ulp_distance(got, want)
            assert distance is not None  # of floats
            bad = distance > n
        case _:
            raise InternalError(f"{capsule.name} states no bound that can be tried on each input")
    return [
        f"{capsule.op.name}({float(x[at])!r}) = {float(got[at])!r}, by definition {float(want[at])!r}"
        for at in np.flatnonzero(bad)[:MOST_FAILURES]
    ]


# -- whole runs --------------------------------------------------------------------------------------------------------
def run_exhaustive(
    capsule: Capsule,
    *,
    progress: Path,
    key: str,
    told: Callable[[int, int], None] = lambda done, total: None,
    blocks: Sequence[tuple[int, int]] | None = None,
) -> Outcome:
    """Try every float32 and return the outcome of the capsule's value claim.

    `progress` is a file of finished blocks; a later call with the same `key` (what the kernel and its definition
    are) goes on from it, with another key it starts again. `told(done, total)` is called after every block.
    """
    if not serves(capsule):
        raise ConfigError(
            message(
                f"{capsule.name} cannot be tried on every input",
                expected="a kernel of one float32 operand that is Bitwise or Ulp(n): "
                + ", ".join(sorted(op.name for op in ORACLES)),
                got=f"{capsule.op.name}, {capsule.bound}",
                fix="run its ordinary suite",
            )
        )
    oracle = ORACLES[capsule.op]
    wrong = doubt(oracle)
    if wrong is not None:
        raise InternalError(wrong)
    wanted = list(blocks) if blocks is not None else [(start, start + BLOCK) for start in range(0, ALL, BLOCK)]
    known = {(block.start, block.stop): block for block in _read(progress, key)}
    for done, (start, stop) in enumerate(wanted):
        if (start, stop) not in known:
            known[start, stop] = run_block(capsule, start, stop)
            _append(progress, known[start, stop])
        told(done + 1, len(wanted))
    return outcome(capsule, [known[span] for span in wanted])


def outcome(capsule: Capsule, blocks: Sequence[Block]) -> Outcome:
    """The outcome of the value claim from its blocks."""
    counts = np.sum([block.counts for block in blocks], axis=0).tolist()
    worst = max(blocks, key=lambda block: block.worst)
    at = float(np.array(worst.at, np.uint32).view(np.float32))
    cases = sum([block.stop - block.start for block in blocks])
    return Outcome(
        capsule=capsule.name,
        claim="value",
        tests=(f"exhaustive float32, worst at {at!r} (word {worst.at:#010x})",),
        cases=cases,
        failures=tuple([fault for block in blocks for fault in block.faults][:MOST_FAILURES]),
        worst=worst.worst,
        unit="ulp",
        histogram=tuple(zip(BUCKETS, counts, strict=True)),
        tolerance=tolerance_of(capsule.bound),
        seed=0,
        exhaustive=cases == ALL,
    )


def _read(path: Path, key: str) -> Iterator[Block]:
    """The blocks of an earlier run with this key; a line cut short ends them. Another key empties the file."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    if not lines or lines[0] != json.dumps({"key": key}):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"key": key}) + "\n", encoding="utf-8")
        return
    for line in lines[1:]:
        try:
            start, stop, counts, worst, at, faults = json.loads(line)
        except ValueError:
            return
        yield Block(start, stop, tuple(counts), worst, at, tuple(faults))


def _append(path: Path, block: Block) -> None:
    line = json.dumps([block.start, block.stop, block.counts, block.worst, block.at, block.faults])
    with path.open("a", encoding="utf-8") as file:
        file.write(line + "\n")
