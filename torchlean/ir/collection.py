"""Pause the cyclic garbage collector while a graph is built.

Tracing makes tens of thousands of small tuples that all survive, and no cycles; the collector meets them every 700
allocations and, in a process with a large heap, walks all of that too: half the time of tracing a 1000-layer MLP beside
an imported JAX. Reference counting still frees everything a traced function drops.
"""

from __future__ import annotations

import gc


class collection_paused:  # noqa: N801  (used as a statement: `with collection_paused():`)
    """Collector off inside, and on again afterwards if it was on. Nests, and is harmless across threads."""

    __slots__ = ("_was_on",)

    def __enter__(self) -> None:
        self._was_on = gc.isenabled()
        if self._was_on:
            gc.disable()

    def __exit__(self, *fault: object) -> None:
        if self._was_on:
            gc.enable()
