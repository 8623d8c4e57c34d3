"""`docs/architecture.md` names only modules that exist, and its layers are those of the import contracts."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

NAME = re.compile(r"(?<![\w./])[a-z_0-9]+\.py\b|(?<![\w./])[a-z_0-9]+/(?= |$)")


def named_paths(text: str) -> list[str]:
    """The files and folders of the tree in the section "Modules", as paths below the checkout."""
    block = text.split("## Modules", 1)[1].split("```", 2)[1]
    folders: list[tuple[int, str]] = []
    found: list[str] = []
    for line in block.splitlines():
        indent = len(line) - len(line.lstrip())
        names = NAME.findall(line)
        if not names:
            continue
        if indent <= 6:
            folders = [(at, name) for at, name in folders if at < indent]
        parents = "".join([name for _, name in folders])
        for name in names:
            if name.endswith("/"):
                folders.append((indent, name))
                parents = "".join([held for _, held in folders])
                found.append(parents)
            else:
                found.append(parents + name)
    return found


def test_the_module_tree_names_what_exists(root: Path) -> None:
    paths = named_paths((root / "docs" / "architecture.md").read_text(encoding="utf-8"))
    assert len(paths) >= 80
    assert [path for path in paths if not (root / path).exists()] == []


def test_the_layers_are_those_of_the_contracts(root: Path) -> None:
    text = " ".join((root / "docs" / "architecture.md").read_text(encoding="utf-8").split())
    contracts = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    checked = 0
    for contract in contracts:
        if contract.get("containers", [""])[0] in ("torchlean.ir", "torchlean.ir.ops", "torchlean.transforms"):
            layers = [re.sub(r" \| \(\w+\)|\(\w+\) \| |\(\w+\)", "", layer) for layer in contract["layers"]]
            assert " · ".join(layers) in text, contract["name"]
            checked += 1
    assert checked == 3
