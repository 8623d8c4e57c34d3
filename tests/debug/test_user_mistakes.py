"""Mistakes a new user makes: each message has at most six lines, says what and how to fix it, and names the right line.

Under the traceback a note repeats the user's own source line, so that the frames of the package need not be read.
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import torchlean as tl
from torchlean import debug, nn, ops, random
from torchlean.errors import TorchLeanError

X = np.ones((3, 4), np.float32)
W = np.ones((5, 2), np.float32)
V = np.arange(3, dtype=np.float32)


class Mistake:
    """A function whose last line, or the one marked `# here`, is at fault; what the message begins with and advises."""

    def __init__(self, run: Callable[[], Any], begins: str, advises: str) -> None:
        self.run, self.begins, self.advises = run, begins, advises


MISTAKES: list[Mistake] = []


def mistake(begins: str, advises: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    def note(run: Callable[[], Any]) -> Callable[[], Any]:
        MISTAKES.append(Mistake(run, begins, advises))
        return run

    return note


@mistake("matmul cannot contract f32[3,4] with f32[5,2]", "transpose one operand")
def matmul_of_sizes_that_do_not_fit() -> None:
    def loss(x: Any) -> Any:
        return (x @ W).sum()  # here

    tl.jit(loss)(X)


@mistake("add of f32[3,4], f32[3,5]: the shapes do not broadcast", "reshape or slice")
def add_of_shapes_that_do_not_fit() -> None:
    ops.add(X, np.ones((3, 5), np.float32))


@mistake("add of f32[3], i64[3]: the dtypes have no common type", "convert one operand")
def floats_plus_integers() -> None:
    ops.add(V, np.arange(3))


@mistake("bool() of a traced bool[] made by gt at test_user_mistakes.py:", "ops.select")
def if_on_a_traced_value() -> None:
    def absolute(x: Any) -> Any:
        return x if x > 0 else -x  # here

    tl.jit(absolute)(V[0])


@mistake("use as a Python index of a traced i32[] which is argument 0 of repeat", "ops.take")
def loop_over_a_traced_count() -> None:
    def repeat(n: Any) -> Any:
        return [0 for _ in range(n)]  # here

    tl.jit(repeat)(np.int32(3))


@mistake("float() of a traced f32[]", "keep it a tensor")
def float_of_a_traced_value() -> None:
    tl.grad(lambda x: float(x) * x)(1.0)


@mistake("item() of a traced f32[3]", "debug.print")
def item_of_a_traced_value() -> None:
    tl.jit(lambda x: x.item())(V)


@mistake("numpy.sin of f32[3]: NumPy's functions know only NumPy's arrays", "write ops.sin(…)")
def a_numpy_function_of_a_traced_value() -> None:
    tl.jit(lambda x: np.sin(x))(V)


@mistake("numpy.sum of a traced f32[3]", "write ops.sum(…)")
def a_numpy_reduction_of_a_traced_value() -> None:
    tl.jit(lambda x: np.sum(x))(V)


@mistake("numpy.add of f32[3]", "write x = x + y")
def adding_into_a_numpy_array() -> None:
    def total(x: Any) -> Any:
        made = np.zeros(3, np.float32)
        made += x  # here
        return made

    tl.jit(total)(V)


@mistake("item assignment to f32[3]", ".at[")
def assigning_to_an_entry() -> None:
    tl.array(V)[0] = 1.0


@mistake("grad of square, which returns f32[3]", "x.sum()")
def grad_of_a_vector() -> None:
    def square(x: Any) -> Any:
        return x * x

    tl.grad(square)(V)


@mistake("grad of forgetful, which returns no tensor", "return the scalar")
def grad_of_a_function_without_return() -> None:
    def forgetful(x: Any) -> None:
        (x * x).sum()

    tl.grad(forgetful)(V)


@mistake("grad with respect to args[0]['step']", "leave the argument out")
def grad_of_an_integer_leaf() -> None:
    tl.grad(lambda p: p["w"].sum())({"w": V, "step": np.int32(1)})


@mistake("grad: with has_aux=True the function must return a pair", "return (output, aux)")
def has_aux_without_a_pair() -> None:
    tl.grad(lambda x: x.sum(), has_aux=True)(V)


@mistake("a traced f32[3] made by mul at test_user_mistakes.py:", "return the value")
def storing_a_traced_value() -> None:
    kept: list[Any] = []

    def f(x: Any) -> Any:
        kept.append(x * 2)
        return x

    tl.jit(f)(V)


@mistake("vmap of plus: mapped sizes differ", "change in_axes")
def vmap_of_sizes_that_differ() -> None:
    def plus(a: Any, b: Any) -> Any:
        return a + b

    tl.vmap(plus)(V, np.ones(4, np.float32))


@mistake("indexing f32[3]: index 7 is out of range for axis 0", "within the axis")
def an_index_out_of_range() -> None:
    tl.array(V)[7]


@mistake("cannot be reshaped", "sizes")
def a_reshape_of_another_size() -> None:
    ops.reshape(X, (5, 5))


@mistake("sum of f32[3,4]: axis 2 is out of range", "count axes from 0")
def an_axis_out_of_range() -> None:
    ops.sum(X, axis=2)


@mistake("linear of f32[3,5] with the weight f32[2,4]", "input size")
def a_layer_of_another_size() -> None:
    layer = nn.Linear(4, 2)
    layer.apply(layer.init(random.key(0)), np.ones((3, 5), np.float32))


@mistake("softmax of i64[3]", "convert")
def softmax_of_integers() -> None:
    ops.softmax(np.arange(3))


@mistake("scaled was lowered for other arguments", "tl.jit")
def a_lowered_function_on_another_tree() -> None:
    def scaled(p: Any) -> Any:
        return p["w"] * 2

    tl.lower(scaled, {"w": V})({"v": V})


@mistake("twice is lowered and was called on a traced f32[3]", "transform the original function")
def grad_of_a_lowered_function() -> None:
    def twice(x: Any) -> Any:
        return (x * 2).sum()

    tl.grad(tl.lower(twice, V))(V)


@mistake("mode_of: the argument leaf args[1]", "static_argnums")
def a_text_argument_of_jit() -> None:
    def mode_of(x: Any, mode: str) -> Any:
        return x if mode == "train" else -x

    tl.jit(mode_of)(V, "train")


@mistake("jit of first: a static argument cannot be hashed", "tuple instead of a list")
def a_list_as_static_argument() -> None:
    def first(x: Any, sizes: Any) -> Any:
        return x

    tl.jit(first, static_argnums=1)(V, [1])


@mistake("random.normal: i32[] is not a key", "random.key(seed)")
def a_number_for_a_key() -> None:
    random.normal(0, (3,))


@mistake("debug.print cannot fill 'x = {y}'", "name each value once")
def a_field_that_names_nothing() -> None:
    debug.print("x = {y}", x=V)


@mistake("log of f32[3] made NaN at [0]", "ops.max(x, small)")
def a_nan() -> None:
    debug.check_nan(lambda x: ops.log(x - 1))(V)


def faulty_line(run: Callable[[], Any]) -> int:
    """The line marked `# here`, or the last one."""
    lines, first = inspect.getsourcelines(run)
    marked = [at for at, line in enumerate(lines) if line.rstrip().endswith("# here")]
    return first + (marked[0] if marked else len(lines) - 1)


def test_the_list_is_long_enough() -> None:
    assert len(MISTAKES) >= 25


@pytest.mark.parametrize("made", MISTAKES, ids=[made.run.__name__ for made in MISTAKES])
def test_the_message_is_short_says_what_to_do_and_names_the_line(made: Mistake) -> None:
    with pytest.raises(TorchLeanError) as caught:
        made.run()
    text = str(caught.value)
    lines = text.splitlines()
    line = faulty_line(made.run)
    assert len(lines) <= 6
    assert made.begins in lines[0]
    assert f"(test_user_mistakes.py:{line} in " in lines[0]
    assert made.advises in text
    assert "fix:" in text
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.parametrize("made", MISTAKES, ids=[made.run.__name__ for made in MISTAKES])
def test_a_note_shows_the_users_source_line(made: Mistake) -> None:
    with pytest.raises(TorchLeanError) as caught:
        made.run()
    (note,) = caught.value.__notes__
    line = faulty_line(made.run)
    first, source = note.splitlines()
    assert first.startswith(f'your line: File "{__file__}", line {line}, in ')
    assert source.strip() == inspect.getsourcelines(inspect.getmodule(made.run))[0][line - 1].strip()
    assert "torchlean/" not in note
    assert "".join(traceback.format_exception_only(caught.value)).rstrip().endswith(source.strip())
