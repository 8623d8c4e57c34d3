"""Random numbers as pure functions of an explicit key.

A key is u32[2]; `key`, `split`, `fold_in`, `bits` and the draws made of `uniform` give the bits of JAX (threefry,
partitionable) unless they say otherwise. Use a key once: split it, or fold a number in; `check_key_reuse` finds what
does not. `SeedStream` is TorchLean's splitmix64 stream, for its published seeds; nearby seeds of it share draws (seed +
1 at counter c is seed at counter c + 1), so prefer keys elsewhere.
"""

from torchlean.random.distributions import (
    beta,
    cauchy,
    dirichlet,
    exponential,
    gamma,
    gumbel,
    laplace,
    logistic,
    rademacher,
    truncated_normal,
)
from torchlean.random.draws import bernoulli, bits, normal, randint, uniform
from torchlean.random.keys import fold_in, key, split
from torchlean.random.picks import categorical, choice, permutation, shuffle
from torchlean.random.reuse import check_key_reuse
from torchlean.random.stream import SeedStream, call_draws, call_key, draw32, key_of, splitmix64, uniform01

__all__ = [
    "SeedStream",
    "bernoulli",
    "beta",
    "bits",
    "call_draws",
    "call_key",
    "categorical",
    "cauchy",
    "check_key_reuse",
    "choice",
    "dirichlet",
    "draw32",
    "exponential",
    "fold_in",
    "gamma",
    "gumbel",
    "key",
    "key_of",
    "laplace",
    "logistic",
    "normal",
    "permutation",
    "rademacher",
    "randint",
    "shuffle",
    "split",
    "splitmix64",
    "truncated_normal",
    "uniform",
    "uniform01",
]
