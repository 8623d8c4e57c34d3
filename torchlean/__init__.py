"""torchlean: functions traced to typed graphs, transformed, planned onto capsules, and run, with what ran on record.

Names below the transforms are imported here; the rest (backends, runtime, nn, optim, train) on first use, so that
`import torchlean` stays cheap.
"""

from __future__ import annotations

import importlib
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from torchlean import errors, pytree
from torchlean.ir import ops
from torchlean.ir.dtypes import DType
from torchlean.ir.graph import Graph
from torchlean.ir.ops.associative import associative_scan
from torchlean.ir.ops.branching import cond, switch
from torchlean.ir.ops.checkpointing import checkpoint, checkpoint_name, save_names
from torchlean.ir.ops.checkpointing import checkpoint as remat
from torchlean.ir.ops.composite import composite
from torchlean.ir.ops.elementwise import stop_gradient
from torchlean.ir.ops.loops import fori_loop, map, scan, while_loop
from torchlean.ir.types import TensorType
from torchlean.transforms.api import complex_grad, eval_shape, grad, jvp, linearize, make_graph, value_and_grad, vjp
from torchlean.transforms.batching import vmap

if TYPE_CHECKING:
    from torchlean import debug, export, nn, numpy, optim, random, report
    from torchlean.backends import profiles
    from torchlean.backends.capsule import (
        Bitwise,
        Capsule,
        Normwise,
        NumericalPolicy,
        Relative,
        Ulp,
        Unstated,
        guarded,
        tested,
        trusted,
        vjp_unavailable,
    )
    from torchlean.backends.policy import AssurancePolicy
    from torchlean.backends.profile import CapsuleModule, Profile
    from torchlean.backends.vocabulary import Device, Reduction, VjpMode
    from torchlean.runtime.array import Array, array
    from torchlean.runtime.session import Session
    from torchlean.train.session import TrainSession
    from torchlean.train.trainer import Trainer
    from torchlean.transforms.custom import custom_jvp, custom_vjp
    from torchlean.transforms.explaining import explain
    from torchlean.transforms.jacobian import hessian, jacfwd, jacrev
    from torchlean.transforms.lower import Lowered, jit, lower

__version__ = "0.1.0"

_MODULES = MappingProxyType(
    {
        "data": "torchlean.data",
        "debug": "torchlean.debug",
        "export": "torchlean.export",
        "nn": "torchlean.nn",
        "numpy": "torchlean.numpy",
        "optim": "torchlean.optim",
        "profiles": "torchlean.backends.profiles",
        "random": "torchlean.random",
        "report": "torchlean.report",
        "train": "torchlean.train",
    }
)
_NAMES = MappingProxyType(
    {
        "Array": "torchlean.runtime.array",
        "AssurancePolicy": "torchlean.backends.policy",
        "Bitwise": "torchlean.backends.capsule",
        "Capsule": "torchlean.backends.capsule",
        "CapsuleModule": "torchlean.backends.profile",
        "Device": "torchlean.backends.vocabulary",
        "Lowered": "torchlean.transforms.lower",
        "NumericalPolicy": "torchlean.backends.capsule",
        "Profile": "torchlean.backends.profile",
        "Reduction": "torchlean.backends.vocabulary",
        "Normwise": "torchlean.backends.capsule",
        "Relative": "torchlean.backends.capsule",
        "Session": "torchlean.runtime.session",
        "TrainSession": "torchlean.train.session",
        "Trainer": "torchlean.train.trainer",
        "Ulp": "torchlean.backends.capsule",
        "Unstated": "torchlean.backends.capsule",
        "VjpMode": "torchlean.backends.vocabulary",
        "array": "torchlean.runtime.array",
        "custom_jvp": "torchlean.transforms.custom",
        "custom_vjp": "torchlean.transforms.custom",
        "explain": "torchlean.transforms.explaining",
        "guarded": "torchlean.backends.capsule",
        "hessian": "torchlean.transforms.jacobian",
        "jacfwd": "torchlean.transforms.jacobian",
        "jacrev": "torchlean.transforms.jacobian",
        "jit": "torchlean.transforms.lower",
        "lower": "torchlean.transforms.lower",
        "tested": "torchlean.backends.capsule",
        "trusted": "torchlean.backends.capsule",
        "vjp_unavailable": "torchlean.backends.capsule",
    }
)

__all__ = [
    "Array",
    "AssurancePolicy",
    "Bitwise",
    "Capsule",
    "CapsuleModule",
    "DType",
    "Device",
    "Graph",
    "Lowered",
    "Normwise",
    "NumericalPolicy",
    "Profile",
    "Reduction",
    "Relative",
    "Session",
    "TensorType",
    "TrainSession",
    "Trainer",
    "Ulp",
    "Unstated",
    "VjpMode",
    "__version__",
    "array",
    "associative_scan",
    "checkpoint",
    "checkpoint_name",
    "complex_grad",
    "composite",
    "cond",
    "custom_jvp",
    "custom_vjp",
    "debug",
    "errors",
    "eval_shape",
    "explain",
    "export",
    "fori_loop",
    "grad",
    "guarded",
    "hessian",
    "jacfwd",
    "jacrev",
    "jit",
    "jvp",
    "linearize",
    "lower",
    "make_graph",
    "map",
    "nn",
    "numpy",
    "ops",
    "optim",
    "profiles",
    "pytree",
    "random",
    "remat",
    "report",
    "save_names",
    "scan",
    "stop_gradient",
    "switch",
    "tested",
    "trusted",
    "value_and_grad",
    "vjp",
    "vjp_unavailable",
    "vmap",
    "while_loop",
]


def __getattr__(name: str) -> Any:
    """Import the parts above the transforms when they are first named."""
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    if name in _NAMES:
        return getattr(importlib.import_module(_NAMES[name]), name)
    raise AttributeError(f"module 'torchlean' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES])
