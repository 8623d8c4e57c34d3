"""The two maintained examples: the 2-8-1 quickstart on a grid, and digit classifiers. Data and models only."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from torchlean import nn
from torchlean.data import Digits, load_digits, split
from torchlean.train.data import Dataset, dataset


def heldout() -> NDArray[np.float32]:
    """The point (0.25, −0.75), which is not on the grid; its target is 0.2."""
    return np.array([0.25, -0.75], np.float32)


def grid_target(x0: float, x1: float) -> float:
    """0.8·relu(x0 + x1) − 0.4·relu(x1 − x0) + 0.2, in binary64."""
    return 0.8 * max(x0 + x1, 0.0) - 0.4 * max(x1 - x0, 0.0) + 0.2


def quickstart_data() -> Dataset:
    """25 points of {−1, −½, 0, ½, 1}², first coordinate outermost: inputs f32[25, 2], targets f32[25, 1]."""
    axis = [-1.0 + (i / 4.0) * 2.0 for i in range(5)]
    points = [(a, b) for a in axis for b in axis]
    targets = [[grid_target(a, b)] for a, b in points]
    return dataset(np.array(points, np.float32), np.array(targets, np.float32), name="quickstart grid")


def quickstart_model(dropout: float | None = None) -> Any:
    """Linear(2, 8), relu, Linear(8, 1); with `dropout`, a dropout layer after the relu."""
    middle = () if dropout is None else (nn.Dropout(dropout),)
    return nn.Sequential(nn.Linear(2, 8), nn.relu, *middle, nn.Linear(8, 1))


def digits_data(seed: int, *, images: bool = False) -> tuple[Dataset, Dataset]:
    """(train, test) digits: pixels / 16 as f32[n, 64], or f32[n, 1, 8, 8] with `images`; labels i32[n]."""
    train, test = split(load_digits(), seed)
    return _digits(train, images), _digits(test, images)


def _digits(part: Digits, images: bool) -> Dataset:
    pixels = part.images.astype(np.float32) / np.float32(16)
    shaped = pixels.reshape(len(part), 1, 8, 8) if images else pixels.reshape(len(part), 64)
    return dataset(shaped, part.labels.astype(np.int32), name=f"{part.name}, pixels / 16")


def digits_mlp() -> Any:
    """64-128-10 with relu."""
    return nn.Sequential(nn.Linear(64, 128), nn.relu, nn.Linear(128, 10))


def digits_cnn() -> Any:
    """Two 3×3 convolutions of 8 and 16 channels, a pooling between them, batch normalisation, one linear layer."""
    kaiming = nn.init.kaiming_uniform
    return nn.Sequential(
        nn.Conv(1, 8, (3, 3), padding=1, weight_init=kaiming),
        nn.relu,
        nn.MaxPool(2),
        nn.Conv(8, 16, (3, 3), padding=1, weight_init=kaiming),
        nn.BatchNorm(16),
        nn.relu,
        nn.Flatten(),
        nn.Linear(256, 10),
    )
