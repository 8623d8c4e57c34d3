"""Text from anywhere, made safe for each format a report is written in.

Names of functions, files, ops and data sets may hold anything. Control characters, lone surrogates and characters that
reorder or hide text are shown as escapes (`\\x1b`, `\\u202e`), so that what is read is what is there.
"""

from __future__ import annotations

import html
import json
import re
from typing import Any

# Controls, zero-width and bidi characters, line separators, fillers, variation selectors, surrogates, specials, tags.
_HIDDEN = re.compile(
    "[\\x00-\\x1f\\x7f-\\x9f\\xad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180e\\u200b-\\u200f\\u2028-\\u202e"
    "\\u2060-\\u206f\\u3164\\ufe00-\\ufe0f\\ufeff\\uffa0\\ufff0-\\uffff\\ud800-\\udfff\\U000e0000-\\U000e0fff]"
)
_MERMAID = re.compile(r"[^\w .,:()+*/%=|?!-]", re.ASCII)


def visible(text: str) -> str:
    """The text on one line, with every character that cannot be seen, or moves others, as a Python escape."""
    return _HIDDEN.sub(lambda found: _escape(found[0]), text)


def visible_lines(text: str) -> str:
    """As `visible`, keeping line ends and tabs."""
    return "\n".join([visible(line.replace("\t", "    ")) for line in text.split("\n")])


def _escape(character: str) -> str:
    code = ord(character)
    short = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(character)
    if short is not None:
        return short
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def markup(text: str) -> str:
    """For HTML and SVG, between tags and inside quoted attributes."""
    return html.escape(visible(text), quote=True)


def preformatted(text: str) -> str:
    """For a <pre>: lines are kept."""
    return html.escape(visible_lines(text), quote=True)


def script_json(data: Any) -> str:
    """JSON for a <script> block: nothing in it can close the block or open a comment, and it is ASCII."""
    made = json.dumps(data, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return made.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def dot_string(text: str) -> str:
    """A quoted string of the DOT language. Backslashes are doubled, since DOT reads `\\N` and others as escapes."""
    return '"' + visible(text).replace("\\", "\\\\").replace('"', '\\"') + '"'


def mermaid_string(text: str) -> str:
    """A quoted label of Mermaid. Whatever might be syntax, Markdown or HTML is written as a numbered entity."""
    return '"' + _MERMAID.sub(lambda found: f"#{ord(found[0])};", visible(text)) + '"'


def cut(text: str, length: int) -> str:
    """At most `length` characters, the last an ellipsis when something was left out."""
    return text if len(text) <= length else text[: length - 1] + "…"
