"""The title of a figure is the finding whose number it draws."""

from __future__ import annotations

from drawn import drawing_of, point

from firsttouch.records.figures import Bar, Heat, Table
from firsttouch.records.findings import Claim, Quantity, finding
from firsttouch.report.message import messages

FIGURE = Bar(x="allocator", colour="")
RECORDS = [point({"allocator": a}, median) for a, median in (("malloc", 40.0), ("pinned", 60.0))]
OTHER = point({"allocator": "vmm"}, 90.0)
COUNT = finding(Claim("t.count", "{value} faults"), RECORDS, Quantity(7.0))
LEAST = finding(Claim("t.least", "{allocator} takes {value}"), RECORDS[0], allocator="malloc")
MOST = finding(Claim("t.most", "{allocator} takes {value}"), RECORDS[1], allocator="pinned")
ELSEWHERE = finding(Claim("t.other", "{allocator} takes {value}"), [RECORDS[0], OTHER], allocator="vmm")
WORDS = finding(Claim("t.words", "{value}"), RECORDS[0], "none differs")


def test_the_first_finding_whose_number_is_drawn_is_the_title():
    drawing = drawing_of(FIGURE, RECORDS)
    assert messages([drawing], [WORDS, COUNT, ELSEWHERE, MOST, LEAST]) == ["Pinned takes 60 ns."]
    assert messages([drawing, drawing, drawing], [LEAST, MOST]) == ["Malloc takes 40 ns.", "Pinned takes 60 ns.", ""]


def test_what_makes_one_sentence_is_one_title():
    claim = Claim("t.each", "{value} on {allocator}", "time of a call:")
    parts = [finding(claim, r, allocator=r.factors["allocator"]) for r in RECORDS]
    drawing = drawing_of(FIGURE, RECORDS)
    assert messages([drawing, drawing], parts) == ["Time of a call: 40 ns on malloc; 60 ns on pinned.", ""]
    assert messages([drawing_of(FIGURE, RECORDS[1:])], parts) == ["Time of a call: 60 ns on pinned."]
    many = [finding(claim, RECORDS[0], allocator="x" * 100) for _ in range(4)]
    assert messages([drawing], many) == [f"Time of a call: 40 ns on {'x' * 100}."]
    nothing = finding(Claim("t.none", "{value} faults"), RECORDS[0], Quantity(0.0))
    assert messages([drawing_of(FIGURE, [point({"allocator": "malloc"}, 0.0)])], [nothing]) == [""]


def test_a_figure_of_other_numbers_or_points_has_none():
    counters = [point({"allocator": a, "cpu": 1}, 40.0, counters={"held": n}) for n, a in enumerate("ab", 5)]
    found = finding(Claim("t.least", "{value}"), counters[0])
    heat = drawing_of(Heat(x="allocator", y="cpu", z="held"), counters)
    table = drawing_of(Table(columns=["allocator", "held"]), counters)
    assert messages([heat, table], [found]) == ["", ""]
    assert messages([drawing_of(Heat(x="allocator", y="cpu"), counters)], [found]) == ["40 ns."]
    assert messages([drawing_of(FIGURE, [OTHER])], [LEAST, ELSEWHERE]) == [""]
