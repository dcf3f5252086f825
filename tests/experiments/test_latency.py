"""latency: the chase on this machine, and the findings for curves with known levels."""

from __future__ import annotations

from fake_records import CPU, KIB, MIB, a_record, findings_of
from tests.findings import assert_finding, claims

from firsttouch.experiments.analysis.levels import LAST, RISING, STATED
from firsttouch.experiments.latency import LARGEST, SLOWEST, Latency
from firsttouch.records.findings import Quantity
from firsttouch.records.schema import DeviceInfo, Record
from firsttouch.report.sentences import worded


def loads(curve: dict[int, float], allocator: str = "malloc", spread: float = 0.01) -> list[Record]:
    factors = {"agent": "cpu", "allocator": allocator, "first_touch": "self", "order": "random"}
    return [a_record("latency", ns, {**factors, "size": size}, spread) for size, ns in curve.items()]


CACHES = {4 * KIB << k: 0.95 for k in range(4)} | {64 * KIB << k: 3.3 for k in range(5)}
NO_PLATEAU = {2 * MIB: 12.0, 4 * MIB: 12.5, 8 * MIB: 13.0, 16 * MIB: 24.0, 32 * MIB: 60.0, 64 * MIB: 107.0}
NO_PLATEAU |= {128 * MIB: 150.0, 256 * MIB: 210.0, 512 * MIB: 270.0}


def test_memory_is_named_where_the_curve_has_no_level_there() -> None:
    largest, *levels = findings_of("latency", loads(CACHES | NO_PLATEAU))
    memory = {"agent": "cpu", "allocator": "malloc", "size": 512 * MIB, "value": Quantity(270, "ns")}
    assert_finding([largest], LARGEST, **memory)
    l3 = {"level": "L3", "stated_bytes": 32 * MIB, "reach": Quantity(8 * MIB, "B")}
    assert_finding(levels, STATED, **l3, value=Quantity(12.5, "ns"))
    assert_finding(levels[-1:], RISING, **memory)


def test_a_level_ends_at_its_last_load_and_its_stated_size_is_shown() -> None:
    """Half octaves as on a Xeon: loads at 32 KiB are a quarter slower, but still in the stated 48 KiB."""
    first = {8 * KIB: 1.85, 11 * KIB: 1.85, 16 * KIB: 1.86, 23296: 2.01, 32 * KIB: 2.37}
    second = {46336: 6.33, 64 * KIB: 6.4, 92672: 6.4, 128 * KIB: 6.24, 185344: 6.5, 256 * KIB: 6.1}
    level = next(f for f in findings_of("latency", loads(first | second)) if f.conditions.get("level") == "L1")
    reach = Quantity(32 * KIB, "B", 32 * KIB, 46336)
    assert_finding([level], STATED, stated_bytes=48 * KIB, value=Quantity(1.85, "ns"), reach=reach)


def test_the_memory_side_cache_of_an_apu_is_named() -> None:
    """Loads by a CPU core of an APU: three caches of its own, and the one in front of the memory."""
    curve = {4 * KIB << k: 1.0 for k in range(4)} | {64 * KIB << k: 3.8 for k in range(5)}
    curve |= {2 * MIB << k: 20.0 for k in range(5)} | {64 * MIB << k: 190.0 for k in range(3)}
    curve |= {512 * MIB << k: 240.0 for k in range(4)}
    apu = DeviceInfo(name="cpu", kind="cpu", title="", facts={**CPU.facts, "infinity_cache_bytes": 256 * MIB})
    found, side = Latency().findings(loads(curve), apu), Quantity(256 * MIB, "B")
    assert_finding(found, STATED, level="L3", stated_bytes=32 * MIB, value=Quantity(20, "ns"))
    *_, infinity_cache, memory = found
    stated = {"level": "Infinity Cache", "stated_bytes": 256 * MIB, "reach": side}
    assert_finding([infinity_cache], STATED, **stated, value=Quantity(190, "ns"))
    assert_finding([memory], LAST, level="memory", value=Quantity(240, "ns"))


def test_the_slowest_memory_is_named_with_its_size_only_where_it_is_clearly_slower() -> None:
    slow = loads({64 * MIB: 1450.0}, "registered")
    found = findings_of("latency", loads(CACHES | NO_PLATEAU) + slow)
    registered = {"agent": "cpu", "allocator": "registered", "size": 64 * MIB}
    assert_finding(found, SLOWEST, **registered, value=Quantity(1450, "ns"))
    alike = loads({64 * MIB: 108.0}, "registered", spread=0.1)
    assert SLOWEST not in claims(findings_of("latency", loads(CACHES | NO_PLATEAU) + alike))


def test_findings_as_plain_data_hold_value_interval_conditions_and_points() -> None:
    (largest, *_) = worded("latency", findings_of("latency", loads(CACHES | NO_PLATEAU)))
    assert largest.claim == "latency.largest"
    assert largest.value.unit == "ns"
    assert largest.value.low < largest.value.value == 270.0 < largest.value.high
    assert largest.conditions["size"] == 512 * MIB
    assert len(largest.points) == 1
