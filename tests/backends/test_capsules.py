"""What a capsule's constructor refuses, what its report says, and that every test it names exists."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import Any

import pytest

from torchlean.backends import (
    Claim,
    Device,
    Reduction,
    TestSuite,
    TrustLevel,
    VjpMode,
    capsule,
    device_named,
    label,
    profiles,
    reference,
    report_lines,
    vocabulary,
)
from torchlean.backends import numpy as numpy_provider
from torchlean.errors import ConfigError
from torchlean.ir import ops
from torchlean.ir.ops import PRIMITIVES
from torchlean.ir.ops.elementwise import ADD
from torchlean.ir.ops.spread import REDUCE_SUM

STRICT = {made.op: made for made in reference.MODULE.capsules}
MAINTAINED = (*reference.MODULE.capsules, *numpy_provider.MODULE.capsules)


def text_of(error: pytest.ExceptionInfo[Any]) -> str:
    return str(error.value)


def test_a_reducing_capsule_must_state_its_order() -> None:
    sums = STRICT[REDUCE_SUM]
    with pytest.raises(ConfigError) as refused:
        replace(sums, numerics=replace(sums.numerics, reduction=Reduction.NOT_APPLICABLE))
    assert text_of(refused) == (
        "reference.reduce_sum reduces, so its reduction order cannot be n/a\n"
        "  expected: fixed-left, fixed-tree or implementation-defined\n"
        "  got:      n/a\n"
        "  fix:      state the order in which the kernel adds"
    )


@pytest.mark.parametrize("provider", ["my chip", "MyChip", "numpy;import os", "", "x" + chr(10)])
def test_a_name_outside_the_charset_is_refused(provider: str) -> None:
    with pytest.raises(ConfigError, match="a capsule name has characters outside a-z 0-9 _"):
        replace(STRICT[ADD], provider=provider)


def test_misaligned_contracts_are_refused() -> None:
    add = STRICT[ADD]
    with pytest.raises(ConfigError) as refused:
        replace(add, shape=add.value)
    assert text_of(refused) == (
        "reference.add has misaligned contract claims for add: field shape holds a value claim, expected shape\n"
        "  fix:      put each contract in the field of its claim, and give the vjp contract the capsule's vjp_mode"
    )
    with pytest.raises(ConfigError, match="field vjp holds a vjp claim, expected no vjp"):
        replace(add, vjp_mode=VjpMode.NONE)
    with pytest.raises(ConfigError, match="field vjp holds a no vjp claim, expected vjp"):
        replace(add, vjp=capsule.vjp_unavailable("none here"))
    with pytest.raises(ConfigError, match="field value is not applicable, which only an absent vjp may be"):
        replace(add, value=replace(add.value, evidence=capsule.NotApplicable("no reason")))


def test_a_tested_contract_names_a_test() -> None:
    with pytest.raises(ConfigError) as refused:
        capsule.tested(Claim.VALUE)
    assert text_of(refused) == ("a tested value contract names no test\n  fix:      name the pytest ids that cover it")


def test_trust_is_derived_from_the_weakest_evidence() -> None:
    add = STRICT[ADD]
    assert add.trust is TrustLevel.CHECKED
    for field, claim in (("shape", Claim.SHAPE), ("layout", Claim.LAYOUT), ("value", Claim.VALUE), ("vjp", Claim.VJP)):
        changed = replace(add, **{field: capsule.trusted(claim, "the vendor says so")})
        assert changed.trust is TrustLevel.TRUSTED_EXTERNAL


def test_a_variant_tells_two_kernels_apart() -> None:
    assert replace(STRICT[ADD], provider="torchlean", variant="direct").name == "torchlean.direct_add"


def test_the_report_reads_as_in_the_seeds() -> None:
    add = replace(
        STRICT[ADD],
        value=capsule.tested(Claim.VALUE, "suite.py::value"),
        vjp=capsule.tested(Claim.VJP, "suite.py::vjp"),
    )
    assert report_lines(add) == [
        "  add: reference.add provider=reference trust=checked vjp=torchlean-tape reduction=n/a",
        "    shape: shape safety for add; guarded at runtime by portable runtime shape checks",
        "    layout: canonical-tensor layout compatibility for add; guarded at runtime by typed tensor layout",
        "    value: add forward refines its TorchLean semantics; covered by test suite suite.py::value",
        "    vjp: add torchlean-tape VJP refines its TorchLean semantics; covered by test suite suite.py::vjp",
    ]
    trusting = replace(add, value=capsule.trusted(Claim.VALUE, "libfoo", summary="float32 only"))
    assert report_lines(trusting)[3] == (
        "    value: add forward refines its TorchLean semantics (float32 only); trusted boundary: libfoo"
    )
    eq = STRICT[next(op for op in PRIMITIVES if op.name == "eq")]
    assert report_lines(eq)[4] == "    vjp: eq has no VJP in this capsule; not applicable"


def test_labels_are_those_of_the_seeds() -> None:
    named = {op.name: label(op) for op in ops.ALL_OPS}
    changed = {name: shown for name, shown in named.items() if name != shown}
    assert changed == {
        "transpose": "permute",
        "dot_general": "matmul",
        "logistic": "sigmoid",
        "concatenate": "concat",
    }
    assert len(set(named.values())) == len(named)


def test_nine_devices_are_known() -> None:
    names = "cpu cuda rocm metal wasm tpu trainium custom external"
    assert " ".join(map(str, Device)) == names
    assert [device_named(name) for name in names.split()] == list(Device)
    assert device_named("gpu") is Device.CUDA
    with pytest.raises(ConfigError) as refused:
        device_named("abacus")
    assert text_of(refused) == f"unknown device abacus (known targets: {', '.join(names.split())})"


@pytest.mark.parametrize("name", ["rocm", "metal", "wasm", "tpu", "trainium", "custom", "external"])
def test_a_device_without_a_profile_is_refused_in_the_seeds_words(name: str) -> None:
    with pytest.raises(ConfigError) as refused:
        profiles.for_device(name)
    assert text_of(refused) == (
        f"device `{name}` has no maintained runtime profile; provide a backend profile with executable capsules"
    )


def test_cuda_is_refused_and_cpu_is_strict() -> None:
    with pytest.raises(ConfigError) as refused:
        profiles.for_device("cuda")
    assert text_of(refused) == (
        "device `cuda` is not built in this version, so it has no maintained runtime profile; "
        "provide a backend profile with executable capsules"
    )
    assert profiles.for_device("cpu") is profiles.checked_cpu
    assert profiles.named("fast_cpu") is profiles.fast_cpu
    with pytest.raises(ConfigError) as unknown:
        profiles.named("slow_cpu")
    names = "checked_cpu, fast_cpu, reference_cpu, numpy_cpu, xla_cpu"
    assert text_of(unknown) == f"unknown profile slow_cpu (maintained profiles: {names})"


def test_every_claim_has_one_sentence() -> None:
    texts = {vocabulary.claim_text(claim, ADD, VjpMode.TAPE, "canonical-tensor") for claim in Claim}
    assert len(texts) == len(Claim) == 5


def test_every_test_a_maintained_capsule_names_exists(root: Any) -> None:
    named = {
        test
        for made in MAINTAINED
        for contract in made.contracts
        if isinstance(contract.evidence, TestSuite)
        for test in contract.evidence.ids
    }
    assert len(named) == 6
    for test in named:
        file, function = test.split("::")
        tree = ast.parse((root / file).read_text())
        assert function in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}, test
