"""Limits of the page of a standard run: bytes, height before anything is opened, series in a figure, texts."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pytest
from test_browser import CHROMIUM, browse

from firsttouch.report.page import load, render, write_report
from firsttouch.report.palette import Palette
from firsttouch.report.points import MOST_SERIES

RESULTS = Path(__file__).parents[2] / "results"
MEASURE = """<iframe id=f src="report.html" style="width:1280px;height:900px;border:0"></iframe><script>
onload = () => {
  const page = document.getElementById('f').contentDocument, found = [];
  const height = page.documentElement.scrollHeight;
  for (const part of page.querySelectorAll('details')) part.open = true;
  for (const svg of page.querySelectorAll('svg')) {
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
  document.title = 'MEASURED ' + JSON.stringify([height, found]);
}
</script>"""


@pytest.mark.exhaustive
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium or google-chrome on the PATH")
@pytest.mark.parametrize("run", ["h200-standard", "xeon-vm-standard", "h200-apps"])
def test_a_page_is_small_and_its_texts_are_readable(run: str, tmp_path: Path) -> None:
    page = write_report([RESULTS / run], tmp_path / "report.html")
    assert page.stat().st_size <= 3_000_000
    (tmp_path / "frame.html").write_text(MEASURE)
    dom, _, _ = browse(tmp_path / "frame.html", tmp_path, "--allow-file-access-from-files")
    measured = re.search(r"<title>MEASURED (.*?)</title>", dom, re.DOTALL)
    assert measured
    height, found = json.loads(html.unescape(measured[1]))
    assert height <= 12 * 900
    assert found == []


@pytest.mark.exhaustive
def test_a_figure_has_at_most_eight_series() -> None:
    from firsttouch.report.page import chapters, drawings
    from firsttouch.work import reportable_experiments

    palette = Palette()
    for chapter in chapters(load([RESULTS / "h200-standard"]), reportable_experiments()):
        for section in chapter.sections:
            for drawing in drawings(section, palette):
                rows = drawing.spec["datasets"]["rows"] if drawing.spec else []
                series = {(r.get("colour", ""), r.get("dash", "")) for r in rows if r["kind"] == "point"}
                assert len(series) <= MOST_SERIES, (section.name, section.device, drawing.title)


def test_a_page_of_many_points_is_thinned_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firsttouch.report.page.MOST_ROWS_OF_ALL", 40)
    from firsttouch.work import reportable_experiments

    page = render(load([RESULTS / "h200-pagefault"]), reportable_experiments())
    assert "This page is thinned:" not in page  # 38 points
    monkeypatch.setattr("firsttouch.report.page.MOST_ROWS_OF_ALL", 20)
    page = render(load([RESULTS / "h200-pagefault"]), reportable_experiments())
    assert re.search(r"This page is thinned: \d+ of 38 points are in no table", page)
    assert re.search(r"<h4>\d+ of \d+ measured points; firsttouch report --format csv writes all", page)
