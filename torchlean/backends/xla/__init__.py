"""Whole groups of nodes as one XLA executable, by way of jax: trusted-external, reductions as XLA orders them.

Nothing here imports jax before a program is planned on it.
"""

from torchlean.backends.xla.capsules import MODULE, module
from torchlean.backends.xla.deriving import with_vjp
from torchlean.backends.xla.meshes import on, with_mesh

__all__ = ["MODULE", "module", "on", "with_mesh", "with_vjp"]
