"""lower and jit: a function becomes an accepted plan and the generated program that runs it.

lower = trace → dead code elimination → plan → audit → accept → bind → emit. The result cannot be
transformed again; transform the function, then lower.
"""

from __future__ import annotations

import importlib
import inspect
import os
from collections.abc import Callable, Sequence
from functools import update_wrapper
from typing import Any, NoReturn

import numpy as np

from torchlean import pytree
from torchlean.backends.accept import accept
from torchlean.backends.collectives import Collectives
from torchlean.backends.compare import PlanDifference, compare
from torchlean.backends.cost import Cost, cost
from torchlean.backends.document import document
from torchlean.backends.executable import Executable
from torchlean.backends.explain import Explanation, explain_node, step_of
from torchlean.backends.grouping import collectives, stablehlo
from torchlean.backends.plan import Plan
from torchlean.backends.planner import plan
from torchlean.backends.profile import Profile
from torchlean.backends.profiles import checked_cpu
from torchlean.errors import ConfigError, PlanRejected, StructureError, TraceError, TypeRuleError, message
from torchlean.ir.builder import CURRENT, Builder, Value, answerer, scalar_array, type_of
from torchlean.ir.graph import Graph, Node
from torchlean.ir.location import caller_location
from torchlean.ir.operators import Operators
from torchlean.ir.printer import graph_text
from torchlean.ir.types import TensorType
from torchlean.transforms.api import trace_abstract
from torchlean.transforms.donating import Started, giving_up, leaf_positions
from torchlean.transforms.entry import make_entry
from torchlean.transforms.pulling import owned
from torchlean.transforms.rewrite import dead_code_eliminated
from torchlean.transforms.sharded import partitioning_of
from torchlean.transforms.trees import OutTree, function_name, normal_argnums

DIALECTS = ("torchlean", "planned", "python", "stablehlo")


