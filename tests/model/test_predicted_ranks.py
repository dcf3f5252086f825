"""Applications of several processes on machines that platform files describe."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from firsttouch.apps import all_apps
from firsttouch.base.errors import NotModelled
from firsttouch.experiments.contract.base import Measurement
from firsttouch.harness.experiment import Application
from firsttouch.model.platform import Platform, load_platform
from firsttouch.model.ranks import EXCHANGES, MESSAGES, SLOWEST
from firsttouch.records.schema import Factors, Point, as_number


def machine(path: Path, **parameters: Any) -> Platform:
    """Four GPUs, of which each pair has a link. parameters: in ns, but for sizes in bytes."""
    words = {"how": "stated", "source": "made up"}
    values: dict[str, dict[str, Any]] = {
        "message.start.mpi": {"value": 2000, "unit": "ns"},
        "message.start.xccl": {"value": 20000, "unit": "ns"},
        "message.queued": {"value": 0.5},
        "message.direct_from": {"value": 1024, "unit": "B"},
        "peer.copy.kernel.device": {"value": 90, "unit": "GB/s"},
        "peer.copy.copy-engine.device": {"value": 90, "unit": "GB/s"},
        "peer.lone_copy.copy-engine.device": {"points": [[1, 1], [131072, 1.5]], "unit": "us"},
        "peer.copy.cpu.pinned": {"value": 10, "unit": "GB/s"},
        "lone_copy.d2h.pinned": {"points": [[1, 5], [1048576, 30]], "unit": "us"},
        "lone_copy.h2d.pinned": {"points": [[1, 5], [1048576, 30]], "unit": "us"},
        "launch.call": {"value": 10000, "unit": "ns"},
        "launch.wait": {"value": 5000, "unit": "ns"},
        "device.walk": {"value": 12, "unit": "ns"},
    }
    for name, value in parameters.items():
        values[name.replace("_", ".")] = {"value": value, "unit": "B" if "fragment" in name else "ns"}
    described = {
        "title": "four",
        "extends": "h200-pcie",
        "devices": 4,
        "peer": {"access": "direct", "hops": 1},
        "parameters": {name: {**words, **value} for name, value in values.items()},
    }
    path.write_text(json.dumps(described))
    return load_platform(str(path))


def halo(platform: Platform, ranks: int = 2, app: str = "halo", **factors: Any) -> Measurement:
    usual = {"app": app, "strategy": "explicit", "size": "default", "interface": "xccl", "buffers": "device"}
    point = Point(app, platform.device.name, Factors({**usual, "ranks": ranks, **factors}))
    return Application(all_apps()[app]).predict(point, platform)


def exchanges(prediction: Measurement) -> float:
    return as_number(prediction.counters["exchange_ms"]) or 0.0


@pytest.fixture
def four(tmp_path: Path) -> Platform:
    return machine(tmp_path / "four.json")


def test_the_terms_of_exchanges_add_up_to_their_time_and_are_part_of_compute(four: Platform) -> None:
    prediction = halo(four)
    parts = {term.what: term.ms for term in prediction.terms if term.what.startswith(EXCHANGES)}
    assert len(parts) == 4  # calls, kernels, waits and messages
    assert sum(parts.values()) == pytest.approx(exchanges(prediction))
    assert 0 < parts[MESSAGES] < exchanges(prediction) < as_number(prediction.counters["phase_compute_ms"])
    assert prediction.low < prediction.samples[0] < prediction.high


def test_a_run_of_halo_has_six_exchanges_in_each_step(four: Platform) -> None:
    """Each in one direction between two processes, in two between four; as counted on two H200s."""
    two, quarter = halo(four).counters, halo(four, 4).counters
    assert (two["messages"], two["message_median_bytes"], two["message_largest_bytes"]) == (523, 61760, 231600)
    assert quarter["messages"] == 2 * 523


def test_more_processes_compute_less_and_exchange_longer(four: Platform) -> None:
    """Of the same space, which they divide."""
    two, quarter = halo(four, nx=7680, ny=7680), halo(four, 4, nx=7680, ny=7680)
    assert exchanges(two) < exchanges(quarter)
    assert as_number(quarter.counters["phase_compute_ms"]) < as_number(two.counters["phase_compute_ms"])


def test_larger_borders_and_slower_carriers_take_longer(four: Platform, tmp_path: Path) -> None:
    usual = exchanges(halo(four))
    assert usual < exchanges(halo(four, nx=7680, ny=7680))
    assert exchanges(halo(four, interface="mpi")) < exchanges(halo(four, interface="mpi-staged"))
    assert usual < exchanges(halo(machine(tmp_path / "slow.json", message_start_xccl=40000)))
    assert usual < exchanges(halo(machine(tmp_path / "calls.json", launch_call=20000)))
    assert usual < exchanges(halo(machine(tmp_path / "waits.json", launch_wait=9000)))


def test_columns_take_a_walk_for_each_row_that_is_longer_than_a_translation(tmp_path: Path) -> None:
    """Rows of 30 KiB, of which blocks beside each other exchange the ends; those below each other exchange rows."""
    platforms = [machine(tmp_path / f"{size}.json", fragment_device=size) for size in (4096, 1 << 20, 1 << 40)]
    beside = [exchanges(halo(platform, nx=7680, ny=3840)) for platform in platforms]
    below = [exchanges(halo(platform, nx=3840, ny=7680)) for platform in platforms]
    assert beside[0] > beside[1] > beside[2]
    assert below[0] - below[2] < beside[0] - beside[2]


@pytest.mark.parametrize(("ranks", "nx", "ny"), [(2, 963, 961), (3, 961, 3000)])
def test_process_0_waits_for_one_with_more_cells_or_neighbours(four: Platform, ranks: int, nx: int, ny: int) -> None:
    """Of 963 columns it has 481. Of three blocks in a row, the one between the others has two neighbours."""
    terms = {term.what: term for term in halo(four, ranks, nx=nx, ny=ny).terms}
    assert 0 < terms[SLOWEST].ms < terms[MESSAGES].ms
    assert SLOWEST not in {term.what for term in halo(four, 2, nx=962, ny=961).terms}


def test_the_node_of_the_study_exchanges_by_either_interface() -> None:
    """Schieffer et al., MEMSYS 2025, Fig. 16: device memory before registered and managed memory by MPI."""
    node, whole = load_platform("mi300a-node"), {"memory.work": "strategy", "xnack": "1", "nx": 61440, "ny": 30720}
    memory = {"device": "unified", "registered": "registered", "managed": "managed"}
    times = {
        buffers: exchanges(
            halo(node.under(Factors({"xnack": "1"})), 4, strategy=strategy, buffers=buffers, interface="mpi", **whole)
        )
        for buffers, strategy in memory.items()
    }
    assert times["device"] < min(times["registered"], times["managed"])


@pytest.mark.parametrize(
    ("factors", "says"),
    [
        ({"app": "transport"}, "depends on its data"),
        ({"ranks": 5}, "share a device"),
        ({"buffers": "managed"}, "pages move"),
    ],
)
def test_what_cannot_be_priced_is_refused_with_its_reason(four: Platform, factors: dict[str, Any], says: str) -> None:
    with pytest.raises(NotModelled, match=says):
        halo(four, **factors)
