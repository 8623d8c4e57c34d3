"""Profiles: a device, an ordered registry of capsule modules, and a policy. Plain frozen values; nothing is global.

Module order is semantic: the first admissible capsule in module order is chosen, and the plan prints it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from torchlean.backends.capsule import Capsule, Contract, TestSuite
from torchlean.backends.policy import AssurancePolicy
from torchlean.backends.switches import Environment, LoadSetting, Switch
from torchlean.backends.target import Probe
from torchlean.backends.vocabulary import Determinism, Device, Reduction, VjpMode
from torchlean.errors import ConfigError, PlanRejected, message
from torchlean.evidence.standing import NO_LEDGER, Standing
from torchlean.ir.op import Op
from torchlean.ir.ops.pulling import Owner

if TYPE_CHECKING:
    from torchlean.backends.sharding import Mesh
    from torchlean.evidence.ledger import Ledger


@dataclass(frozen=True, slots=True, kw_only=True)
class CapsuleModule:
    """A named set of capsules. `probe()` is None when they can run on this machine, else the reason why not.

    `switches`: environment variables that change the capsules; `settings`: those its library read when it was loaded.
    `ledger`: the records behind its tested contracts; without one nothing was ever run. `eager` is False where binding
    takes so long, since it compiles, that sessions, which run op by op, leave the module out. `switched_by`: the values
    under which capsules are as they are here, by the name of each capsule that a switch concerns. `mesh`: the devices
    that its groups are compiled for, where they are several. `derives`: the ops it differentiates itself, in whole
    functions (`function.vjp`); None where gradients are nodes.
    """

    name: str
    capsules: tuple[Capsule, ...]
    probe: Probe
    switches: tuple[Switch, ...] = ()
    settings: tuple[LoadSetting, ...] = ()
    ledger: Ledger | None = None
    eager: bool = True
    switched_by: tuple[tuple[str, Environment], ...] = ()
    mesh: Mesh | None = None
    derives: frozenset[Op] | None = None

    def standing(self, capsule: Capsule, obligation: str) -> Standing | None:
        """How the evidence of a tested contract stands; None for a contract that rests on something else."""
        contract: Contract = getattr(capsule, obligation)
        if not isinstance(contract.evidence, TestSuite):
            return None
        if self.ledger is None:
            return NO_LEDGER
        return self.ledger.standing(capsule, obligation, self.environment_of(capsule) if self.switched_by else ())

    def environment_of(self, capsule: Capsule) -> Environment:
        """The switches that concern a capsule, with the values under which it is what it is; () for none."""
        return next((values for name, values in self.switched_by if name == capsule.name), ())

    def switched(self, values: Environment) -> CapsuleModule:
        """The module as it is under these values of its switches."""
        if not self.switches:
            return self
        capsules = self.capsules
        under: dict[str, Environment] = {capsule.name: () for capsule in capsules}
        for switch in self.switches:
            value = next(value for variable, value in values if variable == switch.variable)
            for capsule in capsules:
                if switch.concerns(capsule):
                    under[capsule.name] = (*under[capsule.name], (switch.variable, value))
            capsules = tuple([switch.changes(capsule, value) for capsule in capsules])
        return replace(
            self, capsules=capsules, switched_by=tuple([(name, held) for name, held in under.items() if held])
        )

    def switched_now(self) -> CapsuleModule:
        """The module as its switches make it now; ConfigError for a value that is no choice."""
        return self.switched(tuple([(switch.variable, switch.value()) for switch in self.switches]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What may run: `modules` in order of preference, on `device`, under `policy`.

    `switched_by` holds the values of the modules' switches once a plan has read them, and None before.
    """

    name: str
    device: Device
    modules: tuple[CapsuleModule, ...]
    policy: AssurancePolicy
    switched_by: Environment | None = None

    def with_modules(self, *modules: CapsuleModule) -> Profile:
        """New modules in front; an old one of the same name is replaced. A name given twice is refused at planning."""
        new = {module.name for module in modules}
        return replace(self, modules=(*modules, *[old for old in self.modules if old.name not in new]))

    def for_sessions(self) -> Profile:
        """The same profile without the modules that are for lowered programs only."""
        kept = tuple([module for module in self.modules if module.eager])
        return self if len(kept) == len(self.modules) else replace(self, modules=kept)

    def on(self, device: Device) -> Profile:
        """The same registry and policy for another device."""
        return replace(self, device=device)

    def under(self, policy: AssurancePolicy, *, name: str | None = None) -> Profile:
        """The same registry and device under another policy."""
        return replace(self, policy=policy, name=name or self.name)

    def requiring(self, reduction: Reduction) -> Profile:
        """The same profile, which admits only this order in capsules that reduce."""
        return replace(self, policy=replace(self.policy, reduction=reduction))

    def deterministic(self, level: Determinism | str = Determinism.BITWISE) -> Profile:
        """The same profile, every step of which must be deterministic: "bitwise" or "run-to-run"."""
        for known in Determinism:
            if level is known or level == known.value:
                return replace(self, policy=replace(self.policy, determinism=known))
        raise ConfigError(
            message(
                f"unknown level of determinism {level!r}",
                expected=" or ".join([str(known) for known in Determinism]),
                got=repr(level),
                fix="name one of these",
            )
        )

    @property
    def mesh(self) -> Mesh | None:
        """The devices programs are compiled for, where they are several: those of the first module that has a mesh."""
        return next((module.mesh for module in self.modules if module.mesh is not None), None)

    @property
    def owner(self) -> Owner | None:
        """Who differentiates what is lowered with this profile, where that is a module and not the IR."""
        derives = next((module.derives for module in self.modules if module.derives is not None), None)
        return None if derives is None else Owner(derives, self.policy.vjp is VjpMode.BACKEND)

    # -- evidence --------------------------------------------------------------------------------------------------
    def owners(self) -> dict[int, CapsuleModule]:
        """The module of each capsule, by the capsule's identity."""
        return {id(capsule): module for module in self.modules for capsule in module.capsules}

    # -- environment -----------------------------------------------------------------------------------------------
    @property
    def has_switches(self) -> bool:
        """Whether an environment variable can change a capsule of this profile."""
        return any([module.switches for module in self.modules])

    def environment(self) -> Environment:
        """The switches of the modules with their values now; ConfigError for a value that is no choice."""
        switches = {switch.variable: switch for module in self.modules for switch in module.switches}
        return tuple([(variable, switch.value()) for variable, switch in switches.items()])

    def settings(self) -> Environment:
        """What the modules' libraries read when they were loaded, where it was set."""
        held = {setting.variable: setting.value for module in self.modules for setting in module.settings}
        return tuple([(variable, value) for variable, value in held.items() if value])

    def switched(self) -> Profile:
        """The profile as its switches make it now; itself when it has none, or when they have been read before."""
        if self.switched_by is not None or not self.has_switches:
            return self
        values = self.environment()
        return replace(self, modules=tuple([module.switched(values) for module in self.modules]), switched_by=values)

    def drift(self) -> str | None:
        """Which switch has another value now than when this profile read it, or None."""
        if self.switched_by is None:
            return "the switches of its modules were not read" if self.has_switches else None
        now = dict(self.environment())
        for variable, value in self.switched_by:
            if now.get(variable) != value:
                return f"{variable} was {value} when this was planned and is {now.get(variable)} now"
        return None

    def __str__(self) -> str:
        return f"profile={self.name} device={self.device} assurance={self.policy.label} vjp={self.policy.vjp}"


def refuse_duplicates(profile: Profile) -> None:
    """PlanRejected when two modules share a name, or two capsules share (name, op, provider, device)."""
    names = Counter(module.name for module in profile.modules)
    for name, count in names.items():
        if count > 1:
            raise PlanRejected(
                message(
                    f"duplicate backend capsule module `{name}`",
                    expected="every module name once",
                    got=", ".join(module.name for module in profile.modules),
                    fix="drop one, or rename it",
                )
            )
    seen: set[tuple[Any, ...]] = set()
    for module in profile.modules:
        for capsule in module.capsules:
            identity = (capsule.name, capsule.op, capsule.provider, capsule.device)
            if identity in seen:
                raise PlanRejected(
                    message(
                        f"duplicate backend capsule identity `{capsule.name}`",
                        expected="one capsule for each (name, op, provider, device)",
                        got=f"{capsule.name} twice on {capsule.device}, the second in module {module.name}",
                        fix="give one of them a variant",
                    )
                )
            seen.add(identity)
