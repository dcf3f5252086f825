"""p2p-latency and p2p-direct: kernels in the memory of another device, and processors in that of a NUMA node."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from fake_devices import DISCRETE, MALLOC
from fake_records import MIB, a_record
from small import small_plan
from tests.calls import call
from tests.findings import assert_finding

from firsttouch.base.errors import Unsupported, UsageError
from firsttouch.engine.plan import make_plan
from firsttouch.engine.planned import Planned
from firsttouch.experiments import all_experiments
from firsttouch.experiments.contract.pairs import Misplaced, require_on
from firsttouch.experiments.p2p_direct import KERNELS, crossings
from firsttouch.experiments.p2p_latency import FARTHER, FARTHEST, NEAREST
from firsttouch.experiments.views.pairs import BY, OWNER
from firsttouch.records.figures import Heat
from firsttouch.records.findings import Quantity
from firsttouch.records.reading import load_results
from firsttouch.records.schema import SCHEMA, DeviceInfo, Peer, Record, Request
from firsttouch.workers.session import Session

BOTH = ("p2p-latency", "p2p-direct")
TWO = ("opencl:0", "opencl:1")


@pytest.fixture(scope="module")
def all_measured(tmp_path_factory: pytest.TempPathFactory) -> Sequence[Record]:
    """Loads, kernels and copies between two devices of PoCL and within each, run by the command."""
    own = ["size=64KiB", "allocator=device,svm-fine"]
    sets = dict.fromkeys(BOTH, own) | {"p2p-copy": ["size=64KiB,1000", "source=device,svm-fine", "target=device"]}
    out = tmp_path_factory.mktemp("pairs") / "out"
    chosen = [word for name in TWO for word in ("--device", name)]
    with small_plan(sets):
        done = call("run", *sets, *chosen, "--out", out, POCL_DEVICES="pthread pthread")
    if "'opencl:0' is not available" in done.stderr and not os.environ.get("CI"):
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr
    return load_results(out).records


@pytest.fixture(scope="module")
def measured(all_measured: Sequence[Record]) -> Sequence[Record]:
    return [record for record in all_measured if record.experiment in BOTH]


@pytest.fixture(scope="module")
def copied(all_measured: Sequence[Record]) -> Sequence[Record]:
    return [record for record in all_measured if record.experiment == "p2p-copy"]


@pytest.mark.slow
def test_every_pair_and_each_device_alone_is_verified(measured: Sequence[Record]) -> None:
    for experiment in BOTH:
        rows = [r for r in measured if r.experiment == experiment]
        assert {(r.status, r.verified) for r in rows} == {("ok", True)}
        assert {(r.device, r.text("peer")) for r in rows} == {
            (a, b if a != b else "self") for a in TWO for b in TWO
        }  # fmt: skip


@pytest.mark.slow
def test_bytes_count_once_for_each_crossing(measured: Sequence[Record]) -> None:
    ways = {"read": (1, 0), "write": (0, 1), "copy-in": (1, 0), "copy-out": (0, 1), "copy-there": (1, 1)}
    rows = [r for r in measured if r.experiment == "p2p-direct"]
    assert {r.text("kernel") for r in rows} == ways.keys()
    for row in rows:
        assert row.summary is not None
        inward, outward = ways[row.text("kernel")]
        each = row.summary.median / (inward + outward)
        assert (row.counter("in_gbs"), row.counter("out_gbs")) == (
            pytest.approx(each * inward, rel=0.01),
            pytest.approx(each * outward, rel=0.01),
        )
        assert "of_peak" not in row.counters  # PoCL states no link


@pytest.mark.parametrize(
    ("kernel", "of_peak"), [("read", 0.5), ("write", 0.25), ("copy-in", 0.5), ("copy-out", 0.25), ("copy-there", 0.5)]
)
def test_the_busier_direction_is_compared_with_its_stated_peak(kernel: str, of_peak: float) -> None:
    link = Peer(name="hip:1", access="direct", link="xGMI", peak_in_gbs=64.0, peak_out_gbs=128.0)
    assert crossings(KERNELS[kernel], 32.0, link)["of_peak"] == of_peak
    assert "of_peak" not in crossings(KERNELS[kernel], 32.0, Peer(name="hip:1", access="direct"))
    assert "of_peak" not in crossings(KERNELS[kernel], 32.0, None)


@pytest.mark.slow
def test_copies_to_and_from_every_device_and_both_ways_at_once_are_verified(copied: Sequence[Record]) -> None:
    assert {(r.status, r.verified) for r in copied} == {("ok", True)}
    assert {r.text("engine") for r in copied} == {"copy-engine", "kernel"}
    for direction, inward, outward in (("out", 0, 1), ("in", 1, 0), ("both", 0.5, 0.5)):
        rows = [r for r in copied if r.factors["direction"] == direction]
        assert {(r.device, r.text("peer")) for r in rows} == {(a, b if a != b else "self") for a in TWO for b in TWO}
        for row in rows:
            assert row.summary is not None
            rates = (row.counter("in_gbs"), row.counter("out_gbs"))
            expected = (row.summary.median * inward, row.summary.median * outward)
            assert rates == (pytest.approx(expected[0]), pytest.approx(expected[1]))
            assert 0 < row.counter("latency_low_us") <= row.counter("latency_us") <= row.counter("latency_high_us")


def test_engines_that_a_device_lacks_are_not_planned_but_say_why_if_asked_for() -> None:
    engines = {p.point.factors["engine"] for p in plan_of("p2p-copy", four())}
    assert engines == {"copy-engine", "kernel"}
    able = [msgspec.structs.replace(d, facts={**d.facts, "copies_between_devices": True}) for d in four()]
    assert {p.point.factors["engine"] for p in plan_of("p2p-copy", able)} == {"copy-engine", "kernel", "peer-call"}
    pinned = {"source": ["pinned"], "peer": ["cuda:1"], "size": [4096]}
    (reason,) = {p.reason for p in plan_of("p2p-copy", able[:1], engine=["peer-call"], **pinned)}
    assert reason.startswith("pinned memory is not")
    assert "peer-call" in reason
    (reason,) = {p.reason for p in plan_of("p2p-copy", able[:1], engine=["cpu"], peer=["self"], size=[4096])}
    assert "cannot reach device memory" in reason
    nodes = plan_of("p2p-copy", [processor("node0", "node1", acting="0-1")])
    assert {(p.point.factors["engine"], p.point.factors["direction"]) for p in nodes} == {("cpu", "out"), ("cpu", "in")}


def test_either_agent_touches_first_what_both_reach() -> None:
    def touching(memory: str) -> set[object]:
        sets = {"source": [memory], "target": [memory], "peer": ["cuda:1"], "size": [4096]}
        return {p.point.factors["first_touch"] for p in plan_of("p2p-copy", four()[:1], "standard", **sets)}

    assert touching("device") == {"gpu"}
    assert touching("managed") == {"gpu", "cpu"}
    with pytest.raises(UsageError, match="touch device memory first"):
        plan_of("p2p-copy", four(), first_touch=["cpu"], source=["device"], target=["device"])
    with pytest.raises(UsageError, match="cpu has no GPU"):
        plan_of("p2p-copy", [processor("node0", "node1", acting="0-1")], first_touch=["gpu"])


def test_one_way_access_has_workers_of_its_own_where_access_matters() -> None:
    """Access stays open as long as the process."""
    chosen = {"peer": ["cuda:1"], "size": [4096]}
    points = plan_of("p2p-copy", four()[:1], access=["both-ways", "one-way"], **chosen)
    groups = {
        access: {p.group for p in points if p.point.text("access") == access} for access in ("both-ways", "one-way")
    }
    assert not groups["both-ways"] & groups["one-way"]
    assert groups["both-ways"] == {p.group for p in plan_of("p2p-direct", four()[:1], **chosen)}
    with pytest.raises(UsageError, match="access is that of"):
        plan_of("p2p-copy", four()[:1], access=["one-way"], peer=["self"], size=[4096])


def test_standard_also_copies_memory_whose_pages_may_move() -> None:
    sides = {(p.point.text("source"), p.point.text("target")) for p in plan_of("p2p-copy", four(), "standard")}
    assert sides == {("device", "device"), ("managed", "managed")}


def test_the_drivers_call_that_names_both_devices_needs_no_access() -> None:
    refused = Peer(name="cuda:1", access="none", reason="cuda:0 has no peer access to cuda:1")
    able = msgspec.structs.replace(gpu("cuda:0", refused), facts={**DISCRETE.facts, "copies_between_devices": True})
    planned = plan_of("p2p-copy", [able, gpu("cuda:1")], peer=["cuda:1"], size=[4096], direction=["out"])
    reasons = {p.point.factors["engine"]: p.reason for p in planned if p.point.device == "cuda:0"}
    assert reasons == {"copy-engine": refused.reason, "kernel": refused.reason, "peer-call": ""}


def gpu(name: str, *peers: Peer) -> DeviceInfo:
    return msgspec.structs.replace(DISCRETE, name=name, peers=list(peers))


def plan_of(experiment: str, devices: Sequence[DeviceInfo], preset: str = "quick", **sets: list[Any]) -> list[Planned]:
    names = [device.name for device in devices]
    request = Request(schema=SCHEMA, experiments=[experiment], devices=names, preset=preset, seed=1, set=sets)
    return make_plan(request, devices, all_experiments(), {})


def four() -> list[DeviceInfo]:
    names = [f"cuda:{n}" for n in range(4)]
    return [gpu(a, *(Peer(name=b, access="direct") for b in names if b != a)) for a in names]


def pairs_of(planned: Sequence[Planned]) -> dict[tuple[str, str], int]:
    """How many points each pair has."""
    found: dict[tuple[str, str], int] = {}
    for one in planned:
        pair = (one.point.device, one.point.text("peer"))
        found[pair] = found.get(pair, 0) + 1
    return found


@pytest.mark.parametrize("preset", ["quick", "standard"])
def test_all_pairs_have_one_size_and_one_pair_has_all(preset: str) -> None:
    found = pairs_of(plan_of("p2p-latency", four(), preset))
    assert len(found) == 16
    several = {pair for pair, points in found.items() if points > 1}
    assert several == {("cuda:0", "self"), ("cuda:0", "cuda:1")}
    assert {p.point.size("size") for p in plan_of("p2p-latency", four(), size=[65536])} == {65536}
    assert len(plan_of("p2p-latency", four(), size=[65536], allocator=["device"])) == 16


def test_a_device_without_peers_is_measured_only_with_itself_and_only_if_asked_for() -> None:
    alone = [gpu("cuda:0")]
    with pytest.raises(UsageError, match="--set peer=self"):
        plan_of("p2p-direct", alone)
    assert {p.point.text("peer") for p in plan_of("p2p-direct", alone, peer=["self"])} == {"self"}


def test_memory_that_is_not_in_place_at_the_peer_is_skipped_with_the_reason() -> None:
    moved = Peer(name="cuda:1", access="copies", reason="the driver copies a buffer to the device that uses it")
    refused = Peer(name="cuda:2", access="none", reason="cuda:0 has no peer access to cuda:2")
    devices = [gpu("cuda:0", moved, refused), gpu("cuda:1"), gpu("cuda:2")]
    reasons = {
        p.point.text("peer"): p.reason
        for p in plan_of("p2p-latency", devices[:1], peer=["self", "cuda:1", "cuda:2"], allocator=["device"])
    }
    assert reasons == {"self": "", "cuda:1": moved.reason, "cuda:2": refused.reason}
    (one,) = {p.reason for p in plan_of("p2p-latency", four()[:1], peer=["self"], allocator=["managed"])}
    assert one.startswith("pages of managed memory")


def processor(*nodes_with_memory: str, acting: str) -> DeviceInfo:
    """The device `cpu`, with the ids of the nodes whose processors may act."""
    return DeviceInfo(
        name="cpu",
        kind="cpu",
        title="processors",
        facts={"nodes_with_processors": acting, "l3_bytes": 32 * MIB},
        allocators=[MALLOC],
        peers=[Peer(name=name, access="direct") for name in nodes_with_memory],
    )


def node_pairs(planned: Sequence[Planned]) -> set[tuple[str, str]]:
    return {(p.point.text("node"), p.point.text("peer")) for p in planned}


@pytest.mark.parametrize("experiment", BOTH)
def test_every_node_with_processors_uses_the_memory_of_every_node(experiment: str) -> None:
    two = plan_of(experiment, [processor("node0", "node1", acting="0-1")])
    assert node_pairs(two) == {(a, b) for a in ("node0", "node1") for b in ("node0", "node1")}
    sizes = {pair: {p.point.size("size") for p in two if node_pairs([p]) == {pair}} for pair in node_pairs(two)}
    assert {pair for pair, of in sizes.items() if len(of) > 1} == {("node0", "node0"), ("node0", "node1")}
    with_memory_only = plan_of(experiment, [processor("node0", "node2", acting="0")])
    assert node_pairs(with_memory_only) == {("node0", "node0"), ("node0", "node2")}


def test_a_single_node_is_measured_only_if_asked_for() -> None:
    with pytest.raises(UsageError, match="--set peer=self"):
        plan_of("p2p-latency", [processor("node0", acting="0")])
    assert node_pairs(plan_of("p2p-direct", [processor("node0", acting="0")], peer=["node0"])) == {("node0", "node0")}
    with pytest.raises(UsageError, match="shows no NUMA nodes"):
        plan_of("p2p-direct", [processor(acting="")], peer=["self"])


@pytest.fixture(scope="module")
def on_nodes(tmp_path_factory: pytest.TempPathFactory) -> Sequence[Record]:
    """Both experiments on the first NUMA node with processors, run by the command."""
    (node, *_) = Session(processor(acting=""), seed=1, seconds=0.1, tolerance=0.1, preset="quick").processors
    out = tmp_path_factory.mktemp("nodes") / "out"
    own = [f"peer={node}", f"node={node}", "size=64KiB"]
    with small_plan(dict.fromkeys((*BOTH, "p2p-copy"), own)):
        done = call("run", *BOTH, "p2p-copy", "--device", "cpu", "--out", out)
    assert done.returncode == 0, done.stderr
    return load_results(out).records


def test_a_node_in_its_own_memory_is_verified_and_named(on_nodes: Sequence[Record]) -> None:
    assert {r.experiment for r in on_nodes} == {*BOTH, "p2p-copy"}
    assert {(r.status, r.verified) for r in on_nodes} == {("ok", True)}
    for record in on_nodes:
        (party,) = record.parties
        assert f"node{party.numa_node}" == record.text("node") == record.text("peer")
        assert {buffer.numa_node for buffer in record.buffers} == {party.numa_node}
        assert party.processors


def test_memory_that_the_kernel_put_elsewhere_fails_the_point() -> None:
    class Elsewhere:
        allocator = "malloc"

        def __init__(self, pages: dict[int, int]) -> None:
            self._pages = pages

        def pages_on_nodes(self) -> dict[int, int]:
            return self._pages

    def placed(pages: dict[int, int]) -> Any:
        return Elsewhere(pages)

    require_on("node1", placed({1: 16}))
    with pytest.raises(Misplaced, match=r"16 pages of malloc .* node1, 3 on node0"):
        require_on("node1", placed({1: 13, 0: 3}))
    with pytest.raises(Unsupported, match="kernel does not tell"):
        require_on("node1", placed({}))


def test_the_farthest_node_is_named_apart_from_devices() -> None:
    def load(node: str, peer: str, ns: float) -> Record:
        factors = {"node": node, "peer": peer, "allocator": "malloc", "size": 256 * MIB}
        return msgspec.structs.replace(a_record("p2p-latency", ns, factors), device="cpu")

    rows = [load("node0", "node0", 100), load("node0", "node1", 180), load("node1", "node0", 150)]
    rows += [a_pair("hip:0", "hip:1", 750)]
    experiment = all_experiments()["p2p-latency"]
    device, far, near = experiment.findings(rows, None)
    size = {"size": 256 * MIB}
    assert_finding([device], FARTHEST, **size, **of_pair("hip:0", "hip:1", 750), allocator="device", party="device")
    own = {"ratio": 1.8, "other_value": Quantity(100, "ns")}
    assert_finding([far], FARTHER, **size, **of_pair("node0", "node1", 180), allocator="malloc", **own)
    assert_finding([near], NEAREST, **size, **of_pair("node1", "node0", 150), party="NUMA node")
    gpus, nodes = experiment.sections(experiment.derive(rows), None)
    assert "another NUMA node's memory" in nodes.question
    assert {(r.counters[BY], r.counters[OWNER]) for r in nodes.records} == {
        ("node0", "node0"), ("node0", "node1"), ("node1", "node0")
    }  # fmt: skip
    assert len(gpus.records) == 1


def of_pair(by: str, owner: str, ns: float) -> dict[str, Any]:
    return {"by": by, "owner": owner, "value": Quantity(ns, "ns")}


def a_pair(device: str, peer: str, ns: float, **factors: Any) -> Record:
    record = a_record(
        "p2p-latency", ns, {"agent": "gpu", "peer": peer, "allocator": "device", "size": 256 * MIB, **factors}
    )
    return msgspec.structs.replace(record, device=device)


def test_the_farthest_memory_is_compared_with_the_devices_own() -> None:
    rows = [a_pair("hip:0", "self", 700), a_pair("hip:0", "hip:1", 750), a_pair("hip:1", "hip:0", 900)]
    rows += [a_pair("hip:1", "self", 600), a_pair("hip:0", "self", 1, size=4096)]
    experiment = all_experiments()["p2p-latency"]
    far, near = experiment.findings(rows, None)
    memory, own = {"size": 256 * MIB, "allocator": "device"}, {"ratio": 1.5, "other_value": Quantity(600, "ns")}
    assert_finding([far], FARTHER, **memory, **of_pair("hip:1", "hip:0", 900), **own)
    assert_finding([near], NEAREST, **memory, **of_pair("hip:0", "hip:1", 750), party="device")
    (section,) = experiment.sections(experiment.derive(rows), None)
    heat = next(f for f in section.figures if isinstance(f, Heat))
    assert heat.where == {"allocator": "device", "size": 256 * MIB}
    cells = {(r.device, r.counters[OWNER]) for r in section.records}
    assert cells == {("hip:0", "hip:0"), ("hip:0", "hip:1"), ("hip:1", "hip:0"), ("hip:1", "hip:1")}


def test_each_devices_own_memory_alone_has_no_finding() -> None:
    assert list(all_experiments()["p2p-latency"].findings([a_pair("hip:0", "self", 700)], None)) == []


def test_the_slowest_pair_is_named_where_it_is_clearly_slower() -> None:
    def read(device: str, peer: str, rate: float) -> Record:
        record = a_record("p2p-direct", rate, {"kernel": "read", "peer": peer, "allocator": "device", "size": MIB})
        return msgspec.structs.replace(record, device=device)

    experiment = all_experiments()["p2p-direct"]
    where = {"kernel": "read", "allocator": "device", "size": MIB, "value": Quantity(100, "GB/s")}
    (apart,) = experiment.findings([read("hip:0", "hip:1", 100), read("hip:0", "hip:2", 60)], None)
    assert_finding(
        [apart],
        "p2p-direct.pairs",
        **where,
        worst=Quantity(60, "GB/s"),
        worst_name=("hip:0 in that of hip:2",),
        best=Quantity(100, "GB/s"),
        best_name=("hip:0 in that of hip:1",),
    )
    (alike,) = experiment.findings([read("hip:0", "hip:1", 100), read("hip:1", "hip:0", 99.9)], None)
    assert_finding([alike], "p2p-direct.pairs", **where, worst=Quantity(99.9, "GB/s"), worst_name=None)
