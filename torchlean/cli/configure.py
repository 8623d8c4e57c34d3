"""Run options as a `RunConfig`, or the refusal TorchLean prints for what cannot run."""

from __future__ import annotations

from torchlean.backends import profiles
from torchlean.errors import BackendMissing, ConfigError
from torchlean.runtime.config import Arithmetic, RunConfig


def run_config(*, device: str, arithmetic: str, seed: int, profile: str, execution: str | None) -> RunConfig:
    """The configuration of a command; without an execution, lowered where the profile compiles and eager elsewhere.

    Raises BackendMissing for a device without a maintained profile or an arithmetic without a provider, ConfigError for
    complex arithmetic, which training does not take.
    """
    chosen = profiles.named(profile)
    if execution is None:
        execution = "eager" if chosen.for_sessions() is chosen else "lowered"
    try:
        config = RunConfig(arithmetic=Arithmetic(arithmetic), seed=seed, execution=execution).with_device(device)
    except ConfigError:
        name = "cuda" if device == "gpu" else device
        raise BackendMissing(
            f"device `{name}` has no maintained runtime profile; use a programmatic backend profile"
        ) from None
    config = config.with_backend_profile(chosen)
    config.validate_for_execution()
    return config
