"""From a graph to an executable: traced, lowered and compiled when it is first needed, and kept by what it does.

`Built` is the one place where jax.jit is called.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import RLock
from typing import Any

from torchlean.backends.analyses import Said
from torchlean.backends.collectives import Collective
from torchlean.backends.sharding import Layout
from torchlean.backends.xla.hlo import collectives
from torchlean.backends.xla.library import cpu, library, settings
from torchlean.backends.xla.placing import Placing
from torchlean.errors import BackendMissing, InternalError, message
from torchlean.ir.graph import Graph
from torchlean.ir.types import show_types

MOST_KEPT = 512
MOST_NAMED = 6
LONGEST = 160  # characters of a line of source that are shown
OPTIONS = ("xla_allow_excess_precision", "xla_cpu_enable_fast_math")  # switched off, whatever XLA_FLAGS say
MANY = 500  # nodes from which on a group is not listed, and compiled with less effort: code as fast, a third sooner


class Built:
    """The executable of one graph, of one device (None: jax's first CPU device) or, with a layout, of a mesh. Safe for
    threads.
    """

    def __init__(
        self, graph: Graph, layout: Layout | None = None, device: Any = None, donated: tuple[int, ...] = ()
    ) -> None:
        self.graph = graph
        self.donated = donated  # positions of operands it may write over
        self.layout = layout
        self.device = device
        self._lock = RLock()
        self._lowered: Any = None
        self._placing: Placing | None = None
        self._compiled: Any = None
        self._held: tuple[Any, ...] = ()

    @property
    def on_host(self) -> bool:
        """Whether its results lie in memory of the host."""
        return self.device is None or self.device.platform == "cpu"

    def lowered(self) -> Any:
        """The `jax.stages.Lowered` of the graph."""
        with self._lock:
            if self._lowered is None:
                if self.layout is not None:
                    return self._lowered_for_a_mesh(self.layout)
                from torchlean.backends.xla.program import Program

                jax = library()
                program = Program(self.graph)
                device = cpu(jax) if self.device is None else self.device
                with settings(jax, device):
                    types = [jax.ShapeDtypeStruct(type.shape, type.dtype.carrier) for type in self.graph.input_types]
                    types += [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in program.held]
                    written = jax.jit(_named(program.function, self.graph.name), donate_argnums=self.donated)
                    self._lowered = written.lower(*types)
                    self._held = tuple([jax.device_put(array, device) for array in program.held])
            return self._lowered

    def placing(self) -> Placing:
        """How arrays come onto the mesh; only with a layout."""
        self.lowered()
        if self._placing is None:
            raise InternalError("an executable of one device places no arrays")
        return self._placing

    def _lowered_for_a_mesh(self, layout: Layout) -> Any:
        from torchlean.backends.xla.located import Located

        jax = library()
        program = Located(self.graph)
        self._placing = placing = Placing(jax, layout, len(program.held))
        with settings(jax, placing.device):
            types = [jax.ShapeDtypeStruct(type.shape, type.dtype.carrier) for type in self.graph.input_types]
            types += [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in program.held]
            self._lowered = jax.jit(_named(program.function, self.graph.name), **placing.options).lower(*types)
            self._held = tuple(map(placing.put, program.held, placing.held))
        return self._lowered

    def text(self) -> str:
        """The program in StableHLO."""
        return str(self.lowered().as_text())

    def compiled(self) -> Any:
        """The `jax.stages.Compiled`; BackendMissing naming nodes and lines when XLA refuses the program."""
        with self._lock:
            if self._compiled is None:
                lowered = self.lowered()
                try:
                    self._compiled = lowered.compile(compiler_options=self._options())
                except Exception as fault:
                    raise _not_compiled(self.graph, fault) from fault
            return self._compiled

    def _options(self) -> dict[str, Any]:
        options: dict[str, Any] = dict.fromkeys(OPTIONS, False)
        if self.on_host and len(self.graph.nodes) >= MANY:
            options["xla_backend_optimization_level"] = 1
        return options

    def held(self) -> tuple[Any, ...]:
        """The large constants, where the executable reads them."""
        self.lowered()
        return self._held

    def collectives(self) -> tuple[Collective, ...]:
        """What devices exchange, as the compiled module has it."""
        return tuple(collectives(str(self.compiled().as_text())))

    def analysis(self) -> Said:
        """XLA's own count of what the executable does, and of the memory it holds."""
        compiled = self.compiled()
        counted = compiled.cost_analysis() or {}
        counted = counted[0] if isinstance(counted, list) else counted
        memory = compiled.memory_analysis()
        return Said(
            flops=_whole(counted.get("flops")),
            transcendental=_whole(counted.get("transcendentals")),
            moved=_whole(counted.get("bytes accessed")),
            workspace=self.workspace(),
            aliased=int(getattr(memory, "alias_size_in_bytes", 0) or 0),
        )

    def workspace(self) -> int:
        """Bytes the executable holds beside operands and results."""
        analysis = self.compiled().memory_analysis()
        return int(getattr(analysis, "temp_size_in_bytes", 0) or 0)


def _whole(value: float | None) -> int | None:
    """A count as XLA gives it: a float, or a negative one where it does not know."""
    return None if value is None or value < 0 else int(value)


def _named(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    def program(*operands: Any) -> Any:
        return function(*operands)

    program.__name__ = program.__qualname__ = "".join([c if c.isascii() and c.isalnum() else "_" for c in name])
    return program


def _not_compiled(graph: Graph, fault: Exception) -> BackendMissing:
    """What XLA said, with the nodes it was about and the lines they come from."""
    named = [f"{node.op.name} at {node.where}" for node in graph.nodes[:MOST_NAMED]]
    more = len(graph.nodes) - len(named)
    said = f"{type(fault).__name__}: {(str(fault).splitlines() or [''])[0]}"
    nodes = ", ".join(named) + (f" and {more} more" if more > 0 else "")
    return BackendMissing(
        message(
            f"XLA does not compile a group of {len(graph.nodes)} nodes of ({show_types(graph.input_types)})",
            expected="an executable",
            got=f"{said}; the nodes: {nodes}",
            fix="plan one of these ops on another provider (profile.with_modules puts one first)",
        )
    )


class Builds:
    """The executables of this process, the most recently used ones, by graph. Safe for threads."""

    def __init__(self, most: int = MOST_KEPT, device: Any = None) -> None:
        self._device = device
        self._most = most
        self._lock = RLock()
        self._known: OrderedDict[tuple[Graph, Layout | None, tuple[int, ...]], Built] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def built(self, graph: Graph, layout: Layout | None = None, donated: tuple[int, ...] = ()) -> Built:
        """The executable of a graph: equal graphs of one layout have one, whatever their names and lines."""
        key = (graph, layout, donated)
        with self._lock:
            known = self._known.get(key)
            if known is None:
                known = self._known[key] = Built(graph, layout, self._device, donated)
                while len(self._known) > self._most:
                    self._known.popitem(last=False)
            else:
                self._known.move_to_end(key)
            return known


def shortened(text: str) -> str:
    """A program to be read: long lines, such as those of large constants, are cut."""
    lines = [line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…" for line in text.splitlines()]
    return "\n".join(lines)
