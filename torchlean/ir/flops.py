"""Floating-point operations of every op: one table, complete over the primitives (a test says so).

`FAMILIES` is the table: x is the first operand, y the result, |·| a number of entries. What integers and booleans do
counts 0, and complex arithmetic counts as if it were real. Composites count by their bodies, control flow by the graphs
it holds: a scan times its steps, cond by its dearest branch, a while loop by one step, which is reported as uncounted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log2, prod
from types import MappingProxyType
from typing import Any

from torchlean.ir.graph import Graph, Node, sub_graphs
from torchlean.ir.op import EffectOp
from torchlean.ir.types import TensorType

Types = Sequence[TensorType]
Formula = Callable[[Any, Types, TensorType], int | None]


@dataclass(frozen=True, slots=True)
class Family:
    """Ops that count alike: `rule` says how, in the words of the documentation; None from `formula` means unknown."""

    names: tuple[str, ...]
    rule: str
    formula: Formula


# -- formulas ----------------------------------------------------------------------------------------------------------
def _powers(params: Any, operands: Types, result: TensorType) -> int:
    exponent = abs(params.exponent)
    products = max(0, exponent.bit_length() - 1) + max(0, exponent.bit_count() - 1)
    return result.size * (products + (params.exponent < 0))


def _window(out: int, kernel: int) -> Formula:
    """Which of (operands…, result) is the output of the convolution and which its kernel [O, C / groups, …]."""

    def formula(params: Any, operands: Types, result: TensorType) -> int:
        parts = (*operands, result)
        return 2 * parts[out].size * parts[kernel].size // max(1, parts[kernel].shape[0])

    return formula


def _transform(halves: int, of_result: bool) -> Formula:
    def formula(params: Any, operands: Types, result: TensorType) -> int:
        seen = result if of_result else operands[0]
        length = seen.shape[params.axis]
        return round(5 * seen.size * log2(length) / halves) if length > 1 else 0

    return formula


def _square(per_matrix: Callable[[int], int]) -> Formula:
    def formula(params: Any, operands: Types, result: TensorType) -> int | None:
        *batch, rows, columns = operands[0].shape
        return prod(batch) * per_matrix(rows) if rows == columns else None

    return formula


def _unknown(params: Any, operands: Types, result: TensorType) -> None:
    return None


# -- the table ---------------------------------------------------------------------------------------------------------
TRANSCENDENTAL = frozenset(
    (
        *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "pow", "cbrt", "logistic", "rsqrt"),
        *("sin", "cos", "tan", "asin", "acos", "atan", "atan2"),
        *("sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
        *("erf", "erfc", "erf_inv", "lgamma", "digamma", "polygamma"),
    )
)

FAMILIES = (
    Family(
        (
            *("constant", "full", "iota", "convert", "select", "stop_gradient", "real", "imag", "complex", "conj"),
            *("reshape", "transpose", "reverse", "broadcast", "slice", "pad", "concatenate", "gather", "scatter"),
            *("dynamic_slice", "dynamic_update_slice", "bitcast_convert", "checkpoint_name", "argmax", "argmin"),
        ),
        "0: moves and choices",
        lambda params, operands, result: 0,
    ),
    Family(
        (
            *("logical_and", "logical_or", "logical_xor", "logical_not", "and", "or", "xor", "not", "random_bits"),
            *("threefry2x32", "splitmix64", "shift_right", "shift_left", "shift_right_logical"),
            *("shift_right_arithmetic", "population_count", "clz", "reduce_and", "reduce_or", "reduce_xor"),
        ),
        "0: integers and booleans",
        lambda params, operands, result: 0,
    ),
    Family(
        (
            *("add", "sub", "mul", "div", "neg", "abs", "sign", "sqrt", "square", "max", "min", "clamp", "chain_mul"),
            *("lt", "le", "gt", "ge", "eq", "ne", "floor", "ceil", "trunc", "round", "is_finite", "is_nan", "signbit"),
            *("hypot", "nextafter", "rem", "remainder", "floor_divide", "reduce_precision"),
            *sorted(TRANSCENDENTAL),
        ),
        "|y|: one per entry, whatever the function",
        lambda params, operands, result: result.size,
    ),
    Family(("integer_pow",), "|y| · products, by repeated squaring; one more for a negative exponent", _powers),
    Family(
        ("reduce_sum", "reduce_prod", "reduce_max", "reduce_min"),
        "|x| - |y|",
        lambda params, operands, result: max(0, operands[0].size - result.size),
    ),
    Family(
        ("cumsum", "cumprod", "cummax", "cummin"),
        "|x|",
        lambda params, operands, result: operands[0].size,
    ),
    Family(("recurrence",), "2·|y|", lambda params, operands, result: 2 * result.size),
    Family(
        ("cumlogsumexp",),
        "6·|x|: larger, two differences, two powers of e and a logarithm's sum",
        lambda params, operands, result: 6 * operands[0].size,
    ),
    Family(
        ("dot_general",),
        "2·|y|·k, k the contracted entries",
        lambda params, operands, result: 2 * result.size * prod([operands[0].shape[at] for at in params.lhs_contract]),
    ),
    Family(("conv",), "2·|y|·|w| / o, w the kernel and o its outputs; padding counts", _window(2, 1)),
    Family(("conv_input_adjoint",), "2·|x|·|w| / o, x the cotangent", _window(0, 1)),
    Family(("conv_kernel_adjoint",), "2·|cotangent|·|y| / o, y the kernel's cotangent", _window(1, 2)),
    Family(
        ("scatter_add", "scatter_mul", "scatter_max", "scatter_min"),
        "|updates|",
        lambda params, operands, result: operands[2].size,
    ),
    Family(("fft",), "5·|x|·log₂ n, n the transformed entries [as usual for Cooley and Tukey's]", _transform(1, False)),
    Family(("rfft",), "half of that", _transform(2, False)),
    Family(("irfft",), "half of 5·|y|·log₂ n", _transform(2, True)),
    Family(("cholesky",), "n³/3 per matrix [Golub and Van Loan, §4.2]", _square(lambda n: n**3 // 3)),
    Family(("lu", "det"), "2n³/3 per square matrix [Golub and Van Loan, §3.2]", _square(lambda n: 2 * n**3 // 3)),
    Family(
        ("triangular_solve",),
        "n²·columns per matrix [Golub and Van Loan, §3.1]",
        lambda params, operands, result: operands[0].shape[-1] * operands[1].size,
    ),
    Family(("sort", "qr", "eigh", "svd"), "unknown: the work depends on the entries or on the kernel", _unknown),
)

MOVES = frozenset(FAMILIES[0].names)  # no arithmetic at all, whatever the dtype

_FORMULAS = MappingProxyType({name: family for family in FAMILIES for name in family.names})


def flops_of(node: Node, operands: Types, result: TensorType) -> int | None:
    """Of a primitive's node; None where there is no formula."""
    if node.op.__class__ is EffectOp:
        return 0
    family = _FORMULAS.get(node.op.name)
    if family is None:
        return None
    first = operands[0].dtype if operands else result.dtype
    if first.is_bool or first.is_integer:
        return 0
    return family.formula(node.params, operands, result)


