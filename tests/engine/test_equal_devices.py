"""Plans on eight equal GPUs: one is measured for all, but for what asks about each, in five minutes at most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.fabricated import MACHINES
from tests.node_of_gpus import Node, results
from tests.node_of_gpus import devices as node_devices
from tests.texts import assert_states

from firsttouch.engine import executor
from firsttouch.engine.choices import BUDGETS
from firsttouch.engine.estimate import planned_seconds
from firsttouch.engine.filling import blank_record
from firsttouch.engine.job import Job
from firsttouch.engine.plan import make_plan
from firsttouch.engine.planned import Planned
from firsttouch.engine.request import RunOptions, resolve
from firsttouch.engine.work_kinds import RUN
from firsttouch.experiments import all_experiments
from firsttouch.records.equal_places import EqualPlaces, differences, for_device, measured_on
from firsttouch.records.reading import Results, key_of, load_results
from firsttouch.records.schema import PEER, SELF, DeviceInfo, Factors, Location, Peer, Record, Request
from firsttouch.workers.process import TaskResult
from firsttouch.workers.protocol import Reply

ROOT = Path(__file__).parents[2]
NODE = MACHINES["h100-node"].devices
GPUS = [device.name for device in NODE if device.role == "gpu"]


def planned(known: Sequence[DeviceInfo] = NODE, **options: Any) -> list[Planned]:
    request = resolve(RUN, RunOptions(**options), pytest.fail)
    request.devices = request.devices or [device.name for device in known]
    return make_plan(request, known, all_experiments(), {})


def measured(plan: Sequence[Planned], device: str) -> list[Planned]:
    return [p for p in plan if p.point.device == device and not p.reason]


@pytest.fixture(scope="module")
def plain() -> list[Planned]:
    return planned()


@pytest.mark.slow
def test_a_plain_run_of_eight_equal_gpus_is_planned_within_five_minutes(plain: Sequence[Planned]) -> None:
    assert planned_seconds(plain) <= 300
    assert planned_seconds(planned(node_devices(Node(gpus=2)))) <= 180


@pytest.mark.parametrize("name", ["h100-quick", "xeon-vm-quick"])
def test_the_planned_time_is_about_what_stored_runs_took(name: str) -> None:
    stored = load_results(ROOT / "results" / name)
    plan = planned(stored.machine.devices, devices=list(dict.fromkeys(r.device for r in stored.records)))
    taken = {key_of(r): r.seconds for r in stored.records if r.status != "skipped"}
    seconds = planned_seconds(p for p in plan if p.key in taken)
    assert seconds is not None
    assert 0.9 < seconds / sum(taken[p.key] for p in plan if p.key in taken) < 1.6


def test_one_gpu_has_every_point_and_those_equal_to_it_have_the_headlines(plain: Sequence[Planned]) -> None:
    first = {p.point.experiment for p in measured(plain, "cuda:0")}
    assert {"tlb", "context", "accounting", "codegen", "allocation", "collective"} < first
    for name in GPUS[1:]:
        alone = Counter(p.point.experiment for p in measured(plain, name) if PEER not in p.point.factors)
        assert alone == {"bandwidth": 1, "latency": 1, "transfer": 2}
    assert not [p for p in plain if p.reason and p.point.device in GPUS[1:]]


def test_every_pair_is_copied_between_at_one_size_and_one_pair_at_all(plain: Sequence[Planned]) -> None:
    between = [p for p in plain if p.point.factors.get(PEER, SELF) != SELF and not p.reason]
    pairs = set(permutations(GPUS, 2))
    for experiment, each in (("p2p-copy", 2), ("p2p-latency", 1)):
        at = Counter((p.point.device, p.peer) for p in between if p.point.experiment == experiment)
        assert at.keys() == pairs
        assert {pair: n for pair, n in at.items() if n > each}.keys() == {("cuda:0", "cuda:1")}
    rest = [p for p in between if p.point.experiment in ("p2p-direct", "p2p-message")]
    assert {(p.point.device, p.peer) for p in rest} == {("cuda:0", "cuda:1")}


def test_a_point_says_which_devices_or_pairs_it_stands_for(plain: Sequence[Planned]) -> None:
    by_experiment = {p.point.experiment: p for p in measured(plain, "cuda:0")}
    assert by_experiment["tlb"].stands_for == [Location(device=name) for name in GPUS[1:]]
    direct = next(p for p in plain if p.point.experiment == "p2p-direct" and p.peer)
    assert {(place.device, place.peer) for place in direct.stands_for} == {*permutations(GPUS, 2)} - {
        ("cuda:0", "cuda:1")
    }
    for p in plain:  # what is measured on each stands for nothing else
        own = [q for q in plain if q.point.experiment == p.point.experiment and q.point.device == "cuda:5"]
        if p.point.device == "cuda:0" and {**p.point.factors} in [{**q.point.factors} for q in own]:
            assert p.stands_for == []
    assert by_experiment["collective"].stands_for == []


def test_points_of_equal_devices_get_the_time_of_one(plain: Sequence[Planned]) -> None:
    shares = {name: experiment.planning.share for name, experiment in all_experiments().items()}
    tlb = [p.seconds for p in measured(plain, "cuda:0") if p.point.experiment == "tlb"]
    assert sum(tlb) == pytest.approx(BUDGETS["quick"].seconds["gpu"] * shares["tlb"] / sum(shares.values()))
    latencies = {p.seconds for p in plain if p.point.experiment == "latency" and p.point.device != "cpu"}
    assert len(latencies - {0.0}) == 1


@pytest.mark.parametrize(
    ("options", "every"),
    [
        ({}, False),
        ({"preset": "standard"}, False),
        ({"preset": "full"}, True),
        ({"devices": GPUS}, True),
        ({"experiments": ["tlb"]}, True),
        ({"set": {"size": ["1MiB"]}}, True),
    ],
)
def test_a_call_that_names_something_asks_for_it_on_every_gpu(options: dict[str, Any], every: bool) -> None:
    assert resolve(RUN, RunOptions(**options), pytest.fail).every_device is every


def test_every_gpu_that_a_call_names_has_every_point() -> None:
    plan = planned(experiments=["tlb", "p2p-latency"], devices=["cuda:1", "cuda:2", "cuda:5"])
    of_each = {name: Counter(p.point.experiment for p in measured(plan, name)) for name in ("cuda:2", "cuda:5")}
    assert of_each["cuda:2"] == of_each["cuda:5"]
    assert of_each["cuda:5"]["tlb"] > 20
    assert not any(p.stands_for for p in plan)


OWN = {"uuid": "GPU-4", "pci_bus": "0000:44:00.0", "memory_free_bytes": 5}


@pytest.mark.parametrize(
    ("changes", "in_full"),
    [
        ({"facts": OWN}, []),
        ({"facts": {"clock_khz": 1_200_000}}, ["cuda:4"]),
        ({"facts": {"memory_bytes": 2**36}}, ["cuda:4"]),
        ({"facts": {"host_distances": "21"}}, ["cuda:4"]),
        ({"title": "another GPU"}, ["cuda:4"]),
        ({"allocators": []}, ["cuda:4"]),
    ],
    ids=["identity", "clock", "memory", "distance", "title", "allocators"],
)
def test_equality_is_decided_by_what_drivers_state(changes: dict[str, Any], in_full: list[str]) -> None:
    (odd,) = (d for d in NODE if d.name == "cuda:4")
    changes = changes | ({"facts": odd.facts | changes["facts"]} if "facts" in changes else {})
    known = [msgspec.structs.replace(d, **changes) if d is odd else d for d in NODE]
    equal = EqualPlaces.of(d for d in known if d.role == "gpu")
    assert [name for name in GPUS[1:] if equal.first(name) == name] == in_full


def test_pairs_with_another_link_have_one_of_their_own_that_stands_for_them() -> None:
    def slower(device: DeviceInfo) -> DeviceInfo:
        far = {"cuda:0": "cuda:7", "cuda:7": "cuda:0"}.get(device.name)
        peers = [
            msgspec.structs.replace(p, link="PCIe", peak_in_gbs=32.0) if p.name == far else p for p in device.peers
        ]
        return msgspec.structs.replace(device, peers=peers)

    equal = EqualPlaces.of(slower(d) for d in NODE if d.role == "gpu")
    assert [place.peer for place in equal.others("cuda:0", Factors(peer="cuda:7"))] == ["cuda:0"]
    assert len(equal.others("cuda:0", Factors(peer="cuda:1"))) == 53


def test_of_very_many_equal_gpus_each_is_measured_with_the_next() -> None:
    names = [f"cuda:{n}" for n in range(24)]
    (gpu,) = (d for d in NODE if d.name == "cuda:0")
    known = [
        msgspec.structs.replace(gpu, name=name, peers=[Peer(name=n, access="direct") for n in names if n != name])
        for name in names
    ]
    request = resolve(RUN, RunOptions(experiments=["p2p-latency", "p2p-direct"]), pytest.fail)
    request.every_device, request.devices, warnings = False, names, list[str]()
    plan = make_plan(request, known, all_experiments(), {}, warn=warnings.append)
    between = {(p.point.device, p.peer) for p in plan if p.peer}
    assert between == set(zip(names, [*names[1:], names[0]], strict=True))
    assert {p.point.device for p in plan if p.point.experiment == "p2p-direct"} == {"cuda:0"}
    assert_states(warnings[0], "240 pairs", "equal", "--device")


# ---------------------------------------------------------------------------------a GPU that differs from the first


def as_measured(node: Node) -> tuple[Request, list[Record]]:
    """The records of a plain run there, in which cuda:0 stands for the others in an experiment."""
    made = results(node)
    assert made.request is not None
    made.request.every_device = False
    made.request.experiments = [*all_experiments()]
    first, *others = node.present
    stands_for = [Location(device=name) for name in others]
    records = [r for r in made.records if r.experiment != "context" or r.device == first]
    return made.request, [msgspec.structs.replace(r, stands_for=stands_for) if r.experiment == "context" else r
                          for r in records]  # fmt: skip


def test_a_gpu_that_differs_clearly_is_measured_as_if_alone() -> None:
    request, records = as_measured(Node(gpus=3, slow_gpu=2))
    assert differences(records) == ["cuda:2 differs from cuda:0: bandwidth 2,381 GB/s, not 2,988 GB/s"]
    (more,) = RUN.further(request, records)
    assert (more.devices, more.experiments) == (["cuda:2"], ["context"])
    assert not RUN.further(msgspec.structs.replace(request, every_device=True), records)
    assert not RUN.further(*as_measured(Node(gpus=3)))


def test_where_the_first_gpu_is_the_odd_one_the_next_stands_for_the_others() -> None:
    request, records = as_measured(Node(gpus=3, slow_gpu=0))
    (more,) = RUN.further(request, records)
    assert more.devices == ["cuda:1", "cuda:2"]
    context = next(r for r in records if r.experiment == "context")
    records.append(msgspec.structs.replace(context, device="cuda:1", stands_for=[Location(device="cuda:2")]))
    assert not RUN.further(request, records)
    assert [r.device for r in for_device(records, "cuda:2") if r.experiment == "context"] == ["cuda:1"]
    held = [r for r in Results(results(Node()).machine, request, records).records if r.experiment == "context"]
    assert [(r.device, [o.device for o in r.stands_for]) for r in held] == [("cuda:0", []), ("cuda:1", ["cuda:2"])]


def test_a_gpu_with_points_of_its_own_is_not_said_to_be_equal() -> None:
    request, records = as_measured(Node(gpus=4, slow_gpu=2))
    context = next(r for r in records if r.experiment == "context")
    latency = next(r for r in records if r.experiment == "latency" and r.device == "cuda:0")
    latency = msgspec.structs.replace(latency, factors={"size": 1}, stands_for=context.stands_for)
    known = [context, latency, msgspec.structs.replace(context, device="cuda:2", stands_for=[])]
    held = Results(results(Node()).machine, request, known).records
    assert measured_on(held[:1]) == "measured on cuda:0, which stands for 3 equal GPUs"
    assert measured_on(held[:2]) == "measured on cuda:0, which stands for up to 4 equal GPUs"
    assert context.stands_for == latency.stands_for


def test_records_say_what_they_hold_for() -> None:
    _, records = as_measured(Node(gpus=3))
    own = [r for r in records if r.experiment in ("context", "latency") and r.device == "cuda:0"]
    assert measured_on(own) == "1 of 3 points measured on cuda:0, which stands for 3 equal GPUs"
    of_contexts = measured_on([r for r in own if r.experiment == "context"])
    assert of_contexts == "measured on cuda:0, which stands for 3 equal GPUs"
    assert measured_on([r for r in records if r.device == "cuda:1"]) == ""
    pair = next(r for r in records if r.experiment == "p2p-direct" and r.factors[PEER] == "cuda:1")
    others = [Location(device="cuda:1", peer="cuda:0"), Location(device="cuda:1", peer="cuda:2")]
    for number, words in ((1, "both directions"), (2, "3 equal pairs")):
        pair = msgspec.structs.replace(pair, stands_for=others[:number])
        assert measured_on([pair]) == f"measured from cuda:0 to cuda:1, which stands for {words}"


# ------------------------------------------------------------------------------------------ one worker for all pairs


class Process:
    """A worker that crashes when it opens cuda:2."""

    started = 0
    pid = 0

    def __init__(self, environment: object) -> None:
        Process.started += 1

    def ask(self, job: Job, **limits: object) -> TaskResult:
        if job.planned.peer == "cuda:2":
            return TaskResult("crashed", "opening", reason="it was killed")
        return TaskResult("done", "opened", Reply(state="done", record=blank_record(job.planned, "ok")))

    def alive(self) -> bool:
        return True

    def stop(self) -> None:
        pass


def test_a_peer_that_does_not_open_costs_its_own_pairs_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "Worker", Process)
    plan = planned(experiments=["p2p-direct"], devices=["cuda:1", "cuda:2", "cuda:5"])
    points = [p for p in plan if p.point.device == "cuda:1" and p.peer]
    with executor.PointExecutor() as measures:
        records = [measures.measure(p) for p in points]
    by_peer = {peer: [r for r in records if r.factors[PEER] == peer] for peer in ("cuda:2", "cuda:5")}
    assert {r.status for r in by_peer["cuda:5"]} == {"ok"}
    assert [r.reason for r in by_peer["cuda:2"][:2]] == ["it was killed"] * 2
    (untried,) = {r.reason for r in by_peer["cuda:2"][2:]}
    assert_states(untried, "not tried", "did not open 2 times", "it was killed")
    assert Process.started == 3
