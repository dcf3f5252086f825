"""What judges predictions: rows and claims from which nothing in a platform's file, in the rules or in a call came."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
from msgspec import convert

from firsttouch.comparison.papers.comparisons import compared
from firsttouch.comparison.validation.origins import Origins, rule_sources, values_of
from firsttouch.comparison.validation.points import PlatformPoints
from firsttouch.comparison.validation.published import judge_prediction, shares_of, validated_claim, validated_row
from firsttouch.comparison.validation.results import Shares, ValidatedClaim, ValidatedRow
from firsttouch.model.platform import load_platform, platform_names
from firsttouch.records.papers.claims import AnyCheck, Check, all_claims
from firsttouch.records.papers.rows import APPLICATIONS, all_rows
from firsttouch.records.schema import SCHEMA, Record, Summary

STUDY = re.compile(r"\b(Sec\.|Fig\.|Table) ?[0-9IVX]")
"""How sources cite a place of a study."""
SAYS_NOTHING = re.compile(r"has no numbers|states none|does not say")


def predicted_claims(platform: str, *ids: str) -> dict[str, ValidatedClaim]:
    loaded = load_platform(platform)
    points, origins = PlatformPoints(loaded), Origins(loaded)
    return {claim.id: validated_claim(claim, points, origins) for claim in all_claims() if claim.id in ids}


def predicted_rows(platform: str, *names: str) -> dict[str, ValidatedRow]:
    loaded = load_platform(platform)
    points, origins = PlatformPoints(loaded), Origins(loaded)
    return {row.id: validated_row(row, points, origins) for row in all_rows() if row.id in names}


def test_what_came_from_a_row_is_not_judged_by_it() -> None:
    claims = predicted_claims(
        "mi300a",
        "device-up-front",  # what the file says of allocators
        "rss-misses-device",  # a rule
        "single-fault-cpu-below-minor",  # an assumed value
        "gpu-triad-over-cpu",  # two numbers of the file
        "gpu-triad-first-touch",
        "malloc-fault-per-page",
    )
    held = {name for name, claim in claims.items() if claim.role == "held"}
    assert held == {"gpu-triad-first-touch", "malloc-fault-per-page"}
    assert all(bool(claim.role_reason) != (claim.role == "held") for claim in claims.values())
    rows = predicted_rows(
        "mi300a",
        "bandwidth.cpu.case-a",
        "bandwidth.cpu.case-b",
        "bandwidth.gpu.on-demand",
        "pagefault.throughput.1cpu",
    )
    assert {name: row.role for name, row in rows.items()} == {
        "bandwidth.cpu.case-a": "input",
        "bandwidth.cpu.case-b": "input",
        "bandwidth.gpu.on-demand": "held",
        "pagefault.throughput.1cpu": "fitted",
    }


def test_equal_predictions_are_wrong_where_the_study_says_that_they_differ() -> None:
    (claim,) = predicted_claims("tk1", "tk1-pinned-loses").values()
    assert (claim.outcome, claim.shares.tied) == ("wrong", 1)


def test_what_the_study_does_not_decide_is_open() -> None:
    (claim,) = predicted_claims("p9-volta", "um-advice-over-prefetch").values()
    assert claim.outcome == "open"
    assert claim.why.startswith("the sentence may be about FDTD3d alone; ")


def check(test: Mapping[str, Any]) -> Check:
    made: Any = convert({"experiment": APPLICATIONS, "where": {}, "exact": True, **test}, AnyCheck)
    assert isinstance(made, Check)
    return made


def point(value: float, **factors: str) -> Record:
    ends = dict.fromkeys(("median", "p5", "p95", "min", "max", "ci_low", "ci_high"), float(value))
    summary = Summary(n=2, **ends)
    return Record(SCHEMA, APPLICATIONS, "model:one", {**factors}, "ms", "ok", summary=summary)


@pytest.mark.parametrize(
    ("relation", "first", "agrees", "tied"),
    [
        ("less", 9.8, "yes", False),
        ("less", 10, "no", True),
        ("less", 9.95, "no", True),
        ("less", 10.2, "no", False),
        ("no more", 10, "yes", False),
        ("no more", 10.2, "no", False),
        ("same", 10.5, "yes", False),
        ("same", 11.5, "no", False),
    ],
)
def test_a_prediction_is_on_the_stated_side_or_wrong(relation: str, first: float, agrees: str, tied: bool) -> None:
    test = check({"test": "compare", "first": {"strategy": "a"}, "second": {"strategy": "b"}, "relation": relation})
    (comparison,) = compared(test, [point(first, strategy="a"), point(10, strategy="b")], noiseless=True)
    assert (comparison.agrees, comparison.is_tied) == (agrees, tied)


def test_agreement_in_three_of_eight_programs_is_three_of_eight() -> None:
    test = check(
        {
            "test": "compare",
            "where": {"app": list("abcdefgh")},
            "first": {"strategy": "new"},
            "second": {"strategy": "old"},
            "relation": "less",
        }
    )
    times = {"a": 1, "b": 2, "c": 3, "d": 20, "e": 20, "f": 20, "g": 10}
    points = [point(ms, app=app, strategy="new") for app, ms in times.items()]
    points += [point(10, app=app, strategy="old") for app in times]
    shares = shares_of(test, list(compared(test, points, noiseless=True)))
    assert shares == Shares(right=3 / 8, wrong=3 / 8, tied=1 / 8, refused=1 / 8)


def test_a_ratio_on_the_wrong_side_of_one_is_wrong_whatever_its_factor() -> None:
    """backprop.total states 0.81: 0.98 is within a factor of 1.5 of it, and 1 is not less."""

    def outcome(value: float) -> str:
        row = ValidatedRow(row="a/b", says="", role="held", outcome="open", low=0.81, high=0.81, unit="ratio")
        judge_prediction(row, [value])
        return row.outcome

    assert [outcome(value) for value in (0.7, 0.98, 1.0, 1.1)] == ["right", "right", "wrong", "wrong"]


@pytest.mark.parametrize("platform", platform_names())
def test_values_that_cite_a_study_name_its_rows(platform: str) -> None:
    for value in values_of(load_platform(platform)):
        entry = value.entry
        cites = (
            STUDY.search(entry.source) and not SAYS_NOTHING.search(entry.source) and "documentation" not in entry.source
        )
        assert not cites or entry.rows, (value.name, entry.source)


def test_rules_from_studies_name_rows() -> None:
    assert all(source.rows for source in rule_sources())


def test_a_row_whose_size_the_call_sets_says_so() -> None:
    for row in all_rows():
        here = row.here
        if here is None or here.experiment != APPLICATIONS or here.relative_to or here.unit != "B":
            continue
        of_size = here.metric.startswith(("footprint", "peak_machine"))
        assert not of_size or here.set_by_call, row.name
