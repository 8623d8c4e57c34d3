"""Eager execution: sessions, arrays, tapes, run settings and the backend report."""

from torchlean.runtime.array import Array, array
from torchlean.runtime.buffer import Allocator, Buffer
from torchlean.runtime.config import Arithmetic, Execution, RunConfig
from torchlean.runtime.gradients import Gradients
from torchlean.runtime.report import BackendReport, Phase
from torchlean.runtime.session import Session, default_session
from torchlean.runtime.tape import Tape, TapeNode

__all__ = [
    "Allocator",
    "Arithmetic",
    "Array",
    "BackendReport",
    "Buffer",
    "Execution",
    "Gradients",
    "Phase",
    "RunConfig",
    "Session",
    "Tape",
    "TapeNode",
    "array",
    "default_session",
]
