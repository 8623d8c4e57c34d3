"""The text of every refusal of an operand: shapes, dtypes, axes, indices, Python numbers, and what is no array."""

from __future__ import annotations

from typing import Any

import numpy as np
from transforms.refusals import refused

import torchlean as tl
from torchlean import ops
from torchlean.errors import OutOfRangeError, TraceError, TypeRuleError

A23 = np.zeros((2, 3), np.float32)
A45 = np.zeros((4, 5), np.float32)
I3 = np.zeros(3, np.int32)
F3 = np.zeros(3, np.float32)
D3 = np.zeros(3, np.float64)
U3 = np.zeros(3, np.uint64)
B3 = np.zeros(3, np.bool_)
SHORT = ", ".join([dtype.short for dtype in tl.DType])
LABELS = ", ".join([dtype.label for dtype in tl.DType])


# -- shapes ------------------------------------------------------------------------------------------------------------
@refused(
    TypeRuleError,
    """
add of f32[2,3], f32[4,5]: the shapes do not broadcast (@)
  expected: sizes that are equal or 1, aligned at the last axis
  got:      axis -1: 3 and 5
  fix:      reshape or slice one operand
""",
)
def test_shapes_that_do_not_broadcast() -> None:
    ops.add(A23, A45)


@refused(
    TypeRuleError,
    """
sub of f32[2,3], f32[4,5]: the shapes do not broadcast (@)
  expected: sizes that are equal or 1, aligned at the last axis
  got:      axis -1: 3 and 5
  fix:      reshape or slice one operand
""",
)
def test_an_operator_in_a_trace_names_the_users_line() -> None:
    def loss(x: Any, y: Any) -> Any:
        z = x * 2.0
        return ops.sum(z - y)

    tl.make_graph(loss)(A23, A45)


@refused(
    TypeRuleError,
    """
matmul cannot contract f32[2,3] with f32[4,5] (@)
  expected: last axis of the left equal to the second-last of the right
  got:      3 and 4
  fix:      transpose one operand (x.T), or check the layer's input size
""",
)
def test_matmul_of_sizes_that_differ() -> None:
    tl.make_graph(lambda x, y: x @ y)(A23, A45)


@refused(
    TypeRuleError,
    """
matmul of f32[2,3,4], f32[5,4,3]: the shapes do not broadcast (@)
  expected: sizes that are equal or 1, aligned at the last axis
  got:      axis -1: 4 and 3
  fix:      reshape or slice one operand
""",
)
def test_matmul_of_batches_that_do_not_broadcast() -> None:
    ops.matmul(np.zeros((2, 3, 4), np.float32), np.zeros((5, 4, 3), np.float32))


@refused(
    TypeRuleError,
    """
matmul cannot contract f32[3] with f32[] (@)
  expected: last axis of the left equal to the second-last of the right
  got:      a scalar has no axis
  fix:      transpose one operand (x.T), or check the layer's input size
""",
)
def test_matmul_of_a_scalar() -> None:
    ops.matmul(F3, np.float32(1))


@refused(
    TypeRuleError,
    """
dot_general of f32[2,3], f32[4,5]: contracted sizes differ (@)
  expected: axes [1] of f32[2,3] equal to axes [0] of f32[4,5]
  got:      [3] and [4]
  fix:      transpose one operand, or check the layer's input size
""",
)
def test_dot_general_of_contracted_sizes_that_differ() -> None:
    ops.dot_general(A23, A45, contract=((1,), (0,)))


@refused(
    TypeRuleError,
    """
dot_general of f32[2,3], f32[4,5]: the named axes are not axes of the operand (@)
  expected: unique axes in [0, 2)
  got:      [2]
  fix:      name each contracted or batch axis once
""",
)
def test_dot_general_of_axes_that_do_not_exist() -> None:
    ops.dot_general(A23, A45, contract=((2,), (0,)))


@refused(
    TypeRuleError,
    """
dot_general of f32[2,3], f32[2,3]: axes are not paired (@)
  expected: as many left axes as right axes
  got:      DotDims(lhs_contract=(0, 1), rhs_contract=(0,), lhs_batch=(), rhs_batch=())
  fix:      pair every contracted and batch axis
""",
)
def test_dot_general_of_axes_that_are_not_paired() -> None:
    ops.dot_general(A23, A23, contract=((0, 1), (0,)))


