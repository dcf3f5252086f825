"""Prices from the micro-measurements of a run.

They come from the records of one device and of the CPU of its host, and from no application. Which records are a price,
and by which factors and counters, the codebooks of the experiments say. Where a run lacks the records, there is no
price but the command that measures it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache, cached_property, partial
from statistics import median
from typing import Any, TypeVar

from firsttouch.machine.allocators.properties import is_common, is_plain_host, role
from firsttouch.model.costs import ExchangePrice, MeasuredPoint, Price, Time, Unmeasured, measured_point, per_byte
from firsttouch.model.driver import driver_of
from firsttouch.model.page_steps import SMALLEST_PAGE, host_page
from firsttouch.model.pages import Kind
from firsttouch.model.prices import ONE_A_BLOCK, Direction, Prices
from firsttouch.model.rules.releases import parse_release
from firsttouch.model.rules.uvm import BLOCK_BYTES
from firsttouch.model.uvm_prices import BLOCKS, FAMILY, step_counts
from firsttouch.program.guidance import NONE
from firsttouch.records.codebook import Codebook, PriceSource, codebook_of, codebooks
from firsttouch.records.equal_places import for_device
from firsttouch.records.schema import DeviceInfo, Machine, Record, Scalar, as_number
from firsttouch.records.statistics import measured, median_of

P = TypeVar("P", Price, ExchangePrice)
TINY = 1e-9
"""The least value of a measurement in its unit, where a rate is divided by it."""
HUGE_PAGES = "always"
"""The setting of transparent huge pages with which plain memory gets huge pages without asking."""
ATOMIC = "atomic"
"""The kernel of turns in which each thread group updates a word."""
MIB = 1 << 20


@cache
def _sources() -> Mapping[str, tuple[str, PriceSource]]:
    """The experiment that measures each price, and which of its records are the price."""
    books: Mapping[str, Codebook] = codebooks()
    return {source.price: (name, source) for name, book in books.items() for source in book.prices}


def words_of(price: str, parameter: str) -> list[str]:
    """The values that a parameter of a price may have."""
    experiment, source = _sources()[price]
    return [*codebook_of(experiment).factors[source.by[parameter]]]


class MeasuredPrices(Prices):
    """The prices on one device of a machine. Each raises Unmeasured if the records do not have it. Records of another
    version of their metric are no prices, since their values mean something else.
    """

    def __init__(self, machine: Machine, records: Iterable[Record], device: DeviceInfo) -> None:
        self.machine, self.device = machine, device
        self.host = next((d.name for d in machine.devices if not d.capabilities.runs_kernels and d.available), "cpu")
        self._records: dict[tuple[str, str], list[Record]] = {}
        all_records = list(records)
        for name in (self.host, device.name):
            for r in measured(for_device(all_records, name)):
                if r.metric_version == codebook_of(r.experiment).version:
                    self._records.setdefault((r.experiment, name), []).append(r)
        self._made_prices: dict[tuple[object, ...], Any] = {}
        self._makers: Mapping[str, Callable[..., Price]] = {
            "host_touch": self._host_touch,
            "copy": partial(self._copy, "copy"),
            "remote": partial(self._copy, "remote"),
            "copy_into_new": lambda allocator: self._latency("copy_into_new", allocator=allocator),
            "lone_copy": lambda way, allocator: self._latency("lone_copy", direction=way, allocator=allocator),
            "host_copy": self._host_copy,
            "allocation": self._allocation,
            "touched_free": self._touched_free,
            "moving_touch": self._moving_touch,
            "gpu_fault": self._gpu_fault,
            "gpu_touch": self._gpu_touch,
            "cpu_fault": self._cpu_fault,
            "cpu_return": lambda allocator: self._call("cpu_fault", allocator),
            "prefetch": partial(self._call, "prefetch"),
            "prefetch_back": partial(self._call, "prefetch_back"),
            "advise": lambda advice, allocator: self._call("advise", allocator, advice=advice),
            "isolated_fault": self._isolated_fault,
            "own_pass": self._own_pass,
            "gpu_batches": self._gpu_batches,
            "placements": self._placement,
            "launched": self._launched,
            "exchange": lambda kernel, allocator: self.exchange(allocator, by_groups=kernel == ATOMIC).turns,
            "exchange_gap": self._exchange_gap,
            "stream": self._stream,
            "load": self._load,
            "in_order_touch": self._in_order_touch,
            "lone_fault": self._lone_fault,
            "faults": self._faults,
        }

    @property
    def families(self) -> Collection[str]:
        """The first parts of the names of all prices that experiments measure."""
        return self._makers.keys()

    def price(self, *name: str) -> Price:
        make = self._makers.get(name[0])
        if make is None:
            raise Unmeasured(f"no experiment measures {'.'.join(name)}")
        return self._once(name, lambda: make(*name[1:]))

    # ------------------------------------------------------------------------------------------------ finding records

    def _find(self, price: str, device: str = "", /, **given: Scalar) -> list[Record]:
        """The records of a price for its parameters, on the device or on another."""
        experiment, source = _sources()[price]
        conditions = source.factors(**given).items()
        return [
            r
            for r in self._records.get((experiment, device or self.device.name), ())
            if all(r.factors.get(name) == value for name, value in conditions)
            and not any(name in r.factors for name in source.without)
        ]

    def _once(self, key: tuple[object, ...], make: Callable[[], P]) -> P:
        if key not in self._made_prices:
            try:
                self._made_prices[key] = make()
            except Unmeasured as missing:
                self._made_prices[key] = missing
        price: P | Unmeasured = self._made_prices[key]
        if isinstance(price, Unmeasured):
            raise price
        return price

    def _missing(self, price: str, device: str = "", /, **factors: Scalar) -> Unmeasured:
        """What measures a price, with factors that --set names."""
        sets = "".join(f" --set {name}={value}" for name, value in factors.items())
        return Unmeasured(f"firsttouch run {_sources()[price][0]} --device {device or self.device.name}{sets}")

    # ------------------------------------------------------------------------------------------------ host memory

    @cached_property
    def page_size(self) -> str:
        pages = self.machine.facts.get("huge_pages", {})
        return "huge" if pages.get("thp_enabled") == HUGE_PAGES and not pages.get("thp_denied") else "base"

    def _host_touch(self, pages: str, by: str) -> Price:
        threads = 0 if by == "all" else 1
        for device in (self.host, self.device.name):
            rows = self._find("first_touch", device, page_size=pages, threads=threads)
            if rows := [r for r in rows if is_plain_host(str(r.factors.get("allocator")))]:
                return _per_page(rows)
        raise self._missing("first_touch", self.host)

    def _stream(self, agent: str, allocator: str, kernel: str, threads: int = 0) -> Price:
        """By the bytes of one array, at the rate of all."""
        device = self.host if agent == "cpu" else self.device.name
        parameters: dict[str, Scalar] = {"agent": agent, "allocator": allocator, "kernel": kernel, "threads": threads}
        if rows := self._find("stream", device, **parameters):
            return _by_size("stream", rows, lambda r, rate: _amount("stream", r, "bytes") / rate)
        raise self._missing("stream", device, agent=agent, allocator=allocator, kernel=kernel)

    def _load(self, agent: str, allocator: str) -> Price:
        """A dependent load, by the bytes of the buffer."""
        device = self.host if agent == "cpu" and is_plain_host(allocator) else self.device.name
        if rows := self._find("load", device, agent=agent, allocator=allocator):
            return _by_size("load", rows, lambda r, ns: ns)
        raise self._missing("load", device, agent=agent, allocator=allocator)

    def _lone_fault(self, scenario: str, which: str = "mean") -> Price:
        """A first touch of one page alone, which is the same for any memory of the kind that has it."""
        for device in (self.host, self.device.name):
            rows = [r for r in self._records.get((_sources()["lone_fault"][0], device), ()) if _is_lone(r, scenario)]
            if times := [ns for r in rows if (ns := _value("lone_fault", r, which)) is not None]:
                return Price((1.0,), (Time(median(times), min(times), max(times)),), _keys(rows))
        raise self._missing("lone_fault", scenario=scenario)

    def _faults(self, allocator: str) -> Price:
        """CPU faults of the call that allocates, for each MiB, of memory whose pages are there then."""
        rows = self._find("faults", allocator=allocator)
        entry = self.device.allocator(allocator)
        counts = [_amount("faults", r, "count") / (3 * _amount("faults", r, "bytes") / MIB) for r in rows]
        if not counts or entry is None or entry.on_demand is not False or entry.cpu == "none":
            raise self._missing("faults", allocator=allocator)
        return Price((1.0,), (Time(median(counts), min(counts), max(counts)),), _keys(rows))

    # ------------------------------------------------------------------------------------------------ copies

    def _copy(self, price: str, direction: Direction, allocator: str) -> Price:
        if rows := self._find(price, direction=direction, allocator=allocator):
            return _by_size(price, rows, lambda r, rate: _amount(price, r, "bytes") / rate)
        raise self._missing(price, direction=direction, allocator=allocator)

    def _latency(self, price: str, **given: Scalar) -> Price:
        """A price by size, from counters in us."""
        by_size = {}
        for r in self._find(price, **given):
            ns = [us * 1e3 for n in ("us", "low_us", "high_us") if (us := _value(price, r, n)) is not None]
            if len(ns) == 3:
                by_size[_amount(price, r, "bytes")] = (Time(*ns), measured_point(r))
        if not by_size:
            raise self._missing(price, **{"direction": "d2h", **given})
        sizes = sorted(by_size)
        times, grounds = zip(*(by_size[size] for size in sizes), strict=True)
        return Price(tuple(sizes), times, grounds)

    def _host_copy(self) -> Price:
        rows = self._find("host_copy", self.host)
        if rows := [r for r in rows if is_common(str(r.factors.get("allocator")))]:
            return _by_size("host_copy", rows, lambda r, rate: _amount("host_copy", r, "bytes") / rate)
        raise self._missing("host_copy", self.host)

    # ------------------------------------------------------------------------------------------------ allocation

    def _allocation(self, call: str, allocator: str) -> Price:
        for device in (self.device.name, self.host):
            if rows := self._find("allocation", device, allocator=allocator, call=call):
                return _by_size("allocation", rows, lambda r, ns: ns)
        raise self._missing("allocation", allocator=allocator)

    def _touched_free(self, agent: str, allocator: str) -> Price:
        for device in (self.device.name, self.host):
            if rows := self._find("touched_free", device, allocator=allocator, agent=agent):
                most = max(_amount("touched_free", r, "bytes") for r in rows)
                rows = [r for r in rows if _amount("touched_free", r, "bytes") == most]
                rates = [(s.median / most, s.ci_low / most, s.ci_high / most) for r in rows if (s := r.summary)]
                return per_byte(rates, _keys(rows))
        _, source = _sources()["touched_free"]
        raise self._missing("touched_free", **source.factors(allocator=allocator, agent=agent))

    # ------------------------------------------------------------------------------------------------ memory that moves

    def _moving(self, price: str, ms_of: Callable[[Record], float | None], **given: Scalar) -> Price:
        """A price from the ms of passes over memory that moves."""
        rows = [r for r in self._find(price, **given) if ms_of(r) is not None]
        if not rows:
            raise self._missing(price, allocator=given["allocator"])
        rates = []
        for r in rows:
            rate = max(0.0, ms_of(r) or 0.0) * 1e6 / _amount(price, r, "bytes")
            wide = _relative_width(r)
            rates.append((rate, rate * (1 - wide), rate * (1 + wide)))
        return per_byte(rates, _keys(rows))

    def _resident_rates(self, counter: str) -> Mapping[float, float]:
        """ms per byte, by size, of what a price times, in memory whose pages are on the CPU and stay there."""
        rates: dict[float, float] = {}
        for name in (entry.name for entry in self.device.allocators if role(entry.name) == "page-locked"):
            for r in self._find("pages_there", allocator=name):
                if (value := _value("pages_there", r, counter)) is not None:
                    size = _amount("pages_there", r, "bytes")
                    rates.setdefault(size, value / size)
        return rates

    def _beyond_resident(self, price: str, record: Record) -> float | None:
        """The ms of a price less what the same costs in memory whose pages are there."""
        rates, size, value = self._resident_rates(price), _amount(price, record, "bytes"), _value(price, record, "ms")
        if not rates or value is None:
            return None
        return value - size * (rates.get(size) or median(rates.values()))

    def _moving_touch(self, allocator: str) -> Price:
        """The first touch of plain pages does not tell it: threads that only touch pages wait for each other more."""
        return self._moving("moving_touch", lambda r: self._beyond_resident("moving_touch", r), allocator=allocator)

    def _gpu_fault(self, operation: str, touch: str, advice: str, allocator: str) -> Price:
        parameters: dict[str, Scalar] = {"advice": advice, "operation": operation, "touch": touch}
        return self._moving("gpu_fault", lambda r: _first_pass_ms("gpu_fault", r), allocator=allocator, **parameters)

    def _gpu_touch(self, allocator: str) -> Price:
        return self._moving("gpu_touch", lambda r: _first_pass_ms("gpu_touch", r, least=0), allocator=allocator)

    def _cpu_fault(self, allocator: str) -> Price:
        return self._moving("cpu_fault", lambda r: self._beyond_resident("cpu_fault", r), allocator=allocator)

    def _call(self, price: str, allocator: str, **given: Scalar) -> Price:
        """A call that moves pages or gives advice about them."""
        return self._moving(price, lambda r: _value(price, r, "ms"), allocator=allocator, **given)

    def _isolated_fault(self, allocator: str) -> Price:
        """From touches in order, one in every 2 MiB."""
        rows = self._find("isolated_fault", allocator=allocator)
        times = [
            (_first_pass_ms("isolated_fault", r) or 0.0) * 1e6 / max(1.0, _amount("isolated_fault", r, "count"))
            for r in rows
        ]
        if not times:
            raise self._missing("isolated_fault", allocator=allocator)
        return Price((1.0,), (Time(median(times), min(times), max(times)),), _keys(rows))

    def _in_order_touch(self, allocator: str) -> Price:
        """A touch by a single thread of a kernel of its own memory: from the pass with the most touches."""

        def touched(r: Record) -> float:
            return _amount("in_order_touch", r, "count")

        touches = words_of("in_order_touch", "touch")
        rows = [r for touch in touches for r in self._find("in_order_touch", allocator=allocator, touch=touch)]
        if not rows:
            raise self._missing("in_order_touch", allocator=allocator)
        most = max(map(touched, rows))
        times = []
        for r in (r for r in rows if touched(r) == most):
            last = _value("in_order_touch", r, "later_ms", int(_amount("in_order_touch", r, "passes")) - 1) or 0.0
            times.append(last * 1e6 / most)
        return Price((1.0,), (Time(median(times), min(times), max(times)),), _keys(rows))

    def _gpu_batches(self, allocator: str) -> Price:
        """A batch for each service of faults, whose number the driver's rules count (rules/uvm.py). One batch takes the
        difference between faults in order, which wait for each other, and faults at once, one in each block.
        """
        family, release = driver_of(self.machine)
        if family != FAMILY:
            raise Unmeasured(f"no rule counts the batches of faults of {self.device.name}")
        alone, at_once = (
            self.price("isolated_fault", allocator),
            self.price("gpu_fault", "update", ONE_A_BLOCK, NONE, allocator),
        )
        services = step_counts(Kind(host_page(self.machine), parse_release(release)), "iteration_0").services
        batch = alone.of(1).beyond(at_once.of(BLOCK_BYTES)).times(services / (BLOCKS * BLOCK_BYTES))
        return per_byte([(batch.value, batch.low, batch.high)], (*alone.grounds, *at_once.grounds))

    def _own_pass(self, allocator: str) -> Price:
        """From the last passes of migration."""

        def last(r: Record) -> float | None:
            return _value("gpu_fault", r, "later_ms", int(_amount("gpu_fault", r, "passes")) - 1)

        parameters: dict[str, Scalar] = {"advice": "none", "operation": "update", "touch": "dense"}
        return self._moving("gpu_fault", last, allocator=allocator, **parameters)

    def exchange(self, allocator: str, *, by_groups: bool = False) -> ExchangePrice:
        """Without what a launch takes for which the CPU waits. Records of other advice or of a CPU that writes are not
        used, since turns take about as long.
        """
        return self._once(("exchange", allocator, by_groups), lambda: self._exchange(allocator, by_groups))

    def _launched(self) -> Price:
        """A launch for which the CPU waits, where the fewest bytes are used."""
        record = self._fastest_launch()
        if record is None:
            raise self._missing("launch")
        s = record.summary
        assert s is not None
        return Price((1.0,), (Time(s.median * 1e3, s.ci_low * 1e3, s.ci_high * 1e3),), _keys([record]))

    def _fastest_launch(self) -> Record | None:
        return min(self._find("launch"), key=median_of, default=None)

    def _exchange(self, allocator: str, by_groups: bool) -> ExchangePrice:
        kernel = ATOMIC if by_groups else "store"
        rows = self._find("exchange", allocator=allocator, advice="none", operation="read", kernel=kernel)
        rows = [r for r in rows if r.summary is not None and (not by_groups or _amount("exchange", r, "updates"))]
        least = min((_amount("exchange", r, "bytes") for r in rows), default=0)
        by = _sources()["exchange"][1].by
        launch = self._fastest_launch()
        alone = median_of(launch) if launch else 0.0
        means: dict[tuple[float, float], tuple[Time, Record]] = {}
        for r in (r for r in rows if _amount("exchange", r, "bytes") == least):
            turns, gap = (as_number(r.factors.get(by[name])) or 0.0 for name in ("turns", "gap_us"))
            s = r.summary
            assert s is not None
            means[gap * 1e3, turns] = Time(*(max(0.0, v - alone) * 1e3 for v in (s.median, s.ci_low, s.ci_high))), r
        close = sorted(turns for gap, turns in means if gap == 0)
        if not close:
            raise self._missing("exchange", allocator=allocator, kernel=kernel)
        times, grounds = zip(*(means[0.0, turns] for turns in close), strict=True)
        totals = (t.times(n) for t, n in zip(times, close, strict=True))
        price = Price((0.0, *close), (Time(), *totals), _keys(grounds))
        most = times[-1].value or TINY
        gaps = sorted(
            (gap, time.value / most) for (gap, turns), (time, _) in means.items() if gap and turns == close[-1]
        )
        updates = max(_amount("exchange", r, "updates") for r in grounds)
        return ExchangePrice(price, tuple(gaps), updates)

    def _exchange_gap(self, kernel: str, allocator: str) -> Price:
        price = self.exchange(allocator, by_groups=kernel == ATOMIC)
        if not price.gaps:
            raise self._missing("exchange", allocator=allocator, kernel=kernel)
        most = price.turns.times[-1].times(1 / price.turns.sizes[-1])
        times = tuple(most.times(ratio) for _, ratio in price.gaps)
        return Price(tuple(gap for gap, _ in price.gaps), times, price.turns.grounds)

    def _placement(self, advice: str, allocator: str) -> Price:
        rows = self._find("placements", allocator=allocator)
        least = min((_amount("placements", r, "bytes") for r in rows), default=0)
        by = _sources()["placements"][1].names["advice"]
        rows = [r for r in rows if _amount("placements", r, "bytes") == least and r.factors.get(by) == advice]
        if not rows:
            raise self._missing("placements", allocator=allocator)
        times = [s for r in rows if (s := r.summary)]
        time = Time(*(median(v) * 1e6 for v in zip(*((s.median, s.ci_low, s.ci_high) for s in times), strict=True)))
        return Price((1.0,), (time,), _keys(rows))


def _value(price: str, record: Record, name: str, part: object = "") -> float | None:
    """The counter or factor that a price has under this name; None if the record lacks it. which: of several."""
    key = _sources()[price][1].names[name].replace("{}", str(part))
    return as_number(record.counters.get(key, record.factors.get(key)))


def _amount(price: str, record: Record, name: str) -> float:
    return _value(price, record, name) or 0.0


def _keys(rows: Iterable[Record]) -> tuple[MeasuredPoint, ...]:
    return tuple(measured_point(r) for r in rows)


def _per_page(rows: Sequence[Record]) -> Price:
    """From records in ns per page, at the most pages."""
    most = max(_amount("first_touch", r, "count") for r in rows)
    rows = [r for r in rows if _amount("first_touch", r, "count") == most]
    rates = []
    for r in rows:
        page = _amount("first_touch", r, "bytes") or SMALLEST_PAGE
        assert r.summary is not None
        rates.append((median_of(r) / page, r.summary.ci_low / page, r.summary.ci_high / page))
    return per_byte(rates, _keys(rows))


def _is_lone(record: Record, scenario: str) -> bool:
    """Whether a record is of a single page that is touched so."""
    _, source = _sources()["lone_fault"]
    conditions = source.factors(scenario=scenario).items()
    return all(record.factors.get(name) == value for name, value in conditions)


def _first_pass_ms(price: str, record: Record, least: int = 1) -> float | None:
    """ms of the first pass, or of what comes before it, beyond those of the last pass, which is at least `least`."""
    last = int(_amount(price, record, "passes")) - 1
    first, later = _value(price, record, "first_ms"), _value(price, record, "later_ms", last)
    return None if first is None or later is None or last < least else first - later


def _relative_width(record: Record) -> float:
    """Half the width of the interval of the record's median, as a part of it."""
    s = record.summary
    return 0.0 if s is None or s.median <= 0 else min(1.0, max(s.median - s.ci_low, s.ci_high - s.median) / s.median)


def _by_size(price: str, rows: Sequence[Record], time: Callable[[Record, float], float]) -> Price:
    """One time for each measured size. time: nanoseconds from a record and a value in its unit, which is positive."""
    by_size: dict[float, Time] = {}
    for r in rows:
        assert r.summary is not None
        median_value, low, high = (max(v, TINY) for v in (r.summary.median, r.summary.ci_low, r.summary.ci_high))
        bounds = sorted((time(r, low), time(r, high)))
        by_size[_amount(price, r, "bytes")] = Time(time(r, median_value), *bounds)
    sizes = sorted(by_size)
    return Price(tuple(sizes), tuple(by_size[size] for size in sizes), _keys(rows))
