"""The fast provider: BLAS products, NumPy's own sums, fused losses. Reduction orders are implementation-defined.

It holds only what is faster than the strict provider; a profile lists the strict one after it for everything else.
"""

from torchlean.backends.numpy.capsules import MODULE

__all__ = ["MODULE"]
