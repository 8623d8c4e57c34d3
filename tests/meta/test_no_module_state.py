"""Nothing in the package is mutable at module level, except the one ContextVar in `ir/builder.py`.

An AST scan: no `global`, no attributes assigned to functions or imported names, no caches keyed by arguments, and no
list, dict, set or other mutable object bound in a module or class body unless inside `MappingProxyType`, `tuple` or
`frozenset`. The scan is itself tested on seeded violations.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "torchlean"
CONTEXT_VAR_HOME = "ir/builder.py"

FREEZERS = frozenset({"MappingProxyType", "tuple", "frozenset"})
MUTABLE_MAKERS = frozenset(
    {
        "list",
        "dict",
        "set",
        "bytearray",
        "defaultdict",
        "OrderedDict",
        "Counter",
        "ChainMap",
        "deque",
        "array",
        "count",
        "cycle",
        "Lock",
        "RLock",
        "local",
        "WeakKeyDictionary",
        "WeakValueDictionary",
        "WeakSet",
        "SimpleNamespace",
    }
)
CACHES = frozenset({"cache", "lru_cache", "singledispatch"})
DISPLAYS = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp, ast.GeneratorExp)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def faults(source: str, name: str) -> list[str]:
    """Return one line per violation in the module `source`, which is at `name` below the package."""
    tree = ast.parse(source)
    found = [*state_bound(tree), *attributes_on_functions(tree), *forbidden_names(tree, name)]
    return [f"{name}:{line}: {what}" for line, what in sorted(found)]


def state_bound(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Mutable objects bound in the body of the module or of a class in it."""
    for statement in body_statements(tree.body):
        if isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign) and statement.value is not None:
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
                continue
            if (what := mutable(statement.value)) is not None:
                yield statement.lineno, f"mutable state: {what} bound to {ast.unparse(targets[0])}"


def body_statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Every statement run at import: through `if`, `try`, `with`, loops and class bodies, not into functions."""
    for statement in body:
        yield statement
        for field in ("body", "orelse", "finalbody"):
            if not isinstance(statement, FUNCTIONS):
                yield from body_statements(getattr(statement, field, []))
        for handler in getattr(statement, "handlers", []):
            yield from body_statements(handler.body)


def mutable(value: ast.expr) -> str | None:
    """Return what is mutable in `value`, or None."""
    match value:
        case ast.Call(func=func, args=[argument]) if called(func) in FREEZERS:
            return next(filter(None, map(mutable, children(argument))), None)
        case ast.Call(func=func) if called(func) in MUTABLE_MAKERS:
            return f"{called(func)}(…)"
        case ast.Call():
            return None
        case ast.Tuple() | ast.IfExp() | ast.BoolOp() | ast.NamedExpr() | ast.Starred():
            return next(filter(None, map(mutable, children(value))), None)
        case _ if isinstance(value, DISPLAYS):
            return type(value).__name__
    return None


def children(value: ast.expr) -> list[ast.expr]:
    """The sub-expressions whose values `value` holds or may be."""
    if isinstance(value, ast.ListComp | ast.SetComp | ast.GeneratorExp):
        return [value.elt]
    if isinstance(value, ast.DictComp):
        return [value.value]
    if isinstance(value, ast.Dict):
        return value.values
    return [child for child in ast.iter_child_nodes(value) if isinstance(child, ast.expr)]


def called(func: ast.expr) -> str | None:
    match func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Subscript(value=value):  # dict[str, int]()
            return called(value)
    return None


def attributes_on_functions(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Assignments to an attribute of a function of this module, or of anything imported.

    A function made inside another one is a new object at every call, and not shared.
    """
    methods = {id(node) for owner in ast.walk(tree) if isinstance(owner, ast.ClassDef) for node in owner.body}
    statements = body_statements(tree.body)
    shared = {node.name for node in statements if isinstance(node, FUNCTIONS) and id(node) not in methods}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            shared |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=owner), ctx=ast.Store() | ast.Del()) if owner in shared:
                yield node.lineno, f"attribute assigned: {owner}.{node.attr}"
            case ast.Call(func=ast.Name(id="setattr"), args=[ast.Name(id=owner), *_]) if owner in shared:
                yield node.lineno, f"attribute assigned: setattr({owner}, …)"


