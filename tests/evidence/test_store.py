"""Record files: written and read back; anything that was altered is refused, by name."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchlean.errors import InternalError, SerializationError
from torchlean.evidence.claim import ClaimRecord, Outcome, Run
from torchlean.evidence.closure import Reached
from torchlean.evidence.store import Book, parse, render

RUN = Run("k1", "2026-01-31T12:00:00Z", "0.1.0", (("numpy", "2.4"),), "x86_64: AVX2", False, (("pack/a.py", "00"),))
OUTCOME = Outcome(
    "chip.neg", "value", ("t::a",), 12, (), 0.5, "ulp", (("0", 11), ("1", 1)), "Bitwise", 7, exhaustive=False
)
SYMBOLS = (Reached("pack/a.py", "f", "aa", (1,)), Reached("pack/a.py", "g", "bb", ()))


def book(**changes: object) -> Book:
    outcome = replace(OUTCOME, **changes)
    held = ClaimRecord(outcome, (("bound", "Bitwise()"), ("op", "neg")), (0,), RUN)
    return Book("chip", {(outcome.capsule, outcome.claim, outcome.exhaustive): held}, {"k1": SYMBOLS})


TEXT = render(book())


def sealed(alter: Callable[[str], str]) -> bytes:
    """The file with other contents under a hash that fits them."""
    head, _, rest = TEXT.partition('",\n"body": ')
    contents = alter(rest.removesuffix("\n}\n"))
    digest = hashlib.sha256(contents.encode()).hexdigest()
    return f'{head[:-64]}{digest}",\n"body": {contents}\n}}\n'.encode()


def read_whole(data: bytes) -> None:
    """Everything in a file, which is otherwise looked at when it is asked for."""
    held = parse(data, "chip.json")
    assert held.claims
    assert held.symbols


@pytest.mark.parametrize("worst", [None, 0.1, math.inf])
def test_a_book_comes_back_as_it_was(worst: float | None) -> None:
    written = render(book(worst=worst, failures=("numpy.exp: 1 ≠ 2\n  got: 3",)))
    read = parse(written.encode(), "file")
    assert render(read) == written
    held = read.get(("chip.neg", "value", False, ""))
    assert held == ClaimRecord(
        replace(OUTCOME, worst=worst, failures=("numpy.exp: 1 ≠ 2\n  got: 3",)),
        (("bound", "Bitwise()"), ("op", "neg")),
        (0,),
        RUN,
    )
    assert read.symbols["k1"] == SYMBOLS
    assert read.get(("chip.neg", "vjp", False, "")) is None
    assert sealed(lambda text: text) == TEXT.encode()  # so that the altered ones differ in what they alter


def test_a_file_with_other_line_ends_is_the_same_file() -> None:
    assert parse(TEXT.replace("\n", "\r\n").encode(), "file").get(("chip.neg", "value", False, "")) is not None


def test_an_exhaustive_record_stands_beside_the_sampled_one() -> None:
    both = Book("chip", {**book().claims, **book(exhaustive=True).claims}, {"k1": SYMBOLS})
    assert [key[2] for key in parse(render(both).encode(), "file").claims] == [False, True]


def test_a_record_edited_by_hand_is_refused() -> None:
    edited = TEXT.replace('"cases":12', '"cases":13')
    assert edited != TEXT
    with pytest.raises(SerializationError) as refused:
        parse(edited.encode(), "chip.json")
    first, *rest = str(refused.value).splitlines()
    assert first == "the evidence record chip.json was altered after it was written"
    assert rest[-1].strip().startswith("fix:      write it again: torchlean evidence run")


@pytest.mark.parametrize(
    ("alter", "text"),
    [
        (lambda text: text.replace('"schema":1', '"schema":2'), "has schema 2, and this version reads 1"),
        (lambda text: text.replace('"cases":12', '"cases":-1'), "has a malformed body: TypeError -1 is no count"),
        (lambda text: text.replace('"cases":12', '"cases":true'), "TypeError True is no count"),
        (lambda text: text.replace('"worst":0.5', '"worst":NaN'), "holds NaN, which is no JSON number"),
        (lambda text: text.replace('"seed":7', '"seed":7,"seed":7'), "has a duplicate key"),
        (lambda text: text.replace('"seed":7', '"sown":7'), "a claim has the fields"),
        (lambda text: text.replace('"quick":false', '"quick":0'), "TypeError 0 is neither true nor false"),
        (lambda text: text.replace('"unit":"ulp"', '"unit":3'), "TypeError 3 is no text"),
        (lambda text: text.replace('"provider":"chip"', '"provider":"chip","more":1'), "the body has the fields"),
        (lambda text: text.replace('"claim":"value"', '"claim":"speed"'), "has a claim of 'speed'"),
        (lambda text: text.replace('"roots":[0]', '"roots":[2]'), "starts at a symbol that is not there"),
        (lambda text: text.replace("[1]]", "[5]]"), "has an edge to a symbol that is not there"),
        (lambda text: text.replace('"run":"k1"', '"run":"k2"'), "has a malformed body: KeyError"),
        (lambda text: text.partition(',\n"symbols"')[0], "has no source closures"),
        (lambda text: text.replace("{", "[", 1), "has a malformed body: JSONDecodeError"),
        (
            lambda text: text.replace(
                '"claims":[\n', '"claims":[\n' + text.partition("[\n")[2].partition("\n]")[0] + ",\n"
            ),
            "records chip.neg value twice",
        ),
    ],
)
def test_malformed_contents_are_refused(alter: Callable[[str], str], text: str) -> None:
    data = sealed(alter)
    assert data != TEXT.encode()
    with pytest.raises(SerializationError) as refused:
        read_whole(data)
    assert str(refused.value).startswith("the evidence record chip.json ")
    assert text in str(refused.value)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "is no evidence record file"),
        (b"\xff", "is not UTF-8 at byte 0"),
        (b"{}", "is no evidence record file"),
        (b" " * (64 * 2**20 + 1), "is too large"),
    ],
)
def test_what_is_no_record_file_is_refused(data: bytes, text: str) -> None:
    with pytest.raises(SerializationError, match=text):
        parse(data, "chip.json")


@given(st.integers(0, len(TEXT.encode()) - 1), st.integers(0, 255))
def test_no_single_byte_can_be_changed(at: int, value: int) -> None:
    data = bytearray(TEXT.encode())
    if data[at] == value or bytes([data[at], value]) in (b"\n\r", b"\r\n"):
        return
    data[at] = value
    with pytest.raises(SerializationError):
        parse(bytes(data), "chip.json")


def test_an_outcome_is_of_a_known_claim_and_passed_when_something_was_tried() -> None:
    assert OUTCOME.passed
    assert not replace(OUTCOME, cases=0).passed
    assert not replace(OUTCOME, failures=("no",)).passed
    with pytest.raises(InternalError, match="an outcome is of a claim among shape, layout, value, vjp, not 'speed'"):
        replace(OUTCOME, claim="speed")
