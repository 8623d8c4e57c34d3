"""Collectives read from the text of compiled modules: every kind, form of groups, asynchronous starts, loops."""

from __future__ import annotations

import pytest

from torchlean.backends.collectives import Collective, Collectives
from torchlean.backends.xla.hlo import collectives

WHERE = 'metadata={op_name="jit(group)/jit(main)/model.py:7/layer.py:12/dot_general" stack_frame_id=2}'
LINES = {
    f"  %a = f32[2,3]{{1,0}} all-reduce(%dot), replica_groups={{{{0,1}},{{2,3}}}}, to_apply=%add, {WHERE}": Collective(
        "all-reduce", "f32[2,3]", 24, 2, 1, "layer.py:12 dot_general"
    ),
    "  ROOT %b = (bf16[8]{0}, s64[3]{0}, /*index=2*/pred[]) all-reduce(%x, %y), replica_groups=[1,8]<=[8]": Collective(
        "all-reduce", "(bf16[8], s64[3], pred[])", 41, 8, 1, ""
    ),
    "  %c = f64[16]{0} all-gather(%x), replica_groups=mesh['a'=4,'b'=2] {'a'}, dimensions={0}": Collective(
        "all-gather", "f64[16]", 128, 4, 1, ""
    ),
    "  %d = c64[4]{0} reduce-scatter(%x), replica_groups=mesh['a'=4,'b'=2] {'a':(1)2,'b'}": Collective(
        "reduce-scatter", "c64[4]", 32, 4, 1, ""
    ),
    "  %m = s8[4]{0} all-gather(x), replica_groups=mesh['a'=1,'b'=2,'c'=4], device_ids=([4,2]T(1,0)) {'b'}": Collective(
        "all-gather", "s8[4]", 4, 2, 1, ""
    ),
    "  %e = u8[5]{0} collective-permute(%x), source_target_pairs={{0,1},{1,0}}": Collective(
        "collective-permute", "u8[5]", 5, None, 1, ""
    ),
    "  %f = (f32[2]{0}, f32[2]{0}) all-to-all(%x, %y), replica_groups={{0,1,2,3}}": Collective(
        "all-to-all", "(f32[2], f32[2])", 16, 4, 1, ""
    ),
    "  %g = (f32[2]{0}, f32[8]{0}) all-gather-start(%x), replica_groups={{0,1,2,3}}, dimensions={0}": Collective(
        "all-gather", "f32[8]", 32, 4, 1, ""
    ),
    "  %h = f32[8]{0} all-reduce-start(%x), replica_groups={{0,1}}": Collective("all-reduce", "f32[8]", 32, 2, 1, ""),
}
NONE = (
    "  %i = f32[8]{0} all-reduce-done(%h)",
    "  %j = f32[8]{0} add(%all-reduce, %all-reduce.1)",
    "  %k = f32[8]{0} get-tuple-element(%all-to-all), index=0",
)


@pytest.mark.parametrize(("line", "expected"), LINES.items())
def test_one_instruction(line: str, expected: Collective) -> None:
    assert list(collectives(f"ENTRY %main (x: f32[8]) -> f32[8] {{\n{line}\n}}\n")) == [expected]


@pytest.mark.parametrize("line", NONE)
def test_what_is_no_collective(line: str) -> None:
    assert list(collectives(f"ENTRY %main (x: f32[8]) -> f32[8] {{\n{line}\n}}\n")) == []


def module(inner: str, outer: str) -> str:
    return f"""
%add (x: f32[], y: f32[]) -> f32[] {{
  ROOT %s = f32[] add(%x, %y)
}}

%inside (p: f32[]) -> f32[] {{
  ROOT %r = f32[] all-reduce(%p), replica_groups={{{{0,1}}}}, to_apply=%add
}}

%step (p: f32[]) -> f32[] {{
  ROOT %w = f32[] while(%p), condition=%test, body=%inside{inner}
}}

ENTRY %main (x: f32[]) -> f32[] {{
  %v = f32[] while(%x), condition=%test, body=%step{outer}
  ROOT %t = f32[] all-reduce(%v), replica_groups={{{{0,1}}}}, to_apply=%add
}}
"""


def trips(count: int) -> str:
    return f', backend_config={{"known_trip_count":{{"n":"{count}"}}}}'


@pytest.mark.parametrize(
    ("inner", "outer", "times"), [(trips(3), trips(5), 15), ("", trips(5), None), (trips(3), "", None)]
)
def test_loops_multiply(inner: str, outer: str, times: int | None) -> None:
    assert [row.times for row in collectives(module(inner, outer))] == [times, 1]


def test_a_table_of_collectives() -> None:
    rows = list(collectives(module("", trips(5))))
    assert str(Collectives("step", rows)) == (
        "collectives of step: 2 all-reduce of 8 bytes\n"
        "  all-reduce  f32[]  4 bytes  2 devices  in a loop\n"
        "  all-reduce  f32[]  4 bytes  2 devices  ×1"
    )
    assert str(Collectives("step", [])) == "collectives of step: none"
    assert repr(Collectives("step", rows)) == "<Collectives of step: 2>"
