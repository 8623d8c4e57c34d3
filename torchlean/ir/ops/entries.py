"""`x.at[key]`: a new tensor with some entries written, or entries read with a stated mode.

The entries a key names are found by indexing the numbers 1, 2, … with it; the update is then one scatter over the
flattened tensor. So every key that `x[key]` takes, `x.at[key]` takes, and means the same entries by it.
"""

from __future__ import annotations

from typing import Any

from torchlean.errors import OutOfRangeError, TypeRuleError, message
from torchlean.ir.builder import bind1, is_python_number
from torchlean.ir.dtypes import DType
from torchlean.ir.location import caller_location
from torchlean.ir.op import Op
from torchlean.ir.ops import functions as f
from torchlean.ir.ops.advanced import index_mode
from torchlean.ir.ops.create import FULL, Fill, iota
from torchlean.ir.ops.elementwise import convert
from torchlean.ir.ops.gather import SCATTER_ADD, Along, Mode
from torchlean.ir.ops.index import take
from torchlean.ir.ops.indexing import getitem
from torchlean.ir.ops.promote import pair, promote_dtypes, shapes_disagree, spread_to, tensor
from torchlean.ir.ops.scattering import SCATTER, SCATTER_MAX, SCATTER_MIN, SCATTER_MUL
from torchlean.ir.ops.shaping import reshape
from torchlean.ir.types import broadcast_shapes


class At:
    """`x.at`: index it to say which entries."""

    __slots__ = ("_x",)

    def __init__(self, x: Any) -> None:
        self._x = tensor(x)

    def __getitem__(self, key: Any) -> Entries:
        return Entries(self._x, key)

    def __repr__(self) -> str:
        return f"<entries of {self._x.type}>"


class Entries:
    """`x.at[key]`: the entries a key names. Every method returns a new tensor.

    `mode` says what a position outside its axis does: with "drop" nothing is written there, with "clip" it counts as
    the nearest, "promise_in_bounds" says there is none. Without one, traced positions outside are dropped and known
    ones raise OutOfRangeError; Python integers and lists always do.
    """

    __slots__ = ("_key", "_x")

    def __init__(self, x: Any, key: Any) -> None:
        self._x = x
        self._key = key

    def __repr__(self) -> str:
        return f"<entries {self._key!r} of {self._x.type}>"

    def get(self, *, mode: str | None = None, fill_value: Any = None) -> Any:
        """The entries; a position outside reads `fill_value` (0 unless given), or the nearest entry with "clip"."""
        if fill_value is None or mode == "clip":
            return getitem(self._x, self._key, _mode("at[].get", mode))
        found = self._positions(mode)
        entries = take(reshape(self._x, (self._x.type.size,)), found)
        return f.select(f.lt(found, 0), fill_value, entries)

    def set(self, values: Any, *, mode: str | None = None) -> Any:
        """`values` in place of the entries; of several for one entry the last stays."""
        return self._scattered("set", SCATTER, values, mode)

    def add(self, values: Any, *, mode: str | None = None) -> Any:
        """`values` added to the entries; several for one entry are all added."""
        return self._scattered("add", SCATTER_ADD, values, mode)

    def subtract(self, values: Any, *, mode: str | None = None) -> Any:
        """`values` subtracted from the entries."""
        return self._scattered("subtract", SCATTER_ADD, f.neg(values), mode)

    def multiply(self, values: Any, *, mode: str | None = None) -> Any:
        """The entries multiplied by `values`; by all of several for one entry."""
        return self._scattered("multiply", SCATTER_MUL, values, mode)

    mul = multiply

    def divide(self, values: Any, *, mode: str | None = None) -> Any:
        """The entries divided by `values`."""
        return self._scattered(
            "divide", SCATTER_MUL, f.div(1, values) if not is_python_number(values) else 1 / values, mode
        )

    def power(self, exponent: Any, *, mode: str | None = None) -> Any:
        """The entries to a power; to the product of several for one entry."""
        ones = bind1(FULL, Fill.of(self._x.type.shape, self._x.type.dtype, 1))
        return f.power(self._x, Entries(ones, self._key)._scattered("power", SCATTER_MUL, exponent, mode))

    def min(self, values: Any, *, mode: str | None = None) -> Any:
        """The smaller of each entry and its `values`."""
        return self._scattered("min", SCATTER_MIN, values, mode)

    def max(self, values: Any, *, mode: str | None = None) -> Any:
        """The larger of each entry and its `values`."""
        return self._scattered("max", SCATTER_MAX, values, mode)

    def apply(self, function: Any, *, mode: str | None = None) -> Any:
        """`function` of the entries, in their place."""
        return self.set(function(self.get(mode=mode)), mode=mode)

    def _positions(self, mode: str | None) -> Any:
        """Row-major positions of the entries; -1 where a position lies outside."""
        size = self._x.type.size
        numbers = f.add(iota((size,), 0, DType.I64 if size >= 2**31 - 1 else DType.I32), 1)
        numbers = reshape(numbers, self._x.type.shape)
        try:
            return f.sub(getitem(numbers, self._key, _mode("at[]", mode)), 1)
        except (OutOfRangeError, TypeRuleError) as fault:  # which speaks of the positions' type
            raise type(fault)(str(fault).replace(str(numbers.type), str(self._x.type), 1)) from None

    def _scattered(self, name: str, op: Op, values: Any, mode: str | None) -> Any:
        x = self._x
        found = self._positions(mode)
        values = _fitting(name, x, values, found.type.shape)
        count = found.type.size
        made = bind1(
            op,
            Along(0, 0, Mode.FILL),
            reshape(x, (x.type.size,)),
            reshape(found, (count,)),
            reshape(values, (count,)),
        )
        return reshape(made, x.type.shape)


def _mode(name: str, mode: str | None) -> Mode | None:
    return None if mode is None else index_mode(name, mode)


def _fitting(name: str, x: Any, values: Any, shape: tuple[int, ...]) -> Any:
    """Updates of the dtype of `x` and the shape of the entries."""
    if is_python_number(values):
        _, values = pair(f"at[].{name}", bind1(FULL, Fill.of((), x.type.dtype, 0)), values)
    values = tensor(values)
    if promote_dtypes(x.type.dtype, values.type.dtype) is not x.type.dtype:
        raise TypeRuleError(
            message(
                f"at[].{name} of {x.type} with values {values.type}",
                expected=f"values that {x.type.dtype.short} holds",
                got=values.type.dtype.short,
                fix=f"convert them: values.astype('{x.type.dtype.short}')",
                where=str(caller_location()),
            )
        )
    if broadcast_shapes(values.type.shape, shape) != shape:
        raise shapes_disagree(f"at[].{name}", x.type.with_shape(shape), values.type)
    return spread_to(convert(values, x.type.dtype), shape)


def at(x: Any) -> At:
    """What `x.at` is."""
    return At(x)
