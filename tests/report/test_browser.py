"""The report in Chromium: no console message, no request, and no sideways scrolling on a phone."""

from __future__ import annotations

import pytest
from browser import CHROMIUM

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium or google-chrome on the PATH")


def test_the_check_detects_violations(browser, tmp_path):
    path = tmp_path / "bad.html"
    path.write_text("<img src=http://example.invalid/x.png><script>console.error('seen')</script>")
    browser.open(path)
    assert any("seen" in line for line in browser.console)
    assert browser.requests == ["http://example.invalid/x.png"]


@pytest.mark.parametrize("fixture", ["page", "hostile_page"])
@pytest.mark.slow
def test_the_page_is_self_contained_and_logs_nothing(fixture, browser, request, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(request.getfixturevalue(fixture))
    browser.open(path)
    assert browser.run("document.querySelectorAll('svg').length") > 0
    assert browser.console == []
    assert browser.requests == []


@pytest.mark.parametrize("fixture", ["page", "hostile_page"])
@pytest.mark.parametrize("width", [365, 1200])
@pytest.mark.slow
def test_the_page_never_scrolls_sideways(fixture, width, browser, request, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(request.getfixturevalue(fixture))
    browser.open(path, width=width, height=800)
    assert browser.run("innerWidth") == width
    root = "document.documentElement"
    assert browser.run(f"{root}.scrollWidth") <= browser.run(f"{root}.clientWidth")
