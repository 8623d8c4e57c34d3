"""One source file as symbols: for each top-level name, and each method, a hash of what it does and what it refers to.

The hash is of the syntax tree in a form that no Python version changes, without docstrings; comments and layout are not
in a tree. An op's record is two symbols: `EXP` without its derivative rules, and `EXP@rules` with nothing else, so that
a derivative can change without a claim about values. A class is its fields and decorators; each method is its own.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator

from torchlean.record import record

RULES = "@rules"
_OP_MARKS = frozenset({"denote", "type_rule", "diff", "partial", "partials"})  # a call with one of them makes an op
_DERIVATIVES = frozenset({"diff", "partial", "partials", "slope", "jvp", "vjp", "gradient", "reduces_in_gradient"})
_UNCLAIMED = frozenset({"batch", "doc"})  # no contract speaks of batching
_UNSEEN = frozenset({"ctx", "kind", "type_comment"})
_Definition = ast.FunctionDef | ast.AsyncFunctionDef


@record
class Symbol:
    """`chains` are dotted names it refers to outside itself; `attributes` are names it asks of objects it was given.
    `kind` is function, method, class, value or import; an import's only chain is (module,) or (module, name), and the
    first part of a chain that a local import binds is `=module`. `members` are a class's methods, `bases` its bases.
    """

    name: str
    kind: str
    hash: str
    chains: tuple[tuple[str, ...], ...]
    attributes: frozenset[str]
    members: frozenset[str] = frozenset()
    bases: tuple[tuple[str, ...], ...] = ()


def digest(text: str) -> str:
    """64 bits of SHA-256 in hexadecimal: enough against accidents, which is all this guards against."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def file_hash(data: bytes) -> str:
    """The hash of a file, whatever the system's line ends."""
    return hashlib.sha256(data.replace(b"\r\n", b"\n")).hexdigest()


def symbols_of(text: str, module: str, *, is_package: bool) -> dict[str, Symbol]:
    """The symbols of a source text by name. Star imports are the symbol `*`. SyntaxError is the caller's to handle."""
    package = module if is_package else module.rpartition(".")[0]
    statements: dict[str, list[ast.stmt]] = {}
    made: dict[str, Symbol] = {}
    stars: list[str] = []
    for statement in ast.parse(text).body:
        for inner in _imports(statement):
            if isinstance(inner, ast.ImportFrom) and inner.names[0].name == "*":
                stars.append(_origin(inner, package))
            else:
                for name, target in _bound_by(inner, package):
                    made[name] = Symbol(name, "import", digest(f"import {'.'.join(target)}"), (target,), frozenset())
        if not isinstance(statement, ast.Import | ast.ImportFrom):
            for name in names_of(statement):
                statements.setdefault(name, []).append(statement)
    if stars:
        made["*"] = Symbol("*", "import", digest(f"import * {stars}"), tuple([(star,) for star in stars]), frozenset())
    known = frozenset(statements) | frozenset(made)
    for name, held in statements.items():
        if name not in made:
            made.update(_symbols(name, held, package, known))
    return made


def _symbols(name: str, statements: list[ast.stmt], package: str, known: frozenset[str]) -> dict[str, Symbol]:
    made: dict[str, Symbol] = {}
    last = statements[-1]
    if len(statements) == 1 and isinstance(last, ast.ClassDef):
        methods = [part for part in last.body if isinstance(part, _Definition)]
        grouped: dict[str, list[ast.AST]] = {}
        for method in methods:  # a property and its setter share a name
            grouped.setdefault(method.name, []).append(method)
        for each, parts in grouped.items():
            made[f"{name}.{each}"] = _symbol(f"{name}.{each}", "method", parts, package, known)
        rest = [part for part in last.body if not isinstance(part, _Definition) and not _is_docstring(part)]
        special = sorted(each for each in grouped if each.startswith("__"))
        head: list[ast.AST] = [*last.decorator_list, *last.bases, *last.keywords, *rest]
        bases = tuple([chain for base in last.bases if (chain := _dotted(base)) is not None])
        made[name] = _symbol(
            name, "class", head, package, known, more=f"{special}", members=frozenset(grouped), bases=bases
        )
        return made
    kind = "function" if isinstance(last, _Definition) else "value"
    made[name] = _symbol(name, kind, statements, package, known)
    rules = [value for statement in statements for value in _rules_in(statement)]
    if rules:
        made[name + RULES] = _symbol(name + RULES, kind, rules, package, known)
    return made


