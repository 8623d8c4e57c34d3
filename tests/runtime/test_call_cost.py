"""What a call costs, in counts that a busy machine does not change: instructions, objects, nodes, groups.

Bounds are wide: they are for a call that has become another kind of call, not for a compiler or interpreter that has.
"""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import torchlean as tl
from torchlean import nn, ops, optim
from torchlean.backends.compiled import MODULE

SCRIPT = Path(__file__).with_name("counted_calls.py")
COMPILED = tl.profiles.checked_cpu.under(tl.profiles.checked_cpu.policy.allowing_stale())
F32 = tl.DType.F32


# -- instructions ------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def instructions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, float]:
    """Per call, as callgrind counts them: half a minute's work on a slow machine."""
    valgrind, reason = shutil.which("valgrind"), MODULE.probe()
    if valgrind is None or reason is not None:
        pytest.skip("valgrind is not installed" if valgrind is None else reason)
    folder = tmp_path_factory.mktemp("callgrind")
    options = ("--tool=callgrind", "--dump-before=getppid", f"--callgrind-out-file={folder / 'counts'}")
    environ = {name: value for name, value in os.environ.items() if not name.startswith("OPENBLAS_")}
    environ |= {"OPENBLAS_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
    environ |= {"TORCHLEAN_CACHE_DIR": str(folder), "PYTHONPATH": os.pathsep.join(sys.path)}
    made = subprocess.run(
        [valgrind, *options, sys.executable, str(SCRIPT)],
        env=environ,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    if "Illegal opcode" in made.stderr:
        pytest.skip("valgrind does not know the instructions of this machine")
    assert made.returncode == 0, made.stderr[-2000:]
    dumps = sorted(folder.glob("counts.*"), key=lambda path: int(path.suffix[1:]))
    totals = [int(path.read_text().split("\ntotals:")[1].split()[0]) for path in dumps]
    return {"an eager add": totals[-2] / 1000, "a lowered call": totals[-1] / 1000}


@pytest.mark.parametrize(("what", "most"), [("an eager add", 20_500), ("a lowered call", 16_500)])
def test_instructions_of_a_call(instructions: dict[str, float], what: str, most: int) -> None:
    """Measured: 12 800 and 10 200, of which the call of the C program is 2 100; twice as many are too many."""
    assert 1000 < instructions[what] <= most, f"{what}: {instructions[what]:.0f} instructions"


# -- objects -----------------------------------------------------------------------------------------------------------
def blocks(call: Callable[[], Any], times: int) -> float:
    """How many pieces of memory of Python's own allocator a call leaves behind while its result is held."""
    held: list[Any] = [None] * times
    for position in range(times):  # once before: what is remembered from call to call does not count
        held[position] = call()
    held = [None] * times
    gc.collect()
    gc.disable()
    try:
        before = sys.getallocatedblocks()
        for position in range(times):
            held[position] = call()
        return (sys.getallocatedblocks() - before) / times
    finally:
        gc.enable()


def test_an_eager_result_is_three_objects() -> None:
    """The array, NumPy's, and what counts the bytes; the handle to the memory is made when it is asked for."""
    with tl.Session(tl.profiles.checked_cpu) as session:
        x = session.array(np.ones(16, np.float32))
        assert 2.9 < blocks(lambda: x + x, 500) < 3.5


@pytest.mark.parametrize("profile", [COMPILED, tl.profiles.numpy_cpu], ids=lambda profile: profile.name)
def test_a_result_of_a_lowered_program_is_two_objects(profile: Any) -> None:
    """The array and NumPy's; all results of a call are counted together."""
    x = tl.array(np.ones(16, np.float32))

    def many(count: int) -> Any:
        return tl.lower(lambda x: tuple([x * (each + 1.0) for each in range(count)]), x, profile=profile)

    few, more = many(4), many(20)
    each = (blocks(lambda: more(x), 200) - blocks(lambda: few(x), 200)) / 16
    assert 1.9 < each < 2.3


# -- nodes and calls ---------------------------------------------------------------------------------------------------
def step_of(layers: int) -> tl.Lowered:
    """A training step of an MLP with Adam."""
    model = nn.Sequential(*[each for _ in range(layers) for each in (nn.Linear(8, 8), nn.relu)])
    optimizer = optim.Adam(0.01)
    tree = model.init(tl.random.key(0))
    state, x = optimizer.init(tree), tl.TensorType((4, 8), F32)

    def step(tree: Any, state: Any, x: Any, t: Any) -> Any:
        value, gradient = tl.value_and_grad(lambda p: ops.mse_loss(model(p, x), t))(tree)
        return *optimizer.update(gradient, state, tree), value

    return tl.lower(step, tree, state, x, x, profile=COMPILED)


def test_a_layer_of_a_training_step_adds_a_fixed_number_of_nodes() -> None:
    """Measured: 32 as traced, of which 26 are Adam's for its two parameters, and 39 as planned."""
    steps = [step_of(layers) for layers in (2, 4, 8)]
    traced = [len(step.graph.nodes) for step in steps]
    planned = [len(step.plan.graph.nodes) for step in steps]
    for two, four, eight in (traced, planned):
        assert eight - four == 2 * (four - two)
    assert (traced[2] - traced[1]) / 4 <= 40
    assert (planned[2] - planned[1]) / 4 <= 50


def test_a_layer_of_a_gradient_adds_a_fixed_number_of_nodes() -> None:
    """Measured: 4, which are linear and relu and their derivatives."""

    def nodes(layers: int) -> int:
        model = nn.Sequential(*[each for _ in range(layers) for each in (nn.Linear(8, 8), nn.relu)])
        x = tl.TensorType((4, 8), F32)
        made = tl.make_graph(tl.grad(lambda p, x: ops.sum(model(p, x))))(model.init(tl.random.key(0)), x)
        return len(made.nodes)

    two, four, eight = (nodes(layers) for layers in (2, 4, 8))
    assert eight - four == 2 * (four - two)
    assert (eight - four) / 4 <= 6


def test_a_training_step_is_one_call_of_c() -> None:
    reason = MODULE.probe()
    if reason is not None:
        pytest.skip(reason)
    code = step_of(3).source.partition("\n# k0:")[0]  # what follows is the text of the kernel
    assert code.count("k0(") == 1
    assert "k1" not in code
