"""Prices from the micro-measurements of a run.

They come from the records of one device and of the CPU of its host, and from no application. Where a run lacks the
records, there is no price but the command that measures it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from statistics import median
from typing import Literal

from firsttouch.advice.costs import Direction, Ground, Price, RecordKey, Time, Unmeasured, per_byte
from firsttouch.allocators.properties import is_common, is_plain_host, role, variant
from firsttouch.analysis.statistics import measured, median_of
from firsttouch.experiments.allocation import Allocation
from firsttouch.experiments.migration import Migration
from firsttouch.experiments.pagefault import PageFault
from firsttouch.experiments.transfer import Transfer
from firsttouch.records.reading import key_of
from firsttouch.records.schema import DeviceInfo, Machine, Record, Scalar, as_number
from firsttouch.workspace.guidance import READ_MOSTLY

TINY = 1e-9
"""The least value of a measurement in its unit, where a rate is divided by it."""
HUGE_PAGES = "always"
"""The setting of transparent huge pages with which plain memory gets huge pages without asking."""
VERSIONS = {one.name: one.metric.version for one in (Allocation, Migration, PageFault, Transfer)}
"""The version of the metric of each experiment whose records are prices. An older one means something else."""


class MeasuredPrices:
    """The prices on one device of a machine. Each raises Unmeasured if the records do not have it."""

    def __init__(self, machine: Machine, records: Iterable[Record], device: DeviceInfo) -> None:
        self.machine, self.device = machine, device
        self.host = next((d.name for d in machine.devices if not d.capabilities.runs_kernels and d.available), "cpu")
        self._records: dict[tuple[str, str], list[Record]] = {}
        for r in measured(r for r in records if r.device in (device.name, self.host)):
            if r.metric_version == VERSIONS.get(r.experiment):
                self._records.setdefault((r.experiment, r.device), []).append(r)
        self._kept: dict[tuple[object, ...], Price | Unmeasured] = {}

    # ------------------------------------------------------------------------------------------------ finding records

    def _find(self, experiment: str, device: str, **factors: Scalar) -> list[Record]:
        return [
            r
            for r in self._records.get((experiment, device), ())
            if all(r.factors.get(name) == value for name, value in factors.items())
        ]

    def _once(self, key: tuple[object, ...], make: Callable[[], Price]) -> Price:
        if key not in self._kept:
            try:
                self._kept[key] = make()
            except Unmeasured as missing:
                self._kept[key] = missing
        found = self._kept[key]
        if isinstance(found, Unmeasured):
            raise found
        return found

    def _command(self, experiment: str, device: str, **factors: Scalar) -> Unmeasured:
        sets = "".join(f" --set {name}={value}" for name, value in factors.items())
        return Unmeasured(f"firsttouch run {experiment} --device {device}{sets}")

    # ------------------------------------------------------------------------------------------------ host memory

    @cached_property
    def page_size(self) -> str:
        """The pages that plain memory gets here without asking: base or huge."""
        return "huge" if self.machine.facts.get("huge_pages", {}).get("thp_enabled") == HUGE_PAGES else "base"

    def host_touch(self, *, parallel: bool, pages: str = "") -> Price:
        """The CPU's first touch of plain host memory, by all threads or by one."""
        size, threads = pages or self.page_size, 0 if parallel else 1
        return self._once(("host_touch", size, threads), lambda: self._host_touch(size, threads))

    def _host_touch(self, size: str, threads: int) -> Price:
        for device in (self.host, self.device.name):
            rows = self._find("pagefault", device, scenario="cpu", access="store", page_size=size, threads=threads)
            rows = [r for r in rows if is_plain_host(str(r.factors.get("allocator")))]
            if rows:
                return self._per_page(rows)
        raise self._command("pagefault", self.host)

    def _per_page(self, rows: Sequence[Record]) -> Price:
        """From records in ns per page, at the most pages."""
        most = max(_number(r.factors.get("pages")) for r in rows)
        rows = [r for r in rows if _number(r.factors.get("pages")) == most]
        found = []
        for r in rows:
            page = _number(r.counters.get("page_bytes")) or 4096
            assert r.summary is not None
            found.append((median_of(r) / page, r.summary.ci_low / page, r.summary.ci_high / page))
        return per_byte(found, _keys(rows))

    # ------------------------------------------------------------------------------------------------ copies

    def copy(self, direction: Direction, allocator: str) -> Price:
        """A copy by the device between its memory and host memory whose pages are there."""
        return self._once(("copy", direction, allocator), lambda: self._copy(direction, allocator))

    def _copy(self, direction: Direction, allocator: str, engine: str = "copy-engine") -> Price:
        factors: dict[str, Scalar] = {"direction": direction, "engine": engine, "allocator": allocator}
        rows = self._find("transfer", self.device.name, **factors, streams=1, chunk=0)
        if not rows:
            raise self._command("transfer", self.device.name, direction=direction, allocator=allocator)
        return _by_size(rows, lambda r, rate: _number(r.factors.get("size")) / rate)

    def copy_into_new(self, allocator: str) -> Price:
        """A copy by the device into plain host memory whose pages nobody has touched."""
        return self._once(("copy_into_new", allocator), lambda: self._copy_into_new(allocator))

    def _copy_into_new(self, allocator: str) -> Price:
        factors: dict[str, Scalar] = {"direction": "d2h", "engine": "copy-engine", "allocator": allocator}
        rows = self._find("transfer", self.device.name, **factors, streams=1, chunk=0)
        found = {}
        for r in rows:
            ns = [us * 1e3 for end in ("", "_low", "_high") if (us := _counter(r, f"new_pages{end}_us")) is not None]
            if len(ns) == 3:
                found[_number(r.factors.get("size"))] = (Time(*ns), RecordKey(key_of(r)))
        if not found:
            raise self._command("transfer", self.device.name, direction="d2h", allocator=allocator)
        sizes = sorted(found)
        times, grounds = zip(*(found[size] for size in sizes), strict=True)
        return Price(tuple(sizes), times, grounds)

    def host_copy(self) -> Price:
        """A copy by all threads of the CPU within host memory."""
        return self._once(("host_copy",), self._host_copy)

    def _host_copy(self) -> Price:
        rows = self._find("transfer", self.host, direction="h2h", engine="cpu", streams=1, chunk=0)
        rows = [r for r in rows if is_common(str(r.factors.get("allocator")))]
        if not rows:
            raise self._command("transfer", self.host)
        return _by_size(rows, lambda r, rate: _number(r.factors.get("size")) / rate)

    def remote(self, direction: Direction, allocator: str) -> Price:
        """Use of page-locked host memory by a kernel, across the link: reads are h2d, writes d2h."""
        return self._once(("remote", direction, allocator), lambda: self._copy(direction, allocator, "kernel"))

    # ------------------------------------------------------------------------------------------------ allocation

    def allocation(self, allocator: str, call: Literal["allocate", "free"]) -> Price:
        """A call that allocates or frees memory."""
        return self._once(("allocation", allocator, call), lambda: self._allocation(allocator, call))

    def _allocation(self, allocator: str, call: str) -> Price:
        for device in (self.device.name, self.host):
            if rows := self._find("allocation", device, allocator=allocator, call=call):
                return _by_size(rows, lambda r, ns: ns)
        raise self._command("allocation", self.device.name, allocator=allocator)

    def touched_free(self, allocator: str, agent: Literal["cpu", "gpu"]) -> Price:
        """A call that frees memory that an agent has touched."""
        return self._once(("touched_free", allocator, agent), lambda: self._touched_free(allocator, agent))

    def _touched_free(self, allocator: str, agent: str) -> Price:
        call = f"free-{agent}-touched"
        for device in (self.device.name, self.host):
            if rows := self._find("allocation", device, allocator=allocator, call=call):
                most = max(_number(r.factors.get("size")) for r in rows)
                rows = [r for r in rows if _number(r.factors.get("size")) == most]
                found = [(s.median / most, s.ci_low / most, s.ci_high / most) for r in rows if (s := r.summary)]
                return per_byte(found, _keys(rows))
        raise self._command("allocation", self.device.name, allocator=allocator, call=call)

    def host_free(self, allocator: str) -> Price:
        """Freeing plain host memory whose pages were touched. In a run that has not measured it, a part of freeing
        memory that was page-locked by a call: from none of that to all, and half in between.
        """
        try:
            return self.touched_free(allocator, "cpu")
        except Unmeasured:
            return self._once(("host_free",), self._host_free)

    def _host_free(self) -> Price:
        locked = (e.name for e in self.device.allocators if role(e.name) == "page-locked" and variant(e.name) == "call")
        whole = self.allocation(next(locked, ""), "free")
        times = tuple(Time(t.value / 2, 0.0, t.high) for t in whole.times)
        note = "freeing touched memory is not in this run, and is priced as half of freeing registered memory"
        return Price(whole.sizes, times, whole.grounds).assuming(note)

    # ------------------------------------------------------------------------------------------------ memory that moves

    def _passes(self, allocator: str, **varied: Scalar) -> list[Record]:
        """Records of migration of an allocator, dense and in parallel, at the largest size."""
        factors: dict[str, Scalar] = {
            "allocator": allocator,
            "touch": "dense",
            "order": "parallel",
            "advice": "none",
            "prefetch": "none",
            "starts_on": "cpu",
            "events": "off",
            **varied,
        }
        rows = self._find("migration", self.device.name, **{n: v for n, v in factors.items() if v is not None})
        return [r for r in rows if "ratio" not in r.factors]

    def _moving(
        self,
        key: tuple[object, ...],
        allocator: str,
        what: Callable[[Record], float | None],
        **v: Scalar,
    ) -> Price:
        def make() -> Price:
            rows = [r for r in self._passes(allocator, **v) if what(r) is not None]
            if not rows:
                raise self._command("migration", self.device.name, allocator=allocator)
            found = []
            for r in rows:
                rate = max(0.0, what(r) or 0.0) * 1e6 / _number(r.factors.get("size"))
                wide = _relative(r)
                found.append((rate, rate * (1 - wide), rate * (1 + wide)))
            return per_byte(found, _keys(rows))

        return self._once(key, make)

    def _present(self, counter: str) -> Mapping[float, float]:
        """A counter of migration in ms per byte, by size, of memory whose pages are on the CPU and stay there."""
        found: dict[float, float] = {}
        for name in (entry.name for entry in self.device.allocators if role(entry.name) == "page-locked"):
            for r in self._passes(name):
                value = r.counters.get(counter)
                if isinstance(value, int | float):
                    found.setdefault(_number(r.factors.get("size")), value / _number(r.factors.get("size")))
        return found

    def _beyond_present(self, record: Record, counter: str) -> float | None:
        """A counter of migration less what the same costs in memory whose pages are there, in ms."""
        present, size, value = self._present(counter), _number(record.factors.get("size")), record.counters.get(counter)
        if not present or not isinstance(value, int | float):
            return None
        return value - size * (present.get(size) or median(present.values()))

    def moving_touch(self, allocator: str) -> Price:
        """The CPU's first touch of memory whose pages move, by all threads: what writing all words of new pages takes
        beyond writing those of pages that are there. Threads that only touch pages wait for each other more, so the
        time of `pagefault` is taken only where migration was not measured.
        """
        try:
            return self._moving(
                ("moving_init", allocator), allocator, lambda r: self._beyond_present(r, "initialise_ms")
            )
        except Unmeasured:
            return self._once(("moving_touch", allocator), lambda: self._moving_fault(allocator))

    def _moving_fault(self, allocator: str) -> Price:
        factors: dict[str, Scalar] = {"allocator": allocator, "scenario": "cpu", "access": "store", "threads": 0}
        rows = self._find("pagefault", self.device.name, **factors)
        if not rows:
            raise self._command("migration", self.device.name, allocator=allocator)
        return self._per_page(rows)

    def gpu_fault(self, allocator: str, *, reads_only: bool, read_mostly: bool = False, touch: str = "dense") -> Price:
        """A kernel's first pass over pages that are on the CPU, beyond a pass over its own memory.

        read_mostly: after this advice, which strategies give when the pages are there, as migration does. Other advice
        they give when memory is allocated, which no experiment measures. touch: as of the experiment; if it is sparse,
        the price is still per byte of the pages.
        """
        wanted = [(READ_MOSTLY, "read")] * read_mostly + [("none", "read")] * reads_only + [("none", "update")]
        for advice, operation in wanted:
            try:
                key = ("gpu_fault", allocator, advice, operation, touch)
                return self._moving(key, allocator, _first_pass, advice=advice, operation=operation, touch=touch)
            except Unmeasured:
                continue
        raise self._command("migration", self.device.name, allocator=allocator)

    def gpu_touch(self, allocator: str) -> Price:
        """A kernel's first touch of pages that nobody has touched."""
        return self._moving(("gpu_touch", allocator), allocator, _first_touch, starts_on="gpu", operation=None)

    def cpu_fault(self, allocator: str) -> Price:
        """The CPU's read of pages that are on the GPU, beyond a read of its own memory."""
        return self._moving(
            ("cpu_fault", allocator),
            allocator,
            lambda r: self._beyond_present(r, "cpu_read_ms"),
            operation="update",
        )

    def prefetch(self, allocator: str) -> Price:
        """A prefetch of pages from the CPU to the GPU."""
        return self._moving(("prefetch", allocator), allocator, lambda r: _counter(r, "prefetch_ms"), prefetch="whole")

    def prefetch_back(self, allocator: str) -> Price:
        """A prefetch of pages from the GPU to the CPU. In a run that has not measured it, the CPU's faults."""
        try:
            return self._moving(
                ("prefetch_back", allocator), allocator, lambda r: _counter(r, "prefetch_back_ms"), prefetch="back"
            )
        except Unmeasured:
            note = "a prefetch to the CPU is not in this run, and is priced as the CPU's faults"
            return self.cpu_fault(allocator).assuming(note)

    def advise(self, allocator: str, advice: str) -> Price:
        """The call that gives advice about memory whose pages are on the CPU."""
        return self._moving(
            ("advise", allocator, advice),
            allocator,
            lambda r: _counter(r, "advise_ms"),
            advice=advice,
            operation=None,
        )

    def isolated_fault(self, allocator: str) -> Time:
        """The least time of one fault of a kernel, which moves at most 2 MiB: touches in order, one in every 2 MiB."""

        def make() -> Price:
            rows = self._passes(allocator, touch="per-2MiB", order="sequential", operation=None)
            times = [(_first_pass(r) or 0.0) * 1e6 / max(1.0, _number(r.counters.get("touched"))) for r in rows]
            if not times:
                raise self._command("migration", self.device.name, allocator=allocator)
            return Price((1.0,), (Time(median(times), min(times), max(times)),), _keys(rows))

        return self._once(("isolated_fault", allocator), make).times[0]

    def placements(self, allocator: str) -> tuple[Mapping[str, float], tuple[Ground, ...]]:
        """ms of all passes over data that start on the CPU, by advice, and their grounds. Raises Unmeasured unless
        several kinds of advice were tried.
        """
        rows = self._passes(allocator, advice=None, operation="update")
        least = min((_number(r.factors.get("size")) for r in rows), default=0)
        rows = [r for r in rows if _number(r.factors.get("size")) == least]
        found = {str(r.factors.get("advice")): median_of(r) for r in rows}
        if len(found) < 2 or "none" not in found:
            raise self._command("migration", self.device.name, allocator=allocator)
        return found, _keys(rows)