def _symbol(
    name: str,
    kind: str,
    nodes: Iterable[ast.AST],
    package: str,
    known: frozenset[str],
    *,
    more: str = "",
    members: frozenset[str] = frozenset(),
    bases: tuple[tuple[str, ...], ...] = (),
) -> Symbol:
    listed = list(nodes)
    reader = _Reader(package)
    for node in listed:
        reader.read(node, ())
    builtin = sorted({chain[0] for chain in reader.chains if chain[0] not in known and not chain[0].startswith("=")})
    text = "".join([normal(node) for node in listed])
    return Symbol(
        name,
        kind,
        digest(f"{kind} {more} {builtin} {text}"),
        tuple(sorted(reader.chains)),
        frozenset(reader.attributes),
        members,
        bases,
    )


# -- the syntax tree ---------------------------------------------------------------------------------------------------
def normal(node: ast.AST) -> str:
    """The tree as text: class names and fields, empty ones left out, without docstrings, derivative rules and docs."""
    parts: list[str] = []
    _write(node, parts)
    return "".join(parts)


def _write(node: object, parts: list[str]) -> None:
    if isinstance(node, ast.AST):
        parts.append(f"({type(node).__name__}")
        for field in node._fields:
            held = getattr(node, field, None)
            if held is None or held == [] or field in _UNSEEN:
                continue
            if field == "body" and isinstance(held, list) and held and _is_docstring(held[0]):
                held = held[1:]
            if field == "keywords" and isinstance(node, ast.Call):
                held = [keyword for keyword in node.keywords if not _is_rule(node, keyword)]
            parts.append(f" {field}=")
            _write(held, parts)
        parts.append(")")
    elif isinstance(node, list):
        parts.append("[")
        for part in node:
            _write(part, parts)
        parts.append("]")
    else:
        parts.append(f"{type(node).__name__}:{node!r}")


def _is_docstring(node: object) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _makes_op(call: ast.Call) -> bool:
    return any(keyword.arg in _OP_MARKS or keyword.arg == "reduces" for keyword in call.keywords)


def _is_rule(call: ast.Call, keyword: ast.keyword) -> bool:
    return (keyword.arg in _DERIVATIVES or keyword.arg in _UNCLAIMED) and _makes_op(call)


def _rules_in(statement: ast.stmt) -> list[ast.AST]:
    """The values of the derivative keywords of every op made in a statement."""
    return [
        keyword.value
        for node in ast.walk(statement)
        if isinstance(node, ast.Call) and _makes_op(node)
        for keyword in node.keywords
        if keyword.arg in _DERIVATIVES
    ]


# -- names -------------------------------------------------------------------------------------------------------------
def _imports(statement: ast.stmt) -> Iterator[ast.Import | ast.ImportFrom]:
    """The imports a top-level statement makes, also under `if` and `try`."""
    if isinstance(statement, ast.Import | ast.ImportFrom):
        yield statement
    elif isinstance(statement, ast.If | ast.Try | ast.With):
        for part in ast.iter_child_nodes(statement):
            if isinstance(part, ast.stmt):
                yield from _imports(part)
            elif isinstance(part, ast.ExceptHandler):
                for inner in part.body:
                    yield from _imports(inner)


def _origin(node: ast.ImportFrom, package: str) -> str:
    """The absolute name of the module a `from` import reads."""
    if not node.level:
        return node.module or ""
    base = package.split(".")
    base = base[: len(base) - (node.level - 1)]
    return ".".join([*base, node.module] if node.module else base)


