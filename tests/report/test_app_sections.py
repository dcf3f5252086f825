"""The sections of applications: derived values, figures and findings, from valid and from untrusted records."""

from __future__ import annotations

import re
from html import unescape

import msgspec
import pytest
import sample
from drawn import drawing_of, texts_of
from test_page import Elements, section
from tests.findings import assert_finding
from tests.texts import assert_states

from firsttouch.experiments.contract.base import ReportSection
from firsttouch.harness.outcomes import report
from firsttouch.harness.outcomes.app_findings import of_all, of_application
from firsttouch.harness.outcomes.derive import derive
from firsttouch.program.strategies import STRATEGIES
from firsttouch.records.figures import Line, Stack, Table, Timeline
from firsttouch.records.findings import Claim, finding
from firsttouch.records.reading import Results
from firsttouch.records.schema import Record, Request
from firsttouch.records.timeline import TransferTimeline
from firsttouch.report.chapters import chapters
from firsttouch.report.draw import draw
from firsttouch.report.drawing import DrawingContext
from firsttouch.report.page import render
from firsttouch.report.palette import Palette

MIB, GIB = 2**20, 2**30


@pytest.fixture(scope="module")
def page():
    return render({"out": sample.app_results()}, sample.WITH_APPS)


def sections_of(records, experiments=sample.WITH_APPS, timelines=None):
    results = Results(sample.machine(), None, list(records), [])
    results.timelines = timelines or {}
    return chapters({"out": results}, experiments)[0].sections


# ---------------------------------------------------------------------------------------------- summary


def compared_to(baseline: str) -> list[Record]:
    """The records of a directory whose last call said --relative-to."""
    asked = Request(schema="", experiments=[], devices=[], preset="quick", seed=1, kind="app", relative_to=baseline)
    return Results(sample.machine(), asked, sample.app_results().records).records


@pytest.mark.parametrize("baseline", ["managed", "pinned"])
def test_ratios_figures_and_findings_are_to_the_strategy_that_the_call_names(baseline):
    rows = [row for row in report.summary(compared_to(baseline)) if row.relative_time is not None]
    assert {row.relative_to for row in rows} <= {baseline}
    own = [row for row in rows if row.strategy == baseline]
    assert all(row.relative_time == 1 for row in own)
    usual = {(r.application, str(r.conditions), r.strategy): r for r in report.summary(sample.app_results().records)}
    for row in rows:
        base = usual[row.application, str(row.conditions), baseline]
        assert row.relative_time == pytest.approx(row.total_ms / base.total_ms)
    derived = derive([r for r in compared_to(baseline) if r.device == "cuda:0"])
    assert own
    assert {figure.title.rpartition(" to ")[2] for figure in report.overview(derived)} == {baseline, "explicit+pinned"}
    assert {found.conditions["baseline"] for found in of_all(derived) if found.claim.id == "app.mean"} == {baseline}


def test_a_baseline_that_no_version_knows_is_the_usual_one():
    assert {row.relative_to for row in report.summary(compared_to("<script>"))} == {"explicit"}


def test_the_summary_has_a_row_per_point_with_what_was_derived():
    rows = report.summary(sample.app_results().records)
    assert [row.application for row in rows] == sorted(row.application for row in rows)
    by_name = {(row.application, row.strategy): row for row in rows if not row.conditions}
    managed = by_name["hotspot", "managed"]
    assert (managed.total_ms, managed.compute_ms, managed.peak_device_bytes) == (pytest.approx(111.92), 84, 64 * MIB)
    assert managed.relative_memory == 72 / 128
    assert (managed.relative_compute, managed.verified) == (pytest.approx(2.4), True)
    (skipped,) = (record for record in sample.app_results().records if record.status == "skipped")
    assert (by_name["hotspot", "unified"].reason, by_name["hotspot", "unified"].total_ms) == (skipped.reason, None)
    assert by_name["bfs", "managed"].reason == "node 7 has cost 3, not 2"
    assert [row.conditions for row in rows if row.application == "srad"] == [{"size": n} for n in (MIB, MIB, GIB, GIB)]


