"""Reading a page as a strict reader would: balanced tags, unique ids, links that lead somewhere."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from typing import Any

VOID = frozenset({"meta", "link", "input", "br", "img", "hr"})
LOADING = frozenset({"src", "srcset", "data", "poster", "action", "formaction", "background", "ping", "manifest"})
NAMESPACES = frozenset({"http://www.w3.org/2000/svg"})


class Reader(HTMLParser):
    """Collects what a test asks of a page."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.faults: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: dict[str, int] = {}
        self.attributes: list[tuple[str, str, str]] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self.styles: list[str] = []
        self.feed(text)
        self.close()
        if self.open:
            self.faults.append(f"not closed: {self.open}")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] = self.tags.get(tag, 0) + 1
        for name, value in attrs:
            self.attributes.append((tag, name, value or ""))
            if name == "id":
                self.ids.append(value or "")
            if name == "href":
                self.links.append(value or "")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"</{tag}> at {self.getpos()}")

    def handle_data(self, data: str) -> None:
        inside = self.open[-1] if self.open else ""
        {"script": self.scripts, "style": self.styles}.get(inside, self.texts).append(data)

    @property
    def data(self) -> Any:
        """What the page's script is given."""
        return json.loads(self.scripts[0])


def require_sound(text: str) -> Reader:
    """A well-formed page that is complete in itself."""
    read = Reader(text)
    assert read.faults == []
    assert len(set(read.ids)) == len(read.ids)
    inside = [link for link in read.links if link.startswith("#")]
    assert {link[1:] for link in inside} <= set(read.ids)
    assert {link for link in read.links if not link.startswith("#")} <= {"data:,"}
    assert [found for found in read.attributes if found[1] in LOADING] == []
    assert [found for found in read.attributes if found[1].startswith("on") or found[1] == "style"] == []
    assert set(re.findall(r"\b[a-z]+://[^\s\"'<>]*", " ".join(read.styles))) == set()
    assert "@import" not in "".join(read.styles)
    assert set(re.findall(r"url\(([^)]*)\)", text)) <= {f"#arrow{at}" for at in range(1000)}
    namespaces = {value for _, name, value in read.attributes if name.startswith("xmlns")}
    assert namespaces <= NAMESPACES
    return read