@refused(
    TypeRuleError,
    """
select of bool[3], f32[4,5]: the shapes do not broadcast (@)
  expected: sizes that are equal or 1, aligned at the last axis
  got:      axis -1: 3 and 5
  fix:      reshape or slice one operand
""",
)
def test_select_of_a_condition_that_does_not_broadcast() -> None:
    ops.select(B3, A45, 0.0)


@refused(
    TypeRuleError,
    """
select of f32[3], f32[3], f32[3]: a floating point operand is not allowed (@)
  expected: bool dtype
  got:      f32
  fix:      convert the operand with ops.convert(x, dtype)
""",
)
def test_select_of_a_condition_that_is_no_boolean() -> None:
    ops.select(F3, F3, 0.0)


@refused(
    TypeRuleError,
    """
broadcast_to of f32[3], f32[2,4]: the shapes do not broadcast (@)
  expected: sizes that are equal or 1, aligned at the last axis
  got:      axis -1: 3 and 4
  fix:      reshape or slice one operand
""",
)
def test_broadcast_to_another_size() -> None:
    ops.broadcast_to(F3, (2, 4))


@refused(
    TypeRuleError,
    """
broadcast of f32[2,3]: cannot be broadcast to [3, 2] along axes [0, 1] (@)
  expected: one increasing result axis per operand axis, of equal size or from size 1
  got:      f32[2,3] to [3, 2], axes [0, 1]
  fix:      reshape or transpose the operand first
""",
)
def test_broadcast_along_axes_that_do_not_fit() -> None:
    ops.broadcast(A23, (3, 2), (0, 1))


@refused(
    TypeRuleError,
    """
clamp of f32[2,3], f32[3], f32[2,3]: operand shapes differ (@)
  expected: operands of one type
  got:      f32[2,3], f32[3], f32[2,3]
  fix:      broadcast or convert one operand (ops.broadcast_to, ops.convert)
""",
)
def test_a_strict_op_refuses_operands_that_would_broadcast() -> None:
    ops.clamp(F3, A23, A23)


@refused(
    TypeRuleError,
    """
reshape of f32[2,3]: cannot be reshaped to [4, 2] (@)
  expected: a shape of 6 entries
  got:      [4, 2], 8 entries
  fix:      check the product of the sizes; one of them may be -1 in ops.reshape
""",
)
def test_reshape_to_another_number_of_entries() -> None:
    ops.reshape(A23, (4, 2))


@refused(
    TypeRuleError,
    """
reshape of f32[2,3] to [-1, 4]: the size -1 cannot be inferred (@)
  expected: other sizes whose product divides 6
  got:      a product of 4
  fix:      write the sizes out
""",
)
def test_reshape_with_a_size_that_cannot_be_inferred() -> None:
    tl.make_graph(lambda x: x.reshape(-1, 4))(A23)


@refused(
    TypeRuleError,
    """
transpose of f32[2,3]: the axes are not a permutation (@)
  expected: each of [0, 1] once
  got:      [0, 0]
  fix:      list every axis of the operand once
""",
)
def test_transpose_by_what_is_no_permutation() -> None:
    ops.transpose(A23, (0, 0))


@refused(
    TypeRuleError,
    """
concatenate of f32[2,3], f32[4,5]: the operands do not join along axis 0 (@)
  expected: operands like f32[2,3], different only in axis 0
  got:      f32[2,3], f32[4,5]
  fix:      reshape, broadcast or convert the one that differs
""",
)
def test_concatenate_of_other_sizes() -> None:
    ops.concatenate([A23, A45])


@refused(
    TypeRuleError,
    """
concatenate: there is nothing to join (@)
  expected: one operand or more
  got:      none
  fix:      pass an operand
""",
)
def test_concatenate_of_nothing() -> None:
    ops.concatenate([])


@refused(
    TypeRuleError,
    """
concatenate of f32[2,3]: there is no axis 2 (@)
  expected: an axis in [-2, 2)
  got:      2
  fix:      name an existing axis; negative ones count from the end
""",
)
def test_concatenate_along_an_axis_that_does_not_exist() -> None:
    ops.concatenate([A23, A23], axis=2)


@refused(
    TypeRuleError,
    """
stack of f32[3]: no new axis fits at 2 (@)
  expected: an axis in [-2, 2)
  got:      2
  fix:      name a position in the result
""",
)
def test_stack_at_a_place_that_does_not_exist() -> None:
    ops.stack([F3, F3], axis=2)