def forbidden_names(tree: ast.Module, name: str) -> Iterator[tuple[int, str]]:
    """`global`, argument caches, and context variables outside their one home."""
    for node in ast.walk(tree):
        match node:
            case ast.Global(names=names):
                yield node.lineno, f"global {', '.join(names)}"
            case ast.ImportFrom(module="functools", names=names):
                yield from ((node.lineno, f"functools.{alias.name}") for alias in names if alias.name in CACHES)
            case ast.Attribute(value=ast.Name(id="functools"), attr=attr) if attr in CACHES:
                yield node.lineno, f"functools.{attr}"
            case ast.Call(func=func) if called(func) == "ContextVar" and name != CONTEXT_VAR_HOME:
                yield node.lineno, f"ContextVar outside {CONTEXT_VAR_HOME}"


MODULES = sorted(PACKAGE.rglob("*.py"))


def test_there_is_something_to_scan() -> None:
    assert len(MODULES) >= 3


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_the_module_holds_no_mutable_state(path: Path) -> None:
    assert faults(path.read_text(), path.relative_to(PACKAGE).as_posix()) == []


def test_there_is_at_most_one_context_variable() -> None:
    calls = [
        node
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and called(node.func) == "ContextVar"
    ]
    assert len(calls) <= 1


VIOLATIONS = (
    ("def f():\n    global x", "global x"),
    ("def f(): ...\nf.calls = 0", "attribute assigned: f.calls"),
    ("def f():\n    def g(): ...\n    h = f\n    f.out = 1", "attribute assigned: f.out"),
    ("def f(): ...\nsetattr(f, 'calls', 0)", "attribute assigned: setattr(f, …)"),
    ("import numpy as np\nnp.strict = True", "attribute assigned: np.strict"),
    ("def f(): ...\nf.calls += 1", "attribute assigned: f.calls"),
    ("seen = []", "mutable state: List bound to seen"),
    ("TABLE = {}", "mutable state: Dict bound to TABLE"),
    ("TABLE: dict[str, int] = {'a': 1}", "mutable state: Dict bound to TABLE"),
    ("names = {n for n in 'ab'}", "mutable state: SetComp bound to names"),
    ("squares = (n * n for n in range(3))", "mutable state: GeneratorExp bound to squares"),
    ("cache = dict[str, int]()", "mutable state: dict(…) bound to cache"),
    ("from collections import deque\nlast = deque(maxlen=3)", "mutable state: deque(…) bound to last"),
    ("import itertools\nids = itertools.count()", "mutable state: count(…) bound to ids"),
    ("PAIR = ([], 1)", "mutable state: List bound to PAIR"),
    ("CHOICE = [] if True else ()", "mutable state: List bound to CHOICE"),
    ("TABLE = MappingProxyType({'a': []})", "mutable state: List bound to TABLE"),
    (
        "if True:\n    try:\n        seen = []\n    except ValueError:\n        pass",
        "mutable state: List bound to seen",
    ),
    ("try:\n    pass\nexcept ValueError:\n    seen = []", "mutable state: List bound to seen"),
    ("class A:\n    seen = []", "mutable state: List bound to seen"),
    ("from functools import lru_cache", "functools.lru_cache"),
    ("import functools\n@functools.cache\ndef f(): ...", "functools.cache"),
    ("X = ContextVar('x')", "ContextVar outside ir/builder.py"),
)


@pytest.mark.parametrize(("source", "what"), VIOLATIONS)
def test_the_scan_sees(source: str, what: str) -> None:
    found = faults(source, "example.py")
    assert len(found) == 1
    assert found[0].split(": ", 1)[1] == what


ALLOWED = (
    "__all__ = ['a']",
    "TABLE = MappingProxyType({'a': (1, 2)})",
    "NAMES = frozenset({'a'})\nROWS = tuple([n for n in range(3)])\nALSO = frozenset(n for n in range(3))",
    "OPS = (1, 2, 3)",
    "def f():\n    seen = []\n    return seen",
    "class A:\n    def f(self):\n        self.seen = []\n    def seen(self, other):\n        other.f = {}",
    "from functools import cached_property, partial",
    "total = sum([1, 2])",
    "def f():\n    def g(): ...\n    g.__name__ = 'h'\n    return g",
)


@pytest.mark.parametrize("source", ALLOWED)
def test_the_scan_allows(source: str) -> None:
    assert faults(source, "example.py") == []


def test_the_one_context_variable_is_allowed_in_its_home() -> None:
    assert faults("CURRENT = ContextVar('current')", CONTEXT_VAR_HOME) == []
