"""The codebooks of experiments: everything that advice, plausibility and claims read of records is in them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from fake_devices import DISCRETE, GPU, OPENCL_GPU, PROCESSOR, amd, opencl
from tests.kept_runs import stored_runs

from firsttouch.apps import all_apps
from firsttouch.base.errors import Unsupported, UsageError
from firsttouch.comparison.papers.pooled import CONDITIONS
from firsttouch.experiments import all_experiments
from firsttouch.experiments.contract.base import Experiment, Factor
from firsttouch.experiments.contract.contract import factors_of, flaw
from firsttouch.experiments.contract.rules import Preset
from firsttouch.experiments.transfer import Transfer
from firsttouch.machine.switches import SWITCHES
from firsttouch.program.guidance import settings_of
from firsttouch.records.codebook import FILE, Codebook, codebook_of, codebooks
from firsttouch.records.papers.claims import Alike, Compare, Level, PaperClaim, Trend, Untestable, all_claims
from firsttouch.records.reading import load_results
from firsttouch.records.schema import NODE, DeviceInfo, Peer

sys.path.insert(0, str(Path(__file__).parents[1]))
from codebook import generated

HOST = msgspec.structs.replace(
    opencl(GPU),
    name="cpu",
    capabilities=msgspec.structs.replace(GPU, runs_kernels=False),
    facts={"nodes_with_processors": "0"},
    peers=[Peer(name="node0", access="direct", same_driver=True)],
)
DEVICES = (HOST, DISCRETE, opencl(GPU), opencl(OPENCL_GPU), opencl(PROCESSOR), amd())
OF_TESTS = {*SWITCHES, "ranks", NODE}
"""Factors of the runtime and of the launcher, which any experiment may have."""


def test_readers_have_the_codebooks_of_the_experiments() -> None:
    assert FILE.read_bytes() == generated(), "run: make codebook"


@pytest.mark.parametrize("experiment", all_experiments().values(), ids=lambda one: one.name)
def test_a_codebook_has_the_factors_and_the_values_of_its_experiment(experiment: Experiment) -> None:
    assert not flaw(type(experiment))
    found = set()
    for device in DEVICES:
        for preset in ("quick", "full"):
            with suppress(Unsupported):
                found |= {factor.name for factor in factors_of(experiment, device, preset)}
    assert set(experiment.codebook.factors) <= found


class Renamed(Transfer):
    """Copies whose factor `engine` has another name."""

    def factors(self, device: DeviceInfo, preset: Preset) -> list[Factor]:
        return [
            replace(factor, name="copier") if factor.name == "engine" else factor
            for factor in super().factors(device, preset)
        ]


class Reworded(Transfer):
    """Copies by an engine with another name."""

    def factors(self, device: DeviceInfo, preset: Preset) -> list[Factor]:
        return [
            replace(factor, values=["dma"]) if factor.name == "engine" else factor
            for factor in super().factors(device, preset)
        ]


def test_an_experiment_whose_factor_is_renamed_is_refused() -> None:
    """It would otherwise lack a price, or have a wrong one."""
    with pytest.raises(UsageError, match=r"transfer: .* 'copier'.* codebook"):
        factors_of(Renamed(), amd(), "quick")
    with pytest.raises(UsageError, match=r"'engine' .* 'dma'.* codebook"):
        factors_of(Reworded(), amd(), "quick")


def renamed(book: Codebook, old: str, new: str) -> Codebook:
    factors = {new if name == old else name: words for name, words in book.factors.items()}
    return msgspec.structs.replace(book, factors=factors)


@pytest.mark.parametrize(
    ("experiment", "factor", "users"),
    [
        ("transfer", "engine", {"traffic", "the price copy", "the price remote"}),
        ("bandwidth", "kernel", {"traffic"}),
        ("allocation", "call", {"the price allocation", "the price touched_free"}),
        ("pagefault", "scenario", {"touch", "the price first_touch"}),
        ("migration", "advice", {"the price prefetch", "the price advise"}),
        ("latency", "agent", {"load"}),
        ("atomics", "gpu_threads", {"gpu_threads_seen"}),
    ],
)
def test_a_factor_that_is_renamed_in_a_codebook_alone_is_a_flaw_of_all_that_use_it(
    experiment: str, factor: str, users: set[str]
) -> None:
    book = codebook_of(experiment)
    assert not book.flaws()
    flaws = renamed(book, factor, "another").flaws()
    assert users <= {text.partition(":")[0] for text in flaws}
    assert all(factor in text for text in flaws)


def test_a_counter_that_a_price_needs_is_in_the_codebook() -> None:
    book = codebook_of("migration")
    without = msgspec.structs.replace(book, counters=tuple(c for c in book.counters if not c.names("advise_ms")))
    assert any(flaw.startswith("the price advise: ") and "advise_ms" in flaw for flaw in without.flaws())


def read_by_claims(claim: PaperClaim) -> Iterator[str]:
    """The factors and counters that a claim reads."""
    test = claim.test
    assert not isinstance(test, Untestable)
    yield from test.where
    yield from test.counters
    match test:
        case Compare():
            yield from (*test.first, *test.second, *test.ignore, *test.at)
        case Alike():
            yield from (test.over, *test.at)
        case Trend():
            yield test.over
        case Level():
            yield from [test.per] if test.per else []


def of_application(claim: PaperClaim) -> set[str]:
    """The parameters, options and settings of buffers of the only application that a claim is about."""
    assert not isinstance(claim.test, Untestable)
    app = all_apps().get(str(claim.test.where.get("app")))
    if app is None:
        return set()
    settings = {name for d in app.declarations(app.sizes["tiny"]) for name in settings_of(d)}
    return {*app.sizes["default"], *app.options, *settings}


def test_claims_read_only_what_is_in_a_codebook() -> None:
    strange = [
        (claim.id, name)
        for claim in all_claims()
        if not isinstance(claim.test, Untestable)
        for name in read_by_claims(claim)
        if name not in {*OF_TESTS, *CONDITIONS, *of_application(claim)}
        and not codebook_of(claim.test.experiment).knows(name)
    ]
    assert not strange


@pytest.mark.slow
def test_committed_records_have_only_what_is_in_a_codebook() -> None:
    strange = set()
    for directory in sorted(path.parent for path in stored_runs("*/results.jsonl")):
        for record in load_results(directory).records:
            book = codebooks()[record.experiment]
            names = {name for name in record.factors if not book.open} - OF_TESTS
            strange |= {(record.experiment, name) for name in names if name not in book.factors}
            strange |= {(record.experiment, name) for name in record.counters if book.counter(name) is None}
    assert not strange