def test_zero_is_kept_and_invalid_counters_are_none():
    bare = sample.app("a", "pinned", counters={"peak_device_bytes": 0, "peak_host_bytes": "many"})
    (row,) = report.summary([bare])
    assert (row.peak_device_bytes, row.peak_host_bytes, row.relative_time) == (0, None, None)


def test_events_runs_have_rows_only_if_they_failed():
    on = {"factors": {"events": "on"}}
    good = [sample.app("a", "explicit"), sample.app("a", "managed"), sample.app("a", "managed", **on)]
    lost = sample.app("a", "managed+both", status="timeout", reason="no end", **on)
    skipped = sample.app("a", "managed", status="skipped", reason="no events here", **on)
    assert len(report.summary(good)) == 2
    assert len(report.summary([*good[:2], skipped])) == 2
    assert [(r.strategy, r.conditions) for r in report.summary([*good, lost])][1:] == [
        ("managed", {"events": "off"}),
        ("managed+both", {"events": "on"}),
    ]


# ---------------------------------------------------------------------------------------------- derive


def derived(*records):
    return {(r.factors["strategy"], r.factors["events"]): r for r in derive(records)}


def test_values_relative_to_explicit():
    without = [{"counters": {"without_initialise_ms": ms}} for ms in (40, 50)]
    found = derived(sample.app("a", "explicit", **without[0]), sample.app("a", "managed", **without[1]))
    counters = found["managed", "off"].counters
    assert counters["relative_without_initialise"] == pytest.approx(1.25)
    assert counters["relative_compute"] == pytest.approx(2.4)
    assert counters["relative_time"] == pytest.approx((84 + 27.92) / (35 + 27.92))
    assert counters["relative_memory"] == 72 / 128
    assert found["explicit", "off"].counters["relative_time"] == 1


@pytest.mark.parametrize(
    ("noise", "ratio", "bounds"),
    [
        (2, 0.6, (118 / 202, 122 / 198)),
        (13, None, (None, None)),  # more than a tenth of 120
        (None, None, (None, None)),  # as in records of earlier versions
    ],
)
def test_relative_memory_without_a_sum_is_that_of_the_machine_where_its_noise_is_small(noise, ratio, bounds):
    counters = {"peak_bytes": None, "peak_machine_noise_bytes": noise}
    found = derived(
        sample.app("a", "explicit", counters={**counters, "peak_machine_bytes": 200}),
        sample.app("a", "unified", counters={**counters, "peak_machine_bytes": 120}),
    )
    (unified,) = (r.counters for (name, _), r in found.items() if name == "unified")
    assert unified.get("relative_memory") == ratio
    assert tuple(unified.get(f"relative_memory_{end}") for end in ("low", "high")) == bounds


@pytest.mark.parametrize(
    "explicit",
    [
        sample.app("a", "explicit", verified=False),
        sample.app("a", "explicit", status="failed", reason="no memory"),
        sample.app("b", "explicit"),
        sample.app("a", "explicit", factors={"size": "tiny"}),
        sample.app("a", "explicit", factors={"budget": 50}),
    ],
)
def test_nothing_is_compared_with_wrong_or_different_points(explicit):
    managed = sample.app("a", "managed", counters={"relative_time": 99.0})
    assert not any(n.startswith("relative") for n in derive([explicit, managed])[1].counters)


def test_values_relative_to_page_locked_host_arrays():
    points = [("explicit", 4.0), ("explicit+pinned", 2.0), ("managed", 3.0)]
    made = derive([sample.app("a", name, time) for name, time in points])
    explicit, pinned, managed = ({r.factors["strategy"]: r for r in made}[name] for name, _ in points)
    times = {r.factors["strategy"]: r.summary.median for r in made}
    for record in (explicit, managed):
        ratio = times[record.factors["strategy"]] / times["explicit+pinned"]
        assert record.counters["relative_pinned_time"] == pytest.approx(ratio)
        assert record.counters["relative_pinned_time_low"] <= ratio <= record.counters["relative_pinned_time_high"]
    assert managed.counters["relative_time"] == pytest.approx(times["managed"] / times["explicit"])
    assert pinned.counters["relative_pinned_time"] == 1
    assert "relative_pinned_time_low" not in pinned.counters


