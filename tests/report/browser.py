"""A headless Chromium that tests and docs/figures/screenshots.py drive over a pipe, without further packages."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
OPTIONS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--host-resolver-rules=MAP * ~NOTFOUND", "--hide-scrollbars"),
)
KEYS = {"Tab": 9, "Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowRight": 39}


class Browser:
    """One page. `console` has the messages that it logged, `requests` the URLs that it asked for beyond itself."""

    def __init__(self) -> None:
        assert CHROMIUM
        self.console: list[str] = []
        self.requests: list[str] = []
        self._number, self._buffer = 0, b""
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        (into, self._to), (self._from, out) = os.pipe(), os.pipe()
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 20) for fd in (into, out)]

        def place() -> None:  # Chromium reads commands from descriptor 3 and answers on 4
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        command = [CHROMIUM, *OPTIONS, f"--user-data-dir={self._profile.name}", "--remote-debugging-pipe"]
        self._process = subprocess.Popen(
            command, preexec_fn=place, pass_fds=(3, 4), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        for fd in (into, out, *high):
            os.close(fd)
        self._session = ""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(20)
        os.close(self._to)
        os.close(self._from)
        self._profile.cleanup()

    def call(self, method: str, **params: Any) -> Any:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                assert "error" not in answer, (method, answer)
                return answer["result"]

    def _read(self) -> dict[str, Any]:
        until = time.monotonic() + 60
        while b"\0" not in self._buffer:
            assert select.select([self._from], [], [], max(0, until - time.monotonic()))[0], "chromium is silent"
            part = os.read(self._from, 1 << 20)
            assert part, "chromium ended"
            self._buffer += part
        text, _, self._buffer = self._buffer.partition(b"\0")
        event: dict[str, Any] = json.loads(text)
        method, params = event.get("method", ""), event.get("params", {})
        if method == "Runtime.consoleAPICalled":
            self.console.append(" ".join(str(a.get("value", a.get("description"))) for a in params["args"]))
        elif method == "Runtime.exceptionThrown":
            self.console.append(params["exceptionDetails"].get("exception", {}).get("description", "exception"))
        elif method == "Log.entryAdded":
            self.console.append(params["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            url = params["request"]["url"]
            if url.partition("#")[0] != params["documentURL"].partition("#")[0] and not url.startswith("data:"):
                self.requests.append(url)
        return event

    def open(self, path: Path, fragment: str = "", *, width: int = 1280, height: int = 900, dark: bool = False,
             phone: bool = False, script: bool = True) -> None:  # fmt: skip
        """Loads a file and waits for it."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Emulation.setScriptExecutionDisabled", value=not script)
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=path.as_uri() + fragment)
        until = time.monotonic() + 60
        while self.run("location.protocol + document.readyState") != "file:complete":
            if time.monotonic() > until:
                raise TimeoutError("the page does not load")
            time.sleep(0.02)

    def run(self, script: str) -> Any:
        """The value of an expression on the page."""
        done = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def middle(self, element: str) -> tuple[float, float]:
        """The middle of an element, which is brought into view, once it stays there. element: an expression."""
        script = (
            f"(e => {{ e.scrollIntoView({{block: 'center'}}); const b = e.getBoundingClientRect();"
            f" return [b.x + b.width / 2, b.y + b.height / 2]; }})({element})"
        )
        before, box = None, self.run(script)
        while box != before:
            time.sleep(0.02)
            before, box = box, self.run(script)
        return box[0], box[1]

    def hover(self, element: str) -> None:
        x, y = self.middle(element)
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click(self, element: str) -> None:
        x, y = self.middle(element)
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, key: str, *, shift: bool = False) -> None:
        for kind in ("rawKeyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=KEYS[key],
                modifiers=8 if shift else 0,
            )  # fmt: skip
            if kind == "rawKeyDown" and key == "Enter":
                self.call("Input.dispatchKeyEvent", type="char", key=key, text="\r")

    def type(self, text: str) -> None:
        self.call("Input.insertText", text=text)

    def screenshot(self) -> bytes:
        """The visible part of the page as PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])
