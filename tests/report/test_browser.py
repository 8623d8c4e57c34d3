"""Reports as a person uses them, in headless Chromium; skipped where there is none."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from report.browser import Browser, chromium
from report.programs import control, hostile, large, small

from torchlean import optim, report
from torchlean.runtime.config import RunConfig
from torchlean.train import Trainer
from torchlean.train.examples import quickstart_data, quickstart_model

SHOWN = "document.querySelector('.sheet.shown').id"
FOCUSED = "document.activeElement.id"
PANEL = "document.getElementById('panel').innerText"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages that the tests open."""
    folder = tmp_path_factory.mktemp("pages")
    trainer = Trainer(quickstart_model(), "mse", optim.Adam(0.03), RunConfig(execution="lowered"))
    made = {
        "small": small(),
        "control": control(),
        "hostile": hostile(),
        "large": large(182),
        "trained": trainer.train(quickstart_data(), steps=20),
    }
    for name, thing in made.items():
        report.save(report.html(thing), folder / f"{name}.html")
    return folder


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    program = chromium()
    if program is None:
        pytest.skip("no Chromium here: none of its names is on the path, and TORCHLEAN_CHROMIUM names none")
    with Browser(program, tmp_path_factory.mktemp("browser")) as started:
        yield started


@pytest.fixture
def browser(running: Browser) -> Iterator[Browser]:
    """The browser; afterwards no page may have complained, or asked for anything but itself."""
    running.size(1280, 900)
    yield running
    assert running.complaints() == []
    assert len(running.requests()) == 1


