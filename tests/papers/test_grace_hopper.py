"""The lines and claims of Grace Hopper's study measure what its programs do."""

from __future__ import annotations

import pytest
from tests.fabricated import MACHINES
from tests.papers.test_claims import TESTED, sides
from tests.test_reproduce import OTHER_NAMES, ROWS, options, words_of

from firsttouch.apps import all_apps
from firsttouch.papers.rows import all_rows
from firsttouch.workspace.needs import memory_needs
from firsttouch.workspace.strategies import STRATEGIES

PAPER = {row.id: row for row in all_rows() if row.paper == "grace-hopper"}
LINES = [row for row in ROWS if row.study == "Grace Hopper" and row.plans]
GPU_INITIALISED = [OTHER_NAMES.get(name, name) for name in PAPER["pagefault.groups.gpu-initialised"].value]  # type: ignore[union-attr]
(CUDA,) = (device for device in MACHINES["gh200"].devices if device.name == "cuda:0")


@pytest.mark.parametrize("app", GPU_INITIALISED)
def test_arrays_that_the_gpu_initialises_are_memory_of_the_strategy(app: str) -> None:
    """Otherwise they are plain device memory under every strategy, and the GPU never touches system memory first."""
    asked = [options(line.planned, "--set") for line in LINES if app in words_of(line.planned)]
    claimed = [[f"{k}={v}" for k, v in side.items()] for _, test in TESTED for side in sides(test)]
    claimed = [sets for sets in claimed if f"app={app}" in sets]
    assert asked
    assert claimed
    declared = all_apps()[app].declarations(all_apps()[app].sizes["default"])
    for sets in asked + claimed:
        placed = "scratch=strategy" in sets
        for strategy in ("system", "managed", "registered"):
            needs = memory_needs(declared, STRATEGIES[strategy], CUDA, place_scratch=placed)
            elsewhere = needs.blocks - (needs.device if strategy == "managed" else needs.host)
            assert elsewhere == 0, (sets, strategy)


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