@refused(
    TypeRuleError,
    """
concatenate: there is nothing to join (@)
  expected: one operand or more
  got:      none
  fix:      pass an operand
""",
)
def test_stack_of_nothing() -> None:
    ops.stack([])


@refused(
    TypeRuleError,
    """
pad of f32[2,3], f32[]: low do not match the rank (@)
  expected: 2 low, one per axis
  got:      [1]
  fix:      give one of the low for every axis of the operand
""",
)
def test_pad_by_fewer_widths_than_axes() -> None:
    ops.pad(A23, 0.0, [(1, 1)])


@refused(
    TypeRuleError,
    """
pad of f32[3], f32[]: the padding of axis 0 is out of range (@)
  expected: an interior width of at least 0 and a result of at least 0 entries
  got:      low -2, high -2, interior 0 on 3 entries
  fix:      crop at most what is there
""",
)
def test_pad_that_crops_more_than_there_is() -> None:
    ops.pad(F3, 0.0, [(-2, -2)])


@refused(
    TypeRuleError,
    """
slice of f32[3]: the slice of axis 0 is out of range (@)
  expected: 0 ≤ start ≤ limit ≤ 3 and a stride of at least 1
  got:      start 0, limit 4, stride 1
  fix:      clip the limits to the axis; reverse with ops.reverse instead of a negative stride
""",
)
def test_slice_beyond_the_axis() -> None:
    ops.slice_(F3, (0,), (4,))


@refused(
    TypeRuleError,
    """
squeeze of f32[2,3]: axis 0 has 2 entries (@)
  expected: axes of size 1
  got:      axes [0]
  fix:      index the axis, or name another
""",
)
def test_squeeze_of_an_axis_that_is_not_one() -> None:
    ops.squeeze(A23, 0)


@refused(
    TypeRuleError,
    """
reduce_max of f32[0,3]: no entry to choose from (@)
  expected: at least one entry along axes [0]
  got:      f32[0,3]
  fix:      check for an empty axis; ops.pad can add an entry to stand for it
""",
)
def test_the_largest_of_nothing() -> None:
    ops.amax(np.zeros((0, 3), np.float32), 0)


@refused(
    TypeRuleError,
    """
conv of f32[1,3,8], f32[4,2,3]: channels do not fit 1 group (@)
  expected: input channels = 1 · 2 (kernel axis 1), output channels a multiple of 1
  got:      3 input channels, 4 output channels
  fix:      check the kernel's layout [out, in / groups, spatial…] and the groups
""",
)
def test_conv_of_channels_that_do_not_fit() -> None:
    ops.conv(np.zeros((1, 3, 8), np.float32), np.zeros((4, 2, 3), np.float32))


@refused(
    TypeRuleError,
    """
conv of f32[3,8] with a kernel f32[4,3,3]: ranks do not fit (@)
  expected: an input [batch, channels, spatial…] and a kernel [out, in / groups, spatial…] of the same rank
  got:      ranks 2 and 3
  fix:      add a batch or channel axis of size 1
""",
)
def test_conv_of_another_rank() -> None:
    ops.conv(np.zeros((3, 8), np.float32), np.zeros((4, 3, 3), np.float32))


# -- axes --------------------------------------------------------------------------------------------------------------
@refused(
    OutOfRangeError,
    """
sum of f32[2,3]: axis 2 is out of range (@)
  expected: an axis in [-2, 2)
  got:      2
  fix:      count axes from 0, or from the end with negative numbers
""",
)
def test_sum_over_an_axis_that_does_not_exist() -> None:
    ops.sum(A23, 2)


@refused(
    OutOfRangeError,
    """
mean of f32[2,3]: axis -3 is out of range (@)
  expected: an axis in [-2, 2)
  got:      -3
  fix:      count axes from 0, or from the end with negative numbers
""",
)
def test_a_methods_axis_that_does_not_exist() -> None:
    tl.make_graph(lambda x: x.mean(axis=-3))(A23)


@refused(
    TypeRuleError,
    """
sum of f32[2,3]: an axis is named twice (@)
  expected: each axis once
  got:      [0, -2]
  fix:      drop the repeated axis
""",
)
def test_an_axis_named_twice() -> None:
    ops.sum(A23, (0, -2))


