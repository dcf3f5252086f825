"""What is said of applications that several processes share, from the records of an H200."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from tests.fabricated import MACHINES
from tests.kept_runs import stored_run

from firsttouch.apps.transport import Transport
from firsttouch.harness import exchanging
from firsttouch.harness.outcomes import app_findings, exchanges, report
from firsttouch.harness.outcomes.derive import derive
from firsttouch.records.reading import load_results
from firsttouch.records.schema import Factors, Record, Scalar
from firsttouch.report.sentences import sentences

RESULTS = stored_run("h200-ranked-apps")


@pytest.fixture(scope="module")
def records() -> list[Record]:
    return derive(load_results(RESULTS).records)


def test_the_fastest_and_the_slowest_way_of_messages_are_named(records: list[Record]) -> None:
    said = sentences(app_findings.of_all(records))
    times = {
        (r.factors["app"], r.factors["interface"], r.factors["buffers"]): r.summary.median
        for r in records if r.summary and r.factors["ranks"] == 2
    }  # fmt: skip
    for app in ("halo", "transport"):
        own = {key: ms for key, ms in times.items() if key[0] == app}
        (_, interface, buffers), (_, slow, slow_buffers) = min(own, key=own.__getitem__), max(own, key=own.__getitem__)
        (sentence,) = [one for one in said if f"run of {app} takes" in one]
        assert f"by {interface} with messages in {buffers} memory" in sentence
        assert f"by {slow} with {slow_buffers} memory, the slowest" in sentence


def test_the_first_numbers_are_those_of_one_process_and_of_several(records: list[Record]) -> None:
    said = [(one.conditions["app"], one.conditions["ranks"]) for one in app_findings.numbers(records)]
    assert said == [("halo", 1), ("halo", 2), ("transport", 1), ("transport", 2)]
    halo = [r for r in records if r.factors["app"] == "halo"]
    ways = [(one.conditions["interface"], one.conditions["ranks"]) for one in app_findings.numbers(halo)]
    assert sorted(ways) == [("mpi", 2), ("mpi-staged", 2), ("none", 1)]


def test_the_first_figure_compares_interfaces_and_memory(records: list[Record]) -> None:
    overview, halo, transport = report.sections(records, {}, {})
    assert (overview.figures[0], halo.figures[0]) == (exchanges.RUNS, exchanges.FIGURE)
    for section in (halo, transport):  # both panels of the study's figures of its applications
        assert [figure.y for figure in section.figures[:2]] == ["exchange_ms", "median"]
        assert section.figures[1].title == overview.figures[0].title


ALONE = {"ranks": 1, "interface": "none", "buffers": "device"}
PAIR = {"ranks": 2, "interface": "mpi", "buffers": "device"}


@pytest.mark.parametrize(
    ("factors", "why"),
    [
        (PAIR | {"packing": "cpu", "receives": "posted"}, ""),
        (ALONE | {"packing": "gpu", "receives": "sized"}, ""),
        (ALONE | {"packing": "cpu"}, "sends no messages"),
        (PAIR | {"interface": "xccl", "receives": "posted"}, "NCCL and RCCL receive messages of known size"),
    ],
)
def test_ways_of_messages_that_mean_nothing_are_not_planned(factors: Mapping[str, Scalar], why: str) -> None:
    said = exchanging.why_meaningless(Factors(factors))
    assert why in said if why else said == ""


def test_who_packs_messages_must_reach_their_memory() -> None:
    """malloc is out of reach of a V100's kernels, its own memory of the CPU."""
    (gpu,) = (device for device in MACHINES["volta"].devices if device.capabilities.runs_kernels)
    whys = {
        (buffers, packing): exchanging.why_skipped(
            Transport, Transport.sizes["tiny"], Factors({**PAIR, "buffers": buffers, "packing": packing}), gpu
        )
        for buffers in ("device", "malloc")
        for packing in ("gpu", "cpu")
    }
    assert whys["malloc", "cpu"] is None
    assert whys["malloc", "gpu"]
    assert whys["device", "cpu"] == "the CPU cannot reach device memory"
