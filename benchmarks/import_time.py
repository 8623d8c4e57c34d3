"""How much CPU time does `import torchlean` add to `import numpy`, and how long does `torchlean --help` take?"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from typing import Any

from _paired import report, restart_unpinned

_CPU = "import resource; {}; r = resource.getrusage(resource.RUSAGE_SELF); print(r.ru_utime + r.ru_stime)"


def environment() -> dict[str, str]:
    """This process's, with compiled modules allowed on disk as a user has them."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def cpu_seconds(statement: str) -> float:
    """User + system time of a fresh interpreter that runs `statement`."""
    command = [sys.executable, "-c", _CPU.format(statement)]
    made = subprocess.run(command, capture_output=True, text=True, check=True, env=environment())
    return float(made.stdout)


def measured() -> list[dict[str, Any]]:
    ours: list[float] = []
    numpy: list[float] = []
    optree: list[float] = []
    helps: list[float] = []
    for _ in range(15):
        numpy.append(cpu_seconds("import numpy"))
        ours.append(cpu_seconds("import numpy, torchlean"))
        optree.append(cpu_seconds("import numpy, optree"))
        start = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "torchlean", "--help"], capture_output=True, check=True, env=environment()
        )
        helps.append(time.perf_counter() - start)
    added = (min(ours) - min(numpy)) * 1e3
    return [
        {"what": "import torchlean, CPU time over import numpy (minima)", "value": added, "unit": "ms", "goal": 60},
        {
            "what": "the same, medians",
            "value": (statistics.median(ours) - statistics.median(numpy)) * 1e3,
            "unit": "ms",
        },
        {"what": "optree alone over numpy (minima)", "value": (min(optree) - min(numpy)) * 1e3, "unit": "ms"},
        {"what": "python -m torchlean --help, wall (minimum)", "value": min(helps), "unit": "s", "goal": 0.3},
        {"what": "python -m torchlean --help, wall (median)", "value": statistics.median(helps), "unit": "s"},
    ]


if __name__ == "__main__":
    restart_unpinned()
    report(str(__doc__), measured(), __file__)
