"""Whole groups of nodes as one XLA executable, by way of jax: trusted-external, reductions as XLA orders them.

Nothing here imports jax before a program is planned on it.
"""

from torchlean.backends.xla.capsules import MODULE, module
from torchlean.backends.xla.meshes import with_mesh

__all__ = ["MODULE", "module", "with_mesh"]
