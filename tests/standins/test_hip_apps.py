"""Applications on the HIP device of the stand-in: every strategy is verified, or skipped with a reason.

This tests the workspace and the code of the HIP device. It proves nothing about AMD's runtime or hardware.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from command import app, run
from tests.findings import row
from tests.matrix import matrix
from tests.texts import assert_states

from firsttouch.base.units import parse_size
from firsttouch.experiments.migration import Migration
from firsttouch.program.strategies import STRATEGIES
from firsttouch.report.draw import draw
from firsttouch.report.drawing import DrawingContext
from firsttouch.report.page import write_report
from firsttouch.report.palette import Palette
from firsttouch.report.svg import to_svg

ALWAYS = {
    *(
        "explicit",
        "explicit+pinned",
        "managed",
        "managed+advise",
        "managed+prefetch",
        "managed+prefetch-overlap",
        "managed+both",
        "pinned",
        "registered",
    ),
}
REASONS = {"system": "XNACK", "system+prefault": "XNACK", "unified": "cannot use device memory in place"}
XNACK = {"HSA_XNACK": "1"}
APU = {"STANDIN_INTEGRATED": "1", "STANDIN_ARCH": "gfx942:sramecc+"}


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("name", "settings", "additional"),
    matrix(
        [
            ("black_scholes", APU | XNACK, {"system", "system+prefault", "unified"}),
            ("hotspot", {}, set()),
            ("bfs", XNACK, {"system", "system+prefault"}),
            ("nw", APU, {"unified"}),
        ]
    ),
)
def test_every_strategy_is_verified_or_skipped_with_a_reason(
    name: str, settings: dict[str, str], additional: set[str], tmp_path: Path
) -> None:
    records = app(tmp_path / "out", name, "--size", "tiny", "--repeat", "1", **settings)
    assert {r.factors["strategy"] for r in records} == ALWAYS | set(REASONS)
    for record in records:
        strategy = str(record.factors["strategy"])
        if strategy in ALWAYS | additional:
            assert (record.status, record.reason, record.verified) == ("ok", "", True), strategy
            used = {b.allocator for b in record.buffers}
            expected = {STRATEGIES[strategy].allocator}
            if STRATEGIES[strategy].duplicated:
                expected.add(STRATEGIES[strategy].host_arrays)
            assert expected <= used <= expected | {"malloc", "device"}, (
                strategy
            )  # malloc and device hold scratch and host arrays
        else:
            assert record.status == "skipped", strategy
            assert REASONS[strategy] in record.reason


@pytest.mark.slow
def test_without_concurrent_managed_access_there_is_no_advice_and_no_prefetch(tmp_path: Path) -> None:
    names = [w for s in sorted(ALWAYS) if s.startswith("managed") for w in ("--strategy", s)]
    options = ("--size", "tiny", "--repeat", "1")
    records = app(tmp_path / "out", "heartwall", *names, *options, STANDIN_CONCURRENT="0")
    managed, *others = sorted(records, key=lambda r: str(r.factors["strategy"]))
    assert (managed.factors["strategy"], managed.status, managed.verified) == ("managed", "ok", True)
    assert [r.status for r in others] == ["skipped"] * 4
    (reason,) = {r.reason for r in others}
    assert_states(reason, "hip:0", "concurrentManagedAccess is 0", "advice", "prefetches")


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["bfs_concurrent", "cfd_concurrent", "gaussian_concurrent", "kmeans_concurrent"])
def test_without_concurrent_managed_access_both_agents_take_turns(name: str, tmp_path: Path) -> None:
    options = ("--strategy", "managed", "--size", "tiny", "--repeat", "1", "--set", "gpu_share=0,0.4,1")
    records = app(tmp_path / "out", name, *options, STANDIN_CONCURRENT="0")
    assert len(records) == 3
    for record in records:
        assert (record.status, record.reason, record.verified) == ("ok", "", True), record.factors
        assert record.counters["ran_schedule"] == "lockstep"


@pytest.mark.slow
def test_kernels_are_timed_beside_prefetches(tmp_path: Path) -> None:
    options = ("--strategy", "managed+prefetch-overlap", "--size", "tiny", "--repeat", "1", "--set", "kernel_times=on")
    (record,) = app(tmp_path / "out", "hotspot", *options)
    assert (record.status, record.reason, record.verified, record.suspect) == ("ok", "", True, "")
    assert all(record.counter(name) > 0 for name in ("kernel_ms", "gpu_ms"))


@pytest.mark.parametrize(
    ("experiment", "settings"),
    matrix(
        [
            ("atomics", ["elements=1024", "type=u64", "scope=system", "cpu_threads=1", "gpu_threads=64"]),
            ("concurrency", ["strategy=concurrent,lockstep", "size=1MiB", "iterations=2"]),
            ("locking", ["rivals=both", "outside=0", "sections=50"]),
        ],
        1,
    ),
)
def test_cpu_and_gpu_of_an_apu_use_device_memory_at_once(experiment: str, settings: list[str], tmp_path: Path) -> None:
    options = [word for setting in ["allocator=device", *settings] for word in ("--set", setting)]
    records = run(tmp_path / "out", experiment, *options, **APU)
    assert records
    for record in records:
        assert (record.status, record.reason, record.verified) == ("ok", "", True), record.factors


@pytest.mark.parametrize(
    ("experiment", "settings", "cached", "verified"),
    [
        ("concurrency", ["strategy=concurrent", "size=1MiB", "iterations=4"], "1", True),
        ("locking", ["rivals=both", "flush=fence", "outside=0", "sections=50"], "", True),
        ("locking", ["rivals=both", "flush=fence", "outside=0", "sections=50"], "1", False),
    ],
)
def test_memory_that_is_flushed_is_used_in_parts_and_a_fence_that_does_not_flush_is_found(
    experiment: str, settings: list[str], cached: str, verified: bool, tmp_path: Path
) -> None:
    """The kernels' ends write the cache of the stand-in back, its fences do not."""
    options = [word for setting in ["allocator=pinned-noncoherent", *settings] for word in ("--set", setting)]
    records = run(tmp_path / "out", experiment, *options, status=None, STANDIN_CACHED=cached)
    assert [(r.status, r.verified) for r in records] == [("ok", verified)]


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", matrix(["producer_consumer", "bfs_concurrent", "kmeans_concurrent"]))
def test_concurrent_applications_work_on_device_memory_of_an_apu(name: str, tmp_path: Path) -> None:
    options = ("--strategy", "unified", "--size", "tiny", "--repeat", "1")
    (record,) = app(tmp_path / "apu", name, *options, **APU)
    assert (record.status, record.reason, record.verified) == ("ok", "", True)


