"""The published results: strictly loaded, each with paper and section, and mapped to measurements that exist."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from typing import Any

import msgspec
import pytest
from tests.fabricated import MACHINES
from tests.kept_runs import stored_runs

from firsttouch.base.errors import Unsupported, UsageError
from firsttouch.comparison.papers.comparisons import values_of
from firsttouch.engine.values import parse_value
from firsttouch.engine.work_kinds import APP
from firsttouch.experiments import all_experiments
from firsttouch.experiments.contract.base import Factor
from firsttouch.machine.switches import SWITCHES
from firsttouch.records.codebook import codebook_of
from firsttouch.records.papers.files import MEDIAN, read
from firsttouch.records.papers.rows import (
    APPLICATIONS,
    Paper,
    PaperRow,
    all_rows,
    is_exception,
    numbers,
    papers,
    published,
    side_names,
    sides,
    stated_value,
)
from firsttouch.records.schema import Scalar

MAPPED = [row for row in all_rows() if row.here is not None]


def factors_of(experiment: str) -> Iterator[Mapping[str, Factor]]:
    """The factors of an experiment on each device of the described machines."""
    known = all_experiments()[experiment]
    for machine in MACHINES.values():
        for device in machine.devices:
            with suppress(Unsupported):
                yield {f.name: f for f in known.factors(device, "full")}


def accepts(factor: Factor | None, value: Scalar) -> bool:
    """Whether `--set` takes a value, or the one that "!self" leaves out. How many threads it takes depends on this
    machine's processors.
    """
    if factor is None:
        return False
    if factor.kind == "count" and isinstance(value, int):
        return value >= factor.least and value % factor.multiple == 0
    if is_exception(value):
        value = str(value)[1:]
    try:
        return parse_value(factor, str(value)) == value
    except (UsageError, ValueError):
        return False


class _Counted(msgspec.Struct):
    experiment: str
    counters: dict[str, Any]


@cache
def counters_of_results() -> set[tuple[str, str]]:
    """Every counter of the results in this repository, with its experiment, and those that none of them has yet."""
    found = {(APPLICATIONS, "peak_machine_bytes")}
    for path in stored_runs("*/results.jsonl"):
        for record in msgspec.json.Decoder(_Counted).decode_lines(path.read_bytes()):
            found |= {(record.experiment, name) for name in record.counters}
    return found


def test_every_row_has_paper_section_and_either_a_measurement_or_a_reason() -> None:
    assert len(all_rows()) == 967
    assert len({row.name for row in all_rows()}) == 967
    for row in all_rows():
        assert row.section, row.name
        assert row.paper in papers(), row.name
        assert bool(row.here) != bool(row.not_here), row.name


def test_each_reason_is_that_of_a_row() -> None:
    """A rule whose rows have all been mapped, or that others cover, is stale."""
    given = {row.not_here for row in all_rows()}
    assert {rule["reason"] for rule in read("reasons.json", list[dict[str, Any]])} <= given


@pytest.mark.parametrize("experiment", sorted({row.here.experiment for row in MAPPED if row.here} - {APPLICATIONS}))
def test_mapped_factors_and_values_exist(experiment: str) -> None:
    devices = list(factors_of(experiment))
    for row in MAPPED:
        here = row.here
        if here is None or here.experiment != experiment:
            continue
        other = here.factors | here.relative_to
        for point in (here.factors, other):
            for name, wanted in point.items():
                for value in values_of(wanted):
                    switch = name in SWITCHES and value in SWITCHES[name].values
                    accepted = switch or any(accepts(factors.get(name), value) for factors in devices)
                    assert accepted, (row.name, name, value)
        assert here.metric_version == all_experiments()[experiment].metric.version, row.name
        if here.metric == MEDIAN and here.unit != "ratio":
            assert here.unit == all_experiments()[experiment].metric.unit, row.name


def test_mapped_applications_and_strategies_exist() -> None:
    from firsttouch.program.strategies import STRATEGIES

    for row in MAPPED:
        if row.here is not None and row.here.experiment == APPLICATIONS:
            assert set(values_of(row.here.factors["app"])) <= set(APP.names()), row.name
            strategies = [*values_of(row.here.factors["strategy"]), row.here.relative_to.get("strategy", "explicit")]
            assert set(strategies) <= set(STRATEGIES), row.name


def test_mapped_counters_exist() -> None:
    known = counters_of_results()
    for row in MAPPED:
        if row.here is not None and row.here.metric != MEDIAN:
            counted = codebook_of(row.here.experiment).knows(row.here.metric)
            assert counted or (row.here.experiment, row.here.metric) in known, row.name


def test_a_value_is_given_in_the_unit_of_the_measurement() -> None:
    def ours(name: str) -> tuple[float, float] | None:
        return numbers(next(row for row in all_rows() if row.name == name))

    assert ours("mi300a-upm/bandwidth.gpu.hipmalloc") == (3500, 3600)  # 3.5 to 3.6 TB/s
    assert ours("mi300a-upm/allocation.hipmalloc.1g") == (37e6, 37e6)  # 37 ms
    assert ours("mi300a-upm/application.backprop.compute") == pytest.approx((0.65, 0.65))  # 35 % less
    assert ours("mi300a-upm/codegen.gpu.atomics") is None
    assert ours("integrated-2017/cache.kaveri.coherence-overhead") == (0.75, 0.85)  # 15 to 25 % of the throughput lost


@pytest.mark.parametrize(
    ("name", "low", "qualifier"),
    [
        ("integrated-2017/bandwidth.tk1.cpu.hostalloc-loss", 0.5, "below"),  # more than 50 % are lost
        ("integrated-2017/bandwidth.kaveri.large.hsa-loss", 0.9, "about"),
        ("mi300a-node/p2p-copy.latency.memcpy-small", 0.1, "below"),
    ],
)
def test_a_hedge_of_a_loss_is_turned_round_with_it(name: str, low: float, qualifier: str) -> None:
    value = stated_value(next(row for row in all_rows() if row.name == name))
    assert value is not None
    assert (value.low, value.qualifier) == (low, qualifier)


def test_a_search_finds_words_in_any_field_and_any_order() -> None:
    found = published("TRIAD hipMalloc gpu").rows
    assert "bandwidth.gpu.hipmalloc" in {row.id for row in found}
    assert len(published("latency").rows) < len(published().rows)
    with pytest.raises(UsageError, match=r"did you mean 'latency'\?"):
        published("latncy")
    with pytest.raises(UsageError, match="--search is empty"):
        published(" ")


def test_the_json_has_rows_with_every_field() -> None:
    data = msgspec.to_builtins(published("pagefault.latency.cpu-mean"))
    assert list(data) == ["schema", "firsttouch", "summary", "rows"]
    row = next(row for row in data["rows"] if row["id"] == "pagefault.latency.cpu-mean")
    assert (row["paper"], row["section"], row["value"], row["unit"]) == ("mi300a-upm", "Sec. V-B", 9, "us")
    assert row["here"]["metric"] == "mean_ns"
    assert msgspec.convert(row, PaperRow) == msgspec.convert(data["rows"][data["rows"].index(row)], PaperRow)


def test_sides_are_values_of_a_paper_or_a_platform() -> None:
    found = {side.id: side for side in sides("mi300a-upm")}
    triad = found["bandwidth.gpu.hipmalloc"]
    assert (triad.low, triad.high, triad.unit, triad.factors["allocator"]) == (3500, 3600, "GB/s", "device")
    assert triad.source == "Wahlgren et al. 2025, Sec. IV-B, on AMD Instinct MI300A"
    assert {side.paper for side in sides("gh200")} == {"grace-hopper"}
    assert set(side_names()) >= {"mi300a-upm", "grace-hopper", "gh200", "mi300a"}
    with pytest.raises(UsageError, match=r"no published results 'mi300' \(did you mean 'mi300a'\?\); accepted: "):
        sides("mi300")
    with pytest.raises(UsageError, match=r"'cuda-um-2019' states no value .* only relations"):
        sides("cuda-um-2019")


def test_an_unknown_field_of_a_file_is_refused() -> None:
    name = "mi300a-upm.json"
    data = msgspec.to_builtins(read(name, Paper))
    data["rows"][0]["colour"] = "red"
    with pytest.raises(msgspec.ValidationError, match="colour"):
        msgspec.convert(data, Paper)
