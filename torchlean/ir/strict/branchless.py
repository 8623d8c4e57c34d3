"""Selects as bit operations: b ^ ((a ^ b) & m), where m is all ones or zero.

NumPy's own selections branch on every entry. Where a mask is as good as random, a block of many entries pays some ten
times the price of these operations for that; a few entries pay more for the additional calls.
"""

from __future__ import annotations

import numpy as np

from torchlean.ir.strict.numpy_code import CARRIER
from torchlean.ir.strict.words import INTEGER_OF, Kind, Program, Recorder, Word


def branchless(program: Program) -> Program:
    """The same program with its selects as bit operations; rare selects stay."""
    made = Recorder()
    words: list[Word] = []
    for step in program.steps:
        operands = [words[number] for number in step.operands]
        if step.op == "select":
            words.append(_select(made, step.kind, *operands))
        elif step.op == "lookup":
            words.append(made.lookup(program.tables[int(step.value or 0)], operands[0]))
        else:
            words.append(made.repeat(step, operands))
    return made.finished(words[program.result], program.inputs)


def _select(made: Recorder, kind: Kind, mask: Word, chosen: Word, otherwise: Word) -> Word:
    integer = INTEGER_OF.get(kind, kind)
    ones = made.record("spread", integer, mask)
    a, b = _bits(made, chosen), _bits(made, otherwise)
    if isinstance(b, Word):
        bits = ((b ^ a) & ones) ^ b
    elif isinstance(a, Word):
        bits = ((a ^ b) & ones) ^ b
    else:
        bits = (ones & (a ^ b)) ^ b
    return bits if integer == kind else bits.as_float()


def _bits(made: Recorder, word: Word) -> Word | int:
    """The bits of a word as an integer word; those of a constant as a number."""
    step = made.steps[word.number]
    if step.op == "constant":
        carrier = CARRIER[step.kind]
        return int(np.array(step.value, carrier).view(f"i{carrier.itemsize}"))
    return word.bits() if step.kind in INTEGER_OF else word
