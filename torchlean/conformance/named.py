"""Capsule modules by name, and the samples each brings: a tuple `SAMPLES` beside it, for ops the kit does not know."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from torchlean.backends.installed import installed, offered
from torchlean.backends.profile import CapsuleModule
from torchlean.backends.profiles import MAINTAINED
from torchlean.conformance.samples.call import Call, Case
from torchlean.conformance.samples.draw import Sample
from torchlean.errors import ConfigError, message
from torchlean.record import record


@record(eq=False)
class Named:
    """A capsule module as its switches make it now, what names it, and the samples it brings."""

    text: str
    module: CapsuleModule
    cases: tuple[Case, ...]


def named(text: str) -> Named:
    """What `package.module:NAME` names, and `SAMPLES` beside it; ConfigError saying what is wrong with it."""
    path, _, name = text.partition(":")
    if not path or not name:
        raise ConfigError(
            message(
                f"{text!r} does not name a capsule module",
                expected="package.module:NAME",
                got=repr(text),
                fix="name the module that holds it and the variable, as in mychip.capsules:MODULE",
            )
        )
    try:
        held = import_module(path)
    except Exception as error:  # whatever another package's import raises
        raise ConfigError(
            message(
                f"{text} cannot be imported",
                expected=f"{path} as a module that is installed, or whose folder is on PYTHONPATH",
                got=f"{type(error).__name__}: {error}",
                fix="install its package, or correct the name",
            )
        ) from error
    module = getattr(held, name, None)
    if not isinstance(module, CapsuleModule):
        found = [key for key, value in vars(held).items() if isinstance(value, CapsuleModule)]
        raise ConfigError(
            message(
                f"{text} is {type(module).__name__}, not a CapsuleModule",
                expected=f"one of those in {path}: {', '.join(found) or 'there is none'}",
                got=type(module).__name__,
                fix="name the variable that holds the module",
            )
        )
    return Named(text, module.switched_now(), samples_beside(held))


def samples_beside(held: ModuleType) -> tuple[Case, ...]:
    """`SAMPLES` of a Python module, () without; ConfigError for anything but a tuple of samples and calls."""
    cases = getattr(held, "SAMPLES", ())
    wrong = [case for case in cases if not isinstance(case, Sample | Call)] if isinstance(cases, tuple) else [cases]
    if wrong:
        raise ConfigError(
            message(
                f"SAMPLES in {held.__name__} is not a tuple of samples and calls",
                expected="a tuple of torchlean.conformance.samples Sample and Call",
                got=f"{type(wrong[0]).__name__}" + (" in it" if isinstance(cases, tuple) else ""),
                fix="write SAMPLES = (Sample(…), Call(…))",
            )
        )
    return cases


def known_modules(texts: tuple[str, ...] | list[str] = ()) -> tuple[Named, ...]:
    """Those of the maintained profiles, each once, those of installed packages, then `package.module:NAME` ones."""
    found: dict[str, Named] = {}
    for profile in MAINTAINED:
        for module in profile.modules:
            found.setdefault(module.name, Named(module.name, module.switched_now(), ()))
    points = offered()
    for module in installed():
        if module.name not in found:
            beside = import_module(points[module.name].module)
            found[module.name] = Named(module.name, module.switched_now(), samples_beside(beside))
    for text in texts:
        held = named(text)
        found[held.module.name] = held
    return tuple(found.values())
