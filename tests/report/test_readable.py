"""Text on every kind of page is at least 12 pixels high as it is shown, and what matters fits desktops and phones."""

from __future__ import annotations

from pathlib import Path

import pytest
from browser import CHROMIUM, Browser

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium or google-chrome on the PATH")

SMALL = """
[...document.querySelectorAll('body *')].filter(e => {
  if (!e.checkVisibility() || e.closest('.hidden-text')) return false;
  if (![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())) return false;
  const svg = e.closest('svg');
  const scale = svg ? svg.getBoundingClientRect().width / svg.getAttribute('width') : 1;
  return parseFloat(getComputedStyle(e).fontSize) * scale < 11.99;
}).map(e => e.localName + ' ' + e.textContent.slice(0, 40))
"""
WIDE = """
[...document.querySelectorAll('figure .scroll')].filter(e => e.checkVisibility() && e.querySelector('svg')
  && e.scrollWidth > e.clientWidth + 1).map(e => e.querySelector('svg').getAttribute('aria-label'))
"""
OPEN = "document.querySelectorAll('details').forEach(d => d.open = true)"
CELLS = ("relative to", "of each iteration", "fastest interface")
"""What titles of figures say that have more cells than a phone has room for."""


def test_the_check_finds_small_text(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "small.html"
    path.write_text(
        "<p style='font-size: 11px'>a</p><p>b</p><svg width=100 style='width: 50px'><text font-size=16>c</text></svg>"
    )
    browser.open(path)
    assert browser.run(SMALL) == ["p a", "text c"]


@pytest.mark.parametrize("width", [1280, 390])
def test_text_is_at_least_twelve_pixels(any_page: Path, browser: Browser, width: int) -> None:
    browser.open(any_page, width=width, height=844, phone=width < 400)
    browser.run(OPEN)
    assert browser.run(SMALL) == []


def test_a_desktop_shows_every_figure_as_a_whole(any_page: Path, browser: Browser) -> None:
    browser.open(any_page, width=1280)
    browser.run(OPEN)
    assert browser.run(WIDE) == [] or "hostile" in str(any_page)  # it has numbers of 90 digits


def test_a_phone_shows_what_is_open_without_scrolling_sideways(any_page: Path, browser: Browser) -> None:
    browser.open(any_page, width=390, height=844, phone=True)
    assert browser.run("document.documentElement.scrollWidth") <= 390
    wide = [name for name in browser.run(WIDE) if not any(words in name for words in CELLS)]
    assert wide == [] or "hostile" in str(any_page)  # it has numbers of 90 digits


def test_a_phone_and_a_desktop_see_one_form_of_a_figure_each(browser: Browser, page: str, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(page)
    shown = "[...document.querySelectorAll('main > section > .part > figure, .first-screen > figure')].map(f =>"
    shown += " [...f.querySelectorAll('svg')]).filter(s => s.length)"
    shown += ".map(s => s.filter(e => e.checkVisibility()).length).filter(n => n !== 1)"
    forms = "[...document.querySelectorAll('.on-phone')].length"
    for width in (1280, 390):
        browser.open(path, width=width, script=False)
        assert browser.run(forms) > 2
        assert browser.run(shown) == []


def test_a_link_to_a_point_leads_to_the_form_that_is_seen(browser: Browser, page: str, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(page)
    for width, form in ((1280, ".on-desktop"), (390, ".on-phone")):
        browser.open(path, width=width)
        ids = browser.run(
            f"[...document.querySelectorAll('{form} [data-p]')].map(e => e.dataset.p)"
            ".filter(id => !document.getElementById(id))"
        )
        if ids:
            browser.open(path, f"#{ids[0]}", width=width)
            assert browser.run("document.querySelector('svg .at').checkVisibility()")
