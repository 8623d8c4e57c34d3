"""The generated way into an executable: trees of arrays in, trees of arrays out, with as little work per call as Python
allows.

A lowered function is called with trees of the one structure it was lowered for, so taking them apart is written out as
Python: `t[0][1]`, `a, b = t`, `t['w']`, `t.weight`, each behind a check of its container's class and size. Whatever the
checks do not recognise goes to `slow`, which converts or explains.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from torchlean import pytree
from torchlean.ir.builder import CURRENT, Builder, answerer
from torchlean.ir.types import TensorType
from torchlean.transforms.trees import OutTree

MOST_WRITTEN = 128  # leaves, and results, for each of which lines are written out


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

    def unpack(self, here: str, count: int) -> list[str]:
        """Names for the `count` entries of a tuple or list, which is asked for no more than this."""
        names = [self.local() for _ in range(count)]
        if count:
            targets = ", ".join(names) + ("," if count == 1 else "")
            self.lines += [f"    try: {targets} = {here}", "    except ValueError: return other(args, kwargs)"]
        else:
            self.check(here)
        return names

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
            self.check(f"{here}.__class__ is not {kind.__name__ if kind in (tuple, list) else self.name(kind)}")
            for name, (_, child) in zip(self.unpack(here, len(children)), children, strict=True):
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
            entries = "".join(f"{text}, " for _, text in made)
            if _is_made_by_tuple(kind):
                return f"tuple_new({self.name(kind)}, ({entries}))"
            return f"{self.name(kind)}({entries})"
        if kind is list:
            return "[" + ", ".join(text for _, text in made) + "]"
        if kind is dict and list(sample) == [key for key, _ in made]:
            return "{" + ", ".join(f"{self.name(key)}: {text}" for key, text in made) + "}"
        raise _NotPlain


def _is_made_by_tuple(kind: type) -> bool:
    """Whether a named tuple has the `__new__` that `namedtuple` writes, which does nothing but call `tuple`'s."""
    module = getattr(kind.__new__, "__module__", None)
    return isinstance(module, str) and module.startswith("namedtuple_")


class _NotPlain(Exception):
    """A container the generated code does not know; the general way is taken."""


def entry(
    in_tree: Any,
    types: Sequence[TensorType],
    out: OutTree,
    out_types: Sequence[TensorType],
    *,
    run: Callable[..., tuple[Any, ...]],
    slow: Callable[[Any, int, Any, Any], Any],
    other: Callable[[Any, Any], Any],
    inside: Callable[[Builder], NoReturn],
) -> Callable[..., Any]:
    """The function `entry(*args, **kwargs)` of a lowered program.

    `slow(leaf, position, args, kwargs)` makes a host array of an unusual leaf or raises; `other(args, kwargs)` handles
    a call whose trees differ, `inside(builder)` one inside a trace.
    """
    sessions = importlib.import_module("torchlean.runtime.session")  # above this package, so reached by name
    canonical = {type: type for type in types}
    results = tuple([canonical.get(type, type) for type in out_types])  # so that results fed back match by identity
    writer = _Writer()
    writer.names.update(
        Array=sessions.Array, Session=sessions.Session, Storage=sessions.Storage, Buffer=sessions.Buffer
    )
    writer.names.update(current=CURRENT.get, answering=_answering, tuple_new=tuple.__new__, results=results)
    writer.names.update(ndarray=np.ndarray, run=run, slow=slow, other=other, inside=inside)
    sample = pytree.unflatten(in_tree, list(range(in_tree.num_leaves)))
    for name, argument in zip(writer.unpack("args", len(sample[0])), sample[0], strict=True):
        writer.take_apart(name, argument)
    if sample[1]:
        writer.take_apart("kwargs", sample[1])
    else:
        writer.check("kwargs")
    passed = _checked(writer, types) if len(types) <= MOST_WRITTEN else _checked_in_turn(writer, types)
    made = _wrapped(writer, f"run({passed})", results)
    writer.lines.append(f"    return {_rebuilt(writer, out, made)}")
    source = "def entry(*args, **kwargs):\n" + "\n".join(writer.lines) + "\n"
    exec(compile(source, "<torchlean entry>", "exec"), writer.names)
    return writer.names["entry"]


def _checked(writer: _Writer, types: Sequence[TensorType]) -> str:
    """Write what makes host arrays of the leaves; the arguments of `run`."""
    for position, (leaf, type) in enumerate(zip(writer.leaves, types, strict=True)):
        held, dtype, shape = writer.name(type), writer.name(type.dtype.carrier), writer.name(type.shape)
        writer.lines += [
            f"    if {leaf}.__class__ is Array and ({leaf}.type is {held} or {leaf}.type == {held}):",
            f"        v{position} = {leaf}.held",
            f"        if v{position}.__class__ is Buffer: v{position} = v{position}.array",
            f"    elif {leaf}.__class__ is ndarray and {leaf}.dtype is {dtype} and {leaf}.shape == {shape}: "
            f"v{position} = {leaf}",
            f"    else: v{position} = slow({leaf}, {position}, args, kwargs)",
        ]
    return ", ".join(f"v{position}" for position in range(len(types)))


