"""The papers' claims: they rest on rows, name what exists, and are judged by intervals of records."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

import msgspec
import pytest
from tests.comparison.test_rows import accepts, counters_of_results, factors_of
from tests.experiments.fake_records import a_record
from tests.fabricated import MACHINES
from tests.kept_runs import stored_run
from tests.texts import assert_states

from firsttouch.base.errors import UsageError
from firsttouch.comparison.papers.comparisons import values_of
from firsttouch.comparison.papers.evaluate import MOST_LISTED, Claims, Verdict, claims, of_results
from firsttouch.engine.work_kinds import APP
from firsttouch.experiments import all_experiments
from firsttouch.machine.switches import SWITCHES
from firsttouch.program.strategies import STRATEGIES
from firsttouch.records.papers.claims import (
    Alike,
    Check,
    Compare,
    Level,
    PaperClaim,
    Trend,
    Untestable,
    Word,
    all_claims,
)
from firsttouch.records.papers.rows import APPLICATIONS, all_rows
from firsttouch.records.reading import Results, load_results
from firsttouch.records.schema import Record, Summary

TESTED = [(claim, claim.test) for claim in all_claims() if not isinstance(claim.test, Untestable)]
EVENT_COUNTERS = {"hw_tlb_misses", "without_initialise_ms", "interrupts_per_s", "tlb_loads_per_mib"}
"""Counters of which no results of this repository have any: of a profiler, of a call that asks for them, of a later
version.
"""


@cache
def verdicts(name: str) -> dict[str, Verdict]:
    return {verdict.id: verdict for verdict in claims([stored_run(name)]).claims}


def sides(test: Check) -> list[dict[str, object]]:
    if isinstance(test, Compare):
        return [{**test.where, **test.first}, {**test.where, **test.second}]
    return [dict(test.where)]


def test_there_are_many_claims_of_all_papers_and_each_rests_on_rows() -> None:
    names = {row.name for row in all_rows()}
    assert len({claim.id for claim in all_claims()}) == len(all_claims()) >= 80
    for claim in all_claims():
        assert claim.rows, claim.id
        assert set(claim.rows) <= names, claim.id
    assert len({claim.rows[0].partition("/")[0] for claim in all_claims()}) == 5


@pytest.mark.parametrize("experiment", sorted({test.experiment for _, test in TESTED} - {APPLICATIONS}))
def test_the_factors_and_values_of_claims_exist(experiment: str) -> None:
    devices = list(factors_of(experiment))
    for claim, test in TESTED:
        for side in sides(test) if test.experiment == experiment else []:
            for name, wanted in side.items():
                for value in values_of(wanted):  # type: ignore[arg-type]
                    if value is None:  # points without the factor
                        continue
                    if isinstance(value, str) and value.startswith(">"):
                        assert any(name in factors for factors in devices), (claim.id, name)
                        continue
                    switch = name in SWITCHES and value in SWITCHES[name].values
                    assert switch or any(accepts(f.get(name), value) for f in devices), (claim.id, name, value)
        if test.experiment == experiment and isinstance(test, Alike | Trend):
            assert test.over in SWITCHES or any(test.over in factors for factors in devices), claim.id


SAME_LOOP = {"p2p-copy": "transfer"}
"""Experiments that no run in results/ has, each with one of the same counters, since it has the same loop."""


def test_the_applications_strategies_and_counters_of_claims_exist() -> None:
    stored_run("h200-ranked-apps")  # without evidence/, not all counters are known
    known = counters_of_results()
    for claim, test in TESTED:
        if test.experiment == APPLICATIONS:
            for side in sides(test):
                assert set(values_of(side.get("app", []))) <= set(APP.names()), claim.id  # type: ignore[arg-type]
                assert set(values_of(side["strategy"])) <= set(STRATEGIES), claim.id  # type: ignore[arg-type]
        else:
            assert test.experiment in all_experiments(), claim.id
        for name in set(test.counters) - EVENT_COUNTERS:
            assert (SAME_LOOP.get(test.experiment, test.experiment), name) in known, claim.id


def test_a_standard_run_answers_many_claims_both_ways() -> None:
    found = verdicts("h200-standard")
    counts = Counter(verdict.verdict for verdict in found.values())
    assert len(found) == len(all_claims())
    assert counts["holds"] > 30
    assert counts["does not hold"] > 10
    assert found["gpu-triad-device-over-pinned"].verdict == "holds"
    assert found["gpu-latency-alike"].verdict == "does not hold"  # page-locked memory is behind PCIe
    assert found["um-first-iteration"].verdict == "holds"
    assert found["tk1-pinned-uncached"].verdict == "does not hold"


def test_a_small_difference_is_not_called_one() -> None:
    """4,327 against 4,270 GB/s with narrow intervals: other runs of the machine differ as much."""
    verdict = verdicts("h200-standard")["gpu-triad-device-over-managed"]
    assert verdict.verdict == "no clear difference"
    assert verdict.comparisons[0].agrees == "unclear"


def test_what_the_hardware_cannot_do_is_said_with_its_property() -> None:
    found = verdicts("h200-standard")
    assert found["gpu-triad-device-over-malloc"].why.startswith("pageableMemoryAccess is 0: the GPU cannot reach")
    assert found["gh-srad-managed-system"].why.startswith("pageableMemoryAccess is 0")
    assert "shares_host_memory of cuda:0 is false" in found["meminfo-sees-device-at-once"].why
    assert found["managed-triad-xnack"].why == "the runtime of cuda:0 does not read HSA_XNACK"
    assert found["kaveri-svm-half"].why == "cuda:0 has no svm-fine memory"
    assert not any(found[name].command for name in ("gpu-triad-device-over-malloc", "kaveri-svm-half"))


def test_what_was_not_measured_is_said_with_the_call_that_measures_it() -> None:
    found = verdicts("h200-standard")["device-free-longer"]
    assert found.verdict == "not testable"
    assert_states(found.why, "not measured")
    assert found.command == (
        "firsttouch run allocation --device cuda:0 --set allocator=device --set size=256MiB --set call=free,allocate"
    )


def test_applications_that_ran_once_test_nothing() -> None:
    found = verdicts("h200-apps")
    assert {verdict.verdict for verdict in found.values()} == {"not testable"}
    once = found["um-run-prefetch"]
    assert_states(once.why, "measured once")
    assert "firsttouch app black_scholes" in once.command
    assert "--repeat 3" in once.command


def test_kernels_on_the_host_processor_are_no_gpu() -> None:
    found = verdicts("xeon-vm-standard")
    assert found["gpu-triad-device-over-pinned"].why == "these results have no GPU"
    assert found["cpu-atomics-double-loop"].verdict == "holds"


def test_each_verdict_follows_from_its_comparisons() -> None:
    by_id = {claim.id: claim for claim in all_claims()}
    for name in ("h200-standard", "xeon-vm-standard"):
        for verdict in verdicts(name).values():
            agree = [comparison.agrees for comparison in verdict.comparisons]
            assert bool(agree) == (verdict.verdict != "not testable"), verdict.id
            assert agree.count("no") == min(verdict.contradict, MOST_LISTED), verdict.id
            if by_id[verdict.id].holds_for == "all" and agree:
                expected = "does not hold" if "no" in agree else "holds" if set(agree) == {"yes"} else None
                assert verdict.verdict == (expected or "no clear difference"), verdict.id
            assert verdict.why, verdict.id


def repeated(record: Record, factor: float, spread: float = 0.0) -> Record:
    """The record with its times multiplied, as the median of three repetitions with an interval."""
    assert record.summary is not None
    median = record.summary.median * factor
    low, high = median * (1 - spread), median * (1 + spread)
    summary = Summary(n=3, median=median, p5=low, p95=high, min=low, max=high, ci_low=low, ci_high=high)
    return msgspec.structs.replace(record, summary=summary)


@pytest.mark.parametrize(
    ("spread", "slowed", "expected"),
    [(0.01, 1.0, "holds"), (0.9, 1.0, "no clear difference"), (0.01, 4.0, "does not hold")],
)
def test_a_claim_holds_only_if_the_intervals_are_apart(spread: float, slowed: float, expected: str) -> None:
    """Prefetches shorten the runs of um-apps' programs on the H200, unless they are slowed down or vary widely."""
    run = load_results(stored_run("h200-apps"))
    records = [
        repeated(r, slowed if r.factors["strategy"] == "managed+prefetch" else 1.0, spread)
        for r in run.records
        if r.status == "ok"
    ]
    found = {v.id: v for v in of_results(Results(run.machine, run.request, records)).claims}
    assert found["um-run-prefetch"].verdict == expected


