"""Strict bits from generated C: groups of nodes fused, folds kept left; compiled by the machine's own compiler."""

from torchlean.backends.compiled.capsules import MODULE, module

__all__ = ["MODULE", "module"]
