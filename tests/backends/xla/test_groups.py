"""Groups as executables: types kept, memory owned, constants, empty results, threads; equal groups share one."""

from __future__ import annotations

import sys
import threading
import warnings
from typing import Any

import numpy as np
import pytest
from backends.toolbox import traced
from backends.xla.kit import REFERENCE, XLA, run

import torchlean as tl
from torchlean import ops
from torchlean.backends import Executable, accept, plan
from torchlean.backends.handler import Group, grouper_of
from torchlean.backends.xla import calling, module
from torchlean.backends.xla.building import MOST_KEPT, Builds
from torchlean.backends.xla.calling import SMALL, lent
from torchlean.ir.dtypes import DType
from torchlean.ir.graph import Graph, Node
from torchlean.ir.location import NOWHERE
from torchlean.ir.op import NO_PARAMS
from torchlean.ir.ops.elementwise import STOP_GRADIENT
from torchlean.ir.types import TensorType

jax = pytest.importorskip("jax")


def executable(function: Any, *arrays: Any) -> Executable:
    return Executable(accept(plan(traced(function, *arrays), XLA)))


def test_adjacent_nodes_are_one_kernel_whose_text_is_shown() -> None:
    x = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    made = executable(lambda x: ops.tanh(x @ ops.transpose(x)) * 2, x)
    assert made.source.count("nodes in one kernel") == 1
    assert "stablehlo.dot_general" in made.source
    assert "stablehlo.tanh" in made.source
    assert made.source.count("def run") == 1
    np.testing.assert_allclose(made.call(x)[0], np.tanh(x @ x.T) * 2, rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float64, np.int64, np.uint64, np.complex128, np.float16, np.int8, np.bool_])
def test_types_are_kept_whatever_jax_is_set_to(dtype: Any) -> None:
    x = np.array([3, 1, 2]).astype(dtype)
    assert jax.config.jax_enable_x64 is False
    (got,) = executable(lambda x: ops.concatenate([x, x]), x).call(x)
    assert got.dtype == x.dtype
    assert got.tolist() == [*x.tolist(), *x.tolist()]
    assert jax.config.jax_enable_x64 is False
    assert jax.numpy.arange(2.0).dtype == np.float32  # the setting of this thread is back


def test_the_setting_is_back_after_a_call_that_fails() -> None:
    made = executable(lambda x: x + 1, np.zeros(3))
    with pytest.raises(TypeError):
        made.call(np.zeros(4))
    assert jax.config.jax_enable_x64 is False
    assert made.call(np.zeros(3))[0].tolist() == [1, 1, 1]


