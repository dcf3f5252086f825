"""The links between devices: from AMD's kernel driver and from NVML."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from tests.machine.test_gpus import FakeNvml

from firsttouch.machine import amd, backends, nvidia
from firsttouch.machine.links import Link, Links, pci_address
from firsttouch.machine.peers import add_peers
from firsttouch.machine.tree import Tree
from firsttouch.records.schema import DeviceCapabilities, DeviceInfo, Peer

MakeTree = Callable[[Mapping[str, "str | bytes"]], Tree]
NODES = "sys/class/kfd/kfd/topology/nodes"
APUS = range(4, 8)
"""The GPUs of four APUs; their processors are the nodes 0 to 3."""


def buses() -> list[str]:
    return [f"0000:0{node - 3}:00.0" for node in APUS]


def io_link(source: int, target: int, kind: int, weight: int, low: int, high: int) -> str:
    return (
        f"type {kind}\nversion_major 0\nversion_minor 0\nnode_from {source}\nnode_to {target}\nweight {weight}\n"
        f"min_latency 0\nmax_latency 0\nmin_bandwidth {low}\nmax_bandwidth {high}\nflags 1\n"
    )


def four_apus(weight: int = 15, kind: int = 11, gbs: int = 128) -> dict[str, str | bytes]:
    """A node of four MI300A: each GPU has a link to the processor of its socket, and two xGMI links of 64 GB/s to the
    GPU of every other socket, which the driver states together.
    """
    files: dict[str, str | bytes] = {}
    for cpu in range(4):
        files[f"{NODES}/{cpu}/properties"] = "cpu_cores_count 48\nsimd_count 0\n"
    for gpu in APUS:
        files[f"{NODES}/{gpu}/properties"] = f"simd_count 912\nlocation_id {gpu - 3 << 8}\ndomain 0\n"
        files[f"{NODES}/{gpu}/io_links/0/properties"] = io_link(gpu, gpu - 4, 11, 13, 0, 0)
        for number, other in enumerate((node for node in APUS if node != gpu), 1):
            files[f"{NODES}/{gpu}/io_links/{number}/properties"] = io_link(gpu, other, kind, weight, 64000, gbs * 1000)
    return files


class FakeDevice:
    """A device that reaches every other one."""

    def __init__(self, name: str) -> None:
        self.name = name

    def why_unreachable(self, other: FakeDevice) -> str:
        return ""


def with_peers(kind: str, addresses: Sequence[str], links: Links) -> list[DeviceInfo]:
    """The descriptions of devices at these PCI addresses, with their peers."""
    infos = [
        DeviceInfo(name=f"{kind}:{i}", kind=kind, title="", facts={"pci_bus": address},
                   capabilities=DeviceCapabilities(runs_kernels=True))
        for i, address in enumerate(addresses)
    ]  # fmt: skip
    opened: Any = [(FakeDevice(info.name), info) for info in infos]
    add_peers(opened, moves_buffers=False, links=links)
    return infos


def test_four_apus_are_linked_to_three_others_each(make_tree: MakeTree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "Tree", lambda: make_tree(four_apus()))
    devices = with_peers("hip", [bus.upper() for bus in buses()], backends.BACKENDS["hip"].links())
    for device in devices:
        assert device.peers == [
            Peer(name=other.name, access="direct", link="xGMI", hops=1, peak_in_gbs=128.0, peak_out_gbs=128.0,
                 peak_source="KFD io_links")
            for other in devices if other.name != device.name
        ]  # fmt: skip


def test_each_direction_has_the_peak_of_its_own_link(make_tree: MakeTree) -> None:
    files = four_apus() | {f"{NODES}/5/io_links/1/properties": io_link(5, 4, 11, 30, 32000, 32000)}
    first, second = with_peers("hip", buses()[:2], amd.kfd_links(make_tree(files)))
    assert [(p.hops, p.peak_out_gbs, p.peak_in_gbs) for p in first.peers + second.peers] == [(1, 128, 32), (2, 32, 128)]
    assert first.peers[0].of_peak(in_gbs=16, out_gbs=12) == 0.5
    assert first.peers[0].of_peak(in_gbs=16, out_gbs=64) == 0.5


def test_a_path_through_a_processor_is_used_where_no_direct_link_is(make_tree: MakeTree) -> None:
    """A driver of two GPUs on PCIe lists their path among p2p_links."""
    nodes = {name: text for name, text in four_apus().items() if "io_links" not in name}
    path = {f"{NODES}/4/p2p_links/0/properties": io_link(4, 5, 2, 40, 8000, 64000)}
    known = amd.kfd_links(make_tree(nodes | path))
    assert known == {("0000:01:00.0", "0000:02:00.0"): Link("PCIe", None, 64.0, "KFD p2p_links")}
    assert amd.kfd_links(make_tree(four_apus() | path))[buses()[0], buses()[1]].name == "xGMI"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (four_apus(gbs=0), ("xGMI", 1, None, None, "")),
        (four_apus(weight=41), ("xGMI", None, 128, 128, "KFD io_links")),  # partitions of GPUs: not a number of hops
        (four_apus(kind=1, gbs=0), ("", None, None, None, "")),
        ({name: text for name, text in four_apus().items() if "io_links" not in name}, ("", None, None, None, "")),
        (dict.fromkeys(four_apus(), b"\xff x\n"), ("", None, None, None, "")),
        ({f"{NODES}/{n}/properties": "simd_count 4\nlocation_id 256\n" for n in (4, 5)}
         | {f"{NODES}/4/io_links/0/properties": io_link(4, 5, 11, 15, 1, 1)}, ("", None, None, None, "")),
    ],
    ids=["no bandwidth", "other weight", "other type", "no links", "garbage", "one address"],
)  # fmt: skip
def test_what_the_kernel_driver_does_not_state_is_unknown(
    make_tree: MakeTree, files: dict[str, str | bytes], expected: tuple[Any, ...]
) -> None:
    (first, _) = with_peers("hip", buses()[:2], amd.kfd_links(make_tree(files)))
    (peer,) = first.peers
    assert (peer.link, peer.hops, peer.peak_out_gbs, peer.peak_in_gbs, peer.peak_source) == expected
    assert (peer.of_peak(1, 1) is None) == (peer.peak_in_gbs is None)


# ----------------------------------------------------------------------------------------------------------- NVML

H0, H1 = "00000000:1B:00.0", "00000000:43:00.0"
ADDRESSES = ["0000:1b:00.0", "0000:43:00.0"]


def value(number: int, kind: int = 1, status: int = 0) -> SimpleNamespace:
    names = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
    return SimpleNamespace(nvmlReturn=status, valueType=kind, value=SimpleNamespace(**{names[kind]: number}))


def a_pair(remote: Callable[[str, int], str], kind: int = 0, **answers: Any) -> nvidia.Nvml:
    """NVML with two GPUs of 18 NVLinks, of which 17 are active. remote: the PCI address at the other end of a link."""
    speeds = {"DeviceGetFieldValues": lambda h, fields: [value(26562) for field in fields if field == (164, field[1])]}
    fake = FakeNvml(**{
        "DeviceGetPciInfo": lambda h: SimpleNamespace(busId={"h0": H0, "h1": H1}[h].encode()),
        "DeviceGetNvLinkRemotePciInfo": lambda h, link: SimpleNamespace(busId=remote(h, link)),
        "DeviceGetNvLinkRemoteDeviceType": lambda h, link: kind,
        "DeviceGetMaxPcieLinkGeneration": 5,
        "DeviceGetCurrPcieLinkWidth": 16,
        "DeviceGetTopologyCommonAncestor": 30,
    } | speeds | answers)  # fmt: skip
    return nvidia.Nvml(fake)


def peer_of(nvml: nvidia.Nvml) -> Peer:
    first, second = with_peers("cuda", ADDRESSES, nvml.links())
    assert [p.name for p in first.peers + second.peers] == ["cuda:1", "cuda:0"]
    return first.peers[0]


def to_each_other(handle: str, link: int) -> str:
    """Four links lead to the other GPU, the others to a third one."""
    return {"h0": H1, "h1": H0}[handle] if link < 4 else "00000000:99:00.0"


def test_the_links_of_a_pair_and_their_speed() -> None:
    peer = peer_of(a_pair(to_each_other))
    assert peer == Peer(name="cuda:1", access="direct", link="NVLink", hops=1, peak_in_gbs=106.248,
                        peak_out_gbs=106.248, peak_source="NVML, 4 x NVLink")  # fmt: skip


def test_links_to_switches_count_for_every_pair() -> None:
    peer = peer_of(a_pair(lambda h, link: "00000000:05:00.0", kind=2))
    assert (peer.link, peer.hops, peer.peak_out_gbs, peer.peak_source) == (
        "NVLink switch", None, pytest.approx(17 * 26.562, rel=1e-12), "NVML, 17 x NVLink"
    )  # fmt: skip


def test_links_that_lead_to_an_unknown_address_have_no_peak() -> None:
    """As in a virtual machine that shows the GPUs at other addresses than those at the links' ends."""
    peer = peer_of(a_pair(lambda h, link: "00000000:99:00.0"))
    assert (peer.link, peer.hops, peer.peak_out_gbs, peer.peak_in_gbs, peer.peak_source) == (
        "NVLink",
        None,
        None,
        None,
        "",
    )


