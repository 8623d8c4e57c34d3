"""Planning: choice, expansion, refusal with every reason, the registry's rules, groups, audits, printed plans."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from backends.toolbox import normal, same_bits, traced, tried

from torchlean.backends import (
    CHECKED,
    EXTERNAL,
    Capsule,
    CapsuleModule,
    Claim,
    Device,
    Executable,
    Failure,
    Profile,
    Reduction,
    VjpMode,
    accept,
    always_available,
    audit,
    capsule,
    explain,
    groups,
    needs_library,
    obligations,
    plan,
    plan_report,
    profiles,
    reference,
    select,
)
from torchlean.errors import PlanRejected
from torchlean.ir import ops
from torchlean.ir.builder import Builder
from torchlean.ir.dtypes import DType
from torchlean.ir.evaluate import denote
from torchlean.ir.location import NOWHERE
from torchlean.ir.op import NO_PARAMS
from torchlean.ir.ops.activation import RELU, SOFTMAX
from torchlean.ir.ops.dot import DOT_GENERAL, DotDims
from torchlean.ir.ops.elementwise import ADD, EQ, TANH
from torchlean.ir.types import TensorType

STRICT = {made.op: made for made in reference.MODULE.capsules}
X = TensorType((3,), DType.F32)
CHECKED_CPU = profiles.reference_cpu.with_modules(tried(reference.MODULE))  # printed the same on every machine


def module(*capsules: Capsule, name: str = "mine", probe: Any = always_available) -> CapsuleModule:
    return tried(CapsuleModule(name=name, capsules=capsules, probe=probe))


def theirs(op: Any, **changes: Any) -> Capsule:
    return replace(STRICT[op], provider="theirs", **changes)


def reasons(op: Any, profile: Any, types: Any = (X, X), params: Any = NO_PARAMS) -> list[str]:
    return [str(refusal) for candidate in explain(op, params, types, profile) for refusal in candidate.refusals]


# -- choice and refusal ------------------------------------------------------------------------------------------------
def test_the_first_admissible_capsule_in_module_order_is_chosen() -> None:
    front = module(theirs(ADD))
    profile = profiles.reference_cpu.with_modules(front)
    chosen = select(ADD, NO_PARAMS, (X, X), profile)
    assert chosen is front.capsules[0]
    assert select(TANH, NO_PARAMS, (X,), profile) is STRICT[TANH]


def test_explain_lists_every_candidate_with_every_reason() -> None:
    everything_wrong = theirs(
        DOT_GENERAL,
        device=Device.METAL,
        value=capsule.trusted(Claim.VALUE, "Metal"),
        vjp=capsule.vjp_unavailable("forward only"),
        vjp_mode=VjpMode.NONE,
        numerics=replace(STRICT[DOT_GENERAL].numerics, reduction=Reduction.IMPLEMENTATION_DEFINED),
        handler=None,
        refuses=lambda params, types: "sizes must be multiples of 32",
    )
    policy = replace(profiles.reference_cpu.policy, providers=("reference",))
    missing = module(everything_wrong, probe=needs_library("no_such_library_anywhere"))
    profile = profiles.reference_cpu.with_modules(missing).under(policy)
    types = (TensorType((2, 3), DType.F32), TensorType((3, 4), DType.F32))
    found = explain(DOT_GENERAL, DotDims((1,), (0,), (), ()), types, profile)
    assert [candidate.capsule.name for candidate in found] == ["theirs.matmul", "reference.matmul"]
    assert found[1].refusals == ()
    assert [refusal.failure for refusal in found[0].refusals] == [
        Failure.FORWARD,
        Failure.TRUST,
        Failure.PROVIDER,
        Failure.DEVICE,
        Failure.VJP,
        Failure.EVIDENCE,
        Failure.REDUCTION,
        Failure.UNAVAILABLE,
        Failure.TYPES,
    ]
    assert [str(refusal) for refusal in found[0].refusals] == [
        "theirs.matmul has no forward implementation for matmul",
        "theirs.matmul uses rejected trust level trusted-external for matmul",
        "theirs.matmul uses rejected provider theirs for matmul",
        "theirs.matmul targets metal, not requested cpu, for matmul",
        "theirs.matmul offers none, not requested torchlean-tape, for matmul",
        "theirs.matmul has rejected value evidence for matmul: trusted boundary: Metal",
        "theirs.matmul adds in implementation-defined order, not fixed-left, for matmul",
        "theirs.matmul is unavailable here: the library no_such_library_anywhere is not installed",
        "theirs.matmul refuses matmul of f32[2,3], f32[3,4]: sizes must be multiples of 32",
    ]


def test_a_forward_only_capsule_is_for_inference() -> None:
    forward = theirs(ADD, vjp=capsule.vjp_unavailable("forward only"), vjp_mode=VjpMode.NONE)
    profile = profiles.numpy_cpu.with_modules(module(forward))
    assert select(ADD, NO_PARAMS, (X, X), profile) is STRICT[ADD]
    inference = profile.under(CHECKED.without_gradients())
    assert select(ADD, NO_PARAMS, (X, X), inference) is forward


def test_either_owner_of_a_vjp_serves_the_tape_and_only_the_backend_serves_itself() -> None:
    native = theirs(ADD, vjp_mode=VjpMode.BACKEND)
    profile = profiles.numpy_cpu.with_modules(module(native))
    assert select(ADD, NO_PARAMS, (X, X), profile) is native
    picky = profile.under(replace(CHECKED, vjp=VjpMode.BACKEND))
    assert select(ADD, NO_PARAMS, (X, X), picky) is native
    assert reasons(ADD, profiles.numpy_cpu.under(replace(CHECKED, vjp=VjpMode.BACKEND))) == [
        "reference.add offers torchlean-tape, not requested backend-vjp, for add"
    ]
    assert select(EQ, NO_PARAMS, (X, X), picky) is STRICT[EQ]  # an op without a derivative satisfies any request


def test_a_trusted_value_needs_the_external_policy() -> None:
    trusting = theirs(ADD, value=capsule.trusted(Claim.VALUE, "libfoo"))
    profile = profiles.numpy_cpu.with_modules(module(trusting))
    assert select(ADD, NO_PARAMS, (X, X), profile) is STRICT[ADD]
    assert reasons(ADD, profile) == [
        "theirs.add uses rejected trust level trusted-external for add",
        "theirs.add has rejected value evidence for add: trusted boundary: libfoo",
    ]
    assert select(ADD, NO_PARAMS, (X, X), profile.under(EXTERNAL)) is trusting


def test_the_plan_names_what_was_passed_over() -> None:
    trusting = theirs(ADD, value=capsule.trusted(Claim.VALUE, "libfoo"))
    made = plan(traced(lambda x: x + x, normal(3)), profiles.numpy_cpu.with_modules(module(trusting)))
    assert str(made).splitlines()[2:] == [
        "  passed over: theirs.add uses rejected trust level trusted-external for add",
        "  passed over: theirs.add has rejected value evidence for add: trusted boundary: libfoo",
    ]


def test_a_plan_without_capsules_is_refused_with_every_op_and_reason() -> None:
    graph = traced(lambda x: ops.tanh(x) + ops.exp(x), normal(3))
    with pytest.raises(PlanRejected) as refused:
        plan(graph, profiles.reference_cpu.on(Device.METAL).with_modules(module(theirs(ADD, device=Device.METAL))))
    assert str(refused.value).splitlines()[1:] == [
        "  tanh (f32[3]) on profile 'reference_cpu':",
        "    reference.tanh targets cpu, not requested metal, for tanh",
        "  exp (f32[3]) on profile 'reference_cpu':",
        "    reference.exp targets cpu, not requested metal, for exp",
        "  add a capsule with profile.with_modules(...), or admit one of the above by changing the policy",
    ]
    assert str(refused.value).startswith("no admissible kernel capsule for op tanh on device metal (test_planning.py:")


def test_an_op_nobody_implements_is_named() -> None:
    without = replace(
        reference.MODULE, capsules=tuple(made for made in reference.MODULE.capsules if made.op is not TANH)
    )
    with pytest.raises(PlanRejected, match="no capsule implements tanh"):
        plan(traced(ops.tanh, normal(3)), profiles.reference_cpu.with_modules(without))


# -- the registry ------------------------------------------------------------------------------------------------------
def test_new_modules_go_in_front_and_replace_old_ones_of_their_name() -> None:
    mine = module(theirs(ADD))
    profile = profiles.numpy_cpu.with_modules(mine)
    assert [each.name for each in profile.modules] == ["mine", "numpy", "reference"]
    other = module(theirs(ADD), theirs(TANH))
    assert [each.name for each in profile.with_modules(other).modules] == ["mine", "numpy", "reference"]
    assert profile.with_modules(other).modules[0] is other


def test_duplicate_module_names_are_refused() -> None:
    profile = profiles.reference_cpu.with_modules(module(theirs(ADD)), module(theirs(TANH)))
    graph = traced(ops.tanh, normal(3))
    for refuse in (lambda: plan(graph, profile), lambda: select(TANH, NO_PARAMS, (X,), profile)):
        with pytest.raises(PlanRejected) as refused:
            refuse()
        assert str(refused.value).splitlines()[0] == "duplicate backend capsule module `mine`"


def test_duplicate_identities_are_refused() -> None:
    profile = profiles.reference_cpu.with_modules(module(theirs(ADD)), module(theirs(ADD), name="again"))
    with pytest.raises(PlanRejected) as refused:
        plan(traced(lambda x: x + x, normal(3)), profile)
    assert str(refused.value) == (
        "duplicate backend capsule identity `theirs.add`\n"
        "  expected: one capsule for each (name, op, provider, device)\n"
        "  got:      theirs.add twice on cpu, the second in module again\n"
        "  fix:      give one of them a variant"
    )
    apart = profiles.reference_cpu.with_modules(
        module(theirs(ADD)), module(theirs(ADD, variant="other"), theirs(ADD, device=Device.TPU), name="again")
    )
    assert len(plan(traced(lambda x: x + x, normal(3)), apart)) == 1


# -- expansion ---------------------------------------------------------------------------------------------------------
def test_linear_becomes_reshape_permute_matmul_broadcast_and_add() -> None:
    graph = traced(lambda x, w, b: ops.linear(x, w, b), normal(4, 3), normal(2, 3), normal(2))
    made = plan(graph, profiles.reference_cpu)
    names = [step.capsule.name for step in made.steps]
    assert names == ["reference.permute", "reference.matmul", "reference.broadcast", "reference.add"]
    assert [str(expansion.op) for expansion in made.expansions] == ["linear"]
    assert all("test_planning.py" in str(step.node.where) for step in made.steps)


def test_a_composite_with_a_capsule_is_not_expanded() -> None:
    made = plan(traced(ops.relu, normal(3)), profiles.reference_cpu)
    assert [step.capsule.name for step in made.steps] == ["reference.relu"]
    assert made.expansions == ()


def test_a_whole_composite_gives_way_to_modules_in_front_that_serve_its_parts() -> None:
    graph = traced(lambda x: ops.relu(x), normal(3))
    (relu,) = graph.nodes
    parts = [theirs(node.op) for node in relu.params.body.nodes]

    def profile(front: list[Capsule]) -> Profile:
        modules = (module(*front, name="parts"), module(theirs(RELU), name="whole"), reference.MODULE)
        return Profile(name="mine", device=Device.CPU, modules=modules, policy=CHECKED)

    assert [step.capsule.name for step in plan(graph, profile(parts[:-1])).steps] == ["theirs.relu"]
    made = plan(graph, profile(parts))
    assert [step.capsule.name for step in made.steps] == ["theirs.full", "theirs.le", "theirs.select"]
    (expansion,) = made.expansions
    assert [(refusal.failure, str(refusal)) for refusal in expansion.refused] == [
        (Failure.PRECEDED, f"{name}.relu comes after modules that serve every node of the body of relu")
        for name in ("theirs", "reference")
    ]
    found = explain(RELU, relu.params, (X,), profile(parts))
    assert [candidate.refusals for candidate in found] == [(refusal,) for refusal in expansion.refused]
    assert not any([candidate.refusals for candidate in explain(RELU, relu.params, (X,), profile(parts[:-1]))])


def test_requiring_another_order_expands_a_fused_composite() -> None:
    fused = replace(
        STRICT[RELU],
        op=SOFTMAX,
        provider="theirs",
        numerics=replace(STRICT[DOT_GENERAL].numerics, reduction=Reduction.IMPLEMENTATION_DEFINED),
    )
    graph = traced(ops.softmax, normal(3, 5))
    free = profiles.numpy_cpu.with_modules(module(fused))
    assert [step.capsule.name for step in plan(graph, free).steps] == ["theirs.softmax"]
    strict = plan(graph, profiles.reference_cpu.with_modules(module(fused)))
    assert len(strict) > 5
    assert "expanded softmax ×1: theirs.softmax adds in implementation-defined order" in str(strict)


def test_dead_nodes_are_not_planned_and_equal_nodes_of_bodies_are_shared() -> None:
    def f(x: Any) -> Any:
        ops.exp(x)
        return ops.softmax(x), ops.log_softmax(x)

    made = plan(traced(f, normal(3, 5)), profiles.reference_cpu)
    names = [step.capsule.name for step in made.steps]
    assert names.count("reference.reduce_max") == 1
    assert names.count("reference.exp") == 1


# -- groups and audits -------------------------------------------------------------------------------------------------
def test_adjacent_equal_capsules_form_one_group() -> None:
    made = plan(traced(lambda x: ops.relu(ops.relu(x)), normal(3)), profiles.reference_cpu)
    assert [(group.capsule.name, group.nodes) for group in groups(made)] == [("reference.relu", (0, 1))]
    mixed = plan(traced(lambda x: ops.relu(ops.tanh(ops.relu(x))), normal(3)), profiles.reference_cpu)
    assert [group.nodes for group in groups(mixed)] == [(0,), (1,), (2,)]


def test_a_capsule_that_differs_only_in_evidence_starts_another_group() -> None:
    made = plan(traced(lambda x: ops.relu(ops.relu(x)), normal(3)), profiles.reference_cpu)
    weaker = replace(STRICT[RELU], shape=capsule.guarded(Claim.SHAPE, "nothing much"))
    changed = type(made)(
        graph=made.graph, profile=made.profile, steps=(made.steps[0], replace(made.steps[1], capsule=weaker))
    )
    assert [group.nodes for group in groups(changed)] == [(0,), (1,)]


def test_an_audit_lists_four_obligations_per_capsule() -> None:
    made = plan(traced(lambda x: ops.relu(ops.relu(x)) + x, normal(3)), profiles.reference_cpu)
    first = audit(made)
    assert [(kernel.capsule, kernel.nodes, len(kernel.obligations)) for kernel in first.kernels] == [
        ("reference.relu", 2, 4),
        ("reference.add", 1, 4),
    ]
    assert first == audit(plan(traced(lambda x: ops.relu(ops.relu(x)) + x, normal(3)), profiles.reference_cpu))
    assert first.trusted_boundaries == ()
    assert [report.obligation for report in obligations(STRICT[ADD])] == ["shape", "layout", "value", "vjp"]
    json.dumps(first.as_json())


def test_a_plan_report_states_profile_boundary_and_capsules() -> None:
    lines = plan_report(plan(traced(ops.relu, normal(3)), profiles.reference_cpu))
    assert lines[0] == "profile=reference_cpu device=cpu assurance=checked vjp=torchlean-tape"
    assert lines[1] == "trusted-external capsules: none"
    assert lines[2].startswith("  relu: reference.relu ")
    assert len(lines) == 7


def test_a_printed_plan() -> None:
    graph = traced(ops.linear, normal(4, 3), normal(2, 3), normal(2), name="layer")
    value = "tested: …::test_the_kernel_has_the_bits_of_the_definition (fresh)"
    assert str(plan(graph, CHECKED_CPU)) == "\n".join(
        [
            "plan: 4 kernels, profile reference_cpu, device cpu",
            f"  %3  = permute    f32[3,2]  reference.permute    checked  n/a         {value}",
            f"  %4  = matmul     f32[4,2]  reference.matmul     checked  fixed-left  {value}",
            f"  %5  = broadcast  f32[4,2]  reference.broadcast  checked  n/a         {value}",
            f"  %6  = add        f32[4,2]  reference.add        checked  n/a         {value}",
            "  expanded linear ×1: no capsule implements it",
        ]
    )


def test_a_plan_as_json() -> None:
    made = plan(traced(lambda x: x + x, normal(3), name="double"), CHECKED_CPU).as_json()
    json.dumps(made)
    for changing in ("environment", "evidence_notes"):  # of this machine
        made.pop(changing)
    made["steps"][0].pop("evidence")
    where = made["steps"][0].pop("where")
    assert where.startswith("test_planning.py:")
    assert made == {
        "graph": "double",
        "profile": "reference_cpu",
        "device": "cpu",
        "assurance": "checked",
        "required_reduction": "fixed-left",
        "modules": ["reference"],
        "allow_stale": False,
        "exact_evidence": False,
        "determinism": None,
        "derivatives": [],
        "steps": [
            {
                "outputs": [1],
                "op": "add",
                "inputs": [0, 0],
                "types": ["f32[3]"],
                "capsule": "reference.add",
                "provider": "reference",
                "trust": "checked",
                "vjp": "torchlean-tape",
                "reduction": "n/a",
                "refused": [],
            }
        ],
        "expanded": [],
    }


# -- size --------------------------------------------------------------------------------------------------------------
def chain(length: int) -> Any:
    """A straight line of alternating tanh and add nodes."""
    builder = Builder(name="chain")
    x = builder.add_input(X)
    builder.where = NOWHERE
    value = x.id
    for position in range(length):
        op, inputs = (TANH, (value,)) if position % 2 == 0 else (ADD, (value, x.id))
        (value,) = builder.emit(op, NO_PARAMS, inputs)
    return builder.finish((value,))


def test_a_hundred_thousand_nodes_plan_compile_and_run() -> None:
    graph = chain(100_000)
    made = Executable(accept(plan(graph, profiles.reference_cpu)))
    x = np.array([0.5, -1.0, 0.25], dtype=np.float32)
    assert same_bits(made.call(x)[0], denote(graph, [x])[0])
    assert len(made.plan) == 100_000
    assert len(str(made.plan).splitlines()) == 202


def test_planning_and_compiling_are_linear() -> None:
    """Four times the nodes in under eight times the processor time (it was four; other processes may disturb)."""

    def spent(length: int) -> float:
        graph = chain(length)
        started = time.process_time()
        Executable(accept(plan(graph, profiles.reference_cpu)))
        return time.process_time() - started

    assert min(spent(40_000) for _ in range(2)) < 8 * min(spent(10_000) for _ in range(2))
