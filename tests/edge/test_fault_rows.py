"""The faults users reported of tracing, transforms and types, each in every place a function is traced.

`ROWS` says which tests show a fault's handling; that they exist is checked, and, where the list of faults is at hand,
that none of its rows is missing.
"""

from __future__ import annotations

import ast
import multiprocessing
import subprocess
import sys
import textwrap
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import torchlean as tl
import torchlean.numpy as tnp
from torchlean import ops
from torchlean.errors import (
    GradError,
    OutOfRangeError,
    StructureError,
    TorchLeanError,
    TraceError,
    TypeRuleError,
)
from torchlean.ir.builder import CURRENT
from torchlean.runtime import Session

TESTS = Path(__file__).resolve().parents[1]
ROWS: dict[str, tuple[str, ...]] = {
    "T02": ("test_a_mistake_is_refused_wherever_it_is_traced", "test_if_on_a_traced_value"),
    "T03": (
        "test_a_gradient_of_what_has_none_is_refused_inside_bodies",
        "test_grad_of_a_result_with_axes",
        "test_grad_with_respect_to_an_integer",
        "test_argnums_that_the_call_does_not_have",
        "test_has_aux_without_a_pair",
    ),
    "T04": (
        "test_sizes_that_differ_are_listed_inside_bodies",
        "test_sizes_that_differ_list_each_argument",
        "test_in_axes_of_another_tree",
        "test_an_axis_out_of_range",
    ),
    "T06": (
        "test_a_tree_2000_deep_is_refused_going_in_and_coming_out",
        "test_a_cyclic_tree_is_refused",
        "test_deep_and_cyclic_trees_are_refused_by_control_flow",
        "test_a_list_2000_deep_is_no_operand_index_or_shape",
    ),
    "T07": ("test_keys_of_several_types_come_in_one_order_whatever_order_they_were_put_in",),
    "T08": ("test_unflatten_undoes_flatten", "test_odd_trees_come_back_through_every_transform"),
    "T10": (
        "test_a_mistake_is_refused_wherever_it_is_traced",
        "test_arrays_handed_out_are_read_only",
        "test_writing_to_an_array_afterwards_changes_nothing_that_was_made_of_it",
    ),
    "T11": ("test_what_a_function_does_besides_happens_once", "test_a_draw_needs_a_key"),
    "T12": (
        "test_threads_trace_and_differentiate_at_once_without_cross_talk",
        "test_threads_may_share_one_session",
        "test_threads_may_share_one_tape",
        "test_a_thousand_rounds_of_eight_threads",
    ),
    "T14": ("test_a_failing_trace_restores_what_answers_ops", "test_an_exception_of_the_users_is_the_users"),
    "T15": (
        "test_shapes_of_any_size_have_exact_types",
        "test_a_value_beyond_the_budget_is_refused_before_it_is_made",
        "test_functions_of_numpy_names_refuse_what_is_too_large",
        "test_what_has_no_entries_may_still_be_too_large",
        "test_an_empty_axis_has_a_value_and_derivatives",
    ),
    "T16": ("test_twenty_thousand_ops",),
    "T18": ("test_an_integer_is_never_wrapped", "test_a_loop_counts_beyond_32_bits"),
    "T19": ("test_float64_stays_float64",),
    "T20": ("test_a_mistake_is_refused_wherever_it_is_traced", "test_an_index_out_of_range"),
    "T22": ("test_a_process_forked_or_spawned_afterwards_works",),
}


