"""Pytrees: round trips, paths, prefixes, registered nodes and the text of every refusal."""

from __future__ import annotations

import collections
import dataclasses
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchlean import pytree
from torchlean.errors import StructureError


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    weight: Any
    bias: Any
    units: int

    def __post_init__(self) -> None:
        if self.weight == "refused":
            raise AssertionError("rebuilding must not run __post_init__")


class Pair:
    def __init__(self, left: Any, right: Any, label: str) -> None:
        self.left, self.right, self.label = left, right, label


pytree.register_dataclass(Layer, data_fields=("weight", "bias"), meta_fields=("units",))
pytree.register_node(
    Pair,
    lambda pair: ((pair.left, pair.right), pair.label),
    lambda label, children: Pair(*children, label),
)

Point = collections.namedtuple("Point", "x y")


def exactly(text: str) -> str:
    """A pattern for the whole message; a note with the user's line may follow it."""
    return rf"\A{re.escape(text)}(\nyour line: [\s\S]*)?\Z"


LAYER = Layer(weight=1, bias=2, units=3)
TREES = (
    1,
    None,
    (),
    {},
    [1, (2, 3), {"b": 4, "a": [5]}],
    {"z": None, "a": (None, 1)},
    collections.OrderedDict(z=1, a=2),
    Point(1, [2]),
    {"layer0": LAYER, "rest": [LAYER, 7]},
)


@pytest.mark.parametrize("tree", TREES, ids=repr)
def test_unflatten_undoes_flatten(tree: Any) -> None:
    found, treedef = pytree.flatten(tree)
    assert pytree.unflatten(treedef, found) == tree
    assert pytree.leaves(tree) == found
    assert pytree.structure(tree) == treedef
    assert len(pytree.paths(tree)) == len(found) == treedef.num_leaves


