"""Pytrees: nested containers taken apart into leaves and put together again.

The only importer of optree, whose registry is used under the namespace "torchlean". `None` is an empty tree. Keys of
a `dict` are visited in sorted order (by type, then value, when of several types; in insertion order when they have no
order at all), those of an `OrderedDict` in insertion order. A tree too deep to walk, cyclic ones included, is refused.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias, TypeVar

import optree

from torchlean.errors import StructureError, message

Tree: TypeAlias = Any
TreeDef: TypeAlias = optree.PyTreeSpec
IsLeaf: TypeAlias = Callable[[Any], bool] | None
T = TypeVar("T")

_NAMESPACE = "torchlean"


def flatten(tree: Tree, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeDef]:
    """Return the leaves of `tree`, left to right, and its structure."""
    try:
        return optree.tree_flatten(tree, is_leaf, namespace=_NAMESPACE)
    except RecursionError:
        raise _too_deep() from None


def unflatten(treedef: TreeDef, leaves: Sequence[Any]) -> Tree:
    """Rebuild the tree of structure `treedef` from its leaves; raises StructureError if their number differs."""
    try:
        return treedef.unflatten(leaves)
    except ValueError:
        if len(leaves) == treedef.num_leaves:
            raise  # from the constructor of a registered node
        raise StructureError(
            message("wrong number of leaves", expected=f"{treedef.num_leaves} for {treedef}", got=len(leaves))
        ) from None


def leaves(tree: Tree, is_leaf: IsLeaf = None) -> list[Any]:
    """Return the leaves of `tree`, left to right."""
    try:
        return optree.tree_leaves(tree, is_leaf, namespace=_NAMESPACE)
    except RecursionError:
        raise _too_deep() from None


def structure(tree: Tree, is_leaf: IsLeaf = None) -> TreeDef:
    """Return the structure of `tree`: what is left of it without the leaves."""
    try:
        return optree.tree_structure(tree, is_leaf, namespace=_NAMESPACE)
    except RecursionError:
        raise _too_deep() from None


def parts(treedef: TreeDef) -> list[TreeDef]:
    """Return the structures of the children of the outermost node, in leaf order."""
    return treedef.children()


def map(f: Callable[..., Any], tree: Tree, *rest: Tree, is_leaf: IsLeaf = None) -> Tree:
    """Apply `f` to each leaf of `tree` together with the parts of each of `rest` in the same place.

    `tree` must be a prefix of every tree in `rest`: where it has a leaf, the other may have a whole subtree.
    Raises StructureError naming the first path at which one of `rest` differs.
    """
    columns, treedef = flatten(tree, is_leaf)
    if not rest:
        return treedef.unflatten([f(leaf) for leaf in columns])
    others = [_flatten_up_to(treedef, tree, other, is_leaf) for other in rest]
    return treedef.unflatten([f(*row) for row in zip(columns, *others, strict=True)])


def paths(tree: Tree, name: str = "", is_leaf: IsLeaf = None) -> list[str]:
    """Return for each leaf the Python expression that reaches it from `name`, such as `params['layer0'].weight`."""
    try:
        accessors = optree.tree_accessors(tree, is_leaf, namespace=_NAMESPACE)
    except RecursionError:
        raise _too_deep() from None
    return [accessor.codify(name) for accessor in accessors]


def flatten_with_path(tree: Tree, name: str = "", is_leaf: IsLeaf = None) -> tuple[list[tuple[str, Any]], TreeDef]:
    """Return (path, leaf) pairs, with paths as in `paths`, and the structure."""
    found, treedef = flatten(tree, is_leaf)
    return list(zip(paths(tree, name, is_leaf), found, strict=True)), treedef


def broadcast_prefix(prefix_tree: Tree, full_tree: Tree, name: str = "") -> list[Any]:
    """Repeat each leaf of `prefix_tree` over the leaves of `full_tree` below it: one entry per leaf of `full_tree`.

    `None` in the prefix is a leaf (as in `in_axes=(None, 0)`), `None` in `full_tree` is an empty tree and gets no
    entry. Raises StructureError with the path, begun by `name`, where `prefix_tree` stops being a prefix.
    """
    try:
        spread = optree.broadcast_prefix(prefix_tree, full_tree, none_is_leaf=True, namespace=_NAMESPACE)
        full = optree.tree_leaves(full_tree, none_is_leaf=True, namespace=_NAMESPACE)
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:
        fault = _difference(prefix_tree, full_tree, name, prefix=True, none_is_leaf=True)
        raise _mismatch("the prefix does not fit the tree", fault, error) from None
    return [entry for entry, leaf in zip(spread, full, strict=True) if leaf is not None]


def all_equal_structure(tree: Tree, *rest: Tree) -> bool:
    """Whether every tree in `rest` has the structure of `tree`, static fields of registered nodes included."""
    expected = structure(tree)
    return all(structure(other) == expected for other in rest)


def differs(expected: Tree, got: Tree, name: str = "") -> str | None:
    """Return None if the two trees have one structure, else where and how `got` first differs."""
    if structure(expected) == structure(got):
        return None
    fault = _difference(expected, got, name, prefix=False, none_is_leaf=False)
    if fault is None:
        return f"expected {structure(expected)}, got {structure(got)}"
    path, wanted, found = fault
    return f"at {path or 'the root'}: expected {wanted}, got {found}"


def children(tree: Tree) -> list[tuple[Any, Any]]:
    """(key, child) of the outermost node, in leaf order: positions, dict keys or attribute names."""
    level = optree.tree_flatten_one_level(tree, namespace=_NAMESPACE)
    return list(zip(level.entries, level.children, strict=True))


def is_plain_record(tree: Tree) -> bool:
    """Whether `tree` is a registered dataclass without static fields: its children are attributes and all there is."""
    if not dataclasses.is_dataclass(type(tree)):
        return False
    level = optree.tree_flatten_one_level(tree, namespace=_NAMESPACE)
    return not level.metadata and all(isinstance(entry, str) for entry in level.entries)


def is_named_tuple(tree: Tree) -> bool:
    """Whether `tree` is a named tuple whose children are its fields, in order."""
    if not optree.is_namedtuple(tree):
        return False
    held = children(tree)
    return len(held) == len(tree) and all([child is field for (_, child), field in zip(held, tree, strict=True)])


def is_leaf(tree: Tree) -> bool:
    """Whether `tree` is itself a leaf: neither `None` nor a container or registered node."""
    return optree.tree_is_leaf(tree, namespace=_NAMESPACE)


def register_dataclass(cls: type[T], data_fields: Sequence[str], meta_fields: Sequence[str]) -> type[T]:
    """Make the dataclass `cls` a node whose children are `data_fields`; `meta_fields` belong to its structure.

    Values of meta fields need `==` and `hash`. Rebuilding an instance does not run `__init__` or `__post_init__`,
    because its leaves may be anything: traced values, axes, types. Raises StructureError unless the two sequences
    name every field exactly once, or if `cls` is registered already. Returns `cls`.
    """
    data, meta = tuple(data_fields), tuple(meta_fields)
    declared = [field.name for field in dataclasses.fields(cls)] if dataclasses.is_dataclass(cls) else []
    if sorted(data + meta) != sorted(declared):
        raise StructureError(
            message(
                f"cannot register {cls.__qualname__} as a pytree",
                expected=f"its fields, each exactly once: {', '.join(declared) or 'it is not a dataclass'}",
                got=f"data fields {', '.join(data) or 'none'}; meta fields {', '.join(meta) or 'none'}",
            )
        )

    def to_children(node: Any) -> tuple[tuple[Any, ...], tuple[Any, ...], tuple[str, ...]]:
        return tuple([getattr(node, name) for name in data]), tuple([getattr(node, name) for name in meta]), data

    def from_children(statics: Any, children: Iterable[Any]) -> Any:
        node = object.__new__(cls)
        for name, value in zip(data, children, strict=True):
            object.__setattr__(node, name, value)
        for name, value in zip(meta, statics, strict=True):
            object.__setattr__(node, name, value)
        return node

    return _register(cls, to_children, from_children, optree.GetAttrEntry)


def register_node(
    cls: type[T],
    to_children: Callable[[T], tuple[Iterable[Any], Any]],
    from_children: Callable[[Any, Iterable[Any]], T],
) -> type[T]:
    """Make `cls` a node: `to_children(node)` gives (children, aux), `from_children(aux, children)` the node again.

    `aux` belongs to the structure and needs `==` and `hash`. Raises StructureError if `cls` is registered already.
    Returns `cls`.
    """
    return _register(cls, to_children, from_children, optree.AutoEntry)


def _register(
    cls: type[T],
    to_children: Callable[[Any], Any],
    from_children: Callable[[Any, Any], Any],
    entry: type[optree.PyTreeEntry],
) -> type[T]:
    node_type: Any = cls  # optree's stubs ask for a Collection, which registered classes need not be
    try:
        optree.register_pytree_node(node_type, to_children, from_children, path_entry_type=entry, namespace=_NAMESPACE)
    except ValueError as error:
        raise StructureError(message(f"cannot register {cls.__qualname__} as a pytree", got=error)) from None
    return cls


def _flatten_up_to(treedef: TreeDef, tree: Tree, other: Tree, stop: IsLeaf) -> list[Any]:
    try:
        return treedef.flatten_up_to(other)
    except RecursionError:
        raise _too_deep() from None
    except (ValueError, TypeError) as error:
        fault = _difference(tree, other, "", prefix=True, none_is_leaf=False, stop=stop)
        raise _mismatch("cannot map over trees that differ", fault, error) from None


def _mismatch(what: str, fault: tuple[str, str, str] | None, error: Exception) -> StructureError:
    if fault is None:
        return StructureError(message(what, got=error))
    path, wanted, found = fault
    return StructureError(message(f"{what}, at {path or 'the root'}", expected=wanted, got=found))


def _too_deep() -> StructureError:
    return StructureError("pytree nested too deeply (possibly cyclic)")


def _difference(
    expected: Tree, got: Tree, path: str, *, prefix: bool, none_is_leaf: bool, stop: IsLeaf = None
) -> tuple[str, str, str] | None:
    """Return (path, expected, got) where the trees first differ; a leaf covers any subtree when `prefix`."""
    if stop is not None and stop(expected):
        return None
    expected_leaf = optree.tree_is_leaf(expected, none_is_leaf=none_is_leaf, namespace=_NAMESPACE)
    got_leaf = optree.tree_is_leaf(got, none_is_leaf=none_is_leaf, namespace=_NAMESPACE)
    if expected_leaf and (prefix or got_leaf):
        return None
    here = (path, _describe(expected, expected_leaf), _describe(got, got_leaf))
    if expected_leaf or got_leaf:
        return here
    wanted = optree.tree_flatten_one_level(expected, none_is_leaf=none_is_leaf, namespace=_NAMESPACE)
    found = optree.tree_flatten_one_level(got, none_is_leaf=none_is_leaf, namespace=_NAMESPACE)
    interchangeable = prefix and isinstance(expected, dict) and isinstance(got, dict)
    if interchangeable:
        if set(expected) != set(got):
            return here
        entries, pairs = list(expected), [(expected[key], got[key]) for key in expected]
    else:
        if type(expected) is not type(got) or wanted.metadata != found.metadata:
            return here
        if len(wanted.children) != len(found.children):
            return here
        entries, pairs = list(wanted.entries), list(zip(wanted.children, found.children, strict=True))
    for entry, (left, right) in zip(entries, pairs, strict=True):
        below = optree.PyTreeAccessor((wanted.path_entry_type(entry, type(expected), wanted.kind),)).codify(path)
        fault = _difference(left, right, below, prefix=prefix, none_is_leaf=none_is_leaf, stop=stop)
        if fault is not None:
            return fault
    return None


def _describe(tree: Tree, leaf: bool) -> str:
    kind = type(tree).__qualname__
    if tree is None:
        return "None"
    if leaf:
        return f"a leaf ({kind})"
    if isinstance(tree, dict):
        return f"{kind} with keys [{', '.join(repr(key) for key in tree)}]"
    children, statics = optree.tree_flatten_one_level(tree, namespace=_NAMESPACE)[:2]
    held = f"{kind} of {len(children)}"
    return held if isinstance(tree, tuple | list) else f"{held} with {statics!r}"
