"""Headless Chromium over its DevTools pipe, with the standard library only.

Messages are JSON texts ended by a zero byte, written to the browser's descriptor 3 and read from its descriptor 4.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
TIMEOUT_S = 60.0


def chromium() -> str | None:
    """The browser's path: TORCHLEAN_CHROMIUM, or the first known name on the path; None when there is none."""
    return os.environ.get("TORCHLEAN_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One browser process with one page. Use as a context manager."""

    def __init__(self, program: str, folder: Path, *, width: int = 1280, height: int = 900) -> None:
        to_read, to_write = os.pipe()
        from_read, from_write = os.pipe()
        command = [
            program,
            "--headless=new",
            "--no-sandbox",  # tests run as root in containers
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-extensions",
            "--no-first-run",
            "--hide-scrollbars",
            f"--user-data-dir={folder}",
            f"--window-size={width},{height}",
            "--remote-debugging-pipe",
            "about:blank",
        ]
        self._process = subprocess.Popen(
            ["/bin/bash", "-c", f'exec "$@" 3<&{to_read} 4>&{from_write}', "bash", *command],
            pass_fds=(to_read, from_write),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(from_write)
        self._out, self._in = to_write, from_read
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        target = self._ready()
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *exception: object) -> None:
        self._session = None
        with contextlib.suppress(OSError, RuntimeError, TimeoutError):
            self.call("Browser.close")
        os.close(self._out)
        os.close(self._in)
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _ready(self) -> str:
        end = time.monotonic() + TIMEOUT_S
        while time.monotonic() < end:
            for target in self.call("Target.getTargets")["targetInfos"]:
                if target["type"] == "page":
                    return target["targetId"]
            time.sleep(0.05)
        raise TimeoutError("the browser opened no page")

    # -- protocol ------------------------------------------------------------------------------------------------------
    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command and wait for its answer; RuntimeError when the browser refuses it."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._out, data) :]
        end = time.monotonic() + TIMEOUT_S
        while True:
            answer = self._next(end - time.monotonic())
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def _next(self, wait: float) -> dict[str, Any]:
        """The next message; events are kept."""
        end = time.monotonic() + wait
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                raise TimeoutError("the browser did not answer")
            read = os.read(self._in, 1 << 20)
            if not read:
                raise RuntimeError("the browser ended")
            self._buffer += read
        text, _, self._buffer = self._buffer.partition(b"\0")
        message = json.loads(text)
        if "method" in message:
            self.events.append(message)
        return message

    # -- what tests do -------------------------------------------------------------------------------------------------
    def open(self, path: Path | str, *, dark: bool = False, script: bool = True) -> float:
        """Load a file and wait until it is painted; the seconds that took, as the page's own clock has it."""
        self.events.clear()
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", media="", features=scheme)
        self.call("Emulation.setScriptExecutionDisabled", value=not script)
        started = time.perf_counter()
        self.call("Page.navigate", url=Path(path).resolve().as_uri())
        end = time.monotonic() + TIMEOUT_S
        while not any([event["method"] == "Page.loadEventFired" for event in self.events]):
            self._next(end - time.monotonic())
        if script:
            self.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")
        return time.perf_counter() - started

    def size(self, width: int, height: int) -> None:
        """The size of the window."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def value(self, expression: str) -> Any:
        """What a JavaScript expression gives; promises are waited for."""
        made = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in made:
            raise RuntimeError(str(made["exceptionDetails"]))
        return made["result"].get("value")

    def click(self, selector: str) -> None:
        """Press and release the mouse in the middle of an element."""
        place = self.value(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); "
            "e.scrollIntoView({block: 'center', inline: 'center', behavior: 'instant'}); "
            "const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call(
                "Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", buttons=1, clickCount=1
            )

    def move(self, x: float, y: float) -> None:
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def key(self, key: str, *, text: str = "", shift: bool = False) -> None:
        """Press a key by its DOM name; a character also types itself."""
        typed = text or (key if len(key) == 1 else "")
        codes = {"Enter": 13, "Escape": 27, "Tab": 9, "ArrowUp": 38, "ArrowDown": 40, "ArrowLeft": 37, "ArrowRight": 39}
        common = {"key": key, "windowsVirtualKeyCode": codes.get(key, 0), "modifiers": 8 if shift else 0}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=typed, **common)
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def type(self, text: str) -> None:
        self.call("Input.insertText", text=text)

    def screenshot(self, *, whole: bool = False) -> bytes:
        """A PNG of the window, or of the whole page."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"])

    def pdf(self) -> bytes:
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"])

    # -- what went wrong -----------------------------------------------------------------------------------------------
    def complaints(self) -> list[str]:
        """Exceptions, console errors and warnings, refused resources; policy violations are among them."""
        found: list[str] = []
        for event in self.events:
            params = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                found.append(str(params["exceptionDetails"]))
            elif event["method"] == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
                found.append(str(params["args"]))
            elif event["method"] == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                found.append(params["entry"]["text"])
        return found

    def requests(self) -> list[str]:
        """The addresses asked for since the page was opened."""
        return [
            event["params"]["request"]["url"] for event in self.events if event["method"] == "Network.requestWillBeSent"
        ]
