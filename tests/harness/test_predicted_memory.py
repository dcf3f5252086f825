"""Memory over time of predictions: what the page map has at each time, stored in place of what is sampled."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
from tests.calls import call
from tests.harness.test_predicted_apps import predicted

from firsttouch.base.errors import UsageError
from firsttouch.profile.timelines import PREDICTED, read_course
from firsttouch.records.timeline import MemoryCourse

MIB = 2**20


def course(strategy: str, app: str = "hotspot") -> MemoryCourse:
    memory = predicted(app, strategy, timeline="on").memory
    assert memory is not None
    return memory


def at(readings: list[tuple[float, float]], t: float) -> float:
    return max((pair for pair in readings if pair[0] <= t), key=lambda pair: pair[0])[1]


@pytest.mark.parametrize("strategy", ["explicit", "managed", "managed+prefetch", "pinned"])
def test_it_lasts_as_long_as_the_phases_and_never_goes_back(strategy: str):
    point = predicted("hotspot", strategy, timeline="on")
    memory = point.memory
    assert memory is not None
    whole = sum(float(v) for n, v in point.counters.items() if n.startswith("phase_") and n != "phase_free_ms")
    assert memory.seconds == pytest.approx(1e-3 * whole)
    for readings in (memory.host, memory.device):
        assert all(a[0] <= b[0] for a, b in pairwise(readings))
        assert 0 <= readings[-1][0] <= memory.seconds
    most = max(value for _, value in memory.device)
    assert most <= float(point.counters["peak_device_bytes"]) + 2 * MIB


def test_pages_of_managed_memory_are_in_one_place():
    memory = course("managed")
    total = max(value for _, value in memory.host)
    compute = next(phase for phase in memory.phases if phase.name == "compute")
    there = [at(list(memory.host), t) + at(list(memory.device), t) for t in (compute.start + 1e-9, compute.end)]
    assert there[0] == pytest.approx(total, rel=0.01)
    assert there[1] >= there[0]  # the scratch of the GPU comes on top


def test_copies_have_both():
    memory = course("explicit")
    assert memory.host[-1][1] > 100 * MIB
    assert memory.device[-1][1] > 100 * MIB


def test_without_it_there_is_none():
    assert predicted("hotspot", "managed").memory is None


def test_a_call_stores_and_shows_it(tmp_path: Path):
    out = tmp_path / "out"
    words = ("app", "hotspot", "--strategy", "managed", "--size", "256MiB", "--timeline", "--device", "model:h200-pcie")
    assert call(*words, "--out", out, drawn=True).returncode == 0
    page = (out / "report.html").read_text()
    assert "Memory in use" in page
    assert "in the last repetition" not in page
    assert read_course(out / "timelines/0001", None).source


@pytest.mark.parametrize("change", [{"host": [[1.0, 1.0], [0.5, 1.0]]}, {"host": [[0.0, -1.0]]}, {"phases": 3}])
def test_a_course_from_elsewhere_is_checked(tmp_path: Path, change: dict[str, object]):
    good = {"phases": [], "host": [], "device": [], "source": "", "why": "", "apart": "", "interval": 0.0}
    (tmp_path / PREDICTED).write_text(json.dumps(good))
    assert read_course(tmp_path, None).seconds == 0
    (tmp_path / PREDICTED).write_text(json.dumps(good | change))
    with pytest.raises(UsageError, match=PREDICTED):
        read_course(tmp_path, None)
