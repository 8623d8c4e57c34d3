"""`function.vjp`: a function and its pullback as one node, for a backend that differentiates functions itself.

It is emitted where a program is lowered for such a backend (transforms/pulling.py). Its meaning is its body, which is
our own backward graph, with IEEE products; a capsule gives the same results from `primal` by derivative rules of its
own, and the planner expands the body where no capsule does. In `primal`, a part whose derivative is not the backend's
stands as a `taped` node, which carries its pullback as a graph.
"""

from __future__ import annotations

from typing import Any

from torchlean.errors import GradError, InternalError, message
from torchlean.ir.builder import answerer, bind
from torchlean.ir.evaluate import denote
from torchlean.ir.graph import Graph
from torchlean.ir.location import caller_location
from torchlean.ir.op import Op, TypeFault
from torchlean.ir.ops.composite import Composite
from torchlean.ir.rules import HigherOrder, HigherOrderBatch, NoTangent
from torchlean.ir.types import TensorType, show_types
from torchlean.record import record


@record
class Owner:
    """Who differentiates what a trace asks the gradient of: the backend, of these ops. `alone`: it must do all."""

    ops: frozenset[Op]
    alone: bool


@record
class Level:
    """What was done to a pullback: mapped over `size` entries, or pushed forward (`size` is None). `flags`: which
    operands are mapped, or have a tangent; `made`: which results have one.
    """

    size: int | None
    flags: tuple[bool, ...]
    made: tuple[bool, ...] = ()


@record(compared=("attributes", "primal", "body", "levels"))
class Pulled:
    """`primal`: the function as the backend differentiates it; `body`: the operands and a cotangent for each result at
    `seeded` ↦ the results and the cotangents of the operands at `wrt`; `levels`: what was done to that since.
    """

    attributes: tuple[tuple[str, Any], ...]
    primal: Graph
    body: Graph
    wrt: tuple[int, ...]
    seeded: tuple[int, ...]
    levels: tuple[Level, ...]
    taped: tuple[str, ...]

    @property
    def note(self) -> str:
        """What a plan says of it."""
        parts = ", ".join(self.taped)
        return "0·∞ is NaN in it" + (f"; by torchlean-tape in it: {parts}" if parts else "")


@record
class Taped:
    """`body`: the part; `pulled`: its operands and a cotangent for each result at `seeded` ↦ the cotangents of the
    operands at `wrt`.
    """

    body: Graph
    pulled: Graph
    wrt: tuple[int, ...]
    seeded: tuple[int, ...]


def _type_rule(params: Any, *types: TensorType) -> tuple[TensorType, ...]:
    if types != params.body.input_types:
        raise TypeFault(
            "operands do not fit the function",
            expected=show_types(params.body.input_types),
            got=show_types(types),
            fix="take the gradient again",
        )
    return params.body.output_types


def _denote(algebra: Any, params: Any, *arrays: Any) -> tuple[Any, ...]:
    return denote(params.body, arrays, algebra)


def _again(params: Pulled, body: Graph, level: Level) -> Pulled:
    return Pulled(
        params.attributes, params.primal, body, params.wrt, params.seeded, (*params.levels, level), params.taped
    )


def _jvp(recurse: Any, params: Pulled, primals: Any, tangents: Any, outputs: Any) -> list[Any]:
    if params.taped:
        raise GradError(
            message(
                f"forward-mode derivative of the gradient of {params.primal.name}, which the backend differentiates",
                expected="a function of whose parts the backend has every derivative",
                got=f"by torchlean-tape in it: {', '.join(params.taped)}",
                fix="differentiate in reverse twice (jacrev of jacrev), or lower it for torchlean-tape",
                where=str(caller_location()),
            )
        )
    flags = tuple([tangent is not None for tangent in tangents])
    body, made = recurse(params.body, flags)
    present = [tangent for tangent in tangents if tangent is not None]
    results = bind(FUNCTION_VJP, _again(params, body, Level(None, flags, tuple(made))), *primals, *present)
    moved = list(results[len(outputs) :])
    return [moved.pop(0) if is_made else None for is_made in made]


def _vjp(recurse: Any, op: Op, params: Pulled, primals: Any, cotangents: Any, wrt: tuple[int, ...]) -> list[Any]:
    made = answerer().evaluate(recurse(params.body, wrt), (*primals, *cotangents))
    found = dict(zip(wrt, made, strict=True))
    return [found.get(position) for position in range(len(primals))]


def _batch(recurse: Any, params: Pulled, size: int, operands: Any, mapped: Any) -> tuple[Any, ...]:
    flags = tuple([bool(flag) for flag in mapped])
    body = recurse(params.body, size, flags)
    return bind(FUNCTION_VJP, _again(params, body, Level(size, flags)), *operands)


def _batch_of_part(recurse: Any, params: Taped, size: int, operands: Any, mapped: Any) -> tuple[Any, ...]:
    return answerer().evaluate(recurse(params.body, size, tuple(mapped)), tuple(operands))


def _no_function(*operands: Any, **attributes: Any) -> Any:
    raise InternalError("a pullback has no function of its own")


FUNCTION_VJP = Composite(
    name="function.vjp",
    params=Pulled,
    type_rule=_type_rule,
    denote=_denote,
    diff=HigherOrder(jvp=_jvp, vjp=_vjp),
    batch=HigherOrderBatch(_batch),
    reduces=True,
    doc="The results of a function and cotangents of its operands, from those and cotangents of the results.",
    function=_no_function,
    gradient=None,
)

TAPED = Composite(
    name="taped",
    params=Taped,
    type_rule=_type_rule,
    denote=_denote,
    diff=NoTangent("it stands in the text of a function for a backend, which reads its pullback there"),
    batch=HigherOrderBatch(_batch_of_part),
    reduces=True,
    doc="A part of a function with its pullback as a graph.",
    function=_no_function,
    gradient=None,
)
