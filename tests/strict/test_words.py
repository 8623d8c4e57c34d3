"""Recording, and the code made of what was recorded: buffers, rare parts, blocks, layouts, refusals."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from strict.exact import FORMATS
from strict.points import BOUNDS, moderate, neighbours, pairs

from torchlean.errors import InternalError
from torchlean.ir.strict import numpy_code
from torchlean.ir.strict.branchless import branchless
from torchlean.ir.strict.functions import BLOCK, FEW, FUNCTIONS, Strict
from torchlean.ir.strict.words import Program, Recorder, Word, program, rare_condition, without_rare

Array = np.ndarray[Any, Any]


def interpreted(program: Program, *xs: Array) -> Array:
    """The program step by step, every value in an array of its own: what the generated code must agree with."""
    values: list[Array] = []
    plain: dict[str, Callable[..., Any]] = {
        "add": np.add,
        "sub": np.subtract,
        "mul": np.multiply,
        "div": np.divide,
        "neg": np.negative,
        "abs": np.absolute,
        "sqrt": np.sqrt,
        "lt": np.less,
        "le": np.less_equal,
        "eq": np.equal,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
        "not": np.logical_not,
        "shl": np.left_shift,
        "sar": np.right_shift,
        "min": np.minimum,
        "max": np.maximum,
        "select": np.where,
        "rare": np.where,
    }
    with np.errstate(all="ignore"):
        for step in program.steps:
            operands = [values[number] for number in step.operands]
            carrier = numpy_code.CARRIER[step.kind]
            if step.op == "input":
                made = xs[int(step.value or 0)]
            elif step.op == "constant":
                made = np.full(xs[0].shape, step.value, carrier)
            elif step.op in ("bits", "float"):
                made = operands[0].view(carrier)
            elif step.op in ("widen", "narrow"):
                made = operands[0].astype(carrier)
            elif step.op == "lookup":
                made = np.array(program.tables[int(step.value or 0)])[operands[0]]
            elif step.op == "shr":
                unsigned = f"u{carrier.itemsize}"
                made = (operands[0].view(unsigned) >> operands[1].view(unsigned)).view(carrier)
            else:
                made = plain[step.op](*operands)
            assert made.dtype == carrier
            values.append(made)
    return values[program.result]


def operands(name: str, carrier: np.dtype[Any], huge: bool) -> tuple[Array, ...]:
    if name == "pow":
        return pairs(carrier, 300, seed=31)
    x = moderate(carrier, 300, seed=32)
    return (np.concatenate([neighbours(carrier), x]),) if huge else (x,)


@pytest.mark.parametrize("huge", [False, True])
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", BOUNDS)
def test_generated_code_does_what_the_steps_say(name: str, format: str, huge: bool) -> None:
    xs = operands(name, FORMATS[format], huge)
    before = [x.copy() for x in xs]
    recorded = FUNCTIONS[name].program(format)
    want = interpreted(recorded, *xs)
    assert xs[0].size > FEW
    np.testing.assert_array_equal(FUNCTIONS[name](*xs), want)
    np.testing.assert_array_equal(FUNCTIONS[name](*[x[:FEW] for x in xs]), want[:FEW])
    for x, kept in zip(xs, before, strict=True):
        np.testing.assert_array_equal(x, kept)


def test_a_rare_part_is_computed_only_where_it_is_needed() -> None:
    recorded = FUNCTIONS["sin"].program("f64")
    text = numpy_code.source(recorded)
    assert text.count("if some(") == 1
    inside = [line for line in text.splitlines() if line.startswith("        ")]
    assert len(inside) > 100
    common, condition = without_rare(recorded), rare_condition(recorded)
    assert len(common.steps) < len(recorded.steps) / 3
    assert condition is not None
    assert rare_condition(FUNCTIONS["exp"].program("f64")) is None
    x = np.array([1.0, 1e6, 1.6e6, 1e300, np.inf, np.nan])
    assert interpreted(condition, x).tolist() == [False, False, True, True, True, False]


def test_two_rare_parts_and_a_select_of_a_constant() -> None:
    def definition(w: Recorder, x: Word) -> Word:
        (first,) = w.rarely(x > 2.0, lambda: (x * 10.0 + x,), (x + 1.0,))
        (second,) = w.rarely(x < -2.0, lambda: (x * x * x,), (first,))
        return w.select(x.same(5.0), x, w.constant("f64", -1.0)) + second + first

    recorded = program(definition, "f64", 1)
    x = np.array([0.0, 3.0, -3.0, 5.0, np.nan])
    first = np.where(x > 2, 11 * x, x + 1)
    want = np.where(x == 5, x, -1) + np.where(x < -2, x**3, first) + first
    made = numpy_code.compiled(recorded)
    np.testing.assert_array_equal(made(x), want)
    np.testing.assert_array_equal(made(x[:1]), want[:1])
    np.testing.assert_array_equal(interpreted(recorded, x), want)
    condition = rare_condition(recorded)
    assert condition is not None
    assert interpreted(condition, x).tolist() == [False, True, True, True, False]


def test_selects_as_bit_operations() -> None:
    """Of words, of a word and a constant either way round, of two constants, of integers; -0.0 and NaN are kept."""

    def definition(w: Recorder, x: Word) -> Word:
        positive, zero = x > 0.0, w.constant("f32", -0.0)
        either = w.select(positive, x, -x) * w.select(positive, x, zero) + w.select(positive, zero, x)
        numbers = w.select(positive, w.constant("f32", 3.0), w.constant("f32", -5.0))
        whole = w.select(positive, x.bits() & 7, x.bits() >> 28)
        return w.select(x.same(0.0), x, either + numbers) + w.select(positive, whole, whole + 1).as_float()

    recorded = program(definition, "f32", 1)
    made = branchless(recorded)
    assert "select" in {step.op for step in recorded.steps}
    assert {step.op for step in made.steps} & {"select", "spread"} == {"spread"}
    x = np.array([-0.0, 0.0, 1.5, -2.5, np.inf, -np.inf, np.nan, 1e-40], np.float32)
    with np.errstate(all="ignore"):
        got, want = numpy_code.compiled(made)(x), interpreted(recorded, x)
    assert got.tobytes() == want.tobytes()


def test_equal_steps_are_one_and_unused_ones_go() -> None:
    def definition(w: Recorder, x: Word) -> Word:
        unused = x * 3.0
        assert unused.number != x.number
        return (x + 0.0) * (x + 0.0) + (x + -0.0)

    recorded = program(definition, "f32", 1)
    assert [step.op for step in recorded.steps] == ["input", "constant", "add", "mul", "constant", "add", "add"]


def test_constants_are_computed_before_recording() -> None:
    w = Recorder()
    with pytest.raises(InternalError) as refused:
        w.constant("f64", 1.0) + 2.0
    assert str(refused.value).splitlines()[0] == (
        "a strict definition computes add of constants; compute it before recording"
    )


@pytest.mark.parametrize("name", ["exp", "sin", "pow"])
def test_neither_the_length_nor_the_layout_changes_bits(name: str) -> None:
    function: Strict = FUNCTIONS[name]
    random = np.random.default_rng(41)
    for dtype in FORMATS.values():
        x = random.normal(0, 3, 3 * BLOCK + 7).astype(dtype)
        x[BLOCK + 1] = 1e30  # rare in one block only
        xs = (np.abs(x), x[::-1].copy()) if function.inputs == 2 else (x,)
        whole = function(*xs)
        assert whole.shape == x.shape
        singly = np.concatenate([function(*[v[at : at + 1] for v in xs]) for at in range(BLOCK - 5, BLOCK + 5)])
        assert whole[BLOCK - 5 : BLOCK + 5].tobytes() == singly.tobytes()
        reversed_ = function(*[v[::-1] for v in xs])
        assert reversed_.tobytes() == whole[::-1].tobytes()
        pairs_of = function(*[v[: 2 * BLOCK].reshape(2, BLOCK).T for v in xs])
        assert pairs_of.shape == (BLOCK, 2)
        assert np.ascontiguousarray(pairs_of.T).tobytes() == whole[: 2 * BLOCK].tobytes()


def test_empty_scalar_and_read_only_operands() -> None:
    for function in FUNCTIONS.values():
        for shape in ((), (0,), (2, 0, 3), (1, 2)):
            x = np.full(shape, 0.5, np.float32)
            x.flags.writeable = False
            made = function(*[x] * function.inputs)
            assert (made.shape, made.dtype) == (shape, x.dtype)
            assert made.flags.writeable


def test_a_call_warns_of_nothing() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 1e38, -1e38, 0.0, -1.0], np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for function in FUNCTIONS.values():
            function(*[x] * function.inputs)


def test_names_of_functions() -> None:
    assert repr(FUNCTIONS["exp"]) == "Strict(exp)"
    assert set(FUNCTIONS) == set(BOUNDS)
