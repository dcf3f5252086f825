"""Several directories of one machine are tested together: what differs between them is a factor, and never unnamed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.calls import invoke
from tests.comparison.made_up import results_of
from tests.experiments.fake_records import a_record
from tests.kept_runs import stored_run
from tests.texts import assert_states

from firsttouch.base.errors import UsageError
from firsttouch.cli import claims as cli
from firsttouch.comparison.papers.evaluate import claims, of_results
from firsttouch.comparison.papers.pooled import pooled
from firsttouch.records.reading import Results, load_results
from firsttouch.records.schema import Record


def run_of(*records: Record, **facts: Mapping[str, Any]) -> Results:
    results = results_of("gh200", records)
    results.machine.facts |= facts  # type: ignore[arg-type]
    return results


def test_runs_of_different_machines_are_refused() -> None:
    """Not for another PoCL, which is no other machine."""
    with pytest.raises(UsageError, match=r"are of different machines \(cpu\.cores_online is 16 and 2\); .*compare"):
        claims([stored_run("h200-quick"), stored_run("xeon-vm-quick")])
    with pytest.raises(UsageError, match=r"\(cuda:0 is NVIDIA H200 and NVIDIA H100"):
        claims([stored_run("h200-quick"), stored_run("h100-quick")])
    run = load_results(stored_run("xeon-vm-quick"))
    devices = [replace(d, title=f"another {d.title}") if d.role == "processor" else d for d in run.machine.devices]
    assert any(device.role == "processor" for device in devices)
    pooled({"one": run, "other": Results(replace(run.machine, devices=devices), None, run.records)})


def test_experiments_and_applications_in_two_directories_answer_as_in_one() -> None:
    """Every claim that one of the directories can test is tested; no other verdict changes."""

    def tested(*names: str) -> dict[str, str]:
        found = claims([stored_run(name) for name in names]).claims
        return {verdict.id: verdict.verdict for verdict in found if verdict.verdict != "not testable"}

    standard, apps = tested("h200-standard"), tested("h200-apps-5")
    assert len(standard) > 70
    assert apps.keys() - standard.keys()
    assert tested("h200-standard", "h200-apps-5") == standard | apps


def test_a_point_of_several_runs_has_the_interval_of_all() -> None:
    factors: dict[str, Any] = {"agent": "gpu", "order": "random", "size": 2**30}
    (record,) = pooled({str(v): run_of(a_record("latency", v, factors)) for v in (100.0, 300.0, 200.0)}).records
    assert record.summary is not None
    assert record.summary.median == 200
    assert (record.summary.ci_low, record.summary.ci_high, record.summary.n) == (99, 303, 27)


@pytest.mark.parametrize(("inputs", "points"), [({"n": 960}, 1), ({"n": 480}, 2), ({"nx": 960, "ny": 960}, 2)])
def test_an_application_that_ran_with_other_parameters_is_another_point(inputs: dict[str, int], points: int) -> None:
    def ran(ms: float, **parameters: int) -> Results:
        record = a_record("latency", ms, {"app": "halo", "size": "default", "strategy": "explicit"})
        counters = {f"param_{name}": v for name, v in parameters.items()}
        return run_of(replace(record, experiment="app", unit="ms", counters=counters))

    records = pooled({"one": ran(10, n=960), "other": ran(30, **inputs)}).records
    assert len(records) == points
    assert all(("n" in r.factors or "nx" in r.factors) == (points > 1) for r in records)


@pytest.mark.parametrize(
    ("topic", "fact", "factor"),
    [("memory", "page_bytes", "page_bytes"), ("nvidia", "driver", "cuda_driver"), ("huge_pages", "thp_enabled", "thp")],
)
def test_points_of_runs_under_other_conditions_are_not_compared(topic: str, fact: str, factor: str) -> None:
    """Prefetched data in one run, and data that fault in another, whose driver or kernel is not the same."""

    def point(prefetch: str, ms: float) -> Record:
        where = {"allocator": "managed", "touch": "dense", "order": "parallel", "advice": "none", "prefetch": prefetch}
        record = a_record("migration", ms, {**where, "starts_on": "cpu", "operation": "update", "events": "off"})
        record.device = "cuda:0"
        return record

    def verdict(second: str) -> str:
        one, other = (
            run_of(point("whole", 1), **{topic: {fact: "a"}}),
            run_of(point("none", 9), **{topic: {fact: second}}),
        )
        together = pooled({"one": one, "other": other})
        assert all((factor in r.factors) == (second != "a") for r in together.records)
        return next(v.verdict for v in of_results(together).claims if v.id == "um-prefetch-bulk")

    assert verdict("a") == "holds"
    assert verdict("b") == "not testable"


def test_two_kernels_with_other_pages_answer_what_one_cannot(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Runs of system memory with phases of free that differ tenfold, from a kernel of 4 KiB and one of 64 KiB."""
    source = stored_run("h200-apps")
    lines = [json.loads(line) for line in (source / "results.jsonl").read_text().splitlines()]
    apps = ("bfs", "hotspot", "nw", "pathfinder", "srad")
    managed = [r for r in lines if r["factors"]["app"] in apps and r["factors"]["strategy"] == "managed"]
    managed = [r for r in managed if r["status"] == "ok" and r["factors"].get("events") != "on"]
    assert managed
    for name, page, free in (("4k", 4096, 50.0), ("64k", 65536, 5.0)):
        shutil.copytree(source, tmp_path / name, ignore=lambda folder, names: {n for n in names if n != "machine.json"})
        machine = json.loads((source / "machine.json").read_text())
        machine["facts"]["memory"]["page_bytes"] = page
        (tmp_path / name / "machine.json").write_text(json.dumps(machine))
        records = [
            r | {"factors": r["factors"] | {"strategy": "system"}, "summary": r["summary"] | {"n": 3},
                 "counters": r["counters"] | {"phase_allocate_ms": 0.01, "phase_free_ms": free}}
            for r in managed
        ]  # fmt: skip
        (tmp_path / name / "results.jsonl").write_text("".join(f"{json.dumps(r)}\n" for r in records))

    def verdict_of(*names: str) -> dict[str, Any]:
        invoke(cli.command, [tmp_path / name for name in names], as_json=True)
        (verdict,) = [each for each in json.loads(capsys.readouterr().out)["claims"] if each["id"] == "gh-64k-alloc"]
        return verdict

    of_one = verdict_of("4k")
    assert of_one["verdict"] == "not testable"
    assert_states(of_one["why"], "page_bytes 64 KiB", "page_bytes 4 KiB", "both directories")
    of_both = verdict_of("4k", "64k")
    assert of_both["verdict"] == "holds"
    pages = [point["factors"]["page_bytes"] for point in of_both["comparisons"][0]["points"]]
    assert pages == [4096, 65536]
