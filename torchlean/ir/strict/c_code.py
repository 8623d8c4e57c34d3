"""A straight-line program as C: `static inline float tl_exp_f32(float x)`, without a branch, a call or a loop.

Compile with `-ffp-contract=off`: a fused multiply-add would be another function. Loops over the function vectorise;
`-fno-trapping-math -fno-math-errno` change no result here and let compilers do so.

A function with rare parts comes as three: `tl_sin_f32`, complete; `tl_sin_f32_common`, right where nothing rare is
needed; `tl_sin_f32_is_rare`, which says where it is. A loop over a block may ask the last and choose one of the others.
"""

from __future__ import annotations

import math
from types import MappingProxyType

from torchlean.ir.strict.words import Program, Step, rare_condition, without_rare

_TYPE = MappingProxyType({"f32": "float", "f64": "double", "i32": "int32_t", "i64": "int64_t", "mask": "int"})
_SIGN = MappingProxyType(
    {
        "add": "+",
        "sub": "-",
        "mul": "*",
        "div": "/",
        "and": "&",
        "or": "|",
        "xor": "^",
        "lt": "<",
        "le": "<=",
        "eq": "==",
    }
)

PRELUDE = """\
#include <stdint.h>
#include <string.h>
#ifndef TL_WORDS
#define TL_WORDS
static inline int32_t tl_bits_f32(float x) { int32_t n; memcpy(&n, &x, 4); return n; }
static inline int64_t tl_bits_f64(double x) { int64_t n; memcpy(&n, &x, 8); return n; }
static inline float tl_float_i32(int32_t n) { float x; memcpy(&x, &n, 4); return x; }
static inline double tl_float_i64(int64_t n) { double x; memcpy(&x, &n, 8); return x; }
#endif
"""


def function(name: str, program: Program) -> str:
    """The C text of a program: its tables, and one function or three."""
    tables = "".join(
        f"static const int64_t {name}_table{number}[{len(table)}] = {{{', '.join([_integer(n, 'i64') for n in table])}"
        "};\n"
        for number, table in enumerate(program.tables)
    )
    condition = rare_condition(program)
    text = tables + _function(name, name, program)
    if condition is not None:
        text += _function(f"{name}_common", name, without_rare(program)) + _function(f"{name}_is_rare", name, condition)
    return text


def _function(name: str, tables: str, program: Program) -> str:
    kind = next(step.kind for step in program.steps if step.op == "input")
    letters = "xyz"[: program.inputs]
    taken = ", ".join(f"{_TYPE[kind]} {letter}" for letter in letters)
    lines = [
        f"    const {_TYPE[step.kind]} v{number} = {_expression(program, step, letters, tables)};"
        for number, step in enumerate(program.steps)
        if step.op not in ("constant", "input")
    ]
    result = program.steps[program.result].kind
    body = "\n".join(lines)
    return f"static inline {_TYPE[result]} {name}({taken}) {{\n{body}\n    return v{program.result};\n}}\n"


def _expression(program: Program, step: Step, letters: str, tables: str) -> str:
    xs = [_operand(program, number, letters) for number in step.operands]
    integer = step.kind in ("i32", "i64")
    unsigned = f"u{_TYPE[step.kind]}"
    match step.op:
        case "and" | "or" | "xor" | "lt" | "le" | "eq":
            return f"{xs[0]} {_SIGN[step.op]} {xs[1]}"
        case "add" | "sub" | "mul" if integer:  # signed overflow is undefined in C
            return f"({_TYPE[step.kind]})(({unsigned}){xs[0]} {_SIGN[step.op]} ({unsigned}){xs[1]})"
        case "add" | "sub" | "mul" | "div":
            return f"{xs[0]} {_SIGN[step.op]} {xs[1]}"
        case "shl":
            return f"({_TYPE[step.kind]})(({unsigned}){xs[0]} << {xs[1]})"
        case "shr":
            return f"({_TYPE[step.kind]})(({unsigned}){xs[0]} >> {xs[1]})"
        case "sar":
            return f"{xs[0]} >> {xs[1]}"
        case "not":
            return f"!{xs[0]}"
        case "neg" if integer:
            return f"({_TYPE[step.kind]})(0 - ({unsigned}){xs[0]})"
        case "neg":
            return f"-{xs[0]}"
        case "abs":
            return f"__builtin_fabs{'f' if step.kind == 'f32' else ''}({xs[0]})"
        case "sqrt":
            return f"__builtin_sqrt{'f' if step.kind == 'f32' else ''}({xs[0]})"
        case "min":
            return f"{xs[1]} < {xs[0]} ? {xs[1]} : {xs[0]}"
        case "max":
            return f"{xs[1]} > {xs[0]} ? {xs[1]} : {xs[0]}"
        case "select" | "rare":
            return f"{xs[0]} ? {xs[1]} : {xs[2]}"
        case "bits":
            return f"tl_bits_{program.steps[step.operands[0]].kind}({xs[0]})"
        case "float":
            return f"tl_float_{program.steps[step.operands[0]].kind}({xs[0]})"
        case "lookup":
            return f"{tables}_table{step.value}[{xs[0]}]"
        case _:  # widen, narrow
            return f"({_TYPE[step.kind]}){xs[0]}"


def _operand(program: Program, number: int, letters: str) -> str:
    step = program.steps[number]
    if step.op == "input":
        return letters[int(step.value or 0)]
    if step.op == "constant":
        assert step.value is not None
        return _float(float(step.value), step.kind) if step.kind[0] == "f" else _integer(int(step.value), step.kind)
    return f"v{number}"


def _float(value: float, kind: str) -> str:
    if math.isnan(value):
        return f'__builtin_nan{"f" if kind == "f32" else ""}("")'
    if math.isinf(value):
        return f"({'-' if value < 0 else ''}__builtin_inf{'f' if kind == 'f32' else ''}())"
    text = value.hex() + ("f" if kind == "f32" else "")
    return f"({text})" if text.startswith("-") else text


def _integer(value: int, kind: str) -> str:
    if kind == "i32":
        return f"((int32_t){value & 0xFFFFFFFF:#x}u)"
    return f"((int64_t){value & 0xFFFFFFFFFFFFFFFF:#x}ull)"
