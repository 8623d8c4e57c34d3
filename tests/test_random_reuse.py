"""check_key_reuse: what it finds eagerly, in traces and in what they become, what it leaves alone, and its text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import torchlean as tl
from torchlean import random
from torchlean.errors import KeyReuseError


def test_a_key_used_twice_is_found_and_both_lines_are_named() -> None:
    key = random.key(0)
    random.normal(key)
    random.normal(key)  # nobody watches
    with random.check_key_reuse():
        random.normal(key, (2,))
        with pytest.raises(KeyReuseError) as caught:
            random.uniform(key)
    first, *rest = str(caught.value).splitlines()
    assert first.startswith("random.uniform uses a key that random.normal used at test_random_reuse.py:")
    assert first.count("test_random_reuse.py:") == 2
    assert rest[:3] == [
        "  expected: each key used once",
        "  got:      key [0, 0]",
        "  fix:      split it first: keys = random.split(key), then use keys[0] and keys[1]",
    ]
    assert isinstance(caught.value, ValueError)
    random.normal(key)


def test_keys_are_told_apart_by_their_bits() -> None:
    with random.check_key_reuse():
        first, second = random.split(random.key(0))
        random.normal(first)
        random.bits(second)
        random.normal(random.fold_in(random.key(1), 3))
        random.normal(random.fold_in(random.key(1), 4))
        with pytest.raises(KeyReuseError, match=r"random\.gamma uses a key that random\.normal used"):
            random.gamma(random.fold_in(random.key(1), 4), 2.0)
        with pytest.raises(KeyReuseError, match=r"random\.split uses a key that random\.split used"):
            random.split(random.key(0), 3)
        with pytest.raises(KeyReuseError, match=r"random\.normal uses a key that random\.bits used"):
            random.normal(random.split(random.key(7), 2)[0] * 0 + second)


def twice(key: Any) -> Any:
    return random.normal(key) + random.normal(key)


def once(key: Any) -> Any:
    keys = random.split(key)
    return random.normal(keys[0]) + random.normal(keys[1])


@pytest.mark.parametrize(
    ("run", "many"), [(tl.make_graph, False), (tl.jit, False), (tl.vmap, True)], ids=["make_graph", "jit", "vmap"]
)
def test_a_traced_key_used_twice_is_found(run: Callable[..., Any], many: bool) -> None:
    key = random.split(random.key(0), 3) if many else random.key(0)
    with random.check_key_reuse():
        with pytest.raises(KeyReuseError, match=r"random\.normal uses a key that random\.normal used at test_random"):
            run(twice)(key)
        run(once)(key)


def test_equal_draws_that_share_a_node_are_still_two_uses() -> None:
    graph = tl.make_graph(twice)(random.key(0))
    assert sum([node.op.name == "random_bits" for node in graph.nodes]) == 1
    with random.check_key_reuse(), pytest.raises(KeyReuseError):
        tl.make_graph(twice)(random.key(0))


def test_a_key_a_trace_closes_over_was_used_before_it() -> None:
    key = random.key(9)
    with random.check_key_reuse():
        random.normal(key)
        with pytest.raises(KeyReuseError, match=r"got:      key \[0, 9\]"):
            tl.make_graph(lambda x: x + random.normal(key))(np.float32(1))


# -- loops, branches, transforms: seen when the program runs -----------------------------------------------------------
ONE = np.float32(1)
STEPS = np.arange(3, dtype=np.int32)
YES = np.array(True)
MIXED = np.array([True, False, True])


def split_scan(key: Any) -> Any:
    """A scan that carries a key and splits it."""

    def step(carry: Any, _: Any) -> tuple[Any, Any]:
        keys = random.split(carry)
        return keys[0], random.normal(keys[1])

    return tl.scan(step, key, None, length=3)[1]


def split_while(key: Any, count: Any) -> Any:
    """A loop that carries a key and splits it until a count is reached."""

    def step(carry: Any) -> Any:
        keys = random.split(carry[0])
        return keys[0], carry[1] + random.randint(keys[1], (), 1, 3)

    return tl.while_loop(lambda carry: carry[1] < count, step, (key, np.int32(0)))[1]


def over(keys: Any, draw: Callable[..., Any] = random.normal) -> Any:
    return tl.vmap(lambda key: draw(key))(keys)


REUSE: dict[str, Callable[[Any], Any]] = {
    "scan closes over the key": lambda k: tl.scan(lambda c, _: (c + random.normal(k), None), ONE, None, length=3)[0],
    "scan keeps the key in its carry": lambda k: tl.scan(lambda c, _: (c, random.normal(c)), k, None, length=3)[1],
    "scan uses each key twice": lambda k: tl.scan(
        lambda c, key: (c + random.normal(key) + random.uniform(key), None), ONE, random.split(k, 3)
    )[0],
    "fori_loop closes over the key": lambda k: tl.fori_loop(0, 3, lambda i, c: c + random.normal(k), ONE),
    "map closes over the key": lambda k: tl.map(lambda x: x + random.normal(k), np.ones(3, np.float32)),
    "while_loop closes over the key": lambda k: tl.while_loop(
        lambda c: c < 3, lambda c: c + 1 + 0 * random.randint(k, (), 0, 2), np.int32(0)
    ),
    "a branch, then the key": lambda k: (
        tl.cond(YES, lambda: random.normal(k), lambda: random.uniform(k)) + random.normal(k)
    ),
    "the key, then a branch": lambda k: random.normal(k) + tl.cond(YES, lambda: random.normal(k), lambda: ONE),
    "a branch's operand, then the key": lambda k: (
        tl.cond(YES, lambda key: random.normal(key), lambda key: ONE, k) + random.normal(k)
    ),
    "one branch uses it twice": lambda k: tl.cond(YES, lambda: random.normal(k) + random.normal(k), lambda: ONE),
    "keys of a scan, then one of them": lambda k: (
        tl.scan(lambda c, key: (c + random.normal(key), None), ONE, k[None])[0] + random.normal(k)
    ),
    "two vmaps over the same keys": lambda k: over(random.split(k, 3)) + over(random.split(k, 3), random.gumbel),
    "vmap over keys, then one of them": lambda k: tl.numpy.sum(over(k[None])) + random.normal(k),
    "a gradient and its function": lambda k: tl.grad(lambda x, key: x * random.normal(key))(ONE, k) + random.normal(k),
    "a batch that holds a key twice": lambda k: random.normal(tl.numpy.stack([k, k])),
    "the same bits under another name": lambda k: random.normal(k) + random.normal(k * np.uint32(1)),
    "fold_in of the same number": lambda k: (
        random.normal(random.fold_in(k, 1)) + random.normal(random.fold_in(k, np.int32(1)))
    ),
    "compiled function twice": lambda k: jitted_normal(k) + jitted_normal(k),
}

FINE: dict[str, Callable[[Any], Any]] = {
    "one use in each branch": lambda k: tl.cond(YES, lambda: random.normal(k), lambda: random.uniform(k)),
    "one use in each branch, operand": lambda k: tl.cond(YES, random.normal, random.uniform, k),
    "switch": lambda k: tl.switch(np.int32(1), [random.normal, random.uniform, random.gumbel], k),
    "scan over keys": lambda k: tl.scan(lambda c, key: (c + random.normal(key), c), ONE, random.split(k, 3)),
    "scan splits its carry": split_scan,
    "scan folds in its step": lambda k: tl.scan(
        lambda c, at: (c + random.normal(random.fold_in(k, at)), c), ONE, STEPS
    ),
    "fori_loop folds in its step": lambda k: tl.fori_loop(
        0, 3, lambda at, c: c + random.normal(random.fold_in(k, at)), ONE
    ),
    "map over keys": lambda k: tl.map(random.normal, random.split(k, 3)),
    "while_loop splits its carry": lambda k: split_while(k, np.int32(5)),
    "while_loop of unequal lengths": lambda k: tl.vmap(split_while)(random.split(k, 3), np.array([1, 4, 9], np.int32)),
    "vmap over keys": lambda k: over(random.split(k, 3)),
    "vmap of vmap": lambda k: tl.vmap(over)(random.split(k, (3, 2))),
    "vmap of a batch of keys": lambda k: tl.vmap(lambda key: random.normal(random.split(key, 4)))(random.split(k, 3)),
    "vmap of a scan": lambda k: tl.vmap(split_scan)(random.split(k, 3)),
    "vmap shares the key": lambda k: tl.vmap(lambda x: x + random.normal(k))(np.ones(3, np.float32)),
    "vmap chooses between branches": lambda k: tl.vmap(
        lambda key, p: tl.cond(p, lambda: random.normal(key), lambda: random.uniform(key))
    )(random.split(k, 3), MIXED),
    "vmap carries the key through branches": lambda k: tl.vmap(
        lambda p: random.normal(tl.cond(p, lambda: k, lambda: k * np.uint32(1)))
    )(MIXED),
    "vmap folds in": lambda k: tl.vmap(lambda at: random.normal(random.fold_in(k, at)))(STEPS),
    "grad": lambda k: tl.grad(lambda x, key: x * random.normal(key))(ONE, k),
    "value_and_grad of a closure": lambda k: tl.value_and_grad(lambda x: x * random.normal(k))(ONE),
    "hessian": lambda k: tl.hessian(lambda x: x * x * random.normal(k))(ONE),
    "jacrev": lambda k: tl.jacrev(lambda x: x * x * random.normal(k))(np.ones(3, np.float32)),
    "jacfwd": lambda k: tl.jacfwd(lambda x: x * x * random.normal(k))(np.ones(3, np.float32)),
    "linearize": lambda k: tl.linearize(lambda x: x * random.normal(k), ONE)[1](ONE),
    "gradient of scan": lambda k: tl.grad(
        lambda x: tl.scan(lambda c, key: (c * x * random.normal(key), None), ONE, random.split(k, 3))[0]
    )(ONE),
    "gradient of cond": lambda k: tl.grad(
        lambda x: tl.cond(x > 0, lambda: x * random.normal(k), lambda: x * random.uniform(k))
    )(ONE),
    "gradient of checkpoint": lambda k: tl.grad(
        lambda x: tl.checkpoint(lambda y: tl.numpy.sin(y) * random.normal(k))(x)
    )(ONE),
    "jit in a trace": lambda k: jitted_normal(k),
    "split": once,
    "fold_in": lambda k: random.normal(random.fold_in(k, 1)) + random.normal(random.fold_in(k, 2)),
    "draws that split inside": lambda k: [
        draw(random.fold_in(k, at))
        for at, draw in enumerate(
            (
                lambda key: random.permutation(key, 5),
                lambda key: random.choice(key, 5, (2,), replace=False),
                lambda key: random.gamma(key, 2.0),
                lambda key: random.beta(key, 1.0, 2.0),
                lambda key: random.dirichlet(key, np.ones(3, np.float32)),
                lambda key: random.normal(key, (2,), "f64"),
            )
        )
    ],
}


@tl.jit
def jitted_normal(key: Any) -> Any:
    return random.normal(key)


ways = pytest.mark.parametrize("way", [lambda f: f, tl.jit], ids=["eager", "jit"])


@ways
@pytest.mark.parametrize("name", list(REUSE))
def test_reuse_is_found(name: str, way: Callable[..., Any]) -> None:
    f = way(REUSE[name])
    with (
        random.check_key_reuse(),
        pytest.raises(KeyReuseError, match=r"uses a key that random\.\w+ used at test_random"),
    ):
        f(random.key(3))
    f(random.key(3))  # nobody watches any more, and what was traced meanwhile tells nobody


@ways
@pytest.mark.parametrize("name", list(FINE))
def test_what_uses_each_key_once_is_left_alone(name: str, way: Callable[..., Any]) -> None:
    with random.check_key_reuse():
        way(FINE[name])(random.key(3))


def test_a_program_that_holds_its_key_repeats_itself() -> None:
    key = random.key(4)
    f = tl.jit(lambda x: x + random.normal(key))
    f(ONE)
    with random.check_key_reuse():
        f(ONE)
        with pytest.raises(KeyReuseError, match=r"got:      key \[0, 4\]"):
            f(ONE)
    f(ONE)
    with random.check_key_reuse():  # the program of the last watch tells this one
        f(ONE)


def test_in_a_loop_the_fix_is_to_fold_in_the_step() -> None:
    with random.check_key_reuse(), pytest.raises(KeyReuseError) as caught:
        REUSE["scan closes over the key"](random.key(0))
    assert "keys[0] and keys[1]; in a loop, draw from random.fold_in(key, step)" in str(caught.value)


def test_a_watched_trace_shows_what_it_uses_and_is_otherwise_the_same() -> None:
    plain = tl.make_graph(once)(random.key(0))
    with random.check_key_reuse():
        watched = tl.make_graph(once)(random.key(0))
    assert [node.op.name for node in watched.nodes if node.op.name != "use_key"] == [n.op.name for n in plain.nodes]
    assert str(watched).count("use_key(") == 3
    assert "use_key(%0, draw='split')" in str(watched)
