"""conv and conv_transpose as users call them, against JAX and PyTorch, and every refusal by its text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from ops.samples import uniform

from torchlean.errors import TypeRuleError
from torchlean.ir.builder import bind
from torchlean.ir.dtypes import DType
from torchlean.ir.evaluate import denote
from torchlean.ir.op import Op
from torchlean.ir.ops.window import CONV, CONV_INPUT_ADJOINT, CONV_KERNEL_ADJOINT, conv, conv_transpose
from torchlean.ir.ops.window_types import AdjointWindow, Window
from torchlean.ir.tracing import trace_flat
from torchlean.ir.types import TensorType, type_of_array


def run(f: Callable[..., Any], *arrays: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Trace `f` on the arrays and evaluate the graph."""
    graph = trace_flat(lambda *xs: (f(*xs),), [type_of_array(array) for array in arrays]).graph
    return denote(graph, arrays)[0]


@pytest.mark.parametrize("size", [(5, 6), (7, 3), (1, 1)])
@pytest.mark.parametrize("kernel", [(3, 2), (1, 1), (5, 4)])
@pytest.mark.parametrize("strides", [1, 2, (1, 3)])
@pytest.mark.parametrize("dilation", [1, (2, 1)])
def test_same_padding_is_that_of_jax(size: Any, kernel: Any, strides: Any, dilation: Any) -> None:
    x, w = uniform((2, 3, *size)), uniform((4, 3, *kernel), seed=1)
    got = run(lambda x, w: conv(x, w, strides=strides, padding="same", dilation=dilation), x, w)
    pair: Callable[[Any], tuple[int, int]] = lambda n: (n, n) if isinstance(n, int) else n  # noqa: E731
    with jax.enable_x64(True):
        want = jax.lax.conv_general_dilated(
            jnp.asarray(x), jnp.asarray(w), pair(strides), "SAME", rhs_dilation=pair(dilation), precision="highest"
        )
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)  # 60 float64 terms of size 4


def test_the_ways_to_write_a_padding() -> None:
    x, w = uniform((1, 2, 5, 7)), uniform((3, 2, 3, 2), seed=1)
    valid = run(lambda x, w: conv(x, w, padding="valid"), x, w)
    np.testing.assert_array_equal(run(conv, x, w), valid)
    for padding, pairs in ((1, ((1, 1), (1, 1))), ((2, 0), ((2, 2), (0, 0))), (((0, 1), (2, 0)), ((0, 1), (2, 0)))):
        padded = np.pad(x, ((0, 0), (0, 0), *pairs))
        got = run(lambda x, w, padding=padding: conv(x, w, padding=padding), x, w)
        np.testing.assert_allclose(got, run(conv, padded, w), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("strides", "padding", "output_padding", "dilation", "groups"),
    [
        ((1, 1), (0, 0), (0, 0), (1, 1), 1),
        ((2, 3), (1, 0), (1, 2), (1, 1), 1),
        ((2, 1), (2, 1), (0, 0), (1, 2), 2),
        ((3, 2), (0, 1), (1, 1), (2, 3), 2),
        ((1, 1), (0, 0), (1, 1), (2, 2), 1),  # an output padding of at least the stride
    ],
)
def test_conv_transpose_is_that_of_torch(
    strides: Any, padding: Any, output_padding: Any, dilation: Any, groups: int
) -> None:
    torch = pytest.importorskip("torch")
    x, w = uniform((2, 4, 5, 3)), uniform((4, 3, 3, 2), seed=1)
    want = torch.nn.functional.conv_transpose2d(
        torch.from_numpy(x),
        torch.from_numpy(w),
        stride=strides,
        padding=padding,
        output_padding=output_padding,
        dilation=dilation,
        groups=groups,
    ).numpy()
    got = run(
        lambda x, w: conv_transpose(
            x,
            w,
            strides=strides,
            padding=padding,
            output_padding=output_padding,
            dilation=dilation,
            groups=groups,
        ),
        x,
        w,
    )
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)


# -- refusals ----------------------------------------------------------------------------------------------------------
def _t(*shape: int, dtype: DType = DType.F32) -> TensorType:
    return TensorType(shape, dtype)


def _window(*, strides: Any = (1,), padding: Any = ((0, 0),), dilation: Any = (1,), groups: int = 1) -> Window:
    return Window(strides, padding, dilation, groups)


def _adjoint(spatial: tuple[int, ...], groups: int = 1) -> AdjointWindow:
    return AdjointWindow((1,), ((0, 0),), (1,), groups, spatial)


