"""The links of the page of a comparison: a second comparison has the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from runs import copy, slower

from firsttouch.comparison.compare import compare_results
from firsttouch.engine.work_kinds import reportable_experiments
from firsttouch.report.comparison import render


def links(monkeypatch: pytest.MonkeyPatch, *sides: str) -> tuple[list[str], list[str], set[str]]:
    """The ids of sections and of rows, and the points that figures link to."""
    linked: set[str] = set()

    def keep(specs):
        linked.update(point[0] for spec in specs if spec for point in spec["usermeta"]["points"])
        return ["" for _ in specs]

    monkeypatch.setattr("firsttouch.report.comparison.to_svgs", keep)
    page = render(compare_results(list(sides)), reportable_experiments())
    sections = re.findall(r'<details class="compared" id="([^"]+)"', page)
    assert all(f'href="#{one}"' in page for one in sections)
    return sections, re.findall(r'<tr id="([^"]+)"', page), linked


def test_sections_and_points_keep_their_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base, late = copy(tmp_path / "base"), copy(tmp_path / "late", slower("latency", 1.5))
    sections, rows, linked = links(monkeypatch, base, late)
    assert sections == ["latency-cpu", "latency-opencl-0"]
    assert len(rows) == len(set(rows)) > 10
    assert linked <= {*rows, *sections}
    both = copy(tmp_path / "both", slower("latency", 1.5), slower("bandwidth", 3))
    more, more_rows, _ = links(monkeypatch, copy(tmp_path / "another"), both)
    assert set(more) == {*sections, "bandwidth-cpu", "bandwidth-opencl-0"}
    assert set(rows) < set(more_rows)


def test_a_point_has_a_row_for_each_side_with_an_id_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sides = [copy(tmp_path / name, slower("latency", 1 + n)) for n, name in enumerate("abc")]
    _, rows, _ = links(monkeypatch, *sides)
    first = [row for row in rows if not row.endswith(".2")]
    assert rows == list(dict.fromkeys(rows))
    assert {f"{row}.2" for row in first} == set(rows) - set(first)
