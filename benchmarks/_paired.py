"""Paired timing in one process: A and B in turn, so that drift of the machine hits both; ratios of minima and medians.

`OPENBLAS_CORETYPE` (which pins an old BLAS kernel on some machines) is recorded and dropped: the script starts itself
again without it.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

_PINS = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
_THREADS = ("OPENBLAS_NUM_THREADS", "TORCHLEAN_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
_RECORD = "TORCHLEAN_BENCH_DROPPED"


def restart_unpinned() -> None:
    """Start this script again without BLAS pins, remembering what was dropped."""
    pins = {name: os.environ[name] for name in _PINS if name in os.environ}
    if pins:
        environment = {name: value for name, value in os.environ.items() if name not in pins}
        environment[_RECORD] = json.dumps(pins)
        os.execve(sys.executable, [sys.executable, *sys.argv], environment)


def seconds_per_call(f: Callable[[], Any], calls: int) -> float:
    """Mean time of one call over `calls` calls."""
    start = time.perf_counter()
    for _ in range(calls):
        f()
    return (time.perf_counter() - start) / calls


def paired(
    subject: Callable[[], Any], baseline: Callable[[], Any], *, rounds: int, calls: int
) -> dict[str, float | list[float]]:
    """Interleaved timings: minima, medians, the ratio of each and the spread of the per-round ratios."""
    subject()
    baseline()
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(rounds):
        ours.append(seconds_per_call(subject, calls))
        theirs.append(seconds_per_call(baseline, calls))
    ratios = sorted(a / b for a, b in zip(ours, theirs, strict=True))
    return {
        "subject_min_s": min(ours),
        "subject_median_s": statistics.median(ours),
        "baseline_min_s": min(theirs),
        "baseline_median_s": statistics.median(theirs),
        "ratio_of_minima": min(ours) / min(theirs),
        "median_ratio": statistics.median(ratios),
        "ratio_spread": [ratios[0], ratios[-1]],
    }


def blas() -> str:
    """NumPy's BLAS and the kernel it has chosen for this processor, as it says itself."""
    import numpy

    for library in sorted(Path(numpy.__file__).parent.with_name("numpy.libs").glob("*openblas*")):
        told = getattr(ctypes.CDLL(str(library)), "scipy_openblas_get_config64_", None)
        if told is not None:
            told.restype = ctypes.c_char_p
            return told().decode()
    shown = numpy.show_config(mode="dicts") or {}
    return " ".join(
        [str(shown.get("Build Dependencies", {}).get("blas", {}).get(key, "?")) for key in ("name", "version")]
    )


def processor() -> str:
    """The processor's name, where the system says it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()


def machine() -> dict[str, Any]:
    """What the numbers were measured on."""
    from torchlean.backends.compiled import MODULE

    found: dict[str, str] = {}
    allowed = getattr(os, "sched_getaffinity", None)
    for name in ("torchlean", "numpy", "jax", "jaxlib", "optree", "torch"):
        try:
            found[name] = version(name)
        except Exception:
            found[name] = "absent"
    return {
        "python": platform.python_version(),
        "processor": processor(),
        "cores": os.cpu_count(),
        "threads": len(allowed(0)) if allowed is not None else os.cpu_count(),
        "thread_limits": {name: os.environ[name] for name in _THREADS if name in os.environ},
        "blas": blas(),
        "compiler": MODULE.probe() or dict(MODULE.ledger.versions())["C compiler"],
        "when": time.strftime("%Y-%m-%d %H:%M", time.gmtime()),
        "versions": found,
        "dropped_environment": json.loads(os.environ.get(_RECORD, "{}")),
    }


def table(rows: list[dict[str, Any]], why: Mapping[str, str]) -> str:
    """One line for each row that has a goal; a missed one is marked and says why: `why` is by how its text begins."""
    lines = [f"{'':6} {'value':>8} {'goal':>6}  {'spread':<15} what"]
    for row in rows:
        goal = row.get("goal")
        if goal is None:
            continue
        met = row["value"] <= goal
        low, high = row.get("measured", {}).get("ratio_spread", (None, None))
        spread = "" if low is None else f"{low:.3g} – {high:.3g}"
        lines.append(f"{'met' if met else 'MISSED':6} {row['value']:8.3g} {goal:6g}  {spread:<15} {row['what']}")
        if not met:
            reasons = [text for start, text in why.items() if row["what"].startswith(start)]
            lines.append(f"{'':40}{reasons[0] if reasons else 'no profile is recorded for this line'}")
    return "\n".join(lines)


def report(question: str, rows: list[dict[str, Any]], file: str) -> None:
    """Print one line per row and write the JSON beside the script (results/<name>.json), or to the path given."""
    print(question)
    for row in rows:
        goal = row.get("goal")
        verdict = "" if goal is None else f"  goal ≤ {goal}: {'met' if row['value'] <= goal else 'MISSED'}"
        print(f"  {row['what']}: {row['value']:.4g} {row['unit']}{verdict}")
        measured = row.get("measured")
        if measured and "ratio_spread" in measured:
            low, high = measured["ratio_spread"]
            print(
                f"    ours {measured['subject_min_s'] * 1e6:.4g} µs, {row.get('against', 'baseline')} "
                f"{measured['baseline_min_s'] * 1e6:.4g} µs (minima, ratio {measured['ratio_of_minima']:.3g}); "
                f"median ratio {measured['median_ratio']:.3g}, "
                f"spread {low:.3g} to {high:.3g}"
            )
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(file).parent / "results" / (Path(file).stem + ".json")
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps({"question": question, "machine": machine(), "rows": rows}, indent=1) + "\n")
