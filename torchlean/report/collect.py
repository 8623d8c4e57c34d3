"""What a report can be made of → a `Page`: graphs, plans, executables, lowered functions, training runs, records."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torchlean import pytree
from torchlean.backends.accept import AcceptedPlan
from torchlean.backends.audit import PlanAudit
from torchlean.backends.cost import Cost
from torchlean.backends.cost import cost as cost_of
from torchlean.backends.executable import Executable
from torchlean.backends.grouping import collectives
from torchlean.backends.plan import Plan
from torchlean.errors import DataError, message
from torchlean.ir.graph import Graph
from torchlean.ir.printer import graph_text
from torchlean.report.sheets import MAX_NODES, Labels, Sheets
from torchlean.report.tables import (
    collectives_table,
    cost_table,
    evidence_tables,
    expansion_table,
    op_table,
    refusal_table,
)
from torchlean.report.training import run_of_record, run_of_result, run_of_session
from torchlean.report.view import Page, Program, Run
from torchlean.train import TrainResult, TrainSession
from torchlean.train.lowered import Lowering
from torchlean.train.provenance import FORMAT
from torchlean.transforms.lower import Lowered

TAKEN = "a Graph, a Plan, a lowered function, a TrainResult, a TrainSession or a provenance record"
"""What reports are made of, for messages."""


def page_of(*things: Any, title: str | None = None, max_nodes: int | None = MAX_NODES) -> Page:
    """One page for all of `things`; DataError for something that no report can be made of."""
    collected = Sheets(max_nodes)
    programs: list[Program] = []
    runs: list[Run] = []
    kinds: list[str] = []
    for thing in things:
        kinds.append(_collect(thing, collected, programs, runs))
    if not things or len(runs) > 1:
        raise DataError(
            message(
                "a report shows at least one thing and at most one training run",
                expected=TAKEN,
                got=f"{len(things)} things, {len(runs)} training runs",
            )
        )
    return Page(
        title=title or (programs[0].title if programs else "training run"),
        kind=kinds[0] if len(set(kinds)) == 1 else "report",
        programs=tuple(programs),
        sheets=collected.sheets(),
        capsules=collected.capsules(),
        run=runs[0] if runs else None,
    )


def _collect(thing: Any, sheets: Sheets, programs: list[Program], runs: list[Run]) -> str:
    """Add what `thing` shows; says what it is."""
    match thing:
        case Graph():
            programs.append(_graph(thing, sheets))
            return "graph"
        case Plan():
            programs.append(_planned(thing, sheets))
            return "plan"
        case AcceptedPlan():
            programs.append(_planned(thing.plan, sheets, audit=thing.audit, cost=cost_of(thing)))
            return "accepted plan"
        case Executable():
            programs.append(
                _planned(thing.plan, sheets, audit=thing.audit, source=thing.source, cost=cost_of(thing.accepted))
            )
            return "program"
        case Lowered():
            programs.append(_lowered(thing, sheets))
            return "program"
        case TrainResult():
            runs.append(run_of_result(thing))
            _trained(thing.model.execution, sheets, programs)
            return "training run"
        case TrainSession():
            runs.append(run_of_session(thing))
            _trained(thing.execution, sheets, programs)
            return "training session"
        case Mapping() if thing.get("format") == FORMAT:
            runs.append(run_of_record(thing))
            return "training run"
        case _:
            raise DataError(
                message("no report can be made of this", expected=TAKEN, got=type(thing).__name__, fix="lower it first")
            )


def _trained(execution: Any, sheets: Sheets, programs: list[Program]) -> None:
    """The programs of a lowered execution; an eager one has a tape and no graph."""
    if isinstance(execution, Lowering):
        programs += [_lowered(program, sheets) for program in execution.lowered]


def _graph(graph: Graph, sheets: Sheets) -> Program:
    return Program(
        title=graph.name,
        facts=(
            ("nodes", str(len(graph.nodes))),
            ("inputs", str(len(graph.inputs))),
            ("results", str(len(graph.outputs))),
        ),
        sheet=sheets.add_graph(graph),
        tables=(op_table(graph),),
        texts=(("Graph as text", graph_text(graph, locations=True)),),
    )


def _planned(
    plan: Plan,
    sheets: Sheets,
    *,
    audit: PlanAudit | None = None,
    source: str = "",
    title: str = "",
    labels: Labels | None = None,
    traced: Graph | None = None,
    cost: Cost | None = None,
) -> Program:
    sheet = sheets.add_plan(plan, title=title, labels=labels, costs=() if cost is None else cost.steps)
    policy, profile = plan.profile.policy, plan.profile
    facts = [
        ("kernels", str(len(plan.steps))),
        ("profile", profile.name),
        ("device", str(profile.device)),
        ("assurance", policy.label),
        ("required reduction order", "any" if policy.reduction is None else str(policy.reduction)),
        ("evidence must be", _evidence_asked(plan)),
        ("modules, in order", ", ".join([module.name for module in profile.modules])),
    ]
    texts = [("Plan as text", plan.text())]
    if audit is not None:
        facts += [("capsules", str(len(audit.kernels))), ("trusted boundaries", str(len(audit.trusted_boundaries)))]
    if traced is not None:
        facts.insert(0, ("nodes as traced", str(len(traced.nodes))))
        texts.insert(0, ("Traced graph as text", graph_text(traced, locations=True)))
        if traced != plan.graph:
            sheets.add_graph(traced, title=title or traced.name, place="as traced", labels=labels)
    exchanged = collectives(plan) if source else None  # what is not compiled is not asked for them
    if plan.partitioning is not None:
        facts.append(("mesh", str(plan.partitioning.mesh)))
    if source:
        texts.append(("Generated source", source))
    return Program(
        title=title or plan.graph.name,
        facts=tuple(facts),
        sheet=sheet,
        tables=(
            *evidence_tables(plan),
            refusal_table(plan),
            expansion_table(plan),
            *([] if exchanged is None else [collectives_table(exchanged)]),
            *([] if cost is None else [cost_table(cost)]),
        ),
        texts=tuple(texts),
    )


def _evidence_asked(plan: Plan) -> str:
    policy = plan.profile.policy
    return "anything, even stale" if policy.allow_stale else "fresh" if policy.exact_evidence else "of this source"


def _lowered(lowered: Lowered, sheets: Sheets) -> Program:
    positional, keywords = lowered.in_types
    inputs = pytree.paths(positional, "args") + pytree.paths(keywords, "kwargs")
    labels = Labels(inputs, pytree.paths(lowered.out_types, "result"))
    return _planned(
        lowered.plan,
        sheets,
        audit=lowered.audit,
        source=lowered.source,
        title=lowered.graph.name,
        labels=labels,
        traced=lowered.graph,
        cost=cost_of(lowered.executable.accepted),
    )


def read(path: Path | str) -> Any:
    """A graph or a provenance record from a JSON file; DataError or SerializationError when it is neither."""
    from torchlean.ir import serialize, strict_json  # only for files

    target = Path(path)
    try:
        content = target.read_bytes()
    except OSError as error:
        raise DataError(message(f"cannot read {str(target)!r}", got=error.strerror or error)) from error
    if content.lstrip()[:1] == b"{" and b'"torchlean.provenance/' in content:
        try:
            found = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise DataError(message(f"{str(target)!r} is not JSON", got=str(error))) from error
        if isinstance(found, dict) and found.get("format") == FORMAT:
            return found
    strict_json.read_json(content)
    return serialize.loads(content)
