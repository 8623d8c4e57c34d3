"""The maintained profiles of this machine's CPU.

`checked_cpu`, the default, is strict: one set of bits, which `reference` defines and `compiled` keeps in generated C.
`fast_cpu` takes BLAS and NumPy's own sums for what C does not serve. `reference_cpu` and `numpy_cpu` are the same two
without C: nothing is compiled, so a program is ready at once. Sessions, which run op by op, never wait for C either,
except for a gradient that was asked for hundreds of times (`runtime/remembered.py`).
`xla_cpu` makes XLA executables of groups of steps, by way of jax; its values rest on trust in XLA (docs/xla.md).
"""

from __future__ import annotations

from torchlean.backends import compiled, reference, xla
from torchlean.backends import numpy as numpy_provider
from torchlean.backends.policy import CHECKED, EXTERNAL, STRICT
from torchlean.backends.profile import Profile
from torchlean.backends.vocabulary import Device, device_named
from torchlean.errors import ConfigError

reference_cpu = Profile(name="reference_cpu", device=Device.CPU, modules=(reference.MODULE,), policy=STRICT)
checked_cpu = Profile(name="checked_cpu", device=Device.CPU, modules=(compiled.MODULE, reference.MODULE), policy=STRICT)
numpy_cpu = Profile(
    name="numpy_cpu", device=Device.CPU, modules=(numpy_provider.MODULE, reference.MODULE), policy=CHECKED
)
fast_cpu = Profile(
    name="fast_cpu",
    device=Device.CPU,
    modules=(compiled.MODULE, numpy_provider.MODULE, reference.MODULE),
    policy=CHECKED,
)

xla_cpu = Profile(name="xla_cpu", device=Device.CPU, modules=(xla.MODULE, reference.MODULE), policy=EXTERNAL)

OWN = (checked_cpu, fast_cpu, reference_cpu, numpy_cpu)  # every kernel is of this project, or NumPy's
MAINTAINED = (*OWN, xla_cpu)


def for_device(name: str) -> Profile:
    """The default profile of a device; ConfigError for an unknown name, or a device without a maintained profile."""
    device = device_named(name)
    if device is Device.CPU:
        return checked_cpu
    if device is Device.CUDA:
        raise ConfigError(
            "device `cuda` is not built in this version, so it has no maintained runtime profile; "
            "provide a backend profile with executable capsules"
        )
    raise ConfigError(
        f"device `{device}` has no maintained runtime profile; provide a backend profile with executable capsules"
    )


def named(name: str) -> Profile:
    """A maintained profile by its name; ConfigError listing the names for any other."""
    for profile in MAINTAINED:
        if profile.name == name:
            return profile
    known = ", ".join(profile.name for profile in MAINTAINED)
    raise ConfigError(f"unknown profile {name} (maintained profiles: {known})")
