"""`tl.explain`: why a kernel runs, for one op or for every op of a function, whether or not a plan of it exists."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

from torchlean.backends.explain import Explanation, Outcome, known_ops, op_named
from torchlean.backends.explain import explain as explain_op
from torchlean.backends.profile import Profile
from torchlean.backends.profiles import checked_cpu
from torchlean.backends.vocabulary import is_derivative
from torchlean.errors import ConfigError, TypeRuleError, message
from torchlean.ir.builder import type_fault_error, type_of
from torchlean.ir.graph import Graph, sub_graphs
from torchlean.ir.location import SourceLocation, caller_location
from torchlean.ir.op import NO_PARAMS, NoParams, Op, TypeFault
from torchlean.ir.ops.composite import Composed, Composite, call
from torchlean.ir.printer import folded_html
from torchlean.ir.tracing import trace_flat
from torchlean.ir.types import TensorType
from torchlean.transforms.api import trace_abstract, vjp
from torchlean.transforms.rewrite import dead_code_eliminated
from torchlean.transforms.trees import function_name


class Kind:
    """The calls of a function that are explained alike: equal op, params and operand types."""

    __slots__ = ("count", "depth", "explanation", "where")

    def __init__(self, explanation: Explanation, depth: int, where: SourceLocation) -> None:
        self.explanation = explanation
        self.depth = depth  # 1 and more inside the bodies of composites that are expanded, and of control flow
        self.where = where
        self.count = 0


class ProgramExplanation:
    """What becomes of each op of a function, in order of first use. Iterates over explanations; print to read."""

    __slots__ = ("kinds", "name", "profile")

    def __init__(self, name: str, profile: Profile, kinds: tuple[Kind, ...]) -> None:
        self.name = name
        self.profile = profile
        self.kinds = kinds

    def __iter__(self) -> Iterator[Explanation]:
        return iter([kind.explanation for kind in self.kinds])

    def __len__(self) -> int:
        return len(self.kinds)

    @property
    def refused(self) -> tuple[Explanation, ...]:
        """What makes a plan impossible: ops that no capsule may run and that have no body."""
        return tuple([each for each in self if each.outcome is Outcome.REFUSED])

    def text(self) -> str:
        """A line per kind of call, and below it why the capsules before the chosen one do not run it."""
        profile = self.profile
        modules = ", ".join([module.name for module in profile.modules])
        lines = [f"{self.name} on profile {profile.name}, device {profile.device}; modules in order: {modules}"]
        rows = [
            (f"{'  ' * kind.depth}{kind.explanation.call}", f"×{kind.count}", _becomes(kind.explanation))
            for kind in self.kinds
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)] if rows else []
        for row, kind in zip(rows, self.kinds, strict=True):
            lines.append(("  " + "  ".join(map(str.ljust, row, widths))).rstrip())
            for candidate in kind.explanation:
                if not candidate.refusals:
                    break
                lines += [f"  {'  ' * kind.depth}   {refusal}" for refusal in candidate.refusals]
        refused = [each.call for each in self.refused]
        lines.append(f"  → a plan is refused: nothing runs {', '.join(refused)}" if refused else "  → a plan exists")
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        """The explanation as plain data."""
        return {
            "function": self.name,
            "profile": self.profile.name,
            "device": str(self.profile.device),
            "calls": [
                {"count": kind.count, "depth": kind.depth, "where": str(kind.where), **kind.explanation.as_json()}
                for kind in self.kinds
            ],
        }

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<ProgramExplanation {self.name}: {len(self.kinds)} kinds of call, {len(self.refused)} refused>"

    def _repr_html_(self) -> str:
        return folded_html(repr(self).strip("<>"), self.text())


def _becomes(explanation: Explanation) -> str:
    chosen = explanation.chosen
    return str(explanation.outcome) if chosen is None else chosen.name


def explain(
    what: Callable[..., Any] | Op | str, *arguments: Any, profile: Profile | None = None, **keywords: Any
) -> Explanation | ProgramExplanation:
    """Why each kernel of `what` would run under `profile` (`checked_cpu`), or why none does.

    `what` is a function of the arguments (arrays, numbers or `TensorType`s), or an op or its name; then the arguments
    are its operands and the keywords its params or attributes: `tl.explain("reduce_sum", x, axes=(0,))`.
    """
    wanted = (checked_cpu if profile is None else profile).switched()
    if isinstance(what, str | Op):
        op = op_named(what, wanted) if isinstance(what, str) else what
        types = tuple(
            [type_of(argument) if not isinstance(argument, TensorType) else argument for argument in arguments]
        )
        return explain_op(op, _params(op, types, keywords, wanted), types, wanted)
    graph = dead_code_eliminated(trace_abstract(what, arguments, keywords, ()).graph)
    return explain_graph(graph, wanted, function_name(what))


def explain_graph(graph: Graph, profile: Profile, name: str) -> ProgramExplanation:
    """Every kind of call of a graph, in order of first use; bodies are entered where planning enters them."""
    kinds: dict[Any, Kind] = {}
    pending: list[tuple[Graph, int, int]] = [(graph, 0, 0)]
    while pending:
        current, at, depth = pending.pop()
        if at == len(current.nodes):
            continue
        pending.append((current, at + 1, depth))
        node = current.nodes[at]
        key = (node.op, node.params, tuple([current.types[id] for id in node.inputs]))
        kind = kinds.get(key)
        if kind is None:
            kind = kinds[key] = Kind(explain_op(*key, profile), depth, node.where)
        kind.count += 1
        outcome = kind.explanation.outcome
        if outcome is Outcome.EXPANDED or (outcome is Outcome.CHOSEN and not isinstance(node.op, Composite)):
            held = [body for _, body in sub_graphs(node.params)]
            pending += [(dead_code_eliminated(body), 0, depth + 1) for body in reversed(held)]
    return ProgramExplanation(name, profile, tuple(kinds.values()))


# -- the params of an op -----------------------------------------------------------------------------------------------
def _params(op: Op, types: tuple[TensorType, ...], keywords: dict[str, Any], profile: Profile) -> Any:
    """The params that keywords and operand types give; ConfigError names what is missing or unknown."""
    if op.params is Composed:
        return _composed(op, types, keywords, profile)
    fields = [] if op.params is NoParams else list(getattr(op.params, "__dataclass_fields__", {}))
    if sorted(keywords) != sorted(fields):
        raise _other_keywords(op, fields, keywords)
    made = op.params(**keywords) if fields else NO_PARAMS
    try:
        op.type_rule(made, *types)
    except TypeFault as fault:
        raise type_fault_error(op, types, fault, caller_location()) from None
    return made


def _other_keywords(op: Op, fields: list[str], keywords: dict[str, Any]) -> ConfigError:
    return ConfigError(
        message(
            f"explain of {op.name} needs its params as keywords",
            expected=", ".join(fields) or "none",
            got=", ".join(keywords) or "none",
            fix="give these, or explain a function that calls the op",
            where=str(caller_location()),
        )
    )


def _composed(op: Op, types: tuple[TensorType, ...], keywords: dict[str, Any], profile: Profile) -> Composed:
    """The params of a composite, whose body is traced; of a derivative, by tracing the composite's VJP."""
    base = op
    if is_derivative(op):
        base = known_ops(profile)[op.name.removesuffix(".vjp")]
    if not isinstance(base, Composite):
        raise _other_keywords(op, [], keywords)
    wanted = [
        name
        for name, held in inspect.signature(base.function).parameters.items()
        if held.kind is held.KEYWORD_ONLY and (held.default is held.empty or name in keywords)
    ]
    if sorted(keywords) != sorted(wanted):
        raise _other_keywords(op, wanted, keywords)
    made = base

    def forward(*values: Any) -> Any:
        return call(made, *values, **keywords)

    if base is op:
        graph = trace_flat(lambda *values: _flat(forward(*values)), types, name=op.name).graph
    else:
        graph = _pulled_back(op, forward, types)
    return next(node.params for node in graph.nodes if node.op is op)


def _flat(made: Any) -> tuple[Any, ...]:
    return tuple(made) if isinstance(made, tuple | list) else (made,)


def _pulled_back(op: Op, forward: Callable[..., Any], types: tuple[TensorType, ...]) -> Graph:
    """The graph of a composite's VJP, whose operands are the composite's and the cotangents of its results."""
    for count in range(len(types) - 1, 0, -1):
        try:
            made = trace_flat(lambda *values: _flat(forward(*values)), types[:count], name=op.name).graph
        except TypeRuleError:
            continue
        if made.output_types == types[count:]:
            return trace_flat(lambda *values, at=count: _cotangents(forward, values, at), types, name=op.name).graph
    raise ConfigError(
        message(
            f"explain of {op.name}: these are not its operands",
            expected=f"the operands of {op.name.removesuffix('.vjp')}, then the cotangents of its results",
            got=", ".join(map(str, types)) or "none",
            fix="give the operands of the forward op first",
            where=str(caller_location()),
        )
    )


def _cotangents(forward: Callable[..., Any], values: tuple[Any, ...], count: int) -> tuple[Any, ...]:
    _, pull = vjp(forward, *values[:count])
    given = values[count:]
    return _flat(pull(given[0] if len(given) == 1 else tuple(given)))
