"""Prices from points that older runs lack: used where a run has them; otherwise advise says what it assumes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from firsttouch.advice.advisor import advise
from firsttouch.apps import all_apps

STANDARD = Path(__file__).parents[2] / "results/h200-standard"
MIB, GIB = 1 << 20, 1 << 30


def with_points(target: Path) -> Path:
    """A copy of a run with made-up points: 1 ns per byte for every price that it lacks."""
    target.mkdir()
    for name in ("machine.json", "run.json"):
        shutil.copy(STANDARD / name, target)
    lines = [json.loads(line) for line in (STANDARD / "results.jsonl").read_text().splitlines()]
    added = []
    for record in lines:
        if record["status"] != "ok":
            continue
        factors, allocator, size = record["factors"], record["factors"].get("allocator"), 64 * MIB
        match record["experiment"]:
            case "transfer" if {"malloc", "d2h", "copy-engine"} <= set(map(str, factors.values())):
                us = factors["size"] / 1e3
                record["counters"] |= {f"new_pages{end}_us": us for end in ("", "_low", "_high")}
            case "allocation" if factors["call"] == "free" and factors["size"] == 4 * MIB:
                summary = record["summary"] | dict.fromkeys(("median", "ci_low", "ci_high"), float(size))
                for agent in {"malloc": ["cpu"], "managed": ["cpu", "gpu"]}.get(allocator, []):
                    touched = {"call": f"free-{agent}-touched", "size": size, "chunks": 1}
                    added.append(record | {"factors": factors | touched, "summary": summary})
            case "migration" if (factors["prefetch"], allocator, factors["events"]) == ("whole", "managed", "off"):
                counters = record["counters"] | {"prefetch_back_ms": factors["size"] / 1e6}
                added.append(record | {"factors": factors | {"prefetch": "back"}, "counters": counters})
    (target / "results.jsonl").write_text("".join(json.dumps(record) + "\n" for record in [*lines, *added]))
    return target


def terms(directory: Path, strategy: str, pattern: str = "stream") -> dict[str, dict[str, Any]]:
    found = advise([directory], pattern=pattern, size=str(GIB), apps=all_apps()).to_builtins()
    (row,) = (one for one in found["strategies"] if one["strategy"] == strategy)
    return {term["what"]: term for term in row["terms"]}


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return with_points(tmp_path_factory.mktemp("run") / "with-points")


@pytest.mark.parametrize(
    ("strategy", "what", "factors"),
    [
        ("explicit", "copy back into new pages, malloc host arrays", {"direction": "d2h", "allocator": "malloc"}),
        ("explicit", "free malloc host arrays", {"call": "free-cpu-touched", "allocator": "malloc"}),
        ("managed+prefetch", "prefetch to the CPU", {"prefetch": "back", "allocator": "managed"}),
        ("managed+prefetch", "free managed memory on the CPU", {"call": "free-cpu-touched", "allocator": "managed"}),
        ("managed+prefetch", "free managed memory on the GPU", {"call": "free-gpu-touched", "allocator": "managed"}),
    ],
)
def test_a_measured_price_is_used(measured: Path, strategy: str, what: str, factors: dict[str, str]) -> None:
    term = terms(measured, strategy)[what]
    assert term["ms"] == pytest.approx(term["bytes"] / 1e6)
    assert term["note"] == ""
    assert all(json.loads(point)[2].items() >= factors.items() for point in term["points"])


def test_a_run_without_these_points_is_priced_as_before_and_says_what_is_assumed() -> None:
    explicit, managed = terms(STANDARD, "explicit"), terms(STANDARD, "managed+prefetch")
    copied = explicit["copy back, malloc host arrays"]["bytes"]
    assert explicit["first touch of host pages by the copy"]["bytes"] == copied
    assert "is not in this run" in explicit["free malloc host arrays"]["note"]
    assert "priced as the CPU's faults" in managed["prefetch to the CPU"]["note"]
    assert not [what for what in managed if what.startswith("free")]


def test_device_arrays_of_copies_are_allocated_and_freed() -> None:
    explicit, managed = terms(STANDARD, "explicit"), terms(STANDARD, "managed")
    for call in ("allocate", "free"):
        term = explicit[f"{call} device memory"]
        assert term["bytes"] >= GIB
        assert all(
            json.loads(point)[2].items() >= {"call": call, "allocator": "device"}.items() for point in term["points"]
        )
        assert f"{call} device memory" not in managed
