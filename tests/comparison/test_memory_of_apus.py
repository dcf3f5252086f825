"""What the MI300A's paper states of peak memory, on made-up runs of one: by the machine's memory and its noise."""

from __future__ import annotations

import pytest
from tests.comparison.made_up import results_of, verdict_on

from firsttouch.comparison.papers.beside import beside
from firsttouch.records.papers.claims import all_claims
from firsttouch.records.schema import SCHEMA, Factors, Record, Scalar, Summary

GIB = 2**30
SAVED = {"backprop": 0.56, "hotspot": 0.6, "nn": 0.85, "srad": 0.9}
"""Peak memory relative to explicit, within the 10 to 44 % that the paper says are saved."""


def runs(noise: float, saved: dict[str, float]) -> list[Record]:
    """Runs of the four applications, whose peaks are off by so many times their size."""

    def record(app: str, strategy: str, peak: float) -> Record:
        counters: dict[str, Scalar] = {"peak_machine_bytes": int(peak), "peak_machine_noise_bytes": int(noise * peak)}
        return Record(
            schema=SCHEMA, experiment="app", device="hip:0", unit="ms", status="ok", counters=counters,
            factors=Factors({"app": app, "strategy": strategy, "size": 4 * GIB}),
            summary=Summary(n=3, median=1, p5=1, p95=1, min=1, max=1, ci_low=1, ci_high=1),
        )  # fmt: skip

    ratios = {"explicit": dict.fromkeys(saved, 1.0), "unified": saved}
    return [record(app, name, 8 * GIB * ratio) for name, of in ratios.items() for app, ratio in of.items()]


@pytest.mark.parametrize(
    ("noise", "saved", "verdict"),
    [
        (0.01, SAVED, "holds"),
        (0.2, SAVED, "no clear difference"),
        (0.01, {app: 1 / ratio for app, ratio in SAVED.items()}, "does not hold"),
    ],
)
def test_less_memory_is_claimed_only_where_the_noise_of_the_machine_is_smaller(
    noise: float, saved: dict[str, float], verdict: str
) -> None:
    (claim,) = (claim for claim in all_claims() if claim.id == "unified-saves-memory")
    assert verdict_on(claim, results_of("mi300a", runs(noise, saved))).verdict == verdict


def test_the_saving_stands_beside_that_of_the_paper_unless_it_is_noise() -> None:
    devices = results_of("mi300a").machine.devices
    found = [entry for entry in beside(runs(0.01, SAVED), devices) if "less peak memory" in entry.says]
    assert {entry.factors["app"]: round(entry.value, 2) for entry in found} == SAVED
    assert {entry.stated for entry in found} == {(0.56, 0.9)}
    assert not [entry for entry in beside(runs(0.2, SAVED), devices) if "less peak memory" in entry.says]