@given(
    st.recursive(
        st.integers() | st.none(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_leaves=20,
    )
)
def test_every_path_is_the_expression_that_reaches_its_leaf(tree: Any) -> None:
    pairs, treedef = pytree.flatten_with_path(tree, "tree")
    assert [eval(path, {"tree": tree}) for path, _ in pairs] == [leaf for _, leaf in pairs]
    assert pytree.unflatten(treedef, [leaf for _, leaf in pairs]) == tree


def test_paths_read_as_python() -> None:
    tree = {"layer0": LAYER, "rest": [{"w": 0}], "point": Point(1, 2)}
    below = ["['layer0'].weight", "['layer0'].bias", "['point'].x", "['point'].y", "['rest'][0]['w']"]
    assert pytree.paths(tree) == below
    assert pytree.paths(tree, "params") == [f"params{path}" for path in below]
    assert pytree.paths(3.0, "x") == ["x"]


def test_dict_keys_are_sorted_and_ordered_dicts_are_not() -> None:
    assert pytree.leaves({"b": 1, "a": 2}) == [2, 1]
    assert pytree.leaves(collections.OrderedDict(b=1, a=2)) == [1, 2]


def test_keys_of_mixed_types_have_one_order() -> None:
    assert pytree.structure({"a": 1, 2: 1, (3,): 1}) == pytree.structure({(3,): 1, "a": 1, 2: 1})
    assert pytree.leaves({"a": 10, 2: 20, (3,): 30}) == pytree.leaves({(3,): 30, 2: 20, "a": 10})


def test_none_is_an_empty_tree() -> None:
    assert pytree.leaves((None, 1, None)) == [1]
    assert not pytree.is_leaf(None)
    assert pytree.is_leaf(1)
    assert not pytree.is_leaf(LAYER)


def test_is_leaf_stops_the_walk() -> None:
    def stop(part: Any) -> bool:
        return isinstance(part, tuple)

    assert pytree.leaves([(1, 2), 3], is_leaf=stop) == [(1, 2), 3]
    assert pytree.paths([(1, 2), 3], is_leaf=stop) == ["[0]", "[1]"]
    assert pytree.map(len, [(1, 2), (3,)], is_leaf=stop) == [2, 1]


def test_registered_nodes_keep_their_static_fields() -> None:
    doubled = pytree.map(lambda leaf: 2 * leaf, {"layer": LAYER, "pair": Pair(1, 2, "p")})
    assert doubled["layer"] == Layer(weight=2, bias=4, units=3)
    assert (doubled["pair"].left, doubled["pair"].right, doubled["pair"].label) == (2, 4, "p")


def test_rebuilding_a_dataclass_does_not_run_its_checks() -> None:
    assert pytree.unflatten(pytree.structure(LAYER), ["refused", 0]).weight == "refused"


def test_static_fields_are_part_of_the_structure() -> None:
    assert pytree.all_equal_structure(LAYER, Layer(weight=9, bias=9, units=3))
    assert not pytree.all_equal_structure(LAYER, LAYER, Layer(weight=1, bias=2, units=4))


def test_map_takes_further_trees_of_which_the_first_is_a_prefix() -> None:
    assert pytree.map(lambda x, y: x + y, {"a": 1, "b": [2]}, {"b": [20], "a": 10}) == {"a": 11, "b": [22]}
    assert pytree.map(lambda x, y: (x, y), [1, 2], [(3, 4), None]) == [(1, (3, 4)), (2, None)]


def test_map_lets_the_functions_own_errors_through() -> None:
    with pytest.raises(ValueError, match=exactly("mine")) as caught:
        pytree.map(lambda x, y: (_ for _ in ()).throw(ValueError("mine")), [1], [2])
    assert not isinstance(caught.value, StructureError)


MISMATCHES = (
    ((1, 2), (1, 2, 3), "the root", "tuple of 2", "tuple of 3"),
    ({"a": {"w": 1}}, {"a": {"v": 1}}, "['a']", "dict with keys ['w']", "dict with keys ['v']"),
    ([0, [1, {"w": (1,)}]], [0, [1, {"w": 5}]], "[1][1]['w']", "tuple of 1", "a leaf (int)"),
    ([(1,)], [[1]], "[0]", "tuple of 1", "list of 1"),
    ([None], [1], "[0]", "None", "a leaf (int)"),
    (
        {"l": LAYER},
        {"l": Layer(weight=1, bias=2, units=4)},
        "['l']",
        "Layer of 2 with (3,)",
        "Layer of 2 with (4,)",
    ),
    ({"l": LAYER}, {"l": Layer(weight=1, bias=(2,), units=3)}, "['l'].bias", "a leaf (int)", "tuple of 1"),
)


@pytest.mark.parametrize(("expected", "got", "path", "wanted", "found"), MISMATCHES)
def test_a_difference_is_named_by_its_path(expected: Any, got: Any, path: str, wanted: str, found: str) -> None:
    assert pytree.differs(expected, got) == f"at {path}: expected {wanted}, got {found}"
    if wanted == "a leaf (int)":  # a leaf of the first tree covers a subtree of the second
        pytree.map(lambda x, y: None, expected, got)
        return
    text = f"cannot map over trees that differ, at {path}\n  expected: {wanted}\n  got:      {found}"
    with pytest.raises(StructureError, match=exactly(text)):
        pytree.map(lambda x, y: None, expected, got)


def test_differs_is_silent_on_equal_structures_and_names_the_argument() -> None:
    assert pytree.differs([1, {"a": None}], [2, {"a": None}]) is None
    assert pytree.differs({"a": 1}, {"a": (1,)}, "tangents") == (
        "at tangents['a']: expected a leaf (int), got tuple of 1"
    )
    assert pytree.differs({"a": 1}, collections.OrderedDict(a=1)) == (
        "at the root: expected dict with keys ['a'], got OrderedDict with keys ['a']"
    )


def test_broadcast_prefix_gives_one_entry_per_leaf() -> None:
    full = ({"a": 1, "b": None, "c": 2}, [3, (4, 5)])
    assert pytree.broadcast_prefix(0, full) == [0] * 5
    assert pytree.broadcast_prefix((None, 1), full) == [None, None, 1, 1, 1]
    assert pytree.broadcast_prefix((0, [1, None]), full) == [0, 0, 1, None, None]
    assert pytree.broadcast_prefix(({"a": 1, "b": 2, "c": 3}, 4), full) == [1, 3, 4, 4, 4]


def test_broadcast_prefix_names_where_the_prefix_ends() -> None:
    text = "the prefix does not fit the tree, at args[1]\n  expected: tuple of 2\n  got:      tuple of 1"
    with pytest.raises(StructureError, match=exactly(text)):
        pytree.broadcast_prefix((0, (1, 1)), ({"a": 1}, (2,)), "args")
    text = "the prefix does not fit the tree, at the root\n  expected: list of 1\n  got:      tuple of 1"
    with pytest.raises(StructureError, match=exactly(text)):
        pytree.broadcast_prefix([0], (1,))


def test_unflatten_counts_the_leaves() -> None:
    treedef = pytree.structure((1, 2))
    for given_leaves in ([1], [1, 2, 3]):
        text = f"wrong number of leaves\n  expected: 2 for {treedef}\n  got:      {len(given_leaves)}"
        with pytest.raises(StructureError, match=exactly(text)):
            pytree.unflatten(treedef, given_leaves)


def cyclic() -> list[Any]:
    tree: list[Any] = []
    tree.append(tree)
    return tree


def deep() -> Any:
    tree: Any = 1
    for _ in range(100_000):
        tree = [tree]
    return tree


@pytest.mark.parametrize("make", [cyclic, deep])
def test_trees_without_a_bottom_are_refused(make: Any) -> None:
    tree = make()
    walks = (
        pytree.flatten,
        pytree.leaves,
        pytree.structure,
        pytree.paths,
        pytree.flatten_with_path,
        lambda tree: pytree.map(abs, tree),
        lambda tree: pytree.all_equal_structure(1, tree),
        lambda tree: pytree.differs(1, tree),
        lambda tree: pytree.broadcast_prefix(0, tree),
    )
    for walk in walks:
        with pytest.raises(StructureError, match=exactly("pytree nested too deeply (possibly cyclic)")):
            walk(tree)


def test_registration_is_checked() -> None:
    @dataclasses.dataclass
    class Half:
        a: int
        b: int

    text = (
        "cannot register test_registration_is_checked.<locals>.Half as a pytree\n"
        "  expected: its fields, each exactly once: a, b\n"
        "  got:      data fields a; meta fields none"
    )
    with pytest.raises(StructureError, match=exactly(text)):
        pytree.register_dataclass(Half, ["a"], [])
    with pytest.raises(StructureError, match=r"data fields a, b; meta fields b\n"):
        pytree.register_dataclass(Half, ["a", "b"], ["b"])
    with pytest.raises(StructureError, match="it is not a dataclass"):
        pytree.register_dataclass(int, [], ["real"])
    with pytest.raises(StructureError, match=r"cannot register Layer as a pytree\n.*already registered"):
        pytree.register_dataclass(Layer, ["weight", "bias"], ["units"])
