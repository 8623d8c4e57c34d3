"""Planning: choose the first admissible capsule of each node; else expand the composite; else refuse, saying why.

A composite's own kernel gives way to modules in front of its own that serve every node of its body.

Linear in the nodes: bodies are walked with an explicit stack, and reasons are computed once per (op, params, operand
types). The sub-graphs of control flow get plans of their own, one per different graph; only their nesting recurses.
Nothing falls back silently: what was passed over is in the plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from torchlean.backends.capsule import Capsule, NumericalPolicy, TrustedBoundary, misaligned
from torchlean.backends.plan import Candidate, Expansion, Failure, Plan, Refusal, Step, foreign_inside, graphs_run
from torchlean.backends.policy import AssurancePolicy
from torchlean.backends.profile import CapsuleModule, Profile, refuse_duplicates
from torchlean.backends.sharding import Partitioning, whole
from torchlean.backends.switches import Environment
from torchlean.backends.vocabulary import OBLIGATIONS, Determinism, Reduction, Repeats, TrustLevel, VjpMode, label
from torchlean.errors import PlanRejected
from torchlean.evidence.standing import Standing, State
from torchlean.ir.builder import Builder
from torchlean.ir.graph import Graph, Node, is_effect, with_sub_graphs
from torchlean.ir.op import Op
from torchlean.ir.ops.composite import Composite
from torchlean.ir.ops.pulling import FUNCTION_VJP
from torchlean.ir.rules import NoTangent
from torchlean.ir.types import TensorType, show_types

_MOST_LISTED = 20
_REPEATED = MappingProxyType({Repeats.MAY_DIFFER: "bits that may differ", Repeats.UNSTATED: "bits it does not state"})

Types = tuple[TensorType, ...]
Homeless = dict[tuple[Any, ...], tuple[Node, tuple[TensorType, ...], tuple[Refusal, ...]]]


def explain(op: Op, params: Any, types: tuple[TensorType, ...], profile: Profile) -> tuple[Candidate, ...]:
    """Every capsule for the op, in module order, with every reason against it under the profile."""
    chooser = _Chooser(profile.switched())
    return tuple([chooser.candidate(module, capsule, params, types) for module, capsule in chooser.held(op)])


def _candidate(
    capsule: Capsule,
    module: CapsuleModule,
    missing: str | None,
    params: Any,
    types: tuple[TensorType, ...],
    profile: Profile,
) -> Candidate:
    """The reasons for which acceptance refuses, by name, and three that planning adds."""
    policy = profile.policy
    op, name = label(capsule.op), capsule.name
    found: list[tuple[Failure, str]] = []
    if capsule.handler is None:
        found.append((Failure.FORWARD, f"{name} has no forward implementation for {op}"))
    if misaligned(capsule) is not None:
        found.append((Failure.CONTRACTS, f"{name} has misaligned contract claims for {op}"))
    if capsule.trust is TrustLevel.TRUSTED_EXTERNAL and not policy.trusted_external:
        found.append((Failure.TRUST, f"{name} uses rejected trust level {capsule.trust} for {op}"))
    if policy.providers is not None and capsule.provider not in policy.providers:
        found.append((Failure.PROVIDER, f"{name} uses rejected provider {capsule.provider} for {op}"))
    if capsule.device is not profile.device:
        found.append((Failure.DEVICE, f"{name} targets {capsule.device}, not requested {profile.device}, for {op}"))
    if not serves_vjp(capsule, policy.vjp):
        found.append((Failure.VJP, f"{name} offers {capsule.vjp_mode}, not requested {policy.vjp}, for {op}"))
    for field, contract in zip(OBLIGATIONS, capsule.contracts, strict=True):
        if isinstance(contract.evidence, TrustedBoundary) and not policy.trusted_external:
            found.append((Failure.EVIDENCE, f"{name} has rejected {field} evidence for {op}: {contract.evidence}"))
    for field in OBLIGATIONS:
        standing = module.standing(capsule, field)
        if standing is not None and not admits(policy, standing.state):
            found.append((Failure.LEDGER, _refuted(name, field, op, standing, module.environment_of(capsule))))
    reduction = capsule.numerics.reduction
    if policy.reduction is not None and reduction not in (policy.reduction, Reduction.NOT_APPLICABLE):
        found.append((Failure.REDUCTION, f"{name} adds in {reduction} order, not {policy.reduction}, for {op}"))
    against = undetermined(capsule.numerics, policy.determinism)
    if against is not None:
        found.append((Failure.DETERMINISM, f"{name} {against}, for {op}"))
    if missing is not None:
        found.append((Failure.UNAVAILABLE, f"{name} is unavailable here: {missing}"))
    refused = capsule.refuses(params, types)
    if refused is not None:
        found.append((Failure.TYPES, f"{name} refuses {op} of {show_types(types)}: {refused}"))
    return Candidate(capsule, tuple([Refusal(name, failure, text) for failure, text in found]))


def admits(policy: AssurancePolicy, state: State) -> bool:
    """Whether evidence in this state is enough: fresh always, failed never."""
    if state is State.OTHER_VERSION:
        return not policy.exact_evidence
    return state is State.FRESH or (policy.allow_stale and state is not State.FAILED)


def _refuted(name: str, field: str, op: str, standing: Standing, environment: Environment) -> str:
    command = " ".join([*[f"{variable}={value}" for variable, value in environment], "torchlean evidence run"])
    return (
        f"{name} has no admissible {field} evidence for {op}: {standing.state}, {standing.reason}; "
        f"to refresh it: {command} --capsule {name}"
    )


def undetermined(numerics: NumericalPolicy, level: Determinism | None) -> str | None:
    """What a kernel lacks for a level of determinism, or None."""
    if level is Determinism.BITWISE and numerics.reduction is Reduction.IMPLEMENTATION_DEFINED:
        return f"adds in {numerics.reduction} order, which {level} determinism excludes"
    if level is Determinism.RUN_TO_RUN and numerics.repeats is not Repeats.SAME_BITS:
        return f"gives {_REPEATED[numerics.repeats]} when it is run again, which {level} determinism excludes"
    return None


def serves_vjp(capsule: Capsule, requested: VjpMode) -> bool:
    """Whether the capsule's derivative ownership satisfies the request; ops without a derivative satisfy any."""
    if requested is VjpMode.NONE or isinstance(capsule.op.diff, NoTangent):
        return True
    if requested is VjpMode.TAPE:
        return capsule.vjp_mode is not VjpMode.NONE
    return capsule.vjp_mode is VjpMode.BACKEND


