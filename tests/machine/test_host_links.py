"""What connects a device with the host."""

from __future__ import annotations

import pytest
from tests.machine.test_links import MakeTree

from firsttouch.machine.host_links import host_link

GPU = "sys/bus/pci/devices/0000:c1:00.0"
NODES = {
    "sys/devices/system/node/node0/cpulist": "0-3\n",
    "sys/devices/system/node/node0/distance": "10 21\n",
    "sys/devices/system/node/node1/cpulist": "4-7\n",
    "sys/devices/system/node/node1/distance": "21 10\n",
}


@pytest.mark.parametrize(
    ("node", "usable", "distances"),
    [("0", range(8), "10 21"), ("1", range(8), "10 21"), ("0", range(4), "10"), ("1", range(4), "21"),
     ("-1", range(4), None)],
)  # fmt: skip
def test_gpus_are_as_far_as_the_nodes_that_a_process_may_use(
    node: str, usable: range, distances: str | None, make_tree: MakeTree
) -> None:
    files = {f"{GPU}/numa_node": node, f"{GPU}/max_link_speed": "32.0 GT/s PCIe\n", f"{GPU}/current_link_width": "16\n"}
    facts = host_link({"pci_bus": "0000:C1:00.0"}, make_tree(NODES | files), usable)
    assert facts.get("host_distances") == distances
    assert facts["host_link"] == "32.0 GT/s PCIe x16"


def test_a_device_without_an_address_has_neither(make_tree: MakeTree) -> None:
    assert host_link({}, make_tree(NODES), range(8)) == {}