@pytest.mark.slow
def test_memory_of_an_apu_is_shown_by_each_counter_and_not_added(tmp_path: Path) -> None:
    options = ("--strategy", "unified", "--size", "4MiB", "--repeat", "1")
    (record,) = app(tmp_path / "out", "hotspot", *options, **APU)
    buffers = sum(b.bytes for b in record.buffers)
    assert record.counters["peak_device_bytes"] == buffers
    assert record.counter("peak_host_bytes") == pytest.approx(buffers, rel=0.2)
    assert "peak_bytes" not in record.counters
    assert "memory_compute_bytes" not in record.counters


@pytest.mark.exhaustive
def test_a_managed_array_of_a_module_is_a_strategy_of_bounded_applications(tmp_path: Path) -> None:
    (record,) = app(tmp_path / "out", "heartwall", "--strategy", "managed-static", "--size", "tiny", "--repeat", "1")
    assert (record.status, record.reason, record.verified) == ("ok", "", True)
    assert "managed-static" in {b.allocator for b in record.buffers}


@pytest.mark.exhaustive
def test_only_strategies_with_two_copies_have_copies_and_make_each_once(tmp_path: Path) -> None:
    names = [w for s in ("explicit", "explicit+pinned", "pinned") for w in ("--strategy", s)]
    for record in app(tmp_path / "out", "black_scholes", *names, "--size", "tiny", "--repeat", "2"):
        held = [sum(b.allocator == kind for b in record.buffers) for kind in ("device", "malloc", "pinned")]
        expected = {"explicit": [5, 5, 0], "explicit+pinned": [5, 0, 5], "pinned": [0, 0, 5]}
        assert held == expected[str(record.factors["strategy"])]
        assert record.verified
        assert record.counters["copied_h2d_bytes"] == record.counters["footprint_bytes"] * 3 // 5  # type: ignore[operator]


@pytest.mark.exhaustive
def test_a_failing_call_is_named_and_other_strategies_run(tmp_path: Path) -> None:
    options = [w for s in ("managed", "managed+prefetch", "pinned") for w in ("--strategy", s)]
    records = app(
        *(tmp_path / "out", "black_scholes", "--size", "tiny", "--repeat", "1", *options),
        status=1,
        STANDIN_FAIL="hipMemPrefetchAsync=801",
    )
    results = {r.factors["strategy"]: (r.status, r.reason) for r in records}
    assert results["managed"] == results["pinned"] == ("ok", "")
    assert results["managed+prefetch"][0] == "failed"
    assert "hipMemPrefetchAsync: operation not supported (hipErrorNotSupported)" in results["managed+prefetch"][1]


