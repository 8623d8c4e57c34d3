"""Reports a person would look at: one HTML file for a graph, a plan, a program or a training run; SVG, DOT, Mermaid.

`html(thing)` is the whole file as text. Nothing here decides anything: it lays out what the lower layers say.
"""

from __future__ import annotations

from torchlean.report.collect import page_of, read
from torchlean.report.export import dot, fragment, html, mermaid, save, svg, text
from torchlean.report.sheets import MAX_NODES

__all__ = ["MAX_NODES", "dot", "fragment", "html", "mermaid", "page_of", "read", "save", "svg", "text"]
