"""The texts of evidence/*.md that are computed from records.

Those about applications take any number of directories. Points are compared with each other only within a directory.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from statistics import geometric_mean, median

import um_apps
from firsttouch.base.units import format_size
from firsttouch.cli.summary import show
from firsttouch.comparison.validation.judged import CLEARLY, Case, Judgement, estimator_of, exceptions, in_order, judge
from firsttouch.harness.outcomes.derive import EVENTS, ON, application, derive, is_events_run, setting, strategy
from firsttouch.harness.outcomes.report import summary as rows_of
from firsttouch.records.schema import Record
from firsttouch.records.text import count, join_names
from kernels import in_place
from records import ROOT, Directory, digits, exact, number_of, table

MANAGED = ("managed", "managed+advise", "managed+prefetch", "managed+both")
EXPLICIT = ("explicit", "explicit+pinned")
GIB = 2.0**30
Values = Mapping[str, float]


def paragraph(text: str) -> str:
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False) + "\n"


@cache
def derived(directory: Directory) -> list[Record]:
    """The points of applications, each with the events of its events run and the ratios to explicit."""
    devices = dict.fromkeys(r.device for r in directory.records)
    records = [r for d in devices for r in derive([r for r in directory.records if r.device == d])]
    return [r for r in records if r.status == "ok" and r.verified and not is_events_run(r)]


def by_application(records: Iterable[Record], wanted: str, name: str) -> Values:
    """A value by application and its other conditions, of the points of one strategy that have it."""
    values = {}
    for record in records:
        v = number_of(record, name)
        if strategy(record) == wanted and v is not None:
            values[f"{application(record)} {record.device} {setting(record)}"] = v
    return values


def over(directories: Sequence[Directory], wanted: str, name: str) -> Values:
    return {f"{d.name} {k}": v for d in directories for k, v in by_application(derived(d), wanted, name).items()}


def each_once(directories: Sequence[Directory]) -> list[Directory]:
    """The directories without the applications that another of them measured in more points, or as many and before."""
    points = {d: Counter(_program(r) for r in derived(d)) for d in directories}
    best = {program: max(directories, key=lambda d: points[d][program]) for n in points.values() for program in n}
    return [
        replace(d, results=replace(d.results, records=[r for r in d.records if best.get(_program(r), d) is d]))
        for d in directories
    ]


def _program(record: Record) -> tuple[str, object, str]:
    return application(record), record.factors.get("size"), record.device


def ratios(above: Values, below: Values) -> list[float]:
    return [above[k] / below[k] for k in above.keys() & below.keys() if below[k] > 0 and above[k] > 0]


def mean(values: Sequence[float]) -> str:
    return f"{geometric_mean(values):.2f}" if values else ""


SERIES = re.compile(r"^(h\d+-visit-[a-z]+|.*(?=-\d+$))-.*")
"""The directories that are one row: those of a visit for one purpose, and those that are told apart by numbers."""


def catalogue(directories: Sequence[Directory]) -> str:
    """One row for each directory, or group of a visit: what was measured when, and what of it failed or was wrong."""
    groups: dict[str, list[Directory]] = {}
    for d in directories:
        groups.setdefault(SERIES.sub(r"\1-*", d.path.name), []).append(d)
    rows = []
    for series, group in groups.items():
        name = series if len(group) > 1 else group[0].path.name
        linked = group[0].path.parent if len(group) > 1 else group[0].path
        records = [r for d in group for r in d.records]
        status = Counter(r.status for r in records)
        events = sum(r.factors.get(EVENTS) == ON for r in records if r.experiment == "app")
        bad = [f"{_subject(r)}: {r.status if r.verified is not False else 'wrong data'}" for r in records if _is_bad(r)]
        rows.append(
            [
                f"[{name}]({os.path.relpath(linked, ROOT / 'evidence')})",
                min(r.started for r in records)[:10],
                _contents(records),
                f"{len(records)}" + (f", {events} with events" if events else ""),
                str(status["skipped"]),
                "; ".join(dict.fromkeys(bad)) or "none",
            ]
        )
    return table(["records", "taken on", "what", "points", "skipped", "failed or wrong"], rows)


def _contents(records: Sequence[Record]) -> str:
    """The preset of a run of experiments; the applications, sizes and repetitions of a run of applications."""
    apps = [r for r in records if r.experiment == "app"]
    if not apps:
        names = sorted({r.experiment for r in records})
        preset = join_names(sorted({r.preset for r in records}))
        return f"{join_names(names) if len(names) < 7 else count(len(names), 'experiment')}, {preset}"
    names = sorted({application(r) for r in apps})
    sizes = sorted({v for r in apps if isinstance(v := r.factors.get("size"), int)})
    repeats = join_names(sorted({f"{r.factors['repeat']}" for r in apps if "repeat" in r.factors}))
    of = join_names(names) if len(names) < 5 else count(len(names), "application")
    what = [of, join_names([format_size(v) for v in sizes]) or "default size"]
    return ", ".join([*what, f"{repeats} repetition{'s' * (repeats != '1')}"] if repeats else what)


def _is_bad(record: Record) -> bool:
    return record.status not in ("ok", "skipped") or record.verified is False


def _subject(record: Record) -> str:
    if record.experiment != "app":
        return record.experiment
    return f"{application(record)} under {strategy(record)}{' with events' if record.factors.get(EVENTS) == ON else ''}"


ARRAYS = {"read": 1, "copy": 2, "triad": 3}
"""The arrays that pass in a kernel of `bandwidth`."""


def counted(directories: Sequence[Directory]) -> str:
    """What the vendor's profiler counted where the bytes follow from the arrays."""
    rows = []
    for r in (r for d in directories for r in d.records if r.experiment == "bandwidth"):
        names = ("link_read",) if r.factors["allocator"] == "pinned" else ("device_read", "device_write")
        counted_bytes = sum(r.counter(f"hw_{name}_bytes") for name in names)
        kernel, size = r.text("kernel"), r.count("size")
        expected = ARRAYS[kernel] * size
        where = f"{kernel} of {r.text('allocator')} memory, arrays of {format_size(size)}"
        counters = " + ".join(f"`hw_{name}_bytes`" for name in names)
        rows.append(
            [where, counters, exact(counted_bytes), exact(expected), f"{100 * (counted_bytes / expected - 1):+.3f} %"]
        )
    return table(["point", "counters", "counted", "arrays", "difference"], rows)