def select(op: Op, params: Any, types: tuple[TensorType, ...], profile: Profile) -> Capsule | None:
    """The capsule that would run the op, or None (a composite may then be expanded; `explain` has the reasons)."""
    profile = profile.switched()
    refuse_duplicates(profile)
    for candidate in explain(op, params, types, profile):
        if not candidate.refusals:
            return candidate.capsule
    return None


class _Chooser:
    """`explain` remembered per (op, params, types) for one plan; the capsules of an op are looked for once."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.known: dict[tuple[Any, ...], tuple[Capsule | None, tuple[Refusal, ...]]] = {}
        self.by_op: dict[Op, list[tuple[CapsuleModule, Capsule]]] = {}
        self.missing: dict[str, str | None] = {}  # what the modules' probes said, by module
        self.earlier: dict[str, _Chooser | None] = {}  # of the modules in front of one
        self.inner: dict[Graph, Plan] = {}  # plans of sub-graphs, by the graph they are for and by the expanded one

    def held(self, op: Op) -> list[tuple[CapsuleModule, Capsule]]:
        """The capsules of an op with their modules, in module order."""
        found = self.by_op.get(op)
        if found is None:
            modules = self.profile.modules
            found = [(module, capsule) for module in modules for capsule in module.capsules if capsule.op is op]
            self.by_op[op] = found
        return found

    def choose(self, op: Op, params: Any, types: tuple[TensorType, ...]) -> tuple[Capsule | None, tuple[Refusal, ...]]:
        """The first admissible capsule and the refusals before it; without one, None and every refusal."""
        key = (op, params, types)
        known = self.known.get(key)
        if known is None:
            known = self._choose(op, params, types)
            self.known[key] = known
        return known

    def _choose(self, op: Op, params: Any, types: tuple[TensorType, ...]) -> tuple[Capsule | None, tuple[Refusal, ...]]:
        refused: list[Refusal] = []
        for module, capsule in self.held(op):
            candidate = self.candidate(module, capsule, params, types)
            if not candidate.refusals:
                foreign = foreign_inside(capsule, [self.inner[held] for held in graphs_run(op, params)])
                if foreign is None:
                    return capsule, tuple(refused)
                text = f"{capsule.name} refuses {label(op)}: it {foreign}"
                candidate = Candidate(capsule, (Refusal(capsule.name, Failure.BODY, text),))
            refused += candidate.refusals
        return None, tuple(refused)

    def candidate(self, module: CapsuleModule, capsule: Capsule, params: Any, types: Types) -> Candidate:
        """The capsule with every reason against it."""
        if module.name not in self.missing:
            self.missing[module.name] = module.probe()
        found = _candidate(capsule, module, self.missing[module.name], params, types, self.profile)
        if found.refusals or not isinstance(capsule.op, Composite) or not self._is_preceded(module, params.body):
            return found
        text = f"{capsule.name} comes after modules that serve every node of the body of {label(capsule.op)}"
        return Candidate(capsule, (Refusal(capsule.name, Failure.PRECEDED, text),))

    def _is_preceded(self, module: CapsuleModule, body: Graph) -> bool:
        """Whether the modules in front of this one serve a body in parts."""
        if module.name not in self.earlier:
            front = self.profile.modules[: [held.name for held in self.profile.modules].index(module.name)]
            self.earlier[module.name] = _Chooser(replace(self.profile, modules=front)) if front else None
        earlier = self.earlier[module.name]
        return earlier is not None and earlier.serves(body)

    def serves(self, graph: Graph) -> bool:
        """Whether every node has a capsule here, or a body all of whose nodes have one; not of control flow."""
        for node in graph.nodes:
            if graphs_run(node.op, node.params):
                return False
            capsule, _ = self.choose(node.op, node.params, tuple([graph.types[id] for id in node.inputs]))
            if capsule is None and not (isinstance(node.op, Composite) and self.serves(node.params.body)):
                return False
        return True


def plan(
    graph: Graph, profile: Profile, partitioning: Partitioning | None = None, donated: tuple[int, ...] = ()
) -> Plan:
    """A plan for the live nodes of `graph`, composites without a capsule replaced by their bodies.

    `partitioning`: of arguments and results over the profile's mesh, which otherwise holds arguments whole. `donated`:
    the positions of arguments whose memory the program may write over.

    Raises PlanRejected naming every op that has neither capsule nor body, with the reasons against each candidate.
    """
    profile = profile.switched()
    refuse_duplicates(profile)
    homeless: Homeless = {}
    made = _planned(graph, _Chooser(profile), homeless)
    if homeless:
        raise PlanRejected(_no_plan(list(homeless.values()), profile))
    if partitioning is None and profile.mesh is not None:
        partitioning = whole(profile.mesh, graph.input_types, graph.output_types)
    made.partitioning = partitioning
    made.donated = donated
    return made


def _planned(graph: Graph, chooser: _Chooser, homeless: Homeless) -> Plan:
    """The plan of a graph or sub-graph; of no use when a node turned out homeless."""
    live = prune(graph)
    expanded, expansions = _expand(live, chooser, homeless)
    final = prune(expanded) if expansions else expanded
    types = final.types
    steps: list[Step] = []
    for node in final.nodes:
        capsule, refused = chooser.choose(node.op, node.params, tuple([types[id] for id in node.inputs]))
        if capsule is not None:
            inner = tuple([chooser.inner[held] for held in graphs_run(node.op, node.params)])
            steps.append(Step(node, capsule, refused, inner))
    return Plan(graph=final, profile=chooser.profile, steps=tuple(steps), expansions=expansions)


def _with_planned_sub_graphs(node: Node, chooser: _Chooser, homeless: Homeless) -> Node:
    """The node holding its sub-graphs as they were planned: expanded."""
    held = graphs_run(node.op, node.params)
    if not held:
        return node
    for graph in held:
        if graph not in chooser.inner:
            made = _planned(graph, chooser, homeless)
            chooser.inner[graph] = made
            chooser.inner.setdefault(made.graph, made)
    planned = [chooser.inner[graph].graph for graph in held]
    if all([mine is theirs for mine, theirs in zip(planned, held, strict=True)]):
        return node
    return node._replace(params=with_sub_graphs(node.params, planned))


def _expand(graph: Graph, chooser: _Chooser, homeless: Homeless) -> tuple[Graph, tuple[Expansion, ...]]:
    """Replace composites without a capsule by their bodies until none is left; equal nodes are shared."""
    expansions: dict[tuple[str, tuple[Refusal, ...]], int] = {}
    changed = False
    builder = Builder(name=graph.name)
    builder.types = [graph.types[id] for id in graph.inputs]
    builder.inputs = list(range(len(graph.inputs)))
    frames = [_Frame(graph, tuple(builder.inputs), None)]
    results: tuple[int, ...] = ()
    while frames:
        frame = frames[-1]
        if frame.position == len(frame.graph.nodes):
            results = frame.ids_of(frame.graph.outputs)
            frames.pop()
            if frame.caller is not None:
                frames[-1].record(frame.caller.outputs, results)
            continue
        node = frame.graph.nodes[frame.position]
        frame.position += 1
        types = tuple([frame.graph.types[id] for id in node.inputs])
        inputs = frame.ids_of(node.inputs)
        placed = node if frame.caller is None else node._replace(where=frame.caller.where)  # the user's own line
        ready = _with_planned_sub_graphs(placed, chooser, homeless)
        capsule, refused = chooser.choose(node.op, ready.params, types)
        if capsule is None and isinstance(node.op, Composite) and not _is_kept(node.op, chooser.profile):
            key = (label(node.op), refused)
            expansions[key] = expansions.get(key, 0) + 1
            frames.append(_Frame(prune(node.params.body), inputs, placed))
            continue
        if capsule is None:
            homeless.setdefault((node.op, ready.params, types), (placed, types, refused))
        made = tuple([frame.graph.types[id] for id in node.outputs])
        changed = changed or ready is not placed
        frame.record(node.outputs, builder.emit_typed(ready, inputs, made))
    made_expansions = tuple([Expansion(op, count, refused) for (op, refused), count in expansions.items()])
    return (builder.finish(results) if made_expansions or changed else graph), made_expansions


def _is_kept(op: Op, profile: Profile) -> bool:
    """Whether a composite must not become nodes: a gradient whose policy asks for the backend's own."""
    return op is FUNCTION_VJP and profile.policy.vjp is VjpMode.BACKEND


