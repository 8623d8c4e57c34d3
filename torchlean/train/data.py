"""In-memory data sets with an identity, and the order in which training visits them.

Decides validation, shuffling and batching. A `Loader` is a function of the step number, so that resuming needs only
that number: no iterator state is kept.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from torchlean.data import _permutation
from torchlean.errors import ConfigError, DataError, message
from torchlean.random import splitmix64

Array = NDArray[Any]
Shuffle = Literal["fisher-yates", "lcg"]

_WORD = (1 << 64) - 1


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """`n` samples: read-only arrays inputs[n, …] and targets[n, …], a name, and the SHA-256 of their contents.

    Build it with `dataset`, which validates. Samples are visited in index order, cyclically.
    """

    name: str
    inputs: Array
    targets: Array
    sha256: str

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def identity(self) -> str:
        """`name sha256:…`: what a provenance record states; equal only for equal contents in equal order."""
        return f"{self.name} sha256:{self.sha256}"

    def sample(self, index: int) -> tuple[Array, Array]:
        """The sample visited at position `index`, which wraps around."""
        at = index % len(self)
        return self.inputs[at], self.targets[at]

    def rows(self, indices: NDArray[np.int64]) -> tuple[Array, Array]:
        """The samples at `indices`, stacked along a leading axis."""
        return self.inputs[indices], self.targets[indices]

    def shuffled(self, seed: int, method: Shuffle = "fisher-yates") -> Dataset:
        """The same samples in another order, fixed by `seed`.

        "fisher-yates" draws from SplitMix64. "lcg" sorts stably by the keys of a 31-bit linear congruential generator:
        the order of TorchLean's published runs, kept to reproduce them.
        """
        order = permutation(len(self), seed, method)
        return dataset(self.inputs[order], self.targets[order], name=f"{self.name}/shuffled({method}, seed={seed})")


def dataset(inputs: Any, targets: Any, *, name: str = "data") -> Dataset:
    """A data set of copies of the two arrays, which need equal leading sizes.

    Raises DataError when there are no samples, the sizes differ, or an entry is NaN or infinite (naming its sample).
    """
    x, y = _frozen(inputs), _frozen(targets)
    if x.ndim == 0 or y.ndim == 0 or len(x) != len(y):
        raise DataError(
            message(
                f"data set {name}: inputs and targets need one row per sample",
                expected="equal leading sizes",
                got=f"inputs {list(x.shape)} and targets {list(y.shape)}",
            )
        )
    if not len(x):
        raise DataError(message(f"data set {name} is empty", expected="at least one sample", got="0 samples"))
    for part, array in (("inputs", x), ("targets", y)):
        _require_finite(name, part, array)
    return Dataset(name, x, y, _digest(x, y))


def _frozen(values: Any) -> Array:
    array = np.array(values, order="C")
    if array.dtype.kind not in "biuf":
        raise DataError(
            message("data must be numbers", expected="booleans, integers or floats", got=f"NumPy dtype {array.dtype}")
        )
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    array.flags.writeable = False
    return array


def _require_finite(name: str, part: str, array: Array) -> None:
    if array.dtype.kind != "f" or np.isfinite(array).all():
        return
    bad = ~np.isfinite(array.reshape(len(array), -1)).all(axis=1)
    first = int(np.argmax(bad))
    held = array[first].ravel()
    raise DataError(
        message(
            f"data set {name}: {part} are not finite",
            expected="finite numbers",
            got=f"{held[~np.isfinite(held)][0]} in sample {first}; {int(bad.sum())} of {len(array)} samples affected",
            fix="drop or repair those samples first",
        )
    )


def _digest(*arrays: Array) -> str:
    state = hashlib.sha256()
    for array in arrays:
        little = array.astype(array.dtype.newbyteorder("<"), copy=False)
        state.update(f"{little.dtype.str}{list(little.shape)}".encode())
        state.update(np.ascontiguousarray(little).tobytes())
    return state.hexdigest()


# -- orders ------------------------------------------------------------------------------------------------------------
def permutation(n: int, seed: int, method: Shuffle = "fisher-yates") -> NDArray[np.int64]:
    """0 … n-1 in the order `seed` gives; the same on every machine. ConfigError unless 0 ≤ seed < 2⁶⁴."""
    if not 0 <= seed <= _WORD:
        raise ConfigError(message("shuffle seed is out of range", expected="0 ≤ seed < 2**64", got=seed))
    if method == "lcg":
        keys: list[int] = []
        state = seed
        for _ in range(n):
            state = (1103515245 * state + 12345) % 2147483648
            keys.append(state)
        return np.argsort(np.array(keys, dtype=np.int64), kind="stable").astype(np.int64)
    if method != "fisher-yates":
        raise ConfigError(message(f"unknown shuffle {method!r}", expected="fisher-yates or lcg"))
    return np.array(_permutation(n, seed), dtype=np.int64)


# -- loading -----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Batch:
    """Samples stacked along a leading axis, and their positions in the data set."""

    inputs: Array
    targets: Array
    indices: NDArray[np.int64]


@dataclass(slots=True, kw_only=True)
class Loader:
    """Batch number `step` of a data set, as a function of the step: `loader.at(step)`.

    Without `shuffle_seed` every epoch visits the samples in data set order; with it each epoch has its own order,
    fixed by (seed, epoch). `drop_last` leaves out a final batch of fewer than `batch_size` samples (shapes are static,
    so a shorter batch costs one more plan).
    """

    data: Dataset
    batch_size: int
    shuffle_seed: int | None = None
    drop_last: bool = True
    _epoch: tuple[int, NDArray[np.int64]] | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise ConfigError(message("batch_size is not positive", expected="batch_size ≥ 1", got=self.batch_size))
        if self.batch_size > len(self.data):
            raise ConfigError(
                message(
                    f"batch_size is larger than data set {self.data.name}",
                    expected=f"batch_size ≤ {len(self.data)}",
                    got=self.batch_size,
                )
            )
        if self.shuffle_seed is not None and not 0 <= self.shuffle_seed <= _WORD:
            raise ConfigError(
                message("shuffle_seed is out of range", expected="0 ≤ shuffle_seed < 2**64", got=self.shuffle_seed)
            )

    def __len__(self) -> int:
        """Batches per epoch."""
        whole, rest = divmod(len(self.data), self.batch_size)
        return whole if self.drop_last or not rest else whole + 1

    def at(self, step: int) -> Batch:
        """The batch of the 0-based step."""
        epoch, position = divmod(step, len(self))
        start = position * self.batch_size
        indices = self._order(epoch)[start : start + self.batch_size]
        return Batch(*self.data.rows(indices), indices)

    def _order(self, epoch: int) -> NDArray[np.int64]:
        if self.shuffle_seed is None:
            return np.arange(len(self.data), dtype=np.int64)
        if self._epoch is None or self._epoch[0] != epoch:
            seed = splitmix64(splitmix64(self.shuffle_seed) + epoch)
            self._epoch = (epoch, permutation(len(self.data), seed))
        return self._epoch[1]

    def epoch(self) -> Iterator[Batch]:
        """The batches of the first epoch."""
        return (self.at(step) for step in range(len(self)))