def test_invalid_values_have_no_ratio():
    odd = {"phase_compute_ms": "fast", "peak_bytes": True}
    counters = derive([sample.app("a", "explicit", counters=odd), sample.app("a", "managed")])[1].counters
    assert [n for n in counters if n.startswith("relative")] == [
        "relative_time",
        "relative_time_low",
        "relative_time_high",
    ]


def events_run(strategy, **more):
    counters = {"um_events": "recorded", "um_gpu_faults": 3, "phase_compute_ms": 9e9}
    return sample.app("a", strategy, factors={"events": "on"}, counters=counters, **more)


def test_an_events_run_contributes_only_its_events():
    found = derived(events_run("managed"), sample.app("a", "managed"), sample.app("a", "explicit"))
    assert list(found) == [("managed", "off"), ("explicit", "off")]
    counters = found["managed", "off"].counters
    assert (counters["um_gpu_faults"], counters["um_events"], counters["phase_compute_ms"]) == (3, "recorded", 84)
    assert "um_events" not in found["explicit", "off"].counters


def test_events_runs_that_failed_are_kept():
    failed = sample.app("a", "system", factors={"events": "on"}, status="failed", reason="lost")
    records = [sample.app("a", s) for s in ("explicit", "managed", "system")]
    found = derived(*records, events_run("managed", verified=False), failed, events_run("pinned"))
    assert {s for s, events in found if events == "on"} == {"managed", "system", "pinned"}
    assert "um_gpu_faults" not in found["managed", "off"].counters
    assert "relative_time" not in found["pinned", "on"].counters


def test_a_skip_is_reported_once():
    skips = [sample.app("a", "unified", factors={"events": e}, status="skipped", reason="no") for e in ("off", "on")]
    assert len(derive(skips)) == 1


def test_input_records_are_not_modified():
    records = [sample.app("a", "explicit"), sample.app("a", "managed"), events_run("managed")]
    derive(records)
    assert "relative_time" not in records[1].counters
    assert "um_events" not in records[1].counters


# ---------------------------------------------------------------------------------------------- sections


def test_an_overview_then_applications_in_alphabetical_order():
    found = sections_of(sample.app_results().records)
    assert [s.name for s in found] == ["app", "app: bfs", "app: hotspot", "app: srad"]
    assert [s.anchor for s in found] == ["app-cuda-0", "app-bfs-cuda-0", "app-hotspot-cuda-0", "app-srad-cuda-0"]
    overview, *others = found
    heads = [r.factors["strategy"] for r in overview.records if r.factors["app"] == "hotspot"]
    assert heads == [*sample.STRATEGIES, "unified"]
    assert list(dict.fromkeys(r.factors["app"] for r in overview.records)) == ["bfs", "hotspot", "srad"]
    assert not any(overview.tally.values())
    assert not overview.rows
    assert sum(sum(s.tally[k] for k in ("ok", "wrong", "skipped")) for s in others) == 18


def kernel(app, strategy, ms, time=None, sd=0.1):
    counters = {"kernel_ms": ms, "kernel_sd_ms": sd, "kernel_compute_ms": 99.0, "gpu_ms": 3 * ms}
    return sample.app(app, strategy, time, counters=counters)


def test_kernel_times_have_heat_maps_where_they_were_measured():
    timed = [kernel(app, s, ms) for app in ("bfs", "srad") for s, ms in (("explicit", 10.0), ("managed", 25.0))]
    (overview, *_) = report.sections(derive(timed), {}, {})
    (heat,) = [f for f in overview.figures if getattr(f, "z", "") == "relative_kernel"]
    assert heat.title.endswith("explicit")
    assert "2.5" in texts_of(drawing_of(heat, overview.records))
    (row, _, _, _) = report.summary(timed)
    assert (row.kernel_ms, row.kernel_sd_ms, row.relative_kernel) == (10, 0.1, 1)
    (bars,) = [f for f in overview.figures if getattr(f, "y", "") == "gpu_ms"]
    assert {"30 ms", "75 ms"} <= set(texts_of(drawing_of(bars, overview.records)))
    assert (row.gpu_ms, row.relative_gpu) == (30, 1)
    without = [sample.app(app, "explicit") for app in ("bfs", "srad")]
    assert drawing_of(heat, derive(without)) is None


