"""The sentence of each kind of answer, and the words of each kind of row: nowhere else are they looked at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from runs import copy

from firsttouch.comparison.answers import (
    ALIKE,
    ALL_SIDES,
    BOTH_PREDICTED,
    COMPARED,
    FAR,
    FEW_RUNS,
    MEASURED,
    MIXED,
    ONE_ROW,
    OUTLIER,
    PHASES,
    PREDICTED,
    UNCLEAR,
    AlikeExperiments,
    AnswerRow,
    ComparisonAnswer,
    More,
    PlaceRow,
    PointRow,
)
from firsttouch.comparison.compare import Regression, compare_results
from firsttouch.comparison.differences import (
    CANNOT_TELL,
    FASTER,
    HIGHER,
    LOWER,
    SAME,
    SLOWER,
    ExperimentDifference,
    SideValue,
)
from firsttouch.comparison.missing import MissingDevices
from firsttouch.comparison.speeds import speed_text
from firsttouch.comparison.table import FailedPoint
from firsttouch.comparison.words import change, clause, group_line, regression_text, sentence

NAMES = {"a": "old", "b": "new", "the median of 7 sides": "the median of 7 sides"}


def experiment(
    ratio: float | None = 1.3, verdict: str = SLOWER, *, better: str = "lower", name: str = "latency", **counts: int
) -> ExperimentDifference:
    """counts: points by verdict; by default four of ten with that of the experiment."""
    by_verdict = {word.replace("_", " "): n for word, n in counts.items()} or {verdict: 4, SAME: 6}
    unit = {"lower": "ns", "higher": "GB/s", "neither": "faults/MiB"}[better]
    points = sum(by_verdict.values())
    return ExperimentDifference(name, "cpu", better, unit, "b", points, by_verdict, ratio, 1.2, 1.4, verdict, None)


def alike(subject: str, verdict: str, *experiments: ExperimentDifference, within: float | None = None) -> AnswerRow:
    groups = list(experiments) or [experiment(1.0, SAME)]
    first = groups[0]
    return AlikeExperiments(
        subject=subject, side="b", verdict=verdict, unit=first.unit, ratio=first.ratio, low=first.low, high=first.high,
        within=within, points=sum(group.points for group in groups), counts={}, experiments=groups,
    )  # fmt: skip


def place(**changed: Any) -> PlaceRow:
    point = PointRow(
        experiment="p2p-copy", device="cuda:2", factors={"peer": "cuda:5", "size": 1 << 28}, unit="GB/s",
        better="higher", metric_version=1, side="b", base=SideValue(374, None, None, 3),
        value=SideValue(198, None, None, 3), ratio=198 / 374, low=None, high=None, verdict=SLOWER, worse=True,
    )  # fmt: skip
    fields: dict[str, Any] = {
        "name": "cuda:2 to cuda:5", "side": "b", "several": False, "devices": [["cuda:2", "cuda:5"]],
        "experiments": ["p2p-copy", "p2p-direct"], "of_own_memory": [], "verdict": SLOWER, "worse": True, "points": 19,
        "of_points": 32, "as_a_whole": False, "unit": "GB/s", "ratio": 0.53, "low": None, "high": None,
    }  # fmt: skip
    example = msgspec.structs.replace(point, **changed.pop("example", {}))
    return PlaceRow(**fields | changed, example=example)


SLOW_PAIR = "copies between GPUs of 256 MiB: 198 GB/s instead of 374 GB/s; also access to other GPUs; "
LOST = MissingDevices("b", "gpu", 1, 8, ("cuda:3",), (), "ECC error")


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (alike("CPU", ALIKE, within=0.031), "CPU equal within 4 %"),
        (alike("CPU", ALIKE, within=0.02), "CPU equal within 2 %"),
        (
            alike("CPU loads", MIXED, experiment(1.0, SAME, faster=3, slower=2)),
            "CPU loads mixed (5 points of 5 differ)",
        ),
        (alike("GPU locks", UNCLEAR), "GPU locks without a clear difference"),
        (alike("CPU loads", SLOWER, experiment(1.3)), "CPU loads 30 % slower"),
        (alike("GPU copies", FASTER, experiment(1.7, FASTER, better="higher")), "GPU copies 1.7 times as fast"),
        (experiment(1.3), "1.30 times as slow in latency on cpu"),
        (place(), f"cuda:2 to cuda:5 is 47 % slower ({SLOW_PAIR}19 of 32 points)"),
        (place(as_a_whole=True, ratio=0.9), f"cuda:2 to cuda:5 is 10 % slower ({SLOW_PAIR}the median of 32 points)"),
        (place(example={"verdict": CANNOT_TELL}), f"cuda:2 to cuda:5 is 47 % different ({SLOW_PAIR}19 of 32 points)"),
        (
            place(name="all 8 GPUs", several=True, experiments=["bandwidth"], example={"factors": {}}),
            "all 8 GPUs are 47 % slower (bandwidth: 198 GB/s instead of 374 GB/s; 19 of 32 points)",
        ),
        (
            place(of_own_memory=["p2p-copy"], experiments=["bandwidth", "p2p-copy"], example={"factors": {}}),
            "cuda:2 to cuda:5 is 47 % slower (bandwidth: 198 GB/s instead of 374 GB/s; also its own memory in "
            "p2p-copy; 19 of 32 points)",
        ),
        (LOST, "cuda:3 is missing: 7 of 8 GPUs are left (ECC error)"),
        (MissingDevices("b", "gpu", 1, 2, (), ("0:2",)), "1 GPU (at 0:2) is missing: 1 of 2 GPUs is left"),
        (MissingDevices("b", "gpu", 8, 8), "8 GPUs are missing: none of 8 GPUs are left"),
        (More(subject="place", side="b", number=3), "3 more places differ"),
    ],
)
def test_a_row_is_a_clause(row: AnswerRow, words: str) -> None:
    assert clause(row) == words


@pytest.mark.parametrize(
    ("verdict", "ratios", "words"),
    [
        (SLOWER, [(1.3, "lower")], "30 % slower"),
        (SLOWER, [(0.8, "higher")], "20 % slower"),
        (SLOWER, [(1.3, "lower"), (0.8, "higher")], "20 to 30 % slower"),
        (SLOWER, [(2.5, "lower"), (0.8, "higher")], "1.2 to 2.5 times as slow"),
        (SLOWER, [(0.1, "higher")], "10 times as slow"),
        (FASTER, [(1 / 1.1, "lower"), (1.38, "higher")], "10 to 38 % faster"),
        (FASTER, [(0.5, "lower")], "2.0 times as fast"),
        (HIGHER, [(1.2, "neither")], "20 % higher"),
        (LOWER, [(1 / 3, "neither")], "67 % lower"),
        (CANNOT_TELL, [(2.0, "lower")], "50 % different"),
    ],
)
def test_how_far_something_is_from_the_base(verdict: str, ratios: list[tuple[float | None, str]], words: str) -> None:
    assert change(ratios, verdict) == words


def answer(kind: str, *rows: AnswerRow, **changed: Any) -> ComparisonAnswer:
    fields: dict[str, Any] = {
        "kind": kind, "side": "b", "base": "a", "of_devices": False, "runs": [3, 3], "points": 442,
        "counts": {SAME: 442}, "differing": 0,
    }  # fmt: skip
    return ComparisonAnswer(**fields | changed, rows=rows)


SAME_CPU = alike("CPU", ALIKE, within=0.03)
FEW = "can't distinguish a change from run-to-run variation."


@pytest.mark.parametrize(
    ("of", "words"),
    [
        (
            answer(COMPARED, SAME_CPU),
            "new against old, by the weighted median of each experiment: CPU equal within 3 %. "
            "No clear difference in any of 442 points.",
        ),
        (
            answer(COMPARED, alike("CPU", SLOWER, experiment(1.03)), runs=[1, 1], differing=1),
            "new against old, by the median of each experiment: CPU 3 % slower. "
            "No single point of 442 points differs clearly.",
        ),
        (
            answer(COMPARED, SAME_CPU, LOST, counts={FASTER: 2, SLOWER: 1, SAME: 1000, CANNOT_TELL: 3}, points=1006),
            "new against old, by the weighted median of each experiment: CPU equal within 3 %; cuda:3 is missing: "
            "7 of 8 GPUs are left (ECC error). Of 1006 points: 1 slower, 2 faster, 1,000 without a clear difference "
            "and 3 undecided.",
        ),
        (
            answer(
                FEW_RUNS,
                LOST,
                alike("CPU", CANNOT_TELL, experiment(1.25), experiment(1.5, better="higher")),
                alike("GPU", CANNOT_TELL, experiment(1.0)),
                place(example={"verdict": CANNOT_TELL}),
                runs=[1, 1],
                counts={SAME: 400, CANNOT_TELL: 42},
            ),
            f"new against old: cuda:3 is missing: 7 of 8 GPUs are left (ECC error); one run per side {FEW} Median "
            "of each experiment: CPU 1.25 times as slow to 1.50 times as fast, GPU 1.00 times as fast. 42 of 442 "
            "points differ by more than their samples vary. Largest differences: cuda:2 to cuda:5 is 47 % different "
            f"({SLOW_PAIR}19 of 32 points).",
        ),
        (
            answer(FEW_RUNS, runs=[2, 1]),
            f"new against old: one run against two {FEW} 0 of 442 points differ by more than their samples vary.",
        ),
        (
            answer(FEW_RUNS, runs=[1, 2]),
            f"new against old: two runs against one {FEW} 0 of 442 points differ by more than their samples vary.",
        ),
        *(
            (
                answer(kind, experiment(1.3), experiment(0.95), points=40, half_within=0.03, most_within=0.5),
                f"new against old: {kind}, by the median of each experiment: latency on cpu 1.30 times as slow; "
                "latency on cpu 1.053 times as fast. Of 40 points, half differ by at most 3 %, and 90 % by at most "
                "50 %.",
            )
            for kind in (PREDICTED, MEASURED, BOTH_PREDICTED)
        ),
        (answer(PREDICTED, points=0), "new against old: no values in common."),
        (
            answer(ALL_SIDES, counts={"sides": 7, "outliers": 0, "pairs": 0}),
            "7 sides, each against the median of all, in 442 points: no side differs clearly in the median of an "
            "experiment.",
        ),
        (
            answer(ALL_SIDES, counts={"sides": 7, "outliers": 1, "pairs": 0}),
            "7 sides, each against the median of all, in 442 points: 1 side differs from the others.",
        ),
        (
            answer(ALL_SIDES, counts={"sides": 7, "outliers": 1, "pairs": 2}, of_devices=True),
            "7 devices, each against the median of all, in 442 points: 1 device and 2 pairs differ from the others.",
        ),
        (answer(ONE_ROW, LOST), "cuda:3 is missing: 7 of 8 GPUs are left (ECC error)."),
        (
            answer(OUTLIER, LOST, experiment(1.3), experiment(1.2), experiment(1.1)),
            "new: cuda:3 is missing: 7 of 8 GPUs are left (ECC error); 1.30 times as slow in latency on cpu; 1.20 "
            "times as slow in latency on cpu and 1 more.",
        ),
        (answer(OUTLIER, experiment(0.8), of_devices=True), "new: 1.25 times as fast in latency."),
        (
            answer(FAR, experiment(1.3, CANNOT_TELL)),
            "new is far from the others in latency on cpu, but other programs used different amounts of CPU "
            "time: measure again with `firsttouch run --wait`.",
        ),
        (
            answer(PHASES, experiment(3.0, name="app nn: free"), experiment(0.5, name="app nn: allocate")),
            "Phases of applications, new against old: app nn: free 3.00 times as slow, app nn: allocate 2.00 times "
            "as fast.",
        ),
    ],
)
def test_an_answer_is_a_sentence_or_two(of: ComparisonAnswer, words: str) -> None:
    assert sentence(of, NAMES) == words


@pytest.mark.parametrize(
    ("regression", "words"),
    [
        (experiment(1.3), "latency on cpu as a whole: 1.30 times as slow (1.20 to 1.40)"),
        (LOST, "cuda:3 is missing: 7 of 8 GPUs are left (ECC error)"),
        (
            FailedPoint("b", "latency", "cpu", {"size": 4096}, "crashed"),
            "latency on cpu of new: crashed (size 4 KiB)",
        ),
    ],
)
def test_a_regression_is_a_line(regression: Regression, words: str, tmp_path: Path) -> None:
    two = compare_results([copy(tmp_path / "old"), copy(tmp_path / "new")])
    side = two.names[1]
    assert regression_text(msgspec.structs.replace(regression, side=side), two, {}) == words
    three = compare_results([*two.names, copy(tmp_path / "third")])
    assert "new" in regression_text(msgspec.structs.replace(regression, side=side), three, {})


def test_an_experiment_is_a_line_of_its_section() -> None:
    assert (
        group_line(experiment(1.3)) == "4 slower of 10 points, 1.30 times as slow (1.20 to 1.40) in the median, slower"
    )
    assert group_line(experiment(None, SAME)) == "– of 6 points"  # noqa: RUF001


@pytest.mark.parametrize(
    ("unit", "better", "ratio", "low", "high", "words"),
    [
        ("ns", "lower", 1.25, 1.2, 1.3, "1.25 times as slow (1.20 to 1.30)"),
        ("ns", "lower", 0.5, 0.4, 0.625, "2.00 times as fast (1.60 to 2.50)"),
        ("GB/s", "higher", 0.5, 0.4, 0.625, "2.00 times as slow (1.60 to 2.50)"),
        ("GB/s", "higher", 20, 16, 25, "20 times as fast (16 to 25)"),
        ("ns per load", "lower", 0.8, 0.5, 1.25, "1.25 times as fast (0.80 to 2.00)"),
        ("ns per load", "lower", 1.25, 0.8, 2, "1.25 times as slow (0.80 to 2.00)"),
        ("faults", "lower", 2, None, None, "2.00 times as high"),
        ("B", "neither", 0.5, None, None, "2.00 times as low"),
        ("ns", "lower", 1.0002, 0.999, 1.001, "the same (0.999 to 1.001)"),
        ("ns", "lower", None, None, None, "–"),  # noqa: RUF001
    ],
)
def test_one_reads_from_a_ratio_which_side_is_better(
    unit: str, better: str, ratio: float | None, low: float | None, high: float | None, words: str
) -> None:
    of = msgspec.structs.replace(experiment(), unit=unit, better=better, ratio=ratio, low=low, high=high)
    assert speed_text(of) == words
