"""Which steps of a plan run together: those whose handlers share a grouper, as many at once as operands allow.

The order changes only where it must not matter: a step runs when its operands are there, effects keep their order.
What is only another view of a value, or depends on nothing, is repeated in each group that reads it, since it costs
nothing there; where a step outside needs it, it is a line of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from typing import Any

from torchlean.backends.collectives import Collective, Collectives
from torchlean.backends.donation import DonatingGroup, of_use
from torchlean.backends.handler import Fused, Group, Grouper, grouper_of, runs_bodies
from torchlean.backends.plan import Plan, all_steps
from torchlean.backends.sharding import Layout, ShardedGroup
from torchlean.backends.vocabulary import label
from torchlean.errors import PlanRejected, message
from torchlean.ir.graph import is_effect
from torchlean.record import record

MOST_NAMED = 6


@record(eq=False)
class Unit:
    """Steps that run together, by position. Without a group it is one step."""

    positions: tuple[int, ...]
    group: Group | None
    grouper: Grouper | None


def units(plan: Plan) -> list[Unit]:
    """The steps of a plan in an order to run them, grouped."""
    groupers = [grouper_of(step.capsule) for step in plan.steps]
    if not any(groupers):
        return [Unit((position,), None, None) for position in range(len(plan.steps))]
    return list(_Grouping(plan, groupers).units())


def fused(plan: Plan) -> Iterator[tuple[Unit, Fused]]:
    """The units of a plan that are groups, each with what it was made into."""
    for unit in units(plan):
        if unit.group is not None and unit.grouper is not None:
            yield unit, unit.grouper.fuse(unit.group)


def stablehlo(plan: Plan) -> str | None:
    """The groups of a plan as StableHLO, each one module, those inside sub-graphs that the host runs included; None
    where no group has such a text.
    """
    texts: list[str] = []
    for held in (plan, *[inner for step in all_steps(plan) for inner in step.inner if not runs_bodies(step.capsule)]):
        for _, made in fused(held):
            write = getattr(made, "stablehlo", None)
            if write is not None:
                texts.append(write())
    if len(texts) > 1:
        texts = [f"// group {at} of {len(texts)}\n{text}" for at, text in enumerate(texts, start=1)]
    return "\n".join(dict.fromkeys(texts)) or None


def collectives(plan: Plan) -> Collectives | None:
    """What the devices of a plan's mesh exchange, read from what its group was compiled to; None without a mesh."""
    if plan.partitioning is None:
        return None
    rows: list[Collective] = []
    for _, made in fused(plan):
        rows += getattr(made, "collectives", tuple)()
    return Collectives(plan.graph.name, rows)


def refuse_scattered(plan: Plan) -> None:
    """PlanRejected for a plan with a mesh that is not one group: what runs elsewhere would not see whole arrays."""
    if plan.partitioning is None:
        return
    alone = [plan.steps[at] for unit in units(plan) if unit.group is None for at in unit.positions]
    strangers = [step for step in alone if grouper_of(step.capsule) is None]
    together = sum([unit.group is not None for unit in units(plan)])
    if strangers or together != 1:
        named = [f"{label(step.node.op)} on {step.capsule.name} ({step.node.where})" for step in strangers[:MOST_NAMED]]
        raise PlanRejected(
            message(
                f"{plan.graph.name} is planned for the mesh {plan.partitioning.mesh} and is not one executable",
                expected="every node in one group of XLA",
                got=f"{together} groups" + (f", and outside them {', '.join(named)}" if named else ""),
                fix="lower what runs on the host as a program of its own, without the mesh",
            )
        )


