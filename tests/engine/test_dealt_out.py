"""Points that all devices of a driver carry out together are measured once, not once for each device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from tests.fabricated import MACHINES

from firsttouch.base.errors import UsageError
from firsttouch.engine.plan import list_experiment, make_plan
from firsttouch.engine.work_kinds import KINDS
from firsttouch.experiments.contract.base import Experiment, Factor, RankRules
from firsttouch.experiments.contract.rank_interfaces import dealt_out
from firsttouch.records.schema import RANKS, SCHEMA, DeviceInfo, Metric, Request, Scalar, WorkKind

NODE = MACHINES["mi300a-node"].devices


class Together(Experiment):
    """Somebody's own experiment, of one rank or several."""

    name = "together"
    question = "How fast is everything at once?"
    metric = Metric("us", "lower")
    ranks = RankRules(places=lambda factors, device: dealt_out(device, factors.count(RANKS)), least=1)

    def factors(self, device: DeviceInfo, preset: str) -> list[Factor]:
        return [Factor(RANKS, [1], "count"), Factor("n", [1, 2], "count")]


def measured(
    kind: WorkKind, name: str, devices: Sequence[str], told: list[str], **sets: list[Scalar]
) -> Counter[tuple[str, int]]:
    """How many points of four ranks at most are planned, by device and number of ranks; 0 ranks: not measured."""
    work, request = KINDS[kind], Request(schema=SCHEMA, experiments=[name], devices=[*devices], preset="quick", seed=1)
    request.set, request.ranks = sets, 4
    request.devices = request.devices or work.default_devices(NODE, request)
    known = {**work.experiments(request.set), "together": Together()}
    plan = make_plan(request, NODE, known, {}, work.planning, told.append)
    return Counter((p.point.device, 0 if p.reason else int(p.point.factors[RANKS])) for p in plan)


@pytest.mark.parametrize("app", ["halo", "transport"])
def test_an_application_is_shared_by_all_devices_once(app: str) -> None:
    told: list[str] = []
    explicit: dict[str, list[Scalar]] = {"strategy": ["explicit"]}
    assert measured("app", app, [], told, **explicit) == {("hip:0", 1): 1, ("hip:0", 4): 3}
    both = measured("app", app, ["hip:0", "hip:1"], told, **explicit)
    assert both == {("hip:0", 1): 1, ("hip:0", 4): 3, ("hip:1", 1): 1}
    shared = measured("app", app, ["hip:0", "hip:1"], told, **explicit, ranks=[4])
    assert shared == {("hip:0", 4): 3}
    assert not told
    assert measured("app", app, ["hip:1"], told, **explicit) == {("hip:1", 1): 1}
    (sentence,) = told
    assert f"left out of {app} on hip:1: points of 4 ranks (ranks are assigned" in sentence
    with pytest.raises(UsageError, match="devices from hip:0 on; --device hip:0 measures them"):
        measured("app", app, ["hip:1"], told, **explicit, ranks=[4])


@pytest.mark.parametrize("name", ["collective", "together"])
def test_further_devices_have_no_entry_without_content(name: str) -> None:
    told: list[str] = []
    plan = measured("run", name, ["hip:0", "hip:1", "hip:3"], told)
    assert {device for device, _ in plan} == {"hip:0"}
    assert ("hip:0", 0) not in plan
    assert not told
    with pytest.raises(UsageError, match=r"can't run on hip:1, hip:3: ranks are assigned .* from hip:0 on"):
        measured("run", name, ["hip:1", "hip:3"], told)
    listed = list_experiment(Together() if name == "together" else KINDS["run"].experiments({})[name], NODE, "quick")
    assert [*listed.devices][-1] == "hip:0"
    assert "from hip:0 on" in listed.not_on["hip:2"]
