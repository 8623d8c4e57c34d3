"""NumPy's names over torchlean's ops: the Array API standard 2024.12, its linalg and fft extensions, and what users of
NumPy reach for beyond it.

Every function works on eager arrays and on traced values, and only calls ops. Python numbers are weak; what the
standard leaves undefined (integers with floats, say) is refused with the conversion to write. What differs from NumPy,
and from the standard, is listed in docs/array_api.md.
"""

from torchlean.numpy import arithmetic as _arithmetic
from torchlean.numpy import bits as _bits
from torchlean.numpy import closeness as _closeness
from torchlean.numpy import comparison as _comparison
from torchlean.numpy import complex_parts as _complex_parts
from torchlean.numpy import constants as _constants
from torchlean.numpy import counting as _counting
from torchlean.numpy import creation as _creation
from torchlean.numpy import cumulative as _cumulative
from torchlean.numpy import diagonals as _diagonals
from torchlean.numpy import dtypes as _dtypes
from torchlean.numpy import einsum as _einsum
from torchlean.numpy import exponential as _exponential
from torchlean.numpy import fft, linalg
from torchlean.numpy import info as _info
from torchlean.numpy import joining as _joining
from torchlean.numpy import nan_reductions as _nan_reductions
from torchlean.numpy import padding as _padding
from torchlean.numpy import polynomials as _polynomials
from torchlean.numpy import products as _products
from torchlean.numpy import quantiles as _quantiles
from torchlean.numpy import ranges as _ranges
from torchlean.numpy import reductions as _reductions
from torchlean.numpy import repetition as _repetition
from torchlean.numpy import rounding as _rounding
from torchlean.numpy import searching as _searching
from torchlean.numpy import selection as _selection
from torchlean.numpy import sets as _sets
from torchlean.numpy import shapes as _shapes
from torchlean.numpy import signals as _signals
from torchlean.numpy import sorting as _sorting
from torchlean.numpy import trigonometry as _trigonometry
from torchlean.numpy.arithmetic import *
from torchlean.numpy.bits import *
from torchlean.numpy.closeness import *
from torchlean.numpy.comparison import *
from torchlean.numpy.complex_parts import *
from torchlean.numpy.constants import *
from torchlean.numpy.counting import *
from torchlean.numpy.creation import *
from torchlean.numpy.cumulative import *
from torchlean.numpy.diagonals import *
from torchlean.numpy.dtypes import *
from torchlean.numpy.einsum import *
from torchlean.numpy.exponential import *
from torchlean.numpy.info import *
from torchlean.numpy.joining import *
from torchlean.numpy.nan_reductions import *
from torchlean.numpy.padding import *
from torchlean.numpy.polynomials import *
from torchlean.numpy.products import *
from torchlean.numpy.quantiles import *
from torchlean.numpy.ranges import *
from torchlean.numpy.reductions import *
from torchlean.numpy.repetition import *
from torchlean.numpy.rounding import *
from torchlean.numpy.searching import *
from torchlean.numpy.selection import *
from torchlean.numpy.sets import *
from torchlean.numpy.shapes import *
from torchlean.numpy.signals import *
from torchlean.numpy.sorting import *
from torchlean.numpy.trigonometry import *

__array_api_version__ = "2024.12"

__all__ = ["__array_api_version__", "fft", "linalg"]
__all__ += _arithmetic.__all__
__all__ += _bits.__all__
__all__ += _closeness.__all__
__all__ += _comparison.__all__
__all__ += _complex_parts.__all__
__all__ += _constants.__all__
__all__ += _counting.__all__
__all__ += _creation.__all__
__all__ += _cumulative.__all__
__all__ += _diagonals.__all__
__all__ += _dtypes.__all__
__all__ += _einsum.__all__
__all__ += _exponential.__all__
__all__ += _info.__all__
__all__ += _joining.__all__
__all__ += _nan_reductions.__all__
__all__ += _padding.__all__
__all__ += _polynomials.__all__
__all__ += _products.__all__
__all__ += _quantiles.__all__
__all__ += _ranges.__all__
__all__ += _reductions.__all__
__all__ += _repetition.__all__
__all__ += _rounding.__all__
__all__ += _searching.__all__
__all__ += _selection.__all__
__all__ += _sets.__all__
__all__ += _shapes.__all__
__all__ += _signals.__all__
__all__ += _sorting.__all__
__all__ += _trigonometry.__all__