def test_a_finding_says_where_kernels_and_the_whole_run_disagree():
    def found(*managed):
        return of_application(derive([kernel("a", "explicit", 10.0), kernel("a", "managed", *managed)]))

    assert_finding(found(20.0, 0.5), "app.kernels", strategy="managed", baseline="explicit", value=2.0, run=0.722)
    assert "app.kernels" in ids(found(5.0, 2.0))
    assert "app.kernels" not in ids(found(20.0, 2.0))
    assert "app.kernels" not in ids(found(10.1, 0.5))


def test_one_application_needs_no_overview():
    assert [s.name for s in sections_of([sample.app("bfs", "explicit")])] == ["app: bfs"]


def test_sections_of_one_application_are_adjacent_across_devices():
    records = [sample.app(a, "explicit") for a in ("srad", "bfs")] + [sample.app("bfs", "explicit")]
    records[2].device = "cpu"
    found = [(s.name, s.device) for s in sections_of(records)]
    assert found == [("app", "cuda:0"), ("app: bfs", "cpu"), ("app: bfs", "cuda:0"), ("app: srad", "cuda:0")]


def test_the_page_has_each_section(page):
    one = section(page, "app: hotspot", "cuda:0")
    (found,) = (s for s in sections_of(sample.app_results().records) if s.name == "app: hotspot")
    assert_states(found.question, "hotspot", "(iterate on the GPU,")
    fastest = {"strategy": "managed+both", "value": 55.92, "ratio": 0.889, "other_strategy": "explicit"}
    assert_finding(found.findings, "app.fastest", **fastest, other_value=62.92)
    (skipped,) = found.skipped
    assert (skipped.count, skipped.which) == (1, "strategy unified")
    assert_states(unescape(one), found.question, found.answer, f"1 point: {skipped.text} {skipped.which}")
    assert_states(one, "GPU fault groups", "417", "first allocation", "last readback", "SourceRodinia")
    assert "wrong: node 7" not in one
    assert "node 7 has cost 3, not 2" in section(page, "app: bfs", "cuda:0")


def test_the_overview_is_not_counted(page):
    counts = page[page.index('<table class="wide summary">') :]
    rows = re.findall(r'<tr><td><a href="#[^"]+">([^<]+)</a></td><td>cuda:0</td>(.*?)</tr>', counts)
    cells = {name: re.findall(r"<td[^>]*>([^<]*)</td>", rest) for name, rest in rows}
    assert "app" not in cells
    assert cells["app: bfs"] == ["2", "1", "0", "1"]  # ok, wrong, skipped, throttled
    assert cells["app: hotspot"] == ["10", "0", "1", "0"]
    overview = section(page, "app", "cuda:0")
    assert "Verified" not in overview
    assert "measured point" not in overview
    alert = page[page.index('role="alert"') : page.index("</header>")]
    assert "1 point failed verification" in alert
    assert alert.count("<a href") == 1


def test_links_have_targets(page):
    found = Elements(page).found
    ids = [a["id"] for _, a in found if a.get("id")]
    assert len(ids) == len(set(ids))
    assert {a["href"][1:] for _, a in found if (a.get("href") or "").startswith("#")} <= set(ids)


def kinds(records):
    return [type(f) for f in report.sections(derive(records), {}, {})[-1].figures]


def test_figures_that_say_something():
    quick = {"phase_context_ms": 0.5}
    assert kinds([sample.app("a", "explicit")]) == [Stack, Stack, Line, Table]
    assert kinds([sample.app("a", "explicit", counters=quick)]) == [Stack, Line, Table]
    assert kinds([sample.app("a", "explicit", counters=quick, iterations=1)]) == [Stack, Table]
    driver = {"um_compute_undisturbed_ms": 20.0, "um_compute_gpu_faults_ms": 11.0, "um_compute_to_device_ms": 4.0}
    records = derive(
        [
            sample.app("a", "managed", counters=quick),
            sample.app("a", "managed", factors={"events": "on"}, counters=driver),
        ]
    )
    assert kinds(records) == [Stack, Line, Stack, Stack, Timeline, Table]
    drawing = drawing_of(report.DRIVER, records)
    segments = [r for r in drawing.spec["datasets"]["rows"] if r["kind"] == "segment"]
    assert [(r["segment"], r["end"] - r["start"]) for r in segments] == [
        ("nothing recorded", 20), ("gpu faults", 11), ("to device", 4)
    ]  # fmt: skip
    assert {"35 ms", "managed"} <= set(texts_of(drawing))


