"""All samples and calls together: what the laws and the conformance kit run over."""

from __future__ import annotations

from torchlean.conformance.samples import bits, composites
from torchlean.conformance.samples.call import Call, Case
from torchlean.conformance.samples.control import control_rows
from torchlean.conformance.samples.draw import Sample
from torchlean.conformance.samples.effects import EFFECT_SAMPLES
from torchlean.conformance.samples.larger import LARGER
from torchlean.conformance.samples.numeric import NUMERIC
from torchlean.conformance.samples.primitive import SAMPLES

CONTROL_CALLS: tuple[Call, ...] = tuple([Call(*row) for row in control_rows()])

CALLS: tuple[Call, ...] = (
    *composites.activations_samples(),
    *composites.stable_samples(),
    *composites.norms_samples(),
    *composites.neural_samples(),
    *composites.losses_samples(),
    *composites.pools_samples(),
    *CONTROL_CALLS,
)

WORDS: tuple[Sample, ...] = tuple(bits.generators_samples())

_FURTHER = tuple([word for word in WORDS if word.op not in {sample.op for sample in SAMPLES}])

ALL_CASES: tuple[Case, ...] = (*SAMPLES, *NUMERIC, *_FURTHER, *CALLS)
KIT_CASES: tuple[Case, ...] = (*ALL_CASES, *LARGER, *EFFECT_SAMPLES)  # what the conformance kit tries
