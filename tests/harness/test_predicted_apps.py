"""Applications on a modelled machine: phases, counts, and what is left out."""

from __future__ import annotations

import pytest

from firsttouch.apps import all_apps
from firsttouch.base.errors import Unsupported
from firsttouch.experiments.contract.base import Measurement, Point
from firsttouch.harness.experiment import Application
from firsttouch.model.computing import CPU_CODE
from firsttouch.model.costs import assumptions
from firsttouch.model.platform import Platform, load_platform
from firsttouch.records.predicted import LEFT_OUT
from firsttouch.records.schema import Factors


def predicted(
    app: str, strategy: str, events: str = "off", *, platform: Platform | None = None, **factors: object
) -> Measurement:
    """The prediction of a point."""
    platform = platform or load_platform("h200-pcie")
    values = {"app": app, "strategy": strategy, "size": 256 << 20, "events": events, **factors}
    return Application(all_apps()[app]).predict(Point(app, platform.device_name, Factors(values)), platform)


@pytest.mark.parametrize("strategy", ["explicit", "managed", "managed+both", "pinned"])
def test_the_phases_add_up_to_the_total(strategy: str) -> None:
    prediction = predicted("hotspot", strategy)
    phases = sum(float(v) for name, v in prediction.counters.items() if name.startswith("phase_"))
    assert phases == pytest.approx(prediction.samples[0])
    assert sum(term.ms for term in prediction.terms) == pytest.approx(phases)
    assert prediction.low <= prediction.samples[0] <= prediction.high