def test_faults_and_transfers_of_the_whole_run_are_added_up_as_nvprof_does():
    sums = {"um_h2d_ms": 1.0, "um_h2d_sum_ms": 9.0, "um_d2h_sum_ms": 4.0, "um_gpu_fault_sum_ms": 30.0}
    drawing = drawing_of(report.SUMS, derive([sample.app("a", "managed", counters=sums)]))
    segments = [
        (r["segment"], r["end"] - r["start"]) for r in drawing.spec["datasets"]["rows"] if r["kind"] == "segment"
    ]
    assert segments == [("transfers to the device", 9), ("transfers to the host", 4), ("GPU page faults (stall)", 30)]
    assert "43 ms" in texts_of(drawing)


def test_the_table_has_what_varies_and_no_empty_columns():
    records = derive([sample.app("a", s, factors={"n": n}) for s in ("explicit", "managed") for n in (1, 2)])
    drawing = drawing_of(report.sections(records, {}, {})[0].figures[-1], records)
    assert drawing.columns[:4] == ["strategy", "n", "total", "relative time"]
    assert "verified" not in drawing.columns  # all are, and the section says so
    assert not any("fault groups" in column for column in drawing.columns)
    assert drawing.rows[2][:5] == ["managed", "1", "112 ms", "1.78", "84 ms"]


def test_the_table_says_which_points_are_not_verified():
    records = [sample.app("a", "explicit"), sample.app("a", "managed", verified=None, verified_why="too large")]
    drawing = drawing_of(report.sections(records, {}, {})[0].figures[-1], records)
    assert drawing.columns[-1] == "verified"
    assert [row[-1] for row in drawing.rows] == ["yes", "not checked"]


def test_strategies_have_a_fixed_order_and_colours():
    names = ["svm-atomic", "mine", "managed", "explicit"]
    (part,) = report.sections([sample.app("a", s) for s in names], {}, {})
    assert [r.factors["strategy"] for r in part.records] == ["explicit", "managed", "svm-atomic", "mine"]
    looks = []
    for some in (names, ["managed", "svm-atomic"]):
        palette = Palette()
        draw(report.ITERATIONS, [sample.app("a", s) for s in some], DrawingContext(None, palette))
        looks.append(list(zip(*palette.styles("strategy", ["managed", "svm-atomic"]), strict=True)))
    assert looks[0] == looks[1]
    assert len(set(zip(*Palette().styles("strategy", report.ITERATIONS.order), strict=True))) == len(STRATEGIES)


def test_few_iterations_have_whole_numbers_on_the_axis():
    drawing = drawing_of(report.ITERATIONS, [sample.app("a", s, iterations=3) for s in ("explicit", "managed")])
    assert {"0", "1", "2"} <= set(texts_of(drawing))
    assert not {"0.5", "1.5"} & set(texts_of(drawing))


def test_a_stack_has_ticks_in_the_unit_of_its_bars():
    slow = {"phase_compute_ms": 1400.0}
    drawing = drawing_of(report.STACK, [sample.app("a", "explicit", counters=slow)])
    assert {"0", "1 s", "time"} <= set(texts_of(drawing))


def test_columns_of_amounts_are_aligned_right(page):
    from firsttouch.report.templates import numeric

    assert numeric([["managed", "1.2 s", "1.00", "–", "3 of 4"], ["pinned", "90 ms", "", "1,024", "1 s … 2 s"]]) == [  # noqa: RUF001
        False, True, True, True, False,
    ]  # fmt: skip
    assert numeric([]) == []
    assert numeric([[""]]) == [False]
    assert '<td class="num">1.78</td>' in page
    assert "<td>managed+both</td>" in page


def test_events_name_their_points(page):
    assert "Points: strategy managed. Totals of" in section(page, "app: hotspot", "cuda:0")


def test_all_skipped():
    skips = [sample.app(a, "managed", status="skipped", reason="no device") for a in ("bfs", "srad")]
    page = render({"out": Results(sample.machine(), None, skips, [])}, sample.WITH_APPS)
    one = section(page, "app: bfs", "cuda:0")
    assert_states(one, "Nothing was measured", "no device.", "1 point: no device")
    assert "<svg" not in page


