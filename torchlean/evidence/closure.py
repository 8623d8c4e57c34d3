"""From the symbols a claim starts at to everything of ours they reach: names followed through imports and classes.

Followed: functions, values, classes, import lines and re-exports, in the packages named. A class that is reached counts
with its fields, its bases and its special methods; of its other methods those whose name is asked of any object. What
other libraries do is covered by their versions. The machinery in `STOPS` is not followed: it carries every program
alike, and has tests of its own.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from torchlean.evidence.source import Symbol, digest, file_hash, symbols_of
from torchlean.record import record

STOPS = (
    "torchlean.backends.accept",
    "torchlean.backends.audit",
    "torchlean.backends.codegen",
    "torchlean.backends.executable",
    "torchlean.backends.plan",
    "torchlean.backends.planner",
    "torchlean.backends.profile",
    "torchlean.backends.target",
    "torchlean.errors",
    "torchlean.evidence",
    "torchlean.ir.builder",
    "torchlean.ir.check",
    "torchlean.ir.collection",
    "torchlean.ir.graph",
    "torchlean.ir.location",
    "torchlean.ir.operators",
    "torchlean.ir.printer",
    "torchlean.ir.rules",
    "torchlean.ir.tracing",
    "torchlean.pytree",
    "torchlean.record",
    "torchlean.runtime",
    "torchlean.transforms",
)
ABSENT = digest("absent")
_DEEPEST = 40  # re-exports of re-exports


@record
class Place:
    """A file on disk: `path` starts with its package, as in torchlean/ir/op.py; `file` is where it is here."""

    path: str
    file: Path
    module: str
    is_package: bool


@record
class Reached:
    """A symbol of the closure: `edges` are positions in the list it belongs to. Without a name it is the whole file."""

    path: str
    name: str
    hash: str
    edges: tuple[int, ...]


def place_of(module: str) -> Place | None:
    """The source file of a module; None without one (built in, compiled, or not there)."""
    known = sys.modules.get(module)
    spec = getattr(known, "__spec__", None)
    if spec is None:
        try:
            spec = find_spec(module)
        except (ImportError, ValueError, AttributeError):
            return None
    if spec is None or not spec.origin or not spec.origin.endswith(".py"):
        return None
    file = Path(spec.origin)
    is_package = file.name == "__init__.py"
    count = len(module.split(".")) + is_package
    return Place("/".join(file.parts[-count:]), file, module, is_package)


def file_here(path: str) -> Path | None:
    """Where the file of a recorded path is on this machine; None when its package is not installed."""
    top, _, rest = path.partition("/")
    place = place_of(top.removesuffix(".py"))
    if place is None:
        return None
    return place.file.parent / rest if place.is_package else place.file


def module_of(path: str) -> tuple[str, bool]:
    """The module of a recorded path, and whether it is a package."""
    parts = path.removesuffix(".py").split("/")
    is_package = parts[-1] == "__init__"
    return ".".join(parts[:-1] if is_package else parts), is_package


class Sources:
    """The parsed files of some packages, read when first asked for."""

    def __init__(self, packages: Iterable[str]) -> None:
        self.packages = frozenset(packages)
        self.places: dict[str, Place | None] = {}
        self.parsed: dict[str, dict[str, Symbol]] = {}  # by module

    def is_ours(self, module: str) -> bool:
        """Of a package that is followed, and no machinery."""
        top = module.partition(".")[0]
        return top in self.packages and not any(module == stop or module.startswith(stop + ".") for stop in STOPS)

    def place(self, module: str) -> Place | None:
        if module not in self.places:
            self.places[module] = place_of(module)
        return self.places[module]

    def symbols(self, module: str) -> dict[str, Symbol]:
        """The symbols of a module of ours; none for one without source."""
        found = self.parsed.get(module)
        if found is None:
            place = self.place(module)
            found = {}
            if place is not None:
                text = place.file.read_text(encoding="utf-8")
                found = symbols_of(text, module, is_package=place.is_package)
            self.parsed[module] = found
        return found


Key = tuple[str, str]  # module, symbol


class Closure:
    """Symbols reached so far, and the classes among them. `add` is called with the roots of each claim."""

    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self.edges: dict[Key, set[Key]] = {}
        self.asked: dict[str, list[Key]] = {}  # attribute → who asks for it
        self.classes: dict[Key, Symbol] = {}
        self.pending: list[Key] = []

    def add(self, roots: Iterable[Key]) -> None:
        """Follow these symbols and what they reach."""
        for root in roots:
            self._reach(root)
        while self.pending:
            self._follow(self.pending.pop())

    def _reach(self, key: Key) -> None:
        if key not in self.edges:
            self.edges[key] = set()
            self.pending.append(key)

    def _join(self, key: Key, target: Key) -> None:
        if target != key:
            self.edges[key].add(target)
            self._reach(target)

    def _follow(self, key: Key) -> None:
        module, name = key
        symbol = self.sources.symbols(module).get(name)
        if symbol is None:
            return
        if symbol.kind == "import":
            for target in symbol.chains:
                for found in self._imported(target):
                    self._join(key, found)
            return
        attributes = set(symbol.attributes)
        for chain in symbol.chains:
            found, rest = self._resolve(module, chain)
            for target in found:
                self._join(key, target)
            attributes.update(rest)
        if symbol.kind == "method":
            self._join(key, (module, name.partition(".")[0]))
        if symbol.kind == "class":
            self._new_class(key, symbol)
        for attribute in attributes:
            self.asked.setdefault(attribute, []).append(key)
            for owner, known in self.classes.items():
                self._ask(key, owner, known, attribute)

    def _new_class(self, key: Key, symbol: Symbol) -> None:
        module, name = key
        self.classes[key] = symbol
        for member in symbol.members:
            if member.startswith("__"):
                self._join(key, (module, f"{name}.{member}"))
        for attribute, askers in list(self.asked.items()):
            for asker in list(askers):
                self._ask(asker, key, symbol, attribute)

    def _ask(self, asker: Key, owner: Key, symbol: Symbol, attribute: str) -> None:
        """A method of the class by that name, or the fact that it has none of its own though a base may."""
        if attribute in symbol.members or (symbol.bases and self._inherits(owner, symbol, attribute, 0)):
            self._join(asker, (owner[0], f"{owner[1]}.{attribute}"))

    def _inherits(self, owner: Key, symbol: Symbol, attribute: str, depth: int) -> bool:
        if depth > _DEEPEST:
            return False
        for base in symbol.bases:
            for key in self._resolve(owner[0], base)[0]:
                held = self.sources.symbols(key[0]).get(key[1])
                if held is None or held.kind != "class":
                    continue
                if attribute in held.members or self._inherits(key, held, attribute, depth + 1):
                    return True
        return False

    # -- names -------------------------------------------------------------------------------------------------------
    def _resolve(self, module: str, chain: Sequence[str]) -> tuple[list[Key], tuple[str, ...]]:
        """The symbols a chain names, import lines on the way included, and the attributes left over."""
        head, rest = chain[0], tuple(chain[1:])
        if head.startswith("="):  # bound by an import inside the function, which is part of the function's own hash
            return self._in_module(head[1:], rest, 0)
        symbols = self.sources.symbols(module)
        symbol = symbols.get(head)
        if symbol is None:
            found: list[Key] = []
            for star in symbols["*"].chains if "*" in symbols else ():
                if self.sources.is_ours(star[0]):
                    keys, left = self._in_module(star[0], (head, *rest), 0)
                    if keys:
                        found, rest = [(module, "*"), *keys], left
            return found, rest if found else ()
        return self._bound(module, head, symbol, rest, 0)

    def _bound(
        self, module: str, name: str, symbol: Symbol, rest: tuple[str, ...], depth: int
    ) -> tuple[list[Key], tuple[str, ...]]:
        if symbol.kind != "import":
            if symbol.kind == "class" and rest and rest[0] in symbol.members:
                return [(module, name), (module, f"{name}.{rest[0]}")], rest[1:]
            return [(module, name)], rest
        origin = symbol.chains[0]
        if depth > _DEEPEST:
            return [], ()
        keys, left = self._in_module(origin[0], (*origin[1:], *rest), depth + 1)
        return [(module, name), *keys], left

    def _in_module(self, module: str, chain: tuple[str, ...], depth: int) -> tuple[list[Key], tuple[str, ...]]:
        """What a chain names inside a module; nothing outside the packages, nor in the machinery."""
        while chain and module.partition(".")[0] in self.sources.packages:
            symbol = self.sources.symbols(module).get(chain[0]) if self.sources.is_ours(module) else None
            if symbol is not None:
                return self._bound(module, chain[0], symbol, chain[1:], depth)
            inner = f"{module}.{chain[0]}"
            if self.sources.place(inner) is None:
                if not self.sources.is_ours(module):
                    return [], ()
                found: list[Key] = []
                for star in self.sources.symbols(module).get("*", _NO_STARS).chains:
                    if depth <= _DEEPEST:
                        keys, left = self._in_module(star[0], chain, depth + 1)
                        if keys:
                            return [(module, "*"), *keys], left
                return found, ()
            module, chain = inner, chain[1:]
        return [], ()

    def _imported(self, target: tuple[str, ...]) -> list[Key]:
        return [] if len(target) == 1 else self._in_module(target[0], target[1:], 0)[0]

    # -- the result --------------------------------------------------------------------------------------------------
    def listed(self) -> tuple[Reached, ...]:
        """Every symbol reached, by file and name."""
        order = sorted(self.edges)
        position = {key: index for index, key in enumerate(order)}
        made: list[Reached] = []
        for key in order:
            place = self.sources.place(key[0])
            symbol = self.sources.symbols(key[0]).get(key[1])
            made.append(
                Reached(
                    key[0] if place is None else place.path,
                    key[1],
                    ABSENT if symbol is None else symbol.hash,
                    tuple(sorted([position[target] for target in self.edges[key]])),
                )
            )
        return tuple(made)

    def files(self) -> tuple[Place, ...]:
        """The files the closure reaches into."""
        modules = sorted({module for module, _ in self.edges})
        return tuple([place for module in modules if (place := self.sources.place(module)) is not None])


_NO_STARS = Symbol("*", "import", "", (), frozenset())


def changed(symbols: Sequence[Reached], among: Mapping[str, Path | None]) -> dict[int, str]:
    """The positions of the symbols that are not as recorded, of those in the files `among`, and how they differ."""
    parsed: dict[str, dict[str, Symbol] | str] = {}
    made: dict[int, str] = {}
    for position, held in enumerate(symbols):
        if held.path not in among:
            continue
        if not held.name:  # a whole file
            if whole_hash(among[held.path]) != held.hash:
                made[position] = "changed" if among[held.path] is not None else "is not installed"
            continue
        if held.path not in parsed:
            parsed[held.path] = _read(held.path, among[held.path])
        found = parsed[held.path]
        if isinstance(found, str):
            made[position] = found
            continue
        now = found.get(held.name)
        if (ABSENT if now is None else now.hash) != held.hash:
            made[position] = "was removed" if now is None else "was added" if held.hash == ABSENT else "changed"
    return made


def shown(held: Reached) -> str:
    """`path::name`, or the path of a whole file."""
    return f"{held.path}::{held.name}" if held.name else held.path


def whole_hash(file: Path | None) -> str:
    """The hash a file counts with as one symbol, as a kernel in another language does; empty when it is not there."""
    if file is None:
        return ""
    try:
        return file_hash(file.read_bytes())[:16]
    except OSError:
        return ""


def _read(path: str, file: Path | None) -> dict[str, Symbol] | str:
    if file is None:
        return "is not installed"
    try:
        module, is_package = module_of(path)
        return symbols_of(file.read_text(encoding="utf-8"), module, is_package=is_package)
    except FileNotFoundError:
        return "is not there"
    except (OSError, SyntaxError, ValueError) as error:
        return f"cannot be read ({type(error).__name__})"


def spoiled(symbols: Sequence[Reached], altered: Iterable[int]) -> set[int]:
    """Every symbol that reaches an altered one; linear in the edges."""
    backwards: dict[int, list[int]] = {}
    for position, held in enumerate(symbols):
        for target in held.edges:
            backwards.setdefault(target, []).append(position)
    made: set[int] = set()
    pending = list(altered)
    while pending:
        at = pending.pop()
        if at not in made:
            made.add(at)
            pending += backwards.get(at, ())
    return made


def reached_from(symbols: Sequence[Reached], roots: Iterable[int]) -> set[int]:
    """Every position that can be reached from the roots, themselves included."""
    made: set[int] = set()
    pending = list(roots)
    while pending:
        at = pending.pop()
        if at not in made:
            made.add(at)
            pending += symbols[at].edges
    return made
