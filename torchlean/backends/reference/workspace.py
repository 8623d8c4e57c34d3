"""What the strict kernels hold beside operands and results, at most, in bytes; a test measures each.

Operands are taken to be row-major: a kernel that first copies a strided operand holds that copy too. Ops without an
entry say nothing, which a cost lists.
"""

from __future__ import annotations

from math import prod
from types import MappingProxyType
from typing import Any

from torchlean.backends.handler import Workspace
from torchlean.backends.reference.fold import _BLOCK, _CHUNK, reduced_rows
from torchlean.backends.strides import contiguous, reshaped
from torchlean.ir.op import Op
from torchlean.ir.ops import activation, create, cumulative, cut, fold, loss, reduce, spread, window
from torchlean.ir.ops import elementwise as ew
from torchlean.ir.ops.chain import CHAIN_MUL
from torchlean.ir.ops.dot import DOT_GENERAL, DotDims
from torchlean.ir.strict.functions import BLOCK
from torchlean.ir.types import Shape, TensorType

Types = tuple[TensorType, ...]

_ITERATOR = 2 * 8192  # entries NumPy buffers for two broadcast operands (np.getbufsize)


def nothing(params: Any, types: Types) -> int:
    """For kernels that write their result and nothing else."""
    return 0


def moves(shape: Shape, order: tuple[int, ...]) -> bool:
    """Whether a row-major array must be copied to have its axes in this order; axes of size 1 may lie anywhere."""
    kept = [axis for axis in order if shape[axis] != 1]
    return kept != sorted(kept)


def _copy(type: TensorType, order: tuple[int, ...]) -> int:
    return type.nbytes if moves(type.shape, order) else 0