class _Frame:
    """A graph being copied: where its values went, and the composite node that called for it."""

    __slots__ = ("caller", "graph", "ids", "position")

    def __init__(self, graph: Graph, operands: tuple[int, ...], caller: Node | None) -> None:
        self.graph = graph
        self.caller = caller
        self.position = 0
        self.ids = [-1] * len(graph.types)
        for inner, outer in zip(graph.inputs, operands, strict=True):
            self.ids[inner] = outer

    def ids_of(self, inner: tuple[int, ...]) -> tuple[int, ...]:
        ids = self.ids
        return tuple([ids[id] for id in inner])

    def record(self, inner: tuple[int, ...], outer: tuple[int, ...]) -> None:
        for mine, theirs in zip(inner, outer, strict=True):
            self.ids[mine] = theirs


def prune(graph: Graph) -> Graph:
    """The graph without the nodes no output or effect needs, values renumbered; the same object when all are live."""
    alive = bytearray(len(graph.types))
    for id in graph.outputs:
        alive[id] = 1
    effects = graph.has_effects
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        if any(alive[id] for id in node.outputs) or (effects and is_effect(node)):
            kept.append(node)
            for id in (*node.inputs, *node.outputs):
                alive[id] = 1
    if len(kept) == len(graph.nodes):
        return graph
    kept.reverse()
    ids = [-1] * len(graph.types)
    types: list[TensorType] = []

    def number(values: Sequence[int]) -> tuple[int, ...]:
        for id in values:
            ids[id] = len(types)
            types.append(graph.types[id])
        return tuple([ids[id] for id in values])

    inputs = number(graph.inputs)
    nodes = tuple(
        [node._replace(inputs=tuple([ids[id] for id in node.inputs]), outputs=number(node.outputs)) for node in kept]
    )
    outputs = tuple([ids[id] for id in graph.outputs])
    return Graph(inputs=inputs, nodes=nodes, outputs=outputs, types=tuple(types), name=graph.name)


def _no_plan(homeless: Sequence[tuple[Node, tuple[TensorType, ...], tuple[Refusal, ...]]], profile: Profile) -> str:
    first = homeless[0][0]
    lines = [f"no admissible kernel capsule for op {label(first.op)} on device {profile.device} ({first.where})"]
    for node, types, refused in homeless[:_MOST_LISTED]:
        lines.append(f"  {label(node.op)} ({show_types(types)}) on profile {profile.name!r}:")
        lines += [f"    {refusal}" for refusal in refused] or [f"    no capsule implements {label(node.op)}"]
    if len(homeless) > _MOST_LISTED:
        lines.append(f"  … and {len(homeless) - _MOST_LISTED} more")
    lines.append("  add a capsule with profile.with_modules(...), or admit one of the above by changing the policy")
    return "\n".join(lines)
