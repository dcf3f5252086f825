"""A NUMA node as a scope: where this thread runs and from which memory its new pages come."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from firsttouch import _core
from firsttouch.machine import host, numa
from firsttouch.machine.devices import open_device
from firsttouch.machine.tree import Tree

NODES = numa.acting_nodes(Tree(), host.usable_cores())
needs_nodes = pytest.mark.skipif(not NODES, reason="this system shows no NUMA nodes with processors")


def policy() -> str:
    """The memory policy of this thread, such as default or bind:0, as the kernel shows it."""
    return Path("/proc/thread-self/numa_maps").read_text().split()[1]


@needs_nodes
def test_inside_threads_run_on_the_processors_and_take_memory_of_the_node_and_afterwards_as_before() -> None:
    before, was = os.sched_getaffinity(0), policy()
    node, (processor, *_) = next(iter(NODES.items()))
    device = open_device("cpu")
    with _core.OnNode([processor], node):
        assert os.sched_getaffinity(0) == {processor}
        assert _core.usable_processors() == 1
        assert policy() == f"bind:{node}"
        with _core.OnNode([], None):
            assert (os.sched_getaffinity(0), policy()) == ({processor}, f"bind:{node}")
        buffer = device.allocate("mmap", 1 << 20)
        assert buffer.pages_on_nodes() == {}
        buffer.fill(seed=1, agent="cpu")
    assert buffer.pages_on_nodes() == {node: (1 << 20) // _core.page_sizes()[0]}
    assert (os.sched_getaffinity(0), policy()) == (before, was)


@needs_nodes
def test_an_error_inside_ends_the_scope() -> None:
    before, was = os.sched_getaffinity(0), policy()
    with pytest.raises(KeyError), _core.OnNode([min(before)], next(iter(NODES))):
        raise KeyError
    assert (os.sched_getaffinity(0), policy()) == (before, was)


@needs_nodes
@pytest.mark.parametrize("node", [1023, 1024, -1])
def test_a_node_that_is_not_there_is_refused_and_nothing_has_changed(node: int) -> None:
    before, was = os.sched_getaffinity(0), policy()
    with pytest.raises(_core.Unavailable, match=f"node{node}"), _core.OnNode([min(before)], node):
        pass
    assert (os.sched_getaffinity(0), policy()) == (before, was)


@needs_nodes
def test_the_writers_of_a_cycle_and_of_arrays_are_where_they_are_asked_to_be() -> None:
    """A processor that is not there is refused; otherwise the data are right, and this thread runs where it did."""
    before = os.sched_getaffinity(0)
    device = open_device("cpu")
    stop = _core.Stop(tolerance=0.5, seconds=0.01, min_samples=3, max_samples=5)
    with device.allocate("mmap", 1 << 16) as a, device.allocate("mmap", 1 << 16) as b:
        where = [min(before)]
        chased = _core.chase(device, a, agent="cpu", first_touch="cpu", stride=64, seed=1, writers=where, stop=stop)
        copied = _core.stream(
            device, a, b, a, op="copy", agent="cpu", first_touch="cpu", seed=1, writers=[where, [], where], stop=stop
        )
        assert (chased.errors, copied.errors) == (0, 0)
        with pytest.raises(RuntimeError, match="sched_setaffinity"):
            _core.chase(device, a, agent="cpu", first_touch="cpu", stride=64, seed=1, writers=[1023], stop=stop)
    assert os.sched_getaffinity(0) == before
