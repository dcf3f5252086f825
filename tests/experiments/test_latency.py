"""latency: the chase on this machine, and the findings for curves with known levels."""

from __future__ import annotations

from fake_records import CPU, KIB, MIB, a_record, findings_of, sentences_of

from firsttouch.experiments.latency import Latency
from firsttouch.records.schema import DeviceInfo, Record
from firsttouch.report.sentences import sentences, worded


def loads(curve: dict[int, float], allocator: str = "malloc", spread: float = 0.01) -> list[Record]:
    factors = {"agent": "cpu", "allocator": allocator, "first_touch": "self", "order": "random"}
    return [a_record("latency", ns, {**factors, "size": size}, spread) for size, ns in curve.items()]


CACHES = {4 * KIB << k: 0.95 for k in range(4)} | {64 * KIB << k: 3.3 for k in range(5)}
RISING = {2 * MIB: 12.0, 4 * MIB: 12.5, 8 * MIB: 13.0, 16 * MIB: 24.0, 32 * MIB: 60.0, 64 * MIB: 107.0}
RISING |= {128 * MIB: 150.0, 256 * MIB: 210.0, 512 * MIB: 270.0}


def test_memory_is_named_where_the_curve_has_no_level_there() -> None:
    words = sentences_of("latency", loads(CACHES | RISING))
    assert words.startswith("A random load by the CPU from 512 MiB of malloc memory takes 270 ns.")
    assert words.endswith("L3 (32 MiB stated): 12.5 ns up to 8 MiB; memory: 270 ns at 512 MiB, with no plateau.")


def test_a_level_ends_at_its_last_load_and_its_stated_size_is_shown() -> None:
    """Half octaves as on a Xeon: loads at 32 KiB are a quarter slower, but still in the stated 48 KiB."""
    first = {8 * KIB: 1.85, 11 * KIB: 1.85, 16 * KIB: 1.86, 23296: 2.01, 32 * KIB: 2.37}
    second = {46336: 6.33, 64 * KIB: 6.4, 92672: 6.4, 128 * KIB: 6.24, 185344: 6.5, 256 * KIB: 6.1}
    level = next(f for f in findings_of("latency", loads(first | second)) if f.conditions.get("level") == "L1")
    assert (level.details["reach"].value, level.details["reach"].high) == (32 * KIB, 46336)
    assert "L1 (48 KiB stated): 1.85 ns up to 32 KiB" in sentences([level])[0]


def test_the_memory_side_cache_of_an_apu_is_named() -> None:
    """Loads by a CPU core of an APU: three caches of its own, and the one in front of the memory."""
    curve = {4 * KIB << k: 1.0 for k in range(4)} | {64 * KIB << k: 3.8 for k in range(5)}
    curve |= {2 * MIB << k: 20.0 for k in range(5)} | {64 * MIB << k: 190.0 for k in range(3)}
    curve |= {512 * MIB << k: 240.0 for k in range(4)}
    apu = DeviceInfo(name="cpu", kind="cpu", title="", facts={**CPU.facts, "infinity_cache_bytes": 256 * MIB})
    words = " ".join(sentences(Latency().findings(loads(curve), apu)))
    assert "Infinity Cache (256 MiB stated): 190 ns up to 256 MiB; memory: 240 ns" in words
    assert "L3 (32 MiB stated): 20 ns" in words


def test_the_slowest_memory_is_named_with_its_size_only_where_it_is_clearly_slower() -> None:
    slow = loads({64 * MIB: 1450.0}, "registered")
    assert "Over 64 MiB, random loads by the CPU from registered memory are the slowest: 1.45 us" in sentences_of(
        "latency", loads(CACHES | RISING) + slow
    )
    alike = loads({64 * MIB: 108.0}, "registered", spread=0.1)
    assert "slowest" not in sentences_of("latency", loads(CACHES | RISING) + alike)


def test_findings_as_plain_data_hold_value_interval_conditions_and_points() -> None:
    (largest, *_) = worded("latency", findings_of("latency", loads(CACHES | RISING)))
    assert largest.claim == "latency.largest"
    assert largest.value.unit == "ns"
    assert largest.value.low < largest.value.value == 270.0 < largest.value.high
    assert largest.conditions["size"] == 512 * MIB
    assert len(largest.points) == 1