class Lowered:
    """A lowered function: call it on trees of the types it was lowered for; StructureError or TypeRuleError names an
    argument that differs.

    `.graph` as traced, `.plan` what was accepted, `.audit` its obligations, `.source` the generated Python.
    """

    # What a call runs is a slot, so that Python goes there at once, not by way of a method that hands it on.
    __slots__ = ("__call__", "_in_tree", "_name", "_out", "_types", "executable", "graph")

    __call__: Callable[..., Any]

    def __init__(
        self,
        name: str,
        graph: Graph,
        executable: Executable,
        in_tree: Any,
        types: tuple[TensorType, ...],
        out: OutTree,
        donated: tuple[int, ...] = (),
    ) -> None:
        self._name = name
        self.graph = graph
        self.executable = executable
        self._in_tree = in_tree
        self._types = types
        self._out = out
        run = _followed(executable)
        started = Started() if donated else None
        self.__call__ = make_entry(
            in_tree,
            types,
            out,
            graph.output_types,
            run=run if started is None else started.noting(run),
            slow=self._host,
            other=self._other_tree,
            inside=self._inside,
        )
        if started is not None:
            self.__call__ = giving_up(self.__call__, donated, name, started)

    @property
    def plan(self) -> Plan:
        """The accepted plan."""
        return self.executable.plan

    @property
    def audit(self) -> Any:
        """The obligations of the plan, one report per contract."""
        return self.executable.audit

    @property
    def source(self) -> str:
        """The generated Python function."""
        return self.executable.source

    def as_text(self, dialect: str = "torchlean") -> str:
        """The program as text: "torchlean" is the traced graph, "planned" the graph that was planned, "python" the
        generated source, "stablehlo" what is planned on XLA. ConfigError names these for any other dialect.
        """
        if dialect == "torchlean":
            return graph_text(self.graph, max_nodes=None)
        if dialect == "planned":
            return graph_text(self.plan.graph, max_nodes=None)
        if dialect == "python":
            return self.source
        if dialect == "stablehlo":
            return self._stablehlo()
        raise ConfigError(
            message(
                f"unknown dialect {dialect!r} for the text of {self._name}",
                expected=", ".join(DIALECTS),
                got=repr(dialect),
                fix="use one of these; .as_json() has the graph, the plan and more as data",
            )
        )

    def _stablehlo(self) -> str:
        text = stablehlo(self.plan)
        if text is None:
            profile = self.plan.profile
            raise ConfigError(
                message(
                    f"{self._name} has no StableHLO text: none of its steps runs on XLA",
                    expected="a step of the provider xla",
                    got=f"profile {profile.name}: {', '.join([module.name for module in profile.modules])}",
                    fix="lower it with a profile that has the module torchlean.backends.xla.MODULE",
                )
            )
        return text

    def as_json(self) -> dict[str, Any]:
        """Graph, plan, audit, cost, source and provenance as plain data under a content hash; see backends/document.py.

        `backends.read_graph` reads the graph back from its text.
        """
        return document(self._name, self.graph, self.executable)

    def cost(self) -> Cost:
        """Operations, bytes moved and the most memory held, by step and in all."""
        return cost(self.executable.accepted)

    def collectives(self) -> Collectives:
        """What the devices of the profile's mesh exchange in one call, as the compiled module has it: kind, bytes and
        where. ConfigError without a mesh.
        """
        found = collectives(self.plan)
        if found is None:
            raise ConfigError(
                message(
                    f"{self._name} has no collectives: it runs on one device",
                    expected="a program of a profile with a mesh",
                    got=f"profile {self.plan.profile.name}",
                    fix="lower it with profile=xla.with_mesh(mesh)",
                )
            )
        return found

    def explain(self, which: int | str | Node) -> Explanation:
        """Every candidate for one step of the plan, and every reason against it.

        `which` is the step's position, the name of a value it makes (`"%7"`), or its node.
        """
        return explain_node(self.plan, step_of(self.plan, which).node)

    def diff(self, other: Lowered | Plan) -> PlanDifference:
        """What changed from this plan to another's, step by step, and why."""
        return compare(self.plan, other if isinstance(other, Plan) else other.plan)

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """One self-contained HTML file about this program: graph, plan, audit, source. `path`: write it there, too."""
        # Reports lie above this file; a method is where users look for them, so they are reached by name.
        report = importlib.import_module("torchlean.report")
        made: str = report.html(self)
        if path is not None:
            report.save(made, path)
        return made

    def _repr_html_(self) -> str:
        return importlib.import_module("torchlean.report").fragment(self)

    @property
    def in_types(self) -> Any:
        """The tree of argument types, as ((positional…), {keywords})."""
        return pytree.unflatten(self._in_tree, self._types)

    @property
    def out_types(self) -> Any:
        """The tree of result types."""
        return self._out.rebuild(self.graph.output_types)

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self.__call__)

    def _inside(self, trace: Builder) -> NoReturn:
        raise TraceError(
            message(
                f"{self._name} is lowered and was called inside a trace",
                expected="a call outside any trace: its result is an array, not a node",
                got=f"a call while {trace.name} is traced",
                fix="call it before the trace, or use the original function",
                where=str(caller_location()),
            )
        )

    def _host(self, leaf: Any, at: int, arguments: Any, keywords: Any) -> Any:
        """A leaf as a NumPy array of exactly the expected type."""
        type = self._types[at]
        if isinstance(leaf, Operators):
            if leaf.type != type or leaf.__class__ is Value:
                raise self._other_type(leaf, at, arguments, keywords)
            return leaf.host  # type: ignore[attr-defined]
        if isinstance(leaf, np.ndarray | np.generic):  # first: a numpy.float64 is a Python float too
            made = np.asarray(leaf)
        elif isinstance(leaf, bool | int | float | complex) and not type.shape:
            made = scalar_array(leaf)
        else:
            raise self._other_type(leaf, at, arguments, keywords)
        if made.shape != type.shape or made.dtype.newbyteorder("=") != type.dtype.carrier:
            raise self._other_type(leaf, at, arguments, keywords)
        return made.astype(type.dtype.carrier, copy=False)

    def _other_tree(self, arguments: Any, keywords: Any) -> NoReturn:
        expected = pytree.unflatten(self._in_tree, self._types)
        fault = pytree.differs(expected[0], arguments, "args") or pytree.differs(expected[1], keywords, "kwargs")
        raise StructureError(
            message(
                f"{self._name} was lowered for other arguments: {fault}",
                expected="the tree structure it was lowered with",
                got=str(fault),
                fix="lower it again for these arguments, or use tl.jit",
                where=str(caller_location()),
            )
        )

    def _other_type(self, leaf: Any, at: int, arguments: Any, keywords: Any) -> Exception:
        if pytree.structure((arguments, keywords)) != self._in_tree:  # None, or a list, where an array belongs
            self._other_tree(arguments, keywords)
        paths = pytree.paths(arguments, "args") + pytree.paths(keywords, "kwargs")
        if isinstance(leaf, Value):
            return TraceError(
                message(
                    f"{self._name} is lowered and was called on a traced {leaf.type} ({paths[at]})",
                    expected="arrays: a lowered function cannot be transformed",
                    got="a traced value",
                    fix="transform the original function, then lower the result",
                    where=str(caller_location()),
                )
            )
        try:
            got = str(type_of(leaf))
        except TypeRuleError:
            got = type(leaf).__name__
        return TypeRuleError(
            message(
                f"{self._name} was lowered for {self._types[at]} at {paths[at]} and got {got}",
                expected=str(self._types[at]),
                got=got,
                fix="convert the argument, lower it again, or use tl.jit",
                where=str(caller_location()),
            )
        )

    def __repr__(self) -> str:
        return f"<Lowered {self._name}: {len(self.plan.steps)} steps on {self.plan.profile.name}>"