def test_the_timeline_goes_to_its_application():
    timeline = TransferTimeline(
        {"app": "srad", "strategy": "managed", "size": 2**30, "events": "on"}, {"up": [(0.0, 0.0)]}
    )
    found = sections_of(sample.app_results().records, timelines={("app", "cuda:0"): [timeline]})
    assert [s.name for s in found if s.timelines] == ["app: srad"]


def test_exported_files_carry_the_application(write, monkeypatch, tmp_path):
    from firsttouch.report.export import export

    monkeypatch.setattr("firsttouch.experiments.all_experiments", lambda: sample.WITH_APPS)
    monkeypatch.setattr("firsttouch.report.export.to_svg", lambda spec: "")  # only the names matter
    names = [p.name for p in export([write(sample.app_results())], "svg", tmp_path)]
    assert {"app-cuda-0-1.svg", "app-bfs-cuda-0-1.svg", "app-hotspot-cuda-0-3.svg"} <= set(names)


# ---------------------------------------------------------------------------------------------- strangers


@pytest.mark.parametrize("method", ["derive", "sections"])
def test_an_experiment_that_fails_to_divide_its_records_has_one_section(method):
    class Broken(sample.Apps):
        pass

    def broken(self, *_):
        raise KeyError("app")

    setattr(Broken, method, broken)
    (one,) = sections_of(sample.app_results().records, {"app": Broken()})
    assert one.name == "app"
    assert not one.findings
    assert "(KeyError)" in one.answer
    assert len(one.rows) == 18


def test_no_record_is_lost_without_sections():
    class Empty(sample.Apps):
        def sections(self, records, device):
            return []

    (one,) = sections_of([sample.app("a", "explicit")], {"app": Empty()})
    assert one.tally["ok"] == 1


def test_findings_of_a_section_get_valid_records_only():
    class Own(sample.Apps):
        def sections(self, records, device):
            def count(good, device):
                return [finding(Claim("app.good", "{value} good"), good, str(len(good)))]

            return [ReportSection("What?", records, (), findings=count)]

    (one,) = sections_of([sample.app("a", "explicit"), sample.app("a", "managed", verified=False)], {"app": Own()})
    assert one.answer == "1 good."


def odd_records() -> list[Record]:
    evil = sample.EVIL + sample.EVIL_ATTRIBUTE
    counters = {
        f"phase_{evil}_ms": 3.0,
        "phase_x_ms": -1e308,
        "phase_y_ms": True,
        "phase__ms": "z",
        "peak_bytes": 1e308,
    }
    odd = [
        sample.app(evil, evil, factors={evil: evil}, counters=counters, verified=False, verified_why=evil),
        sample.app(evil, "explicit", factors={"events": evil, "value": evil, "series": 3}, counters=counters),
        sample.app(None, None, counters={f"phase_{i}_ms": 10.0**i for i in range(-300, 300, 20)}),
        sample.app(3, True, factors={"strategy": 1.5, "size": None}, counters={"iteration_0_ms": "slow"}),
        sample.app("a", "explicit", counters={"phase_context_ms": 2**64 - 1, "peak_bytes": 2**64 - 1}),
        sample.app("a", "managed", counters={"relative_memory": evil}),
        sample.app("a", evil, status="skipped", reason=evil),
        sample.point("app", "cuda:0", 0.0, factors={}),
        sample.point("app", "cuda:0", -5.0, factors={"strategy": "explicit"}),
    ]
    return [*odd, *(sample.app("a", f"{evil}{i}") for i in range(20))]


@pytest.mark.exhaustive
def test_untrusted_records_make_a_page_without_active_content():
    page = render({"out": Results(sample.machine(), None, odd_records(), [])}, sample.WITH_APPS)
    found = Elements(page)
    assert not {tag for tag, _ in found.found} & {"img", "iframe", "foreignobject", "image"}
    assert [tag for tag, _ in found.found].count("script") == 1  # the page's own
    assert not [a for _, attributes in found.found for a in attributes if a.startswith("on")]
    assert sample.EVIL in found.text
    assert not re.search(r"\(\w+Error\b", found.text)  # no answer and no division failed