def test_one_application_does_not_speak_for_most() -> None:
    run = load_results(stored_run("h200-apps"))
    records = [repeated(r, 1.0, 0.01) for r in run.records if r.status == "ok" and r.factors["app"] == "fdtd3d"]
    found = {v.id: v for v in of_results(Results(run.machine, run.request, records)).claims}
    assert found["um-run-prefetch"].verdict == "not testable"
    assert found["um-run-prefetch"].why == "only 1 of 8 applications could be compared"
    assert "black_scholes" in found["um-run-prefetch"].command


def verdict_on(claim: PaperClaim, machine: str) -> Verdict:
    """The verdict of a claim on the records of a run, as if its machine had the devices of another one."""
    run = load_results(stored_run("h200-standard"))
    described = msgspec.structs.replace(run.machine, devices=list(MACHINES[machine].devices))
    found = of_results(Results(described, run.request, run.records)).claims
    return next(verdict for verdict in found if verdict.id == claim.id)


def test_a_call_names_the_device_of_the_machine() -> None:
    claim = next(claim for claim in all_claims() if claim.id == "managed-triad-xnack")
    verdict = verdict_on(claim, "mi300a-xnack")
    assert_states(verdict.why, "not measured")
    assert verdict.command.startswith("firsttouch run bandwidth")
    assert "--device hip:0" in verdict.command
    assert "--set xnack=0,1" in verdict.command


