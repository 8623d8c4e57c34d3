"""The samples of the primitive ops as pytest parameters; the samples themselves ship with the conformance kit."""

from __future__ import annotations

from typing import Any

import pytest

from torchlean.conformance.samples.draw import SPECIALS, Sample, integers, spaced, specials, uniform
from torchlean.conformance.samples.primitive import SAMPLED, SAMPLES
from torchlean.conformance.samples.windows import CONVOLUTIONS, adjoint, output_shape
from torchlean.ir.op import Op

__all__ = [
    "CONVOLUTIONS",
    "SAMPLED",
    "SAMPLES",
    "SPECIALS",
    "Sample",
    "adjoint",
    "cases",
    "integers",
    "output_shape",
    "spaced",
    "specials",
    "uniform",
]


def cases(samples: tuple[Sample, ...] = SAMPLES, ops: tuple[Op, ...] = SAMPLED) -> list[Any]:
    """The samples as pytest parameters. Fails if an op has none, or two samples of an op share a name."""
    missing = [op.name for op in ops if not any(sample.op is op for sample in samples)]
    assert missing == [], f"ops without a sample: {missing}"
    names = [repr(sample) for sample in samples]
    twice = sorted({name for name in names if names.count(name) > 1})
    assert twice == [], f"samples with one name: {twice}"
    return [pytest.param(sample, id=repr(sample)) for sample in samples]