def sharing(directories: Sequence[Directory]) -> str:
    """Points of atomics in which both agents update the same array in managed memory."""
    shared_points = [
        r
        for d in directories
        for r in d.records
        if r.experiment == "atomics"
        and str(r.factors.get("allocator")).startswith("managed")
        and r.status == "ok"
        and r.factors.get("cpu_threads")
        and r.factors.get("gpu_threads")
    ]
    updates = sum(number_of(r, "increments") or 0 for r in shared_points)
    lost = sum((number_of(r, "increments") or 0) - (number_of(r, "found") or 0) for r in shared_points)
    pairs = _pairs(directories)
    groups = [
        exact(number_of(r, "compute_most_gpu_fault_groups") or 0)
        for d in directories
        for r in d.records
        if r.experiment == "migration" and r.factors.get("prefetch") == "whole" and r.factors.get("events") == "on"
    ]
    source = join_names([f"`{d.name}`" for d in directories])
    rows = [
        [
            "the sum of the histogram equals the increments in every combination of both agents, managed memory",
            f"{count(len(shared_points), 'point')}, {exact(updates)} updates including those of each agent alone, "
            + ("none lost" if not lost else f"{exact(lost)} lost"),
        ],
        ["after a prefetch of the whole buffer the passes raise no fault", f"{join_names(groups)} fault groups"],
        [
            "cost of recording events: pairs of points of `migration` with and without events",
            f"{digits(median(pairs))} times the time (median of {len(pairs)}, {digits(min(pairs))} to "
            f"{digits(max(pairs))})"
            if pairs
            else "not measured",
        ],
    ]
    return table(["what", f"{source}, H200"], rows)