def _followed(executable: Executable) -> Callable[..., Any]:
    """The program; of a profile with switches, one that asks first whether they still have the planned values."""
    profile, call = executable.plan.profile, executable.call
    if profile.switched_by is None:
        return call

    def followed(*arrays: Any) -> Any:
        drift = profile.drift()
        if drift is not None:
            raise PlanRejected(
                message(
                    f"{executable.plan.graph.name} was lowered in another environment: {drift}",
                    fix="lower it again (tl.jit does by itself), or set the variable back",
                    where=str(caller_location()),
                )
            )
        return call(*arrays)

    return followed


def lower(
    f: Callable[..., Any],
    *arguments: Any,
    profile: Profile | None = None,
    static_argnums: int | Sequence[int] = (),
    donate_argnums: int | Sequence[int] = (),
    in_shardings: Any = None,
    out_shardings: Any = None,
    **keywords: Any,
) -> Lowered:
    """Plan `f` for the types of these arguments (arrays, Python numbers or `TensorType`s) and generate its program.

    `profile` defaults to `checked_cpu`. Positions in `static_argnums` are passed to `f` as they are and fixed; the
    lowered function takes the others. Raises PlanRejected listing every reason when a node has no admissible capsule.

    Arguments at positions in `donate_argnums` are given up: a call releases torchlean arrays among them, whose later
    use is a HandleError, and a program of XLA may take their memory for its results.

    With a profile that has a mesh (`xla.with_mesh`), `in_shardings` says how the positional arguments lie on it and
    `out_shardings` how results do: trees of `jax.sharding.PartitionSpec`, or prefixes of such. None is an argument that
    is whole on every device, or a result that is left to the compiler.
    """
    chosen = checked_cpu if profile is None else profile
    traced = trace_abstract(owned(f, chosen.owner), arguments, keywords, static_argnums)
    static = _static(static_argnums, len(arguments), function_name(f))
    dynamic = tuple([argument for position, argument in enumerate(arguments) if position not in static])
    _, in_tree = pytree.flatten((dynamic, keywords))
    count = in_tree.num_leaves
    captured = traced.operands[count:]
    if captured:
        raise TraceError(
            message(
                f"lower of {function_name(f)}, which uses a traced {captured[0].type} of an enclosing trace",
                expected="a function of its arguments and of arrays",
                got="a captured traced value",
                fix="lower outside the trace, or pass the value as an argument",
                where=str(caller_location()),
            )
        )
    graph = dead_code_eliminated(traced.graph)
    out = traced.outs[0]
    placed = partitioning_of(function_name(f), chosen, graph, in_shardings, out_shardings, dynamic, keywords, out)
    given = _donated(donate_argnums, arguments, static, function_name(f))
    accepted = accept(plan(graph, chosen, placed, given))
    return Lowered(function_name(f), graph, Executable(accepted), in_tree, graph.input_types, out, given)


