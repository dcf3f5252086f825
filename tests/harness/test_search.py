"""The search for placements: what is tried, what follows from what was measured, and what is said about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from tests.findings import assert_finding

from firsttouch.api import f32
from firsttouch.base.errors import UsageError
from firsttouch.harness.app import App, buffer
from firsttouch.harness.outcomes.placements import GAIN, NO_GAIN, of_searches, parse, ranking, searches
from firsttouch.harness.outcomes.report import sections, summary
from firsttouch.harness.placements import factors_of, settings_in, with_search
from firsttouch.harness.search import MOST_TRIED, changes, further
from firsttouch.program.strategies import STRATEGIES
from firsttouch.records.findings import Claim, Quantity
from firsttouch.records.schema import SCHEMA, Factors, Record, Request, Summary

GUIDED = ("managed", "managed+advise", "managed+prefetch", "managed+both")


class Heat(App):
    """Two buffers of 4 n bytes and a small one."""

    name, source, pattern = "heat", "this test", "none"
    sizes = {"tiny": {"n": 1000}, "default": {"n": 10**6}}
    n: int
    power = buffer(f32, "n", role="input", starts_on="cpu")
    temp = buffer(f32, "n", role="inout", starts_on="cpu", ends_on="cpu")
    count = buffer(f32, 1, role="control", starts_on="cpu")
    own = buffer(f32, 1000, role="scratch", starts_on="cpu")


REQUEST = Request(
    schema=SCHEMA,
    experiments=["heat"],
    devices=["cuda:0"],
    preset="quick",
    seed=1,
    kind="app",
    set=with_search({}),  # type: ignore[arg-type]
)


def record(strategy: str, ms: float, placement: str = "strategy", repeat: int | None = None, n: int = 3) -> Record:
    factors = {"app": "heat", "strategy": strategy, "size": "default", "events": "off", "placement": placement}
    if repeat is not None:
        factors |= {"repeat": repeat}  # type: ignore[dict-item]
    return Record(
        schema=SCHEMA,
        experiment="app",
        device="cuda:0",
        factors=Factors(factors),
        unit="ms",
        status="ok",
        samples=[ms] * n,
        summary=summary_of(ms, n),
        verified=True,
        seconds=2.0,
        counters={"param_n": 10**6},
    )


def summary_of(ms: float, n: int) -> Summary:
    values = {"n": n, "median": ms, "ci_low": 0.99 * ms, "ci_high": 1.01 * ms}
    return Summary(**{name: values.get(name, ms) for name in Summary.__struct_fields__})


AS_IS = [record(name, ms) for name, ms in zip(GUIDED, (20, 18, 10, 12), strict=True)]


def placements(requests: Sequence[Request]) -> list[list[str]]:
    return [[str(word) for word in request.set["placement"]] for request in requests]


def test_changes_are_of_one_large_buffer_each_and_differ_from_what_the_strategy_does() -> None:
    declared = Heat.declarations({"n": 10**6})
    words = changes(declared, STRATEGIES["managed+prefetch"])
    assert words == [
        *("power=read-mostly/gpu", "temp=preferred-gpu/gpu+cpu"),
        *("power=preferred-cpu+accessed-by-gpu/none", "temp=preferred-cpu+accessed-by-gpu/none"),
        *("power=none/none", "temp=none/none"),
    ]
    assert "power=none/gpu" in changes(declared, STRATEGIES["managed"])
    accepted = {factor.name: factor.words() for factor in factors_of(Heat)}
    for strategy in GUIDED:
        words = changes(declared, STRATEGIES[strategy])
        assert 0 < len(words) <= MOST_TRIED
        for name, value in (item for word in words for item in parse(word).items()):
            assert value in accepted[name]


def test_each_step_follows_from_the_records_of_the_one_before() -> None:
    known: dict[str, type[App]] = {"heat": Heat}
    assert further(REQUEST, [], known) == []
    (first,) = further(REQUEST, AS_IS, known)
    words = placements([first])[0]
    assert first.set["strategy"] == ["managed+prefetch"]
    assert (first.set["repeat"], first.set["size"], first.experiments) == ([1], ["default"], ["heat"])
    tried = [record("managed+prefetch", 11 - i, word, 1, 1) for i, word in enumerate(words)]
    assert placements(further(REQUEST, [*AS_IS, *tried[:-1]], known)) == [words]  # as after a kill
    _, last = further(REQUEST, [*AS_IS, *tried], known)
    assert placements([last]) == [["temp=none/none power=none/none", "temp=none/none", "power=none/none"]]
    assert "repeat" not in last.set
    assert further(Request(**{**vars_of(REQUEST), "set": {}}), [*AS_IS, *tried], known) == []


def vars_of(request: Request) -> dict[str, object]:
    return {name: getattr(request, name) for name in request.__struct_fields__}


def searched(best: float) -> list[Record]:
    words = ("temp=none/none", "power=none/none", "power=read-mostly/gpu", "temp=preferred-gpu/gpu+cpu")
    tried = [record("managed+prefetch", 9 + i, word, 1, 1) for i, word in enumerate(words)]
    return [*AS_IS, *tried, *(record("managed+prefetch", best + i, word) for i, word in enumerate(words[:3]))]


@pytest.mark.parametrize(
    ("best", "claim", "fields"),
    [
        (8, GAIN, {"settings": "temp=none/none", "value": Quantity(8, "ms"), "ratio": 0.8}),
        (9.95, NO_GAIN, {"value": "4 placements"}),
    ],
)
def test_a_gain_is_said_only_where_the_intervals_are_apart(best: float, claim: Claim, fields: dict[str, Any]) -> None:
    records = searched(best)
    (found,) = of_searches(records)
    assert_finding([found], claim, strategy="managed+prefetch", **fields)
    lines = ranking(records)
    assert next(line.placement for line in lines if line.finalist) == "temp=none/none"
    assert [line.total_ms for line in lines if line.finalist] == sorted(x.total_ms for x in lines if x.finalist)
    assert [line.placement for line in lines if not line.finalist] == ["temp=preferred-gpu/gpu+cpu"]
    assert any(line.is_gain for line in lines) == (best < 9)
    assert {line.base for line in lines} == {"managed+prefetch"}


def test_what_was_tried_is_in_the_section_and_not_among_the_strategies() -> None:
    records = searched(8)
    assert [row.strategy for row in summary(records)] == list(GUIDED)
    (section,) = sections(records, {}, {})
    assert len(section.records) == len(records)
    assert section.figures[0].title.startswith("The placements")
    assert len(searches(records)) == 1


def test_wrong_results_of_a_placement_are_no_candidates_and_are_listed() -> None:
    wrong = record("managed+prefetch", 1, "temp=none/none", 1, 1)
    wrong.verified = False
    rows = summary([*AS_IS, wrong])
    assert [row.verified for row in rows].count(False) == 1
    assert of_searches([*AS_IS, wrong]) == []


def test_settings_of_a_placement_and_of_the_call() -> None:
    factors = Factors({"placement": "temp=none/gpu", "advice.temp": "read-mostly", "advice.power": "none"})
    assert settings_in(factors) == {"advice.temp": "read-mostly", "prefetch.temp": "gpu", "advice.power": "none"}
    assert settings_in(Factors({"placement": "paper"})) == {}
    accepted = factors_of(Heat, ["temp=none/gpu", "temp=nonsense/gpu", "nothing=none/gpu", "temp=none", "own=none/gpu"])
    assert list(accepted[0].words()) == ["strategy", "paper", "temp=none/gpu", "best"]


def test_a_search_and_a_placement_exclude_each_other() -> None:
    assert with_search({"strategy": ["managed"]}) == {"strategy": ["managed"], "placement": ["best"]}
    with pytest.raises(UsageError, match="leave out --set placement"):
        with_search({"placement": ["paper"]})


def test_placements_that_the_call_names_are_listed_like_any_point() -> None:
    alone = [record("managed", 5, "temp=none/gpu"), record("managed+both", 6, "paper"), *AS_IS[:1]]
    assert len(summary(alone[:2])) == 2
    assert ranking(alone[1:]) == [] == of_searches(alone[1:])
