"""Atomic updates predicted for the MI300A: lines that move between caches, and threads that wait for them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from firsttouch.base.errors import NotModelled
from firsttouch.experiments import find_experiment
from firsttouch.experiments.contract.base import Measurement
from firsttouch.model.platform import MissingValue, Platform, load_platform
from firsttouch.records.schema import Factors, Point

MOST_CPU, MOST_GPU = 24, 466944
SMALL, MIDDLE, LARGE = 1, 1 << 10, 1 << 30


def predicted(platform: Platform | None = None, **factors: Any) -> Measurement:
    found, platform = find_experiment("atomics"), platform or load_platform("mi300a")
    assert found is not None
    usual = {"allocator": "device", "type": "u64", "elements": MIDDLE, "scope": "system", "reading": "progress"}
    point = Point("atomics", platform.device.name, Factors({**usual, "cpu_threads": 0, "gpu_threads": 0, **factors}))
    return found.predict(point, platform.under(point.factors))


def rate(platform: Platform | None = None, **factors: Any) -> float:
    return float(predicted(platform, **factors).samples[0])


def share(agent: str, **factors: Any) -> float:
    return float(str(predicted(**factors).counters[f"{agent}_relative"]))


@pytest.mark.parametrize("kind", ["u64", "f64"])
def test_on_one_element_every_further_cpu_thread_costs_rate(kind: str) -> None:
    rates = [rate(type=kind, elements=SMALL, cpu_threads=threads) for threads in (1, 2, 4, 8, 16, MOST_CPU)]
    assert all(few > more for few, more in pairwise(rates))


def test_in_memory_cpu_threads_do_not_meet() -> None:
    one, all_threads = (rate(elements=LARGE, cpu_threads=threads) for threads in (1, MOST_CPU))
    assert all_threads == pytest.approx(MOST_CPU * one, rel=0.01)


@pytest.mark.parametrize("threads", [3, 8, 16, MOST_CPU])
def test_a_loop_on_one_word_takes_its_line_three_times_however_many_threads_want_it(threads: int) -> None:
    """On Xeons and EPYCs 2 to 32 threads measured 2.3 to 3.3 times as long (evidence/sharing.md)."""
    integers, doubles = (rate(elements=SMALL, cpu_threads=threads, type=kind) for kind in ("u64", "f64"))
    assert integers / doubles == pytest.approx(3, rel=0.1)


def test_doubles_cost_the_gpu_nothing_and_a_single_thread_little() -> None:
    assert 1 < rate(elements=SMALL, cpu_threads=1) / rate(elements=SMALL, cpu_threads=1, type="f64") < 1.3
    assert rate(gpu_threads=MOST_GPU, type="f64") == rate(gpu_threads=MOST_GPU)


def test_the_gpu_is_held_up_by_one_element_and_by_memory() -> None:
    middle = rate(elements=1 << 20, gpu_threads=MOST_GPU)
    assert middle > 10 * rate(elements=SMALL, gpu_threads=MOST_GPU)
    assert middle > 2 * rate(elements=LARGE, gpu_threads=MOST_GPU)
    assert rate(gpu_threads=512) > rate(gpu_threads=64) > rate(cpu_threads=MOST_CPU)


def test_together_the_cpu_loses_more_than_the_gpu() -> None:
    both = {"cpu_threads": MOST_CPU, "gpu_threads": 6400}
    assert share("cpu", **both) < 0.5 < share("gpu", **both) <= 1.01
    assert share("cpu", **both, elements=1 << 20) > share("cpu", **both)
    counters = predicted(**both).counters
    assert counters["cpu_alone"] == pytest.approx(rate(cpu_threads=MOST_CPU))
    assert rate(**both) == pytest.approx(float(str(counters["cpu_rate"])) + float(str(counters["gpu_rate"])))


def test_a_slower_fabric_slows_threads_of_several_dies_alone() -> None:
    here = load_platform("mi300a")
    slower = here.changed({"atomic.line.far": "240ns"})
    assert rate(slower, cpu_threads=MOST_CPU) < rate(here, cpu_threads=MOST_CPU)
    assert rate(slower, cpu_threads=1) == rate(here, cpu_threads=1)


@pytest.mark.parametrize("cpu_threads", [0, 1, MOST_CPU])
@pytest.mark.parametrize("gpu_threads", [0, 64, MOST_GPU])
def test_a_range_holds_its_value(cpu_threads: int, gpu_threads: int) -> None:
    if cpu_threads or gpu_threads:
        answer = predicted(cpu_threads=cpu_threads, gpu_threads=gpu_threads, type="f64")
        assert 0 < (answer.low or 0) <= answer.samples[0] <= (answer.high or 0)


def test_it_refuses_by_name_what_it_does_not_follow_or_lacks() -> None:
    with pytest.raises(NotModelled, match="reading=end"):
        predicted(cpu_threads=1, reading="end")
    with pytest.raises(MissingValue, match=r"mi250x has no value"):
        predicted(load_platform("mi250x"), gpu_threads=64)