@refused(
    OutOfRangeError,
    """
softmax of f32[3]: axis 1 is out of range (@)
  expected: an axis in [-1, 1)
  got:      1
  fix:      count axes from 0, or from the end with negative numbers
""",
)
def test_softmax_along_an_axis_that_does_not_exist() -> None:
    ops.softmax(F3, axis=1)


@refused(
    OutOfRangeError,
    """
argmax of f32[3]: axis 4 is out of range (@)
  expected: an axis in [-1, 1)
  got:      4
  fix:      count axes from 0, or from the end with negative numbers
""",
)
def test_argmax_along_an_axis_that_does_not_exist() -> None:
    ops.argmax(F3, 4)


@refused(
    OutOfRangeError,
    """
expand_dims of f32[3]: axis 3 is out of range (@)
  expected: an axis in [-2, 2)
  got:      3
  fix:      count axes from 0, or from the end with negative numbers
""",
)
def test_expand_dims_at_a_place_that_does_not_exist() -> None:
    ops.expand_dims(F3, 3)


# -- indices -----------------------------------------------------------------------------------------------------------
@refused(
    OutOfRangeError,
    """
indexing f32[2,3]: index 3 is out of range for axis 1 (@)
  expected: an index in [-3, 3)
  got:      3
  fix:      index within the axis
""",
)
def test_an_index_out_of_range() -> None:
    tl.make_graph(lambda x: x[0, 3])(A23)


@refused(
    OutOfRangeError,
    """
indexing f32[2,3]: index -3 is out of range for axis 0 (@)
  expected: an index in [-2, 2)
  got:      -3
  fix:      index within the axis
""",
)
def test_a_negative_index_out_of_range() -> None:
    tl.make_graph(lambda x: x[-3])(A23)


@refused(
    OutOfRangeError,
    """
take of f32[2,3]: index 2 is outside axis 0 (@)
  expected: an index in [-2, 2)
  got:      2
  fix:      check the index; negative ones count from the end
""",
)
def test_a_list_with_an_index_out_of_range() -> None:
    tl.make_graph(lambda x: x[[0, 2, 1]])(A23)


@refused(
    OutOfRangeError,
    """
take of f32[2,3]: index -4 is outside axis 1 (@)
  expected: an index in [-3, 3)
  got:      -4
  fix:      check the index; negative ones count from the end
""",
)
def test_a_numpy_array_with_an_index_out_of_range() -> None:
    tl.make_graph(lambda x: x[:, np.array([1, -4])])(A23)


@refused(
    OutOfRangeError,
    """
take of f32[3]: index 7 is outside axis 0 (@)
  expected: an index in [-3, 3)
  got:      7
  fix:      check the index; negative ones count from the end
""",
)
def test_take_of_an_index_out_of_range() -> None:
    ops.take(F3, 7)


@refused(
    TypeRuleError,
    """
take of f32[3]: there is no axis 1 (@)
  expected: an axis in [-1, 1)
  got:      1
  fix:      name an existing axis; negative ones count from the end
""",
)
def test_take_along_an_axis_that_does_not_exist() -> None:
    ops.take(F3, 0, axis=1)


@refused(
    TypeRuleError,
    """
gather of f32[3], f32[2]: a floating point operand is not allowed (@)
  expected: signed integer or unsigned integer dtype
  got:      f32
  fix:      convert the operand with ops.convert(x, dtype)
""",
)
def test_take_at_positions_that_are_no_integers() -> None:
    ops.take(F3, np.zeros(2, np.float32))


@refused(
    TypeRuleError,
    """
take_along_axis of f32[2,3] with indices i32[3,1]: shapes differ outside axis 1 (@)
  expected: indices of shape [2, 'any']
  got:      [3, 1]
  fix:      broadcast the indices; or use ops.take, which reads whole slices
""",
)
def test_take_along_axis_of_another_shape() -> None:
    ops.take_along_axis(A23, np.zeros((3, 1), np.int32), axis=1)


@refused(
    OutOfRangeError,
    """
indexing f32[2,3] with 3 indices (@)
  expected: at most 2 indices
  got:      3
  fix:      index fewer axes
""",
)
def test_too_many_indices() -> None:
    tl.make_graph(lambda x: x[0, 0, 0])(A23)


