"""Meshes of devices and how arrays lie on them, as records that plans hold and print. Nothing here imports jax.

A spec has one entry per leading dimension of an array: the mesh axes it is cut along, outermost first. What no entry
names is whole on every device.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

from torchlean.backends.handler import Group
from torchlean.errors import ConfigError, message
from torchlean.ir.types import TensorType

Spec = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mesh:
    """Devices in a grid. `kinds` counts them by kind; `held` is the compiler's own mesh, which tells devices apart."""

    axes: tuple[tuple[str, int], ...]
    kinds: tuple[tuple[str, int], ...]
    processes: int
    held: Any

    @property
    def size(self) -> int:
        """Number of devices."""
        return prod([size for _, size in self.axes])

    def __str__(self) -> str:
        grid = " × ".join([f"{name}={size}" for name, size in self.axes])
        devices = ", ".join([f"{count} {kind}" for kind, count in self.kinds])
        return f"{grid} ({devices} devices{f', {self.processes} processes' if self.processes > 1 else ''})"

    def as_json(self) -> dict[str, Any]:
        """The mesh as plain data."""
        return {"axes": [list(axis) for axis in self.axes], "kinds": dict(self.kinds), "processes": self.processes}


@dataclass(frozen=True, slots=True)
class Placement:
    """Where one argument or result lies; of a result, None leaves it to the compiler."""

    path: str
    type: TensorType
    spec: Spec | None

    def __str__(self) -> str:
        return f"{self.path} {self.type}: {spec_text(self.spec)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Partitioning:
    """How a program's arguments and results lie on a mesh, in the order of its graph's."""

    mesh: Mesh
    inputs: tuple[Placement, ...]
    outputs: tuple[Placement, ...]

    def lines(self) -> list[str]:
        """What a plan prints of it: the mesh, then whatever is not whole on every device."""
        cut = [f"in {one}" for one in self.inputs if one.spec] + [f"out {one}" for one in self.outputs if one.spec]
        free = sum([one.spec is None for one in self.outputs])
        return [
            f"mesh {self.mesh}",
            *cut,
            *([f"out {free} results: {spec_text(None)}"] if free else []),
            "what is not named is whole on every device",
        ]

    def as_json(self) -> dict[str, Any]:
        """Mesh and partitioning as plain data."""
        return {
            "mesh": self.mesh.as_json(),
            "inputs": [_placement_json(one) for one in self.inputs],
            "outputs": [_placement_json(one) for one in self.outputs],
        }


def _placement_json(one: Placement) -> dict[str, Any]:
    spec = None if one.spec is None else [list(axes) for axes in one.spec]
    return {"path": one.path, "type": str(one.type), "spec": spec}


@dataclass(frozen=True, slots=True)
class Layout:
    """The part of a partitioning that concerns one group: specs of what it reads and returns, in its order."""

    mesh: Mesh
    inputs: tuple[Spec, ...]
    outputs: tuple[Spec | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardedGroup(Group):
    """A group of a plan for a mesh."""

    layout: Layout


def spec_text(spec: Spec | None) -> str:
    """`P('data', None)`, as jax writes it."""
    if spec is None:
        return "left to the compiler"
    entries = [repr(axes[0]) if len(axes) == 1 else repr(axes) if axes else "None" for axes in spec]
    return f"P({', '.join(entries)})"


def whole(mesh: Mesh, inputs: Iterable[TensorType], outputs: Iterable[TensorType]) -> Partitioning:
    """The partitioning of a program nobody gave shardings for: arguments are whole, results left to the compiler."""
    return Partitioning(
        mesh=mesh,
        inputs=tuple([Placement(f"argument {at}", type, ()) for at, type in enumerate(inputs)]),
        outputs=tuple([Placement(f"result {at}", type, None) for at, type in enumerate(outputs)]),
    )


def placement(value: Any, mesh: Mesh, type: TensorType, path: str) -> Placement:
    """A spec as a user gives it, checked: None, or what iterates over entries (jax's PartitionSpec, or `.spec` of a
    NamedSharding of this mesh). ConfigError says what is wrong and where.
    """
    return Placement(path, type, _checked(_entries(value, mesh, path), mesh, type, path))


def _entries(value: Any, mesh: Mesh, path: str) -> Spec:
    spec = value
    if hasattr(value, "spec") and hasattr(value, "mesh"):
        axes = tuple(dict(value.mesh.shape).items())
        if axes != mesh.axes:
            raise ConfigError(
                message(
                    f"the sharding of {path} is for another mesh",
                    expected=", ".join([f"{name}={size}" for name, size in mesh.axes]),
                    got=", ".join([f"{name}={size}" for name, size in axes]),
                    fix="give a PartitionSpec, which is about the profile's mesh",
                )
            )
        spec = value.spec
    try:
        held = [_axes(entry) for entry in spec]
    except TypeError:
        raise ConfigError(
            message(
                f"the sharding of {path} is no PartitionSpec",
                expected="PartitionSpec entries: names of mesh axes, tuples of them, or None",
                got=repr(value),
                fix="from jax.sharding import PartitionSpec",
            )
        ) from None
    while held and not held[-1]:
        held.pop()
    return tuple(held)


def _axes(entry: Any) -> tuple[str, ...]:
    names: tuple[Any, ...] = () if entry is None else (entry,) if isinstance(entry, str) else tuple(entry)
    if not all([isinstance(name, str) for name in names]):
        raise TypeError
    return names


def _checked(spec: Spec, mesh: Mesh, type: TensorType, path: str) -> Spec:
    fault = next(faults(spec, mesh, type), None)
    if fault is None:
        return spec
    what, expected, got, fix = fault
    raise ConfigError(message(f"the sharding {spec_text(spec)} of {path} {what}", expected=expected, got=got, fix=fix))


def faults(spec: Spec, mesh: Mesh, type: TensorType) -> Iterator[tuple[str, str, str, str]]:
    """What keeps a spec from fitting: (what, expected, got, fix)."""
    sizes = dict(mesh.axes)
    named = [name for axes in spec for name in axes]
    for name in named:
        if name not in sizes:
            yield "names an axis the mesh lacks", ", ".join(sizes), repr(name), "name an axis of the profile's mesh"
    for name in dict.fromkeys(named):
        if named.count(name) > 1:
            yield "names an axis twice", "every axis once", repr(name), "cut each dimension along axes of its own"
    if len(spec) > len(type.shape):
        yield (
            "has more entries than the array has dimensions",
            f"at most {len(type.shape)} for {type}",
            str(len(spec)),
            "drop entries",
        )
    for dimension, (axes, size) in enumerate(zip(spec, type.shape, strict=False)):
        parts = prod([sizes.get(name, 1) for name in axes])
        if size % parts:
            yield (
                f"does not divide dimension {dimension} of {type}",
                f"a multiple of {parts} ({' × '.join([f'{name}={sizes[name]}' for name in axes])})",
                str(size),
                "pad the dimension, cut another one, or use a smaller axis",
            )
