"""How code plugs in: a handler specialises itself once for a node and returns a kernel.

Unlike the first design: a kernel for a node with one output returns the array itself (a tuple for several), and
a kernel may be an `Expression`, Python text over operand placeholders that the code generator pastes into its line, so
that a transposed matrix product costs no wrapper. `Implementation` is the maintained providers' ready-made handler.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Protocol

from torchlean.backends.capsule import Capsule
from torchlean.backends.vocabulary import Device
from torchlean.errors import BindError, InternalError, LimitExceeded, message
from torchlean.ir.graph import Node
from torchlean.ir.location import NOWHERE, caller_location
from torchlean.ir.op import Op, TypeFault
from torchlean.ir.types import TensorType, show_types

Types = Sequence[TensorType]  # indexed by value id
MAX_BYTES = 2**40  # of one value; NumPy itself says when a smaller one does not fit this machine


@dataclass(frozen=True, slots=True)
class Expression:
    """Python text for one node: `Expression("dot({0}, {1}.T)", {"dot": np.dot})`.

    `{i}` stands for operand i, a name or another primary expression; `names` says what each free name means.
    """

    template: str
    names: Mapping[str, Any]

    def text(self, operands: Sequence[str], rename: Callable[[Any], str]) -> str:
        """The expression with operands filled in and every free name replaced by `rename(its meaning)`."""
        renamed = re.sub(
            r"(?<![\w.{])[A-Za-z_]\w*",
            lambda found: rename(self.names[found[0]]) if found[0] in self.names else found[0],
            self.template,
        )
        return renamed.format(*operands)

    def function(self, arity: int) -> Callable[..., Any]:
        """The expression as a function of its operands."""
        meanings: dict[str, Any] = {"__builtins__": {}}

        def rename(meaning: Any) -> str:
            name = f"k{len(meanings)}"
            meanings[name] = meaning
            return name

        names = [f"v{position}" for position in range(arity)]
        tree = ast.parse(f"lambda {', '.join(names)}: {self.text(names, rename)}", mode="eval")
        made: Callable[..., Any] = eval(compile(tree, "<torchlean kernel>", "eval"), meanings)
        return made


Kernel = Callable[..., Any] | Expression
Workspace = Callable[[Any, tuple[TensorType, ...]], int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """What the code generator may assume of a handler's kernels.

    `view`: a result may share memory with an operand. `accepts_unspread`: operands may come before broadcasting, as
    long as they broadcast to the result's shape by NumPy's rules. `inplace`: the kernel is a NumPy ufunc whose last
    argument may name an array to write, which may be one of its operands.
    """

    view: bool
    accepts_unspread: bool
    inplace: bool


CAUTIOUS = Traits(view=True, accepts_unspread=False, inplace=False)
FRESH = Traits(view=False, accepts_unspread=False, inplace=False)
VIEW = Traits(view=True, accepts_unspread=False, inplace=False)
SPREADING = Traits(view=False, accepts_unspread=True, inplace=False)
UFUNC = Traits(view=False, accepts_unspread=True, inplace=True)


class Session(Protocol):
    """What a device handler may ask for while it binds; the CPU providers ask for nothing."""

    def load(self, program: str, types: Sequence[TensorType]) -> Any:
        """A compiled program for operands of these types, from the session's cache."""
        ...


class Handler(Protocol):
    """Code for one op on one device. Its identity must agree with the capsule that names it."""

    @property
    def op(self) -> Op: ...
    @property
    def provider(self) -> str: ...
    @property
    def device(self) -> Device: ...
    @property
    def traits(self) -> Traits: ...
    def bind(self, node: Node, types: Types, session: Session | None) -> Kernel:
        """Specialise for the node; `types` is indexed by value id. Equal nodes may share one kernel."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Implementation:
    """A handler made of a function: `make(params, operand types) -> Kernel`.

    `workspace(params, operand types)` is the most bytes a kernel holds beside operands and results, None where that
    is not known; without the field nothing is.

    Binding is where the shape guard acts: the node's operand and result types are derived again from the op's own type
    rule, and anything else is a BindError, so a kernel only ever sees the types it was made for.
    """

    op: Op
    provider: str
    device: Device
    traits: Traits
    make: Callable[[Any, tuple[TensorType, ...]], Kernel]
    workspace: Workspace | None = None

    def bind(self, node: Node, types: Types, session: Session | None) -> Kernel:
        operands = tuple([types[id] for id in node.inputs])
        guard_types(self.op, node, operands, tuple([types[id] for id in node.outputs]))
        return self.make(node.params, operands)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Nodes of one plan that become one kernel, operands first. `types` is indexed by value id.

    `capsules` names the capsule of each node; `inputs` and `outputs` are the values that cross the border.
    """

    nodes: tuple[Node, ...]
    capsules: tuple[str, ...]
    types: Types
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


class Fused(Protocol):
    """What a group was made into. `source` is what a reader sees; `workspace`: bytes held beside the results while it
    runs; `keeps`: whether these stay allocated from one call to the next.
    """

    @property
    def source(self) -> str: ...
    @property
    def workspace(self) -> int: ...
    @property
    def keeps(self) -> bool: ...
    def kernel(self, *, packs: bool) -> Callable[..., Any]:
        """The callable: an array for one result, unless `packs` asks for a tuple always."""
        ...


class Grouper(Protocol):
    """A handler's `grouper`, if it has one, makes one kernel of neighbouring nodes whose handlers have the same one."""

    def fuse(self, group: Group) -> Fused: ...


def grouper_of(capsule: Capsule) -> Grouper | None:
    """The grouper of a capsule's handler, or None: its nodes run one by one."""
    return getattr(capsule.handler, "grouper", None)


