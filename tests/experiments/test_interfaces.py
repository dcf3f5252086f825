"""The fastest interface: right on made-up curves with known answers."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.movements import COPY, SIZES, curve, direct, rates, record

from firsttouch.experiments import all_experiments
from firsttouch.experiments.analysis.fastest_interfaces import (
    KINDS,
    LEAST_WIN,
    Interfaces,
    MovementRow,
    interfaces,
    segments,
)
from firsttouch.experiments.p2p_message import P2pMessage
from firsttouch.records.schema import Party, Record, Scalar


def winners(found: Interfaces) -> list[tuple[str, ...]]:
    return [row.fastest for row in found.rows]


def changes(found: Interfaces) -> list[tuple[int, int, str, str]]:
    return [(c.smaller, c.larger, c.before, c.after) for c in found.crossovers]


def test_without_a_crossover_one_is_the_fastest_at_every_size() -> None:
    found = interfaces(curve("kernel", rates(4, 8, 16, 32)) + curve("copy-engine", rates(2, 4, 8, 16)))
    assert winners(found) == [("kernel",)] * 4
    assert changes(found) == []
    for row in found.rows:
        assert row.verdict == "fastest"
        assert row.ratio is not None
        assert row.ratio.value == pytest.approx(2)
        assert row.ratio.low == pytest.approx(2 * 0.99 / 1.01)
        assert row.ratio.high == pytest.approx(2 * 1.01 / 0.99)
        assert [one.interface for one in row.measured] == ["kernel", "copy-engine"]


def test_one_crossover_is_the_pair_of_neighbouring_sizes() -> None:
    found = interfaces(curve("kernel", rates(4, 8, 10, 10)) + curve("copy-engine", rates(1, 4, 20, 30)))
    assert winners(found) == [("kernel",), ("kernel",), ("copy-engine",), ("copy-engine",)]
    assert changes(found) == [(SIZES[1], SIZES[2], "kernel", "copy-engine")]
    assert found.crossovers[0].undecided == ()
    first, second = segments(found.rows)
    assert (first.first, first.last, first.fastest) == (SIZES[0], SIZES[1], ("kernel",))
    assert (second.first, second.last, second.fastest) == (SIZES[2], SIZES[3], ("copy-engine",))
    assert second.best.size == SIZES[3], "where the ratio is largest"


def test_two_crossovers() -> None:
    found = interfaces(curve("kernel", rates(4, 4, 9, 9)) + curve("copy-engine", rates(2, 8, 8, 4)))
    assert changes(found) == [
        (SIZES[0], SIZES[1], "kernel", "copy-engine"),
        (SIZES[1], SIZES[2], "copy-engine", "kernel"),
    ]


def test_a_tie_names_both_and_is_no_crossover() -> None:
    found = interfaces(curve("kernel", rates(10, 10)) + curve("copy-engine", rates(10.05, 5)))
    tie, clear = found.rows
    assert tie.verdict == "tie"
    assert set(tie.fastest) == {"kernel", "copy-engine"}
    assert tie.ratio is None
    assert clear.fastest == ("kernel",)
    assert changes(found) == []


def test_a_win_below_two_percent_is_none_however_narrow_the_intervals() -> None:
    def row(rate: float) -> MovementRow:
        records = [*curve("kernel", rates(rate), spread=1e-4), *curve("copy-engine", rates(10), spread=1e-4)]
        return interfaces([*records, *curve("peer-call", rates(9), spread=1e-4)]).rows[0]

    assert (row(10.1).verdict, row(10.1).fastest) == ("tie", ("kernel", "copy-engine"))
    assert (row(10.3).verdict, row(10.3).fastest) == ("fastest", ("kernel",))
    assert row(9.9).fastest == ("copy-engine", "kernel")


def test_a_change_over_a_tie_lies_between_the_sizes_with_a_winner() -> None:
    found = interfaces(curve("kernel", rates(10, 10, 10)) + curve("copy-engine", rates(5, 10, 20)))
    assert changes(found) == [(SIZES[0], SIZES[2], "kernel", "copy-engine")]
    assert found.crossovers[0].undecided == (SIZES[1],)


def test_a_third_with_a_wide_interval_is_named_too() -> None:
    records = curve("kernel", rates(10)) + curve("copy-engine", rates(9)) + curve("peer-call", rates(8), spread=0.4)
    (row,) = interfaces(records).rows
    assert row.verdict == "tie"
    assert row.fastest == ("kernel", "peer-call")


def test_a_size_missing_on_one_side_is_no_crossover() -> None:
    both = {SIZES[0]: 10.0, SIZES[2]: 10.0}
    found = interfaces(curve("kernel", both) + curve("copy-engine", rates(5, 6, 5)))
    assert [row.verdict for row in found.rows] == ["fastest", "one interface", "fastest"]
    assert found.rows[1].fastest == ("copy-engine",)
    assert changes(found) == []
    found = interfaces(curve("kernel", both) + curve("copy-engine", rates(5, 6, 20)))
    assert changes(found) == [(SIZES[0], SIZES[2], "kernel", "copy-engine")]


def test_an_interface_that_was_not_measured_at_a_size_did_not_lose_there() -> None:
    """At 64 KiB the peer call was not measured, so that it may be the fastest there too."""
    peer_call = {SIZES[0]: 30.0, SIZES[2]: 30.0}
    found = interfaces(
        curve("kernel", rates(10, 10, 10)) + curve("copy-engine", rates(5, 5, 5)) + curve("peer-call", peer_call)
    )
    assert winners(found) == [("peer-call",), ("kernel",), ("peer-call",)]
    assert changes(found) == []


@pytest.mark.parametrize(
    "flaw",
    [
        {"verified": False},
        {"verified": None, "verified_why": "cannot be checked"},
        {"status": "failed"},
        {"status": "crashed", "summary": None},
        {"suspect": "a rule"},
    ],
)
def test_a_fast_but_wrong_row_does_not_count(flaw: dict[str, object]) -> None:
    right = curve("kernel", rates(4, 4)) + curve("copy-engine", rates(2, 2))
    found = interfaces([*right, *curve("peer-call", rates(100, 100), **flaw)])
    assert winners(found) == [("kernel",), ("kernel",)]
    assert all("peer-call" not in row.interfaces for row in found.rows)


def test_one_interface_says_so() -> None:
    found = interfaces(curve("kernel", rates(1, 2, 3)))
    assert [(row.verdict, row.fastest, row.ratio) for row in found.rows] == [("one interface", ("kernel",), None)] * 3
    assert changes(found) == []


def test_one_size() -> None:
    (row,) = interfaces(curve("kernel", rates(1)) + curve("copy-engine", rates(3))).rows
    assert (row.size, row.fastest, row.verdict) == (SIZES[0], ("copy-engine",), "fastest")


def test_times_without_an_interval_have_no_winner() -> None:
    def alone(engine: str, latency: float) -> list[Record]:
        return curve(engine, rates(1), counters={"latency_us": latency})

    (row,) = [r for r in interfaces(alone("kernel", 5.0) + alone("copy-engine", 50.0)).rows if r.measure == "blocking"]
    assert row.verdict == "no interval"
    assert row.fastest == ("kernel", "copy-engine")


def test_blocking_time_and_bandwidth_have_answers_of_their_own() -> None:
    def both(engine: str, rate: float, latency: float) -> list[Record]:
        ends: dict[str, Scalar] = {"latency_low_us": latency * 0.99, "latency_high_us": latency * 1.01}
        return curve(engine, rates(rate), counters={"latency_us": latency, **ends})

    found = interfaces(both("kernel", 1.0, 5.0) + both("copy-engine", 2.0, 15.0))
    answers = {row.measure: row for row in found.rows}
    assert answers["blocking"].fastest == ("kernel",)
    assert answers["blocking"].ratio is not None
    assert answers["blocking"].ratio.value == pytest.approx(3), "how many times as fast, also for times"
    assert answers["bandwidth"].fastest == ("copy-engine",)


def test_other_conditions_are_never_compared() -> None:
    slow = [record("p2p-copy", 1.0, {"engine": "kernel", **COPY, "size": 64})]
    for other in ({"direction": "both"}, {"source": "pinned"}, {"peer": "gpu:2"}, {"first_touch": "cpu"}):
        fast = record("p2p-copy", 9.0, {"engine": "copy-engine", **COPY, **other, "size": 64})
        assert {row.verdict for row in interfaces([*slow, fast]).rows} == {"one interface"}
    elsewhere = record("p2p-copy", 9.0, {"engine": "copy-engine", **COPY, "size": 64}, device="gpu:2")
    assert len(interfaces([*slow, elsewhere]).rows) == 2


def test_threads_and_switches_are_a_part_of_the_interface() -> None:
    base = {"engine": "cpu", **COPY, "size": 64}
    found = interfaces(
        [
            record("p2p-copy", 3.0, base),
            record("p2p-copy", 1.0, {**base, "threads": 1}),
            record("p2p-copy", 2.0, {**base, "engine": "copy-engine", "sdma": "0"}),
        ]
    )
    (row,) = found.rows
    assert [one.interface for one in row.measured] == ["cpu", "copy-engine (sdma 0)", "cpu (threads 1)"]


def message(interface: str, rate: float, ranks: int, **factors: Scalar) -> Record:
    return record(
        "p2p-message",
        rate,
        {"interface": interface, "peer": "self", "source": "device", "target": "device", "route": "default",
         "size": 64, **factors},
        parties=[Party(device="gpu:0", rank=rank) for rank in range(ranks)],
    )  # fmt: skip


def test_a_message_to_itself_is_not_one_between_two() -> None:
    found = interfaces([message("xccl", 9.0, 1), message("mpi", 5.0, 2), message("mpi-staged", 1.0, 2)])
    assert [(row.conditions["ranks"], row.fastest) for row in found.rows] == [(1, ("xccl",)), (2, ("mpi",))]


def test_a_route_is_an_interface() -> None:
    (row,) = interfaces([message("mpi", 5.0, 2), message("mpi", 8.0, 2, route="direct")]).rows
    assert row.fastest == ("mpi (route direct)",)


def collective(interface: str, alone: float, interval: float) -> Record:
    return record(
        "collective",
        alone,
        {"operation": "all-reduce", "interface": interface, "ranks": 2, "allocator": "device", "size": 1000},
        counters={"interval_us": interval, "interval_low_us": interval * 0.9, "interval_high_us": interval * 1.1,
                  "algorithm_gbs": 1.0 / interval, "bus_gbs": 1.0 / interval},
    )  # fmt: skip


def test_collectives_have_the_bandwidth_of_their_interval() -> None:
    blocking, bandwidth = interfaces([collective("mpi", 4.0, 8.0), collective("xccl", 6.0, 2.0)]).rows
    assert (blocking.measure, blocking.fastest) == ("blocking", ("mpi",))
    assert (bandwidth.measure, bandwidth.fastest) == ("bandwidth", ("xccl",))
    best = bandwidth.measured[0].value
    assert (best.value, best.unit) == (0.5, "GB/s")
    assert (best.low, best.high) == (pytest.approx(0.5 / 1.1), pytest.approx(0.5 / 0.9))


def test_direct_access_is_by_the_kernel_of_either_end() -> None:
    found = interfaces(
        [
            direct("gpu:0", "gpu:1", "copy-out", 5.0),
            direct("gpu:1", "gpu:0", "copy-in", 3.0),
            direct("gpu:0", "gpu:1", "write", 2.0),
            direct("gpu:1", "gpu:0", "read", 4.0),
        ]
    )
    answers = {row.conditions["movement"]: row for row in found.rows}
    assert answers["copy"].fastest == ("push",)
    assert answers["stream"].fastest == ("pull",)
    assert {(row.conditions["from"], row.conditions["to"]) for row in found.rows} == {("gpu:0", "gpu:1")}


def test_what_a_kernel_reads_again_from_its_own_caches_did_not_cross() -> None:
    pull = msgspec.structs.replace(direct("hip:1", "hip:0", "read", 4860), counters={"of_peak": 10.8})
    (row,) = interfaces([pull, direct("hip:0", "hip:1", "write", 380)]).rows
    assert (row.verdict, row.interfaces) == ("one interface", {"push"})


def test_in_memory_of_its_own_there_is_no_choice() -> None:
    found = interfaces([direct("gpu:0", "self", "copy-out", 5.0), direct("gpu:0", "self", "copy-in", 3.0)])
    assert {row.verdict for row in found.rows} == {"one interface"}


def test_each_kind_is_an_experiment_with_its_interface_among_the_factors() -> None:
    experiments = all_experiments()
    assert [kind.name for kind in KINDS] == ["direct", "copy", "message", "collective"]
    assert {kind.experiment for kind in KINDS} <= {*experiments}


def test_records_of_others_are_left_out() -> None:
    strange: list[dict[str, Scalar]] = [{}, {"size": "many"}, {"size": True, "engine": None}, {"size": 0}]
    records = [record("p2p-copy", 1.0, factors) for factors in strange]
    zero = record("p2p-copy", 0.0, {"engine": "kernel", **COPY, "size": 64})
    assert interfaces([*records, zero]).rows == []


ENGINES = ("copy-engine", "kernel", "peer-call")


@settings(deadline=None)  # on a busy machine an example takes long
@given(
    st.dictionaries(
        st.tuples(st.sampled_from(ENGINES), st.sampled_from(SIZES)),
        st.tuples(st.floats(0.1, 100), st.floats(0, 0.5)),
        min_size=1,
    ),
    st.randoms(),
)
def test_every_answer_follows_from_the_intervals(points, random) -> None:
    records = [
        record("p2p-copy", rate, {"engine": engine, **COPY, "size": size}, spread=spread)
        for (engine, size), (rate, spread) in points.items()
    ]
    found = interfaces(records)
    for row in found.rows:
        _check(row, {e: points[e, row.size] for e in ENGINES if (e, row.size) in points})
    by_size = {row.size: row for row in found.rows}
    assert [*by_size] == sorted(by_size)
    for c in found.crossovers:
        ends = by_size[c.smaller], by_size[c.larger]
        assert (ends[0].fastest, ends[1].fastest) == ((c.before,), (c.after,))
        assert {c.before, c.after} <= ends[0].interfaces & ends[1].interfaces
        inside = [row for row in found.rows if c.smaller < row.size < c.larger and row.verdict != "one interface"]
        assert tuple(row.size for row in inside) == c.undecided
    for one, other in pairwise(found.crossovers):
        assert one.larger <= other.smaller
    random.shuffle(records)
    again = {(row.size, frozenset(row.fastest)) for row in interfaces(records).rows}
    assert again == {(row.size, frozenset(row.fastest)) for row in found.rows}


def _check(row: MovementRow, points: dict[str, tuple[float, float]]) -> None:
    assert row.interfaces == {*points}
    best = max(rate for rate, _ in points.values())
    if len(row.fastest) == 1 and len(points) > 1:
        (winner,) = row.fastest
        rate, spread = points[winner]
        assert rate == best
        assert all(rate * (1 - spread) > r * (1 + s) for e, (r, s) in points.items() if e != winner)
        assert row.ratio is not None
        assert row.ratio.value >= LEAST_WIN


def test_messages_between_hosts_are_not_compared_with_those_within_one() -> None:
    def message(interface: str, rate: float, *hosts: str) -> Record:
        factors: dict[str, Scalar] = {"interface": interface, "peer": "gpu:1", "size": 64}
        parties = [Party(device="gpu:0", host=host) for host in hosts]
        return record("p2p-message", rate, factors, parties=parties)

    found = interfaces([message("mpi", 10, "a", "a"), message("xccl", 5, "a", "b")])
    assert [row.verdict for row in found.rows if row.measure == "bandwidth"] == ["one interface"] * 2
    between = P2pMessage().derive([message("mpi", 10, "a", "a"), message("xccl", 5, "a", "b")])
    assert [r.counters["owner"] for r in between] == ["gpu:1", "gpu:1 on b"]
