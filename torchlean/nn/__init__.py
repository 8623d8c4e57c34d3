"""Layers as frozen records with parameters apart, initialisers, losses, activations."""

from torchlean.ir.ops import (
    gelu,
    log_softmax,
    logistic,
    logsumexp,
    relu,
    silu,
    softmax,
    softplus,
    tanh,
)
from torchlean.nn import init, losses
from torchlean.nn.dropout import Dropout, DropoutParams
from torchlean.nn.layer import Layer, Mode, Params
from torchlean.nn.layers import Affine, Conv, Embedding, Flatten, Linear, MultiHeadAttention, Projections, Table
from torchlean.nn.losses import bce_with_logits, cross_entropy, cross_entropy_one_hot, mse, mse_sum, nll
from torchlean.nn.model import Sequential, merge, parameter_count, partition, summary
from torchlean.nn.norms import BatchNorm, BatchNormParams, LayerNorm, LayerNormParams
from torchlean.nn.pooling import AvgPool, MaxPool

sigmoid = logistic

__all__ = [
    "Affine",
    "AvgPool",
    "BatchNorm",
    "BatchNormParams",
    "Conv",
    "Dropout",
    "DropoutParams",
    "Embedding",
    "Flatten",
    "Layer",
    "LayerNorm",
    "LayerNormParams",
    "Linear",
    "MaxPool",
    "Mode",
    "MultiHeadAttention",
    "Params",
    "Projections",
    "Sequential",
    "Table",
    "bce_with_logits",
    "cross_entropy",
    "cross_entropy_one_hot",
    "gelu",
    "init",
    "log_softmax",
    "logistic",
    "logsumexp",
    "losses",
    "merge",
    "mse",
    "mse_sum",
    "nll",
    "parameter_count",
    "partition",
    "relu",
    "sigmoid",
    "silu",
    "softmax",
    "softplus",
    "summary",
    "tanh",
]
