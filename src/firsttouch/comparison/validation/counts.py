"""What moves and faults, counted without running anything, beside what the driver recorded of measured applications."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from firsttouch.apps import all_apps
from firsttouch.harness.placements import placement_of
from firsttouch.model.counting import CountedReplay
from firsttouch.model.page_steps import stated_settings
from firsttouch.program.dry_run import program_of
from firsttouch.program.phase_threads import threads_of
from firsttouch.program.strategies import STRATEGIES
from firsttouch.records.factors import Factors
from firsttouch.records.schema import PARAMETER, Machine, Record


@dataclass(frozen=True)
class CountedPoint:
    """A measured point of an application, and what the model counts for it. rounds: of a loop that ends when data say
    so, as they were recorded; 0 if there is none. counted: by the names of counters of records.
    """

    record: Record
    rounds: int
    counted: Mapping[str, int]

    @property
    def application(self) -> str:
        return str(self.record.factors["app"])

    def recorded(self, counter: str) -> int | None:
        value = self.record.counters.get(counter)
        return int(value) if isinstance(value, int | float) else None


def counted_point(record: Record, machine: Machine) -> CountedPoint:
    """What the model counts for a measured point of an application, with the machine's threads, page and driver."""
    factors = Factors(record.factors)
    app, strategy = all_apps()[str(factors["app"])], STRATEGIES[factors.text("strategy")]
    params = {
        name.removeprefix(PARAMETER): int(value)
        for name, value in record.counters.items()
        if name.startswith(PARAMETER) and isinstance(value, int | float)
    }
    program = program_of(app, params)
    rounds = sum(name.startswith("iteration_") for name in record.counters) if program.rounds else 0
    if rounds:
        program = program_of(app, params, rounds)
    device = next(d for d in machine.devices if d.name == record.device)
    settings = replace(
        stated_settings(machine, device),
        guidance=placement_of(app, factors),
        copy_control=factors.get("control") == "copied",
        phase_threads=threads_of(factors),
    )
    replay = CountedReplay(program, strategy, device, settings)
    replay.run()
    return CountedPoint(record, rounds, replay.counters())
