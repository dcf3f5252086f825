"""Every kind of figure has a drawing module."""

from __future__ import annotations

import errno
import subprocess
import sys

import pytest
import sample
from drawn import drawing_of

from firsttouch.records import figures
from firsttouch.report import converter, svg
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

    monkeypatch.setattr(converter, "ProcessPoolExecutor", refuse)
    monkeypatch.setattr(svg, "_of_page", lambda spec, number: f"{number}: {spec['title']}")
    count = svg.MOST_OF_ANOTHER + 1
    with converter.another_process(svg.__name__):
        drawn = svg.to_svgs([{"title": "a"}, None, *[{"title": "b"}] * count])
    assert drawn[:3] == ["1: a", "", "2: b"]
    assert len(drawn) == count + 2


ENDS = """
import os, signal
from firsttouch.report import converter, svg

def end(spec, number):  # while the other process, which has the real function, draws
    os.kill(os.getpid(), SIGNAL)

with converter.another_process(svg.__name__):
    end.__module__, end.__qualname__ = svg.__name__, "_of_page"
    svg._of_page = end
    svg.MOST_OF_ANOTHER = 1
    svg.to_svgs([{"mark": "point", "data": {"values": [{"a": 1}]}, "encoding": {"x": {"field": "a"}}}] * 2000)
"""


@pytest.mark.parametrize("name", ["signal.SIGABRT", "signal.SIGKILL", "signal.SIGTERM"])
def test_a_process_that_draws_leaves_none_behind_however_it_ends(name):
    """Whoever waits for the end of its output would wait for the other process, which has that open too."""
    code = ENDS.replace("SIGNAL", name)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=30, check=False)
    assert done.returncode < 0


DRAWS = """
import multiprocessing, os, signal
from firsttouch.report import converter, svg

def figure(count):
    rows = [{"a": n} for n in range(count)]
    return {"mark": "point", "data": {"values": rows}, "encoding": {"x": {"field": "a", "type": "quantitative"}}}

specs = [None, *map(figure, range(COUNT))]
with converter.another_process(svg.__name__):
    if SIGNAL:
        (other,) = multiprocessing.active_children()
        os.kill(other.pid, SIGNAL)
        other.join()
    elsewhere = svg.to_svgs(specs)
here = svg.to_svgs(specs)
assert elsewhere == here
assert here[0] == "" and all(image.startswith("<svg") for image in here[1:])
"""


@pytest.mark.parametrize("count", [1, 2, svg.MOST_OF_ANOTHER + 2])
@pytest.mark.parametrize("ended", ["0", "signal.SIGKILL", "signal.SIGTERM"])
def test_figures_are_the_same_with_another_process_without_and_when_it_has_ended(count, ended):
    code = DRAWS.replace("COUNT", str(count)).replace("SIGNAL", ended)
    subprocess.run([sys.executable, "-c", code], timeout=60, check=True)
