"""The digits: the published numbers, refused when altered, split the same way everywhere."""

from __future__ import annotations

import dataclasses
import hashlib
import re

import numpy as np
import pytest

from torchlean import data
from torchlean.errors import ConfigError, DataError


@pytest.fixture(scope="module")
def digits() -> data.Digits:
    return data.load_digits()


def test_the_arrays_are_the_published_ones(digits: data.Digits) -> None:
    """Class counts, pixel sum and first row as scikit-learn's documentation and data file give them."""
    assert digits.images.shape == (1797, 8, 8)
    assert digits.images.dtype == digits.labels.dtype == np.uint8
    assert np.bincount(digits.labels).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert (digits.images.min(), digits.images.max()) == (0, 16)
    assert int(digits.images.sum(dtype=np.int64)) == 561_718
    assert digits.images[0, 0].tolist() == [0, 0, 5, 13, 9, 1, 0, 0]
    assert digits.labels[:10].tolist() == list(range(10))
    assert (len(digits), digits.name) == (1797, "digits")


def test_the_identity_is_that_of_the_file(digits: data.Digits, root) -> None:
    content = (root / "torchlean" / "data" / "digits.npz").read_bytes()
    assert hashlib.sha256(content).hexdigest() == digits.sha256
    assert len(content) < 64 * 1024


def test_the_arrays_cannot_be_changed(digits: data.Digits) -> None:
    train, _ = data.split(digits, 0)
    for part in (digits, train):
        with pytest.raises(ValueError, match="read-only"):
            part.images[0, 0, 0] = 1
        with pytest.raises(ValueError, match="read-only"):
            part.labels[0] = 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        digits.name = "other"  # type: ignore[misc]


def exactly(text: str) -> str:
    """A pattern for the whole message; a note with the user's line may follow it."""
    return rf"\A{re.escape(text)}(\nyour line: [\s\S]*)?\Z"


def test_an_altered_file_is_refused(digits: data.Digits) -> None:
    found = hashlib.sha256(b"x").hexdigest()
    text = (
        "digits.npz is not the published file\n"
        f"  expected: SHA-256 {digits.sha256}\n"
        f"  got:      SHA-256 {found} (1 bytes)\n"
        "  fix:      install torchlean again; results on other data would be reported under the wrong name"
    )
    with pytest.raises(DataError, match=exactly(text)):
        data._checked(b"x")


def test_a_missing_file_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "_DIGITS_FILE", "absent.npz")
    text = "absent.npz is missing from the package\n  fix:      install torchlean again"
    with pytest.raises(DataError, match=exactly(text)):
        data.load_digits()


def test_splitmix64_known_answers() -> None:
    """The first words for seeds 0 and 1234567, as published with the reference implementation."""
    words = data._splitmix64(0)
    assert [next(words) for _ in range(3)] == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    words = data._splitmix64(1234567)
    assert [next(words) for _ in range(2)] == [6457827717110365317, 3203168211198807973]


def test_words_past_the_last_whole_multiple_are_drawn_again() -> None:
    limit = 2**64 // 3 * 3
    assert data._below(iter([limit, 2**64 - 1, limit - 1]), 3) == 2
    assert data._below(iter([7]), 3) == 1


@pytest.mark.parametrize("n", [0, 1, 2, 3])
def test_small_permutations(n: int) -> None:
    seen = {tuple(data._permutation(n, seed)) for seed in range(200)}
    assert len(seen) == (1, 1, 2, 6)[n]
    assert all(sorted(order) == list(range(n)) for order in seen)


@pytest.mark.parametrize("seed", [0, 2026, 2**64 - 1])
def test_a_split_partitions_the_rows(digits: data.Digits, seed: int) -> None:
    train, test = data.split(digits, seed)
    assert (len(train), len(test)) == (len(train.images), len(test.images)) == (1437, 360)
    assert (train.name, test.name) == (f"digits/train(seed={seed})", f"digits/test(seed={seed})")
    assert train.sha256 == test.sha256 == digits.sha256

    def rows(*parts: data.Digits) -> list[bytes]:
        return sorted(
            image.tobytes() + label.tobytes()
            for part in parts
            for image, label in zip(part.images, part.labels, strict=True)
        )

    assert rows(train, test) == rows(digits)


def test_a_split_depends_on_the_seed_only(digits: data.Digits) -> None:
    first, again, other = (data.split(digits, seed)[1].labels for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    # computed with a second implementation, in NumPy uint64 arithmetic
    assert first[:12].tolist() == [8, 7, 4, 4, 9, 1, 2, 1, 4, 2, 3, 2]


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_a_seed_out_of_range_is_refused(digits: data.Digits, seed: int) -> None:
    text = f"the split's seed is out of range\n  expected: 0 ≤ seed < 2**64\n  got:      {seed}"
    with pytest.raises(ConfigError, match=exactly(text)):
        data.split(digits, seed)
