"""The numbers about a machine that people quote, as findings: the first screen of the report and of the terminal.

Each claim has a head, which says what the number is of, and a text that begins with the number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from firsttouch.allocators.properties import common_allocator, main_allocator, moves_pages, shared_or_main_allocator
from firsttouch.analysis.findings import (
    Claim,
    Finding,
    Quantity,
    at_largest,
    at_shared,
    extremes,
    finding,
    number,
    quantity,
    ratio_of,
)
from firsttouch.analysis.statistics import measured
from firsttouch.records.codebook import codebook_of
from firsttouch.records.plausibility import JudgedRun, limit
from firsttouch.records.schema import DeviceInfo, Machine, Record

MOST = 8
"""The most numbers of a first screen."""
_LOAD = "; {load} for a load"


def headlines(records: Sequence[Record], machine: Machine) -> list[Finding]:
    """The numbers of the first GPU, and of the host; without a GPU the host's."""
    good = [r for r in measured(records) if not r.parties]
    run = JudgedRun(good, machine)
    names = {r.device for r in good}
    host = next((d for d in machine.devices if d.role == "host"), None)
    gpu = next((d for d in machine.devices if d.role == "gpu" and d.name in names), None)
    of_host = [r for r in good if host is not None and r.device == host.name]
    of_gpu = [r for r in good if gpu is not None and r.device == gpu.name]
    candidates = _with_gpu(of_gpu, of_host, gpu, run) if gpu is not None else _of_host(of_host, run)
    return [f for f in candidates if f is not None][:MOST]


def _with_gpu(
    of_gpu: Sequence[Record], of_host: Sequence[Record], gpu: DeviceInfo, run: JudgedRun
) -> Iterable[Finding | None]:
    own, locked, plain = main_allocator(gpu), common_allocator("page-locked"), common_allocator("host")
    yield _memory("the GPU, in its own memory:", of_gpu, "gpu", own, run)
    yield _memory("the GPU, in the host's memory:", of_gpu, "gpu", locked, run)
    yield _memory("the CPU, in the host's memory:", of_host, "cpu", plain, run)
    yield _memory("the CPU, in the GPU's memory:", of_gpu, "cpu", own, run)
    yield _copy("copy to the GPU:", of_gpu, "h2d", run)
    yield _copy("copy to the host:", of_gpu, "d2h", run)
    yield _first_touch(of_gpu, of_host)
    yield _managed(of_gpu, gpu)
    yield _launch(of_gpu)


def _of_host(records: Sequence[Record], run: JudgedRun) -> Iterable[Finding | None]:
    plain = common_allocator("host")
    streams = _streams(records, "cpu", plain)
    loads = _loads(records, "cpu", plain)
    yield _limited("headline.bandwidth", "streams by the CPU:", TRIAD, _fastest(streams), run)
    yield finding(Claim("headline.latency", LOAD, "loads by the CPU:"), loads[0]) if loads else None
    copies = [r for r in _of(records, "transfer", direction="h2h") if r.factors.get("allocator") == plain]
    yield _limited("headline.copy", "copy within memory:", COPIED, _fastest(at_largest(copies)), run)
    yield _first_touch((), records)
    yield _first_touch((), records, pages="huge")


TRIAD = "{value} in a triad over {size} of {allocator} memory"
LOAD = "{value} from anywhere in {size} of {allocator} memory"
COPIED = "{value} over {size} of {allocator} memory"


def _of(records: Iterable[Record], experiment: str, **factors: object) -> list[Record]:
    return [r for r in records if r.experiment == experiment and all(r.factors.get(n) == v for n, v in factors.items())]


def _streams(records: Sequence[Record], agent: str, allocator: str) -> list[Record]:
    """The triads over the largest arrays, which no cache holds."""
    triads = _of(records, "bandwidth", agent=agent, allocator=allocator, arrays="memory", kernel="triad")
    return at_largest(triads)


def _loads(records: Sequence[Record], agent: str, allocator: str) -> list[Record]:
    """The random loads from the largest buffer."""
    loads = _of(records, "latency", agent=agent, allocator=allocator, order="random", first_touch="self")
    return at_largest(loads)


def _fastest(rates: Sequence[Record]) -> Record | None:
    return extremes(rates)[1] if rates else None


def _share(record: Record, run: JudgedRun) -> tuple[str, dict[str, Quantity]]:
    """The words and the quantities for the share of the peak that the machine states for what the record passes
    through; empty if it states none.
    """
    limits = limit(record, run)
    if limits is None or not limits.rate:
        return "", {}
    share = Quantity(100 * quantity(record).value * 1e9 / limits.rate, "%")
    both = " both ways" if limits.what == "link" and limits.passing < 1 else ""
    words = f", {{share}} of the {{limit}} that the {limits.what} allows{both}"
    return words, {"share": share, "limit": Quantity(limits.rate / 1e9, "GB/s")}