X, W = _t(2, 4, 7), _t(6, 4, 3)
REFUSED: tuple[tuple[Op, Any, tuple[TensorType, TensorType], str, str], ...] = (
    (CONV, _window(), (X, _t(6, 3, 3)), "channels do not fit 1 group", "got:      4 input channels, 6 output channels"),
    (CONV, _window(groups=2), (X, W), "channels do not fit 2 groups", "input channels = 2 · 4 (kernel axis 1)"),
    (CONV, _window(groups=4), (X, _t(6, 1, 3)), "channels do not fit 4 groups", "a multiple of 4"),
    (
        CONV,
        _window(),
        (X, _t(6, 4, 8)),
        "the kernel does not fit spatial axis 0",
        "kernel 8 (spans 8), input 7 padded to 7",
    ),
    (CONV, _window(dilation=(4,)), (X, W), "the kernel does not fit spatial axis 0", "kernel 3 (spans 9)"),
    (CONV, _window(padding=((-3, -3),)), (X, W), "the kernel does not fit spatial axis 0", "input 7 padded to 1"),
    (CONV, _window(), (X, _t(6, 4, 0)), "the kernel does not fit spatial axis 0", "at least 1 entry"),
    (CONV, _window(), (X, _t(6, 4, 3, 1)), "operands do not have 1 spatial axes", "rank 3: input [N, C, …] and kernel"),
    (CONV, _window(strides=(0,)), (X, W), "the window is malformed", "strides, dilations and groups of at least 1"),
    (CONV, _window(groups=0), (X, W), "the window is malformed", "groups=0"),
    (CONV, _window(padding=()), (X, W), "the window is malformed", "1 strides, paddings and dilations"),
    (CONV, _window(), (X, _t(6, 4, 3, dtype=DType.F64)), "operand dtypes differ", "f32[2,4,7] and f64[6,4,3]"),
    (CONV, _window(), (_t(2, 4, 7, dtype=DType.BOOL), W), "a bool operand is not allowed", "got:      bool"),
    (CONV_INPUT_ADJOINT, _adjoint((7,)), (_t(2, 6, 4), W), "the cotangent is not of the convolution's", "f32[2,6,5]"),
    (CONV_INPUT_ADJOINT, _adjoint((-7,)), (_t(2, 6, 4), W), "a spatial size of the result is negative", "input [-7]"),
    (CONV_INPUT_ADJOINT, _adjoint((7,)), (_t(2, 5, 5), W), "the cotangent is not of the convolution's", "f32[2,6,5]"),
    (CONV_KERNEL_ADJOINT, _adjoint((3,)), (X, _t(2, 6, 4)), "the cotangent is not of the convolution's", "f32[2,6,5]"),
    (CONV_KERNEL_ADJOINT, _adjoint((3,), 3), (X, _t(2, 6, 5)), "channels do not fit 3 groups", "a multiple of 3"),
    (
        CONV_KERNEL_ADJOINT,
        _adjoint((3,)),
        (X, _t(6, 5)),
        "operands do not have 1 spatial axes",
        "f32[2,4,7] and f32[6,5]",
    ),
)


@pytest.mark.parametrize(("op", "params", "types", "what", "detail"), REFUSED)
def test_a_type_rule_refuses(op: Op, params: Any, types: tuple[TensorType, ...], what: str, detail: str) -> None:
    with pytest.raises(TypeRuleError) as caught:
        trace_flat(lambda *xs: bind(op, params, *xs), types)
    text = str(caught.value)
    assert text.startswith(f"{op.name} of {types[0]}, {types[1]}: {what}")
    assert detail in text
    assert "test_convolution.py:" in text.splitlines()[0]
    assert [line.split(":")[0].strip() for line in text.splitlines()[1:]] == ["expected", "got", "fix"]


@pytest.mark.parametrize(
    ("call", "what", "detail"),
    [
        (lambda x, w: conv(x[0], w), "conv of f32[4,7] with a kernel f32[6,4,3]: ranks do not fit", "ranks 2 and 3"),
        (
            lambda x, w: conv_transpose(x[0], w),
            "conv_transpose of f32[4,7] with a kernel f32[6,4,3]: ranks do not fit",
            "[in, out / groups, spatial…]",
        ),
        (lambda x, w: conv(x, w, padding="full"), "conv: 'full' is not a padding", '"same", "valid", or widths'),
        (lambda x, w: conv_transpose(x, w, padding="same"), "conv_transpose: 'same' is not a padding", "widths"),
        (lambda x, w: conv(x, w, strides=(1, 1)), "conv: strides [1, 1] does not fit 1 spatial axes", "2 entries"),
        (
            lambda x, w: conv(x, w, padding="same", strides=(1, 1)),
            "conv: strides [1, 1] does not fit 1",
            "a number, or 1 of them",
        ),
        (
            lambda x, w: conv_transpose(x, w, dilation=(1, 1)),
            "conv_transpose: dilation [1, 1] does not fit",
            "2 entries",
        ),
    ],
)
def test_a_function_refuses(call: Callable[..., Any], what: str, detail: str) -> None:
    with pytest.raises(TypeRuleError) as caught:
        trace_flat(lambda x, w: (call(x, w),), (X, W))
    text = str(caught.value)
    assert text.startswith(what)
    assert detail in text
    assert "test_convolution.py:" in text.splitlines()[0]
