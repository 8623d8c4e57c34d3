"""What plans leave to the strict NumPy kernels, over every op, sample and dtype: as docs/compiled.md lists it, no more.

`python -m pytest -n 0 -s tests/backends/compiled/test_what_is_left.py` prints each op with its dtypes and the reason.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from backends.compiled.kit import CAPSULES, COMPILED
from ops.composite_samples import ALL_CASES, graph_of

from torchlean.backends import plan
from torchlean.backends.vocabulary import label

pytestmark = pytest.mark.usefixtures("compiler")

HEADING = "## What is not written in C"
NO_CAPSULE = "no capsule"


@pytest.fixture(scope="module")
def left() -> dict[tuple[str, str], set[str]]:
    """(op, reason) → its dtypes."""
    found: dict[tuple[str, str], set[str]] = {}
    for case in ALL_CASES:
        made = plan(graph_of(case), COMPILED)
        types = made.graph.types
        for step in made.steps:
            if step.capsule.provider == "compiled":
                continue
            node = step.node
            given = tuple([types[id] for id in node.inputs])
            capsule = CAPSULES.get(node.op)
            reason = NO_CAPSULE if capsule is None else capsule.refuses(node.params, given)
            shown = sorted({types[id].dtype.short for id in (*node.inputs, *node.outputs)})
            found.setdefault((label(node.op), str(reason)), set()).add(" ".join(shown))
    return found


def test_every_op_without_a_capsule_is_named_on_the_page(left: dict[tuple[str, str], set[str]], root: Path) -> None:
    for (op, reason), dtypes in sorted(left.items()):
        print(f"{op:18} {reason}: {', '.join(sorted(dtypes))}")
    page = (root / "docs/compiled.md").read_text().partition(HEADING)[2].partition("\n## ")[0]
    without = {op for op, reason in left if reason == NO_CAPSULE}
    assert len(without) >= 30
    assert {op for op in without if f"`{op}`" not in page} == set()
    named = {word for word in page.split("`")[1::2] if word.isidentifier()}
    served = {label(op) for op in CAPSULES}
    partly = {op for op, reason in left if reason != NO_CAPSULE}
    unsampled = {"integer_pow"}  # no sample has such an exponent
    assert named & served <= partly | unsampled, "the page names ops that are served whole"


def test_the_other_reasons_are_few(left: dict[tuple[str, str], set[str]]) -> None:
    """8-bit floats, functions of complex numbers that are one library's, and words of another width."""
    reasons = {reason for _, reason in left if reason != NO_CAPSULE}
    eights = {
        reason for reason in reasons if reason.startswith("f8") and reason.endswith("no arithmetic in the generated C")
    }
    assert reasons - eights == {
        "of complex numbers it is defined as NumPy's own, whose bits are those of one C library",
        "it changes the number of entries",
    }
    of_library = {op for op, reason in left if reason.startswith("of complex numbers")}
    assert of_library == {"exp", "expm1", "log", "log1p", "sin", "cos", "tanh", "pow", "sqrt", "rsqrt"}
