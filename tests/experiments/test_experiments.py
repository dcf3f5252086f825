"""Every experiment on real devices, the CPU and PoCL: all points verified, an answer in words, figures that draw."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from small import SMALL

from firsttouch.analysis.statistics import measured
from firsttouch.experiments import all_experiments
from firsttouch.experiments.common import octaves, whole_octave
from firsttouch.report.figures import Palette, draw
from firsttouch.run.store import load_results


@pytest.fixture(scope="module", params=sorted(all_experiments()))
def results(request, tmp_path_factory):
    out = tmp_path_factory.mktemp(request.param) / "out"
    sets = [word for text in SMALL[request.param] for word in ("--set", text)]
    command = [sys.executable, "-m", "firsttouch.cli.main", "run", request.param, "--out", str(out), *sets]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=110)
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()) == out / "report.html"
    return request.param, load_results(out)


def test_every_point_is_measured_and_right(results):
    name, found = results
    assert found.records
    for record in found.records:
        assert record.status in ("ok", "skipped"), record.reason
        assert record.status == "ok" or record.reason
        assert record.verified is not False, record.factors
        if record.status == "ok":
            assert record.summary is not None
            assert record.summary.n == len(record.samples)
            assert record.summary.min <= record.summary.ci_low <= record.summary.median <= record.summary.ci_high
            assert record.verified is True or record.verified_why
            assert name in ("pagefault", "accounting") or record.summary.median >= 0
    cpu = next(d for d in found.machine.devices if d.name == "cpu")
    least = "opencl:0" if all_experiments()[name].supports(cpu) else "cpu"
    assert least in {r.device for r in found.records if r.status == "ok"}


def test_the_answer_is_a_sentence_and_the_figures_draw(results):
    name, found = results
    experiment = all_experiments()[name]
    for device in found.machine.devices:
        good = measured([r for r in found.records if r.device == device.name])
        if not good:
            continue
        answer = experiment.verdict(good, device)
        assert answer.endswith(".")
        assert "No " not in answer or name == "bandwidth"
        assert any(draw(figure, good, device, Palette()) for figure in experiment.figures)


def test_host_buffers_say_where_they_are(results):
    name, found = results
    if name not in ("latency", "bandwidth", "transfer", "faultcount"):
        pytest.skip("keeps no buffer to ask about")
    of_cpu = [r for r in found.records if r.device == "cpu" and r.status == "ok"]
    for fact in (fact for record in of_cpu for fact in record.buffers):
        assert fact.numa_node is not None
        assert fact.page_bytes in (4096, 16384, 65536, 2 * 1024**2)


def test_octaves_are_whole_lines_in_order():
    sizes = octaves(1024, 4 * 1024**3, 4)
    assert sizes == sorted(set(sizes))
    assert all(size % 256 == 0 for size in sizes)
    assert [size for size in sizes if whole_octave(size)] == [1024 << k for k in range(23)]
