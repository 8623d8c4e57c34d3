"""Data sets shipped with the package, and how to split them.

Decides what the arrays are and that they are the published ones; scaling, batching and shuffling between epochs belong
to the training code. See DIGITS_ATTRIBUTION.md in this folder for the source and licence of the digits.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib import resources

import numpy as np
from numpy.typing import NDArray

from torchlean.errors import ConfigError, DataError, message

__all__ = ["Digits", "load_digits", "split"]

_DIGITS_FILE = "digits.npz"
_DIGITS_SHA256 = "b2dab7b501728c22e9119ad76740b2e17c77a231e42d1e592380d90886f1a05e"
_WORD = (1 << 64) - 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Digits:
    """Handwritten digits: read-only arrays and the identity of the file they came from.

    images: uint8[n, 8, 8], each pixel a count from 0 to 16; labels: uint8[n], from 0 to 9.
    sha256: of the stored file, in hexadecimal; name: which part of it this is, such as `digits/train(seed=0)`.
    """

    name: str
    images: NDArray[np.uint8]
    labels: NDArray[np.uint8]
    sha256: str

    def __len__(self) -> int:
        return len(self.labels)


def load_digits() -> Digits:
    """Return the 1797 digits of the UCI test set, in the published order.

    Raises DataError if the stored file is missing or its SHA-256 is not the one written in this module.
    """
    try:
        content = resources.files(__name__).joinpath(_DIGITS_FILE).read_bytes()
    except FileNotFoundError as error:
        raise DataError(
            message(f"{_DIGITS_FILE} is missing from the package", fix="install torchlean again")
        ) from error
    with np.load(io.BytesIO(_checked(content)), allow_pickle=False) as arrays:
        images, labels = arrays["images"], arrays["labels"]
    images.flags.writeable = False
    labels.flags.writeable = False
    return Digits(name="digits", images=images, labels=labels, sha256=_DIGITS_SHA256)


def split(digits: Digits, seed: int) -> tuple[Digits, Digits]:
    """Return (train, test): a random fifth, rounded up, is for testing. Of 1797 digits that is 1437 and 360.

    The same seed gives the same split on every machine: the rows are permuted by a Fisher–Yates shuffle driven by
    SplitMix64, and the last fifth is the test part. Not stratified: class counts vary with the seed.
    Raises ConfigError unless 0 ≤ seed < 2⁶⁴.
    """
    if not 0 <= seed <= _WORD:
        raise ConfigError(message("the split's seed is out of range", expected="0 ≤ seed < 2**64", got=seed))
    order = _permutation(len(digits), seed)
    first_test = len(order) - (len(order) + 4) // 5
    return _rows(digits, "train", seed, order[:first_test]), _rows(digits, "test", seed, order[first_test:])


def _checked(content: bytes) -> bytes:
    """Return `content` if it is the published file, else raise DataError."""
    found = hashlib.sha256(content).hexdigest()
    if found != _DIGITS_SHA256:
        raise DataError(
            message(
                f"{_DIGITS_FILE} is not the published file",
                expected=f"SHA-256 {_DIGITS_SHA256}",
                got=f"SHA-256 {found} ({len(content)} bytes)",
                fix="install torchlean again; results on other data would be reported under the wrong name",
            )
        )
    return content


def _rows(digits: Digits, part: str, seed: int, rows: list[int]) -> Digits:
    images, labels = digits.images[rows], digits.labels[rows]
    images.flags.writeable = False
    labels.flags.writeable = False
    return replace(digits, name=f"{digits.name}/{part}(seed={seed})", images=images, labels=labels)


def _splitmix64(seed: int) -> Iterator[int]:
    """Yield 64-bit words of SplitMix64.  [Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators"]"""
    state = seed
    while True:
        state = (state + 0x9E3779B97F4A7C15) & _WORD
        word = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _WORD
        word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & _WORD
        yield word ^ (word >> 31)


def _below(words: Iterator[int], n: int) -> int:
    """Return a uniform integer in [0, n) by rejection: words past the last whole multiple of n are drawn again."""
    limit = (_WORD + 1) // n * n
    while (word := next(words)) >= limit:
        pass
    return word % n


def _permutation(n: int, seed: int) -> list[int]:
    """Return 0 … n-1 shuffled: for i from n-1 down to 1, swap entry i with one of entries 0 … i."""
    words = _splitmix64(seed)
    order = list(range(n))
    for i in range(n - 1, 0, -1):
        j = _below(words, i + 1)
        order[i], order[j] = order[j], order[i]
    return order