def _pairs(directories: Sequence[Directory]) -> list[float]:
    """Times with events relative to those without, of points that differ in nothing else."""
    ratios = []
    for d in directories:
        medians: dict[str, dict[str, float]] = {}
        for r in d.records:
            if r.experiment == "migration" and r.status == "ok" and r.summary:
                rest = sorted((k, repr(v)) for k, v in r.factors.items() if k != EVENTS)
                medians.setdefault(f"{r.device} {rest}", {})[str(r.factors.get(EVENTS))] = r.summary.median
        ratios += [m[ON] / m["off"] for m in medians.values() if ON in m and "off" in m]
    return ratios


MEANS: Mapping[str, str] = {
    "whole run, from the first allocation to the last free": "median",
    "phase `compute`, including copies, faults and prefetches": "phase_compute_ms",
    "kernels": "kernel_ms",
    "peak memory": "peak_bytes",
}


def means(directories: Sequence[Directory]) -> str:
    """Geometric means relative to explicit by strategy."""
    all_of_them = {strategy(r) for d in directories for r in derived(d)} - {"explicit"}
    usual = [s for s in (EXPLICIT[1], *MANAGED) if s in all_of_them]
    cells = {
        (label, s): ratios(over(directories, s, name), over(directories, "explicit", name))
        for label, name in MEANS.items()
        for s in [*usual, *sorted(all_of_them - {*usual})]
    }
    labels, strategies = (list(dict.fromkeys(key[i] for key, values in cells.items() if values)) for i in (0, 1))
    strategies.sort(key=[s for _, s in cells].index)
    rows = [[label, *[_mean_of(cells[label, s]) for s in strategies]] for label in labels]
    return table(["relative to `explicit`", *[f"`{s}`" for s in strategies]], rows)


def _mean_of(values: Sequence[float]) -> str:
    return f"{mean(values)} ({len(values)})" if values else ""


def _name(key: str) -> str:
    """The application of a key of `over`."""
    return key.split()[1]


EXPECTED: Mapping[str, str] = {
    "black_scholes": "50 %",
    "pathfinder": "50 %",
    "gaussian": "50 %",
    "lud": "50 %",
    "fdtd3d": "50 %",
    "nw": "50 % (60 % with the original's third array)",
    "backprop": "50 % (67 % with the original's second form of the weights)",
    "srad": "11 %",
    "nn": "15 %",
    "kmeans": "33 %, if the CPU did not read the points again in every round",
    "quantum_volume": "0 %: the GPU alone uses it",
}
"""What published studies, or the declarations of an application, let expect of managed memory."""


def memory(directories: Sequence[Directory]) -> str:
    """Host and device memory together under explicit and managed, GiB."""
    before, after = over(directories, "explicit", "peak_bytes"), over(directories, "managed", "memory_compute_bytes")
    rows = [
        [
            name,
            f"{before[k] / GIB:.2f}",
            f"{after[k] / GIB:.2f}",
            f"{100 * (1 - after[k] / before[k]):.0f} %",
            EXPECTED[name],
        ]
        for name in EXPECTED
        for k in before.keys() & after.keys()
        if _name(k) == name
    ]
    read = over(directories, "managed", "memory_readback_bytes")
    grown = {k: read[k] / after[k] for k in read.keys() & after.keys() if after[k] > 0 and _name(k) in EXPECTED}
    most = sorted(grown, key=lambda k: -grown[k])[:2]
    tail = join_names([f"{_name(k)} {read[k] / GIB:.1f} GiB" for k in most if grown[k] > 1.05])
    return table(["application", "explicit", "managed", "saved", "expected"], rows) + (
        "\n" + paragraph(f"After the results were read back, the sum had grown most in: {tail}.") if tail else ""
    )


def summary(directories: Sequence[Directory]) -> str:
    """What `firsttouch app` prints of one application."""
    of_lud = {d: [r for r in d.records if application(r) == "lud"] for d in directories}
    records = next((list(of_one) for of_one in of_lud.values() if of_one), [])
    printed = io.StringIO()
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "116"
    try:
        with contextlib.redirect_stdout(printed):
            show(rows_of(records))
    finally:
        os.environ.pop("COLUMNS") if before is None else os.environ.update(COLUMNS=before)
    lines = [f"    {line}".rstrip() for line in printed.getvalue().rstrip().splitlines()]
    source = next((f"`{d.name}`" for d, of_one in of_lud.items() if of_one), "")
    return "\n".join([f"From {source}, on the H200:", "", *lines, ""])


