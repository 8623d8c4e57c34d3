"""Acceptance re-derives everything: a tampered plan is refused with the obligations that fail; nothing else runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from backends.toolbox import lone_node, normal, traced, tried

from torchlean.backends import (
    AcceptedPlan,
    CapsuleModule,
    Claim,
    Device,
    Executable,
    Implementation,
    Plan,
    Reduction,
    Step,
    VjpMode,
    accept,
    always_available,
    audit,
    bind_capsule,
    bind_kernel,
    capsule,
    plan,
    profiles,
    reference,
)
from torchlean.errors import BindError, InternalError, PlanRejected
from torchlean.ir import ops
from torchlean.ir.dtypes import DType
from torchlean.ir.graph import Graph
from torchlean.ir.op import NO_PARAMS
from torchlean.ir.ops.elementwise import ADD, MUL, TANH
from torchlean.ir.ops.spread import REDUCE_SUM
from torchlean.ir.types import TensorType

STRICT = {made.op: made for made in reference.MODULE.capsules}
X = TensorType((3,), DType.F32)


def added(profile: Any = profiles.reference_cpu) -> Plan:
    return plan(traced(lambda x: x + x, normal(3), name="double"), profile)


def with_capsule(made: Plan, changed: Any, *, registered: bool = True) -> Plan:
    """The plan with its one step's capsule exchanged, and the new capsule put in the registry."""
    profile = made.profile
    if registered:
        module = tried(CapsuleModule(name="reference", capsules=(changed,), probe=always_available))
        profile = profile.with_modules(module)
    return Plan(graph=made.graph, profile=profile, steps=(replace(made.steps[0], capsule=changed),))


def refusal(made: Plan) -> list[str]:
    with pytest.raises(PlanRejected) as refused:
        accept(made)
    return [line.strip() for line in str(refused.value).splitlines()[1:]]


def test_an_honest_plan_is_accepted_with_its_audit() -> None:
    made = added()
    accepted = accept(made)
    assert accepted.plan is made
    assert accepted.audit == audit(made)
    with pytest.raises(AttributeError, match="an AcceptedPlan cannot be changed"):
        accepted.plan = made  # type: ignore[misc]


def test_nobody_else_makes_an_accepted_plan_or_an_executable() -> None:
    made = added()
    with pytest.raises(InternalError, match=r"an AcceptedPlan is made by accept\(plan\) only"):
        AcceptedPlan(made, audit(made), object())
    with pytest.raises(InternalError, match="an Executable is made from an AcceptedPlan, got a Plan"):
        Executable(made)  # type: ignore[arg-type]


def test_the_message_counts_and_lists() -> None:
    changed = replace(STRICT[ADD], value=capsule.trusted(Claim.VALUE, "libfoo"))
    with pytest.raises(PlanRejected) as refused:
        accept(with_capsule(added(), changed))
    assert str(refused.value) == (
        "plan of double rejected under profile 'reference_cpu': 2 obligations fail\n"
        "  reference.add uses rejected trust level trusted-external for add\n"
        "  reference.add has rejected value evidence for add: trusted boundary: libfoo"
    )


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"handler": None}, "reference.add has no forward implementation for add"),
        ({"device": Device.METAL}, "reference.add targets metal, not requested cpu, for add"),
        (
            {"vjp": capsule.vjp_unavailable("none"), "vjp_mode": VjpMode.NONE},
            "reference.add offers none, not requested torchlean-tape, for add",
        ),
        (
            {"refuses": lambda params, types: "three is too many"},
            "reference.add refuses add of f32[3], f32[3]: three is too many",
        ),
    ],
)
def test_a_changed_capsule_is_refused(changes: Any, reason: str) -> None:
    assert refusal(with_capsule(added(), replace(STRICT[ADD], **changes))) == [reason]


def test_a_capsule_of_another_op_is_refused() -> None:
    assert refusal(with_capsule(added(), STRICT[MUL])) == ["planned operation add does not match capsule operation mul"]


def test_a_capsule_from_nowhere_is_refused() -> None:
    stranger = replace(STRICT[ADD])
    assert refusal(with_capsule(added(), stranger, registered=False)) == [
        "reference.add is unavailable: comes from no module of the profile"
    ]


def test_a_capsule_whose_library_has_gone_is_refused() -> None:
    gone = tried(CapsuleModule(name="reference", capsules=(STRICT[ADD],), probe=lambda: "it was uninstalled"))
    made = added()
    changed = Plan(graph=made.graph, profile=made.profile.with_modules(gone), steps=made.steps)
    assert refusal(changed) == ["reference.add is unavailable: it was uninstalled"]


def test_another_order_or_provider_than_the_policy_asks_for_is_refused() -> None:
    graph = traced(lambda x: ops.sum(x), normal(3))
    free = plan(graph, profiles.numpy_cpu)
    assert free.steps[0].capsule.numerics.reduction is Reduction.IMPLEMENTATION_DEFINED
    strict = Plan(graph=graph, profile=profiles.numpy_cpu.under(profiles.reference_cpu.policy), steps=free.steps)
    assert refusal(strict) == ["numpy.reduce_sum adds in implementation-defined order, not fixed-left, for reduce_sum"]
    only = replace(profiles.numpy_cpu.policy, providers=("reference",))
    narrow = Plan(graph=graph, profile=profiles.numpy_cpu.under(only), steps=free.steps)
    assert refusal(narrow) == ["numpy.reduce_sum uses rejected provider numpy for reduce_sum"]


