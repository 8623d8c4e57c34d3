"""debug.print and debug.check: once each, in program order, under every transform, without changing a value."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import torchlean as tl
from torchlean import debug, ops
from torchlean.backends import profiles
from torchlean.errors import CheckFailed, ConfigError, SerializationError, TypeRuleError
from torchlean.ir.evaluate import denote
from torchlean.ir.serialize import content_hash, dumps, loads
from torchlean.transforms.rewrite import dead_code_eliminated

X = np.array([1.0, 2.0, 3.0], np.float32)


def remarked(lines: list[str]) -> Callable[[Any], Any]:
    """A function that prints three lines, of a used value, of an unused one and of none, the first one twice."""

    def f(x: Any) -> Any:
        debug.print("x {x}", x=x, to=lines.append)
        debug.print("x {x}", x=x, to=lines.append)
        debug.print("unused {y:.1f}", y=ops.exp(x), to=lines.append)
        debug.print("done", to=lines.append)
        return (x * x).sum()

    return f


LINES = ["x [1. 2. 3.]", "x [1. 2. 3.]", "unused [2.7 7.4 20.1]", "done"]
WAYS: dict[str, Callable[[Callable[[Any], Any]], Callable[[Any], Any]]] = {
    "eager": lambda f: f,
    "jit": tl.jit,
    "jit on fast_cpu": lambda f: tl.jit(f, profile=profiles.fast_cpu),
    "lower": lambda f: lambda x: tl.lower(f, x)(x),
    "grad": tl.grad,
    "jit of grad": lambda f: tl.jit(tl.grad(f)),
    "grad of jit": lambda f: tl.grad(tl.jit(f)),
    "hessian": tl.hessian,
    "jvp": lambda f: lambda x: tl.jvp(f, (x,), (x,)),
    "linearize": lambda f: lambda x: tl.linearize(f, x)[1](x),
    "vjp": lambda f: lambda x: tl.vjp(f, x)[1](np.float32(1)),
    "denote": lambda f: lambda x: denote(tl.make_graph(f)(x), (x,)),
    "checkpoint": lambda f: tl.grad(tl.checkpoint(f)),
    "cond": lambda f: tl.grad(lambda x: tl.cond(x[0] > 0, f, lambda x: x.sum(), x)),
    "scan of one step": lambda f: tl.grad(lambda x: tl.scan(lambda c, e: (c + f(e), None), 0.0 * x[0], x[None])[0]),
    "check_nan": debug.check_nan,
    "checkify": debug.checkify,
}


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_effects_act_once_and_in_order_on_every_way_to_run(way: str) -> None:
    lines: list[str] = []
    run = WAYS[way](remarked(lines))
    run(tl.array(X) if way == "eager" else X)
    if way == "hessian":  # its vmap of a jvp maps the tangents only
        assert lines == LINES
        return
    assert lines == LINES
    gc.collect()


def test_a_jitted_program_prints_at_every_call() -> None:
    lines: list[str] = []
    f = tl.jit(remarked(lines))
    f(X)
    f(X)
    assert lines == LINES * 2


def test_a_composite_prints_once_though_its_gradient_computes_it_again() -> None:
    lines: list[str] = []

    def body(x: Any) -> Any:
        debug.print("in the body", to=lines.append)
        return ops.sin(x)

    op = tl.composite("user_sine", body, reduces=False, reduces_in_gradient=False, doc="sin")
    for run in (tl.grad(lambda x: ops.call(op, x)), tl.jit(tl.grad(tl.grad(lambda x: ops.call(op, x))))):
        lines.clear()
        run(np.float32(2))
        assert lines == ["in the body"]
    lines.clear()
    tl.jvp(lambda x: ops.call(op, x), (X,), (X,))
    assert lines == ["in the body"]


def test_a_custom_rule_prints_what_it_is_asked_to() -> None:
    lines: list[str] = []

    @tl.custom_jvp
    def f(x: Any) -> Any:
        return ops.sin(x)

    @f.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        debug.print("rule at {x}", x=primals[0], to=lines.append)
        return f(primals[0]), ops.cos(primals[0]) * tangents[0]

    assert tl.jit(tl.grad(f))(np.float32(2)).item() == pytest.approx(np.cos(2))
    assert lines == ["rule at 2.0"]


def test_a_loop_prints_every_step() -> None:
    lines: list[str] = []

    def step(carry: Any, x: Any) -> Any:
        debug.print("{c} {x}", c=carry, x=x, to=lines.append)
        return carry + x, None

    def total(x: Any) -> Any:
        return tl.scan(step, np.float32(0), x)[0]

    for run in (total, tl.jit(total), tl.grad(total), tl.jit(tl.grad(total))):
        lines.clear()
        run(X)
        assert lines == ["0.0 1.0", "1.0 2.0", "3.0 3.0"]


def test_a_mapped_print_shows_the_batch_once() -> None:
    lines: list[str] = []

    def f(x: Any, y: Any) -> Any:
        debug.print("x {x} y {y:.1f}", x=x, y=y, to=lines.append)
        return x * y

    tl.jit(tl.vmap(f, in_axes=(0, None)))(X, np.float32(2))
    assert lines == ["x [1. 2. 3.] y 2.0  [vmap 3]"]
    lines.clear()
    tl.vmap(tl.vmap(f))(np.ones((2, 3), np.float32), np.zeros((2, 3), np.float32))
    assert lines == ["x [[1. 1. 1.] [1. 1. 1.]] y [[0.0 0.0 0.0] [0.0 0.0 0.0]]  [vmap 2×3]"]


def test_an_unmapped_print_under_vmap_shows_what_it_always_does() -> None:
    lines: list[str] = []

    def f(x: Any, y: Any) -> Any:
        debug.print("y {y}", y=y, to=lines.append)
        return x * y

    tl.vmap(f, in_axes=(0, None))(X, np.float32(2))
    assert lines == ["y 2.0"]


def test_values_may_be_trees_and_python_objects() -> None:
    lines: list[str] = []

    def f(x: Any) -> Any:
        debug.print("{} {0} {p:.2f} {name} {flag}", x, p={"w": x, "b": [x]}, name="it", flag=True, to=lines.append)
        return x

    with pytest.raises(ConfigError, match="cannot fill"):
        tl.jit(f)(X)
    debug.print("{} {p:.2f} {name} {flag}", X, p={"w": X, "b": [X]}, name="it", flag=True, to=lines.append)
    debug.print("{flag}", flag=1, to=lines.append)  # equal to True, and not the same
    debug.print("{{braces}} {x:>6}", x=7, to=lines.append)
    assert lines == [
        "[1. 2. 3.] {'w': [1.00 2.00 3.00], 'b': [[1.00 2.00 3.00]]} it True",
        "1",
        "{braces}      7",
    ]


def test_a_long_array_is_abridged_on_one_line() -> None:
    lines: list[str] = []
    debug.print("{x}", x=np.arange(1000), to=lines.append)
    assert lines == ["[0 1 2 ... 997 998 999]"]


def test_the_default_is_standard_output_as_it_then_is(capsys: pytest.CaptureFixture[str]) -> None:
    tl.jit(lambda x: debug.print("{x}", x=x) or x)(X)
    assert capsys.readouterr().out == "[1. 2. 3.]\n"


def test_bits_plan_and_hash_are_those_without_remarks() -> None:
    lines: list[str] = []
    plain = tl.make_graph(lambda x: (x * x).sum())(X)
    with_remarks = tl.make_graph(remarked(lines))(X)
    with_remarks.name = plain.name
    assert content_hash(with_remarks) == content_hash(plain)
    assert len(loads(dumps(with_remarks)).nodes) == len(plain.nodes)
    assert tl.jit(remarked(lines))(X).item() == tl.jit(lambda x: (x * x).sum())(X).item()


def test_a_graph_read_from_a_file_prints_nothing_and_names_no_effect() -> None:
    text = dumps(tl.make_graph(remarked([]))(X)).replace('"op":"mul"', '"op":"debug_print"')
    with pytest.raises(SerializationError):
        loads(text)


def test_dead_code_elimination_keeps_effects_and_what_they_need() -> None:
    graph = tl.make_graph(remarked([]))(X)
    names = [node.op.name for node in dead_code_eliminated(graph).nodes]
    assert names == ["debug_print", "debug_print", "exp", "debug_print", "debug_print", "mul", "reduce_sum"]
    assert not tl.make_graph(lambda x: x * 2)(X).has_effects
    assert graph.has_effects


FIELD_FAULTS = (
    ("x {y}", {"x": 1}, "no value for {y}; 'x' is in no field"),
    ("x", {"x": 1}, "'x' is in no field"),
    ("{x.shape}", {"x": 1}, "no value for {x.shape}; 'x' is in no field"),
    ("{x", {"x": 1}, "expected '}' before end of string"),
    ("{x:{w}}", {"x": 1}, "'{w}' is no format of a number or text"),
    ("{x:.2z}", {"x": 1}, "'.2z' is no format of a number or text"),
    ("{} {0}", {}, "fields with and without numbers"),
)


@pytest.mark.parametrize(("text", "named", "fault"), FIELD_FAULTS, ids=[text for text, _, _ in FIELD_FAULTS])
def test_fields_and_values_must_fit(text: str, named: dict[str, Any], fault: str) -> None:
    with pytest.raises(ConfigError) as refused:
        debug.print(text, **named)
    assert str(refused.value).splitlines()[0].startswith(f"debug.print cannot fill {text!r}: {fault} (test_effects.py:")


# -- checks ------------------------------------------------------------------------------------------------------------
def checked(x: Any) -> Any:
    debug.check(x > 0, "x must be positive, is {x}", x=x)
    return ops.log(x).sum()


BAD = np.array([1.0, -2.0, 3.0], np.float32)
RUNS: dict[str, Callable[[Any], Any]] = {
    "eager": lambda x: checked(tl.array(x)),
    "jit": tl.jit(checked),
    "grad": tl.grad(checked),
    "jit of grad": tl.jit(tl.grad(checked)),
    "hessian": tl.hessian(checked),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_check_raises_when_the_program_runs(name: str) -> None:
    line = checked.__code__.co_firstlineno + 1
    RUNS[name](X)
    with pytest.raises(CheckFailed) as failed:
        RUNS[name](BAD)
    assert str(failed.value) == (
        f"check failed: x must be positive, is [ 1. -2. 3.] at [1] (test_effects.py:{line} in checked)\n"
        "  expected: the condition to hold for all of bool[3]\n"
        "  got:      False first at [1]\n"
        "  fix:      look at the values named above; debug.checkify(f) returns the fault instead of raising it"
    ).replace("[ 1.", "[1.")


def test_a_mapped_check_names_the_example_and_shows_its_values() -> None:
    with pytest.raises(CheckFailed) as failed:
        tl.jit(tl.vmap(checked))(np.stack([X, BAD]))
    assert (
        str(failed.value)
        .splitlines()[0]
        .startswith("check failed: x must be positive, is [1. -2. 3.] at [1] of example [1] (test_effects.py:")
    )


def test_a_condition_known_while_tracing_is_checked_at_once() -> None:
    def f(x: Any) -> Any:
        debug.check(x.shape[0] == 2, "two rows, not {n}: {x}", n=x.shape[0], x=x)
        return x

    with pytest.raises(CheckFailed, match="check failed: two rows, not 3: a traced f32"):
        tl.make_graph(f)(X)
    with pytest.raises(CheckFailed, match=r"two rows, not 3: \[1. 2. 3.\]"):
        f(tl.array(X))


def test_a_condition_must_be_boolean() -> None:
    with pytest.raises(TypeRuleError, match="check of f32"):
        debug.check(tl.array(X), "no truth value")
    with pytest.raises(TypeRuleError, match="check of f32"):
        tl.jit(lambda x: debug.check(x, "no truth value") or x)(X)
