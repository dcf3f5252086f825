"""Limits of the page of a standard run: bytes, height before anything is opened, series in a figure, texts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sample
from browser import CHROMIUM, Browser
from tests.kept_runs import stored_run
from tests.texts import assert_states

from firsttouch.engine.work_kinds import reportable_experiments
from firsttouch.report.chapters import chapters
from firsttouch.report.page import load, render, write_report
from firsttouch.report.roles import MOST_SERIES, assign

UNREADABLE = """(() => {
  const found = [];
  for (const part of document.querySelectorAll('details')) part.open = true;
  for (const svg of document.querySelectorAll('svg')) {
    const all = svg.getBoundingClientRect();
    const texts = [...svg.querySelectorAll('text')].filter(t => t.textContent.trim() && !t.getAttribute('stroke'))
      .map(t => [t.textContent, t.getBoundingClientRect()]);
    texts.forEach(([text, box], i) => {
      if (box.left < all.left - 1 || box.right > all.right + 1 || text.endsWith('\\u2026')) found.push(['cut', text]);
      for (const [other, b] of texts.slice(i + 1)) {
        const w = Math.min(box.right, b.right) - Math.max(box.left, b.left);
        const h = Math.min(box.bottom, b.bottom) - Math.max(box.top, b.top);
        if (all.width && w > 2 && h > 3 && text !== other) found.push(['over', text, other]);
      }
    });
  }
  return found;
})()"""


@pytest.mark.exhaustive
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium or google-chrome on the PATH")
@pytest.mark.parametrize("run", ["h200-standard", "xeon-vm-standard", "h200-apps"])
def test_a_page_is_small_and_its_texts_are_readable(run: str, browser: Browser, tmp_path: Path) -> None:
    page = write_report([stored_run(run)], tmp_path / "report.html")
    assert page.stat().st_size <= 3_300_000  # with the second form, for phones, of what questions show at first
    browser.open(page, width=1280, height=900)
    assert browser.run("document.documentElement.scrollHeight") <= 12 * 900
    assert browser.run(UNREADABLE) == []


LESS_OFTEN = [pytest.param(name, marks=pytest.mark.exhaustive) for name in ("xeon-vm-standard", "h200-placements")]


@pytest.fixture(scope="module", params=["h200-standard", "h200-apps", *LESS_OFTEN])
def specs(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    """The specifications of all figures of a page."""
    found: list[dict[str, Any]] = []

    def keep(drawn: list[dict[str, Any] | None]) -> list[str]:
        found.extend(spec for spec in drawn if spec)
        return ["" for _ in drawn]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("firsttouch.report.page.to_svgs", keep)
        render(load([stored_run(request.param)]), reportable_experiments())
    assert len(found) > 20
    return found


@pytest.mark.slow
def test_a_figure_has_at_most_eight_series(specs: list[dict[str, Any]]) -> None:
    for spec in specs:
        rows = [row for row in spec["datasets"]["rows"] if row["kind"] in ("point", "segment")]
        series = {(r.get("colour", ""), r.get("dash", ""), r.get("segment", "")) for r in rows}
        if any(row["kind"] == "segment" for row in rows):
            series = {one for one in series if one[2]}
        assert len(series) <= MOST_SERIES, sorted(series)


UNIT = re.compile(r", (ns|us|ms|GB/s)$|\bper (second|MiB|iteration)$")
NUMBER = re.compile(r"\b(pages|threads|iteration|accesses|fault groups)\b")
RATIO = re.compile(r"\b(relative to|over|share of|part of|overlap)\b")


def axes_of(part: object) -> Iterator[tuple[str, bool]]:
    """The titles of quantitative axes and colour bars, and whether each of their labels has a unit."""
    for inner in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from axes_of(inner)
    if isinstance(part, dict) and part.get("type") == "quantitative" and "title" in part:
        title = " ".join([part["title"]] if isinstance(part["title"], str) else part["title"])
        yield title, "labelExpr" in (part.get("axis") or part.get("legend"))


@pytest.mark.slow
def test_every_axis_has_a_unit(specs: list[dict[str, Any]]) -> None:
    """On its labels or in its title, unless it counts something or is a ratio, as its title says."""
    titles = {axis for spec in specs for axis in axes_of({**spec, "datasets": None, "usermeta": None, "config": None})}
    assert len(titles) > 3
    for title, labelled in titles:
        assert title
        assert labelled or UNIT.search(title) or NUMBER.search(title) or RATIO.search(title), title


@pytest.mark.usefixtures("undrawn")
def test_a_page_of_many_points_is_thinned_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firsttouch.report.chapters.MOST_ROWS_OF_ALL", 40)
    loaded = load([stored_run("h200-pagefault")])  # 38 points
    assert [chapter.thinned for chapter in chapters(loaded, reportable_experiments())] == [""]
    monkeypatch.setattr("firsttouch.report.chapters.MOST_ROWS_OF_ALL", 20)
    (chapter,) = chapters(loaded, reportable_experiments())
    left_out = sum(section.left_out for section in chapter.sections)
    assert 10 < left_out < 38
    assert_states(chapter.thinned, f"{left_out} of 38 points", "firsttouch report --format csv")
    page = render(loaded, reportable_experiments())
    assert chapter.thinned in page
    assert re.search(r">\d+ of \d+ measured points; firsttouch report --format csv", page)


@pytest.mark.parametrize(
    ("colours", "dashes", "facets", "expected"),
    [
        (4, 2, 1, ("colour", "dash", ())),
        (5, 2, 1, ("colour", "", ("dash",))),  # no more than eight series, and all of them
        (5, 2, 3, ("colour", "", ("facet", "dash"))),
        (5, 2, 4, ("colour", "dash", ("facet",))),  # more than six panels would lose as much
    ],
)
def test_a_factor_becomes_panels_rather_than_series_that_are_left_out(
    colours: int, dashes: int, facets: int, expected: tuple[str, str, tuple[str, ...]]
) -> None:
    records = [
        sample.point("allocation", "cpu", 1.0, factors={"colour": c, "dash": d, "facet": f, "x": x}, counters={})
        for c in range(colours)
        for d in range(dashes)
        for f in range(facets)
        for x in (1, 2)
    ]
    roles = assign(records, axes=("x", "median"), colour="colour", dash="dash", facet="facet")
    assert (roles.colour, roles.dash, roles.panel) == expected
