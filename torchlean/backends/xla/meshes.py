"""Profiles for a device of jax, and for a mesh of devices, for which a whole program is one executable."""

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
from torchlean.backends.xla.capsules import MODULE, module
from torchlean.backends.xla.library import library
from torchlean.backends.xla.platforms import CPU, Platform, device_of, platform_of
from torchlean.errors import ConfigError, message


def on(device: Any, policy: AssurancePolicy = EXTERNAL) -> Profile:
    """A profile whose steps XLA runs on one device: a device of `jax.devices()`, or the name of a platform (`cpu`,
    `gpu`, `cuda`, `rocm`, `tpu`), whose first device is taken. Arguments and results are NumPy arrays, as always.

    What XLA does not serve is refused. On other platforms than CPUs capsules claim no bounds: nothing was measured.
    BackendMissing when jax has no such device, ConfigError for what is none.
    """
    held = device_of(device)
    platform = platform_of(held)
    modules = (module(platform, held),)
    return Profile(name=f"xla_{platform.name}:{held.id}", device=platform.device, modules=modules, policy=policy)


def with_mesh(mesh: Any, policy: AssurancePolicy = EXTERNAL, *, platform: str = "cpu") -> Profile:
    """A profile whose programs are one XLA executable for all devices of a mesh.

    `mesh`: a `jax.sharding.Mesh`, or axis names with sizes, such as `{"data": 4, "model": 2}`, over the first devices
    there are of a platform.
    """
    held, kind = mesh_of(mesh, platform)
    capsules = MODULE if kind is CPU else module(kind)
    return Profile(name="xla_mesh", device=kind.device, modules=(replace(capsules, mesh=held),), policy=policy)


def mesh_of(mesh: Any, platform: str = "cpu") -> tuple[Mesh, Platform]:
    """The record of a mesh and the platform of its devices; ConfigError for one that cannot be used here."""
    jax = library()
    if isinstance(mesh, jax.sharding.Mesh):
        devices, names = mesh.devices, tuple(mesh.axis_names)
    else:
        devices, names = _grid(jax, mesh, platform)
    platforms = {held.name: held for held in map(platform_of, devices.flat)}
    if len(platforms) != 1:
        raise ConfigError(
            message(
                "the mesh has devices of several platforms",
                expected="devices one executable can be made for",
                got=", ".join(sorted(platforms)),
                fix="make the mesh of the devices of one platform",
            )
        )
    made = Mesh(
        axes=tuple(zip(names, map(int, devices.shape), strict=True)),
        kinds=tuple(sorted(Counter([str(device.device_kind) for device in devices.flat]).items())),
        processes=len({device.process_index for device in devices.flat}),
        held=jax.sharding.Mesh(devices, names),  # anew: sharding is the compiler's, not part of types
    )
    return made, next(iter(platforms.values()))


def _grid(jax: Any, mesh: Any, platform: str) -> tuple[Any, tuple[str, ...]]:
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
    device_of(platform)  # or why there is none
    here = jax.devices(platform)
    wanted = prod(axes.values())
    if wanted > len(here):
        grid = " × ".join([f"{name}={size}" for name, size in axes.items()])
        raise ConfigError(
            message(
                f"a mesh of {grid} has more devices than there are",
                expected=f"at most {len(here)} {platform} devices",
                got=str(wanted),
                fix=f"XLA_FLAGS=--xla_force_host_platform_device_count={wanted}, set before jax is first used"
                if platform == CPU.name
                else "make a smaller mesh",
            )
        )
    return np.array(here[:wanted], dtype=object).reshape(tuple(axes.values())), tuple(axes)


def _is_axis(name: Any, size: Any) -> bool:
    return isinstance(name, str) and isinstance(size, int) and not isinstance(size, bool) and size > 0
