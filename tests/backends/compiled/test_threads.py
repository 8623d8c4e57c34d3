"""Threads share out results, never the terms of one: the bits are the same for 1, 2 and 5 of them."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest
from backends.compiled.kit import COMPILED, REFERENCE
from backends.toolbox import normal, same_bits

import torchlean as tl
from torchlean import ops, pytree
from torchlean.backends.compiled import module
from torchlean.backends.compiled.loading import Builds, threads
from torchlean.errors import ConfigError

pytestmark = pytest.mark.usefixtures("compiler")


def with_threads(count: int) -> Any:
    return COMPILED.with_modules(module(Builds({**os.environ, "TORCHLEAN_NUM_THREADS": str(count)})))


def both(f: Any) -> Any:
    """The result and the cotangents of the operands but the last, which is the result's."""

    def run(*given: Any) -> Any:
        value, pull = tl.vjp(f, *given[:-1])
        return value, pull(given[-1])

    return run


def n(*shape: int) -> Any:
    return normal(*shape, seed=sum(shape))


PROGRAMS = {
    "layer norm and its gradient": (
        both(lambda x, w, b: ops.layer_norm(x, w, b)),
        n(1001, 515),
        n(515),
        n(515),
        n(1001, 515),
    ),
    "softmax and its gradient": (both(lambda x: ops.softmax(x, -1)), n(600, 777), n(600, 777)),
    "an elementwise loop": (lambda x, y: ops.exp(x * y) + 1.0, n(300_001), n(300_001)),
    "a loop over a view": (lambda x, y: ops.transpose(x) * y, n(700, 600), n(600, 700)),
    "a fold of columns": (lambda x: ops.sum(x * 2.0, 0), n(3000, 515)),
    "a fold of a middle axis": (lambda x: ops.sum(x * 2.0, 1), n(30, 100, 515)),
    "a product": (lambda a, b: a @ b, n(201, 300), n(300, 170)),
    "a product of few columns": (lambda a, b: a @ b, n(9000, 100), n(100, 10)),
    "a product of few rows": (lambda a, b: a @ b, n(10, 1000), n(1000, 900)),
    "many products": (lambda a, b: a @ b, n(3, 4, 100, 33), n(3, 4, 33, 70)),
    "a few products": (lambda a, b: a @ b, n(3, 200, 133), n(3, 133, 170)),
    "a convolution and its adjoints": (
        both(lambda x, w: ops.conv(x, w, padding="same")),
        n(9, 3, 19, 23),
        n(33, 3, 3, 3),
        n(9, 33, 19, 23),
    ),
    "one of more channels in than out": (
        both(lambda x, w: ops.conv(x, w, padding="same")),
        n(5, 16, 19, 23),
        n(8, 16, 3, 3),
        n(5, 8, 19, 23),
    ),
    "attention": (both(lambda q, k, v: ops.attention(q, k, v)), *[n(2, 8, 128, 64)] * 4),
}


def leaves(tree: Any) -> list[Any]:
    return [np.asarray(leaf) for leaf in pytree.flatten(tree)[0]]


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_bits_do_not_depend_on_the_number_of_threads(name: str) -> None:
    f, *given = PROGRAMS[name]
    want = leaves(tl.lower(f, *given, profile=REFERENCE)(*given))
    for count in (1, 2, 5):
        lowered = tl.lower(f, *given, profile=with_threads(count))
        assert "team->each" in lowered.source
        for _ in range(3):
            got = leaves(lowered(*given))
            assert [same_bits(a, b) for a, b in zip(got, want, strict=True)] == [True] * len(want), count


def test_a_factor_that_is_not_finite_is_met_by_one_thread_once() -> None:
    x, w, ct = n(9, 3, 19, 23), n(33, 3, 3, 3), n(9, 33, 19, 23)
    ct[2, 3, 4, 5], w[1, 1, 1, 1] = np.inf, np.nan
    f = both(lambda x, w: ops.conv(x, w, padding="same"))
    want = leaves(tl.lower(f, x, w, ct, profile=REFERENCE)(x, w, ct))
    got = leaves(tl.lower(f, x, w, ct, profile=with_threads(5))(x, w, ct))
    assert [same_bits(a, b) for a, b in zip(got, want, strict=True)] == [True] * 3


def test_several_callers_at_once_get_their_own_results() -> None:
    """One has the workers, the others do all of theirs alone."""
    profile = with_threads(3)
    given = [normal(400, 400, seed=seed) for seed in range(6)]
    lowered = tl.lower(lambda x: ops.softmax(x @ ops.transpose(x), -1), given[0], profile=profile)
    want = [np.asarray(lowered(x)).copy() for x in given]
    wrong: list[int] = []
    done: list[int] = []

    def work(number: int) -> None:
        for _ in range(10):
            if not same_bits(np.asarray(lowered(given[number])), want[number]):
                wrong.append(number)
        done.append(number)

    running = [threading.Thread(target=work, args=(number,)) for number in range(len(given))]
    for each in running:
        each.start()
    for each in running:
        each.join()
    assert sorted(done) == list(range(len(given)))
    assert wrong == []


SCRIPT = """
import os
import numpy as np
import torchlean as tl
from torchlean import ops
from torchlean.backends import profiles
from torchlean.backends.compiled import module
from torchlean.backends.compiled.loading import Builds

builds = Builds()
profile = profiles.checked_cpu.under(profiles.checked_cpu.policy.allowing_stale()).with_modules(module(builds))

def count():
    return len(os.listdir("/proc/self/task"))

before = count()
small = tl.lower(lambda x: ops.softmax(x @ x, -1), np.ones((8, 8), np.float32), profile=profile)
small(np.ones((8, 8), np.float32))
assert count() == before and builds._team is None, (count(), before)
x = np.random.default_rng(0).normal(size=(900, 700)).astype(np.float32)
large = tl.lower(lambda x: ops.softmax(x, -1), x, profile=profile)
assert count() == before
want = np.asarray(large(x)).tobytes()
assert count() == before + 2 and builds.team().torchlean_workers() == 2
child = os.fork()
if child == 0:
    assert count() == 1 and builds.team().torchlean_workers() == 0
    same = np.asarray(large(x)).tobytes() == want
    os._exit(0 if same and count() == 3 else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert np.asarray(large(x)).tobytes() == want
print("as expected")
"""


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="threads are counted in /proc")
def test_threads_are_started_when_needed_and_again_after_a_fork() -> None:
    environment = {**os.environ, "TORCHLEAN_NUM_THREADS": "3", "OPENBLAS_NUM_THREADS": "1"}
    made = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, timeout=300)
    assert (made.stdout, made.returncode) == ("as expected\n", 0), made.stderr


def test_how_many_threads() -> None:
    assert threads({"TORCHLEAN_NUM_THREADS": "7"}) == 7
    assert 1 <= threads({}) <= (os.cpu_count() or 1)
    assert threads({"TORCHLEAN_NUM_THREADS": ""}) == threads({})


@pytest.mark.parametrize("named", ["0", "-1", "two", "1.5", "257", "²"])
def test_what_is_no_number_of_threads_is_refused(named: str) -> None:
    with pytest.raises(ConfigError) as caught:
        threads({"TORCHLEAN_NUM_THREADS": named})
    assert str(caught.value) == (
        "TORCHLEAN_NUM_THREADS is no number of threads\n"
        "  expected: a whole number from 1 to 256\n"
        f"  got:      {named}\n"
        "  fix:      correct it, or unset TORCHLEAN_NUM_THREADS to use the cores of this process"
    )
