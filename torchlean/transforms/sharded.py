"""Shardings as users give them, trees or prefixes of trees, → the partitioning of a graph's inputs and results."""

from __future__ import annotations

from typing import Any

from torchlean import pytree
from torchlean.backends.profile import Profile
from torchlean.backends.sharding import Partitioning, Placement, placement
from torchlean.errors import ConfigError, StructureError, message
from torchlean.ir.graph import Graph
from torchlean.transforms.trees import OutTree


def partitioning_of(
    name: str,
    profile: Profile,
    graph: Graph,
    in_shardings: Any,
    out_shardings: Any,
    arguments: tuple[Any, ...],
    keywords: dict[str, Any],
    out: OutTree,
) -> Partitioning | None:
    """The partitioning of a program; None without a mesh, where giving shardings is a ConfigError."""
    mesh = profile.mesh
    if mesh is None:
        for given, what in ((in_shardings, "in_shardings"), (out_shardings, "out_shardings")):
            if given is not None:
                raise ConfigError(
                    message(
                        f"lower of {name} was given {what} with a profile that has no mesh",
                        expected="a profile of torchlean.backends.xla.with_mesh(mesh)",
                        got=f"profile {profile.name}",
                        fix=f"pass profile=xla.with_mesh(mesh), or drop {what}",
                    )
                )
        return None
    names = pytree.paths(arguments, "args") + pytree.paths(keywords, "kwargs")
    spread = _spread(in_shardings, arguments, "in_shardings", name) + [None] * len(pytree.leaves(keywords))
    inputs = [
        Placement(path, type, ()) if given is None else placement(given, mesh, type, path)
        for path, type, given in zip(names, graph.input_types, spread, strict=True)
    ]
    sample = out.rebuild(list(range(len(graph.outputs))))
    kept = {position for position, _ in out.kept}
    wanted = _spread(out_shardings, sample, "out_shardings", name)
    results = [
        Placement(path, type, None) if given is None else placement(given, mesh, type, path)
        for path, type, given in zip(
            _tensors(pytree.paths(sample, "result"), kept), graph.output_types, _tensors(wanted, kept), strict=True
        )
    ]
    return Partitioning(mesh=mesh, inputs=tuple(inputs), outputs=tuple(results))


def _tensors(entries: list[Any], kept: set[int]) -> list[Any]:
    return [entry for position, entry in enumerate(entries) if position not in kept]


def _spread(given: Any, tree: Any, what: str, name: str) -> list[Any]:
    """One entry per leaf of the tree."""
    try:
        return pytree.broadcast_prefix(given, tree, what)
    except StructureError as fault:
        raise StructureError(f"lower of {name}: {what} is no prefix of its tree: {fault}") from None
