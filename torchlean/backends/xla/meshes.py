"""Profiles whose programs are one executable for a mesh of devices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from torchlean.backends.policy import EXTERNAL, AssurancePolicy
from torchlean.backends.profile import Profile
from torchlean.backends.sharding import Mesh
from torchlean.backends.vocabulary import Device
from torchlean.backends.xla.capsules import MODULE
from torchlean.backends.xla.library import cpu, library
from torchlean.errors import ConfigError, message

PLATFORM = "cpu"  # that of the capsules, whose bounds and records are of CPUs


def with_mesh(mesh: Any, policy: AssurancePolicy = EXTERNAL) -> Profile:
    """A profile whose programs are one XLA executable for all devices of a mesh.

    `mesh`: a `jax.sharding.Mesh`, or axis names with sizes, such as `{"data": 4, "model": 2}`, over the first CPU
    devices there are.
    """
    module = replace(MODULE, mesh=mesh_of(mesh))
    return Profile(name="xla_mesh", device=Device.CPU, modules=(module,), policy=policy)


def mesh_of(mesh: Any) -> Mesh:
    """The record of a mesh; ConfigError for one that cannot be used here."""
    jax = library()
    if isinstance(mesh, jax.sharding.Mesh):
        devices, names = mesh.devices, tuple(mesh.axis_names)
    else:
        devices, names = _grid(jax, mesh)
    platforms = {device.platform for device in devices.flat}
    if platforms != {PLATFORM}:
        raise ConfigError(
            message(
                "the mesh has devices the capsules of xla are not for",
                expected=f"{PLATFORM} devices",
                got=", ".join(sorted(platforms)),
                fix='make the mesh of jax.devices("cpu")',
            )
        )
    return Mesh(
        axes=tuple(zip(names, map(int, devices.shape), strict=True)),
        kinds=tuple(sorted(Counter([str(device.device_kind) for device in devices.flat]).items())),
        processes=len({device.process_index for device in devices.flat}),
        held=jax.sharding.Mesh(devices, names),  # anew: sharding is the compiler's, not part of types
    )


def _grid(jax: Any, mesh: Any) -> tuple[Any, tuple[str, ...]]:
    axes = getattr(mesh, "shape", mesh)  # of an AbstractMesh: its names with sizes
    if not isinstance(axes, Mapping) or not axes or not all([_is_axis(*axis) for axis in axes.items()]):
        raise ConfigError(
            message(
                "this is no mesh",
                expected="a jax.sharding.Mesh, or names of axes with positive sizes",
                got=repr(mesh),
                fix='xla.with_mesh({"data": 8})',
            )
        )
    cpu(jax)
    here = jax.devices(PLATFORM)
    wanted = prod(axes.values())
    if wanted > len(here):
        grid = " × ".join([f"{name}={size}" for name, size in axes.items()])
        raise ConfigError(
            message(
                f"a mesh of {grid} has more devices than there are",
                expected=f"at most {len(here)} {PLATFORM} devices",
                got=str(wanted),
                fix=f"XLA_FLAGS=--xla_force_host_platform_device_count={wanted}, set before jax is first used",
            )
        )
    return np.array(here[:wanted], dtype=object).reshape(tuple(axes.values())), tuple(axes)


def _is_axis(name: Any, size: Any) -> bool:
    return isinstance(name, str) and isinstance(size, int) and not isinstance(size, bool) and size > 0