@refused(
    OutOfRangeError,
    """
indexing f32[2,3] with two ellipses (@)
  expected: one at most
  got:      2
  fix:      write : for the axes one of them stands for
""",
)
def test_two_ellipses() -> None:
    tl.make_graph(lambda x: x[..., 0, ...])(A23)


@refused(
    TypeRuleError,
    """
indexing f32[3] with a boolean mask: the size of the result would depend on values (@)
  expected: integers, slices or an integer array
  got:      a boolean array
  fix:      use ops.select(mask, x, fill)
""",
)
def test_a_boolean_mask() -> None:
    tl.make_graph(lambda x: x[B3])(F3)


@refused(
    TypeRuleError,
    """
indexing f32[3] with a boolean mask: the size of the result would depend on values (@)
  expected: integers, slices or an integer array
  got:      a boolean array
  fix:      use ops.select(mask, x, fill)
""",
)
def test_a_traced_boolean_mask() -> None:
    tl.make_graph(lambda x: x[x > 0.0])(F3)


@refused(
    TypeRuleError,
    """
indexing f32[3] with a float (@)
  expected: integers, slices, None, Ellipsis, integer arrays or lists, or a boolean mask
  got:      1.5
  fix:      convert the index to an integer
""",
)
def test_an_index_that_is_a_float() -> None:
    tl.make_graph(lambda x: x[1.5])(F3)


@refused(
    TypeRuleError,
    """
indexing f32[3] with a str (@)
  expected: integers, slices, None, Ellipsis, integer arrays or lists, or a boolean mask
  got:      'first'
  fix:      convert the index to an integer
""",
)
def test_an_index_that_is_a_string() -> None:
    tl.make_graph(lambda x: x["first"])(F3)


@refused(
    OutOfRangeError,
    """
cross_entropy: label 3 is not one of 3 classes (@)
  expected: labels in [0, 3)
  got:      1 of 2 labels outside
  fix:      check the labels, or the number of outputs of the model
""",
)
def test_a_label_outside_the_classes() -> None:
    ops.cross_entropy(A23, np.array([0, 3]))


# -- dtypes ------------------------------------------------------------------------------------------------------------
@refused(
    TypeRuleError,
    """
add of i32[3], f32[3]: the dtypes have no common type (@)
  expected: operands of one kind (the Array API standard defines no mixed promotion)
  got:      i32 (signed integer) and f32 (floating point)
  fix:      convert one operand, e.g. x.astype('f32')
""",
)
def test_an_integer_array_with_a_float_array() -> None:
    tl.make_graph(lambda x, y: x + y)(I3, F3)


@refused(
    TypeRuleError,
    """
mul of bool[3], f32[3]: the dtypes have no common type (@)
  expected: operands of one kind (the Array API standard defines no mixed promotion)
  got:      bool (bool) and f32 (floating point)
  fix:      convert one operand, e.g. x.astype('f32')
""",
)
def test_a_boolean_array_with_a_number() -> None:
    ops.mul(B3, F3)


@refused(
    TypeRuleError,
    """
add of u64[3], i32[3]: the dtypes have no common type (@)
  expected: operands of one kind (the Array API standard defines no mixed promotion)
  got:      u64 (unsigned integer) and i32 (signed integer)
  fix:      convert one operand, e.g. x.astype('i32')
""",
)
def test_unsigned_64_with_signed() -> None:
    ops.add(U3, I3)


@refused(
    TypeRuleError,
    """
mul of i32[3] with the Python float 0.5 (@)
  expected: a Python number that i32 can hold
  got:      0.5
  fix:      convert the tensor first, e.g. x.astype('f32')
""",
)
def test_an_integer_array_with_a_python_float() -> None:
    tl.make_graph(lambda x: x * 0.5)(I3)


@refused(
    TypeRuleError,
    """
add of bool[3] with the Python int 1 (@)
  expected: a Python number that bool can hold
  got:      1
  fix:      convert the tensor first, e.g. x.astype('i32')
""",
)
def test_a_boolean_array_with_a_python_number() -> None:
    ops.add(B3, 1)


@refused(
    TypeRuleError,
    """
add of f32[3] with the Python bool True (@)
  expected: a Python number that f32 can hold
  got:      True
  fix:      write 1 or 0, or convert the tensor to bool
""",
)
def test_an_array_with_a_python_boolean() -> None:
    ops.add(F3, True)


