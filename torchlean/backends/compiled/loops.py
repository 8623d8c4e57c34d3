"""Loop nests: what a body loads, computes and stores for each entry, and the loops around it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import prod

from torchlean.backends.compiled.halves import loaded, local_literal, local_type, stored
from torchlean.backends.compiled.text import C_TYPE
from torchlean.backends.compiled.views import View, collapsed
from torchlean.backends.strides import Strides
from torchlean.ir.graph import Node
from torchlean.ir.ops.create import FULL, IOTA
from torchlean.ir.strict.functions import FUNCTIONS, emit_c
from torchlean.ir.types import Shape, TensorType
from torchlean.record import record

PREFETCHED = 64  # entries of a row from which on the next one is asked for


@record
class Access:
    """Entries by index: `{index}` in `form` stands for `offset + Σ position · stride`."""

    form: str
    offset: int
    strides: Strides

    def text(self, strides: Strides, variables: Sequence[str]) -> str:
        """The C expression, with strides and variables of a collapsed iteration."""
        return self.form.format(index=index_text(self.offset, strides, variables))


def index_text(offset: int, strides: Strides, variables: Sequence[str]) -> str:
    terms = [
        name if step == 1 else f"{name} * {step}" if step >= 0 else f"{name} * ({step})"
        for name, step in zip(variables, strides, strict=True)
        if step
    ]
    if offset or not terms:
        terms.append(str(offset))
    return " + ".join(terms)


@record
class Statement:
    """`declaration = …;` where what follows is text, or an access."""

    declaration: str
    text: str
    access: Access | None


class Body:
    """The statements of one iteration over `shape`, and the pointers they use."""

    def __init__(
        self, shape: Shape, types: Mapping[int, TensorType], nodes: Mapping[int, Node], rare: RareParts
    ) -> None:
        self.shape = shape
        self.rare = rare
        self.types, self.nodes = types, nodes
        self.roots: list[int] = []
        self.targets: list[int] = []
        self.names: dict[int, str] = {}
        self.loads: dict[View, str] = {}
        self.statements: list[Statement] = []
        self.stores: list[tuple[str, Access]] = []
        self.workspace = False
        self.ranged = False  # whether a call does some of its tasks only
        self.steps: dict[int, int] = {}  # from one row of a pointer's storage to the next
        self.rows = 0  # of one axis, where a call goes over some of them only
        self.ahead = 0  # rows from here to those that are read next, of what lies outside the cache
        self.outside: frozenset[int] = frozenset()  # the roots that do
        self.axis = 0  # which: of a loop the first, of a fold the first kept, those of one entry apart

    def bound(self, sizes: Shape, axis: int) -> str:
        """The size of an axis of a collapsed iteration, or as many of it as the rows of the call make."""
        if self.rows and axis == 0:
            return "rows" if sizes[0] == self.rows else f"rows * {sizes[0] // self.rows}"
        return str(sizes[axis])

    # -- pointers --------------------------------------------------------------------------------------------------
    def pointer(self, root: int) -> str:
        if root not in self.roots:
            self.roots.append(root)
        return f"x{self.roots.index(root)}"

    def target(self, id: int) -> str:
        if id not in self.targets:
            self.targets.append(id)
        return f"y{self.targets.index(id)}"

    def parameters(self) -> list[str]:
        made = [
            f"const {C_TYPE[self.types[root].dtype]} *restrict x{position}" for position, root in enumerate(self.roots)
        ]
        made += [f"{C_TYPE[self.types[id].dtype]} *restrict y{position}" for position, id in enumerate(self.targets)]
        made += ["char *restrict workspace"] if self.workspace else []
        made += ["int64_t start", "int64_t stop"] if self.ranged else []
        return [*made, "int64_t rows"] if self.rows else made

    # -- statements ------------------------------------------------------------------------------------------------
    def load(self, view: View) -> str:
        """The name of an operand's entry, or its literal."""
        node = self.nodes.get(view.root)
        type = self.types[view.root]
        if node is not None and node.op is FULL:
            return local_literal(type.dtype, node.params.bits)
        known = self.loads.get(view)
        if known is None:
            known = self.loads[view] = f"a{len(self.loads)}"
            strides = self._strides(view)
            if view.squeezed()[1]:
                self.steps[view.root] = view.squeezed()[1][self.axis]
            if node is not None and node.op is IOTA:
                access = Access(counter_form(node), view.offset, strides)
            else:
                entry = loaded(type.dtype, f"{self.pointer(view.root)}[{{index}}]")
                access = Access(entry, view.offset, strides)
            self.statements.append(Statement(f"const {local_type(type.dtype)} {known}", "", access))
        return known

    def _strides(self, view: View) -> Strides:
        return view.strides if view.shape == self.shape else view.squeezed()[1]

    def define(self, id: int, text: str) -> None:
        name = self.names[id] = f"t{len(self.names)}"
        self.statements.append(Statement(f"const {local_type(self.types[id].dtype)} {name}", text, None))

    def store(self, id: int, view: View, name: str) -> None:
        if view.squeezed()[1]:
            self.steps[id] = view.squeezed()[1][0]
        name = stored(self.types[id].dtype, name)
        self.stores.append((name, Access(f"{self.target(id)}[{{index}}]", view.offset, self._strides(view))))

    def accesses(self) -> list[Access]:
        return [each.access for each in self.statements if each.access] + [access for _, access in self.stores]

    def lines(self, strides: Mapping[int, Strides], variables: Sequence[str]) -> list[str]:
        """The statements; `strides` are those of the accesses, by identity, in the collapsed iteration."""
        made: list[str] = []
        for each in self.statements:
            text = each.text if each.access is None else each.access.text(strides[id(each.access)], variables)
            made.append(f"{each.declaration} = {text};")
        made += [f"{access.text(strides[id(access)], variables)} = {name};" for name, access in self.stores]
        return made


