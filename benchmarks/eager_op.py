"""What does an eager op cost over NumPy's own call, for 16 float32 entries?"""

from __future__ import annotations

import numpy as np
from _paired import paired, report, restart_unpinned


def main() -> None:
    import torchlean as tl
    from torchlean import ops

    rng = np.random.default_rng(0)
    x, y = rng.normal(size=16).astype(np.float32), rng.normal(size=16).astype(np.float32)
    a, b = tl.array(x), tl.array(y)
    assert np.array_equal(np.asarray(a + b), x + y)
    cases = {
        "add": (lambda: a + b, lambda: x + y),
        "mul (ops.mul)": (lambda: ops.mul(a, b), lambda: np.multiply(x, y)),
        "tanh": (lambda: ops.tanh(a), lambda: np.tanh(x)),
        "sum": (lambda: ops.sum(a), lambda: np.sum(x)),
    }
    rows = []
    for name, (ours, theirs) in cases.items():
        measured = paired(ours, theirs, rounds=15, calls=20_000)
        over = (measured["subject_min_s"] - measured["baseline_min_s"]) * 1e6
        goal = 3.0 if name == "add" else None
        rows.append(
            {
                "what": f"{name}: µs over NumPy",
                "value": over,
                "unit": "µs",
                "goal": goal,
                "against": "numpy",
                "measured": measured,
            }
        )
    report(str(__doc__), rows, __file__)


if __name__ == "__main__":
    restart_unpinned()
    main()