def products(folded: int, batch: int, rows: int, columns: int, width: int) -> int:
    """The buffers of `fold_products`, whose operands are contiguous, and of NumPy's iterator over broadcast factors.

    `width` is that of an entry in bytes.
    """
    if columns < 16 and columns < rows:
        turned = batch * rows * columns if columns > 1 else 0
        return products(folded, batch, columns, rows, width) + turned * width
    kept = batch * rows * columns
    if folded * kept <= _CHUNK:
        return (folded * kept + kept + min(folded * kept, _ITERATOR)) * width
    step = min(rows, max(1, _BLOCK // columns))
    return max(_block(folded, step * columns), _block(folded, rows % step * columns)) * width


def _block(folded: int, block: int) -> int:
    """Entries held while products are added to a block of the result."""
    if block == 0:
        return 0
    if block >= _BLOCK // 4 or block == 1:
        return block + min(2 * block, _ITERATOR)
    return (min(folded, max(1, _CHUNK // block)) + 1) * block + _ITERATOR


def dot_general(params: DotDims, types: Types) -> int:
    """Both operands with the contracted axes first, and the buffers of the fold."""
    lhs, rhs = types
    left_free, right_free = params.lhs_free(lhs.rank), params.rhs_free(rhs.rank)
    folded = prod([lhs.shape[axis] for axis in params.lhs_contract])
    batch = prod([lhs.shape[axis] for axis in params.lhs_batch])
    rows, columns = prod([lhs.shape[axis] for axis in left_free]), prod([rhs.shape[axis] for axis in right_free])
    copies = _copy(lhs, params.lhs_contract + params.lhs_batch + left_free)
    copies += _copy(rhs, params.rhs_contract + params.rhs_batch + right_free)
    return copies + products(folded, batch, rows, columns, lhs.dtype.carrier.itemsize)


def reduce_sum(params: spread.Axes, types: Types) -> int:
    """All running sums for a full reduction; else the rows, moved together, and one result before +0 is added."""
    (x,) = types
    order, count, kept_shape = reduced_rows(x.shape, params.axes)
    kept = prod(kept_shape)
    if count == 0 or kept == 0 or not params.axes:
        return 0
    if kept == 1:
        return x.nbytes
    return _copy(x, order) + kept * x.dtype.carrier.itemsize


def extreme(params: spread.Axes, types: Types) -> int:
    """The rows, moved together, a first result, and, where an extreme is 0, which entries are and where the first."""
    (x,) = types
    if not x.dtype.is_float:
        return 0
    order, count, kept_shape = reduced_rows(x.shape, params.axes)
    kept = prod(kept_shape)
    moved = tuple([x.shape[axis] for axis in order])
    strides = contiguous(x.shape)
    seen = reshaped(moved, tuple([strides[axis] for axis in order]), (count, kept))
    return (0 if seen is not None else x.nbytes) + count * kept + kept * (x.dtype.carrier.itemsize + 1 + 16)


def _channels(params: Any, w: TensorType) -> tuple[int, int, int, int]:
    groups = params.groups
    return groups, w.shape[0] // groups, w.shape[1], prod(w.shape[2:])


def conv(params: Any, types: Types) -> int:
    """The patches, the same moved together, the kernel moved, and the fold."""
    x, w = types
    made = window.CONV.type_rule(params, x, w)[0]
    groups, per_out, per_in, k = _channels(params, w)
    n, m, width = x.shape[0], prod(made.shape[2:]), x.dtype.carrier.itemsize
    patches = n * x.shape[1] * k * m * width
    return 2 * patches + w.nbytes + products(per_in * k, groups, per_out, n * m, width)


def conv_input_adjoint(params: Any, types: Types) -> int:
    """As the convolution's, with patches of the cotangent."""
    ct, w = types
    groups, per_out, per_in, k = _channels(params, w)
    n, m, width = ct.shape[0], prod(params.spatial), ct.dtype.carrier.itemsize
    patches = n * ct.shape[1] * k * m * width
    return 2 * patches + w.nbytes + products(per_out * k, groups, per_in, n * m, width)


def conv_kernel_adjoint(params: Any, types: Types) -> int:
    """The patches twice, the cotangent moved, and the fold."""
    x, ct = types
    groups, k, m = params.groups, prod(params.spatial), prod(ct.shape[2:])
    n, per_in, per_out, width = x.shape[0], x.shape[1] // groups, ct.shape[1] // groups, x.dtype.carrier.itemsize
    patches = n * x.shape[1] * k * m * width
    return 2 * patches + ct.nbytes + products(n * m, groups, per_out, per_in * k, width)


def copies(count: float) -> Workspace:
    """As many bytes as that many arrays of the first operand's type."""
    return lambda params, types: int(count * types[0].nbytes)


def booleans(params: Any, types: Types) -> int:
    """Which of two entries is chosen."""
    return types[0].size


def blocks(count: int) -> Workspace:
    """Buffers of a strict function, which computes long arrays block by block; rare arguments take a few more."""

    def workspace(params: Any, types: Types) -> int | None:
        if types[0].dtype.width < 32:
            return None
        return count * min(types[0].size, BLOCK) * types[0].dtype.carrier.itemsize

    return workspace


def integer_pow(params: ew.Exponent, types: Types) -> int:
    """The square and the product so far, where they are arrays of their own, while the next one is made."""
    if params.exponent in (-1, 0, 1, 2):
        return 0
    remaining, product, square, made, most = abs(params.exponent), -1, 0, 0, 0  # 0 is the operand, -1 nothing
    while remaining:
        if remaining & 1:
            if product < 0:
                product = square
            else:
                most, made = max(most, len({product, square} - {0})), made + 1
                product = made
        remaining >>= 1
        if remaining:
            most, made = max(most, len({product, square} - {0, -1})), made + 1
            square = made
    if params.exponent < 0:
        most = max(most, len({product, square} - {0}))
    return most * types[0].nbytes


def running(params: Any, types: Types) -> int:
    """Another copy where results are shifted."""
    return types[0].nbytes if params.exclusive else 0


_ALONE = (
    *(ew.ADD, ew.SUB, ew.MUL, ew.DIV, ew.NEG, ew.ABS, ew.SIGN, ew.SQRT),
    *(ew.LT, ew.LE, ew.GT, ew.GE, ew.EQ, ew.NE, ew.SELECT, CHAIN_MUL),
    *(ew.LOGICAL_AND, ew.LOGICAL_OR, ew.LOGICAL_XOR, ew.LOGICAL_NOT, create.FULL, create.IOTA),
    *(cut.PAD, cut.CONCATENATE),
)


def of_plain_numbers(declared: Workspace) -> Workspace:
    """The workspace for NumPy's own real formats; nothing is known of the others, which run by their definitions."""

    def workspace(params: Any, types: Types) -> int | None:
        if any([type.dtype.is_complex or type.dtype.is_extended for type in types]):
            return None
        return declared(params, types)

    return workspace


WORKSPACE: MappingProxyType[Op, Workspace] = MappingProxyType(
    {
        **dict.fromkeys(_ALONE, nothing),
        DOT_GENERAL: dot_general,
        spread.REDUCE_SUM: reduce_sum,
        reduce.REDUCE_MAX: extreme,
        reduce.REDUCE_MIN: extreme,
        window.CONV: conv,
        window.CONV_INPUT_ADJOINT: conv_input_adjoint,
        window.CONV_KERNEL_ADJOINT: conv_kernel_adjoint,
        activation.RELU: copies(1),
        loss.MSE_LOSS: copies(3),
        ew.RSQRT: copies(1),
        ew.INTEGER_POW: integer_pow,
        ew.EXP: blocks(5),
        ew.EXPM1: blocks(5),
        ew.LOG: blocks(8),
        ew.LOG1P: blocks(9),
        ew.SIN: blocks(8),
        ew.COS: blocks(8),
        ew.TANH: blocks(7),
        ew.LOGISTIC: blocks(7),
        ew.POW: blocks(40),
        ew.MAX: booleans,
        ew.MIN: booleans,
        cumulative.CUMSUM: running,
        cumulative.CUMPROD: running,
        fold.REDUCE_PROD: reduce_sum,
    }
)
