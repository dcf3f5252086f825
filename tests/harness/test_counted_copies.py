"""What the model counts as copied is what a Workspace copies."""

from __future__ import annotations

import pytest
from tests.harness.running import opencl, run_tiny

from firsttouch.apps import all_apps
from firsttouch.model.counting import CountedReplay
from firsttouch.model.page_steps import CountingSettings
from firsttouch.model.pages import Kind
from firsttouch.program.dry_run import program_of
from firsttouch.program.strategies import STRATEGIES


@pytest.mark.parametrize("name", ["cfd", "dwt2d", "gaussian", "heartwall", "pathfinder", "quantum_volume"])
def test_explicit_copies_what_a_workspace_does(name: str) -> None:
    app, (info, _) = all_apps()[name], opencl()
    run = run_tiny(app, "explicit")
    settings = CountingSettings(2, Kind(4096, ()))
    counted = CountedReplay(program_of(app, app.sizes["tiny"]), STRATEGIES["explicit"], info, settings)
    counted.run()
    assert {**run.transferred} == counted.ledger.transferred