# ---------------------------------------------------------------------------------------------- answers


def answer(*records):
    return of_application(derive(records))


def overview(records):
    return of_all(derive(records))


def ids(findings):
    return [finding.claim.id for finding in findings]


def test_explicit_is_the_fastest():
    found = answer(*(sample.app("a", s) for s in ("explicit", "managed", "pinned")))
    assert ids(found) == ["app.fastest", "app.relative", "app.relative", "app.memory"]
    assert_finding(found, "app.fastest", strategy="explicit", value=62.92, other_strategy=None, rivals=())
    for strategy, ratio in (("managed", 1.779), ("pinned", 3.503)):
        assert_finding(found, "app.relative", strategy=strategy, other_strategy="explicit", ratio=ratio)
    memory = {"value": 72 * MIB, "baseline_bytes": 128 * MIB, "saved": 43.75}
    assert_finding(found, "app.memory", strategy=("managed", "pinned"), baseline="explicit", **memory)


def test_wrong_data_come_first():
    found = answer(sample.app("a", "explicit"), sample.app("a", "managed", 0.1, verified=False))
    assert ids(found)[:2] == ["app.wrong", "app.only"]
    assert_finding(found, "app.wrong", value="1 point", strategy=("managed",))
    assert_finding(found, "app.only", strategy="explicit")
    assert ids(answer(sample.app("a", "managed", verified=False))) == ["app.wrong", "app.none"]


def test_no_clear_difference_no_explicit_and_several_settings():
    found = answer(sample.app("a", "managed", 1.0), sample.app("a", "svm-fine", 1.01), sample.app("a", "pinned", 4.0))
    assert_finding(found, "app.fastest", strategy="managed", value=62.92, rivals=("svm-fine",))
    for strategy, ratio in (("svm-fine", 1.006), ("pinned", 2.669)):
        assert_finding(found, "app.relative", strategy=strategy, other_strategy="managed", ratio=ratio)
    found = answer(*(sample.app("a", s, factors={"size": n}) for n in (1, MIB) for s in ("explicit", "managed")))
    assert (ids(found)[0], ids(found)[-1]) == ("app.fastest", "app.wins")
    assert_finding(found, "app.fastest", strategy="explicit", size=MIB)
    assert_finding(found, "app.wins", strategy="explicit", value="2", where="2 settings")


def test_an_events_run_is_never_the_fastest():
    found = answer(sample.app("a", "explicit"), events_run("managed", time=0.01))
    assert ids(found) == ["app.only"]
    assert_finding(found, "app.only", strategy="explicit")


def test_a_single_run_has_no_interval():
    record = sample.app("a", "explicit")
    record.summary = msgspec.structs.replace(record.summary, n=1)
    (one,) = sections_of([record])
    assert "one sample" in one.facts[0]
    assert one.rows[0][-1][1] == "–"  # noqa: RUF001
    two = msgspec.structs.replace(record, factors={**record.factors, "app": "b"})
    assert "app.once" in ids(overview([record, two]))


def test_an_overview_names_what_it_can_not_compare():
    records = [sample.app("a", "explicit"), sample.app("a", "managed"), sample.app("tree", "managed")]
    assert_finding(overview(records), "app.not_compared", baseline="explicit", applications=("tree",))


def test_no_clear_winner():
    found = overview([sample.app("a", s, t) for s, t in (("managed", 1.0), ("svm-fine", 1.0))])
    assert ids(found).count("app.wins") == 1
    assert_finding(found, "app.wins", strategy=None, value="1", where="1 application")


def test_the_overview_counts_wins_and_means():
    found = overview(sample.app_results().records)
    assert ids(found)[:4] == ["app.wrong", "app.wins", "app.wins", "app.wins"]
    assert_finding(found, "app.wrong", value="1 point", strategy=("managed",))
    for strategy, times in (("explicit", "2"), ("managed+both", "1"), ("pinned", "1")):
        assert_finding(found, "app.wins", strategy=strategy, value=times, where="3 applications under 4 settings")
    where = {"baseline": "explicit", "over": "3 of 4 cases without bfs"}
    assert_finding(found, "app.mean", strategy="managed", value=1.779, **where)
    assert of_all([]) == []