def counter_form(node: Node) -> str:
    """A counter's entry from its row-major position: what is left of it on its axis."""
    shape, axis = node.params.shape, node.params.axis
    inner, size = prod(shape[axis + 1 :]), shape[axis]
    text = "({index})" if inner == 1 else f"(({{index}}) / {inner})"
    if prod(shape[:axis]) != 1:
        text = f"({text} % {size})"
    return f"({C_TYPE[node.params.dtype]}){text}"


def loop_text(body: Body) -> str:
    """The loops over a body's shape, neighbouring axes joined where every access steps evenly over both."""
    accesses = body.accesses()
    sizes, steps = collapsed(body.shape, [access.strides for access in accesses])
    strides = {id(access): each for access, each in zip(accesses, steps, strict=True)}
    variables = [f"i{axis}" for axis in range(len(sizes))]
    if sizes and any([body.rare.call(each.text) for each in body.statements]):
        return _guarded(body, sizes, strides, variables)
    lines, indent = [], "    "
    for axis, name in enumerate(variables):
        if axis == 1 and axis == len(sizes) - 1:
            lines += [indent + line for line in _prefetched(body, sizes, strides)]
        lines.append(f"{indent}for (int64_t {name} = 0; {name} < {body.bound(sizes, axis)}; {name}++) {{")
        indent += "    "
    lines += [indent + line for line in body.lines(strides, variables)]
    for _ in sizes:
        indent = indent[4:]
        lines.append(f"{indent}}}")
    return "\n".join(lines)


def _prefetched(body: Body, sizes: Shape, strides: Mapping[int, Strides]) -> list[str]:
    """Ask for what comes next while there is work to do: the row of the next block of operands that are in memory, the
    next row of results.
    """
    if not body.ahead or sizes[1] < PREFETCHED:
        return []
    lines: list[str] = []
    for access, further, write in [
        *[(each.access, body.ahead, 0) for each in body.statements if each.access],
        *[(access, 1, 1) for _, access in body.stores],
    ]:
        name, _, rest = access.form.partition("[")
        known = body.targets if write else body.roots
        along = strides[id(access)]
        if rest != "{index}]" or known[int(name[1:])] not in body.outside or along[1] != 1 or along[0] == 0:
            continue
        size = body.types[known[int(name[1:])]].dtype.carrier.itemsize
        at = access.text(along, [f"(i0 + {further})", "c"])
        lines.append(f"for (int64_t c = 0; c < {sizes[1]}; c += {64 // size}) __builtin_prefetch(&{at}, {write}, 2);")
    return lines


# -- functions with rare parts -----------------------------------------------------------------------------------------
_CALL = re.compile(r"(tl_(\w+)_(f32|f64))\((.*)\)")
BLOCK = 512  # entries of which none may be rare for the short way to do


class RareParts:
    """Which strict functions have rare parts; each is looked at once."""

    def __init__(self) -> None:
        self._known: dict[str, bool] = {}

    def call(self, text: str) -> tuple[str, str] | None:
        """The function that a statement calls, and its arguments, if it is one with rare parts."""
        found = _CALL.fullmatch(text)
        if found is None or found[2] not in FUNCTIONS:
            return None
        name = found[1]
        if name not in self._known:
            self._known[name] = f"{name}_is_rare" in emit_c(found[2], found[3])
        return (name, found[4]) if self._known[name] else None


def _guarded(body: Body, sizes: Shape, strides: Mapping[int, Strides], variables: Sequence[str]) -> str:
    """Loops that take the short way through functions with rare parts, block by block, and note whether that was
    wrong; such a block is computed again in full.
    """
    last, size = variables[-1], body.bound(sizes, len(sizes) - 1)
    full = body.lines(strides, variables)
    short: list[str] = []
    for line, each in zip(full, [*body.statements, *[None] * len(body.stores)], strict=True):
        call = None if each is None else body.rare.call(each.text)
        if call is None:
            short.append(line)
        else:
            name, arguments = call
            short.append(f"rare |= {name}_is_rare({arguments});")
            short.append(line.replace(f"{name}(", f"{name}_common("))
    each = f"for (int64_t {last} = start; {last} < end; {last}++) {{"
    inner = [
        f"const int64_t end = start + {BLOCK} < {size} ? start + {BLOCK} : {size};",
        "int rare = 0;",
        each,
        *[f"    {line}" for line in short],
        "}",
        f"if (rare) {each}",
        *[f"    {line}" for line in full],
        "}",
    ]
    lines, indent = [], "    "
    for axis, name in enumerate(variables[:-1]):
        lines.append(f"{indent}for (int64_t {name} = 0; {name} < {body.bound(sizes, axis)}; {name}++) {{")
        indent += "    "
    lines.append(f"{indent}for (int64_t start = 0; start < {size}; start += {BLOCK}) {{")
    lines += [f"{indent}    {line}" for line in inner]
    lines.append(f"{indent}}}")
    for _ in sizes[:-1]:
        indent = indent[4:]
        lines.append(f"{indent}}}")
    return "\n".join(lines)