@refused(
    TypeRuleError,
    """
add of i8[3] with 200: it is not in [-128, 127] (@)
  expected: a number that i8 can hold
  got:      200
  fix:      convert the tensor first to a dtype that holds the number
""",
)
def test_a_python_integer_too_large_for_the_dtype() -> None:
    ops.add(np.zeros(3, np.int8), 200)


@refused(
    TypeRuleError,
    """
add of u64[3] with -1: it is not in [0, 18446744073709551615] (@)
  expected: a number that u64 can hold
  got:      -1
  fix:      convert the tensor first to a dtype that holds the number
""",
)
def test_a_negative_python_integer_with_an_unsigned_dtype() -> None:
    ops.add(U3, -1)


@refused(
    TypeRuleError,
    """
the Python integer 2147483648 does not fit i32[] (@)
  expected: an integer in [-2**31, 2**31)
  got:      2147483648
  fix:      say the dtype: numpy.int64(...)
""",
)
def test_a_python_integer_on_its_own_that_does_not_fit_32_bits() -> None:
    tl.make_graph(lambda: 2**31)()


@refused(
    TypeRuleError,
    """
add of f32[3] with an integer of 1329 bits: it is too large (@)
  expected: a number that f32 can hold
  got:      an integer of 1329 bits
  fix:      convert the tensor first to a dtype that holds the number
""",
)
def test_a_python_integer_too_large_for_any_float() -> None:
    ops.add(F3, 10**400)


@refused(
    TypeRuleError,
    """
a list is not a tensor operand (@)
  expected: a torchlean array, a NumPy array or a Python number
  got:      [1, 1208925819614629174706176]
  fix:      convert it first, e.g. numpy.asarray(...)
""",
)
def test_a_list_of_integers_that_do_not_fit() -> None:
    ops.constant([1, 2**80])


@refused(
    TypeRuleError,
    """
div of i32[3], i32[3]: a signed integer operand is not allowed (@)
  expected: complex or floating point dtype
  got:      i32
  fix:      convert the operand with ops.convert(x, dtype)
""",
)
def test_division_of_integers() -> None:
    tl.make_graph(lambda x: x / x)(I3)


@refused(
    TypeRuleError,
    """
sin of i32[3]: a signed integer operand is not allowed (@)
  expected: complex or floating point dtype
  got:      i32
  fix:      convert the operand with ops.convert(x, dtype)
""",
)
def test_sine_of_integers() -> None:
    ops.sin(I3)


@refused(
    TypeRuleError,
    """
integer_pow of i32[3]: a signed integer operand is not allowed (@)
  expected: complex or floating point dtype
  got:      i32
  fix:      convert the operand with ops.convert(x, dtype)
""",
)
def test_a_negative_power_of_integers() -> None:
    tl.make_graph(lambda x: x**-1)(I3)


@refused(
    TypeRuleError,
    """
reduce_sum of bool[3]: a bool operand is not allowed (@)
  expected: complex or floating point or signed integer or unsigned integer dtype
  got:      bool
  fix:      convert the operand with ops.convert(x, dtype)
""",
)
def test_a_boolean_sum() -> None:
    ops.sum(B3)


@refused(
    TypeRuleError,
    """
matmul of i32[2,3], f32[3,2]: the dtypes have no common type (@)
  expected: operands of one kind (the Array API standard defines no mixed promotion)
  got:      i32 (signed integer) and f32 (floating point)
  fix:      convert one operand, e.g. x.astype('f32')
""",
)
def test_matmul_of_mixed_kinds() -> None:
    ops.matmul(np.zeros((2, 3), np.int32), np.zeros((3, 2), np.float32))


@refused(
    TypeRuleError,
    """
conv of f32[1,1,3], f64[1,1,2]: operand dtypes differ (@)
  expected: two f32 operands
  got:      f32[1,1,3] and f64[1,1,2]
  fix:      convert one operand (ops.convert); nothing is promoted here
""",
)
def test_conv_of_mixed_floats() -> None:
    ops.conv(np.zeros((1, 1, 3), np.float32), np.zeros((1, 1, 2)))


@refused(
    TypeRuleError,
    """
logical_and of i32[3], i32[3]: a signed integer operand is not allowed (@)
  expected: bool dtype
  got:      i32
  fix:      convert the operand with ops.convert(x, dtype)
""",
)
def test_logic_on_numbers() -> None:
    ops.logical_and(I3, I3)


