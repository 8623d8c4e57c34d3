"""jax: whether it is here and recent enough, which is found out without importing it; and the settings under which
programs are traced and called, whatever those of the user's thread are.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import re
import sys
from contextlib import ExitStack
from importlib.util import find_spec
from typing import Any

from torchlean.errors import BackendMissing, message

OLDEST = (0, 10)
UNTRIED = (0, 13)  # as pyproject.toml has it; what was tried is in docs/xla.md
NEEDED = ("enable_x64", "default_device", "disable_jit", "debug_nans", "numpy_dtype_promotion", "numpy_rank_promotion")
_FIX = 'install it: pip install "jax>=0.10,<0.13"'


def version_of(text: str) -> tuple[int, ...]:
    """`0.10.2.dev1` as (0, 10, 2)."""
    found = re.match(r"\d+(\.\d+)*", text)
    return tuple([int(part) for part in found[0].split(".")]) if found else ()


def missing() -> str | None:
    """Why XLA cannot be used here, or None. Nothing is imported."""
    for name in ("jax", "jaxlib"):
        if find_spec(name) is None:
            return f"the library {name} is not installed; {_FIX}"
        held = _held_version(name)
        if held is not None and version_of(held) < OLDEST:
            least = ".".join(map(str, OLDEST))
            return f"{name} {held} is older than {least}, the oldest this provider knows; {_FIX}"
        if held is not None and version_of(held) >= UNTRIED:
            first = ".".join(map(str, UNTRIED))
            return f"{name} {held} is newer than this provider was tried with, which is below {first}; {_FIX}"
    return None


def _held_version(name: str) -> str | None:
    """What an imported library says of itself, or its metadata, which takes longer to find; None where there is
    neither, as of one put on the path by hand: what it lacks shows when it is used.
    """
    said = getattr(sys.modules.get(name), "__version__", None)
    if isinstance(said, str):
        return said
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def library() -> Any:
    """The module jax; BackendMissing with the reason and the fix when it cannot be used."""
    reason = missing()
    if reason is not None:
        raise BackendMissing(reason)
    jax = importlib.import_module("jax")
    lacking = [name for name in NEEDED if not hasattr(jax, name)]
    if lacking:
        raise BackendMissing(
            message(
                f"jax {jax.__version__} lacks what this provider uses",
                expected=", ".join(lacking),
                got="no such names",
                fix="install a jax this torchlean was tried with: 0.10 to 0.12",
            )
        )
    return jax


def settings(jax: Any, device: Any) -> ExitStack:
    """A context in which tracing means the same whatever the user has set: 64-bit types are kept, nothing is promoted
    or refused on the way. It changes the calling thread only, and puts everything back.
    """
    with ExitStack() as stack:
        for context in (
            jax.enable_x64(True),
            jax.default_device(device),
            jax.disable_jit(False),
            jax.debug_nans(False),
            jax.numpy_dtype_promotion("standard"),
            jax.numpy_rank_promotion("allow"),
        ):
            stack.enter_context(context)
        return stack.pop_all()


def cpu(jax: Any) -> Any:
    """The first CPU device; BackendMissing when jax was told to have none."""
    try:
        return jax.devices("cpu")[0]
    except RuntimeError as fault:
        raise BackendMissing(
            message(
                "jax has no CPU platform",
                expected="cpu among its platforms",
                got=str(fault),
                fix="add cpu to JAX_PLATFORMS, or unset it",
            )
        ) from None
