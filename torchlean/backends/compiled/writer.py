"""The C text of a schedule: one function per different part, and the function that calls them in order.

Functions with equal bodies are written once. Operands are `x0, x1, …`, results `y0, …`, and every size and stride is a
constant, so that the compiler sees what there is to vectorise.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from torchlean.backends.compiled import complexes, halves
from torchlean.backends.compiled.arena import Arena
from torchlean.backends.compiled.calls import CALLS, Operand
from torchlean.backends.compiled.expressions import EXPRESSIONS, helpers
from torchlean.backends.compiled.folds import fold_body
from torchlean.backends.compiled.loops import Body, RareParts, loop_text
from torchlean.backends.compiled.schedule import Call, Copy, Fold, Loop, Part, Schedule
from torchlean.backends.compiled.stitch import Stitched, stitched
from torchlean.backends.compiled.text import C_TYPE, comment, literal
from torchlean.backends.compiled.toolchain import Toolchain
from torchlean.backends.compiled.views import View, whole
from torchlean.ir.graph import Node
from torchlean.ir.ops.create import FULL
from torchlean.ir.types import Shape
from torchlean.record import record

# GCC 12 vectorises a sequential sum that runs backwards along its inner axis, and adds the wrong entries. An empty
# `asm` keeps a loop from being vectorised; folds that have nothing to vectorise over carry one.
# Headers would be most of what is compiled for a small program: what is used of them is declared here.
HEAD = """#define IN_ORDER __asm__ volatile("")
#define FLT_MAX __FLT_MAX__
#define DBL_MAX __DBL_MAX__
#define INT64_MIN (-__INT64_MAX__ - 1)
#define memcpy __builtin_memcpy
typedef __INT8_TYPE__ int8_t;
typedef __INT16_TYPE__ int16_t;
typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;
typedef __UINT8_TYPE__ uint8_t;
typedef __UINT16_TYPE__ uint16_t;
typedef __UINT32_TYPE__ uint32_t;
typedef __UINT64_TYPE__ uint64_t;
"""
TEAM = """typedef void (*Task)(const void *frame, int64_t start, int64_t stop, char *scratch);
typedef struct Team {
    void (*each)(const struct Team *, Task, const void *, int64_t size, int64_t step, int64_t pieces, int64_t scratch,
                 char *own);
} Team;
typedef struct { char *const *in, *const *out; char *arena; } Frame;
"""
TASK = "(const void *given, int64_t start, int64_t stop, char *restrict scratch)"
UNPACKED = (
    "    const Frame *frame = given;",
    "    char *const *restrict in = frame->in, *const *restrict out = frame->out;",
    "    char *restrict arena = frame->arena;",
)
MOST_INLINED = 2  # calls of one function
PIECE = 200  # lines of a function that only calls others


@record(eq=False)
class Program:
    """`source`: what is compiled; `annotated`: the same with nodes, capsules and the user's lines as comments.

    `shared`: whether threads share parts of it out.
    """

    source: str
    annotated: str
    arena: int
    shared: bool


def write(schedule: Schedule, chain: Toolchain) -> Program:
    """The program of a schedule."""
    return _Writer(schedule, chain).program()


class _Writer:
    def __init__(self, schedule: Schedule, chain: Toolchain) -> None:
        self.schedule, self.chain = schedule, chain
        self.functions: dict[str, str] = {}  # parameters and body → name
        self.calls: dict[str, int] = {}  # name → from how many places
        self.texts: list[str] = []
        self.lines: list[str] = []
        self.runs = stitched(schedule)
        self.run: Stitched | None = None
        self.main: list[str] = []  # the lines around a run
        self.tasks = 0
        self.shared = False
        self.rare = RareParts()
        self.arena = Arena(schedule, self.runs)
        self.inputs = {value: position for position, value in enumerate(schedule.group.inputs)}
        self.capsule = dict(zip([id(node) for node in schedule.group.nodes], schedule.group.capsules, strict=True))

    def program(self) -> Program:
        starts, ends = {run.start: run for run in self.runs}, {run.end - 1 for run in self.runs}
        for at, part in enumerate(self.schedule.parts):
            if at in starts:
                self.run, self.main, self.lines = starts[at], self.lines, []
            indent = "    " if self.run is None else "        "
            self.lines += [f"{indent}{comment(line)}" for line in self._described(part)]
            if not self._is_empty(part):
                self.lines.append(f"{indent}{self._part(part)}")
            if at in ends and self.run is not None:
                task = self._run_of(self.run, self.lines)
                self.run, self.lines = None, self.main
                self.lines.append(f"    {task}")
        body = "\n".join([*[self._definition(text) for text in self.texts], "", *self._main(), ""])
        annotated = "\n".join([HEAD + TEAM if self.tasks else HEAD, *helpers(body), "", body])
        kept = [line for line in annotated.split("\n") if not line.lstrip().startswith("//")]
        return Program("\n".join(kept), annotated, self.arena.size, self.shared)

    def _definition(self, text: str) -> str:
        """A function that is called from many places is compiled once: inlining it would cost more than it gives."""
        name = text.removeprefix("static void ").partition("(")[0]
        return f"__attribute__((noinline)) {text}" if self.calls.get(name, 0) > MOST_INLINED else text

    def _main(self) -> list[str]:
        """The function that is called, in pieces where it is long: compilers are not linear in the size of one."""
        team = "Team" if self.tasks else "void"
        given = f"(char *const *restrict in, char *const *restrict out, char *restrict arena, const {team} *team)"
        entry = f"void torchlean_run{given} {{"
        frame = ["    const Frame frame = {in, out, arena};"] if self.tasks else []
        if len(self.lines) <= PIECE:
            return [entry, *frame, *self.lines, "}"]
        pieces: list[list[str]] = [[]]
        depth = 0
        for line in self.lines:
            if len(pieces[-1]) >= PIECE and not depth:
                pieces.append([])
            pieces[-1].append(line)
            depth += line.count("{") - line.count("}") if "//" not in line else 0
        lines: list[str] = []
        for number, piece in enumerate(pieces):
            lines += [f"static __attribute__((noinline)) void piece_{number}{given} {{", *frame, *piece, "}", ""]
        calls = [f"    piece_{number}(in, out, arena, team);" for number in range(len(pieces))]
        return [*lines, entry, *calls, "}"]

    def _run_of(self, run: Stitched, lines: list[str]) -> str:
        """The task of a run, and its call."""
        block = run.block
        if run.end == run.start + 1:
            head = ["    {", "        const int64_t r = start, rows = stop - start;"]
        else:
            head = [
                f"    for (int64_t r = start; r < stop; r += {block}) {{",
                f"        const int64_t rows = r + {block} < stop ? {block} : stop - r;",
            ]
        scratch = self.arena.scratch[run.start]
        return self._task([*head, *lines, "    }"], run.rows, block, 4, scratch, run.shared)

    def _task(self, lines: list[str], size: int, step: int, pieces: int, scratch: int, shared: bool) -> str:
        """A function that does the tasks [start, stop), and the call that does all or has threads share them out."""
        name = f"task_{self.tasks}"
        self.tasks += 1
        self.texts.append("\n".join([f"static void {name}{TASK} {{", *UNPACKED, *lines, "}", ""]))
        own = self.arena.workspace(scratch)
        if not shared:
            return f"{name}(&frame, 0, {size}, {own});"
        self.shared = True
        return f"team->each(team, {name}, &frame, {size}, {step}, {pieces}, {scratch}, {own});"

    def _is_empty(self, part: Part) -> bool:
        types = self.schedule.types
        return all([types[id].size == 0 for id in self.schedule.made_by(part)])

    # -- comments --------------------------------------------------------------------------------------------------
    def _described(self, part: Part) -> list[str]:
        if isinstance(part, Copy):
            return [f"%{part.target} = copy of a view" if part.target >= 0 else "a result that is a view"]
        nodes = part.nodes if isinstance(part, Loop) else [part.node]
        if isinstance(part, Fold):
            nodes = [*part.inlined, part.node]
        types = self.schedule.types
        return [
            f"{', '.join([f'%{id}' for id in node.outputs])} = {node.op.name} "
            f"{types[node.outputs[0]]}  {self.capsule[id(node)]}  {node.where}"
            for node in nodes
        ]

    # -- parts -----------------------------------------------------------------------------------------------------
    def _part(self, part: Part) -> str:
        if isinstance(part, Copy):
            return self._copy(part)
        if isinstance(part, Loop):
            return self._loop(part)
        if isinstance(part, Fold):
            return self._fold(part)
        return self._call(part)

    def _copy(self, part: Copy) -> str:
        body = self.body(part.source.shape)
        name = body.load(part.source)
        body.store(part.target, whole(part.target, part.source.shape), name)
        return self._emit("copy", body, loop_text(body))

    def _loop(self, part: Loop) -> str:
        body = self.body(part.shape)
        for node in part.nodes:
            self._compute(body, part, node)
        for node in part.nodes:
            out = node.outputs[0]
            if out in self.schedule.stored:
                body.store(out, whole(out, part.shape), body.names[out])
        return self._emit("loop", body, loop_text(body))

    def _fold(self, part: Fold) -> str:
        (source,) = part.node.inputs
        body = self.body(self.schedule.types[source].shape)
        for node in part.inlined:
            self._compute(body, part, node)
        term = self._operand(body, part, source)
        types = self.schedule.types
        made = fold_body(body, part.node, term, types[source], types, self.chain.lanes)
        for helper in made.helpers:
            self._shared(helper)
        return self._emit("fold", body, made.text)

    def _call(self, part: Call) -> str:
        node, types = part.node, self.schedule.types
        operands = [
            Operand(view, types[id].dtype, self._literal(view))
            for id, view in zip(node.inputs, part.views, strict=True)
        ]
        made = CALLS[node.op](node.params, operands, [types[id] for id in node.outputs], self.chain)
        body = self.body(())
        names: dict[str, str] = {}  # operands may share storage: the text names operands
        for position, operand in enumerate(operands):
            if operand.constant is None:
                names[f"x{position}"] = body.pointer(operand.view.root)
        for id in node.outputs:
            body.target(id)
        text = re.sub(r"\b(x\d+)\b", lambda found: names[found[0]], made.text)
        body.workspace = made.workspace > 0
        for helper in made.helpers:
            self._shared(helper)
        if made.tasks == 1:
            return self._emit(node.op.name, body, text, self.arena.workspace(made.workspace) if made.workspace else "")
        body.ranged = True
        line = self._emit(node.op.name, body, text, "scratch" if made.workspace else "")
        return self._task([f"    {line}"], made.tasks, 1, made.pieces, made.workspace, True)

    def _literal(self, view: View) -> str | None:
        maker = self.schedule.nodes.get(view.root)
        if maker is None or maker.op is not FULL:
            return None
        return literal(maker.params.dtype, maker.params.bits)

    def _shared(self, text: str) -> None:
        if text not in self.texts:
            self.texts.append(text)

    # -- bodies ----------------------------------------------------------------------------------------------------
    def body(self, shape: Shape) -> Body:
        made = Body(shape, self.schedule.types, self.schedule.nodes, self.rare)
        if self.run is not None:
            made.rows, made.axis = self.run.rows, self.run.axis
            if self.run.shared and self.run.end > self.run.start + 1:
                made.ahead, made.outside = self.run.block, self.schedule.in_memory() - self.run.local
        return made

    def view_of(self, id: int) -> View:
        return self.schedule.views[id]

    def _compute(self, body: Body, part: Loop | Fold, node: Node) -> None:
        out = node.outputs[0]
        types = self.schedule.types
        operands = tuple([self._operand(body, part, id) for id in node.inputs])
        given = tuple([types[id].dtype for id in node.inputs])
        made = types[out].dtype
        text = halves.special(node.op, node.params, given[0], made, operands)
        text = text or complexes.special(node.op, node.params, made, operands)
        if text is None:
            wide = tuple([halves.wide(each) for each in given])
            text = EXPRESSIONS[node.op](node.params, wide, halves.wide(made), operands)
        body.define(out, halves.rounded(made, text))

    def _operand(self, body: Body, part: Loop | Fold, id: int) -> str:
        view = self.view_of(id)
        if self.schedule.is_local(part, view):
            return body.names[view.root]
        return body.load(view)

    # -- functions -------------------------------------------------------------------------------------------------
    def _emit(self, kind: str, body: Body, text: str, workspace: str = "") -> str:
        """The call of the function with this body, which is written if there is none like it."""
        parameters = body.parameters()
        full = f"({', '.join(parameters)}) {{\n{text}\n}}"
        name = self.functions.get(full)
        if name is None:
            name = self.functions[full] = f"{kind}_{len(self.functions)}"
            self.texts.append(f"static void {name}{full}\n")
        self.calls[name] = self.calls.get(name, 0) + 1
        types = self.schedule.types
        passed = [
            f"(const {C_TYPE[types[root].dtype]} *){self._address(root)}{self._ahead(root, body.steps)}"
            for root in body.roots
        ]
        passed += [
            f"({C_TYPE[types[id].dtype]} *){self._address(id)}{self._ahead(id, body.steps)}" for id in body.targets
        ]
        if workspace:
            passed.append(workspace)
        if self.run is not None:
            passed.append("rows")
        if body.ranged:
            passed += ["start", "stop"]
        return f"{name}({', '.join(passed)});"

    def _ahead(self, root: int, steps: Mapping[int, int]) -> str:
        """How far the rows of the call lie from the first, in entries."""
        if self.run is None or root in self.run.local or not steps.get(root):
            return ""
        return f" + r * {steps[root]}"

    def _address(self, root: int) -> str:
        if root in self.schedule.placed:
            return f"out[{self.schedule.placed[root]}]"
        if root in self.inputs:
            return f"in[{self.inputs[root]}]"
        return self.arena.address(root)