@refused(
    TypeRuleError,
    f"""
'float31' does not name a dtype (@)
  expected: {SHORT}
  got:      'float31'
  fix:      use a short name such as 'f32', or a NumPy dtype
""",
)
def test_a_dtype_nobody_knows() -> None:
    ops.convert(F3, "float31")


@refused(
    TypeRuleError,
    f"""
'bfloat99' does not name a dtype (@)
  expected: {SHORT}
  got:      'bfloat99'
  fix:      use a short name such as 'f32', or a NumPy dtype
""",
)
def test_a_method_with_a_dtype_nobody_knows() -> None:
    tl.make_graph(lambda x: x.astype("bfloat99"))(F3)


@refused(
    TypeRuleError,
    f"""
arrays of NumPy dtype object are not tensors here (@)
  expected: {LABELS}
  got:      object
  fix:      convert the array first, e.g. x.astype(np.float32)
""",
)
def test_an_array_of_objects() -> None:
    ops.constant(np.array([object()]))


# -- what is no array --------------------------------------------------------------------------------------------------
@refused(
    TypeRuleError,
    """
a str is not a tensor operand (@)
  expected: a torchlean array, a NumPy array or a Python number
  got:      'one'
  fix:      convert it first, e.g. numpy.asarray(...)
""",
)
def test_a_string_operand() -> None:
    tl.make_graph(lambda x: ops.add(x, "one"))(F3)


@refused(
    TypeRuleError,
    """
a NoneType is not a tensor operand (@)
  expected: a torchlean array, a NumPy array or a Python number
  got:      None
  fix:      convert it first, e.g. numpy.asarray(...)
""",
)
def test_none_as_an_operand() -> None:
    ops.sin(None)


@refused(
    TypeRuleError,
    """
a dict is not a tensor operand (@)
  expected: a torchlean array, a NumPy array or a Python number
  got:      {'a': 1}
  fix:      convert it first, e.g. numpy.asarray(...)
""",
)
def test_a_dict_as_an_operand() -> None:
    tl.make_graph(lambda x: x * {"a": 1})(F3)


@refused(
    TypeRuleError,
    """
a list is not a tensor operand (@)
  expected: a torchlean array, a NumPy array or a Python number
  got:      [[1.0], [2.0, 3.0]]
  fix:      convert it first, e.g. numpy.asarray(...)
""",
)
def test_a_ragged_list() -> None:
    ops.add(F3, [[1.0], [2.0, 3.0]])


@refused(
    TypeRuleError,
    """
a str is not a tensor operand (@)
  expected: a torchlean array, a NumPy array or a Python number
  got:      'text'
  fix:      convert it first, e.g. numpy.asarray(...)
""",
)
def test_an_operand_of_a_primitive_that_is_no_array() -> None:
    ops.concatenate([F3, "text"])


@refused(
    TypeRuleError,
    """
full of f32[2] with 'x': a str is no number (@)
  expected: a number that f32 can hold
  got:      'x'
  fix:      name a dtype that holds it
""",
)
def test_full_of_what_is_no_number() -> None:
    ops.full((2,), "x")


@refused(
    TypeRuleError,
    """
full: the shape has a negative size (@)
  expected: sizes ≥ 0
  got:      [2, -1]
  fix:      check the shape
""",
)
def test_full_of_a_negative_size() -> None:
    ops.full((2, -1), 0.0)


@refused(
    TypeRuleError,
    """
reshape: (2.0, 3.0) is not a shape (@)
  expected: a tuple of integers
  got:      float, float
  fix:      convert the sizes with int(...)
""",
)
def test_a_shape_that_is_no_sequence_of_integers() -> None:
    ops.reshape(A23, (2.0, 3.0))


@refused(
    TraceError,
    """
use as a Python index of a traced i32[] which is argument 1 of <lambda> (@)
  expected: a concrete number
  got:      a value that has none until the traced program runs
  fix:      index with ops.take(x, i, axis=0), which accepts traced integers; sizes in shapes must be Python ints
""",
)
def test_a_traced_size_in_a_shape() -> None:
    tl.make_graph(lambda x, n: ops.reshape(x, (n, 2)))(A23, np.int32(3))
