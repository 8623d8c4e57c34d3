"""Every op of the IR, and the functions users call."""

from torchlean.ir.ops import activation as _activation
from torchlean.ir.ops import bits as _bits
from torchlean.ir.ops import branches as _branches
from torchlean.ir.ops import chain as _chain
from torchlean.ir.ops import create as _create
from torchlean.ir.ops import cumulative as _cumulative
from torchlean.ir.ops import determinant as _determinant
from torchlean.ir.ops import dot as _dot
from torchlean.ir.ops import dynamic as _dynamic
from torchlean.ir.ops import effect as _effect
from torchlean.ir.ops import elementary as _elementary
from torchlean.ir.ops import elementwise as _elementwise
from torchlean.ir.ops import factor as _factor
from torchlean.ir.ops import fft as _fft
from torchlean.ir.ops import fold as _fold
from torchlean.ir.ops import folding as _folding
from torchlean.ir.ops import functions as _functions
from torchlean.ir.ops import index as _index
from torchlean.ir.ops import layout as _layout
from torchlean.ir.ops import linalg as _linalg
from torchlean.ir.ops import loss as _loss
from torchlean.ir.ops import neural as _neural
from torchlean.ir.ops import norm as _norm
from torchlean.ir.ops import parts as _parts
from torchlean.ir.ops import pointwise as _pointwise
from torchlean.ir.ops import pool as _pool
from torchlean.ir.ops import quotients as _quotients
from torchlean.ir.ops import random as _random
from torchlean.ir.ops import reduce as _reduce
from torchlean.ir.ops import remat as _remat
from torchlean.ir.ops import repeating as _repeating
from torchlean.ir.ops import rounding as _rounding
from torchlean.ir.ops import scanning as _scanning
from torchlean.ir.ops import scattering as _scattering
from torchlean.ir.ops import shaping as _shaping
from torchlean.ir.ops import sorting as _sorting
from torchlean.ir.ops import spectra as _spectra
from torchlean.ir.ops import spectral as _spectral
from torchlean.ir.ops import spread as _spread
from torchlean.ir.ops import stable as _stable
from torchlean.ir.ops import triangular as _triangular
from torchlean.ir.ops import window as _window
from torchlean.ir.ops import words as _words
from torchlean.ir.ops.activation import gelu, log_sigmoid, log_softmax, logsumexp, relu, silu, softmax, softplus
from torchlean.ir.ops.associative import associative_scan
from torchlean.ir.ops.bits import splitmix64, threefry2x32
from torchlean.ir.ops.branching import cond, switch
from torchlean.ir.ops.checkpointing import checkpoint, checkpoint_name, save_names
from torchlean.ir.ops.composite import Composite, call, composite
from torchlean.ir.ops.create import constant, full, full_like, iota
from torchlean.ir.ops.dot import dot_general
from torchlean.ir.ops.elementwise import convert, stop_gradient
from torchlean.ir.ops.entries import at
from torchlean.ir.ops.folding import *
from torchlean.ir.ops.functions import *
from torchlean.ir.ops.index import concatenate, pad, scatter_add, slice_, stack, take, take_along_axis
from torchlean.ir.ops.indexing import getitem
from torchlean.ir.ops.linalg import *
from torchlean.ir.ops.loops import fori_loop, map, scan, while_loop
from torchlean.ir.ops.loss import cross_entropy, cross_entropy_one_hot, mse_loss, nll_loss, one_hot
from torchlean.ir.ops.neural import attention, dropout, linear
from torchlean.ir.ops.norm import batch_norm, batch_norm_train, layer_norm
from torchlean.ir.ops.pointwise import *
from torchlean.ir.ops.pool import avg_pool, max_pool
from torchlean.ir.ops.random import random_bits
from torchlean.ir.ops.shaping import *
from torchlean.ir.ops.spectra import *
from torchlean.ir.ops.spread import reduce_sum
from torchlean.ir.ops.stable import entr, euclidean_norm, log1mexp, logaddexp, sinc, xlogy
from torchlean.ir.ops.standard import (
    absolute,
    bitwise_and,
    bitwise_not,
    bitwise_or,
    bitwise_xor,
    floor_quotient,
    negative,
    raised,
)
from torchlean.ir.ops.window import conv, conv_transpose

__all__ = [
    "ALL_OPS",
    "COMPOSITES",
    "CONTROL",
    "EFFECTS",
    "PRIMITIVES",
    "Composite",
    "absolute",
    "associative_scan",
    "at",
    "attention",
    "avg_pool",
    "batch_norm",
    "batch_norm_train",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "call",
    "checkpoint",
    "checkpoint_name",
    "composite",
    "concatenate",
    "cond",
    "constant",
    "conv",
    "conv_transpose",
    "convert",
    "cross_entropy",
    "cross_entropy_one_hot",
    "dot_general",
    "dropout",
    "entr",
    "euclidean_norm",
    "floor_quotient",
    "fori_loop",
    "full",
    "full_like",
    "gelu",
    "getitem",
    "iota",
    "layer_norm",
    "linear",
    "log1mexp",
    "log_sigmoid",
    "log_softmax",
    "logaddexp",
    "logsumexp",
    "map",
    "max_pool",
    "mse_loss",
    "negative",
    "nll_loss",
    "one_hot",
    "pad",
    "raised",
    "random_bits",
    "reduce_sum",
    "relu",
    "save_names",
    "scan",
    "scatter_add",
    "silu",
    "sinc",
    "slice_",
    "softmax",
    "softplus",
    "splitmix64",
    "stack",
    "stop_gradient",
    "switch",
    "take",
    "take_along_axis",
    "threefry2x32",
    "while_loop",
    "xlogy",
]
__all__ += _functions.__all__
__all__ += _shaping.__all__
__all__ += _pointwise.__all__
__all__ += _folding.__all__
__all__ += _spectra.__all__
__all__ += _linalg.__all__

PRIMITIVES = (
    *_create.OPS,
    *_elementwise.OPS,
    *_parts.OPS,
    *_chain.OPS,
    *_layout.OPS,
    *_spread.OPS,
    *_dot.OPS,
    *_index.OPS,
    *_reduce.OPS,
    *_window.OPS,
    *_random.OPS,
    *_bits.OPS,
    *_rounding.OPS,
    *_elementary.OPS,
    *_quotients.OPS,
    *_words.OPS,
    *_cumulative.OPS,
    *_fold.OPS,
    *_dynamic.OPS,
    *_scattering.OPS,
    *_sorting.OPS,
    *_fft.OPS,
    *_triangular.OPS,
    *_factor.OPS,
    *_spectral.OPS,
    *_determinant.OPS,
)

COMPOSITES = (
    *_activation.COMPOSITES,
    *_stable.COMPOSITES,
    *_norm.COMPOSITES,
    *_neural.COMPOSITES,
    *_loss.COMPOSITES,
    *_pool.COMPOSITES,
)

CONTROL = (*_branches.OPS, *_scanning.OPS, *_repeating.OPS, *_remat.OPS)

ALL_OPS = PRIMITIVES + COMPOSITES + CONTROL

EFFECTS = _effect.EFFECTS  # apart: they have no value, so no law of values is about them
