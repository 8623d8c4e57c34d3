"""Devices: there is one, the host's. A traced value has none before its program is planned."""

from __future__ import annotations

from typing import Any

from torchlean.errors import BackendMissing, message
from torchlean.ir.location import caller_location

CPU = "cpu"


def check_device(name: str, device: Any) -> None:
    """Accept None and `"cpu"`."""
    if device is None or str(device) == CPU:
        return
    raise BackendMissing(
        message(
            f"{name}: there is no device {device!r}",
            expected=f"{CPU!r}, or None",
            got=repr(device),
            fix="leave device out; a profile decides where a lowered program runs",
            where=str(caller_location()),
        )
    )