def pixels(png: bytes) -> list[bytes]:
    """The rows of an 8-bit RGB or RGBA picture, unfiltered, as RGB triples."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    width, height, depth, kind = struct.unpack(">IIBB", png[16:26])
    assert (depth, kind in (2, 6)) == (8, True)
    at, data = 8, b""
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        if png[at + 4 : at + 8] == b"IDAT":
            data += png[at + 8 : at + 8 + length]
        at += 12 + length
    raw, step = zlib.decompress(data), 3 if kind == 2 else 4
    stride = width * step
    rows: list[bytes] = []
    before = bytearray(stride)
    for row in range(height):
        start = row * (stride + 1)
        filtered, line = raw[start], bytearray(raw[start + 1 : start + 1 + stride])
        for i in range(stride):
            left = line[i - step] if i >= step else 0
            up, corner = before[i], before[i - step] if i >= step else 0
            if filtered == 1:
                line[i] = (line[i] + left) & 255
            elif filtered == 2:
                line[i] = (line[i] + up) & 255
            elif filtered == 3:
                line[i] = (line[i] + (left + up) // 2) & 255
            elif filtered == 4:
                guess = left + up - corner
                nearest = min((left, up, corner), key=lambda value, guess=guess: abs(guess - value))
                line[i] = (line[i] + nearest) & 255
        rows.append(bytes(line))
        before = line
    return rows


def test_a_node_that_is_clicked_is_told_in_the_panel(browser: Browser, pages: Path) -> None:
    browser.open(pages / "small.html")
    number = browser.value("[...document.querySelectorAll('#s0 a.n')].findIndex(n => n.textContent.includes('tanh'))")
    browser.click(f"#b0-{number}")
    said = browser.value(PANEL)
    for part in (
        "tanh",
        "f32[2,8]",
        "programs.py:",
        "hidden = tl.ops.tanh(x @ params",
        "numpy.tanh",
        "Takes",
        "Claims",
        "Cost",
    ):
        assert part in said
    assert browser.value(FOCUSED) == f"b0-{number}"
    assert browser.value("document.querySelectorAll('.e.in').length") == 1
    assert browser.value("document.querySelectorAll('.n.near').length") == 2


def test_search_finds_by_op_id_type_line_and_capsule(browser: Browser, pages: Path) -> None:
    browser.open(pages / "small.html")
    browser.key("/")
    assert browser.value(FOCUSED) == "find"
    for query, least in (("tanh", 1), ("%7", 1), ("f32[2,8]", 3), ("programs.py", 10), ("numpy.matmul", 2)):
        browser.value("document.getElementById('find').select()")
        browser.type(query)
        assert browser.value("document.querySelectorAll('#s0 .n.hit').length") >= least, query
        assert "node" in browser.value("document.getElementById('count').textContent")
    browser.key("Enter")
    assert browser.value("document.getElementById('count').textContent").startswith("1 of ")
    assert "numpy.matmul" in browser.value(PANEL)
    browser.key("Escape")
    assert browser.value("document.querySelectorAll('.n.hit').length") == 0
    browser.key("/")
    browser.type("nothing-is-called-this")
    assert "Nothing is called that." in browser.value("document.getElementById('hits').innerText")


def test_the_keyboard_is_enough(browser: Browser, pages: Path) -> None:
    browser.open(pages / "small.html")
    assert browser.value("document.querySelectorAll('#s0 a.n[tabindex=\"0\"]').length") == 1
    browser.value("document.querySelector('#s0 a.n[tabindex=\"0\"]').focus({focusVisible: true})")
    first = browser.value(FOCUSED)
    browser.key("ArrowDown")
    second = browser.value(FOCUSED)
    assert second != first
    assert browser.value("getComputedStyle(document.querySelector('.n.on .box')).strokeWidth") == "2.5px"
    browser.key("ArrowUp")
    assert browser.value(FOCUSED).startswith("b0-")
    before = browser.value("document.getElementById('scale').textContent")
    browser.key("+")
    assert browser.value("document.getElementById('scale').textContent") != before
    browser.key("0")
    browser.key("Escape")
    assert browser.value("document.querySelectorAll('.n.on').length") == 0


def test_graphs_inside_nodes_open_and_close(browser: Browser, pages: Path) -> None:
    browser.open(pages / "control.html")
    number = browser.value("[...document.querySelectorAll('#s0 a.n')].findIndex(n => /^scan/.test("
                           "n.querySelector('.op').textContent))")  # fmt: skip
    browser.click(f"#b0-{number}")
    browser.value("[...document.querySelectorAll('#panel button')].find(b => b.textContent.startsWith('body')).click()")
    assert browser.value(SHOWN) == "s1"
    assert browser.value(FOCUSED) == "b1-0"
    browser.key("Escape")
    assert "body of scan" in browser.value(PANEL)
    browser.value("[...document.querySelectorAll('#panel button')].at(-1).click()")
    assert browser.value(SHOWN) == "s0"
    browser.value("document.getElementById('sheet').value = '2'")
    browser.value("document.getElementById('sheet').dispatchEvent(new Event('change'))")
    assert browser.value(SHOWN) == "s2"


def test_the_theme_follows_the_system_and_can_be_changed(browser: Browser, pages: Path) -> None:
    paper = "getComputedStyle(document.body).backgroundColor"
    browser.open(pages / "small.html", dark=True)
    dark = browser.value(paper)
    browser.click("#theme")
    light = browser.value(paper)
    assert dark != light
    browser.open(pages / "small.html")
    assert browser.value(paper) == light
    browser.click("#theme")
    assert browser.value(paper) == dark


def test_a_screenshot_shows_boxes_in_the_colours_of_the_legend(browser: Browser, pages: Path) -> None:
    browser.size(1000, 700)
    browser.open(pages / "small.html")
    rows = pixels(browser.screenshot())
    assert len(rows) == 700
    for name in ("--g0", "--g1", "--card"):  # reference, numpy, the paper
        colour = browser.value(f"getComputedStyle(document.documentElement).getPropertyValue('{name}')")
        wanted = bytes.fromhex(colour.strip().removeprefix("#"))
        assert sum([row.count(wanted) for row in rows]) > 200, name


@pytest.mark.parametrize("width", [1280, 420])
def test_the_page_is_never_wider_than_the_window(browser: Browser, pages: Path, width: int) -> None:
    browser.size(width, 800)
    for name in ("small", "control", "trained", "hostile"):
        browser.open(pages / f"{name}.html")
        assert browser.value("document.documentElement.scrollWidth") <= width, name


def test_two_thousand_nodes_open_in_two_seconds(browser: Browser, pages: Path) -> None:
    taken = min([browser.open(pages / "large.html") for _ in range(5)])
    count = browser.value("document.querySelectorAll('#s0 a.node, #s0 a.constant').length")
    print(f"{count} nodes are painted after {taken:.2f} s")
    assert count >= 2000
    assert taken < 2
    browser.key("/")
    browser.type("tanh")
    assert browser.value("document.querySelectorAll('.n.hit').length") >= 182
    browser.key("Enter")
    assert "tanh" in browser.value(PANEL)


def test_a_chart_says_the_point_under_the_pointer(browser: Browser, pages: Path) -> None:
    browser.open(pages / "trained.html")
    place = browser.value("(() => { const r = document.getElementById('chart0').getBoundingClientRect();"
                          "return [r.x + r.width / 2, r.y + r.height / 2]; })()")  # fmt: skip
    browser.move(*place)
    said = browser.value("document.querySelector('.plot output').textContent")
    assert said.startswith("update ")
    browser.value("document.querySelector('.plot').focus()")
    browser.key("ArrowRight")
    assert browser.value("document.querySelector('.plot output').textContent") != said


def test_hostile_names_run_nothing(browser: Browser, pages: Path) -> None:
    browser.open(pages / "hostile.html")
    browser.click("#b0-2")
    assert "<script>alert(1)" in browser.value(PANEL) + browser.value("document.body.innerText")
    assert browser.value("document.scripts.length") == 2
    assert browser.value("document.images.length") == 0


def test_a_link_to_a_node_selects_it(browser: Browser, pages: Path) -> None:
    browser.open(pages / "small.html")
    browser.value("location.hash = '#b0-6'; new Promise(done => setTimeout(() => done(1), 50))")
    assert browser.value("document.querySelector('.n.on').id") == "b0-6"


def test_without_a_script_everything_can_be_read(browser: Browser, pages: Path) -> None:
    browser.open(pages / "control.html", script=False)
    shown = browser.call("DOM.getDocument", depth=0)["root"]["nodeId"]
    sheets = browser.call("DOM.querySelectorAll", nodeId=shown, selector="section.sheet")["nodeIds"]
    assert len(sheets) > 3
    for sheet in sheets:
        box = browser.call("DOM.getBoxModel", nodeId=sheet)["model"]
        assert box["height"] > 100
    bars = browser.call("DOM.querySelectorAll", nodeId=shown, selector=".scripted")["nodeIds"]
    for bar in bars:
        with pytest.raises(RuntimeError, match="Could not compute box model"):
            browser.call("DOM.getBoxModel", nodeId=bar)


def test_it_prints_on_paper(browser: Browser, pages: Path) -> None:
    browser.open(pages / "small.html")
    printed = browser.pdf()
    assert printed[:5] == b"%PDF-"
    browser.call("Emulation.setEmulatedMedia", media="print", features=[])
    hidden = "[...document.querySelectorAll('.scripted')].every(e => getComputedStyle(e).display === 'none')"
    assert browser.value(hidden)
    assert browser.value("getComputedStyle(document.querySelector('.stage')).overflow") == "visible"
    browser.call("Emulation.setEmulatedMedia", media="", features=[])
    assert json.dumps(browser.complaints()) == "[]"
