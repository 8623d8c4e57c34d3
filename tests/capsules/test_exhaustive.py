"""The exhaustive run on blocks small enough for a test: its oracle, planted faults, resuming, and what it refuses."""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from torchlean.backends.capsule import Capsule, Ulp
from torchlean.backends.handler import FRESH, Implementation
from torchlean.backends.reference import MODULE
from torchlean.conformance.exhaustive import oracle, sweep
from torchlean.conformance.exhaustive.sweep import Block, run_block, run_exhaustive
from torchlean.errors import BackendMissing, ConfigError, InternalError
from torchlean.ir.ops.elementwise import ADD, EXP, SQRT

OF = {capsule.op: capsule for capsule in MODULE.capsules}
ONE = 0x3F800000  # the word of 1.0
LOW, HIGH = ONE - 2**12, ONE + 2**12

needs_balls = pytest.mark.skipif(find_spec("flint") is None, reason="python-flint (the extra `arb`) is not installed")


def with_kernel(capsule: Capsule, function: Any, **changes: Any) -> Capsule:
    """The capsule with another kernel."""
    made = Implementation(
        op=capsule.op,
        provider=capsule.provider,
        device=capsule.device,
        traits=FRESH,
        make=lambda params, types: function,
    )
    return dataclasses.replace(capsule, handler=made, **changes)


def word(value: float) -> int:
    return int(np.float32(value).view(np.uint32))


def off_at(where: int, steps: int) -> Any:
    """exp as the reference has it, `steps` units away in the last place at one input."""
    kernel = sweep.kernel_for(OF[EXP], None, (sweep.TensorType((HIGH - LOW,), sweep.DType.F32),))

    def function(x: Any) -> Any:
        made = np.array(kernel(x)[0])
        hit = x.view(np.uint32) == where
        made.view(np.int32)[hit] += steps
        return made

    return function


@needs_balls
@pytest.mark.parametrize("op", list(oracle.ORACLES), ids=lambda op: op.name)
def test_the_float64_filter_is_as_near_as_it_is_taken_to_be(op: Any) -> None:
    assert oracle.doubt(oracle.ORACLES[op], count=500) is None


@needs_balls
def test_a_filter_that_is_off_is_noticed() -> None:
    wrong = oracle.Oracle(lambda x: np.exp(x) * (1 + 2.0**-40), oracle.ORACLES[EXP].exact)
    assert (oracle.doubt(wrong) or "").startswith("the float64 filter is ")


@needs_balls
def test_correct_rounding_is_that_of_exact_arithmetic() -> None:
    """sqrt by integers: the nearest float32 is decided by comparing squares of midpoints."""
    for x in (2.0, 3.0, 1e-40, 3.4e38, 0.1, 16.0, 2.0**-149):
        x = float(np.float32(x))
        got = oracle.correctly_rounded(oracle.ORACLES[SQRT], x)
        below, above = (Fraction(float(np.nextafter(got, np.float32(end)))) for end in (0.0, np.inf))
        exact, value = Fraction(x), Fraction(float(got))
        assert ((below + value) / 2) ** 2 <= exact <= ((above + value) / 2) ** 2
    assert oracle.correctly_rounded(oracle.ORACLES[EXP], 89.0) == np.float32(math.inf)
    assert oracle.correctly_rounded(oracle.ORACLES[EXP], -104.0) == np.float32(0.0)
    assert oracle.correctly_rounded(oracle.ORACLES[EXP], -103.0) == np.float32(2.0**-149)


@needs_balls
def test_a_block_counts_every_input_and_finds_the_worst() -> None:
    block = run_block(OF[EXP], LOW, HIGH)
    assert sum(block.counts) == HIGH - LOW
    assert block.faults == ()
    x = np.arange(LOW, HIGH, dtype=np.uint32).view(np.float32)
    deviations = [
        abs(float(got) - math.exp(value)) / float(np.spacing(np.float32(math.exp(value))))
        for value, got in zip(x.tolist(), sweep.defined(EXP, None, (x,))[0], strict=True)
    ]
    assert block.worst == pytest.approx(max(deviations), abs=1e-6)
    assert block.at - LOW == int(np.argmax(deviations))


