"""Platforms XLA compiles for: what is known of each, and the devices of jax that belong to it.

Bounds and records are of CPUs. On other platforms nothing was measured here, so their capsules claim no distance, and
no order, unless they only move entries.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torchlean.backends.vocabulary import Device
from torchlean.backends.xla.library import cpu, library
from torchlean.errors import BackendMissing, ConfigError, message
from torchlean.ir.dtypes import DType
from torchlean.ir.types import TensorType


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """`name` as `jax.devices` takes it. `lacks`: the types it has no arithmetic for, and `why` that is refused."""

    name: str
    device: Device
    lacks: frozenset[DType] = frozenset()
    why: str = ""

    @property
    def measured(self) -> bool:
        """Whether bounds and records are of this platform."""
        return self.device is Device.CPU

    def refused(self, types: tuple[TensorType, ...]) -> str | None:
        """Why operands or results of these types are not served, or None."""
        lacking = dict.fromkeys([str(type.dtype) for type in types if type.dtype in self.lacks])
        return f"{self.name} has no {', '.join(lacking)}: {self.why}" if lacking else None


CPU = Platform(name="cpu", device=Device.CPU)
CUDA = Platform(name="cuda", device=Device.CUDA)
ROCM = Platform(name="rocm", device=Device.ROCM)
TPU = Platform(
    name="tpu",
    device=Device.TPU,
    lacks=frozenset({DType.F64, DType.C128}),
    why="XLA puts pairs of float32 in its place, whose range and precision are others",
)
PLATFORMS = (CPU, CUDA, ROCM, TPU)


def platform_named(name: str) -> Platform:
    """A platform by jax's name; ConfigError for one nothing is known of. For `gpu` see `device_of`."""
    for platform in PLATFORMS:
        if platform.name == name:
            return platform
    raise ConfigError(
        message(
            f"nothing is known of the platform {name!r}",
            expected=", ".join(["gpu", *[platform.name for platform in PLATFORMS]]),
            got=repr(name),
            fix="name a platform XLA compiles for",
        )
    )


def platform_of(device: Any) -> Platform:
    """The platform of a jax device. A GPU's `platform` is `gpu` whoever made it, so its client is asked, too."""
    name = str(device.platform)
    if name == "gpu":
        name = "rocm" if "rocm" in str(device.client.platform_version).lower() else "cuda"
    return platform_named(name)


def device_of(which: Any) -> Any:
    """The jax device meant by a device, or the first one of a platform's name (`cpu`, `gpu`, `cuda`, `rocm`, `tpu`).

    BackendMissing when jax has no such platform here.
    """
    jax = library()
    if not isinstance(which, str):
        if not hasattr(which, "platform") or not hasattr(which, "client"):
            raise ConfigError(
                message(
                    "this is no device",
                    expected="a device of jax.devices(), or the name of a platform",
                    got=repr(which),
                    fix='xla.on("gpu")',
                )
            )
        return which
    if which == "cpu":
        return cpu(jax)
    if which != "gpu":
        platform_named(which)
    try:
        return jax.devices(which)[0]
    except RuntimeError as fault:
        raise BackendMissing(
            message(
                f"jax has no device of the platform {which} here",
                expected=f"{which} among its platforms",
                got=str(fault),
                fix="install the jax that is made for it, or name another platform",
            )
        ) from None
