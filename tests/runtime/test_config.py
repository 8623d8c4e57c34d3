"""Run settings: device words, profiles, and what is refused before anything runs."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest

from torchlean.backends.profile import CapsuleModule
from torchlean.backends.profiles import checked_cpu, fast_cpu
from torchlean.backends.vocabulary import Device
from torchlean.errors import BackendMissing, ConfigError
from torchlean.runtime import Arithmetic, Execution, RunConfig

OTHERS = tuple(device for device in Device if device is not Device.CPU)


def test_the_default_run_is_native_eager_and_checked() -> None:
    config = RunConfig()
    assert config.validate_for_execution() is checked_cpu
    assert config.as_json() == {
        "arithmetic": "native",
        "device": "cpu",
        "profile": None,
        "seed": 0,
        "execution": "eager",
        "show_backend": False,
    }


def test_names_may_be_strings() -> None:
    config = RunConfig(arithmetic="ieee", device="cpu", execution="lowered", seed=2026)
    assert config.arithmetic is Arithmetic.IEEE
    assert config.device is Device.CPU
    assert config.execution is Execution.LOWERED
    assert config == dataclasses.replace(config)


def test_nine_devices_are_known_and_eight_have_no_maintained_profile() -> None:
    assert [str(device) for device in Device] == [
        "cpu", "cuda", "rocm", "metal", "wasm", "tpu", "trainium", "custom", "external",
    ]  # fmt: skip
    assert len(OTHERS) == 8


@pytest.mark.parametrize("device", OTHERS, ids=str)
def test_a_device_without_a_maintained_profile_is_refused_in_the_documents_words(device: Device) -> None:
    words = (
        rf"^device `{device}`.* has no maintained runtime profile; provide a backend profile with executable capsules"
    )
    with pytest.raises(ConfigError, match=words):
        RunConfig().with_device(device)
    with pytest.raises(ConfigError, match=words):
        RunConfig().with_device(str(device))
    with pytest.raises(ConfigError, match=words):
        RunConfig(device=device).validate_for_execution()


def test_an_unknown_device_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=re.escape("unknown device abacus (known targets: cpu, cuda, rocm")):
        RunConfig().with_device("abacus")


def test_the_last_answer_wins_between_device_and_profile() -> None:
    chosen = RunConfig().with_backend_profile(fast_cpu)
    assert chosen.validate_for_execution() is fast_cpu
    assert chosen.with_device("cpu").profile is None
    assert chosen.with_device("cpu").validate_for_execution() is checked_cpu
    metal = RunConfig().with_backend_profile(fast_cpu.on(Device.METAL))
    assert metal.device is Device.METAL


REFUSED: tuple[tuple[Any, type[Exception], str], ...] = (
    (
        RunConfig(arithmetic="complex"),
        ConfigError,
        "supervised training supports real arithmetic; "
        "complex arithmetic requires an explicit complex-valued training API",
    ),
    (
        RunConfig(arithmetic="ieee"),
        BackendMissing,
        "arithmetic `ieee` cannot run: this version has no provider of software binary formats\n"
        "  expected: a capsule module with software binary32 kernels (profile ieee_cpu)\n"
        "  got:      profile checked_cpu, whose kernels use the hardware's arithmetic\n"
        "  fix:      use arithmetic native: + - * / and sqrt round correctly there, so they give the same bits",
    ),
    (
        RunConfig(device="metal", profile=fast_cpu),
        ConfigError,
        "backend profile `fast_cpu` targets `cpu`, but the runtime requested `metal`",
    ),
    (
        RunConfig().with_backend_profile(fast_cpu.on(Device.METAL)),
        ConfigError,
        "backend profile `fast_cpu` has no capsule for device `metal`",
    ),
    (
        RunConfig().with_backend_profile(
            dataclasses.replace(
                checked_cpu,
                name="far",
                modules=(
                    CapsuleModule(name="far", capsules=checked_cpu.modules[0].capsules, probe=lambda: "no such chip"),
                ),
            )
        ),
        BackendMissing,
        "no capsule module of backend profile `far` can run here\n  expected: at least one available module\n"
        "  got:      far: no such chip",
    ),
)


@pytest.mark.parametrize(("config", "kind", "text"), REFUSED)
def test_settings_that_cannot_run_are_refused(config: RunConfig, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind) as caught:
        config.validate_for_execution()
    assert str(caught.value).startswith(text)
    assert len(str(caught.value).splitlines()) <= 6


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"arithmetic": "decimal"}, "unknown arithmetic 'decimal'\n  expected: one of: native, ieee, complex"),
        ({"execution": "fast"}, "unknown execution 'fast'\n  expected: one of: eager, lowered"),
        ({"seed": -1}, "seed -1 is out of range\n  expected: an integer in [0, 2**64)"),
        ({"seed": 2**64}, "seed 18446744073709551616 is out of range"),
        ({"seed": True}, "seed True is out of range"),
    ],
)
def test_settings_outside_their_range_are_refused(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        RunConfig(**settings)
    assert str(caught.value).startswith(text)
