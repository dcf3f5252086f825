"""Directories of `firsttouch try` as tests need them: findings with times, and an empty profile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.profile import profiles

from firsttouch.advice.tried.findings import (
    PredictedTime,
    TracedMemory,
    TriedResult,
    TriedStrategy,
    TriedTime,
    TryFindings,
)
from firsttouch.advice.tried.recorded import RunCounts
from firsttouch.advice.tried.stored import PROFILE, write_findings

MiB = 1 << 20


def result(
    strategy: TriedStrategy, seconds: Sequence[float], to_none: float = 1.0, predicted: PredictedTime | None = None
) -> TriedResult:
    """A strategy that was timed."""
    low, high = min(seconds), max(seconds)
    time = TriedTime(median=sorted(seconds)[len(seconds) // 2], low=low, high=high, samples=seconds)
    ratio = TriedTime(median=to_none, low=to_none - 0.01, high=to_none + 0.01, samples=[to_none] * len(seconds))
    return TriedResult(
        strategy=strategy,
        status="ok",
        time=time,
        ratio=None if strategy == "none" else ratio,
        compared=None if strategy == "none" else "faster" if to_none < 1 else "slower",
        predicted=predicted,
        counts=RunCounts(left_out=2, made=1, host_peak=100 * MiB, device_peak=64 * MiB),
        traced=TracedMemory(directory="t", device_peak=64 * MiB, device_source="device", pages_in=MiB, pages_back=0),
    )


def found(
    times: Mapping[TriedStrategy, Sequence[float]],
    predicted: Mapping[TriedStrategy, tuple[float, float, float]] | None = None,
    command: Sequence[str] = ("./app", "1"),
) -> TryFindings:
    """times: seconds of each strategy, and of 'none'. predicted: seconds, and the ends of their range."""
    none = sorted(times["none"])[len(times["none"]) // 2]
    rows = []
    for strategy, seconds in times.items():
        numbers = (predicted or {}).get(strategy)
        time = PredictedTime(seconds=numbers[0], low=numbers[1], high=numbers[2]) if numbers else None
        rows.append(result(strategy, seconds, sorted(seconds)[len(seconds) // 2] / none, time))
    return TryFindings(
        summary="app: what was found",
        directory="here",
        command=command,
        rounds=len(times["none"]),
        pairs=[],
        apart=[],
        checked=None,
        outputs=[],
        results=rows,
    )


def written(directory: Path, findings: TryFindings) -> Path:
    """The directory, with the header of a profile."""
    profiles.write(directory / PROFILE)
    write_findings(findings, directory)
    return directory