def _checked_in_turn(writer: _Writer, types: Sequence[TensorType]) -> str:
    """The same of many leaves by a loop: to compile five lines for each would take longer than to plan them."""
    expected = writer.name(tuple([(each, type, type.dtype.carrier, type.shape) for each, type in enumerate(types)]))
    writer.lines += [
        f"    leaves = ({', '.join(writer.leaves)},)",
        "    hosts = [",
        "        leaf.host if leaf.__class__ is Array and (leaf.type is held or leaf.type == held)",
        "        else leaf if leaf.__class__ is ndarray and leaf.dtype is dtype and leaf.shape == shape",
        "        else slow(leaf, each, args, kwargs)",
        f"        for leaf, (each, held, dtype, shape) in zip(leaves, {expected}, strict=True)",
        "    ]",
    ]
    return "*hosts"


def _wrapped(writer: _Writer, called: str, results: tuple[TensorType, ...]) -> list[str]:
    """Write the call of the program; expressions for its results as arrays. What is written is `Session.adopt`, for
    sessions; whatever else answers has an `adopt` of its own.
    """
    count, nbytes = len(results), sum([type.nbytes for type in results])
    writer.lines.append("    session = current()")
    writer.lines.append("    if session.__class__ is not Session: session = answering(inside)")
    if not 0 < count <= MOST_WRITTEN:
        writer.lines.append(f"    r = session.adopt({called}, results, {nbytes})")
        return [f"r[{position}]" for position in range(count)]
    made = [f"r{position}" for position in range(count)]
    hosts = ", ".join([f"h{position}" for position in range(count)])
    writer.lines += [
        "    if session.__class__ is Session:",
        f"        {hosts}, = {called}" if count == 1 else f"        {hosts} = {called}",
        f"        storage = Storage({nbytes}, session.allocator)",
    ]
    for position, (name, type) in enumerate(zip(made, results, strict=True)):
        writer.lines.append(
            f"        {name} = Array(); {name}.type = {writer.name(type)}; {name}.held = h{position}; "
            f"{name}.storage = storage; {name}.session = session; {name}.node = -1; {name}.generation = 0"
        )
    targets = ", ".join(made) + ("," if count == 1 else "")
    writer.lines.append(f"    else: {targets} = session.adopt({called}, results, {nbytes})")
    return made


def _answering(inside: Callable[[Builder], NoReturn]) -> Any:
    """What takes the results: the session of this context or what stands for it, but no trace."""
    current = answerer()
    if current.__class__ is Builder:
        inside(current)  # type: ignore[arg-type]
    return current


def _rebuilt(writer: _Writer, out: OutTree, made: list[str]) -> str:
    sample = out.rebuild(list(range(len(made))))
    texts = list(made)
    for position, leaf in out.kept:
        texts.insert(position, writer.name(leaf))
    try:
        return writer.put_together(sample, texts)
    except _NotPlain:
        writer.names["rebuild"] = out.rebuild
        return f"rebuild(({''.join([f'{name}, ' for name in made])}))"


def general_entry(
    in_tree: Any,
    types: Sequence[TensorType],
    out: OutTree,
    out_types: Sequence[TensorType],
    *,
    run: Callable[..., tuple[Any, ...]],
    slow: Callable[[Any, int, Any, Any], Any],
    other: Callable[[Any, Any], Any],
    inside: Callable[[Builder], NoReturn],
) -> Callable[..., Any]:
    """`entry` for trees with containers the generated code does not know."""
    results = tuple(out_types)
    nbytes = sum([type.nbytes for type in results])

    def call(*args: Any, **kwargs: Any) -> Any:
        leaves, treedef = pytree.flatten((args, kwargs))
        if treedef != in_tree:
            return other(args, kwargs)
        hosts = [slow(leaf, position, args, kwargs) for position, leaf in enumerate(leaves)]
        session = _answering(inside)
        return out.rebuild(session.adopt(run(*hosts), results, nbytes))

    return call


def make_entry(
    in_tree: Any,
    types: Sequence[TensorType],
    out: OutTree,
    out_types: Sequence[TensorType],
    *,
    run: Callable[..., tuple[Any, ...]],
    slow: Callable[[Any, int, Any, Any], Any],
    other: Callable[[Any, Any], Any],
    inside: Callable[[Builder], NoReturn],
) -> Callable[..., Any]:
    """The fastest entry these trees allow."""
    parts: Any = {"run": run, "slow": slow, "other": other, "inside": inside}
    try:
        return entry(in_tree, types, out, out_types, **parts)
    except _NotPlain:
        return general_entry(in_tree, types, out, out_types, **parts)
