"""A provider's ledger: its records, shipped and the user's own, and how each claim stands against them.

Files are read when a claim is first asked about, and once per process: a ledger remembers. What is compared is the
source on disk, byte by byte; only files that differ are parsed, to see whether a symbol the claim reaches did.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from torchlean.evidence import closure, folder, here
from torchlean.evidence.claim import ClaimRecord, Outcome, Run
from torchlean.evidence.source import file_hash
from torchlean.evidence.standing import Standing, State, never_run
from torchlean.evidence.store import Book, parse
from torchlean.evidence.subject import all_facts, facts, facts_of, under

_MOST_NAMED = 3  # changed symbols in one reason
_MOST_SHOWN = 100  # characters of a fact in one

Environment = tuple[tuple[str, str], ...]  # the values of the variables that change a capsule


class Ledger:
    """The records of `provider`, whose code is in `package` (and torchlean). `shipped` is the record file inside the
    package, None when it carries none; `libraries` are what its kernels call, whose versions matter; `tools` says which
    other programs they depend on, as (name, version) pairs: a compiler, a driver.
    """

    __slots__ = ("_loaded", "_standings", "libraries", "package", "provider", "shipped", "tools")

    def __init__(
        self,
        provider: str,
        *,
        package: str,
        shipped: str | None,
        libraries: Sequence[str],
        tools: Callable[[], Iterable[tuple[str, str]]] = tuple,
    ) -> None:
        self.provider = provider
        self.package = package
        self.shipped = shipped
        self.libraries = tuple(libraries)
        self.tools = tools
        self._loaded: _Loaded | None = None
        self._standings: dict[tuple[str, str, Environment], tuple[Any, Standing]] = {}

    def standing(self, capsule: Any, claim: str, environment: Environment = ()) -> Standing:
        """How a claim of a capsule stands, as it is under these values of the variables that change it.

        SerializationError for a record file that was altered.
        """
        key = (capsule.name, claim, environment)
        known = self._standings.get(key)
        if known is None or known[0] is not capsule:
            known = (capsule, self._standing(capsule, claim, environment))
            self._standings[key] = known
        return known[1]

    def _standing(self, capsule: Any, claim: str, environment: Environment) -> Standing:
        return self._read().standing(capsule, claim, environment)

    def exhaustive(self, capsule: Any, claim: str, environment: Environment = ()) -> Standing | None:
        """How the record of every input stands by itself; None without one."""
        return self._read().best(capsule, claim, environment, exhaustive=True)

    def _read(self) -> _Loaded:
        loaded = self._loaded
        if loaded is None:
            loaded = _Loaded(self)
            self._loaded = loaded
        return loaded

    def forget(self) -> None:
        """Read everything again when next asked: after records were written, or the sources changed."""
        self._loaded = None
        self._standings = {}

    def versions(self) -> tuple[tuple[str, str], ...]:
        """What the records are of, beside sources: (name, version) of every library and tool, as they are here."""
        return tuple(sorted((*here.versions(self.libraries), *self.tools())))

    def files(self) -> tuple[Path | None, Path | None]:
        """The shipped record file and the user's, there or not."""
        shipped = None if self.shipped is None else folder.shipped_file(self.package, self.shipped)
        return shipped, folder.users_file(self.provider)

    def __repr__(self) -> str:
        return f"<ledger of {self.provider}>"


class Measured(Ledger):
    """A ledger of outcomes this very process measured: what a notebook, or a test, has instead of files. `switched_by`
    is that of the module that was tried, when it has switches.
    """

    __slots__ = ("_outcomes", "_under")

    def __init__(self, outcomes: Iterable[Outcome], *, switched_by: Iterable[tuple[str, Environment]] = ()) -> None:
        super().__init__("this process", package="torchlean", shipped=None, libraries=())
        self._outcomes = {(held.capsule, held.claim): held for held in outcomes}
        self._under = dict(switched_by)

    def _standing(self, capsule: Any, claim: str, environment: Environment) -> Standing:
        outcome = self._outcomes.get((capsule.name, claim))
        if outcome is None:
            return never_run("this process did not try it")
        tried_under = self._under.get(capsule.name, ())
        if tried_under != environment:
            return never_run(_elsewhere([_switches(tried_under)], _switches(environment)))
        run = Run("now", "now", "", (), here.machine(), True, ())
        tried = ClaimRecord(outcome, (*facts(capsule, claim), *under(environment)), (), run)
        if not outcome.passed:
            return Standing(State.FAILED, _failure(outcome), tried)
        return Standing(State.FRESH, "", tried)


