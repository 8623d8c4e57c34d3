"""A capsule under trial: the calls it is tried on, and what the definition gives for them, computed once."""

from __future__ import annotations

from collections.abc import Sequence

from torchlean.backends.capsule import Capsule
from torchlean.backends.profile import CapsuleModule
from torchlean.conformance.kit.calls import Arrays, Trial, calls_of, defined
from torchlean.conformance.samples.call import Case
from torchlean.errors import ConfigError, message

QUICK = 12  # calls tried in quick mode


class Subject:
    """`trials` are all calls of the op, `served` those the capsule does not refuse (a thinner choice when quick)."""

    __slots__ = ("_defined", "capsule", "module", "quick", "seed", "served", "trials")

    def __init__(
        self, capsule: Capsule, module: CapsuleModule, cases: Sequence[Case], *, quick: bool, seed: int
    ) -> None:
        self.capsule = capsule
        self.module = module
        self.quick = quick
        self.seed = seed
        self.trials = tuple(calls_of(capsule.op, cases))
        if not self.trials:
            raise ConfigError(
                message(
                    f"the conformance kit has no sample of {capsule.op.name}, so {capsule.name} cannot be tried",
                    expected="a sample or a call of every op a module serves",
                    got="none",
                    fix="name a tuple of samples: `SAMPLES` beside the module, or run_capsule(…, cases=…)",
                )
            )
        accepted = [trial for trial in self.trials if not refusal(capsule, trial)]
        self.served = tuple(thinned(accepted, QUICK) if quick else accepted)
        self._defined: dict[int, Arrays] = {}

    def defined(self, trial: Trial) -> Arrays:
        """What the definition gives for one of the subject's trials."""
        known = self._defined.get(id(trial))
        if known is None:
            known = self._defined[id(trial)] = defined(trial.op, trial.params, trial.arrays)
        return known


def refusal(capsule: Capsule, trial: Trial) -> bool:
    """Whether the capsule refuses the call, in whatever way; how it does is looked at under its shape contract."""
    try:
        return capsule.refuses(trial.params, trial.types) is not None
    except Exception:
        return False


def thinned(trials: Sequence[Trial], most: int) -> list[Trial]:
    """At most so many, spread evenly; small operands before large ones."""
    small = [trial for trial in trials if sum([array.size for array in trial.arrays]) <= 4096]
    chosen = small or list(trials)
    if len(chosen) <= most:
        return list(chosen)
    return [chosen[at * (len(chosen) - 1) // (most - 1)] for at in range(most)]
