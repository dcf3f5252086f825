"""Whether something holds for any combination is what asking for each of them says, with fewer questions."""

import itertools
from collections.abc import Callable

import pytest

from firsttouch.engine.combinations import AnyCombination
from firsttouch.records.schema import Factors

VALUES = {"agent": ["cpu", "gpu"], "size": [1, 2, 3, 4], "kernel": ["copy", "triad"], "threads": [0, 1]}


@pytest.mark.parametrize(
    "predicate",
    [
        lambda f: False,
        lambda f: f["agent"] == "gpu" and f["size"] > 4,
        lambda f: f["agent"] == "gpu" and f.get("size") == 4 and f.get("none") is None,
        lambda f: (f["threads"] == 1 and f["kernel"] == "copy") or (f["size"] == 2 and f["agent"] == "none"),
        lambda f: f == {"agent": "cpu", "size": 3, "kernel": "triad", "threads": 1},
        lambda f: {**f}["size"] == 4 and dict(f)["kernel"] == "triad" and "3" in repr(f),
        lambda f: f.items() >= {"size": 2, "kernel": "triad"}.items() and "gpu" in f.values(),
        lambda f: f.copy()["size"] == 3 and (f | {"agent": "both"})["agent"] == "both",
    ],
)
def test_the_answer_is_that_of_all_combinations(predicate: Callable[[Factors], bool]) -> None:
    any_combination = AnyCombination(predicate)
    for chosen in ({}, {"agent": ["cpu"]}, {"size": [1, 2]}, {"agent": ["gpu"], "size": [4]}, {"threads": [0]}):
        values = VALUES | chosen
        each = [Factors(zip(values, one, strict=True)) for one in itertools.product(*values.values())]
        assert any_combination.holds(values) == any(map(predicate, each))


def test_what_the_first_factors_decide_is_asked_once() -> None:
    asked = []

    def predicate(factors: Factors) -> bool:
        asked.append(factors)
        return factors["agent"] == "none" or (factors["kernel"] == "triad" and factors["agent"] == "none")

    any_combination = AnyCombination(predicate)
    assert not any_combination.holds(VALUES)
    assert len(asked) == 4
    any_combination.holds(VALUES | {"size": [7]})
    assert len(asked) == 4
