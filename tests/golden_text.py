"""Golden files: texts we print, kept under `tests/golden` and reviewed as prose.

`TORCHLEAN_WRITE_GOLDEN=1 python -m pytest …` writes them anew; read the diff before committing it.
"""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "golden"


def require_golden(name: str, text: str) -> None:
    """Compare `text` with `tests/golden/<name>.txt`."""
    path = FOLDER / f"{name}.txt"
    if os.environ.get("TORCHLEAN_WRITE_GOLDEN"):
        FOLDER.mkdir(exist_ok=True)
        path.write_text(text + "\n", encoding="utf-8")
    assert path.is_file(), f"no golden file {path.name}; write it with TORCHLEAN_WRITE_GOLDEN=1 and review it"
    assert text + "\n" == path.read_text(encoding="utf-8")
