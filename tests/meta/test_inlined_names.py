"""No function has a comprehension over a builtin's name next to one that calls the builtin: Python 3.12.0 and 3.12.1,
which inline both, take the second for a local name that has no value yet (`id`, of `{id: …}` and `[id(node) …]`).
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "torchlean"
Inlined = (ast.ListComp, ast.SetComp, ast.DictComp)
Scope = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def outermost(scope: ast.AST) -> Iterator[ast.AST]:
    """The comprehensions of a function that lie in no other, nor in a function inside it."""
    for child in ast.iter_child_nodes(scope):
        if isinstance(child, Inlined):
            yield child
        elif not isinstance(child, (*Scope, ast.ClassDef)):
            yield from outermost(child)


def locals_of(scope: ast.AST) -> set[str]:
    """Names the function itself gives a value."""
    found: set[str] = set()
    for child in ast.iter_child_nodes(scope):
        if isinstance(child, ast.arg):
            found.add(child.arg)
        elif isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
            found.add(child.id)
        elif not isinstance(child, (*Inlined, *Scope, ast.ClassDef)):
            found |= locals_of(child)
    return found


def names(node: ast.AST, context: type[ast.expr_context]) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, context)}


def faults(source: str) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    for scope in [node for node in ast.walk(ast.parse(source)) if isinstance(node, Scope)]:
        held = [(one, names(one, ast.Store), names(one, ast.Load)) for one in outermost(scope)]
        own = locals_of(scope)
        bound = [(one, name) for one, stored, _ in held for name in stored - own if hasattr(builtins, name)]
        found += [
            (one.lineno, name)  # type: ignore[attr-defined]
            for one, stored, loaded in held
            for other, name in bound
            if other is not one and name in loaded and name not in stored
        ]
    return found


def test_no_builtin_is_hidden_by_a_comprehension_beside_it() -> None:
    sources = sorted(PACKAGE.rglob("*.py"))
    assert len(sources) > 300
    assert [(path.name, *fault) for path in sources for fault in faults(path.read_text(encoding="utf-8"))] == []


def test_the_scan_finds_one() -> None:
    assert faults("def f(xs):\n    a = {id: 1 for id in xs}\n    return [id(x) for x in xs]") == [(3, "id")]
    assert faults("def f(xs):\n    return [[id for id in x] + [id(x)] for x in xs]") == []
    assert faults("def f(xs, id):\n    a = {id: 1 for id in xs}\n    return [id(x) for x in xs]") == []
    assert faults("def f(xs):\n    a = {i: 1 for i in xs}\n    return [id(x) for x in xs]") == []
