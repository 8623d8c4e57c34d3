"""Text from anywhere is shown as what it is, in every format."""

from __future__ import annotations

import html
import json

from report.programs import NASTY

from torchlean.report.escape import (
    cut,
    dot_string,
    markup,
    mermaid_string,
    preformatted,
    script_json,
    visible,
    visible_lines,
)


def test_what_cannot_be_seen_is_escaped() -> None:
    assert visible("a\x1b[31m\u202eb\x00\n") == "a\\x1b[31m\\u202eb\\x00\\n"
    assert visible("\x7f\x85\u200b\u2066\ufeff\ud800\U000e0041") == "\\x7f\\x85\\u200b\\u2066\\ufeff\\ud800\\U000e0041"


def test_what_can_be_seen_is_kept() -> None:
    text = "∇ℓ(θ) × 学習 — ñ é <b>\\n"
    assert visible(text) == text


def test_lines_are_kept_where_they_are_wanted() -> None:
    assert visible_lines("a\n\tb\x1b\r\n") == "a\n    b\\x1b\\r\n"
    assert preformatted("<a>\n\x1b") == "&lt;a&gt;\n\\x1b"


def test_markup_has_no_syntax_left() -> None:
    made = markup(NASTY)
    assert not set(made) & set("<>\"'\x1b\u202e\x00\n")
    assert html.unescape(made) == visible(NASTY)


def test_a_script_block_cannot_be_closed() -> None:
    made = script_json({"name": NASTY})
    assert not set(made) & set("<>&\u2028\n")
    assert made.isascii()
    assert json.loads(made) == {"name": NASTY}


def test_a_dot_string_ends_where_it_should() -> None:
    assert dot_string('a"\\') == '"a\\"\\\\"'


def test_a_mermaid_label_has_only_letters_and_numbered_entities() -> None:
    made = mermaid_string('a[b]"#`<br>`é\\')
    assert made == '"a#91;b#93;#34;#35;#96;#60;br#62;#96;#233;#92;"'


def test_long_texts_are_cut_with_a_mark() -> None:
    assert (cut("abcdef", 4), cut("abcd", 4)) == ("abc…", "abcd")