@pytest.mark.exhaustive
def test_more_than_the_device_has_is_refused_before_anything_is_allocated(tmp_path: Path) -> None:
    options = [w for s in ("explicit", "managed", "pinned") for w in ("--strategy", s)]
    records = app(
        tmp_path / "out", "black_scholes", "--size", "64MiB", "--repeat", "1", *options, STANDIN_MEMORY=str(2**25)
    )
    results = {r.factors["strategy"]: (r.status, r.reason) for r in records}
    assert results["pinned"] == ("ok", "")
    assert results["explicit"][0] == results["managed"][0] == "skipped"
    for strategy in ("explicit", "managed"):
        assert_states(results[strategy][1], "hip:0", "has 32 MiB")
        assert ("--allow-oversubscription" in results[strategy][1]) == (strategy == "managed")


MEMORY, RESERVE, LEFT = 2**26, 2**23, 12 * 2**20
"""Of the stand-in's device, what the guard keeps of it, and what ballast leaves to data of 18 MiB at a ratio of 1.5."""
SHORT = ("--repeat", "1", "--iterations", "1")


@pytest.mark.parametrize("xnack", matrix(["0", "1"], 1))
@pytest.mark.slow
def test_managed_data_exceed_what_ballast_leaves_where_that_is_allowed(xnack: str, tmp_path: Path) -> None:
    options = [w for s in ("explicit", "managed", "managed+both", "pinned") for w in ("--strategy", s)]
    options += [*SHORT, "--size", "18MiB", "--oversubscribe", "1.5", "--allow-oversubscription"]
    records = app(tmp_path / "out", "black_scholes", *options, STANDIN_MEMORY=str(MEMORY), HSA_XNACK=xnack)
    results = {str(r.factors["strategy"]): r for r in records}
    assert_states(results["explicit"].reason, "black_scholes needs 18 MiB", "4 MiB left free", "12 MiB less 8 MiB")
    for strategy in ("managed", "managed+both", "pinned"):
        record = results[strategy]
        assert (record.status, record.reason, record.verified) == ("ok", "", True), strategy
        assert record.counter("size_reached") == pytest.approx(1, abs=0.001)
        assert record.counter("free_beside_ballast_bytes") == pytest.approx(LEFT, rel=0.001)
        assert record.counter("ballast_bytes") == pytest.approx(MEMORY - LEFT, rel=0.01)
        assert record.counter("ratio_reached") == pytest.approx(1.5, rel=0.001)


@pytest.mark.slow
def test_managed_data_and_ballast_stay_within_free_memory_less_the_reserve_unless_allowed(tmp_path: Path) -> None:
    """A ratio leaves the same bytes free under every strategy, with permission or without."""
    options = [w for s in ("explicit", "managed", "pinned") for w in ("--strategy", s)]
    options += [*SHORT, "--size", "18MiB", "--set", "oversubscribe=0.5,0.9,1.1,40"]
    records = app(tmp_path / "out", "black_scholes", *options, STANDIN_MEMORY=str(MEMORY))
    assert len(records) == 12
    for record in records:
        ratio, strategy = float(record.factors["oversubscribe"]), str(record.factors["strategy"])  # type: ignore[arg-type]
        if ratio == 40:
            assert_states(record.reason, "460.8 KiB", "free on hip:0", "less than the 8 MiB")
        elif ratio == 0.5 or strategy == "pinned":
            assert (record.status, record.reason, record.verified) == ("ok", "", True), record.factors
            assert record.counter("free_beside_ballast_bytes") == pytest.approx(18 * 2**20 / ratio, rel=0.001)
            assert record.counter("ratio_reached") == pytest.approx(ratio, rel=0.001)
            assert "measured_peak_bytes" not in record.counters
        else:
            assert record.status == "skipped"
            assert_states(record.reason, "black_scholes needs 18 MiB", "device memory")
            assert ("--allow-oversubscription" in record.reason) == (strategy == "managed")


