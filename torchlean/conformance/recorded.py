"""The ledger of every provider: what its claims are and how they stand, and running the kit to record them.

The kit measures, `torchlean.evidence` records; this file knows the providers and puts the two together.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from time import perf_counter

import torchlean
from torchlean.backends.capsule import Capsule
from torchlean.backends.profile import CapsuleModule
from torchlean.backends.vocabulary import OBLIGATIONS
from torchlean.conformance.kit import run_capsule
from torchlean.conformance.samples.call import Case
from torchlean.errors import ConfigError, message
from torchlean.evidence import folder
from torchlean.evidence.claim import Outcome
from torchlean.evidence.ledger import Ledger
from torchlean.evidence.recording import Recorder, save
from torchlean.evidence.standing import NO_LEDGER, Standing, State, never_run
from torchlean.record import record

SLOW = frozenset({"xla"})  # providers that are tried only where they are named


@record
class Claimed:
    """One claim of one capsule: what its contract rests on, and how its record stands."""

    module: CapsuleModule
    capsule: Capsule
    obligation: str
    standing: Standing

    @property
    def is_needed(self) -> bool:
        """Whether a plan asks for the record: the contract says "tested"."""
        return self.module.standing(self.capsule, self.obligation) is not None


@record
class Recorded:
    """What a run of one provider gave. `file` holds the records, or `unwritten` says why there is none; `untried` are
    capsules the kit could not try, with the reason; `replaced` is what was wrong with a file that was written anew.
    """

    provider: str
    outcomes: tuple[Outcome, ...]
    untried: tuple[tuple[str, str], ...]
    seconds: float
    file: Path | None
    unwritten: str
    replaced: str

    @property
    def failed(self) -> tuple[Outcome, ...]:
        return tuple([outcome for outcome in self.outcomes if not outcome.passed])


def chosen(
    modules: Sequence[CapsuleModule], *, providers: Sequence[str] = (), capsules: Sequence[str] = ()
) -> list[tuple[CapsuleModule, list[Capsule]]]:
    """The capsules of the named providers whose names match a pattern; ConfigError for a name that matches nothing."""
    for name in providers:
        if all([module.name != name for module in modules]):
            raise ConfigError(f"no provider is called {name!r}; there are {', '.join([m.name for m in modules])}")
    for pattern in capsules:
        if not any([fnmatchcase(capsule.name, pattern) for module in modules for capsule in module.capsules]):
            raise ConfigError(f"no capsule is called {pattern!r}; `torchlean evidence` lists them")
    made: list[tuple[CapsuleModule, list[Capsule]]] = []
    for module in modules:
        if providers and module.name not in providers:
            continue
        held = [c for c in module.capsules if not capsules or any([fnmatchcase(c.name, p) for p in capsules])]
        if held:
            made.append((module, held))
    return made


def claims(selection: Sequence[tuple[CapsuleModule, list[Capsule]]]) -> Iterator[Claimed]:
    """Every claim of these capsules and how it stands; without a record, with the reason the provider cannot run."""
    for module, capsules in selection:
        missing = module.probe()
        for capsule in capsules:
            for obligation in OBLIGATIONS:
                ledger = module.ledger
                held = module.environment_of(capsule)
                standing = NO_LEDGER if ledger is None else ledger.standing(capsule, obligation, held)
                if standing.state is State.NEVER_RUN and missing is not None:
                    standing = never_run(missing)
                yield Claimed(module, capsule, obligation, standing)


def exhaustive_standings(selection: Sequence[tuple[CapsuleModule, list[Capsule]]]) -> list[Standing]:
    """How each record of every input stands, of those that are there: by function, then by kernel."""
    found: list[tuple[tuple[str, str], Standing]] = []
    for module, capsules in selection:
        for capsule in capsules:
            if module.ledger is not None:
                held = module.ledger.exhaustive(capsule, "value", module.environment_of(capsule))
                if held is not None:
                    found.append(((capsule.op.name, capsule.name), held))
    return [held for _, held in sorted(found, key=lambda each: each[0])]


def run(
    module: CapsuleModule,
    capsules: Sequence[Capsule],
    *,
    quick: bool,
    seed: int,
    shipped: bool = False,
    exhaustive: bool = False,
    cases: Sequence[Case] = (),
    tell: Callable[[str], None] | None = None,
) -> Recorded:
    """Try these capsules with the kit and write the records: into the user's folder, or the package (`shipped`).

    The module is as its switches make it (`switched_now`): records of it under other values are kept. `cases` are
    samples beside the kit's own.

    `exhaustive` tries the value claims of functions of one float32 on every input instead (hours), and passes over
    other capsules; a run that was stopped goes on from its last block. ConfigError when the module has no ledger, or
    the package is no source checkout that can be written to.
    """
    ledger = module.ledger
    if ledger is None:
        raise ConfigError(
            message(
                f"capsule module `{module.name}` has no ledger to write to",
                expected="CapsuleModule(…, ledger=Ledger(provider, package=…, shipped=…, libraries=…))",
                got="ledger=None",
                fix="give the module a ledger",
            )
        )
    file = _shipped(ledger) if shipped else ledger.files()[1]
    recorder = Recorder(ledger, capsules, version=torchlean.__version__, quick=quick, switched_by=module.switched_by)
    started = perf_counter()
    outcomes: list[Outcome] = []
    untried: list[tuple[str, str]] = []
    for capsule in capsules:
        if tell is not None:
            tell(capsule.name)
        try:
            if exhaustive:
                outcomes.append(_exhaustive(capsule, recorder, tell or (lambda text: None)))
            else:
                outcomes += run_capsule(capsule, quick=quick, seed=seed, module=module, cases=cases)
        except ConfigError as error:  # there is no sample of its op
            untried.append((capsule.name, str(error).splitlines()[0]))
    seconds = perf_counter() - started
    unwritten, replaced = "", ""
    if file is None:
        unwritten = "this user has no home folder"
    else:
        try:
            replaced = save(recorder.book(outcomes), file) or ""
        except OSError as error:
            unwritten = f"{file.parent} cannot be written to ({error.strerror or error})"
    ledger.forget()
    return Recorded(module.name, tuple(outcomes), tuple(untried), seconds, file, unwritten, replaced)


def exhaustible(capsules: Sequence[Capsule]) -> list[Capsule]:
    """Those whose value claim can be tried on every input."""
    from torchlean.conformance.exhaustive.sweep import serves

    return [capsule for capsule in capsules if serves(capsule)]


def _exhaustive(capsule: Capsule, recorder: Recorder, tell: Callable[[str], None]) -> Outcome:
    from torchlean.conformance.exhaustive.sweep import run_exhaustive

    users = folder.users_folder()
    if users is None:
        raise ConfigError(
            message(
                "an exhaustive run keeps its progress in the user's data folder",
                got="this user has no home folder",
                fix=f"name a folder in {folder.VARIABLE}",
            )
        )
    return run_exhaustive(
        capsule,
        progress=users / "exhaustive" / f"{capsule.name}.jsonl",
        key=recorder.identity(capsule, "value"),
        told=lambda done, total: tell(f"{capsule.name} {done}/{total}"),
    )


def _shipped(ledger: Ledger) -> Path:
    """The record file inside the package, when that is a checkout."""
    file = ledger.files()[0]
    checkout = file is not None and any([(above / "pyproject.toml").is_file() for above in file.parents])
    if file is None or not checkout or not os.access(file.parents[1], os.W_OK):
        raise ConfigError(
            message(
                f"records of {ledger.provider} cannot be shipped from here",
                expected="a source checkout of its package that can be written to",
                got="no record file in the package" if file is None else str(file.parent),
                fix=f"leave --shipped out: records then go to {folder.users_folder()}",
            )
        )
    return file
