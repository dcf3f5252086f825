"""The peers of devices, and the parties of points with several devices."""

from __future__ import annotations

import os
import socket

from firsttouch.machine.numa import acting_nodes
from firsttouch.machine.parties import node_parties, parties
from firsttouch.machine.peers import numa_peers, with_other_backends
from firsttouch.records.schema import DeviceCapabilities, DeviceInfo, Peer

KERNELS = DeviceCapabilities(runs_kernels=True)
NODE = "sys/devices/system/node/node{}/{}"


def a_gpu(name: str, **more) -> DeviceInfo:
    return DeviceInfo(name=name, kind=name.partition(":")[0], title=name, capabilities=KERNELS, **more)


def test_devices_of_different_drivers_share_data_only_through_the_host():
    cpu = DeviceInfo(name="cpu", kind="cpu", title="processor")
    broken = a_gpu("hip:0", available=False, reason="no driver")
    near = Peer(name="cuda:1", access="direct")
    given = [cpu, a_gpu("cuda:0", peers=[near]), a_gpu("opencl:0"), broken]
    devices = {d.name: d for d in with_other_backends(with_other_backends(given))}
    assert devices["cpu"].peers == devices["hip:0"].peers == []
    assert devices["cuda:0"].peers[0] == near
    (far,) = devices["cuda:0"].peers[1:]
    assert (far.name, far.access, far.same_driver) == ("opencl:0", "none", False)
    assert "through the host" in far.reason
    assert [p.name for p in devices["opencl:0"].peers] == ["cuda:0"]


def test_the_peers_of_the_cpu_are_its_numa_nodes(make_tree):
    memory = {NODE.format(n, "meminfo"): f"Node {n} MemTotal: 1024 kB" for n in (0, 2)}
    assert [(p.name, p.access) for p in numa_peers(make_tree(memory))] == [("node0", "direct"), ("node2", "direct")]


def test_a_node_without_memory_is_no_peer_and_one_without_usable_processors_does_not_act(make_tree):
    tree = make_tree(
        {NODE.format(0, "meminfo"): "Node 0 MemTotal: 1024 kB", NODE.format(0, "cpulist"): "0-3",
         NODE.format(1, "meminfo"): "Node 1 MemTotal: 0 kB", NODE.format(1, "cpulist"): "4-7",
         NODE.format(2, "meminfo"): "Node 2 MemTotal: 1024 kB", NODE.format(2, "cpulist"): "",
         NODE.format(3, "cpulist"): "8-11"}
    )  # fmt: skip
    assert [p.name for p in numa_peers(tree)] == ["node0", "node2"]
    assert acting_nodes(tree, usable=[2, 3, 7]) == {0: [2, 3], 1: [7]}


def test_a_party_has_the_numa_node_of_its_slot_and_the_usable_processors(make_tree):
    tree = make_tree(
        {"sys/bus/pci/devices/0000:c1:00.0/numa_node": "1", "sys/bus/pci/devices/0000:c2:00.0/numa_node": "-1"}
    )
    near, far, other = parties(
        [a_gpu("cuda:0", facts={"pci_bus": "0000:C1:00.0"}), a_gpu("cuda:1", facts={"pci_bus": "0000:c2:00.0"}),
         a_gpu("opencl:0")], tree
    )  # fmt: skip
    assert (near.device, near.rank, near.host, near.numa_node) == ("cuda:0", 0, socket.gethostname(), 1)
    assert (far.numa_node, other.numa_node) == (None, None)
    assert near.processors == other.processors != ""


def test_a_party_that_is_a_node_has_its_processors_that_may_be_used(make_tree):
    (usable, *_) = sorted(os.sched_getaffinity(0))
    tree = make_tree({NODE.format(0, "cpulist"): f"{usable},9999", NODE.format(1, "cpulist"): "9998"})
    cpu = DeviceInfo(name="cpu", kind="cpu", title="processor")
    here, there = node_parties(cpu, [0, 1], tree)
    assert (here.device, here.numa_node, here.processors) == ("cpu", 0, str(usable))
    assert (there.numa_node, there.processors) == (1, "")
