"""Making records of outcomes: the source closure of each claim, the circumstances, and the file they go into.

Only here are records made, and only of outcomes that were just measured. The sources are read before the tests run and
again after: a run during which they changed records nothing.
"""

from __future__ import annotations

import ast
import datetime
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from torchlean.errors import SerializationError, message
from torchlean.evidence import folder, here
from torchlean.evidence.claim import CLAIMS, ClaimRecord, Outcome, Run
from torchlean.evidence.closure import (
    Closure,
    Key,
    Reached,
    Sources,
    changed,
    file_here,
    reached_from,
    shown,
    whole_hash,
)
from torchlean.evidence.ledger import Environment, Ledger
from torchlean.evidence.live import Origin
from torchlean.evidence.source import RULES, file_hash, names_of
from torchlean.evidence.store import Book, key_of, parse, render
from torchlean.evidence.store import Key as StoreKey
from torchlean.evidence.subject import Facts, facts, files_of, origins, under

_ALGEBRA = ("torchlean.ir.algebra", "NumpyAlgebra")  # what the definitions are evaluated in


class Recorder:
    """Records of some capsules of one ledger, all in one run: made before the tests, completed by their outcomes.

    `switched_by` says of each capsule that environment variables change, which, and the values it is tried under.
    """

    def __init__(
        self,
        ledger: Ledger,
        capsules: Iterable[Any],
        *,
        version: str,
        quick: bool,
        switched_by: Iterable[tuple[str, Environment]] = (),
    ) -> None:
        self.ledger = ledger
        self.version = version
        self.quick = quick
        self.switched_by = tuple(switched_by)
        self.capsules = {capsule.name: capsule for capsule in capsules}
        sources = Sources({"torchlean", ledger.package})
        closure = Closure(sources)
        lines: dict[str, list[tuple[int, int, str]]] = {}
        roots: dict[tuple[str, str], set[Key]] = {}
        closure.add([_ALGEBRA])
        for name, capsule in self.capsules.items():
            for claim in CLAIMS:
                rules = claim == "vjp"
                held = {key for origin in origins(capsule, claim) for key in _keys(origin, sources, lines, rules=rules)}
                roots[name, claim] = held
                closure.add(held)
        listed = closure.listed()
        whole = {path for capsule in self.capsules.values() for claim in CLAIMS for path in files_of(capsule, claim)}
        data = {path: len(listed) + index for index, path in enumerate(sorted(whole))}
        self.symbols: tuple[Reached, ...] = (
            *listed,
            *[Reached(path, "", whole_hash(file_here(path)), ()) for path in data],
        )
        places = [(place.path, place.file) for place in closure.files()]
        places += [(path, file) for path in data if (file := file_here(path)) is not None and file.is_file()]
        position = {key: index for index, key in enumerate(sorted(closure.edges))}
        self.roots = {
            at: tuple(
                sorted(
                    [*[position[key] for key in held], *[data[path] for path in files_of(self.capsules[at[0]], at[1])]]
                )
            )
            for at, held in roots.items()
        }
        self._where = places
        self.files = tuple([(path, file_hash(file.read_bytes())) for path, file in places])

    def book(self, outcomes: Sequence[Outcome]) -> Book:
        """The records of these outcomes; SerializationError when a source they reach has changed meanwhile."""
        before = dict(self.files)
        among = {path: file for path, file in self._where if file_hash(file.read_bytes()) != before[path]}
        altered = changed(self.symbols, among) if among else {}
        if altered:
            named = [shown(self.symbols[at]) for at in list(altered)[:3]]
            raise SerializationError(
                message(
                    f"sources of {self.ledger.provider} changed while its claims were tried",
                    expected="the sources the tests ran on",
                    got=f"other ones on disk: {', '.join(named)}",
                    fix="run torchlean evidence run again",
                )
            )
        run = self._run()
        claims: dict[StoreKey, ClaimRecord] = {}
        for outcome in outcomes:
            capsule = self.capsules[outcome.capsule]
            told = self._facts(capsule, outcome.claim)
            made = ClaimRecord(outcome, told, self.roots[outcome.capsule, outcome.claim], run)
            claims[key_of(made)] = made
        return Book(self.ledger.provider, claims, {run.key: self.symbols})

    def identity(self, capsule: Any, claim: str) -> str:
        """One word for what would be recorded of a claim but its outcome: its sources and facts, versions, machine."""
        reached = sorted(reached_from(self.symbols, self.roots[capsule.name, claim]))
        sources = [self.symbols[at].hash for at in reached]
        about = json.dumps([self._facts(capsule, claim), sources, here.versions(self.ledger.libraries), here.machine()])
        return hashlib.sha256(about.encode()).hexdigest()

    def _facts(self, capsule: Any, claim: str) -> Facts:
        return (*facts(capsule, claim), *under(dict(self.switched_by).get(capsule.name, ())))

    def _run(self) -> Run:
        date = utc_now()
        versions, machine = self.ledger.versions(), here.machine()
        rows = [[held.path, held.name, held.hash, held.edges] for held in self.symbols]
        about = json.dumps([date, versions, machine, self.files, rows, self.switched_by])
        key = hashlib.sha256(about.encode()).hexdigest()[:12]
        return Run(key, date, self.version, versions, machine, self.quick, self.files)


def utc_now() -> str:
    """The date of a run."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _keys(
    origin: Origin, sources: Sources, lines: dict[str, list[tuple[int, int, str]]], *, rules: bool
) -> Iterable[Key]:
    """The symbols a function or class was written in; for derivative rules also the rules of the op written there."""
    if not sources.is_ours(origin.module):
        return
    symbols = sources.symbols(origin.module)
    top, _, rest = origin.qualname.partition(".")
    names = [top]
    if top == "<lambda>":
        if origin.module not in lines:
            lines[origin.module] = _lines(sources, origin.module)
        names = [name for first, last, name in lines[origin.module] if first <= origin.line <= last]
    for name in names:
        method = f"{name}.{rest.partition('.')[0]}"
        if method in symbols:
            yield origin.module, method
        elif name in symbols:
            yield origin.module, name
        if rules and name + RULES in symbols:
            yield origin.module, name + RULES


def _lines(sources: Sources, module: str) -> list[tuple[int, int, str]]:
    """First line, last line and name of everything a module defines at its top."""
    place = sources.place(module)
    if place is None:
        return []
    tree = ast.parse(place.file.read_text(encoding="utf-8"))
    return [
        (statement.lineno, statement.end_lineno or statement.lineno, name)
        for statement in tree.body
        for name in names_of(statement)
    ]


def merged(old: Book | None, new: Book) -> Book:
    """The old records with those of the new book in their place; runs nobody refers to are dropped when written."""
    if old is None:
        return new
    claims: Mapping[Any, ClaimRecord] = {**old.claims, **new.claims}
    return Book(new.provider, claims, {**old.symbols, **new.symbols})


def save(book: Book, file: Path) -> str | None:
    """Merge a book into its file. What was wrong with the old file, which is then replaced, or None.

    OSError when it cannot be written.
    """
    data, fault = folder.read(file), None
    old: Book | None = None
    if data is not None:
        try:
            old = parse(data, str(file))
        except SerializationError as error:
            fault = str(error).splitlines()[0]
    folder.write(file, render(merged(old, book)))
    return fault