def test_a_gpu_with_fewer_links_to_the_switches_limits_the_pair() -> None:
    state = lambda h, link: int(link < {"h0": 18, "h1": 12}[h])  # noqa: E731
    nvml = a_pair(lambda h, link: "00000000:05:00.0", kind=2, DeviceGetNvLinkState=state)
    assert [link.gbs for link in nvml.links().values()] == [pytest.approx(12 * 26.562, rel=1e-12)] * 2


def test_an_older_driver_states_one_speed_for_all_links() -> None:
    def fields(handle: str, asked: list[Any]) -> list[Any]:
        return [value(25781, kind=3) if field == 90 else value(0, status=3) for field in asked]

    assert peer_of(a_pair(to_each_other, DeviceGetFieldValues=fields)).peak_in_gbs == pytest.approx(4 * 25.781)


@pytest.mark.parametrize(
    "fields",
    [None, lambda h, asked: [value(0) for _ in asked], lambda h, asked: [object()], lambda h, asked: 7],
    ids=["no function", "zero", "another form", "a number"],
)
def test_links_without_a_stated_speed_have_no_peak(fields: Any) -> None:
    peer = peer_of(a_pair(to_each_other, DeviceGetFieldValues=fields))
    assert (peer.link, peer.hops, peer.peak_in_gbs, peer.peak_out_gbs, peer.peak_source) == (
        "NVLink",
        1,
        None,
        None,
        "",
    )


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ({}, ("PCIe", pytest.approx(16 * 32 * 128 / 130 / 8), "NVML, PCIe 5 x16")),
        ({"DeviceGetMaxPcieLinkGeneration": 1}, ("PCIe", 4.0, "NVML, PCIe 1 x16")),
        ({"DeviceGetCurrPcieLinkWidth": lambda h: {"h0": 16, "h1": 8}[h]}, ("PCIe", None, "")),
        ({"DeviceGetMaxPcieLinkGeneration": 99}, ("PCIe", None, "")),
        ({"DeviceGetCurrPcieLinkWidth": None}, ("PCIe", None, "")),
        ({"DeviceGetTopologyCommonAncestor": 50}, ("", None, "")),
        ({"DeviceGetTopologyCommonAncestor": None}, ("", None, "")),
        ({"DeviceGetPciInfo": None}, ("", None, "")),
    ],
    ids=["same", "first", "widths differ", "generation", "no width", "across nodes", "no path", "no address"],
)
def test_gpus_without_nvlink_have_the_peak_of_pcie_if_both_state_the_same(
    answers: dict[str, Any], expected: tuple[Any, ...]
) -> None:
    no_nvlink = {"DeviceGetNvLinkState": None, "DeviceGetP2PStatus": 1}
    peer = peer_of(a_pair(to_each_other, **no_nvlink, **answers))
    assert (peer.link, peer.peak_in_gbs, peer.peak_source) == expected
    assert (peer.hops, peer.peak_out_gbs) == (None, peer.peak_in_gbs)


def test_without_nvml_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr("importlib.import_module", fail)
    assert nvidia.links() == {}
    assert nvidia.Nvml(SimpleNamespace()).links() == {}


@pytest.mark.parametrize(
    ("written", "address"),
    [("00000001:C1:00.0", "0001:c1:00.0"), ("0001:c1:00.0", "0001:c1:00.0"), ("1:c1:00.0", "0001:c1:00.0"), ("", "")],
)
def test_pci_addresses_are_written_in_one_way(written: str, address: str) -> None:
    assert pci_address(written) == address
