"""Every op and composite behind a branch that is not taken, at operands where many are singular, from their samples.

`tests/edge/test_kinds.py` tries elementwise ops at their poles; here whole calls are tried: norms, factorisations,
products, loops. A cotangent (or tangent) that is zero everywhere comes back as zero, exactly.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ops.composite_samples import ALL_CASES, Case, float_operands, graph_of, has_reverse

from torchlean.ir.evaluate import denote
from torchlean.ir.ops import ALL_OPS
from torchlean.ir.rules import NoTangent
from torchlean.transforms.jvp import jvp_graph
from torchlean.transforms.slopes import Derivatives
from torchlean.transforms.vjp import vjp_graph

FILLS = {"zeros": 0.0, "ones": 1.0, "minus ones": -1.0}
# Plain arithmetic that overflows or meets a NaN of the input is no pole (docs/derivatives.md, "What it cannot know").
OPS = sorted({case.op.name for case in ALL_CASES if float_operands(case) and case.op.diff.__class__ is not NoTangent})


def cases_of(name: str) -> list[Case]:
    return [case for case in ALL_CASES if case.op.name == name and float_operands(case)]


def dead(case: Case, arrays: list[Any], mode: Derivatives = Derivatives.GUARDED) -> list[Any]:
    """What zero cotangents, then zero tangents, come back as."""
    graph, wrt = graph_of(case), float_operands(case)
    made: list[Any] = []
    if has_reverse(case.op):
        zeros = [np.zeros(type.shape, type.dtype.carrier) for type in graph.output_types]
        made += denote(vjp_graph(graph, wrt, mode=mode), [*arrays, *zeros])
    pushed, active = jvp_graph(graph, [at in wrt for at in range(len(arrays))], mode=mode)
    made += denote(pushed, [*arrays, *[np.zeros_like(arrays[at]) for at in wrt]])[len(active) :]
    return made


@pytest.mark.parametrize("name", OPS)
def test_zero_comes_back_as_zero(name: str) -> None:
    wrong: list[str] = []
    with np.errstate(all="ignore"):
        for case in cases_of(name):
            wrt = float_operands(case)
            for label, value in FILLS.items():
                arrays = [np.full_like(a, value) if at in wrt else a for at, a in enumerate(case.arrays)]
                if any([np.asarray(x).astype(np.complex128).any() for x in dead(case, arrays)]):
                    wrong.append(f"{case!r} of {label}")
    assert wrong == []


DEGENERATE = [case for case in ALL_CASES if "degenerate" in repr(case)]


@pytest.mark.parametrize("case", [pytest.param(case, id=repr(case)) for case in DEGENERATE])
def test_a_singular_matrix_in_a_dead_branch_contributes_nothing(case: Case) -> None:
    with np.errstate(all="ignore"):
        assert not any([np.asarray(x).astype(np.complex128).any() for x in dead(case, list(case.arrays))])


def test_the_raw_rules_of_a_singular_matrix_give_nan() -> None:
    """So the check can fail; and `ieee_derivatives` has its rules."""
    raw: set[str] = set()
    with np.errstate(all="ignore"):
        for case in DEGENERATE:
            if any([np.isnan(np.asarray(x)).any() for x in dead(case, list(case.arrays), Derivatives.IEEE)]):
                raw.add(case.op.name)
    assert raw == {"cholesky", "lu", "qr", "triangular_solve"}


def test_a_batch_is_settled_matrix_by_matrix() -> None:
    """The regular matrix has its cotangent, the singular one beside it none."""
    import torchlean as tl
    import torchlean.numpy as tnp

    matrices = np.float64([[[4.0, 0.0], [2.0, 3.0]], [[0.0, 0.0], [0.0, 0.0]]])
    taken = np.array([True, False])[:, None, None]
    grad = tl.grad(lambda a: tnp.sum(tnp.where(taken, tnp.linalg.cholesky(a), 0.0)))(matrices)
    alone = tl.grad(lambda a: tnp.sum(tnp.linalg.cholesky(a)))(matrices[0])
    np.testing.assert_array_equal(np.asarray(grad), np.stack([np.asarray(alone), np.zeros((2, 2))]))
    second = tl.hessian(lambda a: tnp.sum(tnp.where(taken, tnp.linalg.cholesky(a), 0.0)))(matrices)
    assert np.isfinite(np.asarray(second)).all()


def test_every_op_with_a_derivative_is_tried() -> None:
    names = {op.name for op in ALL_OPS if op.diff.__class__ is not NoTangent}
    assert names - set(OPS) - {"complex", "real", "imag", "conj", "fft", "irfft"} == set()
    assert len(OPS) >= 110
    assert len(DEGENERATE) >= 15
