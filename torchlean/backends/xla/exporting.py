"""A graph as a StableHLO artefact of jax.export, and an artefact as a callable of NumPy arrays."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from torchlean.backends.xla.building import OPTIONS
from torchlean.backends.xla.library import cpu, library, settings
from torchlean.errors import BackendMissing, SerializationError, message
from torchlean.ir.graph import Graph
from torchlean.ir.types import TensorType, show_types

PLATFORM = "cpu"


def _jax_export() -> tuple[Any, Any]:
    jax = library()
    if find_spec("flatbuffers") is None:
        raise BackendMissing(
            message(
                "jax.export cannot write or read programs here",
                expected="the library flatbuffers",
                got="it is not installed",
                fix='install it: pip install "torchlean[export]"',
            )
        )
    return jax, importlib.import_module("jax.export")


def version() -> str:
    """The version of jax."""
    return str(library().__version__)


def artefact(graph: Graph) -> bytes:
    """The graph's program, constants included. BackendMissing when XLA has no portable form of it."""
    from torchlean.backends.xla.program import Program

    jax, export = _jax_export()
    program = Program(graph)

    def exported(*operands: Any) -> Any:
        return program.function(*operands, *program.held)

    with settings(jax, cpu(jax)):
        try:
            made = export.export(jax.jit(exported), platforms=[PLATFORM])(*_shapes(jax, graph.input_types))
        except ValueError as fault:
            raise BackendMissing(
                message(
                    f"jax.export refuses {graph.name}",
                    expected="ops with a portable form",
                    got=(str(fault).splitlines() or [""])[0],
                    fix="export a program without this op",
                )
            ) from fault
    return bytes(made.serialize())


def restored(payload: bytes, inputs: Sequence[TensorType], outputs: Sequence[TensorType]) -> Callable[..., Any]:
    """The program of an artefact, compiled: arrays in, a tuple of arrays out. SerializationError for one jax cannot
    read, or of other types.
    """
    jax, export = _jax_export()
    with settings(jax, cpu(jax)):
        try:
            made = export.deserialize(bytearray(payload))
        except Exception as fault:
            raise SerializationError(
                message(
                    "jax cannot read the program in this export",
                    expected=f"an artefact jax {version()} knows",
                    got=f"{type(fault).__name__}: {(str(fault).splitlines() or [''])[0]}",
                    fix="export it again with the jax that is installed here",
                )
            ) from fault
        for what, avals, types in (("takes", made.in_avals, inputs), ("returns", made.out_avals, outputs)):
            found = [(tuple(aval.shape), np.dtype(aval.dtype)) for aval in avals]
            if found != [(held.shape, held.dtype.carrier) for held in types]:
                raise SerializationError(
                    message(
                        f"the program in this export {what} other types than its header says",
                        expected=show_types(tuple(types)),
                        got=", ".join([f"{dtype}{list(shape)}" for shape, dtype in found]),
                    )
                )
        lowered = jax.jit(made.call).lower(*_shapes(jax, inputs))
        compiled = lowered.compile(compiler_options=dict.fromkeys(OPTIONS, False))

    def call(*operands: Any) -> tuple[Any, ...]:
        with jax.enable_x64(True):
            return tuple(map(np.array, compiled(*operands)))

    return call


def _shapes(jax: Any, types: Sequence[TensorType]) -> list[Any]:
    return [jax.ShapeDtypeStruct(held.shape, held.dtype.carrier) for held in types]