@needs_balls
def test_one_wrong_bit_at_one_input_is_found() -> None:
    planted = with_kernel(OF[EXP], off_at(ONE + 77, 1))
    block = run_block(planted, LOW, HIGH)
    assert len(block.faults) == 1
    assert block.faults[0].startswith(f"exp({float(np.uint32(ONE + 77).view(np.float32))!r}) = ")
    assert run_block(with_kernel(OF[EXP], off_at(ONE + 77, 1), bound=Ulp(1)), LOW, HIGH).faults == ()
    assert len(run_block(with_kernel(OF[EXP], off_at(ONE + 77, 2), bound=Ulp(1)), LOW, HIGH).faults) == 1
    far = run_block(with_kernel(OF[EXP], off_at(ONE + 77, 9), bound=Ulp(9)), LOW, HIGH)
    assert far.at == ONE + 77
    assert far.counts[4] == 1


@needs_balls
def test_nan_and_the_sign_of_zero_count() -> None:
    start = word(-0.0) - 4
    lost = run_block(with_kernel(OF[SQRT], lambda x: np.abs(np.sqrt(np.abs(x)))), start, start + 8)
    assert lost.counts[5] == 4  # -0.0 gave +0.0, and three negative inputs gave numbers (four are NaN either way)
    assert len(lost.faults) == 4


@needs_balls
def test_a_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    blocks = [(LOW, ONE), (ONE, HIGH)]
    file = tmp_path / "deep" / "exp.jsonl"
    told: list[tuple[int, int]] = []
    run = lambda key, spans: run_exhaustive(  # noqa: E731
        OF[EXP], progress=file, key=key, told=lambda done, total: told.append((done, total)), blocks=spans
    )
    run("a", blocks[:1])
    first = file.read_text().splitlines()
    forged = json.loads(first[1])
    forged[3] = 123.0  # a block that is known is not tried again
    file.write_text(first[0] + "\n" + json.dumps(forged) + "\n" + "[1, 2, [3")
    whole = run("a", blocks)
    assert told == [(1, 1), (1, 2), (2, 2)]
    assert whole.worst == 123.0
    assert whole.cases == HIGH - LOW
    assert sum([count for _, count in whole.histogram]) == whole.cases
    assert not whole.exhaustive
    assert whole.failures == ()
    again = run("b", blocks)  # another kernel: everything again
    assert again.worst is not None
    assert again.worst < 2
    assert len(file.read_text().splitlines()) == 3


def test_the_outcome_of_all_blocks_is_exhaustive() -> None:
    blocks = [
        Block(0, 2**31, (2**31, 0, 0, 0, 0, 0), 0.5, word(3.0), ()),
        Block(2**31, 2**32, (2**31, 0, 0, 0, 0, 0), 0.25, 0, ()),
    ]
    made = sweep.outcome(OF[EXP], blocks)
    assert made.exhaustive
    assert made.cases == 2**32
    assert made.tests == ("exhaustive float32, worst at 3.0 (word 0x40400000)",)


def test_what_cannot_be_tried_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"reference.add cannot be tried on every input"):
        run_exhaustive(OF[ADD], progress=tmp_path / "x", key="")
    monkeypatch.setitem(sys.modules, "flint", None)
    with pytest.raises(BackendMissing, match=r"an exhaustive run needs ball arithmetic") as caught:
        run_exhaustive(OF[EXP], progress=tmp_path / "x", key="")
    assert "pip install 'torchlean[arb]'" in str(caught.value)


@needs_balls
def test_a_filter_in_doubt_stops_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = oracle.Oracle(lambda x: np.exp(x) * (1 + 2.0**-40), oracle.ORACLES[EXP].exact)
    monkeypatch.setattr(sweep, "ORACLES", {EXP: wrong})
    with pytest.raises(InternalError, match="the float64 filter is"):
        run_exhaustive(OF[EXP], progress=tmp_path / "x", key="")
