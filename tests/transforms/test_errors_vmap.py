"""The text of every refusal of vmap: sizes, axes in and out, and what cannot be mapped."""

# ruff: noqa: E501 — messages are kept as they are printed
from __future__ import annotations

from typing import Any

import numpy as np
from transforms.refusals import refused

import torchlean as tl
from torchlean import ops
from torchlean.errors import StructureError

A = np.ones((3, 4), np.float32)
B = np.ones((5, 4), np.float32)
X = np.ones(4, np.float32)
S = np.float32(2)


@refused(
    StructureError,
    """
vmap of f: mapped sizes differ (@)
  expected: one size for every mapped axis
  got:      args[0]['b'][0]: f32[4] axis 0 has 4, args[0]['w']: f32[3,4] axis 0 has 3, args[1]: f32[5,4] axis 0 has 5
  fix:      change in_axes, or the arguments' shapes
""",
)
def test_sizes_that_differ_list_each_argument() -> None:
    def f(p: Any, y: Any) -> Any:
        return p["w"] + y

    tl.vmap(f)({"w": A, "b": (X,)}, B)


@refused(
    StructureError,
    """
vmap of <lambda>: mapped sizes differ (@)
  expected: one size for every mapped axis
  got:      args[0]: f32[3,4] axis 1 has 4, args[1]: f32[5,4] axis 0 has 5
  fix:      change in_axes, or the arguments' shapes
""",
)
def test_sizes_that_differ_along_other_axes() -> None:
    tl.vmap(lambda x, y: x + y, in_axes=(1, 0))(A, B)


@refused(
    StructureError,
    """
vmap of <lambda>: mapped sizes differ (@)
  expected: one size for every mapped axis
  got:      args[0]: f32[3,2] axis 0 has 3, args[1]: f32[4,2] axis 0 has 4, args[2]: f32[5,2] axis 0 has 5, args[3]: f32[6,2] axis 0 has 6, args[4]: f32[7,2] axis 0 has 7, args[5]: f32[8,2] axis 0 has 8, args[6]: f32[9,2] axis 0 has 9, args[7]: f32[10,2] axis 0 has 10, args[8]: f32[11,2] axis 0 has 11, args[9]: f32[12,2] axis 0 has 12, and 5 more
  fix:      change in_axes, or the arguments' shapes
""",
)
def test_many_sizes_that_differ_are_cut_short() -> None:
    tl.vmap(lambda *xs: xs[0])(*[np.ones((n, 2), np.float32) for n in range(3, 18)])


@refused(
    StructureError,
    """
vmap of <lambda>: mapped sizes differ (@)
  expected: axis_size=4 everywhere
  got:      args[0]: f32[3,4] axis 0 has 3
  fix:      change in_axes, or the arguments' shapes
""",
)
def test_a_size_unlike_axis_size() -> None:
    tl.vmap(lambda x: x, axis_size=4)(A)


@refused(
    StructureError,
    """
vmap of <lambda>: mapped sizes differ (@)
  expected: one size for every mapped axis
  got:      args[0]: f32[3,4] axis 0 has 3, kwargs['y']: f32[5,4] axis 0 has 5
  fix:      change in_axes, or the arguments' shapes
""",
)
def test_a_keyword_of_another_size() -> None:
    tl.vmap(lambda x, *, y: x + y)(A, y=B)


@refused(
    StructureError,
    """
vmap of <lambda>: args[0]['w'], f32[3,4], has no axis 2 (@)
  expected: an axis in [-2, 2), or None
  got:      2
  fix:      change in_axes for that argument
""",
)
def test_an_axis_out_of_range() -> None:
    tl.vmap(lambda p: p["w"], in_axes=2)({"w": A})


@refused(
    StructureError,
    """
vmap of <lambda>: args[1], f32[], has no axis 0 (@)
  expected: None: it is a scalar
  got:      0
  fix:      change in_axes for that argument
""",
)
def test_a_scalar_has_no_axis_to_map() -> None:
    tl.vmap(lambda x, s: x * s)(A, S)


@refused(
    StructureError,
    """
vmap of <lambda>: args[1], f32[], has no axis 0 (@)
  expected: None: it is a scalar
  got:      0
  fix:      change in_axes for that argument
""",
)
def test_a_python_number_has_no_axis_to_map() -> None:
    tl.vmap(lambda x, s: x * s)(A, 2.0)