def _judged(judged: Judgement) -> list[str]:
    """The cells of a row of figures."""
    fixed, least = judged.fixed
    worst, case = judged.picked[0]
    distinct = ""
    if judged.distinct != judged.pairs:
        distinct = f"; {_percent(in_order(judged.distinct))} of {len(judged.distinct)} with different estimates"
    return [
        str(len(judged.picked)),
        f"{judged.mean_ratio:.3f}",
        _percent(judged.within(CLEARLY)),
        f"{worst:.2f}, {case.title}",
        f"{least:.3f} (`{fixed}`)",
        f"{_percent(judged.median_error)} of {len(judged.errors)}",
        f"{_percent(in_order(judged.pairs))} of {len(judged.pairs)}{distinct}",
    ]


def _percent(part: float) -> str:
    return f"{part:.0%}".replace("%", " %")


HEAD = ("cases", "mean", "within 5 %", "worst", "best fixed strategy", "median error", "pairs in order")


def advice(directories: Sequence[Directory]) -> str:
    """The figures of the applications of all but the first directory by size, with the prices of the first."""
    micro, *measured = directories
    every = judge(estimator_of(micro.results), [d.results for d in measured])
    by_size: dict[object, list[Case]] = {}
    for case in every.cases:
        by_size.setdefault(case.size, []).append(case)
    judged = [(_size(size), Judgement(by_size[size])) for size in sorted(by_size, key=_order)]
    judged += [("all with three repetitions or more", every.repeated)] if len(judged) > 1 else []
    text = table(["buffers", *HEAD], [[name, *_judged(judgement)] for name, judgement in judged])
    far = [f"{c.title}: {c.pick}, {c.ratio(str(c.pick)):.2f} times {c.best}" for r, c in every.picked if r > CLEARLY]
    if far:
        text += f"\nMore than 5 % slower than the fastest: {'; '.join(far)}.\n"
    elsewhere = [f"{c.title}: {c.advised}" for c in every.cases if c.pick and c.advised not in c.measured]
    if elsewhere:
        named = "; ".join(dict.fromkeys(elsewhere))
        text += f"\nAdvised, but not measured, so that the best measured strategy is judged instead: {named}.\n"
    if left_out := exceptions(every):
        text += f"\nNot estimated: {left_out}.\n"
    return text


def _order(size: object) -> float:
    return float(size) if isinstance(size, int) else 0.0


def _size(size: object) -> str:
    return format_size(size, 3) if isinstance(size, int) else str(size)


Text = Callable[[Sequence[Directory]], str]


def of_each_once(text: Text) -> Text:
    return lambda directories: text(each_once(directories))


def swaps(directories: Sequence[Directory]) -> str:
    """How much longer atomic additions of doubles take than of integers, on one word that threads of the CPU share."""
    rows = []
    for directory in directories:
        rates = {
            (r.factors["type"], r.factors["cpu_threads"]): number_of(r, "median") or 0.0
            for r in directory.records
            if r.status == "ok" and r.factors["elements"] == 1 and r.device == "cpu"
        }
        model = str(directory.results.machine.facts["cpu"]["model"])
        for threads in sorted(int(str(n)) for kind, n in rates if kind == "u64"):
            integers, doubles = rates["u64", threads], rates["f64", threads]
            rows.append([model, str(threads), digits(integers), digits(doubles), f"{integers / doubles:.2f}"])
    return table(["processor", "threads", "integers, M/s", "doubles, M/s", "ratio"], rows)


TEXTS: Mapping[str, Text] = {
    "advice": advice,
    "catalogue": catalogue,
    "counted": counted,
    "sharing": sharing,
    "in-place": in_place,
    "means": of_each_once(means),
    "memory": of_each_once(memory),
    "summary": summary,
    "swaps": swaps,
    "um-apps": um_apps.gpu_times,
}
