"""The report in Chromium: no console message, no request, and no sideways scrolling on a phone."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium or google-chrome on the PATH")


def browse(path, tmp_path, *options):
    """Loads a file. Returns the final DOM, console messages, and the URLs that the page (not the browser) requested."""
    log = tmp_path / "net.json"
    command = [
        CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", f"--user-data-dir={tmp_path}/p",
        "--disable-background-networking", "--disable-component-update", "--enable-logging=stderr", "--v=0",
        "--host-resolver-rules=MAP * ~NOTFOUND", f"--log-net-log={log}", *options, "--dump-dom", path.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    events = [e.get("params", {}) for e in json.loads(log.read_text())["events"]]
    asked = [p["url"] for p in events if "url" in p and p.get("initiator", "not an origin") != "not an origin"]
    return done.stdout, re.findall(r".*CONSOLE.*", done.stderr), asked


def test_the_check_detects_violations(tmp_path):
    path = tmp_path / "bad.html"
    path.write_text("<img src=http://example.invalid/x.png><script>console.error('seen')</script>")
    _, console, asked = browse(path, tmp_path)
    assert any("seen" in line for line in console)
    assert asked == ["http://example.invalid/x.png"]


@pytest.mark.parametrize("fixture", ["page", "hostile_page"])
def test_the_page_is_self_contained_and_logs_nothing(fixture, request, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(request.getfixturevalue(fixture))
    dom, console, asked = browse(path, tmp_path)
    assert "<svg" in dom
    assert console == []
    assert asked == []


@pytest.mark.parametrize("fixture", ["page", "hostile_page"])
@pytest.mark.parametrize("width", [380, 1200])
def test_the_page_never_scrolls_sideways(fixture, width, request, tmp_path):
    (tmp_path / "report.html").write_text(request.getfixturevalue(fixture))
    frame = tmp_path / "frame.html"
    frame.write_text(
        f'<iframe id=f src="report.html" style="width:{width}px;height:800px;border:0"></iframe><script>onload=()=>{{'
        "const d=document.getElementById('f').contentDocument.documentElement;"
        "document.title='widths '+d.scrollWidth+' '+d.clientWidth}</script>"
    )
    dom, _, _ = browse(frame, tmp_path, "--allow-file-access-from-files")
    widths = re.search(r"<title>widths (\d+) (\d+)", dom)
    assert widths
    assert int(widths[1]) <= int(widths[2])
