"""The pytest plugin behind `--capsules`: one test item per capsule and contract, and the evidence records they give.

With no path on the command line only capsules are collected. Items pass what they found to the process that writes the
records, so that pytest-xdist may run them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import torchlean
from torchlean.backends.capsule import Capsule
from torchlean.backends.vocabulary import OBLIGATIONS
from torchlean.conformance.kit import run_contracts
from torchlean.conformance.named import Named, named
from torchlean.errors import ConfigError, SerializationError
from torchlean.evidence.claim import Outcome
from torchlean.evidence.recording import Recorder, save

_PROPERTY = "torchlean outcome"


def _option(config: pytest.Config, name: str) -> Any:
    """An option of `torchlean_pytest`."""
    return config.getoption(name)


def _named(text: str) -> Named:
    try:
        return named(text)
    except ConfigError as error:
        raise pytest.UsageError(f"--capsules: {error}") from None


class Capsules:
    """The plugin: collects the items, and gathers their outcomes for the records."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.modules = [_named(text) for text in dict.fromkeys(_option(config, "capsules"))]
        self.outcomes: dict[str, list[Outcome]] = {}
        self.written: list[str] = []
        self.recorders: dict[str, Recorder] = {}
        if config.args_source is not pytest.Config.ArgsSource.ARGS:
            config.args = []
        if self.folder is not None and not hasattr(config, "workerinput"):
            for held in self.modules:
                self.recorders[held.text] = _recorder(held, quick=_option(config, "capsules_quick"))

    @property
    def folder(self) -> Path | None:
        """Where records go, if anywhere."""
        named_folder = _option(self.config, "evidence_out")
        return None if named_folder is None else Path(named_folder)

    def pytest_collection_modifyitems(self, session: pytest.Session, items: list[pytest.Item]) -> None:
        """Capsule items before what was collected from paths."""
        made: list[pytest.Item] = []
        for held in self.modules:
            node: Any = ModuleNode.from_parent(session, name=held.text, nodeid=held.text, held=held)
            report = node.ihook.pytest_make_collect_report(collector=node)
            node.ihook.pytest_collectreport(report=report)  # what counts them in the terminal
            made += report.result
        items[:0] = made

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the outcome an item attached to its report."""
        for name, value in report.user_properties:
            if name == _PROPERTY and report.when == "call":
                module, *fields = json.loads(str(value))
                self.outcomes.setdefault(module, []).append(_outcome(fields))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the records of what was tried."""
        for text, recorder in self.recorders.items():
            outcomes, folder = self.outcomes.get(text, []), self.folder
            if not outcomes or folder is None:
                continue
            file = folder / f"{recorder.ledger.provider}.json"
            try:
                fault = save(recorder.book(outcomes), file)
            except (OSError, SerializationError) as error:
                self.written.append(f"{text}: nothing was recorded: {str(error).splitlines()[0]}")
                session.exitstatus = pytest.ExitCode.TESTS_FAILED
            else:
                replaced = f" (written anew: {fault})" if fault else ""
                self.written.append(f"{text}: {len(outcomes)} claims recorded in {file}{replaced}")

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Say where the records are."""
        if self.written:
            terminalreporter.section("evidence")
            for line in self.written:
                terminalreporter.line(line)


def _recorder(held: Named, *, quick: bool) -> Recorder:
    if held.module.ledger is None:
        raise pytest.UsageError(
            f"--evidence-out: capsule module `{held.module.name}` has no ledger to write to; "
            "give it one: CapsuleModule(…, ledger=Ledger(provider, package=…, shipped=…, libraries=…))"
        )
    module = held.module
    return Recorder(
        held.module.ledger, module.capsules, version=torchlean.__version__, quick=quick, switched_by=module.switched_by
    )


class ModuleNode(pytest.Collector):
    """A capsule module among the collected nodes."""

    def __init__(self, *, held: Named, **others: Any) -> None:
        super().__init__(**others)
        self.held = held

    def collect(self) -> list[pytest.Item]:
        """Four items per capsule."""
        return list(self._items())

    def _items(self) -> Iterator[pytest.Item]:
        for capsule in self.held.module.capsules:
            for claim in OBLIGATIONS:
                item: Any = ContractItem.from_parent(
                    self, name=f"{capsule.name}::{claim}", capsule=capsule, claim=claim
                )
                yield item


class ContractFault(Exception):
    """A contract that does not hold; the text is what the author of the capsule reads."""


class ContractItem(pytest.Item):
    """One contract of one capsule."""

    def __init__(self, *, capsule: Capsule, claim: str, **others: Any) -> None:
        super().__init__(**others)
        self.capsule = capsule
        self.claim = claim

    def runtest(self) -> None:
        """Try it; ContractFault with every failure kept."""
        parent: Any = self.parent
        held: Named = parent.held
        missing = held.module.probe()
        if missing is not None:
            pytest.skip(f"{held.module.name} cannot run here: {missing}")
        (outcome,) = run_contracts(
            self.capsule,
            (self.claim,),
            quick=_option(self.config, "capsules_quick"),
            seed=_option(self.config, "capsules_seed"),
            module=held.module,
            cases=held.cases,
        )
        fields = [getattr(outcome, name) for name in Outcome.__match_args__]
        self.user_properties.append((_PROPERTY, json.dumps([held.text, *fields])))
        if not outcome.passed:
            raise ContractFault(report_of(outcome))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The report alone: the kit's own frames say nothing about the capsule."""
        if isinstance(excinfo.value, ContractFault):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """The file of the module, and the item's title."""
        parent: Any = self.parent
        module = sys.modules.get(parent.held.text.partition(":")[0])
        return Path(getattr(module, "__file__", None) or "."), None, f"{self.capsule.name} {self.claim}"


def report_of(outcome: Outcome) -> str:
    """What a failing item prints: each failure with its sample, then the measure of all cases."""
    lines = list(outcome.failures) or [f"{outcome.capsule} {outcome.claim}: no case was tried"]
    counted = ", ".join([f"{name}: {count}" for name, count in outcome.histogram])
    lines.append(f"{outcome.cases} cases, seed {outcome.seed}; claimed: {outcome.tolerance}")
    if outcome.worst is not None:
        lines.append(f"worst deviation: {outcome.worst:.6g} {outcome.unit}" + (f"; ulp {counted}" if counted else ""))
    return "\n".join(lines)


def _outcome(fields: list[Any]) -> Outcome:
    """An outcome from its fields as JSON gives them."""
    data: dict[str, Any] = dict(zip(Outcome.__match_args__, fields, strict=True))
    data["tests"], data["failures"] = tuple(data["tests"]), tuple(data["failures"])
    data["histogram"] = tuple([(name, count) for name, count in data["histogram"]])
    return Outcome(**data)
