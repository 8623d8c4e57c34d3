"""Every op of the IR, and the functions users call."""

from torchlean.ir.ops import activation as _activation
from torchlean.ir.ops import bits as _bits
from torchlean.ir.ops import create as _create
from torchlean.ir.ops import dot as _dot
from torchlean.ir.ops import elementwise as _elementwise
from torchlean.ir.ops import functions as _functions
from torchlean.ir.ops import index as _index
from torchlean.ir.ops import layout as _layout
from torchlean.ir.ops import loss as _loss
from torchlean.ir.ops import neural as _neural
from torchlean.ir.ops import norm as _norm
from torchlean.ir.ops import pool as _pool
from torchlean.ir.ops import random as _random
from torchlean.ir.ops import reduce as _reduce
from torchlean.ir.ops import shaping as _shaping
from torchlean.ir.ops import spread as _spread
from torchlean.ir.ops import window as _window
from torchlean.ir.ops.activation import gelu, log_softmax, logsumexp, relu, silu, softmax, softplus
from torchlean.ir.ops.bits import shift_right, splitmix64, threefry2x32
from torchlean.ir.ops.composite import Composite, call, composite
from torchlean.ir.ops.create import constant, full, full_like, iota
from torchlean.ir.ops.dot import dot_general
from torchlean.ir.ops.elementwise import convert, stop_gradient
from torchlean.ir.ops.functions import *
from torchlean.ir.ops.index import concatenate, pad, scatter_add, slice_, stack, take, take_along_axis
from torchlean.ir.ops.indexing import getitem
from torchlean.ir.ops.loss import cross_entropy, cross_entropy_one_hot, mse_loss, nll_loss, one_hot
from torchlean.ir.ops.neural import attention, dropout, linear
from torchlean.ir.ops.norm import batch_norm, batch_norm_train, layer_norm
from torchlean.ir.ops.pool import avg_pool, max_pool
from torchlean.ir.ops.random import random_bits
from torchlean.ir.ops.shaping import *
from torchlean.ir.ops.spread import reduce_sum
from torchlean.ir.ops.window import conv, conv_transpose

__all__ = [
    "ALL_OPS",
    "COMPOSITES",
    "PRIMITIVES",
    "Composite",
    "attention",
    "avg_pool",
    "batch_norm",
    "batch_norm_train",
    "call",
    "composite",
    "concatenate",
    "constant",
    "conv",
    "conv_transpose",
    "convert",
    "cross_entropy",
    "cross_entropy_one_hot",
    "dot_general",
    "dropout",
    "full",
    "full_like",
    "gelu",
    "getitem",
    "iota",
    "layer_norm",
    "linear",
    "log_softmax",
    "logsumexp",
    "max_pool",
    "mse_loss",
    "nll_loss",
    "one_hot",
    "pad",
    "random_bits",
    "reduce_sum",
    "relu",
    "scatter_add",
    "shift_right",
    "silu",
    "slice_",
    "softmax",
    "softplus",
    "splitmix64",
    "stack",
    "stop_gradient",
    "take",
    "take_along_axis",
    "threefry2x32",
]
__all__ += _functions.__all__
__all__ += _shaping.__all__

PRIMITIVES = (
    *_create.OPS,
    *_elementwise.OPS,
    *_layout.OPS,
    *_spread.OPS,
    *_dot.OPS,
    *_index.OPS,
    *_reduce.OPS,
    *_window.OPS,
    *_random.OPS,
    *_bits.OPS,
)

COMPOSITES = (
    *_activation.COMPOSITES,
    *_norm.COMPOSITES,
    *_neural.COMPOSITES,
    *_loss.COMPOSITES,
    *_pool.COMPOSITES,
)

ALL_OPS = PRIMITIVES + COMPOSITES
