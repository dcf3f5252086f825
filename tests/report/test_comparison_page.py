"""The page of a comparison: conditions, the answer and dot plots first, on few screens; the rest opens on demand."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from browser import CHROMIUM
from tests.comparison.runs import RESULTS, another_run, copy, slower

from firsttouch.comparison.compare import compare_results
from firsttouch.engine.work_kinds import reportable_experiments
from firsttouch.report import comparison as pages

SCREENS = 6
"""Of 800 pixels."""


def specs_of(monkeypatch: pytest.MonkeyPatch, *sides: str) -> tuple[str, list[dict]]:
    """The page, and the specifications of its dot plots."""
    drawn: list[dict] = []

    def keep(specs):
        drawn.extend(specs)
        return ["" for _ in specs]

    monkeypatch.setattr(pages, "to_svgs", keep)
    monkeypatch.setattr(pages, "_drawings", lambda *_: [])
    return pages.render(compare_results(list(sides)), reportable_experiments()), drawn


def rows(spec: dict, kind: str = "whole") -> list[dict]:
    return [row for row in spec["datasets"]["rows"] if row["kind"] == kind]


def test_ratios_are_dots_largest_first_with_intervals_and_verdicts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    before = ",".join(copy(tmp_path / f"b{i}", another_run(i)) for i in range(3))
    changes = slower("latency", 1.5), slower("bandwidth", 1 / 3)
    after = ",".join(copy(tmp_path / f"a{i}", another_run(10 + i), *changes) for i in range(3))
    page, (experiments, points) = specs_of(monkeypatch, before, after)
    first, second, third, fourth, *others = rows(experiments)
    assert {first["x"], second["x"]} == {"bandwidth on cpu", "bandwidth on opencl:0"}
    assert {third["x"], fourth["x"]} == {"latency on cpu", "latency on opencl:0"}
    assert [row["colour"] for row in (first, second, third, fourth)] == ["faster", "faster", "slower", "slower"]
    assert {row["colour"] for row in others} == {"no clear difference"}
    assert first["low"] < first["y"] < first["high"]
    assert (2.8 < first["y"] < 3.2, 0.64 < third["y"] < 0.69) == (True, True)  # rates and times alike: 3 times as fast
    assert len(rows(experiments, "dot")) > 100
    for spec in (experiments, points):
        low, high = next(layer["encoding"]["x"] for layer in spec["layer"] if "x" in layer["encoding"])["scale"][
            "domain"
        ]
        assert low * high == pytest.approx(1)  # slower is on the left half
    sizes = [max(row["y"], 1 / row["y"]) for row in rows(points)]
    assert sizes == sorted(sizes, reverse=True)
    assert len({row["x"] for row in rows(points)}) == len(sizes) > 5
    assert not any("bar" in json.dumps(layer["mark"]) for spec in (experiments, points) for layer in spec["layer"])
    assert page.index('class="answer"') < page.index('id="ratios"') < page.index('id="experiments"')


def test_conditions_are_above_the_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(machine):
        machine["facts"]["cpu"]["load_1min"] = 7.5

    page, _ = specs_of(monkeypatch, copy(tmp_path / "a"), copy(tmp_path / "b", machine=busy))
    assert page.index("7.5 (b)") < page.index('class="answer"')
    assert "for i in 2 3; do firsttouch run" in page


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium or google-chrome on the PATH")
@pytest.mark.slow
def test_a_large_comparison_has_few_screens_and_fits_a_phone(browser, tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "_drawings", lambda *_: [])  # they are in closed parts
    sides = [str(RESULTS / "h200-standard"), str(RESULTS / "h200-standard-2")]
    path = tmp_path / "compare.html"
    path.write_text(pages.render(compare_results(sides, 0.05), reportable_experiments()))
    root = "document.documentElement"
    browser.open(path, width=1280, height=800)
    assert browser.run("document.querySelectorAll('#ratios svg').length") == 2
    assert browser.run(f"{root}.scrollHeight") <= SCREENS * 800
    browser.open(path, width=365, height=800)
    assert browser.run(f"{root}.scrollWidth") <= browser.run(f"{root}.clientWidth")
    assert browser.run("[...document.querySelectorAll('#ratios .scroll')].every(s => s.scrollWidth <= s.clientWidth)")
    anchor = re.search(r'<tr id="(p-[^"]+)"', path.read_text())[1]
    browser.open(path, f"#{anchor}")
    assert browser.run(f"document.getElementById('{anchor}').closest('details.compared').open")
    assert browser.console == []