def runs_bodies(capsule: Capsule) -> bool:
    """Whether a capsule's kernels run the sub-graphs of their nodes themselves. The steps planned inside must then have
    the capsule's own grouper, since no other kernel is called.
    """
    return bool(getattr(capsule.handler, "runs_bodies", False))


def guard_types(op: Op, node: Node, operands: tuple[TensorType, ...], declared: tuple[TensorType, ...]) -> None:
    """Refuse a node of another op, or one whose declared result types are not what the op's type rule gives."""
    if node.op is not op:
        raise BindError(message("handler implements another op", expected=node.op.name, got=op.name))
    try:
        made = op.type_rule(node.params, *operands)
    except TypeFault as fault:
        raise BindError(
            message(f"{op.name} of {show_types(operands)} cannot be bound: {fault.what}", where=str(node.where))
        ) from None
    except Exception as fault:  # a rule given another number of operands, say
        said = f"{fault.__class__.__name__}: {fault}"
        raise BindError(
            message(f"{op.name} of {show_types(operands)} cannot be bound: {said}", where=str(node.where))
        ) from None
    if made != declared:
        raise BindError(
            message(
                f"{op.name} of {show_types(operands)} is declared with other result types",
                expected=show_types(made),
                got=show_types(declared),
                where=str(node.where),
            )
        )
    for type in made:
        if type.nbytes > MAX_BYTES or not _has_strides(type):
            raise too_large(op, node, type)


def _has_strides(type: TensorType) -> bool:
    """Whether NumPy can index the axes: what an array without entries would hold, were its empty axes 1, counts too."""
    return prod([max(size, 1) for size in type.shape]) * type.dtype.carrier.itemsize < 2**63


def too_large(op: Op, node: Node, type: TensorType) -> LimitExceeded:
    """The refusal of a value beyond `MAX_BYTES`, before anything is allocated. Views count as if they were dense."""
    beyond = type.nbytes > MAX_BYTES
    return LimitExceeded(
        message(
            f"{op.name} would make {type}: {type.size} entries, {type.nbytes} bytes",
            expected=f"at most {MAX_BYTES} bytes (1 TiB) in one value" if beyond else "axes NumPy can index",
            got=f"{type.nbytes} bytes" if beyond else "a stride of 2**63 bytes or more",
            fix="check the shape; tracing and eval_shape give its exact type without making it",
            where=str(caller_location() if node.where is NOWHERE else node.where),
        )
    )


def guard_capsule(capsule: Capsule, node: Node, types: Types) -> None:
    """What binding checks, for nodes that a group takes in without a kernel of their own. Raises BindError."""
    handler = _agreeing(capsule, node)
    operands = tuple([types[id] for id in node.inputs])
    guard_types(handler.op, node, operands, tuple([types[id] for id in node.outputs]))
    _serving(capsule, node, operands)


def bind_capsule(capsule: Capsule, node: Node, types: Types, session: Session | None) -> Kernel:
    """The kernel of a capsule for a node.

    BindError when capsule and handler differ in op, provider or device, or when the capsule refuses the operand types.
    """
    handler = _agreeing(capsule, node)
    try:
        _serving(capsule, node, tuple([types[id] for id in node.inputs]))
    except BindError:
        raise
    except Exception:
        handler.bind(node, types, session)  # its guard knows best what is wrong with operands that are not the op's
        raise
    return handler.bind(node, types, session)


def _agreeing(capsule: Capsule, node: Node) -> Handler:
    """The capsule's handler, which must be for the same op, provider and device, and for the node's op."""
    handler: Handler | None = capsule.handler
    if handler is None:
        raise BindError(message(f"{capsule.name} has no forward implementation for {capsule.op.name}"))
    for verb, mine, theirs in (
        ("implements", handler.op, capsule.op),
        ("uses provider", handler.provider, capsule.provider),
        ("targets", handler.device, capsule.device),
    ):
        if mine is not theirs and mine != theirs:
            got, expected = (which.name if isinstance(which, Op) else which for which in (mine, theirs))
            raise BindError(
                message(
                    f"handler {verb} `{got}`, but capsule {capsule.name} {verb} `{expected}`",
                    expected=f"a handler with the op, provider and device of {capsule.name}",
                    got=f"{handler.op.name}, {handler.provider}, {handler.device}",
                    fix="give the capsule the handler made for it",
                )
            )
    if node.op is not capsule.op:
        raise BindError(message(f"capsule {capsule.name} implements `{capsule.op.name}`, not `{node.op.name}`"))
    return handler


def _serving(capsule: Capsule, node: Node, operands: tuple[TensorType, ...]) -> None:
    """BindError where the capsule refuses the node; whatever `refuses` raises for operands that are not the op's."""
    reason = capsule.refuses(node.params, operands)
    if reason is not None:
        raise BindError(
            message(f"{capsule.name} refuses {node.op.name} of {show_types(operands)}: {reason}", where=str(node.where))
        )


def bind_kernel(capsule: Capsule, node: Node, types: Types, session: Session | None = None) -> Callable[..., Any]:
    """The kernel as a plain function of NumPy arrays, for callers that run one node at a time.

    Results of views share memory with their operands, and a result of rank 0 may be a NumPy scalar.
    """
    kernel = bind_capsule(capsule, node, types, session)
    return kernel.function(len(node.inputs)) if isinstance(kernel, Expression) else kernel


def wrong_result(maker: str, type: TensorType, result: Any) -> InternalError:
    """The error that names the capsule whose result has another type than its kernel was bound for."""
    return InternalError(
        message(
            f"{maker} returned another type than it was bound for",
            expected=type,
            got=f"{result.dtype}{list(result.shape)}",
            fix=f"correct the kernel; `torchlean evidence run --capsule {maker}` tries it",
        )
    )