def _bound_by(node: ast.Import | ast.ImportFrom, package: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each name an import binds, with (module,) or (module, name)."""
    for alias in node.names:
        if isinstance(node, ast.ImportFrom):
            yield alias.asname or alias.name, (_origin(node, package), alias.name)
        else:
            yield (
                alias.asname or alias.name.partition(".")[0],
                (alias.name if alias.asname else alias.name.partition(".")[0],),
            )


def names_of(statement: ast.stmt) -> list[str]:
    """The names a top-level statement defines or alters: `T = …`, `T[k] = …`, `T.append(…)`, `def f`, `class C`."""
    if isinstance(statement, _Definition | ast.ClassDef):
        return [statement.name]
    if isinstance(statement, ast.Expr):
        call = statement.value
        target = call.func if isinstance(call, ast.Call) else None
        return [held[0]] if isinstance(target, ast.Attribute) and (held := _dotted(target)) is not None else []
    found: dict[str, None] = {}
    for node in _outside_functions(statement):
        if isinstance(node, _Definition | ast.ClassDef):
            found[node.name] = None
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
            found[node.id] = None
        elif isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
            chain = _dotted(node.value)
            if chain is not None:
                found[chain[0]] = None
    return list(found)


def _outside_functions(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    if not isinstance(node, _Definition | ast.ClassDef | ast.Lambda):
        for part in ast.iter_child_nodes(node):
            yield from _outside_functions(part)


def _dotted(node: ast.AST) -> tuple[str, ...] | None:
    """`a.b.c` as (a, b, c); a subscript counts as what is subscripted; None for anything else."""
    if isinstance(node, ast.Subscript):
        return _dotted(node.value)
    if isinstance(node, ast.Name):
        return (node.id,)
    if isinstance(node, ast.Attribute):
        base = _dotted(node.value)
        return None if base is None else (*base, node.attr)
    return None


class _Reader:
    """Collects the chains that leave a piece of code, and the attributes it asks of objects."""

    def __init__(self, package: str) -> None:
        self.package = package
        self.chains: set[tuple[str, ...]] = set()
        self.attributes: set[str] = set()

    def read(self, node: ast.AST, scopes: tuple[dict[str, tuple[str, ...] | None], ...]) -> None:
        if isinstance(node, ast.Call) and _makes_op(node):
            kept = [keyword for keyword in node.keywords if not _is_rule(node, keyword)]
            for part in (node.func, *node.args, *kept):
                self.read(part, scopes)
            return
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Load):
                self._chain((node.id,), scopes)
            return
        if isinstance(node, ast.Attribute):
            chain: tuple[str, ...] | None = None
            if not isinstance(node.value, ast.Subscript):
                chain = _dotted(node)
            if chain is None:
                self.attributes.add(node.attr)
                self.read(node.value, scopes)
            else:
                self._chain(chain, scopes)
            return
        if isinstance(node, _Definition | ast.Lambda):
            outside = [*node.args.defaults, *[d for d in node.args.kw_defaults if d is not None]]
            if isinstance(node, _Definition):
                outside += node.decorator_list
            for part in outside:
                self.read(part, scopes)
            inner = (*scopes, self._locals(node))
            for part in _arguments(node):
                if part.annotation is not None:
                    self.read(part.annotation, scopes)
            if isinstance(node, ast.Lambda):
                self.read(node.body, inner)
                return
            if node.returns is not None:
                self.read(node.returns, scopes)
            for statement in node.body:
                if not _is_docstring(statement):
                    self.read(statement, inner)
            return
        if isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
            bound: dict[str, tuple[str, ...] | None] = {}
            for generator in node.generators:
                for part in ast.walk(generator.target):
                    if isinstance(part, ast.Name):
                        bound[part.id] = None
            scopes = (*scopes, bound)
        for part in ast.iter_child_nodes(node):
            self.read(part, scopes)

    def _chain(self, chain: tuple[str, ...], scopes: tuple[dict[str, tuple[str, ...] | None], ...]) -> None:
        for scope in reversed(scopes):
            if chain[0] in scope:
                origin = scope[chain[0]]
                if origin is None:
                    self.attributes.update(chain[1:])
                else:
                    self.chains.add((f"={origin[0]}", *origin[1:], *chain[1:]))
                return
        self.chains.add(chain)

    def _locals(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> dict[str, tuple[str, ...] | None]:
        """The names a function binds itself; those its imports bind come with their origin."""
        bound: dict[str, tuple[str, ...] | None] = dict.fromkeys([part.arg for part in _arguments(node)])
        if isinstance(node, ast.Lambda):
            return bound
        declared: set[str] = set()
        for statement in node.body:
            for part in _outside_functions(statement):
                if isinstance(part, _Definition | ast.ClassDef):
                    bound[part.name] = None
                elif isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                    bound.setdefault(part.id, None)
                elif isinstance(part, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and part.name is not None:
                    bound[part.name] = None
                elif isinstance(part, ast.MatchMapping) and part.rest is not None:
                    bound[part.rest] = None
                elif isinstance(part, ast.Global | ast.Nonlocal):
                    declared.update(part.names)
                elif isinstance(part, ast.Import | ast.ImportFrom):
                    bound.update(dict(_bound_by(part, self.package)))
        return {name: origin for name, origin in bound.items() if name not in declared}


def _arguments(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> list[ast.arg]:
    given = node.args
    rest = [part for part in (given.vararg, given.kwarg) if part is not None]
    return [*given.posonlyargs, *given.args, *given.kwonlyargs, *rest]