class _Grouping:
    """`light` steps are views and constants of a grouper; `heavy` ones are its others; the rest run alone."""

    def __init__(self, plan: Plan, groupers: list[Grouper | None]) -> None:
        self.plan, self.groupers = plan, groupers
        nodes = plan.graph.nodes
        self.light = [
            grouper is not None and (not node.inputs or step.capsule.handler.traits.view)
            for node, step, grouper in zip(nodes, plan.steps, groupers, strict=True)
        ]
        self.maker = {id: position for position, node in enumerate(nodes) for id in node.outputs}
        self.shown: set[int] = set()  # light positions that are lines of their own
        self.order = self._order()

    # -- which steps together --------------------------------------------------------------------------------------
    def _order(self) -> list[list[int]]:
        """Heavy steps in batches, others one by one, in an order that respects operands and effects."""
        nodes = self.plan.graph.nodes
        waits, readers = [0] * len(nodes), [list[int]() for _ in nodes]
        effect = -1
        for position, node in enumerate(nodes):
            if self.light[position]:
                continue
            bases = {self.maker[id] for id in self._bases(node.inputs) if id in self.maker}
            if is_effect(node):
                bases |= {effect} if effect >= 0 else set()
                effect = position
            waits[position] = len(bases)
            for base in bases:
                readers[base].append(position)
        ready: dict[int, list[int]] = {}  # heaps of positions, by grouper
        for position in range(len(nodes)):
            if not self.light[position] and not waits[position]:
                heappush(ready.setdefault(id(self.groupers[position]), []), position)
        made: list[list[int]] = []
        alone = id(None)
        while any(ready.values()):
            turn = alone if ready.get(alone) else min(ready, key=lambda key: ready[key] or [len(nodes)])
            batch: list[int] = []
            while ready[turn] and not (batch and turn == alone):
                batch.append(heappop(ready[turn]))
                for reader in readers[batch[-1]]:
                    waits[reader] -= 1
                    if not waits[reader]:
                        heappush(ready.setdefault(id(self.groupers[reader]), []), reader)
            made.append(sorted(batch))
        return made

    def _bases(self, ids: Iterable[int]) -> set[int]:
        """The values behind light steps that these are views of."""
        makers = [(id, self.maker.get(id)) for id in self._behind(ids)]
        return {id for id, at in makers if at is None or not self.light[at]}

    # -- units -----------------------------------------------------------------------------------------------------
    def units(self) -> Iterator[Unit]:
        members = [self._members(batch) for batch in self.order]
        inside = [batch if self._is_group(batch) else [] for batch in self.order]
        owner = {position: at for at, batch in enumerate(inside) for position in batch}
        wanted = self._wanted(members, owner)
        results = [id for id in self.plan.graph.outputs if self._is_result(id, owner)]
        dying = self._dying(members, owner)
        returned: dict[int, list[int]] = {}  # by the group they come out of
        for id in results:
            returned.setdefault(self._home(id, owner), []).append(id)
        for at, batch in enumerate(self.order):
            if inside[at]:
                yield from self._group(batch, members[at], returned.get(at, []), wanted, dying.get(at, ()))
            else:
                yield from self._shown(self.plan.graph.nodes[batch[0]].inputs)
                yield Unit((batch[0],), None, None)
        yield from self._shown([id for id in self.plan.graph.outputs if not self._is_result(id, owner)])

    def _is_group(self, batch: list[int]) -> bool:
        return self.groupers[batch[0]] is not None

    def _members(self, batch: list[int]) -> list[int]:
        """A batch with the light steps it reads through."""
        found = set(batch)
        pending = [id for position in batch for id in self.plan.graph.nodes[position].inputs]
        while pending:
            at = self.maker.get(pending.pop())
            if at is not None and self.light[at] and at not in found:
                found.add(at)
                pending += self.plan.graph.nodes[at].inputs
        return sorted(found)

    def _wanted(self, members: list[list[int]], owner: dict[int, int]) -> set[int]:
        """Values that groups must hand out: read by another unit, or returned."""
        nodes = self.plan.graph.nodes
        wanted: set[int] = set()
        for at, batch in enumerate(self.order):
            mine = set(members[at]) if self._is_group(batch) else set(batch)
            if self._is_group(batch):
                wanted |= {id for position in mine for id in nodes[position].inputs if self._outside(id, mine)}
            else:
                wanted |= self._bases(nodes[batch[0]].inputs)
        for id in self.plan.graph.outputs:
            wanted |= {id} if self._is_result(id, owner) else self._bases([id])
        return wanted

    def _outside(self, id: int, mine: set[int]) -> bool:
        at = self.maker.get(id)
        return at is not None and at not in mine

    def _is_result(self, id: int, owner: dict[int, int]) -> bool:
        """Whether a returned value comes out of a group: it, or what it is a view of, is computed there."""
        at = self.maker.get(id)
        if at is None:
            return False
        if not self.light[at]:
            return at in owner
        bases = self._bases([id])
        return bool(bases) and all([self.maker.get(base) in owner for base in bases])

    def _group(
        self, batch: list[int], members: list[int], results: list[int], wanted: set[int], dying: Iterable[int]
    ) -> Iterator[Unit]:
        nodes = self.plan.graph.nodes
        views = [self.maker[id] for id in results if self.light[self.maker[id]]]
        everything = sorted({*members, *self._members(views), *views})
        self.shown |= set(views)
        computed = [id for position in batch for id in nodes[position].outputs if id in wanted]
        viewed = [nodes[position].outputs[0] for position in views]
        held = {*computed, *viewed}
        outputs = [id for id in results if id in held] + computed  # in the order in which they are returned
        chosen = [nodes[position] for position in everything]
        made = {id for node in chosen for id in node.outputs}
        inputs = tuple(dict.fromkeys([id for node in chosen for id in node.inputs if id not in made]))
        group = self._made(
            nodes=tuple(chosen),
            capsules=tuple([self.plan.steps[position].capsule.name for position in everything]),
            types=self.plan.graph.types,
            inputs=inputs,
            outputs=tuple(dict.fromkeys(outputs)),
            dying=dying,
        )
        yield Unit(tuple(everything), group, self.groupers[batch[0]])

    def _made(self, *, inputs: tuple[int, ...], outputs: tuple[int, ...], dying: Iterable[int], **fields: Any) -> Group:
        """The group, and what it may write over; of a plan with a mesh, the layout of what it reads and returns."""
        partitioning = self.plan.partitioning
        if partitioning is None:
            donated = of_use([id for id in inputs if id in dying], outputs, self.plan.graph.types)
            if donated:
                return DonatingGroup(inputs=inputs, outputs=outputs, donated=donated, **fields)
            return Group(inputs=inputs, outputs=outputs, **fields)
        given = dict(zip(self.plan.graph.inputs, partitioning.inputs, strict=True))
        wanted = dict(zip(self.plan.graph.outputs, partitioning.outputs, strict=True))
        layout = Layout(
            mesh=partitioning.mesh,
            inputs=tuple([given[id].spec or () if id in given else () for id in inputs]),
            outputs=tuple([wanted[id].spec if id in wanted else None for id in outputs]),
        )
        return ShardedGroup(inputs=inputs, outputs=outputs, layout=layout, **fields)

    def _dying(self, members: list[list[int]], owner: dict[int, int]) -> dict[int, set[int]]:
        """For each group the values that die in it: given up by the caller or made by a group, read by groups only."""
        nodes = self.plan.graph.nodes
        given = {self.plan.graph.inputs[at] for at in self.plan.donated}
        ours = given | {id for position in owner if not self.light[position] for id in nodes[position].outputs}
        last: dict[int, int] = {}
        kept = self._behind(self.plan.graph.outputs)
        for at, batch in enumerate(self.order):
            if self._is_group(batch):
                last |= dict.fromkeys([id for position in members[at] for id in nodes[position].inputs], at)
            else:
                kept |= self._behind(nodes[batch[0]].inputs)
        dying: dict[int, set[int]] = {}
        for id, at in last.items():
            if id in ours and id not in kept:
                dying.setdefault(at, set()).add(id)
        return dying

    def _behind(self, ids: Iterable[int]) -> set[int]:
        """Values and everything they are views of."""
        found: set[int] = set()
        pending = list(ids)
        while pending:
            id = pending.pop()
            found.add(id)
            at = self.maker.get(id)
            if at is not None and self.light[at]:
                pending += self.plan.graph.nodes[at].inputs
        return found

    def _home(self, id: int, owner: dict[int, int]) -> int:
        """The last group that computes something a view is of."""
        return max([owner[self.maker[base]] for base in self._bases([id])])

    def _shown(self, ids: Iterable[int]) -> Iterator[Unit]:
        """Light steps as lines of their own, operands first, each once."""
        found: set[int] = set()
        pending = list(ids)
        while pending:
            at = self.maker.get(pending.pop())
            if at is not None and self.light[at] and at not in self.shown and at not in found:
                found.add(at)
                pending += self.plan.graph.nodes[at].inputs
        self.shown |= found
        for at in sorted(found):
            yield Unit((at,), None, None)
