"""What is refused of meshes and shardings, before anything runs, and how. No mesh here is ever compiled for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import torchlean as tl
from torchlean import debug, ops
from torchlean.backends import EXTERNAL, AcceptedPlan, Profile, accept, plan, reference, xla
from torchlean.backends.sharding import Mesh, Placement, whole
from torchlean.errors import BackendMissing, ConfigError, InternalError, PlanRejected, StructureError
from torchlean.transforms.api import make_graph

jax = pytest.importorskip("jax")
AbstractMesh, NamedSharding, P = jax.sharding.AbstractMesh, jax.sharding.NamedSharding, jax.sharding.PartitionSpec
MESH = Mesh(axes=(("data", 4), ("model", 2)), kinds=(("cpu", 8),), processes=1, held=None)
POLICY = EXTERNAL.allowing_stale()
MESHED = Profile(name="meshed", device=tl.Device.CPU, modules=(replace(xla.MODULE, mesh=MESH),), policy=POLICY)
W = np.ones((6, 8), np.float32)
X = np.ones((4, 6), np.float32)


def product(params: dict[str, Any], x: Any) -> Any:
    return {"y": x @ params["w"]}


def refused(error: type[Exception], expected: str, **shardings: Any) -> None:
    with pytest.raises(error) as caught:
        tl.lower(product, {"w": W}, X, profile=shardings.pop("profile", MESHED), **shardings)
    assert str(caught.value) == expected


def test_a_mesh_with_more_devices_than_there_are() -> None:
    expected = (
        "a mesh of data=500 × model=2 has more devices than there are\n"
        f"  expected: at most {len(jax.devices('cpu'))} cpu devices\n"
        "  got:      1000\n"
        "  fix:      XLA_FLAGS=--xla_force_host_platform_device_count=1000, set before jax is first used"
    )
    for mesh in ({"data": 500, "model": 2}, AbstractMesh((500, 2), ("data", "model"))):
        with pytest.raises(ConfigError) as caught:
            xla.with_mesh(mesh)
        assert str(caught.value) == expected


@pytest.mark.parametrize("mesh", [{}, {"data": 0}, {"data": True}, {3: 1}, 8, "data"])
def test_what_is_no_mesh(mesh: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        xla.with_mesh(mesh)
    assert str(caught.value) == (
        "this is no mesh\n"
        "  expected: a jax.sharding.Mesh, or names of axes with positive sizes\n"
        f"  got:      {mesh!r}\n"
        '  fix:      xla.with_mesh({"data": 8})'
    )


def test_without_jax_there_is_no_mesh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torchlean.backends.xla.library.find_spec", lambda name: None)
    with pytest.raises(BackendMissing, match="the library jax is not installed"):
        xla.with_mesh({"data": 1})


def test_shardings_without_a_mesh() -> None:
    for what in ("in_shardings", "out_shardings"):
        refused(
            ConfigError,
            f"lower of product was given {what} with a profile that has no mesh\n"
            "  expected: a profile of torchlean.backends.xla.with_mesh(mesh)\n"
            "  got:      profile reference_cpu\n"
            f"  fix:      pass profile=xla.with_mesh(mesh), or drop {what}",
            profile=tl.profiles.reference_cpu,
            **{what: P("data")},
        )


def test_an_axis_the_mesh_lacks() -> None:
    refused(
        ConfigError,
        "the sharding P('rows') of args[1] names an axis the mesh lacks\n"
        "  expected: data, model\n  got:      'rows'\n"
        "  fix:      name an axis of the profile's mesh",
        in_shardings=(None, P("rows")),
    )


def test_an_axis_named_twice() -> None:
    refused(
        ConfigError,
        "the sharding P('data', ('model', 'data')) of args[0]['w'] names an axis twice\n"
        "  expected: every axis once\n  got:      'data'\n"
        "  fix:      cut each dimension along axes of its own",
        in_shardings=({"w": P("data", ("model", "data"))}, None),
    )


def test_a_dimension_that_is_not_divided() -> None:
    refused(
        ConfigError,
        "the sharding P(('data', 'model')) of args[1] does not divide dimension 0 of f32[4,6]\n"
        "  expected: a multiple of 8 (data=4 × model=2)\n  got:      4\n"
        "  fix:      pad the dimension, cut another one, or use a smaller axis",
        in_shardings=(None, P(("data", "model"))),
    )
    refused(
        ConfigError,
        "the sharding P('data') of args[0]['w'] does not divide dimension 0 of f32[6,8]\n"
        "  expected: a multiple of 4 (data=4)\n  got:      6\n"
        "  fix:      pad the dimension, cut another one, or use a smaller axis",
        in_shardings=P("data"),
    )


def test_more_entries_than_dimensions() -> None:
    refused(
        ConfigError,
        "the sharding P(None, None, 'data') of result['y'] has more entries than the array has dimensions\n"
        "  expected: at most 2 for f32[4,8]\n  got:      3\n"
        "  fix:      drop entries",
        out_shardings={"y": P(None, None, "data")},
    )


def test_what_is_no_partition_spec() -> None:
    for given in (3, P(("data", 3))):  # type: ignore[arg-type]
        refused(
            ConfigError,
            "the sharding of args[1] is no PartitionSpec\n"
            "  expected: PartitionSpec entries: names of mesh axes, tuples of them, or None\n"
            f"  got:      {given!r}\n"
            "  fix:      from jax.sharding import PartitionSpec",
            in_shardings=(None, given),
        )


def test_a_sharding_of_another_mesh() -> None:
    other = NamedSharding(jax.sharding.Mesh(np.array(jax.devices("cpu")[:1]), ("rows",)), P("rows"))
    refused(
        ConfigError,
        "the sharding of args[1] is for another mesh\n"
        "  expected: data=4, model=2\n  got:      rows=1\n"
        "  fix:      give a PartitionSpec, which is about the profile's mesh",
        in_shardings=(None, other),
    )


def test_a_tree_that_is_no_prefix() -> None:
    refused(
        StructureError,
        "lower of product: in_shardings is no prefix of its tree: the prefix does not fit the tree, at in_shardings\n"
        "  expected: tuple of 3\n  got:      tuple of 2",
        in_shardings=(None, None, P("data")),
    )
    refused(
        StructureError,
        "lower of product: out_shardings is no prefix of its tree: the prefix does not fit the tree, at out_shardings\n"
        "  expected: dict with keys ['z']\n  got:      dict with keys ['y']",
        out_shardings={"z": P("data")},
    )


def test_a_plan_that_is_not_one_executable() -> None:
    def printing(x: Any) -> Any:
        debug.print("{}", x)
        return ops.exp(x)

    both = replace(MESHED, modules=(*MESHED.modules, reference.MODULE))
    with pytest.raises(PlanRejected) as caught:
        tl.lower(printing, X, profile=both)
    head, expected, got, fix = str(caught.value).splitlines()
    assert head == "printing is planned for the mesh data=4 × model=2 (8 cpu devices) and is not one executable"
    assert expected == "  expected: every node in one group of XLA"
    assert got.startswith("  got:      1 groups, and outside them ")
    assert "on reference." in got
    assert "test_mesh_refusals.py" in got
    assert fix == "  fix:      lower what runs on the host as a program of its own, without the mesh"
    with pytest.raises(PlanRejected, match=r"is not one executable\n.*\n  got:      0 groups\n"):
        tl.lower(lambda x: x, X, profile=both)


def test_acceptance_looks_at_the_partitioning_itself() -> None:
    graph = make_graph(lambda x: ops.exp(x))(X)
    made = plan(graph, MESHED)
    assert isinstance(accept(made), AcceptedPlan)
    held = made.partitioning
    assert held is not None

    def fails(text: str) -> None:
        with pytest.raises(PlanRejected) as caught:
            accept(made)
        assert text in str(caught.value)

    made.partitioning = None
    fails("the profile has a mesh, the plan no partitioning")
    made.partitioning = replace(held, inputs=())
    fails("the partitioning is of 0 arguments of other types than the graph has")
    bad = Placement("args[0]", graph.input_types[0], (("data",), ("data",)))
    made.partitioning = replace(held, inputs=(bad,))
    fails("the sharding P('data', 'data') of args[0] names an axis twice: expected every axis once, got 'data'")
    fails("does not divide dimension 1 of f32[4,6]: expected a multiple of 4 (data=4), got 6")
    other = replace(MESH, axes=(("data", 8),))
    made.partitioning = whole(other, graph.input_types, graph.output_types)
    fails("the plan is partitioned over data=8 (8 cpu devices), the profile's mesh is data=4 × model=2 (8 cpu devices)")
    single = plan(graph, MESHED.with_modules(xla.MODULE))
    assert single.partitioning is None
    single.partitioning = held
    made = single
    fails("the plan has a partitioning, the profile no mesh")


def test_a_difference_of_plans_names_mesh_and_shardings() -> None:
    graph = make_graph(lambda x: ops.exp(x))(X)
    old, single = plan(graph, MESHED), plan(graph, MESHED.with_modules(xla.MODULE))
    assert old.partitioning is not None
    cut = Placement("args[0]", graph.input_types[0], (("data",),))
    new = plan(graph, MESHED, replace(old.partitioning, inputs=(cut,)))
    assert old.diff(new).settings == (("sharding of args[0]", "P()", "P('data')"),)
    assert old.diff(single).settings == (("mesh", "data=4 × model=2 (8 cpu devices)", "none"),)
    assert not old.diff(plan(graph, MESHED)).settings


def test_collectives_need_a_mesh() -> None:
    with pytest.raises(ConfigError) as caught:
        tl.lower(product, {"w": W}, X, profile=tl.profiles.reference_cpu).collectives()
    assert str(caught.value) == (
        "product has no collectives: it runs on one device\n"
        "  expected: a program of a profile with a mesh\n"
        "  got:      profile reference_cpu\n"
        "  fix:      lower it with profile=xla.with_mesh(mesh)"
    )


def test_an_executable_of_one_device_places_nothing() -> None:
    from torchlean.backends.xla.building import Built

    with pytest.raises(InternalError, match="an executable of one device places no arrays"):
        Built(make_graph(lambda x: ops.exp(x))(X)).placing()
