"""Reading the text of a compiled module: its collectives, their sizes, and the loops they are in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod

from torchlean.backends.collectives import Collective

_KINDS = "all-reduce|all-gather|reduce-scatter|collective-permute|collective-broadcast|ragged-all-to-all|all-to-all"
_INSTRUCTION = re.compile(rf"^\s*(?:ROOT )?%?[\w.\-]+ = (?P<type>.+?) (?P<kind>{_KINDS})(?P<start>-start)?\(")
_COMPUTATION = re.compile(r"^(?P<entry>ENTRY )?%?(?P<name>[\w.\-]+) \(.*\{\s*$")
_ARRAY = re.compile(r"(?P<kind>pred|token|[a-z]+(?P<bits>\d+)\w*)\[(?P<shape>[\d,]*)\]")
_CALLED = re.compile(r"(?:calls|to_apply|condition|true_computation|false_computation)=%?([\w.\-]+)")
_CALLS = re.compile(r"(?:calls|branch_computations|called_computations)=\{([^}]*)\}")
_BODY = re.compile(r"body=%?([\w.\-]+)")
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')
_WHERE = re.compile(r'op_name="([^"]*)"')
_LISTED = re.compile(r"replica_groups=\{\{([\d,]*)\}")
_COUNTED = re.compile(r"replica_groups=\[\d+,(\d+)\]")
_NAMED = re.compile(r"replica_groups=mesh\[([^\]]*)\](?:, device_ids=\([^{]*\))? *\{([^}]*)\}")
_SIZE = re.compile(r"'(\w+)'=(\d+)")
_AXIS = re.compile(r"'(\w+)'(?::\(\d+\)(\d+))?")
_LINE = re.compile(r"[^/:()]+:\d+")
_NOT_SHOWN = re.compile(r"\{[^}]*\}|/\*.*?\*/")


def collectives(text: str) -> Iterator[Collective]:
    """The collectives of a module, in its order; an asynchronous one is counted where it starts."""
    times = _times(text)
    computation = ""
    for line in text.splitlines():
        begins = _COMPUTATION.match(line)
        if begins is not None:
            computation = begins["name"]
        found = _INSTRUCTION.match(line)
        if found is not None:
            made = found["type"]
            if found["start"] and found["kind"] != "all-reduce" and made.startswith("("):
                made = _parts(made)[1]  # (operands, results, …)
            yield Collective(
                kind=found["kind"],
                type=_NOT_SHOWN.sub("", made),
                bytes=sum([_bytes(array) for array in _ARRAY.finditer(made)]),
                devices=_devices(line),
                times=times.get(computation, 1),
                where=_where(line),
            )


def _bytes(array: re.Match[str]) -> int:
    kind = array["kind"]
    bits = 0 if kind == "token" else 8 if kind == "pred" else int(array["bits"])
    return (prod([int(size) for size in array["shape"].split(",") if size]) * bits + 7) // 8


def _parts(text: str) -> list[str]:
    """The elements of a tuple type."""
    depth, found = 0, [""]
    for c in text[1:-1]:
        depth += (c in "([{") - (c in ")]}")
        if c == "," and not depth:
            found.append("")
        else:
            found[-1] += c
    return [part.strip() for part in found]


def _devices(line: str) -> int | None:
    listed = _LISTED.search(line)
    if listed is not None:
        return len(listed[1].split(","))
    counted = _COUNTED.search(line)
    if counted is not None:
        return int(counted[1])
    named = _NAMED.search(line)
    if named is not None:
        sizes = {name: int(size) for name, size in _SIZE.findall(named[1])}
        return prod([int(part or sizes[name]) for name, part in _AXIS.findall(named[2])])
    return None


def _where(line: str) -> str:
    """`model.py:12 dot_general`: the last line of the user's in the instruction's name, and its op."""
    held = _WHERE.search(line)
    if held is None:
        return ""
    return " ".join([*_LINE.findall(held[1])[-1:], held[1].split("/")[-1].strip("()")])


def _times(text: str) -> dict[str, int | None]:
    """How often each computation runs in one call of the module, where that is not once."""
    calls: dict[str, list[tuple[str, int | None]]] = {}
    computation = entry = ""
    for line in text.splitlines():
        begins = _COMPUTATION.match(line)
        if begins is not None:
            computation = begins["name"]
            entry = computation if begins["entry"] else entry
            continue
        called: list[tuple[str, int | None]] = [(name, 1) for name in _CALLED.findall(line)]
        for names in _CALLS.findall(line):
            called += [(name.strip().lstrip("%"), 1) for name in names.split(",")]
        trips = _TRIPS.search(line)
        called += [(name, None if trips is None else int(trips[1])) for name in _BODY.findall(line)]
        calls.setdefault(computation, []).extend(called)
    times: dict[str, int | None] = {}
    pending: list[tuple[str, int | None]] = [(entry, 1)]
    while pending:
        name, held = pending.pop()
        times[name] = held if name not in times else _sum(times[name], held)
        for inner, count in calls.get(name, ()):
            pending.append((inner, None if held is None or count is None else held * count))
    return times


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other
