"""A plain run on stand-ins for equal GPUs: what asks about each is measured on each, the rest on one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

import pytest
from tests.calls import call

from firsttouch import experiments
from firsttouch.records.reading import load_results
from firsttouch.records.schema import Location, Record

MODULE = Path(__file__).with_name("headline.py")
_all = experiments.all_experiments


def run(out: Path, *words: object, **settings: str) -> tuple[list[Record], str]:
    """A run of everything, which is the experiment of the module."""
    with patch.object(experiments, "all_experiments", lambda: {"headline": _all()["headline"]}):
        done = call("run", "--module", MODULE, "--out", out, *words, STANDIN_DEVICES="3", **settings)
    assert done.returncode == 0, done.stderr
    return [r for r in load_results(out).records if r.status == "ok"], done.stderr


def counts(records: Sequence[Record]) -> list[tuple[str, int]]:
    return [(r.device, r.count("n")) for r in records]


ONE_FOR_ALL = [("hip:0", 1), ("hip:0", 2), ("hip:1", 1), ("hip:2", 1)]


@pytest.mark.slow
def test_one_of_equal_gpus_is_measured_for_all_unless_others_are_named(tmp_path: Path) -> None:
    records, said = run(tmp_path / "out")
    assert counts(records) == ONE_FOR_ALL
    assert "points to measure, about" in said
    others = [Location(device="hip:1"), Location(device="hip:2")]
    assert [r.stands_for for r in records] == [[], others, [], []]
    records, _ = run(tmp_path / "out", "--resume", "--device", "hip:2")
    assert counts(records) == [*ONE_FOR_ALL, ("hip:2", 2)]
    assert records[-1].stands_for == []


@pytest.mark.slow
def test_where_the_first_differs_the_next_stands_for_the_rest(tmp_path: Path) -> None:
    records, said = run(tmp_path / "out", SLOW_GPU="hip:0")
    assert "hip:1 and hip:2 differ from hip:0: headline 10 GB/s, not 5 GB/s" in said
    assert counts(records) == [*ONE_FOR_ALL, ("hip:1", 2)]
    assert records[-1].stands_for == [Location(device="hip:2")]
