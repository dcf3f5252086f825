"""A finding states every factor in which the records that it compares differ, whoever wrote the experiment."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from tests.experiments.fake_records import KIB, MIB, a_record
from tests.findings import assert_finding
from tests.texts import assert_states

from firsttouch.records.conditions import MOST_GROUPS, under_conditions
from firsttouch.records.findings import Claim, Finding, Quantity, compare_medians, extremes, finding
from firsttouch.records.schema import Record, Scalar
from firsttouch.report.sentences import sentences

SLOWEST = Claim("stride.slowest", "one load every {stride} takes the {agent} {value}, {ratio} times as long as every "
                "{other_stride}")  # fmt: skip


def a_load(ns: float, stride: int, **factors: Scalar) -> Record:
    return a_record("latency", ns, {"agent": "cpu", "stride": stride, **factors})


def slowest(records: Sequence[Record]) -> list[Finding]:
    """As docs/examples/stride.py finds it, without a thought of other factors."""
    fast, slow = extremes(records)
    return [finding(SLOWEST, slow, comparison=compare_medians(slow, fast))]


def found_in(records: Sequence[Record], *known: str) -> list[Finding]:
    return under_conditions(slowest, records, known)


def assert_slowest(found: Finding, ns: float, stride: int, ratio: float, **more: object) -> None:
    """more: further fields of the finding, and the conditions that it states if there are any."""
    fields = {"agent": "cpu", "stated": {}, **more}
    assert_finding([found], SLOWEST, value=Quantity(ns, "ns"), stride=stride, ratio=ratio, **fields)


def test_records_of_two_agents_are_not_compared_where_one_is_named() -> None:
    rows = [a_load(ns, stride) for ns, stride in ((10, 64), (20, KIB))]
    rows += [a_load(ns, stride, agent="gpu") for ns, stride in ((300, 64), (900, KIB))]
    cpu, gpu = found_in(rows)
    assert_slowest(cpu, 20, KIB, 2, other_stride=64)
    assert_slowest(gpu, 900, KIB, 3, other_stride=64, agent="gpu")


def test_a_factor_that_the_experiment_does_not_know_divides_its_findings() -> None:
    rows = [
        a_load(ns, stride, xnack=x) for ns, stride, x in ((10, 64, "0"), (20, KIB, "0"), (700, 64, "1"), (70, KIB, "1"))
    ]
    without, with_xnack = found_in(rows, "agent", "stride")
    assert_slowest(without, 20, KIB, 2, other_stride=64, stated={"xnack": "0"})
    assert_slowest(with_xnack, 700, 64, 10, other_stride=KIB, stated={"xnack": "1"})


def test_a_condition_that_other_records_do_not_meet_is_stated() -> None:
    rows = [a_load(10, 64, size=KIB), a_load(20, KIB, size=KIB), a_load(11, KIB, size=MIB)]
    (of_one_size,) = found_in(rows)
    assert_slowest(of_one_size, 20, KIB, 2, stated={"size": KIB})
    (of_all,) = found_in(rows[:2])
    assert_slowest(of_all, 20, KIB, 2)


def test_a_record_without_a_factor_is_not_compared_with_those_that_have_it() -> None:
    rows = [a_load(10, 64), a_load(20, KIB), a_load(5000, 64, ballast=MIB), a_load(4000, KIB, ballast=MIB)]
    without, beside = found_in(rows)
    assert_slowest(without, 20, KIB, 2, stated={"ballast": None})
    assert_slowest(beside, 5000, 64, 1.25, stated={"ballast": MIB})
    assert [text.rpartition(", with ")[2] for text in sentences([without, beside])] == [
        "no ballast.", "ballast 1,048,576."
    ]  # fmt: skip


def test_a_record_is_not_compared_with_itself() -> None:
    assert found_in([a_load(10, 64)]) == []
    unnamed = Claim("x.y", "it takes {value}, {ratio} times as long as at best")
    rows = [a_load(10, 64), a_load(20, KIB)]

    def find(records: Sequence[Record]) -> list[Finding]:
        fast, slow = extremes(records)
        return [finding(unnamed, slow, comparison=compare_medians(slow, fast))]

    assert under_conditions(find, rows) == []


def test_records_of_an_older_definition_of_the_metric_are_left_out() -> None:
    old = msgspec.structs.replace(a_load(1, 64, place="old"), metric_version=0)
    (found,) = found_in([old, a_load(10, 64), a_load(20, KIB)])
    assert_slowest(found, 20, KIB, 2)


def test_of_many_values_of_an_unknown_factor_the_fullest_groups_are_told() -> None:
    rows = [a_load(ns, stride, day=day) for day in range(20) for ns, stride in ((10, 64), (20, KIB))]
    found = found_in([*rows, a_load(15, 4 * KIB, day=17)], "agent", "stride")
    assert len(found) == MOST_GROUPS
    assert {"day": 17} in [one.stated for one in found]


def test_the_head_of_a_list_has_the_conditions_before_its_colon() -> None:
    claim = Claim("x.y", "{stride} {value}", "{agent}:")
    rows = [a_load(10, 64, xnack="0"), a_load(20, KIB, xnack="0"), a_load(9, 64, xnack="1")]
    texts = sentences(under_conditions(lambda found: [finding(claim, r) for r in found], rows, ("agent", "stride")))
    assert texts == ["CPU (xnack 0): 64 B 10 ns; 1 KiB 20 ns.", "CPU (xnack 1): 64 B 9 ns."]


ENDED = Claim("x.ended", "it ended")


def test_what_is_said_in_words_of_all_records_names_no_factor_of_theirs() -> None:
    rows = [a_load(10, 64), a_load(20, KIB), a_load(5, 64, agent="gpu")]
    assert_finding(under_conditions(lambda found: [finding(ENDED, found, "yes")], rows), ENDED, stated={})


def test_what_is_said_in_words_of_some_records_has_their_condition() -> None:
    rows = [a_load(10, 64), a_load(5, 64, agent="gpu")]
    found = under_conditions(lambda found: [finding(ENDED, found[:1], "yes")], rows)
    assert_finding(found, ENDED, stated={"agent": "cpu"})
    (sentence,) = sentences(found)
    assert_states(sentence, "with agent cpu")
