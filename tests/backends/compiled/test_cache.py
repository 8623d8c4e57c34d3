"""Libraries on disk: built once, checked on loading, built again when altered, never read where others may write."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from torchlean.backends.compiled.cache import DIGEST, LIBRARY, VARIABLE, Cache, checked, folder, key_of, unusable

CONTENT = b"a library" * 100


class Builder:
    """Counts how often it builds."""

    def __init__(self, content: bytes = CONTENT) -> None:
        self.content = content
        self.calls = 0

    def __call__(self, target: Path) -> None:
        self.calls += 1
        target.write_bytes(self.content)


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {VARIABLE: str(tmp_path / "cache")}


def test_an_entry_is_built_once(environ: dict[str, str]) -> None:
    build = Builder()
    first = Cache().library("k", build, environ)
    assert Cache().library("k", build, environ) == first
    assert build.calls == 1
    assert first.read_bytes() == CONTENT
    assert first.parent.parent == folder(environ)
    assert Cache().library("other", build, environ) != first
    assert build.calls == 2


def truncate(entry: Path) -> None:
    with open(entry / LIBRARY, "r+b") as file:
        file.truncate(10)


def poison(entry: Path) -> None:
    (entry / LIBRARY).write_bytes(b"X" + CONTENT[1:])


def forget(entry: Path) -> None:
    (entry / DIGEST).unlink()


def mangle(entry: Path) -> None:
    (entry / DIGEST).write_bytes(b"\xff\xfe")


def empty(entry: Path) -> None:
    (entry / LIBRARY).unlink()


def link(entry: Path) -> None:
    elsewhere = entry.parent / "elsewhere"
    (entry / LIBRARY).rename(elsewhere)
    (entry / LIBRARY).symlink_to(elsewhere)


def open_to_others(entry: Path) -> None:
    (entry / LIBRARY).chmod(0o777)


def open_folder(entry: Path) -> None:
    entry.chmod(0o777)


def a_file(entry: Path) -> None:
    for path in entry.iterdir():
        path.unlink()
    entry.rmdir()
    entry.write_text("in the way")


FAULTS = (truncate, poison, forget, mangle, empty, link, open_to_others, open_folder, a_file)


@pytest.mark.parametrize("damage", FAULTS)
def test_an_entry_that_is_not_whole_is_built_again(damage: Any, environ: dict[str, str]) -> None:
    build = Builder()
    first = Cache().library("k", build, environ)
    damage(first.parent)
    again = Cache().library("k", build, environ)
    assert build.calls == 2
    assert checked(again.parent) == again
    assert again.read_bytes() == CONTENT
    assert Cache().library("k", build, environ) == again
    assert build.calls == 2
    leftovers = [path.name for path in folder(environ).iterdir() if path.name.startswith(".")]
    assert leftovers == []


def test_a_failing_build_leaves_nothing(environ: dict[str, str]) -> None:
    def fails(target: Path) -> None:
        target.write_bytes(b"half")
        raise RuntimeError("interrupted")

    with pytest.raises(RuntimeError, match="interrupted"):
        Cache().library("k", fails, environ)
    assert list(folder(environ).iterdir()) == []


def test_a_build_that_makes_nothing_is_refused(environ: dict[str, str]) -> None:
    with pytest.raises(Exception, match="the C compiler made no library"):
        Cache().library("k", lambda target: None, environ)


def test_an_entry_somebody_made_meanwhile_is_used(environ: dict[str, str]) -> None:
    other = Builder()

    def build(target: Path) -> None:
        Cache().library("k", other, environ)
        target.write_bytes(b"mine, too late")

    assert Cache().library("k", build, environ).read_bytes() == CONTENT
    assert other.calls == 1


def blocked(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_text("no folder")
    return path


def shared(tmp_path: Path) -> Path:
    path = tmp_path / "shared"
    (path / "compiled").mkdir(parents=True)
    (path / "compiled").chmod(0o777)
    return path


def foreign(tmp_path: Path) -> Path:
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    path = tmp_path / "foreign"
    (path / "compiled").mkdir(parents=True)
    os.chown(path / "compiled", 12345, 12345)
    return path


@pytest.mark.parametrize(
    ("make", "why"),
    [(blocked, "Not a directory"), (shared, "others may write to it"), (foreign, "it belongs to another user")],
)
def test_a_folder_that_cannot_be_used_costs_one_warning(make: Any, why: str, tmp_path: Path) -> None:
    environ = {VARIABLE: str(make(tmp_path))}
    cache, build = Cache(), Builder()
    with pytest.warns(RuntimeWarning, match="compiled kernels are not kept") as seen:
        first = cache.library("k", build, environ)
    assert why in str(seen[0].message)
    assert VARIABLE in str(seen[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cache.library("k", build, environ) == first
        cache.library("other", build, environ)
    assert build.calls == 2
    assert first.read_bytes() == CONTENT
    assert not first.is_relative_to(folder(environ))


def test_where_entries_are_kept(tmp_path: Path) -> None:
    assert folder({VARIABLE: "/x"}) == Path("/x/compiled")
    assert folder({"XDG_CACHE_HOME": "/y"}) == Path("/y/torchlean/compiled")
    assert folder({}) == Path("~/.cache/torchlean/compiled").expanduser()
    home = tmp_path / "a" / "b"
    assert unusable(home) is None
    assert home.stat().st_mode & 0o777 == 0o700


def test_keys_tell_everything_apart() -> None:
    keys = {key_of("a", "b"), key_of("ab", ""), key_of("a", ("b",)), key_of("b", "a"), key_of("a", "b", "")}
    assert len(keys) == 5


PROCESS = """
import sys
from pathlib import Path
from torchlean.backends.compiled.cache import Cache
def build(target):
    target.write_bytes(b"library" * 10000)
for round in range(20):
    made = Cache().library(f"k{round}", build, {"TORCHLEAN_CACHE_DIR": sys.argv[1]})
    assert made.read_bytes() == b"library" * 10000
print("done")
"""


def test_two_processes_may_make_the_same_entries(tmp_path: Path) -> None:
    started = [
        subprocess.Popen([sys.executable, "-c", PROCESS, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    assert [process.communicate()[0] for process in started] == ["done\n"] * 3
    assert len([path for path in (tmp_path / "compiled").iterdir() if path.name.startswith("k")]) == 20
    assert [path.name for path in (tmp_path / "compiled").iterdir() if path.name.startswith(".")] == []
