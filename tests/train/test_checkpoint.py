"""Checkpoint files: exact bits, and every malformed file refused before anything is installed."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from torchlean.errors import DataError, SerializationError
from torchlean.train import checkpoint

ARRAYS: dict[str, Any] = {
    "transposed": np.arange(6, dtype=np.float32).reshape(2, 3).T,
    "strided": np.arange(10)[::3],
    "scalar": np.array(3.5),
    "numpy scalar": np.float32(2),
    "bool": np.array([True, False]),
    "largest": np.array(2**64 - 1, dtype=np.uint64),
    "big-endian": np.arange(3, dtype=">i4"),
    "NaN payload": np.array([0x7FC00123, 0xFFC00001], np.uint32).view(np.float32),
    "-0 and subnormal": np.array([-0.0, 1e-310]),
    "empty": np.zeros((0, 2**40), np.float16),
    "../../evil": np.zeros(1, np.int8),
}


def written(header: Any, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


ENTRY = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}


@pytest.mark.parametrize("name", ARRAYS)
def test_every_array_comes_back_bit_equal(name: str) -> None:
    want = np.asarray(ARRAYS[name])
    got = checkpoint.unpack(checkpoint.pack({name: ARRAYS[name]}, {}), "memory").arrays[name]
    assert got.dtype == want.dtype.newbyteorder("=")
    assert got.shape == want.shape
    assert got.tobytes() == want.astype(want.dtype.newbyteorder("=")).tobytes()
    assert got.flags.writeable


GOOD = checkpoint.pack({"a": np.float32([1, 2]), "b": np.zeros(3, np.bool_)}, {"k": "v"})
FAULTS = {
    "empty": (b"", "it has 0 bytes"),
    "header size": (struct.pack("<Q", 10**9), "its header claims 1000000000 bytes of 0"),
    "truncated": (GOOD[:-1], "file not fully covered"),
    "trailing": (GOOD + b"x", "file not fully covered"),
    "not JSON": (written(b"nope"), "its header is not JSON"),
    "not UTF-8": (written(b"\xff\xfe{}"), "its header is not JSON"),
    "deep": (written(b"[" * 100_000), "its header is not JSON"),
    "a list": (written([1]), "its header is not a JSON object"),
    "duplicate": (
        written(b'{"a":' + json.dumps(ENTRY).encode() + b',"a":' + json.dumps(ENTRY).encode() + b"}", b"0000"),
        "duplicate name 'a'",
    ),
    "unknown dtype": (written({"a": {**ENTRY, "dtype": "BF16", "shape": [2]}}, b"0000"), "it holds dtypes BF16"),
    "entry": (written({"a": 3}), "it holds dtypes int"),
    "metadata": (written({"__metadata__": {"a": 1}}), "its metadata is not a table of texts"),
    "overlap": (written({"a": ENTRY, "b": ENTRY}, b"0000"), "is not a usable checkpoint"),
    "overflow": (written({"a": {**ENTRY, "shape": [2**40, 2**40]}}, b"0000"), "is not a usable checkpoint"),
    "half boolean": (
        written({"a": {"dtype": "BOOL", "shape": [1], "data_offsets": [0, 1]}}, b"\x02"),
        "a is boolean but holds bytes other than 0 and 1",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_malformed_bytes_are_refused(fault: str) -> None:
    content, text = FAULTS[fault]
    with pytest.raises(SerializationError, match="memory is not a usable checkpoint") as error:
        checkpoint.unpack(content, "memory")
    assert text in str(error.value)


def test_a_dtype_without_a_code_is_refused_on_writing() -> None:
    with pytest.raises(SerializationError, match="c cannot be saved"):
        checkpoint.pack({"c": np.zeros(1, np.complex128)}, {})


TREES = {"params": [{"bias": np.zeros(2, np.float32), "weight": np.ones((2, 3), np.float32)}], "state": np.int64(4)}


def test_trees_come_back_with_their_metadata(tmp_path: Path) -> None:
    path = tmp_path / "näme with spaces\nand a newline"
    checkpoint.save(path, TREES, {"architecture": "model", "step": "3"})
    trees, metadata = checkpoint.restore(path, TREES, "model")
    assert trees["params"][0]["weight"].tobytes() == TREES["params"][0]["weight"].tobytes()
    assert trees["state"] == 4
    assert metadata["step"] == "3"
    assert os.listdir(tmp_path) == [path.name]


def test_every_difference_is_listed_at_once(tmp_path: Path) -> None:
    path = tmp_path / "c"
    checkpoint.save(path, TREES, {"architecture": "model A"})
    like = {"params": [{"weight": np.ones((3, 2), np.float32), "scale": np.zeros(1)}], "state": np.int64(0)}
    with pytest.raises(SerializationError) as error:
        checkpoint.restore(path, like, "model B")
    assert str(error.value).splitlines() == [
        f"{str(path)!r} does not fit this model: 4 differences",
        "  expected: model B",
        "  got:      it was saved by the model model A; missing params[0]['scale'] float64[1]; "
        "extra params[0]['bias'] float32[2]; params[0]['weight'] is float32[2, 3], not float32[3, 2]",
    ]


@pytest.mark.parametrize(("key", "value"), [("format", "other"), ("version", "2")])
def test_other_formats_and_versions_are_refused(tmp_path: Path, key: str, value: str) -> None:
    metadata = {"format": checkpoint.FORMAT, "version": checkpoint.VERSION, key: value}
    (tmp_path / "c").write_bytes(checkpoint.pack({}, metadata))
    with pytest.raises(SerializationError, match=f"{key} '{value}'"):
        checkpoint.read(tmp_path / "c")


def test_places_that_cannot_be_read_or_written_are_named(tmp_path: Path) -> None:
    for path, text in ((tmp_path / "no" / "c", "No such file"), (tmp_path, "folder"), (tmp_path / ("n" * 256), "long")):
        with pytest.raises(DataError, match=r"cannot write .* \(\d+ bytes\)") as error:
            checkpoint.save(path, {}, {})
        assert text in str(error.value)
    with pytest.raises(DataError, match="cannot read"):
        checkpoint.read(tmp_path / "missing")
    checkpoint.save(tmp_path / ("n" * 255), {}, {})


def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "c"
    checkpoint.save(path, {"a": np.zeros(10)}, {})
    old = path.read_bytes()
    code = (
        "import resource, signal, sys, numpy as np\n"
        "from torchlean.train import checkpoint\n"
        "from torchlean.errors import DataError\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "try: checkpoint.save(sys.argv[1], {'a': np.zeros(10_000)}, {})\n"
        "except DataError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True)
    assert "cannot write" in done.stdout, done.stderr
    assert "bytes)" in done.stdout
    assert path.read_bytes() == old
    assert os.listdir(tmp_path) == ["c"]


def test_a_killed_writer_leaves_a_whole_file_and_its_rubbish_is_cleaned(tmp_path: Path) -> None:
    path = tmp_path / "c"
    contents = [{"a": np.full(50_000, n)} for n in (1.0, 2.0)]
    checkpoint.save(path, contents[0], {})
    code = (
        "import sys, numpy as np\n"
        "from torchlean.train import checkpoint\n"
        "print('ready', flush=True)\n"
        "while True:\n"
        "    for n in (1.0, 2.0): checkpoint.save(sys.argv[1], {'a': np.full(50_000, n)}, {})\n"
    )
    kills = 0
    for attempt in range(8):
        writer = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        time.sleep(0.003 * attempt)
        writer.kill()
        writer.wait()
        writer.stdout.close()
        kills += 1
        held = checkpoint.read(path).arrays["a"]
        assert set(held) in ({1.0}, {2.0})
    assert kills == 8
    checkpoint.save(path, contents[1], {})
    assert os.listdir(tmp_path) == ["c"]
