"""GPU time: prefetches and what is between launches count, copies to the device do not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tests.harness.running import run_tiny, strategies

from firsttouch.apps.fft_conv import FftConvR2C
from firsttouch.program.execution.executor import Executor
from firsttouch.program.execution.gpu_clock import GpuClock
from firsttouch.program.steps import Copy, EndPrefetches, Join, Prefetch, Step


class SlowDevice:
    """A device on which each operation takes a known time. Its stream is idle before each of them."""

    now = 0.0

    def record(self, stream: object = None) -> SimpleNamespace:
        at = self.now
        return SimpleNamespace(at=at, seconds_until=lambda later: later.at - at)

    def stream(self) -> object:
        return object()

    def copy(self, *_: object) -> None:
        self.now += 10

    def prefetch(self, *_: object) -> None:
        self.now += 100

    def join(self, _: object) -> None: ...


PREFETCH = [Prefetch(0, 8, "gpu"), EndPrefetches(), Join()]
TO_GPU, TO_CPU = Copy(0, 0, 8, "gpu", 0), Copy(0, 0, 8, "cpu", 0)


@pytest.mark.parametrize(
    ("before", "between", "seconds"),
    [
        ([], [], 2),
        (PREFETCH, [], 102),
        ([TO_GPU, TO_GPU], [], 2),  # the inputs
        ([TO_GPU], [TO_GPU], 2),  # an input that only the second launch needs
        ([TO_GPU], [TO_CPU], 12),  # a scalar that decides whether to go on
        (PREFETCH, [TO_GPU, TO_CPU], 112),
    ],
)
def test_prefetches_count_and_copies_to_the_device_do_not(
    before: list[Step], between: list[Step], seconds: float
) -> None:
    device: Any = SlowDevice()
    array: Any = SimpleNamespace(memory=SimpleNamespace(host=object(), device=object()))
    executor, clock = Executor(device, [array], "policy"), GpuClock(device)
    executor.clock = clock
    executor.play(before)
    for steps in ([], between):
        executor.play(steps)
        clock.start()  # as each launch does
        device.now += 1
    clock.stop()
    device.now += 1000
    assert clock.seconds() == seconds


def test_a_clock_without_work_states_nothing() -> None:
    device: Any = SlowDevice()
    clock = GpuClock(device)
    clock.stop()
    assert clock.seconds() is None


@pytest.mark.parametrize("strategy", ["explicit", "svm-fine"])
def test_gpu_time_is_a_part_of_the_phase_compute_and_has_all_iterations(strategy: str) -> None:
    if strategy not in strategies():
        pytest.skip(f"no {strategy} here")
    run = run_tiny(FftConvR2C, strategy)
    assert run.gpu is not None
    assert 0 < run.gpu <= run.phases["compute"]
    assert run.iterations_total < run.gpu  # which has the transform of the taps too