@pytest.mark.slow
def test_the_peak_of_a_ratio_is_measured_before_the_ballast(tmp_path: Path) -> None:
    options = [w for s in ("managed", "pinned") for w in ("--strategy", s)]
    options += [*SHORT, "--size", "18MiB", "--set", "peak=measured", "--oversubscribe", "1.25"]
    records = app(tmp_path / "out", "black_scholes", *options, "--allow-oversubscription", STANDIN_MEMORY=str(MEMORY))
    assert len(records) == 2
    for record in records:
        assert (record.status, record.reason, record.verified) == ("ok", "", True), record.factors
        peak = record.counter("measured_peak_bytes")
        assert peak == pytest.approx(18 * 2**20, rel=0.05)
        assert record.counter("free_beside_ballast_bytes") == pytest.approx(peak / 1.25, rel=0.001)
        assert record.counter("ratio_reached") == pytest.approx(1.25, rel=0.001)


@pytest.mark.parametrize(
    ("settings", "strategies"),
    matrix(
        [
            ({"budget": "24MiB", "memory": str(MEMORY)}, ("explicit", "managed", "managed+prefetch")),
            ({"memory": str(2**25)}, ("managed", "managed+prefetch")),
        ],
        2,
    ),
)
@pytest.mark.slow
def test_oversubscribed_runs_by_tiles_and_by_managed_memory_where_that_is_allowed(
    settings: dict[str, str], strategies: tuple[str, ...], tmp_path: Path
) -> None:
    options = [w for s in ("explicit", "managed", "managed+prefetch") for w in ("--strategy", s)]
    options += [*SHORT, "--size", "oversubscribed", "--allow-oversubscription"]
    options += ["--budget", settings["budget"]] if "budget" in settings else []
    records = app(tmp_path / "out", "black_scholes", *options, STANDIN_MEMORY=settings["memory"])
    results = {str(r.factors["strategy"]): r for r in records}
    for strategy, record in results.items():
        expected = ("ok", True) if strategy in strategies else ("skipped", None)
        assert (record.status, record.verified) == expected, (strategy, record.reason)
        if strategy in strategies:
            assert record.counter("footprint_bytes") > 1.4 * parse_size(settings.get("budget", settings["memory"]))
    if "budget" in settings:
        assert results["managed"].counter("free_beside_ballast_bytes") == pytest.approx(24 * 2**20, rel=0.001)


@pytest.mark.slow
def test_migration_runs_beyond_what_ballast_leaves_where_that_is_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ["allocator=managed,device", "ratio=0.5,1.5,1.6", "size=18MiB", "iterations=2", "events=off"]
    options += ["touch=dense", "order=parallel", "advice=none", "prefetch=none", "starts_on=cpu", "operation=update"]
    sets = [word for option in options for word in ("--set", option)]
    records = run(tmp_path / "out", "migration", *sets, "--allow-oversubscription", STANDIN_MEMORY=str(MEMORY))
    results = {(str(r.factors["allocator"]), r.factors["ratio"]): r for r in records}
    for ratio in (0.5, 1.5, 1.6):
        record = results["managed", ratio]
        assert (record.status, record.verified) == ("ok", True), record.reason
        assert record.counter("free_beside_ballast_bytes") == pytest.approx(LEFT * 1.5 / ratio, rel=0.001)
        assert record.counter("ratio_reached") == pytest.approx(ratio, rel=0.001)
    assert_states(results["device", 1.5].reason, "needs 18 MiB", "device memory", "the 4 MiB left free")
    (section,) = Migration().sections(records, None)
    assert (section.question, [*section.figures]) == (Migration.ratio_question, [*Migration.ratio_figures])
    monkeypatch.setattr("firsttouch.report.page.to_svgs", lambda specs: ["" for _ in specs])
    assert f">{section.question}<" in write_report([tmp_path / "out"]).read_text()
    drawing = draw(section.figures[0], section.records, DrawingContext(None, Palette()))
    assert drawing is not None
    assert section.figures[0].x_title in to_svg(drawing.spec)
    found = [row(each) for each in Migration().findings([r for r in records if r.status == "ok"], None)]
    by_ratio = [(each["case"], each.get("lowest")) for each in found if "ratio" in each.get("case", "")]
    assert by_ratio == [("managed, ratio 1.6", "0.5"), ("device, ratio 0.5", None)]


@pytest.mark.exhaustive
def test_xnack_as_a_factor_lets_the_gpu_access_plain_memory(tmp_path: Path) -> None:
    options = [w for s in ("explicit", "system") for w in ("--strategy", s)]
    options += ["--size", "tiny", "--repeat", "1", "--set", "xnack=0,1"]
    found = app(tmp_path / "out", "black_scholes", *options)
    results = {(r.factors["strategy"], r.factors["xnack"]): (r.status, r.verified) for r in found}
    assert results.pop(("system", "0")) == ("skipped", None)
    assert results == dict.fromkeys((("explicit", "0"), ("explicit", "1"), ("system", "1")), ("ok", True))
