"""`debug.stats`: how many nodes of each op a graph has, and what they compute and move, from their types alone.

FLOPs of a node (y: its result, x: its first operand, |·|: number of entries). Composites count by their bodies, a scan
by its steps, cond by its dearest branch, a while loop by one step, which is then listed in `uncounted`.

    pointwise ops on floats        |y|              one per entry, whatever the function
    integer_pow                    |y| · products   by repeated squaring, one more for a negative exponent
    reduce_sum, _prod, _max, _min  |x| - |y|
    cumsum, cumprod, cummax, …     |x|
    recurrence                     2·|y|
    dot_general                    2·|y|·k          k: the contracted entries
    conv and its adjoints          2·|out|·|w| / o  out: the output (or its cotangent); w: the kernel, of o outputs
    scatter_add, _mul, _max, _min  |updates|
    fft (rfft, irfft: half)        5·|x|·log₂ n     n: the transformed entries [Cooley and Tukey's split, as usual]
    cholesky, lu, triangular_solve n³/3, 2n³/3, n²·|right columns|, per matrix [Golub and Van Loan]
    moves, integers, booleans      0

An op without a formula counts 0 and is listed in `uncounted`. Bytes are the sizes of all operands and results of
primitives: what would move if nothing were fused or kept. Complex arithmetic counts as if it were real.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import prod
from types import MappingProxyType

from torchlean.ir.graph import Graph, Node, sub_graphs
from torchlean.ir.op import EffectOp
from torchlean.ir.rules import Pointwise
from torchlean.ir.types import TensorType

MOVES = frozenset(
    (
        *("broadcast", "concatenate", "constant", "convert", "full", "gather", "iota", "pad", "reshape", "reverse"),
        *("select", "slice", "stop_gradient", "transpose", "argmax", "argmin", "random_bits", "checkpoint_name"),
        *("scatter", "dynamic_slice", "dynamic_update_slice", "bitcast_convert", "real", "imag", "complex", "conj"),
    )
)
MATRICES = frozenset({"triangular_solve", "cholesky", "lu", "qr", "eigh", "svd", "det", "solve", "eig"})

_WINDOWS = MappingProxyType(  # which of (x, y, result) is the output and which the kernel
    {"conv": (2, 1), "conv_input_adjoint": (0, 1), "conv_kernel_adjoint": (1, 2)}
)


@dataclass(frozen=True, slots=True)
class Statistics:
    """`ops`: nodes by op, composites as one. `flops` and `moved_bytes`: see the module. The rest are sizes in bytes."""

    nodes: int
    ops: tuple[tuple[str, int], ...]
    flops: int
    flops_by_op: tuple[tuple[str, int], ...]
    moved_bytes: int
    input_bytes: int
    output_bytes: int
    constant_bytes: int
    uncounted: tuple[str, ...]

    def __str__(self) -> str:
        counts = ", ".join([f"{name} ×{count}" for name, count in self.ops])
        shares = ", ".join([f"{name} {count:,}" for name, count in self.flops_by_op[:6]])
        lines = [
            f"{self.nodes} nodes: {counts or 'none'}",
            f"flops: {self.flops:,}" + (f" ({shares})" if shares else ""),
            f"bytes: {self.moved_bytes:,} moved, {self.input_bytes:,} in, {self.output_bytes:,} out, "
            f"{self.constant_bytes:,} in constants",
        ]
        if self.uncounted:
            lines.append(f"no formula for: {', '.join(self.uncounted)}")
        return "\n".join(lines)

    __repr__ = __str__


def stats(graph: Graph) -> Statistics:
    """Counts of a graph; see the module for the formulas."""
    ops = Counter([node.op.name for node in graph.nodes])
    total = _count(graph)
    return Statistics(
        nodes=len(graph.nodes),
        ops=tuple(ops.most_common()),
        flops=sum(total.flops.values()),
        flops_by_op=tuple(total.flops.most_common()),
        moved_bytes=total.moved,
        input_bytes=sum([type.nbytes for type in graph.input_types]),
        output_bytes=sum([type.nbytes for type in graph.output_types]),
        constant_bytes=total.constants,
        uncounted=tuple(sorted(total.uncounted)),
    )


@dataclass(slots=True)
class _Total:
    flops: Counter[str]
    uncounted: set[str]
    moved: int = 0
    constants: int = 0

    def add(self, other: _Total, times: int) -> None:
        for name, count in other.flops.items():
            self.flops[name] += times * count
        self.moved += times * other.moved
        self.constants += other.constants
        self.uncounted |= other.uncounted


def _count(graph: Graph) -> _Total:
    """The totals of a graph, those of the graphs its nodes hold included."""
    total = _Total(Counter(), set())
    for node in graph.nodes:
        held = [_count(body) for _, body in sub_graphs(node.params)]
        if held:
            if node.op.name == "cond":
                held = [max(held, key=lambda each: sum(each.flops.values()))]
            if node.op.name == "while":
                total.uncounted.add("while (one step is counted)")
            for each in held:
                total.add(each, getattr(node.params, "length", 1))
            continue
        ins = [graph.types[id] for id in node.inputs]
        outs = [graph.types[id] for id in node.outputs]
        total.moved += sum([type.nbytes for type in (*ins, *outs)])
        if node.op.name == "constant":
            total.constants += outs[0].nbytes
        count = flops_of(node, ins, outs[0])
        if count is None:
            total.uncounted.add(node.op.name)
        elif count:
            total.flops[node.op.name] += count
    return total


def flops_of(node: Node, operands: list[TensorType], result: TensorType) -> int | None:
    """Floating-point operations of a primitive's node; None where there is no formula."""
    op, params = node.op, node.params
    if op.name in MOVES or op.__class__ is EffectOp:
        return 0
    if not operands or operands[0].dtype.is_bool or operands[0].dtype.is_integer:
        return 0
    x = operands[0]
    if op.name == "integer_pow":
        exponent = abs(params.exponent)
        products = max(0, exponent.bit_length() - 1) + max(0, exponent.bit_count() - 1)
        return result.size * (products + (params.exponent < 0))
    if op.name in ("reduce_sum", "reduce_prod", "reduce_max", "reduce_min"):
        return max(0, x.size - result.size)
    if op.name in ("cumsum", "cumprod", "cummax", "cummin"):
        return x.size
    if op.name == "recurrence":
        return 2 * result.size
    if op.name == "dot_general":
        return 2 * result.size * prod([x.shape[axis] for axis in params.lhs_contract])
    if op.name in ("scatter_add", "scatter_mul", "scatter_max", "scatter_min"):
        return operands[2].size
    if op.name in MATRICES:
        return _matrix_flops(op.name, operands)
    if isinstance(op.batch, Pointwise):
        return result.size
    if op.name in _WINDOWS:
        out, kernel = _WINDOWS[op.name]
        parts = (*operands, result)
        return 2 * parts[out].size * parts[kernel].size // max(1, parts[kernel].shape[0])
    return None


def _matrix_flops(name: str, operands: list[TensorType]) -> int | None:
    """Of a factorisation of square matrices, or of a solution with a triangle."""
    x = operands[0]
    n = x.shape[-1]
    matrices = x.size // (n * n) if n else 0
    if name == "cholesky":
        return matrices * n**3 // 3
    if name == "lu" and x.shape[-2] == n:
        return matrices * 2 * n**3 // 3
    if name == "triangular_solve":
        return n * operands[1].size
    return None
