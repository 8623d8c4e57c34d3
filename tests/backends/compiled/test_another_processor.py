"""Generated C on a processor that this machine is not: cross-compiled for 64-bit ARM and run by an emulator.

Every op, sample and dtype that is served. It needs Debian's `gcc-aarch64-linux-gnu` and `qemu-user`, or what does the
same under these names. The vectors are ARM's, the tiles those that `toolchain` gives its 32 registers.
"""

from __future__ import annotations

import platform
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from backends.compiled.test_bits import served
from backends.groups import group_of
from backends.toolbox import defined, same_bits

from torchlean.backends.compiled import module
from torchlean.backends.compiled.loading import Builds
from torchlean.backends.compiled.toolchain import FLAGS, GCC, Toolchain
from torchlean.backends.compiled.writer import TEAM as THREADS

GCC_THERE, RUN_THERE = "aarch64-linux-gnu-gcc", "qemu-aarch64"
HARNESS = """
#include <stdio.h>
#include <stdlib.h>
{source}
static void each(const Team *team, Task task, const void *frame, int64_t size, int64_t step, int64_t pieces,
                 int64_t scratch, char *own) {{
    const int64_t half = (size / step + 1) / 2 * step; /* two pieces, as two threads would take them */
    if (half > 0 && half < size) {{ task(frame, half, size, own); task(frame, 0, half, own); }}
    else task(frame, 0, size, own);
}}
static char *space(size_t bytes) {{ return aligned_alloc(64, (bytes + 127) / 64 * 64); }}
int main(int count, char **given) {{
    const size_t takes[] = {{{takes} 0}}, gives[] = {{{gives} 0}};
    char *in[sizeof takes / sizeof *takes], *out[sizeof gives / sizeof *gives];
    const Team team = {{each}};
    FILE *file = fopen(given[1], "rb");
    for (size_t i = 0; i + 1 < sizeof takes / sizeof *takes; i++)
        if (fread(in[i] = space(takes[i]), 1, takes[i], file) != takes[i]) return 3;
    for (size_t i = 0; i + 1 < sizeof gives / sizeof *gives; i++) out[i] = space(gives[i]);
    torchlean_run(in, out, space({arena}), (const void *)&team);
    file = fopen(given[2], "wb");
    for (size_t i = 0; i + 1 < sizeof gives / sizeof *gives; i++) fwrite(out[i], 1, gives[i], file);
    return fclose(file);
}}
"""
TOGETHER = 8


def cross() -> Toolchain:
    """GCC for 64-bit ARM; skips where there is none, or nothing that runs what it makes."""
    for name in (GCC_THERE, RUN_THERE):
        if shutil.which(name) is None:
            pytest.skip(f"{name} is not installed here")
    if platform.machine() == "aarch64":
        pytest.skip("this machine is one: the other tests are of it")
    return Toolchain(command=(GCC_THERE,), version="cross", flags=(), machine="aarch64", lanes=16, registers=32)


def there(source: str, arena: int, arrays: Sequence[Any], types: Sequence[Any], folder: Path) -> list[Any]:
    """The results of a program, compiled for the other processor and run there."""
    text = HARNESS.format(
        source=source if THREADS in source else f"{source}\n{THREADS}",
        takes="".join([f"{array.nbytes}, " for array in arrays]),
        gives="".join([f"{type.nbytes}, " for type in types]),
        arena=max(64, arena),
    )
    (folder / "kernel.c").write_text(text)
    (folder / "in").write_bytes(b"".join([np.ascontiguousarray(array).tobytes() for array in arrays]))
    flags = [flag for flag in (*FLAGS, *GCC) if flag not in ("-shared", "-fPIC")]
    made = [GCC_THERE, *flags, "-static", "-o", str(folder / "kernel"), str(folder / "kernel.c"), "-lm"]
    subprocess.run(made, check=True, timeout=600)
    run = [RUN_THERE, str(folder / "kernel"), str(folder / "in"), str(folder / "out")]
    subprocess.run(run, check=True, timeout=600)
    left = (folder / "out").read_bytes()
    results: list[Any] = []
    for type in types:
        taken, left = left[: type.nbytes], left[type.nbytes :]
        results.append(np.frombuffer(taken, type.dtype.carrier).reshape(type.shape))
    assert not left
    return results


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_every_kernel_has_the_bits_of_the_definition_on_another_processor(part: int, tmp_path: Path) -> None:
    made = module(Builds({}, cross()))
    capsules = made.capsules[part::4]
    tried = 0
    for first in range(0, len(capsules), TOGETHER):
        calls = [(capsule, trial) for capsule in capsules[first : first + TOGETHER] for trial in served(capsule)]
        group, arrays, nodes = group_of(calls)
        fused = capsules[first].handler.grouper.fuse(group)
        types = [group.types[id] for id in group.outputs]
        results = dict(
            zip(group.outputs, there(fused.program.source, fused.program.arena, arrays, types, tmp_path), strict=True)
        )
        for (_, trial), node in zip(calls, nodes, strict=True):
            for id, want in zip(node.outputs, defined(trial.op, trial.params, trial.arrays), strict=True):
                assert same_bits(results[id], want), trial
                tried += 1
    assert tried >= 200