def test_events_count_what_the_page_map_counts() -> None:
    counters = predicted("hotspot", "managed+prefetch", "on").counters
    n = counters["param_n"]
    pages = -(-n * n * 4 // 4096)
    assert counters["um_h2d_prefetch_bytes"] == 2 * pages * 4096  # temp and power
    assert counters["um_d2h_prefetch_bytes"] == pages * 4096
    assert counters["um_gpu_fault_groups"] == 0
    assert not any(name.startswith("um_") for name in predicted("hotspot", "managed").counters)


def test_explicit_copies_in_and_back() -> None:
    counters = predicted("hotspot", "explicit").counters
    n = counters["param_n"]
    assert (counters["copied_h2d_bytes"], counters["copied_d2h_bytes"]) == (8 * n * n, 4 * n * n)


def test_what_is_assumed_of_a_program_is_said() -> None:
    last = predicted("kmeans", "managed").terms[-1]
    assert (last.ms, "iterations depends on" in last.grounds[0].text) == (0, True)


@pytest.mark.parametrize(
    ("app", "ranks", "says"),
    [("halo", 2, "share a device"), ("transport", 2, "depends on its data"), ("bfs_concurrent", 1, "at once")],
)
def test_what_is_not_modelled_is_refused_with_the_reason(app: str, ranks: int, says: str) -> None:
    with pytest.raises(Unsupported, match=says):
        predicted(app, "managed", size="tiny", ranks=ranks)


@pytest.mark.parametrize(("app", "kernels"), [("halo", 15.0), ("transport", 50.0)])
def test_an_application_that_shares_its_work_is_predicted_alone(app: str, kernels: float) -> None:
    """Within a fifth of what kernels took on an H200, in ms."""
    computed = [term.ms for term in predicted(app, "explicit", ranks=1).terms if term.what == "kernels"]
    assert sum(computed) == pytest.approx(kernels, rel=0.2)


def test_the_kernels_of_another_library_are_not_in_the_times_and_that_is_said() -> None:
    terms = predicted("gemm", "explicit", library="own").terms
    assert "kernels" not in {term.what for term in terms}
    assert any("with library=own" in text for term in terms for text in assumptions(term.grounds))


def test_what_crosses_the_link_rests_on_the_profile() -> None:
    """Updates by atomics are in what crossed already."""
    terms = {term.what: term for term in predicted("conjugate_gradient", "pinned").terms}
    (crossing,) = (term for what, term in terms.items() if "pinned memory across" in what)
    assert any("take as long as on" in text for text in assumptions(crossing.grounds))
    assert not any("atomics" in what for what in terms)


@pytest.mark.parametrize("strategy", ["explicit", "managed"])
def test_one_thread_takes_longer_to_initialise(strategy: str) -> None:
    """On an H200's host one thread touched new pages at a sixth of the rate of 16, and computes at a sixteenth."""
    one, all_threads = (predicted("hotspot", strategy, initialise=who).counters for who in ("single", "parallel"))
    assert 4 < one["phase_initialise_ms"] / all_threads["phase_initialise_ms"] < 17
    assert one["phase_compute_ms"] == all_threads["phase_compute_ms"]


@pytest.mark.parametrize(("app", "times"), [("kmeans", (3, 16)), ("streamcluster", (1.3, 16))])
def test_one_thread_takes_longer_for_what_the_cpu_computes_between_kernels(app: str, times: tuple[int, int]) -> None:
    """Both were measured: what one thread takes is not assumed to be so many times what all take."""
    one, all_threads = (predicted(app, "pinned", cpu_code=who) for who in ("single", "parallel"))
    ms = [sum(t.ms for t in each.terms if t.what == CPU_CODE and t.phase == "compute") for each in (one, all_threads)]
    assert times[0] < ms[0] / ms[1] <= times[1]
    assert one.counters["phase_initialise_ms"] == all_threads.counters["phase_initialise_ms"]
    assert any("one thread of the CPU" in text for term in one.terms for text in assumptions(term.grounds))


def test_an_option_is_priced_by_runs_with_it() -> None:
    """backprop adds up as the original, by one thread: what that takes does not follow from runs without it."""
    ms = {
        word: sum(t.ms for t in predicted("backprop", "pinned", reduction=word).terms if t.what == CPU_CODE)
        for word in ("units", "blocks")
    }
    assert ms["units"] > 2 * ms["blocks"]


@pytest.mark.parametrize("app", ["gemm", "fft_conv_r2c"])
def test_what_the_cpu_wrote_before_has_to_reach_the_gpu_in_managed_memory(app: str) -> None:
    """The option changes no kernel, so that the profile holds."""
    needed, original = (predicted(app, "managed", start=word) for word in ("needed", "original"))
    assert original.counters["gpu_ms"] > 1.05 * needed.counters["gpu_ms"]
    assert not any("start=original" in text for term in original.terms for text in assumptions(term.grounds))


@pytest.mark.parametrize("app", ["srad", "bfs", "streamcluster"])
def test_kernels_move_what_they_ask_for_where_no_cache_holds_it(app: str) -> None:
    """A TK1 caches managed memory in L2 and page-locked memory nowhere."""
    tk1 = load_platform("tk1")
    pinned = predicted(app, "pinned", platform=tk1, size="default")
    (uncached,) = [t for t in pinned.terms if t.what == "use of pinned memory by the GPU" and t.phase == "compute"]
    assert uncached.ms > 0
    managed = predicted(app, "managed", platform=tk1, size="default")
    assert not any("memory by the GPU" in t.what and t.ms > uncached.ms for t in managed.terms)


def test_iterations_are_those_of_the_timed_loop() -> None:
    """The first pass of managed memory brings the pages; copies come before the first iteration."""
    iterations = {
        strategy: [
            float(v) for name, v in predicted("hotspot", strategy).counters.items() if name.startswith("iteration_")
        ]
        for strategy in ("explicit", "managed")
    }
    assert [len(each) for each in iterations.values()] == [10, 10]
    explicit, managed = iterations.values()
    assert max(explicit) == pytest.approx(min(explicit))
    assert managed[0] > 5 * managed[2]
    assert managed[2:] == pytest.approx(explicit[2:])
    assert predicted("hotspot", "managed").counters["iterations_ms"] == pytest.approx(sum(managed))


def test_launches_of_a_sequence_have_the_faults_of_their_own_parts() -> None:
    """Each round of pathfinder reads rows that no other reads; all of them are priced in the phase."""
    counters = predicted("pathfinder", "managed").counters
    rounds = [float(v) for name, v in counters.items() if name.startswith("iteration_")]
    assert max(rounds) < 3 * sorted(rounds)[len(rounds) // 2]
    assert sum(rounds) == pytest.approx(counters["iterations_ms"])
    assert 0.9 * counters["phase_compute_ms"] < counters["iterations_ms"] <= counters["phase_compute_ms"] * 1.0001


@pytest.mark.parametrize("app", ["backprop", "hotspot", "nn", "srad"])
def test_one_array_takes_10_to_50_percent_less_of_an_apus_memory_than_two(app: str) -> None:
    """MI300A, Sec. VI: 10 to 44 % in four applications, for other inputs."""
    both = (predicted(app, s, platform=load_platform("mi300a")).counters for s in ("unified", "explicit"))
    unified, explicit = (float(counters["peak_machine_bytes"]) for counters in both)  # type: ignore[arg-type]
    assert 0.5 <= unified / explicit <= 0.91


@pytest.mark.parametrize(("name", "strategy"), [("mi300a", "managed"), ("tk1", "managed"), ("kaveri", "svm-fine")])
def test_nothing_moves_where_both_agents_have_one_memory(name: str, strategy: str) -> None:
    counters = predicted("hotspot", strategy, "on", platform=load_platform(name)).counters
    assert not any(v for counter, v in counters.items() if counter.startswith("um_"))
    array = 4 * int(counters["param_n"]) ** 2
    assert counters["peak_host_bytes"] == pytest.approx(3 * array, rel=0.001)


def test_on_grace_hopper_the_order_of_hotspot_is_the_studys_with_its_buffers() -> None:
    """Its second array of temperatures is device memory."""

    def without_initialise(strategy: str, **factors: object) -> float:
        platform = load_platform("gh200")
        counters = predicted("hotspot", strategy, platform=platform, size="default", n=16384, **factors).counters
        return float(counters["without_initialise_ms"])

    system, managed = (without_initialise(s, placement="paper") for s in ("system", "managed"))
    assert system < managed
    assert system == without_initialise("system", **{"memory.next": "device"})


@pytest.mark.parametrize(("iterations", "copied"), [(4, False), (6, True)])
def test_a_result_that_ends_in_device_memory_is_copied_back(iterations: int, copied: bool) -> None:
    prediction = predicted("hotspot", "managed", iterations=iterations, **{"memory.next": "device"})
    assert any(term.phase == "readback" and "copy" in term.what for term in prediction.terms) == copied


def test_device_memory_whose_pages_are_there_at_once_is_not_touched_first() -> None:
    platform = load_platform("mi300a")
    terms = predicted("hotspot", "unified", platform=platform, **{"memory.next": "device"}).terms
    assert not [term.what for term in terms if term.phase == "compute" and "first touch" in term.what]


@pytest.mark.parametrize(
    ("platform", "app", "strategy"),
    [
        ("tk1", "bfs", "pinned"),
        ("h200-pcie", "hotspot", "pinned"),
        ("h200-pcie", "hotspot", "managed"),
        ("gh200", "srad", "system"),
    ],
)
def test_a_kernel_takes_as_long_as_its_faults_and_its_uses_of_memory_in_place(
    platform: str, app: str, strategy: str
) -> None:
    counters = predicted(app, strategy, platform=load_platform(platform), kernel_times="on").counters
    explicit = predicted(app, "explicit", platform=load_platform(platform), kernel_times="on").counters
    assert explicit["kernel_ms"] < counters["kernel_ms"] <= counters["kernel_compute_ms"] * (1 + 1e-6)
    assert counters["kernel_ms"] > 0.9 * counters["gpu_ms"]


def test_reads_of_each_iteration_come_from_the_device_once_its_pages_have_moved() -> None:
    """Grace Hopper, Sec. 6: from the fifth iteration of srad on, next to nothing is read across the link."""

    def reads(strategy: str, memory: str) -> list[int]:
        counters = predicted("srad", strategy, platform=load_platform("gh200"), placement="paper").counters
        return [int(v) for name, v in counters.items() if name.startswith("hw_") and f"_{memory}_" in name]  # type: ignore[call-overload]

    device, link = reads("system", "device"), reads("system", "link")
    assert len(device) == len(link) == 20
    assert link[0] > link[1] > link[2] > 0
    assert link[6:] == [0] * 14
    assert device[0] < device[-1]
    assert not reads("explicit", "device"), "what comes from one memory alone is not told apart"


def test_files_leave_kernels_and_copies_as_they_are() -> None:
    alone, with_files = (predicted("dwt2d", "explicit", files=files) for files in ("none", "used"))
    assert with_files.counters["phase_compute_ms"] == pytest.approx(alone.counters["phase_compute_ms"])
    assert with_files.counters["phase_initialise_ms"] < alone.counters["phase_initialise_ms"], "nothing is generated"
    lacking = [text for term in with_files.terms if term.what == LEFT_OUT for text in assumptions(term.grounds)]
    assert ["files" in text for text in lacking] == [True]
    managed = [predicted("dwt2d", "managed+prefetch", "on", files=files).counters for files in ("none", "used")]
    generated, read = (int(counters["um_cpu_faults"]) for counters in managed)  # type: ignore[call-overload]
    assert generated > read > 0, "one thread reads, all generate"
