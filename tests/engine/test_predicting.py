"""Points that are predicted: by the worker's handler, without a device, and with all that a prediction says."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest
from tests.texts import assert_states

from firsttouch.engine import predicting
from firsttouch.engine.filling import blank_record
from firsttouch.engine.job import Job
from firsttouch.engine.job_handler import JobHandler
from firsttouch.engine.planned import Planned
from firsttouch.experiments.contract.base import Experiment, Measurement
from firsttouch.model.costs import Assumption, PlatformValue
from firsttouch.model.terms import Term
from firsttouch.records.schema import DeviceInfo, Factors, Metric, Modelled, Point, PredictedTerm

MODELLED = Modelled(platform="mine", digest="d1", changes={"link.h2d": "9GB/s"}, rules=3)
DEVICE = DeviceInfo(name="model:mine", kind="model", title="Mine", modelled=MODELLED)
PLANNED = Planned(Point("copying", "model:mine", Factors(n=2)), Metric("ms", "lower"), DEVICE)
TERM = Term("copy", "h2d", 8, 1, 2.0, 1.0, 4.0, (PlatformValue("mine", "link.h2d", "stated"), Assumption("it is idle")))


@dataclass
class Machine:
    """A platform, as far as the handler uses it."""

    digest: str = "d1"
    factors: dict[str, Any] = field(default_factory=dict)
    devices: tuple[DeviceInfo, ...] = (DEVICE,)

    def under(self, factors: dict[str, Any]) -> Machine:
        return Machine(self.digest, factors)


class Copying(Experiment):
    name: ClassVar[str] = "copying"
    skipped = ""
    made = Measurement.predicted(2.0, 1.0, 4.0, terms=[TERM], counters={"copies": 1})

    def skip(self, factors: Factors, device: DeviceInfo) -> str | None:
        return self.skipped or None

    def predict(self, point: Point, platform: Any) -> Measurement:
        assert platform.factors == {"n": 2}
        return self.made


@pytest.fixture(autouse=True)
def platform(monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine()
    monkeypatch.setattr(predicting, "_loaded", lambda device: machine)
    return machine


def handled(experiment: Experiment) -> Any:
    pipe: Any = None  # nothing is opened, so that nothing is told
    return JobHandler(lambda job: experiment)(Job(PLANNED), pipe).record


def test_a_prediction_has_its_range_its_terms_and_what_it_follows_from():
    record = handled(Copying())
    assert (record.status, record.verified, record.verified_why) == ("ok", None, "predicted")
    assert record.samples == [2.0]
    assert (record.summary.median, record.summary.ci_low, record.summary.ci_high) == (2.0, 1.0, 4.0)
    assert record.counters == {"copies": 1}
    assert record.modelled == MODELLED
    assert record.terms == [
        PredictedTerm(phase="copy", what="h2d", bytes=8, count=1, ms=2.0, low=1.0, high=4.0,
                      values=["link.h2d"], assumptions=["it is idle"])
    ]  # fmt: skip
    assert record == handled(Copying())


def test_what_no_model_covers_is_skipped():
    class Unknown(Experiment):
        name: ClassVar[str] = "unknown"

    record = handled(Unknown())
    assert record.status == "skipped"
    assert record.reason.startswith("not modelled: ")
    assert record.modelled == blank_record(PLANNED, "skipped").modelled == MODELLED


def test_what_cannot_be_on_that_machine_is_skipped():
    experiment = Copying()
    experiment.skipped = "it has one agent"
    assert handled(experiment).reason == "it has one agent"


@pytest.mark.parametrize("bounds", [(2.1, 3.0), (1.0, 1.9), (1.0, float("inf"))])
def test_a_range_that_does_not_hold_the_value_is_a_failure(bounds: tuple[float, float]):
    experiment = Copying()
    experiment.made = Measurement.predicted(2.0, *bounds)
    assert handled(experiment).status == "failed"


def test_a_file_that_changed_meanwhile_is_not_mixed_with_the_one_planned(platform: Machine):
    platform.digest = "d2"
    assert_states(handled(Copying()).reason, DEVICE.name, "changed")
