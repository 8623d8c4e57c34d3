"""What the fast kernels hold beside operands and results, at most, in bytes; a test measures each.

BLAS's own buffers are not NumPy's, and not counted. Ops without an entry say nothing, which a cost lists.
"""

from __future__ import annotations

from math import prod
from types import MappingProxyType
from typing import Any

from torchlean.backends.handler import Workspace
from torchlean.backends.numpy.pointwise import UFUNCS
from torchlean.backends.numpy.reductions import _turned
from torchlean.backends.numpy.window import _is_whole
from torchlean.backends.strides import contiguous, reshaped
from torchlean.ir.op import Op
from torchlean.ir.ops import activation, loss, reduce, spread, window
from torchlean.ir.ops import elementwise as ew
from torchlean.ir.ops.dot import DOT_GENERAL, DotDims
from torchlean.ir.types import Shape, TensorType

Types = tuple[TensorType, ...]


def nothing(params: Any, types: Types) -> int:
    """For kernels that write their result and nothing else."""
    return 0


def _copy(type: TensorType, order: tuple[int, ...], shape: Shape) -> int:
    """The bytes of a row-major array seen with its axes in another order and joined, if that takes a copy."""
    strides = contiguous(type.shape)
    seen = reshaped(tuple([type.shape[a] for a in order]), tuple([strides[a] for a in order]), shape)
    return 0 if seen is not None else type.nbytes


def dot_general(params: DotDims, types: Types) -> int:
    """The operands as matrices, where joining their axes takes a copy."""
    lhs, rhs = types
    left_free, right_free = params.lhs_free(lhs.rank), params.rhs_free(rhs.rank)
    batch = tuple([lhs.shape[axis] for axis in params.lhs_batch])
    rows, columns = prod([lhs.shape[a] for a in left_free]), prod([rhs.shape[a] for a in right_free])
    folded = prod([lhs.shape[axis] for axis in params.lhs_contract])
    lead = (prod(batch),) if batch else ()
    left = _copy(lhs, params.lhs_batch + left_free + params.lhs_contract, (*lead, rows, folded))
    return left + _copy(rhs, params.rhs_batch + params.rhs_contract + right_free, (*lead, folded, columns))


def reduction(params: spread.Axes, types: Types) -> int:
    """A transposed copy of a matrix with short rows."""
    return types[0].nbytes if _turned(params, types[0]) else 0


def reduce_sum(params: spread.Axes, types: Types) -> int:
    """As any reduction of floats; other sums need nothing."""
    return reduction(params, types) if types[0].dtype.is_float else 0


def _patches(params: Any, x: TensorType, kernel: Shape, outputs: Shape) -> int:
    """Once moved together, and once before that where they are not a view of the input."""
    size = x.shape[0] * x.shape[1] * prod(kernel) * prod(outputs) * x.dtype.carrier.itemsize
    seen = _is_whole(params, kernel, outputs, x.shape[2:]) and all([low == 0 for low, _ in params.padding])
    return size if seen else 2 * size


def conv(params: Any, types: Types) -> int:
    """The patches."""
    x, w = types
    made = window.CONV.type_rule(params, x, w)[0]
    return _patches(params, x, w.shape[2:], made.shape[2:])


def conv_input_adjoint(params: Any, types: Types) -> int:
    """The product over output channels, and the cotangent moved."""
    ct, w = types
    n, width, groups = ct.shape[0], ct.dtype.carrier.itemsize, params.groups
    terms = groups * w.shape[1] * prod(w.shape[2:]) * n * prod(ct.shape[2:]) * width
    return terms + (ct.nbytes if n > 1 else 0)


def conv_kernel_adjoint(params: Any, types: Types) -> int:
    """The patches and the cotangent, moved."""
    x, ct = types
    return _patches(params, x, params.spatial, ct.shape[2:]) + (ct.nbytes if x.shape[0] > 1 else 0)


def _of_first(count: float) -> Workspace:
    return lambda params, types: int(count * types[0].nbytes)


def relu_vjp(params: Any, types: Types) -> int:
    """Which entries are not positive."""
    return types[0].size


def mse_loss_vjp(params: Any, types: Types) -> int:
    """The difference, while one slope is made of it."""
    return types[0].nbytes if len(params.attribute("wrt")) == 1 else 0


def cross_entropy_vjp(params: Any, types: Types) -> int:
    """The place of each label, and what is there before and after."""
    return 20 * types[0].shape[0]


WORKSPACE: MappingProxyType[Op, Workspace] = MappingProxyType(
    {
        **dict.fromkeys(UFUNCS, nothing),
        ew.LOGISTIC: _of_first(3),
        DOT_GENERAL: dot_general,
        spread.REDUCE_SUM: reduce_sum,
        reduce.REDUCE_MAX: reduction,
        reduce.REDUCE_MIN: reduction,
        ew.MAX: nothing,
        ew.MIN: nothing,
        ew.CLAMP: _of_first(1),
        window.CONV: conv,
        window.CONV_INPUT_ADJOINT: conv_input_adjoint,
        window.CONV_KERNEL_ADJOINT: conv_kernel_adjoint,
        activation.RELU: nothing,
        loss.MSE_LOSS: _of_first(1),
        loss.CROSS_ENTROPY: _of_first(2),
    }
)
DERIVATIVES: MappingProxyType[Op, Workspace] = MappingProxyType(  # by the op whose derivative it is
    {
        activation.RELU: relu_vjp,
        loss.MSE_LOSS: mse_loss_vjp,
        loss.CROSS_ENTROPY: cross_entropy_vjp,
    }
)