def test_steps_must_be_the_graphs_nodes() -> None:
    made = added()
    other = plan(traced(lambda x: x * x, normal(3)), profiles.reference_cpu)
    swapped = Plan(graph=made.graph, profile=made.profile, steps=other.steps)
    assert refusal(swapped) == ["step %1 is not node %1 of the graph"]
    assert refusal(Plan(graph=made.graph, profile=made.profile, steps=())) == ["the plan has 0 steps for 1 nodes"]


def test_a_graph_with_an_edited_type_is_refused() -> None:
    made = added()
    graph = made.graph
    types = (*graph.types[:-1], TensorType((4,), DType.F32))
    edited = Graph(inputs=graph.inputs, nodes=graph.nodes, outputs=graph.outputs, types=types, name=graph.name)
    with pytest.raises(PlanRejected, match="the plan's graph is not sound: node %1 = add declares"):
        accept(Plan(graph=edited, profile=made.profile, steps=made.steps))


def test_a_reducing_capsule_made_to_lie_is_refused() -> None:
    """Even one that slipped past the constructor."""
    made = plan(traced(lambda x: ops.sum(x), normal(3)), profiles.reference_cpu)
    liar = replace(STRICT[REDUCE_SUM])
    object.__setattr__(liar, "numerics", replace(liar.numerics, reduction=Reduction.NOT_APPLICABLE))
    assert refusal(with_capsule(made, liar)) == [
        "reference.reduce_sum reduces reduce_sum but states no reduction order"
    ]


# -- binding -----------------------------------------------------------------------------------------------------------
def handler_of(op: Any) -> Implementation:
    return STRICT[op].handler


@pytest.mark.parametrize(
    ("handler", "first"),
    [
        (handler_of(MUL), "handler implements `mul`, but capsule reference.add implements `add`"),
        (
            replace(handler_of(ADD), provider="numpy"),
            "handler uses provider `numpy`, but capsule reference.add uses provider `reference`",
        ),
        (
            replace(handler_of(ADD), device=Device.CUDA),
            "handler targets `cuda`, but capsule reference.add targets `cpu`",
        ),
    ],
)
def test_a_capsule_and_a_handler_that_differ_do_not_bind(handler: Any, first: str) -> None:
    pair = replace(STRICT[ADD], handler=handler)
    node, types = lone_node(ADD, NO_PARAMS, (X, X))
    with pytest.raises(BindError) as refused:
        bind_kernel(pair, node, types)
    assert str(refused.value).splitlines()[0] == first
    assert str(refused.value).splitlines()[1:] == [
        "  expected: a handler with the op, provider and device of reference.add",
        f"  got:      {handler.op.name}, {handler.provider}, {handler.device}",
        "  fix:      give the capsule the handler made for it",
    ]
    with pytest.raises(BindError):
        Executable(accept(with_capsule(added(), pair)))


def test_a_capsule_binds_only_nodes_of_its_op_and_types_that_hold() -> None:
    node, types = lone_node(TANH, NO_PARAMS, (X,))
    with pytest.raises(BindError, match=r"capsule reference\.add implements `add`, not `tanh`"):
        bind_capsule(STRICT[ADD], node, types, None)
    node, types = lone_node(ADD, NO_PARAMS, (X, X))
    with pytest.raises(BindError, match="handler implements another op"):
        handler_of(MUL).bind(node, types, None)
    wrong = (X, TensorType((4,), DType.F32), X)
    with pytest.raises(BindError, match="add of f32\\[3\\], f32\\[4\\] cannot be bound: operand shapes differ"):
        bind_capsule(STRICT[ADD], node, wrong, None)
    with pytest.raises(BindError) as refused:
        bind_capsule(STRICT[ADD], node, (X, X, TensorType((4,), DType.F32)), None)
    assert str(refused.value).splitlines()[:3] == [
        "add of f32[3], f32[3] is declared with other result types (no user code)",
        "  expected: f32[3]",
        "  got:      f32[4]",
    ]
    with pytest.raises(BindError, match=r"add of f32\[3\] cannot be bound: TypeError: .*missing 1 required"):
        bind_capsule(STRICT[ADD], node._replace(inputs=(0,), outputs=(1,)), (X, X), None)
    without = replace(STRICT[ADD], handler=None)
    with pytest.raises(BindError, match=r"reference\.add has no forward implementation for add"):
        bind_capsule(without, node, types, None)


def test_a_capsule_binds_nothing_that_it_refuses() -> None:
    node, types = lone_node(ADD, NO_PARAMS, (X, X))
    picky = replace(STRICT[ADD], refuses=lambda params, types: f"{types[0].shape[0]} is too many")
    with pytest.raises(
        BindError, match=r"reference\.add refuses add of f32\[3\], f32\[3\]: 3 is too many \(no user code\)"
    ):
        bind_capsule(picky, node, types, None)
    scalars = (TensorType((), DType.F32),) * 3
    with pytest.raises(IndexError):  # of `refuses` itself, where the guard has nothing against the operands
        bind_capsule(picky, node, scalars, None)
    with pytest.raises(BindError, match="operand shapes differ"):  # the guard speaks first
        bind_capsule(picky, node, (scalars[0], X, X), None)


def test_the_step_type_keeps_its_fields() -> None:
    assert Step.__slots__ == ("node", "capsule", "refused", "inner")
