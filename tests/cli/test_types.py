"""Types as text on the command line."""

from __future__ import annotations

import pytest

from torchlean.cli.types import parse_type
from torchlean.errors import DataError
from torchlean.ir.dtypes import DType
from torchlean.ir.types import TensorType

F32 = DType.F32


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("f32[32,4]", TensorType((32, 4), F32)),
        (" f32[ 32 , 4 ] ", TensorType((32, 4), F32)),
        ("f32[]", TensorType((), F32)),
        ("i64", TensorType((), DType.I64)),
        ("bool[0]", TensorType((0,), DType.BOOL)),
        ("()", ()),
        ("(f32[2],)", (TensorType((2,), F32),)),
        ("[f32[2], f32[3]]", [TensorType((2,), F32), TensorType((3,), F32)]),
        ("{w: f32[8,2], b: f32[8]}", {"w": TensorType((8, 2), F32), "b": TensorType((8,), F32)}),
        ("({w:(f32[1],f32)},[])", ({"w": (TensorType((1,), F32), TensorType((), F32))}, [])),
    ],
)
def test_types_are_read(text: str, want: object) -> None:
    assert parse_type(text) == want


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", f"no dtype ({', '.join(dtype.short for dtype in DType)}) at column 1"),
        ("f33[2]", "no dtype"),
        ("f32[2", "something after the type at column 4"),
        ("f32[-1]", "something after the type at column 4"),
        ("f32[2,]", "a shape that is not a list of sizes at column 1"),
        ("f32[9999999999999999999]", "a shape that is not a list of sizes"),
        ("f32[2] x", "something after the type at column 8"),
        ("(f32 f32)", "expected a comma or ')' at column 6"),
        ("{w f32}", "expected ':' at column 4"),
        ("{w: f32, w: f32}", "expected a new name"),
        ("{w: f32", "expected a comma or '}'"),
        ("[" * 100, "more than 50 levels"),
    ],
)
def test_faults_are_named_with_their_column(text: str, what: str) -> None:
    with pytest.raises(DataError) as error:
        parse_type(text)
    assert what in str(error.value)
    assert len(str(error.value).splitlines()) == 2
