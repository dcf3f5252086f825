"""The numbers about a machine that people quote, as findings: the first screen of the report and of the terminal.

Each claim has a head, which says what the number is of, and a text that begins with the number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from firsttouch.experiments.views.gpus import by_product, numbers_of_several
from firsttouch.experiments.views.latencies import latencies, may_be_cached
from firsttouch.experiments.views.ranking import comparable, groups_apart_from, names_in, tied
from firsttouch.machine.allocators.properties import (
    common_allocator,
    main_allocator,
    moves_pages,
    shared_or_main_allocator,
)
from firsttouch.records.codebook import codebook_of
from firsttouch.records.conditions import fullest_group, with_conditions
from firsttouch.records.findings import Claim, Finding, Quantity, at_largest, finding, number, quantity, ratio_of
from firsttouch.records.plausibility import JudgedRun, limit
from firsttouch.records.schema import DeviceInfo, Machine, Record
from firsttouch.records.statistics import distinct, measured, median_of
from firsttouch.records.text import join_names, label

MOST = 8
"""The most numbers of one GPU and the host on a first screen."""
_STREAM = ("agent", "allocator", "arrays", "kernel", "first_touch", "stores", "threads", "size")
_LOAD = ("agent", "allocator", "order", "first_touch", "size")
_COPY = ("direction", "engine", "allocator", "other", "streams", "chunk", "size")


def headlines(records: Sequence[Record], machine: Machine) -> list[Finding]:
    """The numbers of several GPUs, then those of the first GPU and of the host, or without a GPU the host's; and those
    of the only GPU of another model in its own memory. Of records that differ in factors that their experiment does not
    know, those of the usual values.
    """
    good = measured(records)
    alone = [r for r in good if not r.parties]
    names = {r.device for r in alone}
    host = next((d for d in machine.devices if d.role == "host"), None)
    gpus = [d for d in machine.devices if d.role == "gpu" and d.name in names]
    gpu = next(iter(gpus), None)
    candidates = [f for f in _Numbers(alone, machine, host, gpu).all() if f is not None][:MOST]
    of_several = numbers_of_several(_with_usual_values(records), machine)
    kinds = list(by_product(gpus).items())
    single = {product: same[0] for (product, _), same in reversed(kinds) if len(same) == 1}  # one GPU of each product
    for other in (d for d in single.values() if gpu is not None and d.product != gpu.product):
        candidates += [f for f in islice(_Numbers(alone, machine, host, other).all(), 1) if f is not None]
    return [*(with_conditions(f, good) for f in of_several), *(with_conditions(f, alone) for f in candidates)]


class _Numbers:
    """The numbers of one GPU and of the host."""

    def __init__(
        self, good: Sequence[Record], machine: Machine, host: DeviceInfo | None, gpu: DeviceInfo | None
    ) -> None:
        usual = _with_usual_values(good)
        self.is_one_of_several = sum(d.available and d.role == "gpu" for d in machine.devices) > 1
        self.gpu, self.run = gpu, JudgedRun(list(good), machine)
        self.of_host = [r for r in usual if host is not None and r.device == host.name]
        self.of_gpu = [r for r in usual if gpu is not None and r.device == gpu.name]
        self.devices: Mapping[str, DeviceInfo] = {d.name: d for d in machine.devices}
        self.pictured = latencies(usual, machine)

    def all(self) -> Iterable[Finding | None]:
        return self._host_findings() if self.gpu is None else self._gpu_findings(self.gpu)

    def _gpu_findings(self, gpu: DeviceInfo) -> Iterable[Finding | None]:
        own_allocator, locked, plain = main_allocator(gpu), common_allocator("page-locked"), common_allocator("host")
        shares_memory = gpu.capabilities.shares_host_memory  # so that only the allocator tells them apart
        in_own, in_locked = (
            (f"{own_allocator} memory", f"{locked} memory")
            if shares_memory
            else ("its own memory", "the host's memory")
        )
        in_plain, in_gpu = (
            (f"{plain} memory", f"{own_allocator} memory")
            if shares_memory
            else ("the host's memory", "the GPU's memory")
        )
        name = f"GPU {gpu.name}" if self.is_one_of_several else "the GPU"
        yield self._memory_finding(f"{name}, in {in_own}:", self.of_gpu, "gpu", own_allocator)
        yield self._memory_finding(f"{name}, in {in_locked}:", self.of_gpu, "gpu", locked)
        yield self._memory_finding(f"the CPU, in {in_plain}:", self.of_host, "cpu", plain)
        yield self._memory_finding(f"the CPU, in {in_gpu}:", self.of_gpu, "cpu", own_allocator)
        yield self._copy_finding(f"copy to {name}:", "h2d")
        yield self._copy_finding("copy to the host:", "d2h")
        yield _first_touch_finding(self.of_gpu, self.of_host)
        yield _managed_finding(self.of_gpu, gpu)
        yield _launch_finding(self.of_gpu)

    def _host_findings(self) -> Iterable[Finding | None]:
        plain = common_allocator("host")
        stream, load = _fastest(_streams(self.of_host, "cpu", plain)), self._random_load(self.of_host, "cpu", plain)
        if stream is not None:
            how = _describe_stream(stream) + self._cached_words(stream)
            text = f"{{value}} in a triad over {{size}} of {{allocator}} memory{how}"
            yield self._rate_finding("headline.bandwidth", "streams by the CPU:", text, stream, _STREAM)
        if load is not None:
            text = f"{{value}} from anywhere in {{size}} of {{allocator}} memory{self._cached_words(load)}"
            yield finding(Claim("headline.latency", text, "loads by the CPU:", _LOAD), load)
        copies = [
            r for r in _records_with(self.of_host, "transfer", direction="h2h") if r.factors.get("allocator") == plain
        ]
        if (copy := _fastest(at_largest(_unsplit_copies(copies)))) is not None:
            text = f"{{value}} over {{size}} of {{allocator}} memory{self._cached_words(copy)}"
            yield self._rate_finding("headline.copy", "copy within memory:", text, copy, _COPY)
        yield _first_touch_finding((), self.of_host)
        yield _first_touch_finding((), self.of_host, pages="huge")

    def _memory_finding(self, head: str, records: Sequence[Record], agent: str, allocator: str) -> Finding | None:
        """The bandwidth and the latency of a memory for an agent."""
        stream, load = _fastest(_streams(records, agent, allocator)), self._random_load(records, agent, allocator)
        if stream is None:
            text = "{value} for a load from {size}" + (self._cached_words(load) if load is not None else "")
            return finding(Claim("headline.latency", text, head, _LOAD), load) if load is not None else None
        words, details = self._share_of_peak(stream)
        stream_size = _size(stream)
        text = "{value} in a triad over {stream_size}" + _describe_stream(stream) + self._cached_words(stream) + words
        rows, sizes = [stream], {"stream_size": stream_size}
        if load is not None:
            text += "; {load_and_interval} for a load from {load_size}" + self._cached_words(load)
            details["load"], sizes["load_size"] = quantity(load), _size(load)
            rows.append(load)
        named: dict[str, Any] = {**sizes}
        return finding(Claim("headline.memory", text, head, (*_STREAM, *_LOAD)), rows, details=details, **named)

    def _random_load(self, records: Sequence[Record], agent: str, allocator: str) -> Record | None:
        """The random load that the picture of latencies shows, otherwise that from the largest buffer."""
        loads = _records_with(records, "latency", agent=agent, allocator=allocator, order="random", first_touch="self")
        return next((r for r in loads if r in self.pictured), None) or _first(at_largest(loads))

    def _cached_words(self, record: Record) -> str:
        """What is said of a buffer that caches may hold."""
        return ", which a cache may hold" if may_be_cached(record, self.devices) else ""

    def _copy_finding(self, head: str, direction: str) -> Finding | None:
        """The fastest copies, with the memories that are tied, and those of plain host memory: of the largest size at
        which that was measured.
        """
        copies = _unsplit_copies(_records_with(self.of_gpu, "transfer", direction=direction, engine="copy-engine"))
        side, plain = "from" if direction == "h2d" else "to", common_allocator("host")
        with_plain = {number(r, "size") for r in copies if r.factors.get("allocator") == plain}
        best = _fastest(at_largest([r for r in copies if not with_plain or number(r, "size") in with_plain]))
        if best is None:
            return None
        words, details = self._share_of_peak(best)
        alike = next(rows for rows in groups_apart_from(copies, "allocator") if best in rows)
        named = [r for r in tied(alike, best) if r.factors.get("allocator") != plain or r is best]
        text = f"{{value}} {side} {{memories}} over {{size}}{words}"
        slow = next((r for r in alike if r.factors.get("allocator") == plain and r not in named), None)
        if slow is not None:
            details["plain"] = quantity(slow)
            text += f"; {{plain_and_interval}} {side} {plain}"
        memories = join_names([str(name) for name in distinct(named, "allocator")], "or")
        rows = named if slow is None else [*named, slow]
        return finding(
            Claim("headline.copy", text, head, _COPY),
            rows,
            details=details,
            memories=memories,
            allocator=names_in(named, "allocator"),
        )

    def _rate_finding(self, identity: str, head: str, text: str, record: Record, names: tuple[str, ...]) -> Finding:
        """A rate with its share of the limit, if there is one."""
        words, details = self._share_of_peak(record)
        return finding(Claim(identity, text + words, head, names), record, details=details)

    def _share_of_peak(self, record: Record) -> tuple[str, dict[str, Quantity]]:
        """The words and the quantities for the share of the peak that the machine states for what the record passes
        through; empty if it states none.
        """
        limits = limit(record, self.run)
        if limits is None or not limits.rate:
            return "", {}
        share = Quantity(100 * quantity(record).value * 1e9 / limits.rate, "%")
        both = " both ways" if limits.what == "link" and limits.passing < 1 else ""
        words = f", {{share}} of the {{limit}} that the {limits.what} allows{both}"
        return words, {"share": share, "limit": Quantity(limits.rate / 1e9, "GB/s")}


def _with_usual_values(records: Sequence[Record]) -> list[Record]:
    """The records, of each experiment only those with the usual values of factors that it does not know."""
    by_experiment: dict[str, list[Record]] = {}
    for record in records:
        by_experiment.setdefault(record.experiment, []).append(record)
    usual = [fullest_group(rows, codebook_of(name).factors) for name, rows in by_experiment.items()]
    return [record for rows in usual for record in rows]


def _records_with(records: Iterable[Record], experiment: str, **factors: object) -> list[Record]:
    return [r for r in records if r.experiment == experiment and all(r.factors.get(n) == v for n, v in factors.items())]


def _first(records: Sequence[Record]) -> Record | None:
    return records[0] if records else None


def _fastest(rates: Sequence[Record]) -> Record | None:
    return max(rates, key=median_of, default=None)


def _streams(records: Sequence[Record], agent: str, allocator: str) -> list[Record]:
    """The triads over the largest arrays, which no cache holds."""
    wanted = {"agent": agent, "allocator": allocator, "arrays": "memory", "kernel": "triad", "first_touch": "self"}
    return at_largest(_records_with(records, "bandwidth", **wanted))


def _unsplit_copies(copies: Sequence[Record]) -> list[Record]:
    """The copies that are neither split nor pipelined, or all if there are none."""
    return [r for r in copies if (r.factors.get("streams"), r.factors.get("chunk")) == (1, 0)] or list(copies)


def _size(record: Record) -> str:
    return label("size", record.factors["size"])


def _describe_stream(stream: Record) -> str:
    """How the CPU streams, as far as that is not the usual way."""
    stores, threads = stream.factors.get("stores"), stream.factors.get("threads")
    words = ["non-temporal stores"] if stores == "nontemporal" else []
    words += [f"{label('threads', threads)} threads"] if threads not in (0, "best", None) else []
    return f" with {join_names(words)}" if words else ""


def _first_touch_finding(of_gpu: Sequence[Record], of_host: Sequence[Record], pages: str = "base") -> Finding | None:
    """The first store to each of many pages: by the GPU where it was measured, and by one CPU thread, to as many."""

    def touched(records: Sequence[Record], **factors: object) -> dict[object, Record]:
        rows = _records_with(records, "pagefault", access="store", page_size=pages, **factors)
        rows = [r for r in rows if r.metric_version == codebook_of(r.experiment).version]
        return {r.factors.get("pages"): r for r in reversed(rows)}

    by_toucher = {"gpu": touched(of_gpu, scenario="gpu-major"), "cpu": touched(of_host, scenario="cpu", threads=1)}
    by_measured_toucher = {toucher: rows for toucher, rows in by_toucher.items() if rows}
    shared = set.intersection(*(set(rows) for rows in by_measured_toucher.values())) if by_measured_toucher else set()
    if not shared:
        by_measured_toucher = dict([*by_measured_toucher.items()][:1])
        shared = {count for rows in by_measured_toucher.values() for count in rows}
    if not by_measured_toucher:
        return None
    most = max(count for count in shared if isinstance(count, int))
    rows = {toucher: by_count[most] for toucher, by_count in by_measured_toucher.items()}
    texts = [
        f"{{{toucher}_and_interval}} by {_TOUCHERS[toucher]} in {{{toucher}_allocator}} memory" for toucher in rows
    ]
    first = next(iter(rows.values()))
    allocators: dict[str, Any] = {f"{toucher}_allocator": r.factors["allocator"] for toucher, r in rows.items()}
    return finding(
        Claim("headline.first_touch", "; ".join(texts), "first touch of a {page_bytes} page, of {count}:", _TOUCH),
        list(rows.values()),
        details={toucher: quantity(r) for toucher, r in rows.items()},
        page_bytes=first.counters.get("page_bytes"),
        count=label("pages", most),
        **allocators,
    )


_TOUCHERS = {"gpu": "the GPU", "cpu": "one CPU thread"}
_TOUCH = ("scenario", "threads", "allocator", "access", "page_size", "pages")


def _launch_finding(records: Sequence[Record]) -> Finding | None:
    rows = _records_with(records, "context", phase="launch-next")
    claim = Claim("headline.launch", "{value} until it has ended", "launch of a kernel:", ("phase",))
    return finding(claim, rows[0]) if rows else None


def _managed_finding(records: Sequence[Record], gpu: DeviceInfo) -> Finding | None:
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
    rows = [r for point in points.values() for r in _records_with(records, "migration", **point)]
    at = comparable(rows, ("allocator", "prefetch"))
    by_name = {name: same[0] for name, point in points.items() if (same := _records_with(at, "migration", **point))}
    if "moved" not in by_name or "copied" not in by_name:
        return None
    details = {name: quantity(r) for name, r in by_name.items()}
    if details["moved"].value == details["copied"].value:
        return None  # a platform's rules predict the same for both
    text = "{value_as_long} as a copy ({moved} instead of {copied}, for {passes} passes over {size}"
    text += "; {prefetched} with prefetch)" if "prefetched" in by_name else ")"
    head = "{base_allocator} memory written by the CPU:"
    return finding(
        Claim("headline.managed", text, head, (*base, "iterations")),
        list(by_name.values()),
        ratio_of(details["moved"], details["copied"]),
        details=details,
        base_allocator=base["allocator"],
        passes=by_name["moved"].factors["iterations"],
    )
