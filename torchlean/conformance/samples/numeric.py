"""The samples of the numeric ops, of bfloat16 and complex operands of the older ones."""

from __future__ import annotations

from torchlean.conformance.samples import bits, complexes, formats, functions, matrices, places, running
from torchlean.conformance.samples.draw import Sample
from torchlean.ir.op import Op
from torchlean.ir.ops import (
    cumulative,
    determinant,
    dynamic,
    elementary,
    factor,
    fft,
    fold,
    parts,
    quotients,
    rounding,
    spectral,
    triangular,
    words,
)
from torchlean.ir.ops import scattering as scatter_ops
from torchlean.ir.ops import sorting as sort_ops

NUMERIC_OPS: tuple[Op, ...] = (
    *rounding.OPS,
    *elementary.OPS,
    *quotients.OPS,
    *words.OPS,
    *parts.OPS,
    *cumulative.OPS,
    *fold.OPS,
    *dynamic.OPS,
    *scatter_ops.OPS,
    *sort_ops.OPS,
    *fft.OPS,
    *triangular.OPS,
    *factor.OPS,
    *spectral.OPS,
    *determinant.OPS,
)

_FURTHER = (
    *functions.rounding_samples(),
    *functions.elementary_samples(),
    *functions.quotients_samples(),
    *bits.words_samples(),
    *running.running_samples(),
    *running.folds_samples(),
    *places.windows_samples(),
    *places.scatters_samples(),
    *places.sorts_samples(),
    *matrices.fourier_samples(),
    *matrices.matrices_samples(),
    *formats.bfloat_samples(),
    *formats.stored_samples(),
    *complexes.complex_rough_samples(),
)

_NAMES = frozenset(repr(sample) for sample in _FURTHER)

NUMERIC: tuple[Sample, ...] = _FURTHER + tuple(
    [sample for sample in complexes.COMPLEX_SMOOTH if repr(sample) not in _NAMES]
)
