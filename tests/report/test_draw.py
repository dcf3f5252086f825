"""Every kind of figure has a drawing module."""

from __future__ import annotations

import errno
import subprocess
import sys

import pytest
import sample
from drawn import drawing_of

from firsttouch.records import figures
from firsttouch.report import svg
from firsttouch.report.draw import KINDS


def test_every_kind_is_drawn():
    assert set(KINDS) == set(figures.Figure.__subclasses__())


def test_only_the_records_that_a_figure_asks_for_are_shown():
    factors = [{"size": size, "order": order} for size in (8, 16) for order in "ab"]
    records = [sample.point("latency", "cpu", 10.0 * n, factors=f) for n, f in enumerate(factors)]
    drawing = drawing_of(figures.Line(x="size", where={"order": "a"}), records)
    assert [(r["x"], r["y"]) for r in drawing.spec["datasets"]["rows"]] == [(8, 0.0), (16, 20.0)]


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "x"), ImportError("x"), NotImplementedError("x")])
def test_a_page_of_many_figures_without_semaphores(monkeypatch, error):
    """/dev/shm is full, the C library has none, or the system permits too few."""

    def refuse(*_, **options):
        raise error

    monkeypatch.setattr(svg, "ProcessPoolExecutor", refuse)
    monkeypatch.setattr(svg, "_of_page", lambda spec, number: f"{number}: {spec['title']}")
    count = svg.MOST_HERE + 1
    drawn = svg.to_svgs([{"title": "a"}, None, *[{"title": "b"}] * count])
    assert drawn[:3] == ["1: a", "", "2: b"]
    assert len(drawn) == count + 2


ENDS = """
import os, signal
from firsttouch.report import svg

def end(spec, number):  # while the other process, which imports the real function, draws
    os.kill(os.getpid(), SIGNAL)

end.__module__, end.__qualname__ = svg.__name__, "_of_page"
svg._of_page = end
svg.MOST_HERE = 1
svg.to_svgs([{"mark": "point", "data": {"values": [{"a": 1}]}, "encoding": {"x": {"field": "a"}}}] * 2000)
"""


@pytest.mark.parametrize("signal", ["signal.SIGABRT", "signal.SIGKILL", "signal.SIGTERM"])
def test_a_process_that_draws_leaves_none_behind_however_it_ends(signal):
    """Whoever waits for the end of its output would wait for the other process, which has that open too."""
    code = ENDS.replace("SIGNAL", signal)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=30, check=False)
    assert done.returncode < 0
