"""The lines and claims of Grace Hopper's study measure what its programs do."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.comparison.made_up import results_of
from tests.comparison.test_claims import TESTED, sides
from tests.experiments.fake_records import a_record
from tests.fabricated import MACHINES
from tests.planning import plan_on
from tests.test_reproduce import OTHER_NAMES, ROWS, options, words_of

from firsttouch.apps import all_apps
from firsttouch.comparison.papers.beside import beside
from firsttouch.comparison.papers.evaluate import of_results
from firsttouch.harness.placements import placement_of
from firsttouch.program.needs import memory_needs
from firsttouch.program.strategies import STRATEGIES
from firsttouch.records.factors import Factors
from firsttouch.records.papers.claims import Compare, all_claims
from firsttouch.records.papers.rows import all_rows
from firsttouch.records.schema import Scalar

PAPER = {row.id: row for row in all_rows() if row.paper == "grace-hopper"}
LINES = [row for row in ROWS if row.paper == "grace-hopper" and row.plans]
GPU_INITIALISED = [OTHER_NAMES.get(name, name) for name in PAPER["pagefault.groups.gpu-initialised"].value]  # type: ignore[union-attr]
(CUDA,) = (device for device in MACHINES["gh200"].devices if device.name == "cuda:0")


NEVER_ON_THE_CPU = {"srad": ("to_north", "to_south", "to_west", "to_east", "diffuses")}
"""Arrays that the paper leaves in device memory, since its CPU never uses them."""


@pytest.mark.parametrize("app", GPU_INITIALISED)
def test_arrays_that_the_gpu_initialises_are_memory_of_the_strategy(app: str) -> None:
    """But for those that the CPU never uses. Otherwise they are plain device memory under every strategy, and the GPU
    never touches system memory first.
    """
    asked = [options(line.planned, "--set") for line in LINES if app in words_of(line.planned)]
    claimed = [[f"{k}={v}" for k, v in side.items()] for _, test in TESTED for side in sides(test)]
    claimed = [sets for sets in claimed if f"app={app}" in sets]
    assert asked
    assert claimed
    declared = all_apps()[app].declarations(all_apps()[app].sizes["default"])
    for_the_gpu = sum(d.nbytes for d in declared if d.name in NEVER_ON_THE_CPU.get(app, ()))
    for sets in asked + claimed:
        guidance = placement_of(all_apps()[app], Factors(word.split("=") for word in sets))
        for strategy in ("system", "managed", "registered"):
            needs = memory_needs(declared, STRATEGIES[strategy], CUDA, guidance=guidance)
            elsewhere = needs.blocks - (needs.device if strategy == "managed" else needs.host)
            assert elsewhere == (0 if strategy == "managed" else for_the_gpu), (sets, strategy)


def test_what_registering_costs_is_asked_of_the_program_of_the_paper() -> None:
    program = PAPER["allocation.host-register.cost"].conditions["app"]
    (line,) = (line for line in LINES if "registered" in options(line.planned, "--strategy"))
    assert program in words_of(line.planned)
    assert {"system", "system+prefault"} <= set(options(line.planned, "--strategy"))
    resting = {
        claim.test.where["app"]
        for claim, _ in TESTED
        for row in claim.rows
        if row.endswith(("host-register.cost", "pre-init-loop"))
    }
    assert resting == {program}


@pytest.mark.parametrize(
    ("setting", "by_host_tables", "why"),
    [
        ({}, True, ""),
        ({"uvm_perf_access_counter_mimc_migration_enable": 0}, True, ""),
        (
            {"uvm_perf_access_counter_mimc_migration_enable": -1},
            True,
            "uvm_perf_access_counter_mimc_migration_enable is -1",
        ),
        ({"uvm_perf_access_counter_migration_enable": -1}, True, "uvm_perf_access_counter_migration_enable is -1"),
        ({"uvm_perf_access_counter_migration_enable": -1}, False, ""),
        ({"uvm_perf_access_counter_migration_enable": 1}, False, "uvm_perf_access_counter_migration_enable is 1"),
    ],
)
def test_the_overview_is_claimed_where_no_memory_moves_by_itself(
    setting: dict[str, int], by_host_tables: bool, why: str
) -> None:
    """The study compares methods with automatic migration off, and without the CPU's initialisation."""
    overview = [row for row in PAPER.values() if row.conditions.get("auto_migration") is False and row.claims]
    claims = [claim for claim in all_claims() if any(name in row.claims for row in overview for name in [claim.id])]
    assert len(claims) == 6
    results = results_of("gh200")
    results.machine.facts |= {"nvidia_uvm": dict(setting)}
    for device in results.machine.devices:
        facts = device.facts | {"pageableMemoryAccessUsesHostPageTables": by_host_tables}
        results.machine.devices = [replace(d, facts=facts) if d is device else d for d in results.machine.devices]
    for verdict, claim in zip(of_results(results, claims).claims, claims, strict=True):
        assert (f"({why}; set it to 0)" in verdict.why) == bool(why), verdict.why
        assert bool(verdict.command) != bool(why)
        assert isinstance(claim.test, Compare)
        assert claim.test.metric == "without_initialise_ms"