def test_another_jax_is_called_by_its_public_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is private is used where it is as it is known here; else the `Compiled` and the context manager are."""
    assert calling._direct(np.sin) is np.sin
    assert calling._waiting() is not jax.block_until_ready
    monkeypatch.setitem(sys.modules, "jaxlib._jax", None)
    assert calling._waiting() is jax.block_until_ready
    seen: list[bool] = []

    class Context:
        def __init__(self, value: bool) -> None:
            self.value = value

        def __enter__(self) -> None:
            seen.append(self.value)

        def __exit__(self, *error: object) -> None:
            seen.append(False)

    run = calling._in_context(lambda x: (x, list(seen)), Context)
    assert run(5) == (5, [True])
    assert seen == [True, False]


def test_large_integers_and_small_differences_survive() -> None:
    n, x = np.array([2**62 + 1, -(2**53) - 1]), np.array([1.0, 1.0 + 2.0**-52])
    assert run(traced(lambda n: n + 1, n), [n])[0].tolist() == [2**62 + 2, -(2**53)]
    assert run(traced(lambda x: x - 1.0, x), [x])[0].tolist() == [0.0, 2.0**-52]


def test_results_are_writable_and_share_no_memory() -> None:
    """They are memory of the executable; a result that is an operand is copied."""
    for size in (4, SMALL):
        x = np.zeros(size, dtype=np.float32)
        made = executable(lambda x: (ops.stop_gradient(x) + 0, x * 2, x * 2 + 1, ops.full(x.shape, 2.0, np.float32)), x)
        results = made.call(x)
        again = made.call(x)
        arrays = [x, *results, *again]
        for at, one in enumerate(arrays):
            assert all([not np.shares_memory(one, other) for other in arrays[:at]])
        for result in results:
            result += 5
        assert x.tolist() == [0] * size
        assert again[1].tolist() == [0] * size
        assert again[3].tolist() == made.call(x)[3].tolist() == [2] * size


def test_a_result_goes_in_again_as_it_is_now() -> None:
    """As the jax array it was, which sees what was written into it since; results of its next call are apart."""
    made = executable(lambda x: x * 2, np.zeros(4, np.float32))
    (one,) = made.call(np.ones(4, np.float32))
    assert lent(one) is not None
    one[1] = 7
    (two,) = made.call(one)
    assert two.tolist() == [4, 14, 4, 4]
    assert not np.shares_memory(one, two)


def test_what_was_made_of_a_result_is_no_longer_lent() -> None:
    made = executable(lambda x: x * 2, np.zeros((2, 2), np.float32))
    (one,) = made.call(np.array([[1, 2], [3, 4]], np.float32))
    assert lent(one) is not None
    for other in (one.T, one[:1], one.view(np.int32), one.copy(), np.ones(3)):
        assert lent(other) is None
    assert made.call(one.T)[0].tolist() == [[4, 12], [8, 16]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # NumPy 2.5 deprecates it, and allows it still
        one.dtype = np.int32
    assert lent(one) is None


def test_a_small_operand_may_be_changed_after_the_call() -> None:
    """It is copied into memory that the next call uses again."""
    x, y = np.ones(4, np.float32), np.full(4, 3, np.float32)
    made = executable(lambda x, y: (x + y, x - y), x, y)
    first = made.call(x, y)
    x[:] = 9
    assert made.call(x, y)[0].tolist() == [12] * 4
    assert [each.tolist() for each in first] == [[4] * 4, [-2] * 4]


def test_an_operand_of_another_shape_is_not_spread() -> None:
    """A copy into kept memory would repeat it."""
    made = executable(lambda x, y: x + y, np.zeros((2, 3)), np.zeros((2, 3)))
    with pytest.raises(TypeError):
        made.call(np.zeros((2, 3)), np.zeros(3))
    with pytest.raises(TypeError):
        made.call(np.zeros((2, 3)), np.zeros((2, 3), np.float32))
    assert made.call(np.ones((2, 3)), np.ones((2, 3)))[0].tolist() == [[2, 2, 2], [2, 2, 2]]


def test_an_operand_that_is_returned_inside_a_group_is_copied() -> None:
    type = TensorType((SMALL,), DType.F32)
    nodes = (Node(STOP_GRADIENT, (0,), (1,), NO_PARAMS, NOWHERE), Node(STOP_GRADIENT, (1,), (2,), NO_PARAMS, NOWHERE))
    group = Group(nodes=nodes, capsules=("a", "b"), types=(type,) * 3, inputs=(0,), outputs=(1, 2))
    x = np.ones(SMALL, np.float32)
    grouper = grouper_of(module().capsules[0])
    one, two = grouper.fuse(group).kernel(packs=True)(x)
    assert not np.shares_memory(one, x)
    assert not np.shares_memory(one, two)
    one[:] = 7
    assert x[0] == two[0] == 1


def test_results_that_xla_finds_equal_are_apart() -> None:
    """XLA knows that multiplying by 1 changes nothing."""
    x = np.arange(float(SMALL))
    one, two = executable(lambda x: (x * 1, ops.reverse(ops.reverse(x, (0,)) * 1, (0,))), x).call(x)
    assert one.tolist() == two.tolist() == x.tolist()
    assert not np.shares_memory(one, two)
    assert not np.shares_memory(one, x)
    one[:] = 0
    assert x[5] == two[5] == 5


def test_constants_small_and_large_are_in_the_executable() -> None:
    small, large = np.array([1.5, -2.5]), np.arange(5000, dtype=np.int64)
    x = np.array([2.0, 3.0])
    made = executable(lambda x: (x * ops.constant(small), ops.sum(ops.constant(large)) + 5), x)
    first, second = made.call(x)
    assert first.tolist() == [3.0, -7.5]
    assert second == large.sum() + 5
    assert len(made.source) < 20_000  # 5000 numbers are not written out


def test_empty_arrays_and_ranks_of_zero() -> None:
    empty, scalar = np.zeros((0, 3), np.float32), np.float32(2)
    made = executable(
        lambda e, s: (ops.exp(e), ops.sum(e), ops.log(s), ops.concatenate([e, e])), empty, np.asarray(scalar)
    )
    a, b, c, d = made.call(empty, scalar)  # a NumPy scalar, as kernels may give them
    assert (a.shape, float(b), d.shape) == ((0, 3), 0.0, (0, 3))
    assert c.shape == ()
    assert isinstance(c, np.ndarray)
    np.testing.assert_allclose(c, np.log(2.0), rtol=1e-6)


def test_operands_may_lie_in_memory_as_they_like() -> None:
    x = np.arange(24.0, dtype=np.float32).reshape(4, 6)
    made = executable(lambda x: x * 2 + 1, x)
    frozen = x.copy()
    frozen.flags.writeable = False
    for given in (np.asfortranarray(x), np.repeat(x, 2, axis=1)[:, ::2], x[::-1][::-1], frozen):
        assert made.call(given)[0].tolist() == (x * 2 + 1).tolist()


def test_equal_groups_have_one_executable() -> None:
    own = module()
    grouper = grouper_of(own.capsules[0])
    profile = XLA.with_modules(own)
    x = np.arange(3.0)
    for name in ("one", "two"):
        Executable(accept(plan(traced(lambda x: ops.sin(x) + 1, x, name=name), profile)))
    assert len(grouper.builds()) == 1
    Executable(accept(plan(traced(lambda x: ops.sin(x) + 2, x), profile)))
    assert len(grouper.builds()) == 2


def test_only_the_most_recently_used_executables_are_kept() -> None:
    builds = Builds(most=2)
    graphs = [traced(lambda x, n=n: x + n, np.zeros(2)) for n in range(3)]
    first = builds.built(graphs[0])
    builds.built(graphs[1])
    assert builds.built(graphs[0]) is first
    builds.built(graphs[2])
    assert (len(builds), builds.built(graphs[0]) is first) == (2, True)
    assert MOST_KEPT >= 100


def test_threads_may_plan_and_call_at_once() -> None:
    x = np.arange(8.0)
    graphs: list[Graph] = [traced(lambda x, n=n: ops.cos(x) * (n % 3), x) for n in range(12)]
    profile = XLA.with_modules(module())
    found: list[Any] = [None] * len(graphs)

    def work(at: int) -> None:
        made = Executable(accept(plan(graphs[at], profile)))
        found[at] = [made.call(x)[0] for _ in range(20)]

    threads = [threading.Thread(target=work, args=(at,)) for at in range(len(graphs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len([each for each in found if each is not None]) == len(graphs)
    for at, results in enumerate(found):
        for result in results:
            np.testing.assert_allclose(result, np.cos(x) * (at % 3), rtol=1e-14)


def test_threads_may_call_one_executable_with_operands_of_their_own() -> None:
    """Each call under way has memory of its own for its operands."""
    eye = np.eye(128, dtype=np.float32)

    def slow(x: Any, y: Any) -> Any:
        for _ in range(8):
            x = x @ y
        return x

    made = executable(slow, eye, eye)
    wrong: list[int] = []

    def work(value: int) -> None:
        for _ in range(40):
            if not np.array_equal(made.call(eye * value, eye)[0], eye * value):
                wrong.append(value)

    threads = [threading.Thread(target=work, args=(value,)) for value in range(1, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_settings_of_the_users_do_not_decide_what_is_computed() -> None:
    x = np.array([1.0, 2.0], dtype=np.float64)
    with jax.default_matmul_precision("bfloat16"), jax.numpy_rank_promotion("raise"), jax.debug_nans(True):
        made = executable(lambda x: (x @ x, x + 2.0**-40), x)
        product, sum = made.call(x)
    assert product == 5.0
    assert sum.tolist() == [1.0 + 2.0**-40, 2.0 + 2.0**-40]


def test_a_gradient_of_a_network_is_near_the_strict_one() -> None:
    rng = np.random.default_rng(0)
    params = [(rng.normal(size=(8, 8)) / 3, rng.normal(size=8)) for _ in range(3)]
    x, y = rng.normal(size=(16, 8)), rng.normal(size=(16, 8))

    def loss(params: Any, x: Any, y: Any) -> Any:
        for w, b in params:
            x = ops.tanh(x @ w + b)
        return ops.mse_loss(x, y)

    fast = tl.lower(tl.grad(loss), params, x, y, profile=XLA)
    strict = tl.lower(tl.grad(loss), params, x, y, profile=REFERENCE)
    assert {step.capsule.provider for step in fast.plan.steps} == {"xla"}
    for (w, b), (v, c) in zip(fast(params, x, y), strict(params, x, y), strict=True):
        np.testing.assert_allclose(np.asarray(w), np.asarray(v), rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(np.asarray(b), np.asarray(c), rtol=1e-12, atol=1e-14)


def test_steps_of_other_providers_stand_between_groups() -> None:
    """An effect is the host's; what is before and after it is compiled, and the effect keeps its place."""
    said: list[str] = []
    x = np.arange(3.0)

    def f(x: Any) -> Any:
        y = ops.exp(x) * 2
        tl.debug.print("{}", y, to=said.append)
        return ops.log(y)

    made = tl.lower(f, x, profile=XLA)
    providers = [step.capsule.provider for step in made.plan.steps]
    assert providers.count("reference") == 1
    np.testing.assert_allclose(np.asarray(made(x)), x + np.log(2), rtol=1e-14)
    assert said == ["[2. 5.43656366 14.7781122 ]"]