class _Loaded:
    """Books as they were read, this machine, and what is known of the files so far."""

    def __init__(self, ledger: Ledger) -> None:
        files = ledger.files()
        self.books = [
            parse(data, str(file)) for file in files if (data := folder.read(file)) is not None and file is not None
        ]
        self.where = " or ".join([str(file) for file in files if file is not None]) or "any file"
        self.versions = ledger.versions()
        self.machine = here.machine()
        self.facts: dict[str, tuple[Any, dict[str, str]]] = {}
        self.hashes: dict[str, tuple[Path | None, str]] = {}
        self.runs: dict[str, tuple[dict[int, str], set[int]]] = {}

    def standing(self, capsule: Any, claim: str, environment: Environment) -> Standing:
        """How the claim stands: by its sampled record, which is of every type the capsule serves. An exhaustive one is
        of float32 alone: it counts beside that when both hold, and by itself when it found a counterexample.
        """
        sampled, every = [self.best(capsule, claim, environment, exhaustive=each) for each in (False, True)]
        if every is not None and (every.state is State.FAILED or (sampled is not None and _both_hold(sampled, every))):
            return every
        if sampled is not None:
            return sampled
        if every is not None and every.state is not State.STALE:
            return never_run("every float32 was tried, and no other type")
        if every is not None:
            return every
        switches = _switches(environment)
        others = sorted({text for book in self.books for text in book.environments(capsule.name, claim)})
        if others:
            return never_run(_elsewhere(others, switches))
        return never_run(f"no record of it in {self.where}")

    def best(self, capsule: Any, claim: str, environment: Environment, *, exhaustive: bool) -> Standing | None:
        """The best of the records of one kind: of the current source first, then of this machine, then the newest.
        Those made under other values of the capsule's switches are of another kernel.
        """
        known = self.facts.get(capsule.name)
        if known is None or known[0] is not capsule:
            known = (capsule, all_facts(capsule))
            self.facts[capsule.name] = known
        now = facts_of(claim, known[1]) | dict(under(environment))
        key = (capsule.name, claim, exhaustive, _switches(environment))
        held = [self._judged(tried, now, book) for book in self.books if (tried := book.get(key)) is not None]
        return max(held, key=lambda each: each[0])[1] if held else None

    def _judged(self, tried: ClaimRecord, now: dict[str, str], book: Book) -> tuple[tuple[bool, bool, str], Standing]:
        changes = _differing_facts(dict(tried.facts), now) or self._changed_symbols(tried, book)
        others = here.differences(tried.run.versions, self.versions)
        if tried.run.machine != self.machine:
            others.append(f"instruction sets {self.machine} here, {tried.run.machine} when it was tried")
        rank = (not changes, not others, tried.run.date)
        if changes:
            more = f" and {len(changes) - _MOST_NAMED} more" if len(changes) > _MOST_NAMED else ""
            return rank, Standing(State.STALE, "; ".join(changes[:_MOST_NAMED]) + more, tried)
        if not tried.outcome.passed:
            return rank, Standing(State.FAILED, _failure(tried.outcome), tried)
        if others:
            return rank, Standing(State.OTHER_VERSION, "; ".join(others), tried)
        return rank, Standing(State.FRESH, "", tried)

    def _changed_symbols(self, tried: ClaimRecord, book: Book) -> list[str]:
        known = self.runs.get(tried.run.key)
        if known is None:
            among = self._differing_files(tried.run)
            altered = closure.changed(book.symbols[tried.run.key], among) if among else {}
            known = (altered, closure.spoiled(book.symbols[tried.run.key], altered) if altered else set())
            self.runs[tried.run.key] = known
        altered, spoiled = known
        if not any([root in spoiled for root in tried.roots]):
            return []
        symbols = book.symbols[tried.run.key]
        reached = closure.reached_from(symbols, tried.roots)
        return [f"{closure.shown(symbols[at])} {how}" for at, how in sorted(altered.items()) if at in reached]

    def _differing_files(self, run: Run) -> dict[str, Path | None]:
        """The files of a run whose bytes are not those it saw."""
        made: dict[str, Path | None] = {}
        for path, recorded in run.files:
            known = self.hashes.get(path)
            if known is None:
                file = closure.file_here(path)
                data = folder.read(file)
                known = (file, "" if data is None else file_hash(data))
                self.hashes[path] = known
            if known[1] != recorded:
                made[path] = known[0]
        return made


def _both_hold(sampled: Standing, every: Standing) -> bool:
    return sampled.state is every.state and sampled.state in (State.FRESH, State.OTHER_VERSION)


def _switches(environment: Environment) -> str:
    """The environment as the key of a record has it."""
    return "".join([text for _, text in under(environment)])


def _elsewhere(tried: Sequence[str], now: str) -> str:
    """A claim was tried, but of the kernel that other values of the switches make."""
    return f"it was tried with {' and with '.join([text or 'no switch' for text in tried])}, not with {now or 'none'}"


def _differing_facts(recorded: dict[str, str], now: dict[str, str]) -> list[str]:
    made: list[str] = []
    for name in sorted({*recorded, *now}):
        mine, theirs = now.get(name, "gone"), recorded.get(name, "not there")
        if mine != theirs:
            start = _same_start(mine, theirs)
            made.append(f"the capsule's {name} is {_from(mine, start)}, was {_from(theirs, start)} when it was tried")
    return made


def _same_start(one: str, other: str) -> int:
    """Where two texts begin to differ, back to the start of the word or part that does."""
    same = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return max(one.rfind(mark, 0, same) + len(mark) if mark in one[:same] else 0 for mark in (", ", "("))


def _from(text: str, start: int) -> str:
    cut = text[start : start + _MOST_SHOWN]
    return ("…" if start else "") + cut + ("…" if start + _MOST_SHOWN < len(text) else "")


def _failure(outcome: Outcome) -> str:
    return outcome.failures[0].splitlines()[0] if outcome.failures else "no case was tried"
