"""The generated way into an executable: trees of arrays in, trees of arrays out, with as little work per call as Python
allows.

A lowered function is called with trees of the one structure it was lowered for, so taking them apart is written out as
Python: `t[0][1]`, `a, b = t`, `t['w']`, `t.weight`, each behind a check of its container's class and size. Whatever the
checks do not recognise goes to `slow`, which converts or explains.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from torchlean import pytree
from torchlean.ir.builder import answerer
from torchlean.ir.types import TensorType
from torchlean.transforms.trees import OutTree


class _Writer:
    """Lines of the generated function and the globals it needs."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {}
        self.leaves: list[str] = []
        self.count = 0

    def name(self, meaning: Any) -> str:
        made = f"g{len(self.names)}"
        self.names[made] = meaning
        return made

    def local(self) -> str:
        self.count += 1
        return f"t{self.count}"

    def take_apart(self, here: str, sample: Any) -> None:
        """Write the checks that `here` has the container of `sample`, and visit what it holds in leaf order."""
        if sample is None:
            self.check(f"{here} is not None")
            return
        if pytree.is_leaf(sample):
            self.leaves.append(here)
            return
        kind = sample.__class__
        children = pytree.children(sample)
        if kind in (tuple, list) or pytree.is_named_tuple(sample):
            if kind in (tuple, list):
                self.check(f"{here}.__class__ is not {kind.__name__} or len({here}) != {len(children)}")
            else:
                self.check(f"{here}.__class__ is not {self.name(kind)}")
            if children:
                names = [self.local() for _ in children]
                self.lines.append(f"    {', '.join(names)}{',' if len(names) == 1 else ''} = {here}")
                for name, (_, child) in zip(names, children, strict=True):
                    self.take_apart(name, child)
            return
        if kind is dict:
            keys = self.name(frozenset(sample))
            self.check(f"{here}.__class__ is not dict or {here}.keys() != {keys}")
            for key, child in children:
                name = self.local()
                self.lines.append(f"    {name} = {here}[{self.name(key)}]")
                self.take_apart(name, child)
            return
        if pytree.is_plain_record(sample):
            self.check(f"{here}.__class__ is not {self.name(kind)}")
            for key, child in children:
                name = self.local()
                self.lines.append(f"    {name} = {here}.{key}")
                self.take_apart(name, child)
            return
        raise _NotPlain

    def check(self, fault: str) -> None:
        self.lines.append(f"    if {fault}: return other(args, kwargs)")

    def put_together(self, sample: Any, leaves: list[str]) -> str:
        """An expression that builds the container of `sample` from leaf expressions, in leaf order."""
        if sample is None:
            return "None"
        if pytree.is_leaf(sample):
            return leaves.pop(0)
        kind = sample.__class__
        children = pytree.children(sample)
        made = [(key, self.put_together(child, leaves)) for key, child in children]
        if kind is tuple:
            return "(" + "".join(f"{text}, " for _, text in made) + ")"
        if pytree.is_named_tuple(sample):
            return f"{self.name(kind)}({', '.join(text for _, text in made)})"
        if kind is list:
            return "[" + ", ".join(text for _, text in made) + "]"
        if kind is dict and list(sample) == [key for key, _ in made]:
            return "{" + ", ".join(f"{self.name(key)}: {text}" for key, text in made) + "}"
        raise _NotPlain


class _NotPlain(Exception):
    """A container the generated code does not know; the general way is taken."""


def entry(
    in_tree: Any,
    types: Sequence[TensorType],
    out: OutTree,
    out_types: Sequence[TensorType],
    run: Callable[..., tuple[Any, ...]],
    slow: Callable[[Any, int, Any, Any], Any],
    other: Callable[[Any, Any], Any],
) -> Callable[..., Any]:
    """The function `entry(*args, **kwargs)` of a lowered program.

    `slow(leaf, position, args, kwargs)` makes a host array of an unusual leaf or raises; `other(args, kwargs)` handles
    a call whose trees differ.
    """
    arrays = importlib.import_module("torchlean.runtime.array")  # above this package, so reached by name
    canonical = {type: type for type in types}
    results = tuple([canonical.get(type, type) for type in out_types])  # so that results fed back match by identity
    writer = _Writer()
    writer.names.update(
        Array=arrays.Array, ndarray=np.ndarray, answerer=answerer, run=run, slow=slow, other=other, results=results
    )
    sample = pytree.unflatten(in_tree, list(range(in_tree.num_leaves)))
    writer.take_apart("args", sample[0])
    if sample[1]:
        writer.take_apart("kwargs", sample[1])
    else:
        writer.check("kwargs")
    for position, (leaf, type) in enumerate(zip(writer.leaves, types, strict=True)):
        held, dtype, shape = writer.name(type), writer.name(type.dtype.carrier), writer.name(type.shape)
        writer.lines += [
            f"    if {leaf}.__class__ is Array and {leaf}.type is {held}: v{position} = {leaf}.buffer.array",
            f"    elif {leaf}.__class__ is ndarray and {leaf}.dtype is {dtype} and {leaf}.shape == {shape}: "
            f"v{position} = {leaf}",
            f"    else: v{position} = slow({leaf}, {position}, args, kwargs)",
        ]
    passed = ", ".join(f"v{position}" for position in range(len(types)))
    made = [f"r{position}" for position in range(len(results))]
    writer.lines.append(f"    r = answerer().adopt(run({passed}), results, {sum([type.nbytes for type in results])})")
    writer.lines.append(f"    return {_rebuilt(writer, out, made)}")
    source = "def entry(*args, **kwargs):\n" + "\n".join(writer.lines) + "\n"
    exec(compile(source, "<torchlean entry>", "exec"), writer.names)
    return writer.names["entry"]


def _rebuilt(writer: _Writer, out: OutTree, made: list[str]) -> str:
    sample = out.rebuild(list(range(len(made))))
    texts = [f"r[{position}]" for position in range(len(made))]
    for position, leaf in out.kept:
        texts.insert(position, writer.name(leaf))
    try:
        return writer.put_together(sample, texts)
    except _NotPlain:
        writer.names["rebuild"] = out.rebuild
        return "rebuild(r)"


def general_entry(
    in_tree: Any,
    types: Sequence[TensorType],
    out: OutTree,
    out_types: Sequence[TensorType],
    run: Callable[..., tuple[Any, ...]],
    slow: Callable[[Any, int, Any, Any], Any],
    other: Callable[[Any, Any], Any],
) -> Callable[..., Any]:
    """`entry` for trees with containers the generated code does not know."""
    results = tuple(out_types)
    nbytes = sum([type.nbytes for type in results])

    def call(*args: Any, **kwargs: Any) -> Any:
        leaves, treedef = pytree.flatten((args, kwargs))
        if treedef != in_tree:
            return other(args, kwargs)
        hosts = [slow(leaf, position, args, kwargs) for position, leaf in enumerate(leaves)]
        session: Any = answerer()
        return out.rebuild(session.adopt(run(*hosts), results, nbytes))

    return call


def make_entry(
    in_tree: Any,
    types: Sequence[TensorType],
    out: OutTree,
    out_types: Sequence[TensorType],
    run: Callable[..., tuple[Any, ...]],
    slow: Callable[[Any, int, Any, Any], Any],
    other: Callable[[Any, Any], Any],
) -> Callable[..., Any]:
    """The fastest entry these trees allow."""
    try:
        return entry(in_tree, types, out, out_types, run, slow, other)
    except _NotPlain:
        return general_entry(in_tree, types, out, out_types, run, slow, other)
