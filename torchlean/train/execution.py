"""How a task is run: the interface of the eager and the lowered execution."""

from __future__ import annotations

from typing import Any, Protocol

from numpy.typing import NDArray

from torchlean.runtime.report import BackendReport
from torchlean.train.task import Slope, Stepped, Tree


class Execution(Protocol):
    """`Eager` or `Lowering`. Both compute the functions of `train/task.py`."""

    @property
    def name(self) -> str: ...
    @property
    def report(self) -> BackendReport:
        """The capsules selected so far."""
        ...

    def step(self, params: Tree, state: Tree, x: Any, y: Any, calls: Any, rate: Any) -> Stepped: ...
    def slope(self, params: Tree, x: Any, y: Any, calls: Any) -> Slope: ...
    def update(self, params: Tree, state: Tree, found: Slope, rate: Any) -> Stepped: ...
    def plus(self, one: Slope, other: Slope) -> Slope: ...
    def averaged(self, total: Slope, count: int) -> Slope: ...
    def predict(self, params: Tree, x: Any) -> Any: ...
    def losses(self, params: Tree, x: NDArray[Any], y: NDArray[Any]) -> list[float]:
        """The loss of each sample in eval mode."""
        ...

    def classes(self, params: Tree, x: NDArray[Any]) -> NDArray[Any]:
        """The class with the highest score for each sample."""
        ...
