"""`pytest --capsules mypkg.capsules:MODULE`: the front door of torchlean's conformance kit.

pytest imports this file whenever torchlean is installed, so it imports nothing: the options are declared here, and the
plugin itself, `torchlean.conformance.plugin`, is loaded when modules are named.
"""

from __future__ import annotations

from typing import Any


def pytest_addoption(parser: Any) -> None:
    """The options of the kit."""
    group = parser.getgroup("torchlean", "torchlean: conformance of capsule modules")
    group.addoption(
        "--capsules",
        action="append",
        default=[],
        metavar="PACKAGE.MODULE:NAME",
        help="try every contract of every capsule of this CapsuleModule; may be given again",
    )
    group.addoption("--capsules-quick", action="store_true", default=False, help="a dozen samples for each contract")
    group.addoption("--capsules-seed", type=int, default=0, metavar="N", help="seed of random operands (default 0)")
    group.addoption(
        "--evidence-out",
        default=None,
        metavar="DIR",
        help="write what was found as evidence records, DIR/<provider>.json",
    )


def pytest_configure(config: Any) -> None:
    """Load the plugin when capsule modules are named."""
    if config.getoption("capsules"):
        from torchlean.conformance.plugin import Capsules

        config.pluginmanager.register(Capsules(config), "torchlean-capsules")
    elif config.getoption("evidence_out"):
        import pytest

        raise pytest.UsageError("--evidence-out needs --capsules PACKAGE.MODULE:NAME: there is nothing to record")