def table_text() -> str:
    """The table as lines `rule: ops`."""
    return "\n".join([f"{family.rule}\n    {', '.join(family.names)}" for family in FAMILIES])


# -- nodes that hold graphs --------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Flops:
    """`count` operations, `transcendental` of them values of functions such as exp; what has no formula is named."""

    count: int
    transcendental: int
    uncounted: frozenset[str]

    def times(self, steps: int) -> Flops:
        """As often as a loop runs."""
        return Flops(self.count * steps, self.transcendental * steps, self.uncounted)


NOTHING = Flops(0, 0, frozenset())


def flops_of_node(graph: Graph, node: Node, known: dict[int, Flops]) -> Flops:
    """Of any node of a graph, with what the graphs it holds do. `known` remembers those, by identity."""
    held = [_flops_of_graph(body, known) for _, body in sub_graphs(node.params)]
    if held:
        name = node.op.name
        chosen = [max(held, key=lambda each: each.count)] if name == "cond" else held
        made = _sum(chosen).times(getattr(node.params, "length", 1))
        if name == "cond":
            made = Flops(made.count, made.transcendental, _sum(held).uncounted)
        if name == "while":
            return Flops(made.count, made.transcendental, made.uncounted | {"while (one step is counted)"})
        return made
    operands = [graph.types[id] for id in node.inputs]
    count = flops_of(node, operands, graph.types[node.outputs[0]])
    if count is None:
        return Flops(0, 0, frozenset({node.op.name}))
    return Flops(count, count if node.op.name in TRANSCENDENTAL else 0, frozenset())


def _flops_of_graph(graph: Graph, known: dict[int, Flops]) -> Flops:
    found = known.get(id(graph))
    if found is None:
        found = known[id(graph)] = _sum([flops_of_node(graph, node, known) for node in graph.nodes])
    return found


def _sum(parts: Sequence[Flops]) -> Flops:
    return Flops(
        sum([part.count for part in parts]),
        sum([part.transcendental for part in parts]),
        frozenset().union(*[part.uncounted for part in parts]),
    )
