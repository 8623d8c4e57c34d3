"""Data sets: what is refused, what identifies them, and the order in which they are visited."""

from __future__ import annotations

import numpy as np
import pytest

from torchlean.errors import ConfigError, DataError
from torchlean.train.data import Loader, dataset, permutation


def small(n: int = 10):
    return dataset(np.arange(2 * n, dtype=np.float32).reshape(n, 2), np.arange(n, dtype=np.int32), name="small")


def test_samples_are_visited_cyclically_in_order() -> None:
    data = small(3)
    assert [int(data.sample(i)[1]) for i in range(7)] == [0, 1, 2, 0, 1, 2, 0]


def test_the_arrays_are_copies_nobody_can_change() -> None:
    x = np.zeros((2, 1))
    data = dataset(x, np.zeros(2))
    x[0] = 7
    assert data.inputs[0] == 0
    with pytest.raises(ValueError, match="read-only"):
        data.inputs[0] = 1


def test_identity_depends_on_contents_dtype_and_order_only() -> None:
    data = small()
    assert data.identity == small().identity
    assert len(data.sha256) == 64
    others = [
        dataset(data.inputs[::-1], data.targets[::-1]),
        dataset(data.inputs.astype(np.float64), data.targets),
        dataset(data.inputs.reshape(10, 1, 2), data.targets),
        data.shuffled(1),
    ]
    assert len({data.sha256, *(other.sha256 for other in others)}) == 5
    assert dataset(np.asfortranarray(data.inputs).astype(">f4"), data.targets).sha256 == data.sha256


@pytest.mark.parametrize(
    ("x", "y", "text"),
    [
        (np.zeros((0, 2)), np.zeros(0), "data set d is empty"),
        (np.zeros((3, 2)), np.zeros(2), "one row per sample"),
        (np.float32(1), np.float32(1), "one row per sample"),
        (np.array([["a"]]), np.zeros(1), "data must be numbers"),
        (np.array([[0.0], [np.nan], [np.nan]]), np.zeros(3), "inputs are not finite"),
        (np.zeros(3), np.array([0, np.inf, 1]), "targets are not finite"),
    ],
)
def test_bad_data_is_refused(x, y, text: str) -> None:
    with pytest.raises(DataError, match=text):
        dataset(x, y, name="d")


def test_the_nan_message_names_the_sample() -> None:
    x = np.zeros((5, 2))
    x[3, 1] = np.nan
    with pytest.raises(DataError) as error:
        dataset(x, np.zeros(5), name="grid")
    assert str(error.value).splitlines() == [
        "data set grid: inputs are not finite",
        "  expected: finite numbers",
        "  got:      nan in sample 3; 1 of 5 samples affected",
        "  fix:      drop or repair those samples first",
    ]


@pytest.mark.parametrize("method", ["fisher-yates", "lcg"])
def test_a_shuffle_is_a_permutation_fixed_by_its_seed(method) -> None:
    order = permutation(100, 7, method)
    assert sorted(order) == list(range(100))
    assert list(order) == list(permutation(100, 7, method))
    assert list(order) != list(permutation(100, 8, method))


def test_lcg_is_the_published_order(shared_data) -> None:
    import importlib.util

    spec = importlib.util.spec_from_file_location("reference", shared_data / "reference" / "quickstart_reference.py")
    assert spec is not None
    assert spec.loader is not None
    reference = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reference)
    for n, seed in ((25, 2026), (5, 0), (64, 1)):
        assert list(permutation(n, seed, "lcg")) == reference.lcg_shuffle(n, seed)


def test_batches_cover_an_epoch() -> None:
    loader = Loader(data=small(), batch_size=4)
    assert len(loader) == 2
    assert [list(batch.targets) for batch in loader.epoch()] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert list(loader.at(2).targets) == [0, 1, 2, 3]
    kept = Loader(data=small(), batch_size=4, drop_last=False)
    assert [list(batch.targets) for batch in kept.epoch()] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_shuffled_epochs_differ_and_depend_on_the_step_alone() -> None:
    loader = Loader(data=small(), batch_size=5, shuffle_seed=3)
    steps = [list(loader.at(step).targets) for step in range(6)]
    assert [list(Loader(data=small(), batch_size=5, shuffle_seed=3).at(step).targets) for step in range(5, -1, -1)] == (
        steps[::-1]
    )
    epochs = [steps[0] + steps[1], steps[2] + steps[3], steps[4] + steps[5]]
    assert all(sorted(epoch) == list(range(10)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 3


@pytest.mark.parametrize(
    ("keywords", "text"),
    [
        ({"batch_size": 11}, "batch_size is larger than data set small"),
        ({"batch_size": 0}, "batch_size is not positive"),
        ({"batch_size": 2, "shuffle_seed": -1}, "shuffle_seed is out of range"),
    ],
)
def test_loader_settings_are_checked(keywords, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        Loader(data=small(), **keywords)


def test_shuffle_settings_are_checked() -> None:
    with pytest.raises(ConfigError, match="shuffle seed is out of range"):
        permutation(3, -1)
    with pytest.raises(ConfigError, match="unknown shuffle 'random'"):
        permutation(3, 1, "random")  # type: ignore[arg-type]
