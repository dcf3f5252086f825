"""Messages and collectives between ranks: what carries them, and what two H200s took beside what their messages say."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from firsttouch.base.errors import NotModelled
from firsttouch.experiments import find_experiment
from firsttouch.experiments.contract.base import Measurement
from firsttouch.model.platform import MissingValue, Platform, load_platform
from firsttouch.records.reading import load_results
from firsttouch.records.schema import Factors, Point

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
ROOT = Path(__file__).parents[2]
OPERATIONS = ("all-reduce", "reduce-scatter", "all-gather", "broadcast", "reduce", "all-to-all")


def predicted(platform: Platform, experiment: str, **factors: Any) -> Measurement:
    found = find_experiment(experiment)
    assert found is not None
    point = Point(experiment, platform.device.name, Factors(factors))
    return found.predict(point, platform.under(point.factors))


def node() -> Platform:
    return load_platform("mi300a-node")


def message(**factors: Any) -> Measurement:
    usual = {"interface": "mpi", "peer": node().devices[2].name, "source": "device", "target": "device"}
    return predicted(node(), "p2p-message", **{**usual, "route": "default", "xnack": "1", "sdma": "1", **factors})


def latency(**factors: Any) -> float:
    return float(str(message(size=8, **factors).counters["latency_us"]))


def rate(**factors: Any) -> float:
    return float(message(size=GIB, **factors).samples[0])


def operation(name: str, interface: str, size: int, ranks: int = 4) -> Measurement:
    factors = {"operation": name, "interface": interface, "ranks": ranks, "processes": "each", "allocator": "device"}
    return predicted(node(), "collective", size=size, **factors)


# Schieffer et al., MEMSYS 2025, Sec. 6.1.


def test_a_short_message_is_quickest_through_the_host_and_slowest_by_kernels() -> None:
    assert latency() == latency(route="staged") < latency(route="direct") < latency(interface="xccl")


def test_the_cpu_carries_what_is_not_device_memory_however_copies_are_made() -> None:
    by_cpu = {rate(source=source, target=target, sdma=sdma)
              for source in ("malloc", "pinned") for target in ("malloc", "device") for sdma in ("0", "1")}  # fmt: skip
    assert len(by_cpu) == 1
    assert 4 * by_cpu.pop() < rate()


def test_to_plain_memory_a_message_is_faster_without_the_dma_engines() -> None:
    assert rate(target="malloc", sdma="1") < rate(target="malloc", sdma="0") == rate(sdma="0") == rate(sdma="1")


def test_kernels_carry_all_memory_at_the_rate_of_the_link() -> None:
    rates = {rate(interface="xccl", source=source, sdma=sdma) for source in ("device", "malloc") for sdma in "01"}
    assert len(rates) == 1
    assert rates.pop() == pytest.approx(rate(), rel=0.01)


@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.parametrize("name", OPERATIONS)
def test_collectives_of_few_bytes_are_quicker_by_an_mpi_and_large_sums_by_kernels(name: str, ranks: int) -> None:
    few, many = ({i: operation(name, i, size, ranks).samples[0] for i in ("mpi", "xccl")} for size in (512, GIB))
    assert few["mpi"] < few["xccl"]
    assert many["mpi"] > many["xccl"] * (5 if "reduce" in name else 0.99)


@pytest.mark.parametrize("name", OPERATIONS)
def test_the_range_of_a_collective_holds_one_ring_and_all_links(name: str) -> None:
    answer = operation(name, "xccl", GIB)
    assert answer.low is not None
    assert answer.high is not None
    assert answer.low <= answer.samples[0] <= answer.high
    assert answer.counters["interval_us"] < answer.samples[0]
    assert sum(term.ms for term in answer.terms) == pytest.approx(answer.samples[0] / 1e3)


def test_what_is_not_modelled_or_lacks_a_value_says_so() -> None:
    with pytest.raises(NotModelled, match="one device"):
        message(size=8, peer="self")
    with pytest.raises(NotModelled, match="ranks without a device"):
        operation("reduce", "mpi", 4, ranks=8)
    with pytest.raises(MissingValue, match=r"peer\.copy\.kernel\.device"):
        predicted(load_platform("h200-pcie"), "p2p-message", interface="xccl", peer="model:h200-pcie:1",
                  source="device", target="device", route="default", size=8)  # fmt: skip


# ------------------------------------------------------------------------------------------------ two H200s


def measured(value: float, unit: str = "") -> dict[str, Any]:
    return {
        "value": value,
        "unit": unit,
        "how": "measured",
        "source": "results/h200-x2-quick: messages, and loads from the peer",
    }


def two_h200s(path: Path) -> Platform:
    """Two H200s by what their messages and their loads from each other's memory took."""
    values = {
        "message.start.xccl": measured(15.2, "us"),
        "message.start.mpi": measured(0.6, "us"),
        "message.queued": measured(0.42),
        "message.direct_from": measured(1024, "B"),
        "peer.copy.kernel.device": measured(334, "GB/s"),
        "peer.load.gpu.device": measured(845, "ns"),
    }
    peer = {"access": "direct", "hops": 2}
    path.write_text(
        json.dumps({"title": "two", "extends": "h200-pcie", "devices": 2, "peer": peer, "parameters": values})
    )
    return load_platform(str(path))


def test_collectives_of_two_gpus_follow_from_their_messages(tmp_path: Path) -> None:
    platform, ratios = two_h200s(tmp_path / "two.json"), list[float]()
    for record in load_results(ROOT / "results/h200-x2-quick").records:
        if record.experiment == "collective" and record.factors.get("interface") == "xccl" and record.summary:
            answer = predicted(platform, "collective", **record.factors)
            ratios.append(answer.samples[0] / record.summary.median)
    error, within = (median(max(r, 1 / r) for r in ratios) - 1, sum(1 / 1.5 < r < 1.5 for r in ratios))
    page = " ".join((ROOT / "docs/model.md").read_text().split())
    assert f"{within} of {len(ratios)} collectives by NCCL" in page
    assert f"half of them within {100 * error:.0f} %" in page