def test_every_row_names_tests_that_exist() -> None:
    written: set[str] = set()
    for path in TESTS.rglob("test_*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        written |= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    assert {name for names in ROWS.values() for name in names} - written == set()


def test_no_row_of_the_list_is_missing(shared_data: Path) -> None:
    listed = (shared_data / "reference" / "faults.tsv").read_text(encoding="utf-8")
    rows = [line.split("\t")[0] for line in listed.splitlines()]
    assert {row for row in rows if row.startswith("T")} == set(ROWS)


# -- where functions are traced ----------------------------------------------------------------------------------------
X = np.array([1.0, 2.0, 3.0], np.float32)
F = Callable[[Any], Any]

PLACES: dict[str, Callable[[F, Any], Any]] = {
    "jit": lambda f, x: tl.jit(f)(x),
    "grad": lambda f, x: tl.grad(lambda v: ops.sum(f(v)))(x),
    "jvp": lambda f, x: tl.jvp(f, (x,), (x,)),
    "vmap": lambda f, x: tl.vmap(f)(np.stack([x, x])),
    "scan": lambda f, x: ops.scan(lambda carry, _: (f(carry), None), x, None, length=2)[0],
    "cond": lambda f, x: ops.cond(True, f, lambda v: v, x),
    "switch": lambda f, x: ops.switch(0, [lambda v: v, f], x),
    "while_loop": lambda f, x: ops.while_loop(
        lambda carry: carry[0] < 2, lambda carry: (carry[0] + 1, f(carry[1])), (np.int32(0), x)
    )[1],
    "fori_loop": lambda f, x: ops.fori_loop(0, 2, lambda i, carry: f(carry), x),
    "map": lambda f, x: ops.map(f, np.stack([x, x])),
    "checkpoint": lambda f, x: tl.checkpoint(f)(x),
    "gradient of a scan under jit": lambda f, x: tl.jit(
        tl.grad(lambda v: ops.sum(ops.scan(lambda carry, _: (f(carry), None), v, None, length=2)[0]))
    )(x),
    "branch of a mapped scan": lambda f, x: tl.vmap(
        lambda v: ops.scan(lambda carry, _: (ops.cond(carry.sum() > 0, f, lambda u: u, carry), None), v, None, length=2)
    )(np.stack([x, x])),
}


def written_to(x: Any) -> Any:
    x[0] = 5.0
    return x


def written_to_through_numpy(x: Any) -> Any:
    np.asarray(x)[0] = 5.0
    return x


MISTAKES: dict[str, tuple[F, type[TorchLeanError], tuple[str, ...]]] = {
    "if": (lambda x: x if ops.sum(x) > 0 else -x, TraceError, ("bool() of a traced bool[]", "ops.select", "ops.cond")),
    "if of numpy": (lambda x: x if tnp.all(x > 0) else -x, TraceError, ("bool() of a traced bool[]", "ops.cond")),
    "float": (lambda x: x * float(x[0]), TraceError, ("float() of a traced f32[]", "keep it a tensor")),
    "written to": (written_to, TraceError, ("item assignment to a traced f32[3]", "x.at[index].set(value)")),
    "written to through NumPy": (
        written_to_through_numpy,
        TraceError,
        ("conversion to a NumPy array of a traced f32[3]",),
    ),
    "index": (lambda x: x * x[7], OutOfRangeError, ("indexing f32[3]: index 7 is out of range for axis 0", "[-3, 3)")),
    "negative index": (lambda x: x * x[-4], OutOfRangeError, ("indexing f32[3]: index -4 is out of range",)),
    "index array": (lambda x: x * x[np.array([0, 1, 3])], OutOfRangeError, ("take of f32[3]: index 3 is outside",)),
    "take of numpy": (lambda x: tnp.take(x, np.array([0, 1, 9])), OutOfRangeError, ("take of f32[3]: index 9",)),
    "entry": (lambda x: x.at[7].set(0.0), OutOfRangeError, ("indexing f32[3]: index 7 is out of range",)),
    "entries": (lambda x: x.at[np.array([9])].add(1.0), OutOfRangeError, ("take of f32[3]: index 9 is outside",)),
    "integer array": (lambda x: x + np.array([2**40] * 3), TypeRuleError, ("f32[3], i64[3]", "no common type")),
    "too many axes": (lambda x: x[0, 0], OutOfRangeError, ("indexing f32[3] with 2 indices",)),
}


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize("place", PLACES)
def test_a_mistake_is_refused_wherever_it_is_traced(place: str, mistake: str) -> None:
    """One refusal in the user's terms, with their line; and the next trace works."""
    f, kind, words = MISTAKES[mistake]
    np.asarray(ops.sin(X))  # a session, if the context had none
    before = CURRENT.get()
    with pytest.raises(kind) as caught:
        PLACES[place](f, X)
    text = str(caught.value)
    for word in (*words, "(test_fault_rows.py:"):
        assert word in text, text
    assert len(text.splitlines()) <= 6
    assert CURRENT.get() is before
    PLACES[place](lambda x: x * np.float32(0.5), X)


def test_a_gradient_of_what_has_none_is_refused_inside_bodies() -> None:
    for inner, words in (
        (lambda v: tl.grad(lambda u: u * 2)(v), ("returns f32[3]", "one floating point scalar")),
        (lambda v: v * tl.grad(lambda i: ops.sum(i))(np.arange(3)), ("args[0]: i64[3]",)),
        (lambda v: tl.grad(lambda p: ops.sum(p["a"][0]))({"a": (np.arange(3), v)})["a"][1], ("args[0]['a'][0]: i64",)),
        (lambda v: tl.grad(lambda u: ops.sum(ops.convert(u, "i32")))(v), ("returns i32[]",)),
    ):
        for place in PLACES.values():
            with pytest.raises(GradError) as caught:
                place(inner, X)
            assert all(word in str(caught.value) for word in words), str(caught.value)
    for inner, words in (
        (lambda v: tl.grad(lambda u: ops.sum(u), 3)(v), "argnums 3 is no position of a positional argument"),
        (lambda v: tl.grad(lambda u: ops.sum(u), has_aux=True)(v), "must return a pair (output, aux)"),
    ):
        for place in PLACES.values():
            with pytest.raises(TypeRuleError, match=r"(?s).*") as caught:
                place(inner, X)
            assert words in str(caught.value)


def test_sizes_that_differ_are_listed_inside_bodies() -> None:
    other = np.ones(4, np.float32)
    for place in PLACES.values():
        with pytest.raises(StructureError) as caught:
            place(lambda v: tl.vmap(lambda a, b: a + b)(v, other), X)
        assert "args[0]: f32[3] axis 0 has 3, args[1]: f32[4] axis 0 has 4" in str(caught.value)
        with pytest.raises(StructureError, match="xs have different lengths") as caught:
            place(lambda v: ops.scan(lambda c, x: (c, x[0]), v, (v, other))[0], X)
        assert "xs[0]: f32[3] has 3, xs[1]: f32[4] has 4" in str(caught.value)


# -- trees -------------------------------------------------------------------------------------------------------------
def deep(leaf: Any, count: int = 2000) -> Any:
    for _ in range(count):
        leaf = [leaf]
    return leaf


CONTROL: dict[str, Callable[[F, Any], Any]] = {
    "scan": lambda f, x: ops.scan(lambda carry, _: (f(carry), None), x, None, length=2),
    "scan, stacked": lambda f, x: ops.scan(lambda carry, _: (carry, f(x)), np.float32(0), None, length=2),
    "cond": lambda f, x: ops.cond(True, f, f, x),
    "switch": lambda f, x: ops.switch(0, [f, f], x),
    "while_loop": lambda f, x: ops.while_loop(lambda carry: False, f, x),
    "fori_loop": lambda f, x: ops.fori_loop(0, 2, lambda i, carry: f(carry), x),
    "map": lambda f, x: ops.map(f, x),
    "associative_scan": lambda f, x: ops.associative_scan(lambda a, b: f(a), x),
    "checkpoint": lambda f, x: tl.checkpoint(f)(x),
    "checkify": lambda f, x: tl.debug.checkify(f)(x),
    "custom_jvp": lambda f, x: _ruled(f)(x),
}


def _ruled(f: F) -> F:
    made = tl.custom_jvp(f)
    made.defjvp(lambda primals, tangents: (f(*primals), tangents[0]))
    return made


@pytest.mark.parametrize("name", CONTROL)
def test_deep_and_cyclic_trees_are_refused_by_control_flow(name: str) -> None:
    cycle: list[Any] = [X]
    cycle.append(cycle)
    for tree in (deep(X), cycle):
        with pytest.raises(StructureError, match="nested too deeply"):
            CONTROL[name](lambda x: x, tree)
        with pytest.raises(StructureError, match="nested too deeply"):
            CONTROL[name](lambda x, result=tree: result, X)


def test_a_list_2000_deep_is_no_operand_index_or_shape() -> None:
    nested = deep(1.0)
    for run in (
        lambda: ops.add(nested, 1.0),
        lambda: tl.array(nested),
        lambda: tnp.asarray(nested),
        lambda: tnp.sum(nested),
        lambda: tl.array(X)[deep(0)],
        lambda: tl.array(X).at[deep(0)].set(1.0),
        lambda: ops.reshape(X, deep(3)),
        lambda: ops.full((2,), nested),
        lambda: tl.jit(lambda x: ops.add(x, nested))(X),
        lambda: ops.cond(nested, lambda: 1.0, lambda: 2.0),
    ):
        with pytest.raises(TorchLeanError) as caught:
            run()
        assert "recursion" not in str(caught.value).lower()
        assert not isinstance(caught.value, RecursionError)


def test_odd_trees_come_back_through_every_transform() -> None:
    """None, empty containers, and one object twice."""
    given = {"none": None, "empty": (), "list": [], "twice": (X, X), 1: {"a": X}}

    def f(p: Any) -> Any:
        return {**p, "twice": tuple(x * 2 for x in p["twice"])}

    want = {"none": None, "empty": (), "list": [], "twice": (2 * X, 2 * X), 1: {"a": X}}
    for name in ("jit", "checkpoint", "cond", "switch", "map", "vmap", "fori_loop", "scan"):
        times = 4 if name in ("fori_loop", "scan") else 2
        made = CONTROL[name](f, given) if name in CONTROL else getattr(tl, name)(f)(given)
        made = made[0] if name == "scan" else made
        assert tl.pytree.structure(made) == tl.pytree.structure(want)
        assert [np.asarray(leaf).tolist() for leaf in made["twice"]] == [(times * X).tolist()] * 2
    slopes = tl.grad(lambda p: ops.sum(p["twice"][0] * p["twice"][1]))(given)
    assert np.asarray(slopes["twice"][0]).tolist() == X.tolist()
    assert slopes["none"] is None


# -- purity ------------------------------------------------------------------------------------------------------------
def test_arrays_handed_out_are_read_only() -> None:
    with Session(track_gradients=True) as session:
        handle = session.parameter(X)
        gradient = session.backward(ops.sum(handle * handle))[handle]
    carry, stacked = ops.scan(lambda c, _: (c * 2, c), X, None, length=2)
    handed = [handle, gradient, tl.array(X), tl.array(X) + 1, tl.jit(lambda x: x)(X), tl.vmap(lambda x: x)(X)]
    handed += [tl.grad(lambda x: ops.sum(x * x))(X), carry, stacked, tnp.asarray(X), tl.jit(lambda x: x.T)(X)]
    for array in handed:
        for view in (np.asarray(array), array.numpy(), np.from_dlpack(array)):
            with pytest.raises(ValueError, match="read-only"):
                view[...] = 0.0
            with pytest.raises(ValueError, match="cannot set WRITEABLE flag"):
                view.setflags(write=True)


MADE: dict[str, Callable[[Any], Callable[[], Any]]] = {
    "array": lambda w: _later(tl.array(w)),
    "asarray": lambda w: _later(tnp.asarray(w)),
    "from_dlpack": lambda w: _later(tnp.from_dlpack(w)),
    "reshape": lambda w: _later(ops.reshape(w, (3, 1))),
    "transpose": lambda w: _later(tnp.permute_dims(w, (0,))),
    "identity under jit": lambda w: _later(tl.jit(lambda x: x)(w)),
    "identity lowered": lambda w: _later(tl.lower(lambda x: x, w, profile=tl.profiles.fast_cpu)(w)),
    "identity under vmap": lambda w: _later(tl.vmap(lambda x: x)(w)),
    "tangent": lambda w: _later(tl.jvp(lambda x: x, (X,), (w,))[1]),
    "branch": lambda w: _later(ops.cond(True, lambda x: x, lambda x: x, w)),
    "no steps": lambda w: _later(ops.scan(lambda c, _: (c, None), w, None, length=0)[0]),
    "no turns": lambda w: _later(ops.while_loop(lambda c: False, lambda c: c, w)),
    "checkpoint": lambda w: _later(tl.checkpoint(lambda x: x)(w)),
    "parameter": lambda w: _later(Session(track_gradients=True).parameter(w)),
    "constant of a jitted function": lambda w: _called(tl.jit(lambda x: x * w)),
    "constant of a lowered function": lambda w: _called(tl.lower(lambda x: x * w, X)),
    "residual": lambda w: _called(tl.vjp(lambda x: x * x, w)[1]),
    "linearized": lambda w: _called(tl.linearize(lambda x: x * x, w)[1]),
    "captured by a pullback": lambda w: _called(tl.vjp(lambda x: x * w, X)[1]),
}


def _later(made: Any) -> Callable[[], Any]:
    return lambda: np.array(made)


def _called(f: Any) -> Callable[[], Any]:
    f(np.ones(3, np.float32))
    return lambda: np.array(tl.pytree.leaves(f(np.ones(3, np.float32)))[0])


@pytest.mark.parametrize("name", MADE)
def test_writing_to_an_array_afterwards_changes_nothing_that_was_made_of_it(name: str) -> None:
    mine = np.array([4.0, 5.0, 6.0], np.float32)
    read = MADE[name](mine)
    before = read()
    mine[:] = 0.0
    assert read().tolist() == before.tolist()
    assert before.any()


def test_what_a_function_does_besides_happens_once() -> None:
    """Per combination of types, while it is traced."""
    seen: list[str] = []

    def f(x: Any) -> Any:
        seen.append(str(x.type))
        return x * 2

    jitted = tl.jit(f)
    for _ in range(3):
        jitted(X)
    jitted(np.ones(2))
    assert seen == ["f32[3]", "f64[2]"]
    ops.scan(lambda c, _: (f(c), None), X, None, length=50)
    assert len(seen) == 3


@pytest.mark.parametrize("place", PLACES)
def test_a_draw_needs_a_key(place: str) -> None:
    with pytest.raises(TypeRuleError, match=r"random.normal: a tuple is not a key .*test_fault_rows") as caught:
        PLACES[place](lambda x: x + tl.random.normal((3,)), X)
    assert "torchlean.random.key(seed)" in str(caught.value)


@pytest.mark.parametrize("place", PLACES)
def test_an_exception_of_the_users_is_the_users(place: str) -> None:
    """The object itself, raised in the user's frame, which is the innermost of the traceback."""
    fault = KeyError("mine")

    def raising(x: Any) -> Any:
        ops.sin(x)
        raise fault

    np.asarray(ops.sin(X))  # a session, if the context had none
    before = CURRENT.get()
    with pytest.raises(KeyError) as caught:
        PLACES[place](raising, X)
    assert caught.value is fault
    assert traceback.extract_tb(fault.__traceback__)[-1].name == "raising"
    assert CURRENT.get() is before


# -- threads and processes ---------------------------------------------------------------------------------------------
@pytest.mark.slow
def test_a_thousand_rounds_of_eight_threads() -> None:
    """In a process of its own, whose fault handler would speak of a crash."""
    script = """
        import sys, threading
        sys.setswitchinterval(1e-6)
        import numpy as np
        import torchlean as tl
        from torchlean import ops
        shared = tl.jit(tl.grad(lambda x: ops.sum(ops.softmax(x) * x)))
        def job(seed):
            x = np.random.default_rng(seed).uniform(-1, 1, 4)
            own = lambda v: ops.sum(ops.scan(lambda c, u: (c * ops.sin(u), c + u), v[0], v)[1]) * float(seed + 1)
            lowered = tl.lower(tl.grad(own), x)
            return [np.asarray(f(x)).tobytes() for f in (lowered, shared, tl.grad(own), tl.vmap(tl.grad(ops.tanh)))]
        alone = [job(seed) for seed in range(8)]
        right = []
        def work(seed):
            for _ in range(1000):
                right.append(job(seed) == alone[seed])
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        print(len(right), all(right))
    """
    run = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert (run.stdout, run.stderr) == ("8000 True\n", "")


def _child(queue: Any) -> None:
    with Session(track_gradients=True) as session:
        x = session.parameter(X)
        made = session.backward(ops.sum(x * x))[x]
    jitted = tl.jit(tl.grad(lambda v: ops.sum(ops.sin(v))))(X)
    queue.put((np.asarray(made).tolist(), np.asarray(jitted).tolist()))


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_process_forked_or_spawned_afterwards_works(method: str) -> None:
    """Nothing here starts threads, so a fork is safe; no pool is made by this package, and none by JAX within it."""
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"{method} is not offered here")
    script = f"""
        import multiprocessing, sys
        sys.path[:0] = {[str(TESTS), str(TESTS.parent)]!r}
        if __name__ == "__main__":
            import numpy as np
            import torchlean as tl
            from torchlean import ops
            from edge.test_fault_rows import _child
            tl.jit(tl.grad(lambda v: ops.sum(ops.sin(v))))(np.ones(3))
            np.asarray(tl.array(1.0) + 1.0)
            context = multiprocessing.get_context({method!r})
            queue = context.Queue()
            process = context.Process(target=_child, args=(queue,))
            process.start()
            print(queue.get(timeout=60))
            process.join(60)
            print(process.exitcode)
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=180, check=False
    )
    value, code = run.stdout.splitlines()
    assert ast.literal_eval(value)[0] == [2.0, 4.0, 6.0]
    np.testing.assert_allclose(ast.literal_eval(value)[1], np.cos(X), rtol=1e-6)
    assert code == "0"
