"""Prices from points that older runs lack: used where a run has them; otherwise advise says what it assumes."""

from __future__ import annotations

import json
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.kept_runs import stored_run

from firsttouch.advice.advisor import advise, ranked
from firsttouch.advice.output import output
from firsttouch.apps import all_apps
from firsttouch.model.costs import ExchangePrice, Price, PublishedRow, Time
from firsttouch.model.prices import Prices
from firsttouch.model.pricing import NEW_BY_COPY
from firsttouch.program import patterns
from firsttouch.records.reading import load_results
from firsttouch.records.schema import DeviceInfo, Machine

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


@cache
def advised(directory: Path) -> dict[str, Any]:
    return msgspec.to_builtins(output(advise([directory], pattern="stream", size=str(GIB), apps=all_apps())))


def terms(directory: Path, strategy: str) -> dict[str, dict[str, Any]]:
    (row,) = (one for one in advised(directory)["strategies"] if one["strategy"] == strategy)
    return {term["what"]: term for term in row["terms"]}


def factors_of(ground: dict[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = ground["factors"]
    return found


def assumption(term: dict[str, Any]) -> str:
    (text,) = (ground["text"] for ground in term["grounds"] if ground["kind"] == "assumption")
    return str(text)


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
    assert {ground["kind"] for ground in term["grounds"]} == {"record"}
    assert all(factors_of(ground).items() >= factors.items() for ground in term["grounds"])


def test_a_run_without_these_points_is_priced_as_before_and_says_what_is_assumed() -> None:
    explicit, managed = terms(STANDARD, "explicit"), terms(STANDARD, "managed+prefetch")
    copied = explicit["copy back, malloc host arrays"]["bytes"]
    assert explicit[NEW_BY_COPY]["bytes"] == copied
    assert "not measured in this run" in assumption(explicit["free malloc host arrays"])
    assert "the CPU's faults" in assumption(managed["prefetch to the CPU"])
    assert not [what for what in managed if what.startswith("free")]


def test_device_arrays_of_copies_are_allocated_and_freed() -> None:
    explicit, managed = terms(STANDARD, "explicit"), terms(STANDARD, "managed")
    for call in ("allocate", "free"):
        term = explicit[f"{call} device memory"]
        assert term["bytes"] >= GIB
        assert all(
            factors_of(ground).items() >= {"call": call, "allocator": "device"}.items() for ground in term["grounds"]
        )
        assert f"{call} device memory" not in managed


@pytest.mark.parametrize(
    ("experiment", "command"),
    [
        ("transfer", "firsttouch run transfer --device cuda:0 --set direction=h2d --set allocator=malloc"),
        ("pagefault", "firsttouch run pagefault --device cpu"),
    ],
)
def test_a_record_of_another_version_of_the_metric_is_no_price(tmp_path: Path, experiment: str, command: str) -> None:
    """Its values mean something else, so the strategies that need it have no time but the command that measures it."""
    for name in ("machine.json", "run.json"):
        shutil.copy(STANDARD / name, tmp_path)
    lines = [json.loads(line) for line in (STANDARD / "results.jsonl").read_text().splitlines()]
    for record in lines:
        if record["experiment"] == experiment:
            record["metric_version"] += 1
    (tmp_path / "results.jsonl").write_text("".join(json.dumps(record) + "\n" for record in lines))
    (explicit,) = (one for one in advised(tmp_path)["unavailable"] if one["strategy"] == "explicit")
    assert (explicit["reason"], explicit["run"]) == ("not measured here", command)


class Described(Prices):
    """Prices of a machine that nobody has measured: 1 ns per byte for all that happens, as a paper states it."""

    page_size = "base"

    def __init__(self, machine: Machine, device: DeviceInfo) -> None:
        self.machine, self.device = machine, device

    def price(self, *name: str) -> Price:
        times = (Time(), Time(1.0, 1.0, 1.0))
        return Price((0.0, 1.0), times, (PublishedRow("a-paper/copies"),)).assuming("all bytes take 1 ns")

    def exchange(self, allocator: str, *, by_groups: bool = False) -> ExchangePrice:
        return ExchangePrice(self.price("exchange"), ())


def test_a_machine_that_is_described_has_advice_like_one_that_was_measured() -> None:
    """Its terms rest on what its prices rest on, which is no record."""
    machine = load_results(STANDARD).machine
    prices = Described(machine, next(d for d in machine.devices if d.name == "cuda:0"))
    advice = msgspec.to_builtins(output(ranked(patterns.program_for("stream", GIB), "a program", GIB, prices)))
    (explicit,) = (one for one in advice["strategies"] if one["strategy"] == "explicit")
    copied = next(term for term in explicit["terms"] if term["what"].startswith("copy in"))
    assert copied["ms"] == pytest.approx(copied["bytes"] / 1e6)
    assert [*copied["grounds"]] == [
        {"kind": "published", "row": "a-paper/copies"},
        {"kind": "assumption", "text": "all bytes take 1 ns"},
    ]
    assert "all bytes take 1 ns" in advice["assumptions"]


def test_a_measured_application_is_asked_about_with_the_parameters_that_it_had() -> None:
    """At 2 GiB the solver has since found larger transforms."""
    app = all_apps()["fft_conv_fused"]
    answer = advise([STANDARD, stored_run("h200-apps-1")], app=app.name, size="2GiB", apps=all_apps())
    assert answer.size == app.footprint({"n": 8186, "iterations": 10})
    assert any(row.measured for row in answer.strategies)