@refused(
    StructureError,
    """
vmap of <lambda>: args[0], f32[3,4], has no axis 'first' (@)
  expected: an axis in [-2, 2), or None
  got:      'first'
  fix:      change in_axes for that argument
""",
)
def test_an_axis_that_is_no_integer() -> None:
    tl.vmap(lambda x: x, in_axes="first")(A)


@refused(
    StructureError,
    """
vmap of <lambda>: args[1] is a str, which has no axis 0 (@)
  expected: an array
  got:      str
  fix:      use None in in_axes for it
""",
)
def test_text_cannot_be_mapped() -> None:
    tl.vmap(lambda x, name: x)(A, "name")


@refused(
    StructureError,
    """
vmap of <lambda> maps no argument (@)
  expected: at least one argument with an axis in in_axes, or axis_size
  got:      1 argument leaves, none of them mapped
  fix:      map an argument, or pass axis_size=
""",
)
def test_nothing_is_mapped() -> None:
    tl.vmap(lambda x: x, in_axes=None)(A)


@refused(
    StructureError,
    """
vmap of <lambda> maps no argument (@)
  expected: at least one argument with an axis in in_axes, or axis_size
  got:      0 argument leaves, none of them mapped
  fix:      map an argument, or pass axis_size=
""",
)
def test_no_argument_at_all() -> None:
    tl.vmap(lambda: ops.constant(X))()


@refused(
    StructureError,
    """
vmap of <lambda>: in_axes does not fit the arguments, at in_axes (@)
  expected: a prefix of tuple of 2
  got:      tuple of 3
  fix:      give in_axes the containers of the arguments, or one axis for all of them
""",
)
def test_in_axes_of_another_length() -> None:
    tl.vmap(lambda x, y: x + y, in_axes=(0, 0, 0))(A, A)


@refused(
    StructureError,
    """
vmap of <lambda>: in_axes does not fit the arguments, at in_axes[0] (@)
  expected: a prefix of dict with keys ['w']
  got:      dict with keys ['v']
  fix:      give in_axes the containers of the arguments, or one axis for all of them
""",
)
def test_in_axes_of_another_tree() -> None:
    tl.vmap(lambda p: p["w"], in_axes=({"v": 0},))({"w": A})


@refused(
    StructureError,
    """
vmap of <lambda>: out_axes does not fit the result, at out_axes (@)
  expected: a prefix of tuple of 2
  got:      tuple of 3
  fix:      give out_axes the containers of the result, or one axis for all of them
""",
)
def test_out_axes_of_another_tree() -> None:
    tl.vmap(lambda x: (x, x), out_axes=(0, 0, 0))(A)


@refused(
    StructureError,
    """
vmap of <lambda>: out_axes 1 is no axis of a result of f32[3] (@)
  expected: an axis in [-1, 1)
  got:      1
  fix:      change out_axes
""",
)
def test_out_axes_out_of_range() -> None:
    tl.vmap(lambda x: ops.sum(x), out_axes=1)(A)


@refused(
    StructureError,
    """
vmap of <lambda>: out_axes is None for a result that depends on a mapped argument (@)
  expected: an axis
  got:      None
  fix:      give that result an axis in out_axes
""",
)
def test_out_axes_none_for_a_mapped_result() -> None:
    tl.vmap(lambda x: {"y": x}, out_axes=None)(A)


@refused(
    StructureError,
    """
vmap of <lambda>: out_axes 'last' is no axis of a result of f32[3,4] (@)
  expected: an axis in [-2, 2)
  got:      'last'
  fix:      change out_axes
""",
)
def test_out_axes_that_are_no_integer() -> None:
    tl.vmap(lambda x: x, out_axes="last")(A)


@refused(
    StructureError,
    """
vmap of <lambda>: mapped sizes differ (@)
  expected: one size for every mapped axis
  got:      args[0]: f32[4] axis 0 has 4, args[1]: f32[5,4] axis 0 has 5
  fix:      change in_axes, or the arguments' shapes
""",
)
def test_the_inner_of_two_names_its_own_argument() -> None:
    def outer(x: Any) -> Any:
        return tl.vmap(lambda a, b: a * b)(x, B)

    tl.vmap(outer)(A)


@refused(
    StructureError,
    """
vmap of <lambda>: axis_size -1 is no size (@)
  expected: an integer ≥ 0, or None
  got:      -1
  fix:      leave axis_size out when an argument is mapped
""",
)
def test_an_axis_size_that_is_no_size() -> None:
    tl.vmap(lambda: ops.constant(X), axis_size=-1)()
