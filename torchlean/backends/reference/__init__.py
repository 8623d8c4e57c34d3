"""The strict provider: ops by their definitions, reductions as left folds in index order, bit-equal to `Op.denote`."""

from torchlean.backends.reference.capsules import MODULE

__all__ = ["MODULE"]
