"""How the arrays of a program come onto a mesh and back: a layout in jax's terms, and the callable."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from torchlean.backends.sharding import Layout, Spec

if TYPE_CHECKING:
    from torchlean.backends.xla.building import Built


class Placing:
    """A layout in jax's terms: what `building.Built` hands to jax.jit, and what calls do with arrays."""

    def __init__(self, jax: Any, layout: Layout, held: int) -> None:
        self.jax = jax
        self.layout = layout
        self.device = next(device for device in layout.mesh.held.devices.flat)
        self.inputs = tuple([self._sharding(spec) for spec in layout.inputs])
        self.held = (self._sharding(()),) * held
        self.options = {
            "in_shardings": (*self.inputs, *self.held),
            "out_shardings": tuple([None if spec is None else self._sharding(spec) for spec in layout.outputs]),
        }

    def _sharding(self, spec: Spec) -> Any:
        entries = [axes[0] if len(axes) == 1 else axes or None for axes in spec]
        return self.jax.sharding.NamedSharding(self.layout.mesh.held, self.jax.sharding.PartitionSpec(*entries))

    def put(self, array: Any, sharding: Any) -> Any:
        """An array on the devices of this process, each its part."""
        return self.jax.make_array_from_callback(array.shape, sharding, lambda index: np.asarray(array)[index])

    def gathered(self, result: Any) -> Any:
        """A result as one NumPy array, from all processes."""
        if result.is_fully_addressable:
            return np.array(result)
        if result.is_fully_replicated:
            return np.array(result.addressable_data(0))
        from jax.experimental import multihost_utils

        return np.array(multihost_utils.process_allgather(result, tiled=True))


def sharded_kernel(built: Built, *, packs: bool) -> Callable[..., Any]:
    """The callable of an executable for a mesh: NumPy arrays in, placed by sharding; NumPy arrays out."""
    run, held, placing = built.compiled(), built.held(), built.placing()
    enabled = placing.jax.enable_x64
    single = len(built.graph.outputs) == 1 and not packs

    def call(*operands: Any) -> Any:
        with enabled(True):
            if placing.layout.mesh.processes > 1:
                operands = tuple(map(placing.put, operands, placing.inputs))
            made = tuple(map(placing.gathered, run(*operands, *held)))
        return made[0] if single else made

    return call