@pytest.mark.parametrize(
    ("row", "factors", "counters", "value", "stated"),
    [
        (
            "oversubscription.qiskit34.ratio",
            {"app": "quantum_volume", "qubits": 34},
            {"ratio_reached": 1.36},
            1.36,
            1.3,
        ),
        ("oversubscription.qiskit30.footprint", {"app": "quantum_volume", "qubits": 30}, {}, 8 * 2**30, 8e9),
        ("allocation.host-register.cost", {"app": "srad"}, {"phase_allocate_ms": 290.0}, 290, 300),
        (
            "migration.srad.system.steady-gpu-read",
            {"app": "srad"},
            {"hw_iteration_11_device_read_bytes": 1.6e9},
            1.6e9,
            1.5e9,
        ),
        ("migration.srad.system.steady-link-read", {"app": "srad"}, {"hw_iteration_11_link_read_bytes": 9e6}, 9e6, 0),
    ],
)
def test_what_the_study_states_of_its_inputs_stands_beside_runs_of_them(
    row: str, factors: dict[str, Scalar], counters: dict[str, Scalar], value: float, stated: float
) -> None:
    here = PAPER[row].here
    assert here is not None
    strategies = here.factors["strategy"]
    chosen: dict[str, Scalar] = {
        **here.factors,
        "strategy": strategies[-1] if isinstance(strategies, list) else strategies,
    }  # type: ignore[dict-item]
    assert factors.items() <= chosen.items()
    known = all_apps()[str(factors["app"])]
    params = known.sizes["default"] | {name: v for name, v in chosen.items() if isinstance(v, int)}
    counted = {f"param_{name}": v for name, v in params.items()} | {"footprint_bytes": known.footprint(params)}
    record = replace(
        a_record("migration", 1.0, chosen),
        experiment="app",
        device="cuda:0",
        metric_version=1,
        counters={**counted, **counters},
    )
    found = {entry.says: entry for entry in beside([record], [CUDA])}
    assert found[PAPER[row].says].value == pytest.approx(value, rel=0.01)
    assert found[PAPER[row].says].stated == (stated, stated)


@pytest.mark.parametrize(
    ("times", "verdict"),
    [
        ({0.5: (100, 100), 2.0: (150, 400)}, "holds"),
        ({0.5: (100, 200), 2.0: (300, 400)}, "does not hold"),  # faster, but slowed down more
        ({0.5: (100, 100), 2.0: (300, 300)}, "no clear difference"),
        ({2.0: (150, 400)}, "not testable"),
    ],
)
def test_less_memory_is_compared_by_what_it_slows_down(times: dict[float, tuple[float, float]], verdict: str) -> None:
    runs = []
    for ratio, both in times.items():
        for strategy, ms in zip(("system", "managed"), both, strict=True):
            factors: dict[str, Scalar] = {"app": "nw", "strategy": strategy, "oversubscribe": ratio, "events": "off"}
            counters = {"without_initialise_ms": ms, "without_initialise_sd_ms": ms / 100}
            run = a_record("migration", 1000 + ms, factors)
            runs.append(replace(run, experiment="app", device="cuda:0", metric_version=1, counters=counters))
    claim = next(claim for claim in all_claims() if claim.id == "gh-less-memory-nw")
    (found,) = of_results(results_of("gh200", runs), [claim]).claims
    assert found.verdict == verdict
    if verdict == "holds":
        (comparison,) = found.comparisons
        assert comparison.second is not None
        assert (comparison.first.value, comparison.second.value) == (1.5, 4)
        points = [(point.factors["strategy"], point.factors["oversubscribe"]) for point in comparison.points]
        assert points == [("system", 2.0), ("managed", 2.0)]


def test_every_program_runs_with_less_memory_by_the_bytes_that_it_declares() -> None:
    """What a measured peak leaves is known in the run only; that of the declared buffers is less."""
    lines = [line for line in LINES if "Fig. 11" in line.line.where]
    plans = [plan_on("gh200", line.planned.replace("peak=measured", "peak=declared")) for line in lines]
    assert all(line.planned.count("peak=measured") == 1 for line in lines)
    assert not any(plan["skipped"] for plan in plans)
    assert {(p["app"], p["strategy"], p["oversubscribe"]) for plan in plans for p in plan["measured"]} == {
        (app, strategy, ratio)
        for app in ("nw", "pathfinder", "bfs", "hotspot", "srad")
        for strategy in ("managed", "system")
        for ratio in ((0.5, 1.1, 1.25) if app == "srad" else (0.5, 1.25, 1.5, 2.0))  # its device memory must fit
    }