def _limited(identity: str, head: str, text: str, record: Record | None, run: JudgedRun) -> Finding | None:
    """A rate with its share of the limit, if there is one."""
    if record is None:
        return None
    words, details = _share(record, run)
    return finding(Claim(identity, text + words, head), record, details=details)


def _memory(head: str, records: Sequence[Record], agent: str, allocator: str, run: JudgedRun) -> Finding | None:
    """The bandwidth and the latency of a memory for an agent."""
    stream, loads = _fastest(_streams(records, agent, allocator)), _loads(records, agent, allocator)
    if stream is None:
        return finding(Claim("headline.latency", "{value} for a load", head), loads[0]) if loads else None
    words, details = _share(stream, run)
    text = "{value}" + words
    rows = [stream]
    if loads:
        text += _LOAD
        details["load"] = quantity(loads[0])
        rows.append(loads[0])
    return finding(Claim("headline.memory", text, head), rows, details=details)


def _copy(head: str, records: Sequence[Record], direction: str, run: JudgedRun) -> Finding | None:
    """The fastest copies of the largest size, and those of plain host memory."""
    copies = _of(records, "transfer", direction=direction, engine="copy-engine")
    best = _fastest(at_largest(copies))
    if best is None:
        return None
    words, details = _share(best, run)
    side = "from" if direction == "h2d" else "to"
    text, rows = f"{{value}} {side} {best.factors['allocator']}" + words, [best]
    plain = _fastest(at_largest(r for r in copies if r.factors.get("allocator") == common_allocator("host")))
    if plain is not None and plain is not best:
        details["plain"] = quantity(plain)
        text += f"; {{plain}} {side} {plain.factors['allocator']}"
        rows.append(plain)
    return finding(Claim("headline.copy", text, head), rows, details=details)


def _first_touch(of_gpu: Sequence[Record], of_host: Sequence[Record], pages: str = "base") -> Finding | None:
    """The first store to each of many pages: by the GPU where it was measured, and by one CPU thread."""

    def touched(records: Sequence[Record], **factors: object) -> Record | None:
        rows = _of(records, "pagefault", access="store", page_size=pages, **factors)
        rows = [r for r in rows if r.metric_version == codebook_of(r.experiment).version]
        return max(rows, key=lambda r: number(r, "pages"), default=None)

    by_toucher = {"gpu": touched(of_gpu, scenario="gpu-major"), "cpu": touched(of_host, scenario="cpu", threads=1)}
    rows = {who: r for who, r in by_toucher.items() if r is not None}
    if not rows:
        return None
    first = next(iter(rows.values()))
    texts = [f"{{{who}}} by {_TOUCHERS[who]} in {{{who}_allocator}} memory" for who in rows]
    return finding(
        Claim("headline.first_touch", "; ".join(texts), "first touch of a {page_bytes} page:"),
        list(rows.values()),
        details={who: quantity(r) for who, r in rows.items()},
        page_bytes=first.counters.get("page_bytes"),
        **{f"{who}_allocator": r.factors["allocator"] for who, r in rows.items()},  # type: ignore[arg-type]
    )


_TOUCHERS = {"gpu": "the GPU", "cpu": "one CPU thread"}


def _launch(records: Sequence[Record]) -> Finding | None:
    rows = _of(records, "context", phase="launch-next")
    return (
        finding(Claim("headline.launch", "{value} until it has ended", "launch of a kernel:"), rows[0])
        if rows
        else None
    )


def _managed(records: Sequence[Record], gpu: DeviceInfo) -> Finding | None:
    """What passes over data from the CPU cost in memory whose pages move, relative to an explicit copy."""
    base = {"allocator": shared_or_main_allocator(gpu), **codebook_of("migration").base, "events": "off"}
    entry = gpu.allocator(str(base["allocator"]))
    if entry is None or not moves_pages(entry):
        return None
    points = {
        "moved": base,
        "copied": base | {"allocator": main_allocator(gpu)},
        "prefetched": base | {"prefetch": "whole"},
    }
    rows = [r for point in points.values() for r in _of(records, "migration", **point)]
    at = at_shared(rows, ("allocator", "prefetch"))
    by_name = {name: same[0] for name, point in points.items() if (same := _of(at, "migration", **point))}
    if "moved" not in by_name or "copied" not in by_name:
        return None
    details = {name: quantity(r) for name, r in by_name.items()}
    text = "{value} times as long as a copy ({moved}, not {copied}, for {passes} passes over {size}"
    text += "; {prefetched} with prefetch)" if "prefetched" in by_name else ")"
    head = "{base_allocator} memory written by the CPU:"
    return finding(
        Claim("headline.managed", text, head),
        list(by_name.values()),
        ratio_of(details["moved"], details["copied"]),
        details=details,
        base_allocator=base["allocator"],
        passes=by_name["moved"].factors["iterations"],
    )