def _donated(
    donate_argnums: int | Sequence[int], arguments: tuple[Any, ...], static: tuple[int, ...], what: str
) -> tuple[int, ...]:
    """Positions of donated leaves among those of the arguments that stay."""
    if not isinstance(donate_argnums, int) and not len(donate_argnums):
        return ()
    chosen = normal_argnums(donate_argnums, len(arguments), what, "donate_argnums")
    fixed = sorted({*chosen} & {*static})
    if fixed:
        raise ConfigError(
            message(
                f"{what}: argument {fixed[0]} is donated and static",
                expected="arrays in donate_argnums",
                got=f"{fixed[0]} in static_argnums, too",
                fix="drop it from one of them",
                where=str(caller_location()),
            )
        )
    kept = [position for position in range(len(arguments)) if position not in static]
    return leaf_positions([arguments[at] for at in kept], [at for at, one in enumerate(kept) if one in chosen])


def _static(static_argnums: int | Sequence[int], count: int, what: str) -> tuple[int, ...]:
    if isinstance(static_argnums, int) or len(static_argnums):
        return normal_argnums(static_argnums, count, what, "static_argnums")
    return ()


class Jitted:
    """A function lowered on first use for each combination of argument types; see `jit`."""

    def __init__(
        self,
        f: Callable[..., Any],
        profile: Profile | None,
        static_argnums: int | Sequence[int],
        donate_argnums: int | Sequence[int] = (),
    ) -> None:
        self._function = f
        self._donated = donate_argnums
        self._profile = profile
        self._has_switches = profile is not None and profile.has_switches
        self._static = static_argnums
        self._lowered: dict[Any, Lowered] = {}
        update_wrapper(self, f, updated=())  # not its attributes, which may be named as ours are

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        if CURRENT.get().__class__ is Builder:
            return self._function(*arguments, **keywords)  # inside a trace: one graph, planned as a whole
        leaves, treedef = pytree.flatten((arguments, keywords))
        static = _static(self._static, len(arguments), function_name(self._function))
        if static:
            fixed = tuple([arguments[position] for position in static])
            arguments_left = tuple([a for position, a in enumerate(arguments) if position not in static])
            leaves, treedef = pytree.flatten((arguments_left, keywords))
        else:
            fixed, arguments_left = (), arguments
        try:
            types = tuple([type_of(leaf) for leaf in leaves])
        except TypeRuleError:
            self.lower(*arguments, **keywords)  # says which argument
            raise
        key = (
            treedef,
            fixed,
            types,
            answerer().watch is not None,
            self._environment(),
        )  # a watched trace notes which keys it uses
        try:
            found = self._lowered.get(key)
        except TypeError:
            raise TypeRuleError(
                message(
                    f"jit of {function_name(self._function)}: a static argument cannot be hashed",
                    expected="hashable static arguments",
                    got=", ".join(type(argument).__name__ for argument in fixed),
                    fix="pass a tuple instead of a list, or make the argument dynamic",
                    where=str(caller_location()),
                )
            ) from None
        if found is None:
            found = self.lower(*arguments, **keywords)
            self._lowered[key] = found
        return found(*arguments_left, **keywords)

    def _environment(self) -> Any:
        """The values of the profile's switches, by which programs are told apart; None without switches."""
        return self._profile.environment() if self._has_switches and self._profile is not None else None

    def lower(self, *arguments: Any, **keywords: Any) -> Lowered:
        """The lowered function for these arguments' types."""
        return lower(
            self._function,
            *arguments,
            profile=self._profile,
            static_argnums=self._static,
            donate_argnums=self._donated,
            **keywords,
        )


def jit(
    f: Callable[..., Any],
    *,
    profile: Profile | None = None,
    static_argnums: int | Sequence[int] = (),
    donate_argnums: int | Sequence[int] = (),
) -> Jitted:
    """`f`, lowered once for each combination of argument trees, types and static values, and run from then on.
    `donate_argnums` as of `lower`.

    Python side effects of `f` happen when it is traced, not when it is called. Under a trace it is `f` itself.
    """
    return Jitted(f, profile, static_argnums, donate_argnums)
