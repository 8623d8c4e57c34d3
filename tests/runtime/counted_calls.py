"""Run under callgrind by test_call_cost.py: 1000 eager adds, then 1000 calls of a lowered program of a few ops.

`getppid` is where callgrind writes down what it has counted and starts again, so neither start-up nor the calls that
select and compile are in the two counts.
"""

from __future__ import annotations

import gc
import os
from dataclasses import replace

import numpy as np

import torchlean as tl
from torchlean.backends.compiled import module
from torchlean.backends.compiled.loading import Builds

CALLS = 1000


def main() -> None:
    # Valgrind does not know every instruction this machine has, so the program is compiled for any of its kind.
    chain = Builds().toolchain()
    plain = tuple([flag for flag in chain.flags if not flag.startswith("-m")])
    anywhere = Builds(chosen=replace(chain, flags=plain, machine="any", lanes=16, registers=16))
    profile = tl.profiles.checked_cpu.with_modules(module(anywhere))
    x, y = tl.array(np.ones(16, np.float32)), tl.array(np.arange(16, dtype=np.float32))
    lowered = tl.lower(lambda x, y: x * y + x, x, y, profile=profile.under(profile.policy.allowing_stale()))
    for _ in range(50):  # what the interpreter does the first times is no part of a call's cost
        x + y
        lowered(x, y)
    gc.collect()
    os.getppid()
    for _ in range(CALLS):
        x + y
    os.getppid()
    for _ in range(CALLS):
        lowered(x, y)
    os.getppid()


if __name__ == "__main__":
    main()