def test_claims_about_pairs_of_devices() -> None:
    """Four APUs, each of which loads from its own memory and from that of another."""

    def load(device: str, peer: str, ns: float) -> Record:
        record = a_record("p2p-latency", ns, {"agent": "gpu", "peer": peer, "allocator": "device", "size": 2**30})
        return msgspec.structs.replace(record, device=device)

    run = load_results(stored_run("h200-standard"))
    node = msgspec.structs.replace(run.machine, devices=list(MACHINES["mi300a-node"].devices))
    rows = [load("hip:0", "self", 346), load("hip:0", "hip:1", 690), load("hip:0", "hip:2", 700)]
    found = {one.id: one for one in of_results(Results(node, run.request, rows)).claims}
    assert (found["node-remote-latency-twice"].verdict, found["node-remote-latency-twice"].agree) == ("holds", 2)
    needed = found["node-remote-slower"].command
    assert needed.startswith("firsttouch run p2p-direct --device hip:0 --device hip:1 --device hip:2 --device hip:3")
    assert "peer=" not in needed
    one = {verdict.id: verdict for verdict in of_results(run).claims}["node-remote-slower"]
    assert one.verdict == "not testable"
    assert_states(one.why, "cuda:0", "no other device")


def test_results_without_points_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"holds no results\.jsonl"):
        claims([tmp_path])
    for name in ("machine.json", "run.json"):
        (tmp_path / name).write_bytes((stored_run("xeon-vm-quick") / name).read_bytes())
    (tmp_path / "results.jsonl").touch()
    with pytest.raises(UsageError, match="holds no measured points"):
        claims([tmp_path])


def test_the_json_has_every_claim() -> None:
    data = msgspec.to_builtins(Claims(summary="", claims=list(verdicts("h200-standard").values())))
    assert list(data) == ["schema", "firsttouch", "summary", "claims"]
    assert msgspec.convert(data, Claims)
    assert {"id", "paper", "section", "text", "verdict", "why", "command", "comparisons"} <= set(data["claims"][0])


def test_levels_and_words_are_used_where_one_value_is_claimed() -> None:
    assert any(isinstance(test, Level) for _, test in TESTED)
    assert any(isinstance(test, Word) for _, test in TESTED)
