"""What a claim is about: the facts of the live capsule, and where the sources it depends on begin.

Facts are read from the capsule each time, which no source on disk replaces: a capsule given another handler, bound or
order is not the one that was tried. Capsules are looked at by attribute, since the layer that defines them lies above.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

from torchlean.evidence.live import Origin, Walk, shortened

Facts = tuple[tuple[str, str], ...]


SWITCHES = "switches"  # the fact that says under which environment a capsule was what it was
_ALWAYS = ("op", "definition", "device", "handler", "refuses")
_NUMBERS = ("bound", "reduction", "contraction", "subnormals", "accumulator")
_OF_CLAIM = MappingProxyType(
    {
        "shape": frozenset(_ALWAYS),
        "layout": frozenset({*_ALWAYS, "layout"}),
        "value": frozenset({*_ALWAYS, *_NUMBERS}),
        "vjp": frozenset({*_ALWAYS, *_NUMBERS, "vjp", "rules"}),
    }
)


def all_facts(capsule: Any) -> dict[str, str]:
    """What is asserted of the capsule beside sources, by name."""
    walk = Walk()
    op, numerics = capsule.op, capsule.numerics
    made = {
        "op": op.name,
        "definition": walk.definition(op),
        "device": str(capsule.device),
        "handler": walk.text(capsule.handler),
        "refuses": walk.text(capsule.refuses),
        "layout": capsule.layout_kind,
        "bound": walk.text(capsule.bound),
        "reduction": str(numerics.reduction),
        "contraction": str(numerics.contraction),
        "subnormals": str(numerics.subnormals),
        "accumulator": str(numerics.accumulator),
        "vjp": str(capsule.vjp_mode),
        "rules": walk.text(op.diff),
    }
    return {name: shortened(text) for name, text in made.items()}


def facts_of(claim: str, held: dict[str, str]) -> dict[str, str]:
    """Those a claim rests on: the ones of other contracts left out."""
    wanted = _OF_CLAIM[claim]
    return {name: text for name, text in held.items() if name in wanted}


def facts(capsule: Any, claim: str) -> Facts:
    """What the claim rests on beside sources, as (name, text) pairs."""
    return tuple(facts_of(claim, all_facts(capsule)).items())


def under(environment: Sequence[tuple[str, str]]) -> Facts:
    """The values of the environment variables that change the capsule, as one fact; none when no variable does."""
    if not environment:
        return ()
    return ((SWITCHES, " ".join([f"{name}={value}" for name, value in environment])),)


def files_of(capsule: Any, claim: str) -> tuple[str, ...]:
    """Files that are no Python and that the claim depends on as a whole, as paths that start with their package: what
    the contract names as its source, and what the handler lists as its `sources`.
    """
    stated = getattr(capsule, claim).source
    listed = (*(() if stated is None else (stated,)), *getattr(capsule.handler, "sources", ()))
    return tuple(sorted({path for path in listed if not path.partition("::")[0].endswith(".py")}))


def origins(capsule: Any, claim: str) -> list[Origin]:
    """The functions and classes the claim starts at: the op's definition, what the handler holds and how it binds, what
    the capsule refuses; for the vjp claim also the derivative rules.
    """
    walk = Walk()
    for part in (capsule.op, capsule.handler, capsule.refuses, capsule.bound):
        walk.text(part)
    bind = getattr(type(capsule.handler), "bind", None)
    if bind is not None:
        walk.text(bind)
    if claim == "vjp":
        walk.text(capsule.op.diff)
        gradient = getattr(capsule.op, "gradient", None)
        if gradient is not None:
            walk.text(gradient)
    return list(walk.origins)
