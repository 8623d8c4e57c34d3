"""Who differentiates: our backward graph (`torchlean-tape`), or jax (`backend-vjp`), op by op.

Under `backend-vjp` a gradient is one node, `function.vjp`, whose capsule runs jax.vjp of the function. It rests on
jax's derivative rules and the XLA compiler; both are compared with our graph in tests/backends/xla/test_deriving.py.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

from torchlean.backends.capsule import Capsule, Unstated, trusted
from torchlean.backends.handler import FRESH
from torchlean.backends.policy import EXTERNAL
from torchlean.backends.profile import CapsuleModule, Profile
from torchlean.backends.vocabulary import Claim, Device, VjpMode
from torchlean.backends.xla.capsules import MODULE, refusing
from torchlean.backends.xla.handlers import PROVIDER, InXla
from torchlean.backends.xla.platforms import PLATFORMS
from torchlean.errors import ConfigError, message
from torchlean.ir.op import Op
from torchlean.ir.ops import (
    chain,
    cumulative,
    elementary,
    quotients,
    repeating,
    scattering,
    spectral,
    triangular,
    words,
)
from torchlean.ir.ops import elementwise as ew
from torchlean.ir.ops.loss import MSE_LOSS
from torchlean.ir.ops.pulling import FUNCTION_VJP
from torchlean.ir.rules import NoTangent

_TRUSTED = "jax's derivative rules and the XLA compiler"
TAPE: MappingProxyType[Op, str] = MappingProxyType(  # ops whose derivative jax does not have, or has otherwise
    {
        chain.CHAIN_MUL: "it is the product of the derivative policy, which jax does not know",
        ew.POW: "where x is 0 jax takes other slopes",
        ew.ABS: "its rule works on bits, and jax's slope of that at 0 is not 0",
        ew.CONVERT: "its rule makes narrow formats of bits, where jax sees no slope",
        quotients.ATAN2: "where an operand is 0 its rule settles the value, and jax sees no slope there",
        quotients.REMAINDER: "at multiples its rule settles the value, and jax sees no slope there",
        quotients.HYPOT: "where both operands are 0 its slopes are 0, and not jax's",
        elementary.ACOSH: "where the real part is negative jax's slope has the other sign",
        elementary.CBRT: "its slope at 0 is infinite, and jax's of this rule 0",
        elementary.DIGAMMA: "at poles it has no slope, and jax's of this rule is 0",
        elementary.ERF_INV: "its slope at ±1 is infinite, and jax's of this rule NaN",
        cumulative.CUMMAX: "ties share the cotangent evenly, and jax halves it at each",
        cumulative.CUMMIN: "ties share the cotangent evenly, and jax halves it at each",
        cumulative.CUMLOGSUMEXP: "at ties jax halves the slope at each, where the definition has a softmax",
        elementary.LGAMMA: "its slope at poles is infinite, and jax's of this rule NaN",
        words.REDUCE_PRECISION: "jax rounds the cotangent, too",
        quotients.NEXTAFTER: "jax has no derivative of it",
        scattering.SCATTER_MUL: "jax has no derivative of it where positions repeat",
        triangular.CHOLESKY: "jax gives a symmetric cotangent, the definition one of the triangle that is read",
        spectral.EIGH: "jax gives a symmetric cotangent, the definition one of the triangle that is read",
        repeating.WHILE: "it has no reverse derivative",
    }
)


def with_vjp(mode: VjpMode | str, profile: Profile | None = None) -> Profile:
    """A profile of XLA (default: that of the first CPU device) in which gradients are those of this mode.

    `torchlean-tape`: they are nodes, compiled as all others. `backend-vjp`: jax differentiates whole functions, with
    IEEE products; parts whose derivative it lacks, and users' rules, stay ours, and the plan names them. A policy with
    `vjp=VjpMode.BACKEND` refuses those, too. ConfigError for another mode, or a profile without XLA.
    """
    base = (
        Profile(name="xla_cpu", device=Device.CPU, modules=(MODULE,), policy=EXTERNAL) if profile is None else profile
    )
    wanted = next((known for known in VjpMode if mode is known or mode == known.value), VjpMode.NONE)
    if wanted is VjpMode.NONE:
        raise ConfigError(
            message(
                f"nobody owns derivatives by the mode {mode!r}",
                expected=f"{VjpMode.TAPE} or {VjpMode.BACKEND}",
                got=repr(mode),
                fix="name one of these",
            )
        )
    held = next((module for module in base.modules if module.name == PROVIDER), None)
    if held is None:
        raise ConfigError(
            message(
                f"the profile {base.name} has no module that differentiates",
                expected=f"a profile with the module {PROVIDER}",
                got=", ".join([module.name for module in base.modules]),
                fix="xla.with_vjp(mode, profile) with profiles.xla_cpu, xla.on(device) or xla.with_mesh(mesh)",
            )
        )
    made = _derived(held) if wanted is VjpMode.BACKEND else _taped(held)
    modules = tuple([made if module is held else module for module in base.modules])
    plain = base.name.removesuffix(f"_{VjpMode.BACKEND}")
    name = f"{plain}_{VjpMode.BACKEND}" if wanted is VjpMode.BACKEND else plain
    return replace(base, name=name, modules=modules)


def _derived(module: CapsuleModule) -> CapsuleModule:
    if module.derives is not None:
        return module
    capsules = tuple([_by_jax(capsule) for capsule in module.capsules])
    derives = frozenset([capsule.op for capsule in capsules if capsule.vjp_mode is VjpMode.BACKEND])
    return replace(module, capsules=(*capsules, _of_functions(module)), derives=derives)


def _taped(module: CapsuleModule) -> CapsuleModule:
    if module.derives is None:
        return module
    raise ConfigError(
        message(
            f"the module {module.name} is one of {VjpMode.BACKEND}",
            expected="the profile it was made of",
            got=f"with_vjp({str(VjpMode.TAPE)!r}, …) of it",
            fix="keep the profile that was given to with_vjp",
        )
    )


def _by_jax(capsule: Capsule) -> Capsule:
    """The capsule, its derivative jax's, where jax has the definition's."""
    if capsule.op in TAPE or isinstance(capsule.op.diff, NoTangent):
        return capsule
    return replace(
        capsule,
        vjp_mode=VjpMode.BACKEND,
        vjp=trusted(Claim.VJP, _TRUSTED, summary="0·∞ is NaN"),
    )


def _of_functions(module: CapsuleModule) -> Capsule:
    """The capsule of `function.vjp`, made as that of any composite whose results are sums."""
    like = next(capsule for capsule in module.capsules if capsule.op is MSE_LOSS.gradient)
    handler = like.handler
    assert isinstance(handler, InXla)
    platform = next(platform for platform in PLATFORMS if platform.device is like.device)
    return replace(
        like,
        op=FUNCTION_VJP,
        value=trusted(Claim.VALUE, _TRUSTED, summary="jax.vjp of the function"),
        vjp=trusted(Claim.VJP, _TRUSTED),
        vjp_mode=VjpMode.BACKEND,
        bound=Unstated(),
        handler=replace(handler, op=FUNCTION_VJP, traits=FRESH, capsule=f"{PROVIDER}.{FUNCTION_VJP.name}"),
        refuses=refusing(FUNCTION_VJP, platform, complex=None),
    )
