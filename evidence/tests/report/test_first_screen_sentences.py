"""Every sentence of the first screens of results/ is computed again here from the lines of results.jsonl, without the
code that made it. A sentence that is altered, or that has another form than those below, is an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from statistics import geometric_mean

import pytest
from recorded_lines import Lines, Row, interval, mid
from tests.kept_runs import stored_run

from firsttouch.advice.advisor import advise
from firsttouch.records.reading import load_results
from firsttouch.report.conclusions import conclusions
from firsttouch.report.sentences import sentences

RUNS = [
    "h200-standard",
    "h200-apps",
    "h200-apps-1",
    "h200-apps-2",
    "h200-apps-3",
    "h200-apps-4",
    "h200-apps-5",
    "h200-apps-6",
    "h200-apps-7",
    "h200-apps-8",
    "h200-in-place",
    "h200-in-place-2",
    "h200-standard-2",
    "h200-standard-3",
    "xeon-vm-apps",
    "xeon-vm-standard",
]
UNITS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30}
N, T, S = r"([\d.,]+)", r"([\d.,]+ (?:ns|us|ms|s))", r"([\d.]+ [KMG]iB)"
NAME = r"([a-z][a-z0-9+_-]*)"
DEVICE = r"([a-z]+:\d+)"


def same(written: str, value: float) -> None:
    """What is written is the value, rounded to two to four digits."""
    number, _, unit = written.partition(" ")
    shown, true = float(number.replace(",", "")), value / UNITS.get(unit, 1.0)
    assert any(float(f"{true:.{digits}e}") == shown for digits in (1, 2, 3)), (written, value)


def narrow(value: float, low: float, high: float) -> None:
    """An interval is shown unless it is within 10 % of the value on both sides together."""
    assert high - low <= 0.2 * value


def pcie(facts: Row) -> float:
    links = facts["links"]
    assert links["gpu0_pcie_generation_max"] == 5
    return 32.0 * links["gpu0_pcie_width_max"] / 8


# ---------------------------------------------------------------------------------------------------- numbers


def stream(lines: Lines, agent: str, allocator: str) -> Row:
    device = lines.gpu if agent == "gpu" else "cpu"
    usual = {"arrays": "memory", "kernel": "triad", "first_touch": "self"}
    rows = lines.largest("bandwidth", device, agent=agent, allocator=allocator, **usual)
    return max(rows, key=mid)


def load(lines: Lines, agent: str, allocator: str) -> Row:
    """From the largest buffer, which is that of the other memories in these runs."""
    device = lines.gpu if agent == "gpu" else "cpu"
    (row,) = lines.largest("latency", device, agent=agent, allocator=allocator, order="random", first_touch="self")
    if device == "cuda:0":  # the largest that the memories of the GPU share
        rows = lines.find("latency", device, agent=agent, order="random", first_touch="self")
        own, locked = (
            {r["factors"]["size"] for r in rows if r["factors"]["allocator"] == name} for name in ("device", "pinned")
        )
        of = (allocator, max(own & locked))
        (row,) = (r for r in rows if (r["factors"]["allocator"], r["factors"]["size"]) == of)
    return row


def of_size(written: str, row: Row) -> None:
    same(written, row["factors"]["size"])


def gpu_own(lines: Lines, rate: str, over: str, share: str, peak: str, latency: str, size: str) -> None:
    best, loaded = stream(lines, "gpu", "device"), load(lines, "gpu", "device")
    limit = 2e6 * lines.facts["gpu0"]["memory_max_mhz"] * lines.facts["gpu0"]["memory_bus_bits"] / 8 / 1e9
    for written, value in ((rate, mid(best)), (share, 100 * mid(best) / limit), (peak, limit)):
        same(written, value)
    of_size(over, best)
    same(latency, mid(loaded))
    of_size(size, loaded)


def gpu_host(lines: Lines, rate: str, over: str, share: str, peak: str, latency: str, size: str) -> None:
    best, loaded = stream(lines, "gpu", "pinned"), load(lines, "gpu", "pinned")
    limit = 3 / 2 * pcie(lines.facts)  # of three arrays two are read, and the third crosses the other way at once
    for written, value in ((rate, mid(best)), (share, 100 * mid(best) / limit), (peak, limit)):
        same(written, value)
    of_size(over, best)
    same(latency, mid(loaded))
    of_size(size, loaded)


def cpu_host(lines: Lines, rate: str, over: str, way: str | None, latency: str, size: str) -> None:
    best, loaded = stream(lines, "cpu", "malloc"), load(lines, "cpu", "malloc")
    same(rate, mid(best))
    of_size(over, best)
    assert best["factors"]["stores"] == ("nontemporal" if way else "normal")
    assert best["factors"]["threads"] == 0
    same(latency, mid(loaded))
    of_size(size, loaded)


def copies(lines: Lines, way: str, rate: str, side: str, allocators: str, over: str, share: str, peak: str, plain: str,
           other_side: str) -> None:  # fmt: skip
    direction, preposition = {"GPU": ("h2d", "from"), "host": ("d2h", "to")}[way]
    assert (side, other_side) == (preposition, preposition)
    whole = {"direction": direction, "engine": "copy-engine", "streams": 1, "chunk": 0}
    slow = lines.largest("transfer", lines.gpu, allocator="malloc", **whole)
    rows = lines.find("transfer", lines.gpu, size=slow[0]["factors"]["size"], **whole)
    best = max(rows, key=mid)
    tied = {r["factors"]["allocator"] for r in rows if mid(best) <= 1.05 * mid(r)}
    assert set(re.split(", | or ", allocators)) == tied
    for written, value in ((rate, mid(best)), (share, 100 * mid(best) / pcie(lines.facts)), (peak, pcie(lines.facts))):
        same(written, value)
    of_size(over, best)
    same(plain, mid(slow[0]))


def as_used(lines: Lines) -> bool:
    """Whether the machine receives memory as it is used: not all that it should have is there."""
    there, all_of_it = lines.facts["numa"]["node0_total_bytes"], lines.facts["memory"]["total_bytes"]
    return there < 0.9 * all_of_it


def first_touch(lines: Lines, page: str, pages: str, by_gpu: str | None, low: str | None, high: str | None,
                where: str | None, time: str, allocator: str, handed_out: str | None) -> None:  # fmt: skip
    assert bool(handed_out) == as_used(lines)
    size = float(page.split()[0]) * UNITS[page.split()[1]]
    most = [r["factors"]["pages"] for r in lines.find("pagefault", "cpu", scenario="cpu", access="store", threads=1)
            if r["counters"]["page_bytes"] == size]  # fmt: skip
    assert int(pages.replace(",", "")) == max(most)
    if by_gpu:
        found = lines.find("pagefault", lines.gpu, scenario="gpu-major", access="store", allocator=where)
        found = [r for r in found if r["counters"]["page_bytes"] == size]
        row = max(found, key=lambda r: r["factors"]["pages"])
        same(by_gpu, mid(row))
        if low and high:
            same(f"{low} {high.split()[1]}", interval(row)[0])
            same(high, interval(row)[1])
        else:
            narrow(mid(row), *interval(row))
    rows = [r for r in lines.find("pagefault", "cpu", scenario="cpu", access="store", threads=1, allocator=allocator)
            if r["counters"]["page_bytes"] == size]  # fmt: skip
    same(time, mid(max(rows, key=lambda r: r["factors"]["pages"])))


def managed(lines: Lines, ratio: str, low: str | None, high: str | None, moved: str, copied: str, passes: str,
            size: str, ahead: str) -> None:  # fmt: skip
    amount, unit = size.split()
    at = {"size": int(float(amount) * UNITS[unit]), "operation": "update", "iterations": int(passes)}
    (one,), (copy,) = lines.passes(allocator="managed", **at), lines.passes(allocator="device", **at)
    (early,) = lines.passes(allocator="managed", **{**at, "prefetch": "whole"})
    for written, row in ((moved, one), (copied, copy), (ahead, early)):
        same(written, mid(row) * 1e6)
    same(ratio, mid(one) / mid(copy))
    least, most = interval(one)[0] / interval(copy)[1], interval(one)[1] / interval(copy)[0]
    if low and high:
        same(low, least)
        same(high, most)
    else:
        narrow(mid(one) / mid(copy), least, most)


def launch(lines: Lines, time: str, low: str | None, high: str | None) -> None:
    (row,) = lines.find("context", lines.gpu, phase="launch-next")
    same(time, mid(row) * 1e6)
    if low and high:
        same(f"{low} us", interval(row)[0] * 1e6)
        same(high, interval(row)[1] * 1e6)
    else:
        narrow(mid(row), *interval(row))


def cpu_stream(lines: Lines, rate: str, low: str, high: str, size: str, allocator: str, way: str | None) -> None:
    row = stream(lines, "cpu", allocator)
    assert (row["factors"]["stores"], row["factors"]["threads"]) == ("nontemporal" if way else "normal", 0)
    same(rate, mid(row))
    same(low, interval(row)[0])
    same(high, interval(row)[1])
    same(size, row["factors"]["size"])


def cpu_load(lines: Lines, time: str, size: str, allocator: str) -> None:
    row = load(lines, "cpu", allocator)
    same(time, mid(row))
    same(size, row["factors"]["size"])


def host_copy(lines: Lines, rate: str, size: str, allocator: str) -> None:
    row = max(lines.largest("transfer", "cpu", direction="h2h", allocator=allocator), key=mid)
    same(rate, mid(row))
    same(size, row["factors"]["size"])


def mean_of_strategy(lines: Lines, name: str, share: str, n: str) -> None:
    ratios = [
        mid(rows[name]) / mid(rows["explicit"]) for rows in lines.apps().values() if {name, "explicit"} <= set(rows)
    ]
    same(share, 100 * geometric_mean(ratios))
    assert int(n) == len(ratios)


# ---------------------------------------------------------------------------------------------------- advice


def leaders(rows: dict[str, Row]) -> list[str]:
    """The fastest strategy, and those whose interval overlaps with its interval. One sample has no interval."""
    first = min(rows, key=lambda name: mid(rows[name]))
    if rows[first]["summary"]["n"] == 1:
        return [first]
    low, high = interval(rows[first])
    return [first, *(n for n, r in rows.items() if n != first and interval(r)[0] <= high and low <= interval(r)[1])]


def winner(lines: Lines) -> tuple[str, int, int]:
    """The strategy that is clearly the fastest most often, how often it has the least time, and how often clearly."""
    found = [leaders(rows) for rows in lines.apps().values()]
    names = {name for name, *_ in found}
    counted = {n: (sum(f == [n] for f in found), sum(f[0] == n for f in found)) for n in names}
    best = max(counted, key=lambda name: counted[name])
    clear, won = counted[best]
    return best, won, clear


def of_one_size(rows: dict[str, Row], size: str | None) -> None:
    sizes = {r["factors"]["size"] for r in rows.values()}
    assert (size is not None) == (len(sizes) == 1 and isinstance(next(iter(sizes)), int))
    if size is not None:
        same(size, next(iter(sizes)))


def fastest(lines: Lines, name: str, up_to: str, strategies: str, won: str, cases: str, size: str | None,
            clear: str | None) -> None:  # fmt: skip
    of_one_size(lines.runs(), size)
    best, times, clearly = winner(lines)
    every = {n for rows in lines.apps().values() for n in rows}
    assert (name, int(won), int(cases), int(strategies)) == (best, times, len(lines.apps()), len(every))
    assert bool(up_to) == any(set(rows) != every for rows in lines.apps().values())
    once = all(r["summary"]["n"] == 1 for rows in lines.apps().values() for r in rows.values())
    assert once if clear is None else not once and int(clear) == clearly


def nobody(lines: Lines, cases: str, size: str | None, name: str, won: str) -> None:
    of_one_size(lines.runs(), size)
    best, times, clearly = winner(lines)
    assert clearly == 0
    assert (name, int(won), int(cases)) == (best, times, len(lines.apps()))


def slowest(lines: Lines, name: str, alike: str | None, factor: str, best: str, n: str, under: str | None) -> None:
    assert best == winner(lines)[0]
    every = {one for rows in lines.apps().values() for one in rows}
    shared = [rows for rows in lines.apps().values() if set(rows) == every]
    assert int(n) == len(shared)
    assert (under is None) == (len(shared) == len(lines.apps()))
    means = {one: geometric_mean(mid(rows[one]) / mid(rows[best]) for rows in shared) for one in every}
    assert name == max(means, key=lambda one: means[one])
    same(factor, means[name])
    others = sorted(one for one in every if one != name and means[one] * 1.05 >= means[name])
    assert others == ([] if alike is None else re.split(", | and ", alike))


def loss(lines: Lines, clear: str | None, best: str, app: str, time: str, less: str, other: str,
         rivals: str | None) -> None:  # fmt: skip
    assert best == winner(lines)[0]
    once = all(r["summary"]["n"] == 1 for rows in lines.apps().values() for r in rows.values())
    assert bool(clear) != once
    losses = {
        group: mid(rows[best]) / min(map(mid, rows.values()))
        for group, rows in lines.apps().items()
        if best in rows and best not in leaders(rows)
    }
    worst = max(losses, key=lambda group: losses[group])
    rows = lines.apps()[worst]
    assert [app, other, *(re.split(", | and ", rivals) if rivals else [])] == [worst[0], *leaders(rows)]
    same(time, mid(rows[best]) * 1e6)
    same(less, mid(rows[other]) * 1e6)


def of_application(lines: Lines, app: str) -> dict[str, Row]:
    (rows,) = (rows for (name, _), rows in lines.apps().items() if name == app)
    return rows


def fastest_of_one(lines: Lines, app: str, time: str, low: str | None, high: str | None, best: str, n: str,
                   rivals: str | None, slow: str, last: str) -> None:  # fmt: skip
    rows = of_application(lines, app)
    assert leaders(rows)[1:] == ([] if rivals is None else re.split(", | and ", rivals))
    row = rows[best]
    assert mid(row) == min(map(mid, rows.values()))
    assert mid(rows[last]) == max(map(mid, rows.values()))
    assert int(n) == len(rows)
    same(time, mid(row) * 1e6)
    same(slow, mid(rows[last]) * 1e6)
    if low and high:
        same(f"{low} {high.split()[1]}", interval(row)[0] * 1e6)
        same(high, interval(row)[1] * 1e6)
    else:
        narrow(mid(row), *interval(row))


def take_for_one(lines: Lines, names: str, app: str, size: str | None, simplest: str | None, time: str,
                 low: str | None, high: str | None, less: str, other: str, worst: str | None,
                 once: str | None) -> None:  # fmt: skip
    rows, names = of_application(lines, app), names[:1].lower() + names[1:]
    of_one_size(rows, size)
    assert sorted(re.split(", | or ", names)) == sorted(leaders(rows))
    assert (simplest or names) == re.split(", | or ", names)[0]
    same(time, mid(rows[simplest or names]) * 1e6)
    if low and high:
        same(f"{low} {high.split()[1]}", interval(rows[simplest or names])[0] * 1e6)
        same(high, interval(rows[simplest or names])[1] * 1e6)
    last = max(rows, key=lambda one: mid(rows[one]))
    assert other == ("explicit" if "explicit" in rows and leaders(rows)[0] != "explicit" else last)
    same(less, mid(rows[other]) * 1e6)
    assert bool(worst) == (other == last and other != "explicit" and len(rows) > 2)
    assert bool(once) == all(r["summary"]["n"] == 1 for r in rows.values())


def none_faster(lines: Lines, app: str, size: str | None, other: str, time: str) -> None:
    rows = of_application(lines, app)
    of_one_size(rows, size)
    assert other in leaders(rows)
    same(time, mid(rows[other]) * 1e6)


def adds_least(lines: Lines, name: str, time: str) -> None:
    adds = {one: lines.adds(one) for one in ("explicit", "explicit+pinned", "managed", "managed+prefetch")}
    assert name == min(adds, key=lambda one: adds[one])
    same(time, adds[name])


def many(lines: Lines, often: str | None, iterations: str | None) -> None:
    """From how many iterations on another strategy adds less in all."""
    rows = {row.strategy: row for row in advise([lines.directory]).strategies}
    best = min(rows.values(), key=lambda row: row.ms)
    if often is None or iterations is None:
        return
    totals = [
        [row.ms + (n - 1) * (row.further_ms or 0.0) for row in (best, rows[often])]
        for n in (int(iterations) - 1, int(iterations))
    ]
    assert totals[0][0] <= totals[0][1]
    assert totals[1][0] > totals[1][1]


def estimate(
    lines: Lines, name: str, time: str, baseline: str, more: str | None, third: str | None, iterations: str | None,
    often: str | None,
) -> None:  # fmt: skip
    adds_least(lines, name, time)
    same(baseline, lines.adds("explicit"))
    if third and more:
        same(more, lines.adds(third))
    many(lines, often, iterations)


def unsure(
    lines: Lines, name: str, time: str, baseline: str, others: str, iterations: str | None, often: str | None
) -> None:
    adds_least(lines, name, time)
    same(baseline, lines.adds("explicit"))
    assert set(re.split(", | and ", others)) <= {"explicit", "managed", "managed+advise"}
    many(lines, often, iterations)


def no_gpu(lines: Lines, device: str) -> None:
    assert device == lines.gpu == "opencl:0"


def prefetched(lines: Lines, time: str, faults: str) -> None:
    same(time, lines.prefetch())
    same(faults, lines.faults())
    assert lines.faults() > 1.25 * lines.prefetch()


def page_locked(lines: Lines, times: str, size: str, ratio: str) -> None:
    amount, unit = size.split()
    part = float(amount) * UNITS[unit] / 2**30
    (one,) = lines.largest("transfer", lines.gpu, direction="h2d", allocator="malloc", engine="copy-engine", streams=1,
                           chunk=0)  # fmt: skip
    (fast,) = lines.find("transfer", lines.gpu, direction="h2d", allocator="pinned", engine="copy-engine", streams=1,
                         chunk=0, size=one["factors"]["size"])  # fmt: skip
    assert one["factors"]["size"] == part * 2**30
    same(ratio, mid(fast) / mid(one))
    saved = one["factors"]["size"] / mid(one) - fast["factors"]["size"] / mid(fast)
    assert int(times) == round(part * (lines.call("allocate", "pinned") + lines.call("free", "pinned")) / saved)


def all_threads(lines: Lines, one: str, every: str) -> None:
    same(one, lines.touch(1))
    same(every, lines.touch(0))


def huge_pages(lines: Lines, huge: str, huge_count: str, base: str, base_count: str) -> None:
    assert (int(huge_count.replace(",", "")), int(base_count.replace(",", ""))) == (
        lines.pages("huge"),
        lines.pages("base"),
    )
    assert lines.facts["huge_pages"]["thp_enabled"] != "always"
    same(huge, lines.touch(0, "huge"))
    same(base, lines.touch(0))


OF_SIZE = f"(?: with {S} of buffers)?"
TRIAD, LOAD, STORES = f"in a triad over {S}", f"{T} for a load from {S}", "( with non-temporal stores)?"
LIMIT = rf"{N} % of the {N} GB/s that the"
OFTEN = rf"(?:\. For {N} or more iterations on the same buffers, use {NAME})?"
USE = "1 GiB that the CPU writes, kernels update and the CPU reads back"
SENTENCES: dict[str, Callable[..., None]] = {
    rf"The GPU, in its own memory: {N} GB/s {TRIAD}, {LIMIT} memory allows; {LOAD}": gpu_own,
    rf"The GPU, in the host's memory: {N} GB/s {TRIAD}, {LIMIT} link allows both ways; {LOAD}": gpu_host,
    rf"The CPU, in the host's memory: {N} GB/s {TRIAD}{STORES}; {LOAD}": cpu_host,
    rf"Copy to the (GPU|host): {N} GB/s (from|to) ({NAME[1:-1]}(?:(?:, | or ){NAME[1:-1]})*) over {S}, {LIMIT} link "
    rf"allows; {N} GB/s (from|to) malloc": copies,
    rf"First touch of a {S} page, of {N}: (?:{T}(?: \({N} to {T}\))? by the GPU in {NAME} memory; )?"
    rf"{T} by one CPU thread in {NAME} memory"
    "(, which the hypervisor allocates on first use)?":
        first_touch,
    rf"Managed memory written by the CPU: {N}(?: \({N} to {N}\))? times as long as a copy \({T} instead of {T}, for "
    rf"{N} passes over {S}; {T} with prefetch\)": managed,
    rf"Launch of a kernel: {T}(?: \({N} to {T}\))? until it has ended": launch,
    rf"Streams by the CPU: {N} GB/s \({N} to {N} GB/s\) in a triad over {S} of {NAME} memory{STORES}": cpu_stream,
    rf"Loads by the CPU: {T} from anywhere in {S} of {NAME} memory": cpu_load,
    rf"Copy within memory: {N} GB/s over {S} of {NAME} memory": host_copy,
    rf"{NAME}: {N} % of explicit's time, geometric mean of {N} applications(?: without [\w, ]+)?":
        mean_of_strategy,
    rf"Use {NAME}: it is the fastest of (up to )?{N} strategies in {N} of {N} applications{OF_SIZE}, "
    rf"(?:clearly in {N}|each run once)\.": fastest,
    rf"No strategy is clearly the fastest in any of {N} applications{OF_SIZE}; most often it is {NAME}, in {N}\.":
        nobody,
    rf"The slowest on average is {NAME}(?: \(no clear difference from ([^)]*)\))?: it takes {N} times as long as "
    rf"{NAME} \(geometric mean of {N} applications( that ran under all strategies)?\)\.": slowest,
    rf"The largest (clear )?loss with {NAME} is in {NAME}: {T}, against {T} under {NAME}(?: \(no clear difference from "
    r"([^)]*)\))?\.": loss,
    rf"{NAME}: {T}(?: \({N} to {T}\))? under {NAME}, the fastest of {N} strategies(?: \(no clear difference from "
    rf"([^)]*)\))?; {T} under {NAME}, the slowest":
        fastest_of_one,
    rf"Use ([A-Za-z][a-z0-9+_-]*(?:(?:, | or ){NAME[1:-1]})*) for {NAME}{OF_SIZE}"
    rf"(?:; {NAME} is (?:simpler|the simplest) to write)?: a run takes {T}(?: \({N} to {T}\))?, against {T} under "
    rf"{NAME}(, the slowest)?(, each run once)?\.": take_for_one,
    rf"For {NAME}{OF_SIZE} no strategy is clearly faster than {NAME}, which takes {T}\.": none_faster,
    rf"Use {NAME} for {USE}: an estimated {T} besides the kernels, against {T} under explicit(?: and {T} under {NAME})?"
    rf"{OFTEN}\.":
        estimate,
    rf"No clear answer for {USE}: {NAME} has the lowest estimate, {T} besides the kernels, against {T} under explicit; "
    rf"([\w+, -]*) may be as fast, which `firsttouch app` can measure{OFTEN}\.":
        unsure,
    rf"This machine has no GPU: {DEVICE} is the CPU itself, where no memory strategy is better than another, since no "
    r"data has to move; `firsttouch app NAME --device model:gh200` predicts strategies on a GPU\.": no_gpu,
    rf"Prefetch managed buffers before kernels use them: a prefetch takes {T} per GiB, faults take {T} per GiB\.":
        prefetched,
    rf"Copy from page-locked memory if a buffer is copied more than {N} times: a copy of {S} to the GPU is {N} times "
    r"as fast, but locking the pages takes time\.": page_locked,
    rf"Touch new memory with all threads: the first touch by one thread takes {T} per GiB, and by all threads {T} per "
    r"GiB\.": all_threads,
    rf"Use huge pages, which a program must request here \(madvise\): their first touch by all threads takes {T} per "
    rf"GiB \({N} pages\), that of base pages {T} per GiB \({N} pages\)\.": huge_pages,
}  # fmt: skip


def check(sentence: str, lines: Lines) -> None:
    """Raises AssertionError unless the sentence is true of the lines."""
    for pattern, of_form in SENTENCES.items():
        if found := re.fullmatch(pattern, sentence):
            of_form(lines, *found.groups())
            return
    raise AssertionError(f"no form of sentence: {sentence}")


@cache
def first_screen(run: str) -> tuple[list[str], Lines]:
    screen = conclusions(load_results(stored_run(run))).screen
    numbers = [f"{number.head}: {number.text}" for number in screen.numbers]
    return [*numbers, *sentences(one.finding for one in screen.advice)], Lines(stored_run(run))


@pytest.mark.parametrize("run", RUNS)
def test_every_sentence_is_true_of_the_records(run: str) -> None:
    sentences, lines = first_screen(run)
    assert len(sentences) >= 4
    for sentence in sentences:
        check(sentence, lines)


def altered(sentence: str) -> Iterator[str]:
    """The sentence with each number and each name in turn replaced by another."""
    for found in re.finditer(r"(?<![\w.+:-])\d[\d,]*(\.\d+)?(?![\w:]| GiB that)", sentence):
        other = f"{float(found[0].replace(',', '')) * 1.3 + 1:.0f}"
        yield sentence[: found.start()] + other + sentence[found.end() :]
    names = r"(explicit\+pinned|managed\+[a-z]+|managed(?! memory| buffers)|svm-[a-z]+|heartwall|quantum_volume|malloc)"
    for found in re.finditer(rf"(?<![\w+]){names}(?![\w+])", sentence):
        yield sentence[: found.start()] + "system" + sentence[found.end() :]
    for one, other in (("from", "to"), ("clearly in", "in"), ("fastest", "slowest"), ("largest", "least"),
                       ("more than", "less than"), ("the GPU", "the CPU"), ("both ways", "each way")):  # fmt: skip
        if one in sentence:
            yield sentence.replace(one, other, 1)


@pytest.mark.parametrize("run", RUNS)
def test_an_altered_sentence_is_not(run: str) -> None:
    sentences, lines = first_screen(run)
    for sentence in sentences:
        changed = list(altered(sentence))
        assert changed or "has no GPU" in sentence
        for other in changed:
            with pytest.raises((AssertionError, KeyError, StopIteration, ValueError)):
                check(other, lines)
