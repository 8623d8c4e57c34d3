"""Record files: canonical JSON, one claim a line, under a hash of every byte; read as one reads a stranger's file.

The hash makes an edit by hand an error; it is no signature, and whoever wants to lie can run this file's `render`.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from typing import Any, NoReturn, TypeVar

from torchlean.errors import SerializationError, message
from torchlean.evidence.claim import CLAIMS, SCHEMA, ClaimRecord, Outcome, Run
from torchlean.evidence.closure import Reached
from torchlean.evidence.subject import SWITCHES

_HEAD, _BODY, _MIDDLE, _TAIL = '{\n"hash": "', '",\n"body": ', ',\n"symbols": ', "\n}\n"
_MOST_BYTES = 64 * 2**20
_OUTCOME = ("capsule", "claim", "tests", "cases", "failures", "worst", "unit", "histogram", "tolerance", "seed")
_CLAIM_KEYS = frozenset({*_OUTCOME, "exhaustive", "facts", "roots", "run"})
_RUN_KEYS = frozenset({"key", "date", "torchlean", "versions", "machine", "quick", "files"})
_BODY_KEYS = frozenset({"schema", "provider", "runs", "claims", "facts"})

Key = tuple[str, str, bool, str]  # capsule, claim, exhaustive, the values of its switches
T = TypeVar("T")


class Book:
    """The records of one provider. Records and symbols that were read are made when first asked for."""

    __slots__ = ("_claims", "_raw", "_runs", "_symbols", "_text", "name", "provider")

    def __init__(
        self,
        provider: str,
        claims: Mapping[Key, ClaimRecord],
        symbols: Mapping[str, tuple[Reached, ...]],
        *,
        name: str = "in memory",
    ) -> None:
        self.provider = provider
        self.name = name
        self._claims = dict(claims)
        self._symbols: Mapping[str, tuple[Reached, ...]] | None = symbols
        self._raw: dict[Key, tuple[dict[str, Any], dict[str, str]]] = {}
        self._runs: dict[str, Run] = {held.run.key: held.run for held in claims.values()}
        self._text = ""

    def get(self, key: Key) -> ClaimRecord | None:
        """The record of a claim, or None."""
        found = self._claims.get(key)
        if found is None and key in self._raw:
            data, facts = self._raw[key]
            found = _checked(self.name, lambda: _claim(data, facts, self._runs))
            self._claims[key] = found
        return found

    def environments(self, capsule: str, claim: str) -> set[str]:
        """Under which values of its switches a claim was tried; "" where it had none."""
        return {key[3] for key in {*self._claims, *self._raw} if key[:2] == (capsule, claim)}

    @property
    def claims(self) -> dict[Key, ClaimRecord]:
        """Every record, by capsule, claim, whether it is exhaustive, and under which values of its switches."""
        found = {key: self.get(key) for key in sorted({*self._claims, *self._raw})}
        return {key: held for key, held in found.items() if held is not None}

    @property
    def symbols(self) -> Mapping[str, tuple[Reached, ...]]:
        """The source closures, a list per run."""
        if self._symbols is None:
            self._symbols = _checked(self.name, self._read_symbols)
        return self._symbols

    def _read_symbols(self) -> dict[str, tuple[Reached, ...]]:
        made = {key: _rows(rows) for key, rows in _loads(self._text).items()}
        for (capsule, claim, _, _), (data, _) in self._raw.items():
            if not all([0 <= root < len(made[data["run"]]) for root in data["roots"]]):
                raise SerializationError(f"{capsule} {claim} starts at a symbol that is not there")
        return made


def key_of(held: ClaimRecord) -> Key:
    """Where a record goes: an exhaustive one stands beside the sampled one, and so do those under other switches."""
    outcome = held.outcome
    return outcome.capsule, outcome.claim, outcome.exhaustive, dict(held.facts).get(SWITCHES, "")


# -- writing -----------------------------------------------------------------------------------------------------------
def render(book: Book) -> str:
    """The one text of a book. The facts of a capsule, which its claims share, stand apart."""
    claims = list(book.claims.values())
    runs = {held.run.key: held.run for held in claims}
    texts: dict[str, dict[str, str]] = {}
    data: list[dict[str, Any]] = []
    for held in claims:
        own = texts.setdefault(f"{held.outcome.capsule} {held.run.key}", {})
        own.update(dict(held.facts))
        data.append(_claim_data(held))
    body = "{" + ",\n".join(
        [
            _lines("claims", [_line(each) for each in data]),
            _lines("facts", [_line([name, texts[name]]) for name in sorted(texts)]),
            f'"provider":{_line(book.provider)}',
            _lines("runs", [_line(_run_data(runs[key])) for key in sorted(runs)]),
            f'"schema":{SCHEMA}}}',
        ]
    )
    symbols = [_lines(key, [_line(_row(held)) for held in book.symbols[key]]) for key in sorted(runs)]
    text = f"{body}{_MIDDLE}{{{','.join(symbols)}}}"
    return f"{_HEAD}{hashlib.sha256(text.encode()).hexdigest()}{_BODY}{text}{_TAIL}"


def _line(data: Any) -> str:
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def _lines(name: str, lines: list[str]) -> str:
    return f"{_line(name)}:[\n" + ",\n".join(lines) + "\n]"


def _row(held: Reached) -> list[Any]:
    return [held.path, held.name, held.hash, list(held.edges)]


def _claim_data(held: ClaimRecord) -> dict[str, Any]:
    outcome = held.outcome
    worst = outcome.worst
    data = {name: getattr(outcome, name) for name in (*_OUTCOME, "exhaustive")}
    data["worst"] = worst if worst is None or math.isfinite(worst) else str(worst)
    return data | {"facts": [name for name, _ in held.facts], "roots": held.roots, "run": held.run.key}


def _run_data(run: Run) -> dict[str, Any]:
    data = {name: getattr(run, name) for name in _RUN_KEYS}
    return data | {"versions": dict(run.versions), "files": dict(run.files)}


# -- reading -----------------------------------------------------------------------------------------------------------
def parse(data: bytes, name: str) -> Book:
    """The book of a record file; SerializationError, which names the file, for anything but what `render` writes."""
    if len(data) > _MOST_BYTES:
        _refuse(name, "is too large", expected=f"at most {_MOST_BYTES} bytes", got=len(data))
    try:
        text = data.decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        _refuse(name, f"is not UTF-8 at byte {error.start}")
    start = len(_HEAD) + 64
    if not (text.startswith(_HEAD) and text.startswith(_BODY, start) and text.endswith(_TAIL)):
        _refuse(name, "is no evidence record file", expected="a hash and a body, as the command writes them")
    stated, held = text[len(_HEAD) : start], text[start + len(_BODY) : -len(_TAIL)]
    actual = hashlib.sha256(held.encode()).hexdigest()
    if actual != stated:
        _refuse(name, "was altered after it was written", expected=f"contents of hash {stated[:16]}…", got=actual[:16])
    body, found, symbols = held.partition(_MIDDLE)
    if not found:
        _refuse(name, "has no source closures")
    return _checked(name, lambda: _book(_loads(body), symbols, name))


def _checked(name: str, make: Callable[[], T]) -> T:
    """What `make` gives; whatever is wrong with the data, as a refusal of the file."""
    try:
        return make()
    except SerializationError as error:
        _refuse(name, str(error))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        _refuse(name, f"has a malformed body: {type(error).__name__} {error}")


def _loads(text: str) -> Any:
    return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_number)


def _book(held: dict[str, Any], symbols: str, name: str) -> Book:
    if held.get("schema") != SCHEMA:
        raise SerializationError(f"has schema {held.get('schema')!r}, and this version reads {SCHEMA}")
    _same_keys(held, _BODY_KEYS, "the body")
    made = Book(_text(held["provider"]), {}, {}, name=name)
    made._symbols, made._text = None, symbols
    made._runs = {run.key: run for run in map(_run, held["runs"])}
    texts: dict[str, dict[str, str]] = dict(held["facts"])
    for data in held["claims"]:
        _same_keys(data, _CLAIM_KEYS, "a claim")
        own = texts[f"{_text(data['capsule'])} {data['run']}"]
        switches = _text(own[SWITCHES]) if SWITCHES in data["facts"] else ""
        key = (_text(data["capsule"]), _text(data["claim"]), _flag(data["exhaustive"]), switches)
        if key in made._raw:
            raise SerializationError(f"records {key[0]} {key[1]} twice")
        made._raw[key] = (data, own)
    return made


def _rows(rows: list[Any]) -> tuple[Reached, ...]:
    count = len(rows)
    made = [Reached(path, name, hash, tuple(edges)) for path, name, hash, edges in rows]
    if any(max(held.edges, default=0) >= count or min(held.edges, default=0) < 0 for held in made):
        raise SerializationError("has an edge to a symbol that is not there")
    return tuple(made)


def _claim(data: dict[str, Any], texts: dict[str, str], runs: Mapping[str, Run]) -> ClaimRecord:
    worst = data["worst"]
    if data["claim"] not in CLAIMS:
        raise SerializationError(f"has a claim of {data['claim']!r}")
    outcome = Outcome(
        capsule=_text(data["capsule"]),
        claim=data["claim"],
        tests=tuple([_text(part) for part in data["tests"]]),
        cases=_count(data["cases"]),
        failures=tuple([_text(part) for part in data["failures"]]),
        worst=None if worst is None else float(worst),
        unit=_text(data["unit"]),
        histogram=tuple([(_text(name), _count(count)) for name, count in data["histogram"]]),
        tolerance=_text(data["tolerance"]),
        seed=_count(data["seed"]),
        exhaustive=_flag(data["exhaustive"]),
    )
    facts = tuple([(name, _text(texts[name])) for name in data["facts"]])
    return ClaimRecord(outcome, facts, tuple([_count(root) for root in data["roots"]]), runs[data["run"]])


def _run(data: dict[str, Any]) -> Run:
    _same_keys(data, _RUN_KEYS, "a run")
    return Run(
        key=_text(data["key"]),
        date=_text(data["date"]),
        torchlean=_text(data["torchlean"]),
        versions=tuple([(name, _text(version)) for name, version in data["versions"].items()]),
        machine=_text(data["machine"]),
        quick=_flag(data["quick"]),
        files=tuple([(path, _text(hash)) for path, hash in data["files"].items()]),
    )


def _same_keys(data: Any, wanted: frozenset[str], what: str) -> None:
    if not isinstance(data, dict) or data.keys() != wanted:
        got = sorted(data) if isinstance(data, dict) else type(data).__name__
        raise SerializationError(f"{what} has the fields {got}, not {sorted(wanted)}")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise TypeError(f"{value!r} is no count")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{value!r} is neither true nor false")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise SerializationError("has a duplicate key")
    return made


def _no_number(text: str) -> NoReturn:
    raise SerializationError(f"holds {text}, which is no JSON number")


def _refuse(name: str, what: str, *, expected: object = None, got: object = None) -> NoReturn:
    raise SerializationError(
        message(
            f"the evidence record {name} {what}",
            expected=expected,
            got=got,
            fix="write it again: torchlean evidence run (or delete it, if it is in your own data folder)",
        )
    )