def _keys(rows: Iterable[Record]) -> tuple[RecordKey, ...]:
    return tuple(RecordKey(key_of(r)) for r in rows)


def _number(value: Scalar) -> float:
    return as_number(value) or 0.0


def _counter(record: Record, name: str) -> float | None:
    return as_number(record.counters.get(name))


def _first_pass(record: Record) -> float | None:
    """ms of the first pass beyond those of the last."""
    last = int(_number(record.factors.get("iterations"))) - 1
    first, other = _counter(record, "iteration_0_ms"), _counter(record, f"iteration_{last}_ms")
    return None if first is None or other is None or last < 1 else first - other


def _first_touch(record: Record) -> float | None:
    """ms of a kernel's initialisation of new memory beyond a pass over it."""
    last = int(_number(record.factors.get("iterations"))) - 1
    first, other = _counter(record, "initialise_ms"), _counter(record, f"iteration_{last}_ms")
    return None if first is None or other is None else first - other


def _relative(record: Record) -> float:
    """Half the width of the interval of the record's median, as a part of it."""
    s = record.summary
    return 0.0 if s is None or s.median <= 0 else min(1.0, max(s.median - s.ci_low, s.ci_high - s.median) / s.median)


def _by_size(rows: Sequence[Record], time: Callable[[Record, float], float]) -> Price:
    """One time for each measured size. time: nanoseconds from a record and a value in its unit, which is positive."""
    by_size: dict[float, Time] = {}
    for r in rows:
        assert r.summary is not None
        median_value, low, high = (max(v, TINY) for v in (r.summary.median, r.summary.ci_low, r.summary.ci_high))
        bounds = sorted((time(r, low), time(r, high)))
        by_size[_number(r.factors.get("size"))] = Time(time(r, median_value), *bounds)
    sizes = sorted(by_size)
    return Price(tuple(sizes), tuple(by_size[size] for size in sizes), _keys(rows))
