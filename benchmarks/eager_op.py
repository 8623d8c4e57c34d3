"""What does an eager op cost over NumPy's own call, for 16 float32 entries, and its look-up of the kernel alone?"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from _paired import paired, report, restart_unpinned


def selections() -> list[dict[str, object]]:
    """What finding a kernel that was selected before adds to an op: the key and the look-up, as `Session.bind` does,
    and as `Session.bind_pair` does for operators between arrays of one type.
    """
    import torchlean as tl
    from torchlean.ir.op import NO_PARAMS
    from torchlean.ir.ops.elementwise import ADD, TANH
    from torchlean.ir.ops.spread import REDUCE_SUM, Axes

    made = tl.TensorType((16,), tl.DType.F32)
    session = tl.Session(tl.profiles.checked_cpu)
    type, kernels = session._kernels.interned(made), session._kernels
    kernels.entry(ADD, NO_PARAMS, (type, type))
    kernels.note_pair(ADD, type)

    def find_pair():
        found = kernels.entries.get((ADD, type))
        if found is None:
            raise AssertionError("not selected before")
        return found

    rows: list[dict[str, object]] = [selection("x + y", find_pair)]
    for what, op, params, count in (
        ("tanh", TANH, NO_PARAMS, 1),
        ("add", ADD, NO_PARAMS, 2),
        ("sum over axis 0", REDUCE_SUM, Axes((0,)), 1),
    ):
        types = [type] * count
        kernels.entry(op, params, tuple(types))

        def find(op=op, params=params, types=types):
            found = kernels.entries.get((op, params, tuple(types)))
            if found is None:
                raise AssertionError("not selected before")
            return found

        rows.append(selection(what, find))
    return rows


def selection(what: str, find: Callable[[], object]) -> dict[str, object]:
    """What `find` costs over holding what it finds."""
    selected = find()

    def have():
        found = selected
        if found is None:
            raise AssertionError("not selected before")
        return found

    measured = paired(find, have, rounds=300, calls=2_000)  # short, so that some rounds are not interrupted
    return {
        "what": f"a cached selection adds ({what})",
        "value": (measured["subject_min_s"] - measured["baseline_min_s"]) * 1e6,
        "unit": "µs",
        "goal": 0.3,
        "against": "holding the kernel",
        "measured": measured,
    }


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
        measured = paired(ours, theirs, rounds=300, calls=1_000)
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
    report(str(__doc__), rows + selections(), __file__)


if __name__ == "__main__":
    restart_unpinned()
    main()
