"""Kernel times: which work they cover, that they are in runs of their own, and what a record says of them."""

from __future__ import annotations

from statistics import stdev
from typing import ClassVar

import pytest
from tests.harness.running import opencl

from firsttouch import _core
from firsttouch.harness import kernel_times, measure
from firsttouch.harness.app import App, Cpu, Gpu, View, buffer, u32
from firsttouch.harness.measure import PHASES, KernelTime, Run
from firsttouch.program.execution.workspace import Workspace
from firsttouch.program.strategies import STRATEGIES, unavailable
from firsttouch.records.schema import Factors


def made(kernels: list[float], compute: list[float]) -> list[Run]:
    return [
        Run(dict.fromkeys(PHASES[1:], whole), kernels=KernelTime(part, 7))
        for part, whole in zip(kernels, compute, strict=True)
    ]


def test_a_record_has_mean_and_standard_deviation_and_the_phase_of_the_same_runs() -> None:
    counters = kernel_times.counters(made([0.010, 0.011, 0.015], [0.02, 0.02, 0.05]))
    assert counters == {
        "kernel_ms": pytest.approx(12),
        "kernel_sd_ms": pytest.approx(stdev([10, 11, 15])),
        "kernel_compute_ms": pytest.approx(30),
        "kernel_intervals": 7,
    }
    assert "kernel_sd_ms" not in kernel_times.counters(made([0.01], [0.02]))
    assert kernel_times.counters([]) == {}


@pytest.mark.parametrize(
    ("factors", "wanted"),
    [({}, False), ({"kernel_times": "off"}, False), ({"kernel_times": "on"}, True)]
    + [({"kernel_times": "on", "events": events}, events == "off") for events in ("on", "off")],
)
def test_only_points_without_recorded_events_have_kernel_times_where_asked(factors: Factors, wanted: bool) -> None:
    assert kernel_times.are_wanted(Factors(factors)) == wanted


class Mixed(App):
    """Work in every way that a GPU is given it: 5 launches, of which 2 are not computing, 2 replays and a call."""

    name, source, pattern = "mixed", "this test", "none"
    n: int
    sizes: ClassVar = {"tiny": {"n": 64}, "default": {"n": 64}}
    data = buffer(u32, "n", role="inout", starts_on="gpu", ends_on="cpu")
    kernel_text = "KERNEL add(GLOBAL uint* data, ulong n) { FOR_EACH(i, n) data[i] += 1u; }"

    def prepare(self, gpu: Gpu) -> None:
        self.steps = gpu.sequence()
        for _ in range(10):
            self.steps.add("add", self.data, self.n, over=self.n)

    def initialise(self, cpu: Cpu, gpu: Gpu) -> None:
        gpu.fill(self.data, 0)
        gpu.launch("add", self.data, self.n, over=self.n)

    def compute(self, cpu: Cpu, gpu: Gpu) -> None:
        for _ in gpu.iterations(3):
            gpu.launch("add", self.data, self.n, over=self.n)
        gpu.replay(self.steps, count=4, updates=[self.data])
        gpu.replay(self.steps, first=4, updates=[self.data], count=6)
        gpu.call(lambda memory: None, self.data, updates=[self.data])

    def check(self, view: View) -> str:
        return "" if (view(self.data) == 14).all() else "the sum is wrong"


def test_the_work_of_the_phase_compute_is_timed_and_no_other() -> None:
    info, device = opencl()
    timer = _core.KernelTimer(device)
    for strategy in ("explicit", "svm-fine"):
        if unavailable(STRATEGIES[strategy], info):
            continue
        run = measure.run(Mixed({"n": 64}), Workspace(STRATEGIES[strategy], info, device), timer=timer)
        assert run.kernels is not None
        assert (run.error, run.kernels.intervals, run.iterations) == ("", 6, [])
        assert run.kernels.seconds > 0
    run = measure.run(Mixed({"n": 64}), Workspace(STRATEGIES["explicit"], info, device))
    assert (run.error, run.kernels, len(run.iterations)) == ("", None, 3)


def test_more_work_than_a_timer_holds_is_all_added() -> None:
    _, device = opencl()
    timer = _core.KernelTimer(device)
    for _ in range(1500):
        timer.begin()
        timer.end()
    timer.begin()  # without end(), as after an exception
    seconds, intervals = timer.take()
    assert intervals == 1500
    assert seconds >= 0
    assert timer.take() == (0, 0)
