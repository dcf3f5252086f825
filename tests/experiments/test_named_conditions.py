"""No finding of any experiment compares records that differ in a factor which its sentence does not name, and no figure
draws such records as one.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pytest
from fake_devices import DISCRETE, PROCESSOR, opencl
from fake_records import a_record
from tests.fabricated import MACHINES
from tests.matrix import matrix

from firsttouch.base.errors import UsageError
from firsttouch.engine.plan import make_plan
from firsttouch.engine.planned import Planned
from firsttouch.experiments import all_experiments
from firsttouch.model.platform import load_platform
from firsttouch.records.figures import Bar, Figure, Heat, Line
from firsttouch.records.findings import EVERY, Finding
from firsttouch.records.reading import key_of
from firsttouch.records.schema import SCHEMA, DeviceInfo, Party, Record, Request, Scalar
from firsttouch.records.statistics import group_by
from firsttouch.records.text import label
from firsttouch.report import points
from firsttouch.report.answers import answered
from firsttouch.report.roles import assign
from firsttouch.report.sentences import sentences

EXTRA = "firmware"
"""A factor that no experiment knows."""
DEVICES: dict[str, list[DeviceInfo]] = {
    "apus": load_platform("mi300a-node").under({"xnack": "1"}).own_devices()[1:3],
    "gpu": [DISCRETE],
    "cpu": [MACHINES["pascal"].devices[0]],
    "processor": [opencl(PROCESSOR)],
}
TIMES = ("prefetch_back_ms", "copy_in_ms", "advise_ms", "initialise_ms", "cpu_alone_ms", "gpu_alone_ms", "overlap",
         "latency_us", "new_pages_us", "new_pages_low_us", "new_pages_high_us", "update_ns", "entry_ns", "mean_ns",
         "p95_ns", "translated_ns", "misses_per_mib", "bus_gbs", "cpu_relative", "gpu_relative", "read_ratio",
         "cpu_share", "exchange_ms", "compute_most_gpu_fault_groups")  # fmt: skip


def counters(factors: dict[str, Scalar], chance: random.Random) -> dict[str, Scalar]:
    """Counters of every experiment with values of any size."""
    made: dict[str, Scalar] = {name: 10 ** chance.uniform(0, 4) for name in TIMES}
    passes = factors.get("iterations")
    made |= {f"iteration_{n}_ms": 10 ** chance.uniform(0, 4) for n in range(passes if isinstance(passes, int) else 0)}
    made |= {f"{step}_{name}": chance.choice([0, 2**30]) for step in ("call", "touch") for name in ("headline", "rss")}
    made |= {"case": "a case", "family": chance.choice(["base", "allocator", "advice", "operation"])}
    return made | {"cached": chance.random() < 0.5, "made": chance.choice(["native", "loop"]), "page_bytes": 4096}


def planned_points(experiment: str, devices: list[DeviceInfo], preset: str) -> list[Planned]:
    known = all_experiments()[experiment]
    devices = devices if known.across_devices or known.ranks else devices[:1]
    switches: dict[str, Any] = {"xnack": ["0", "1"]} if devices[0].kind == "hip" and known.planning.switches_of else {}
    request = Request(
        schema=SCHEMA, experiments=[experiment], devices=[d.name for d in devices], preset=preset, seed=1, set=switches,
        ranks=2 if known.ranks else None,
    )  # fmt: skip
    return [planned for planned in make_plan(request, devices, all_experiments(), {}) if not planned.reason]


def made_up(experiment: str, devices: list[DeviceInfo], preset: str, chance: random.Random) -> list[Record]:
    """Records of the points that a preset plans, with values of any size."""
    records = []
    for planned in planned_points(experiment, devices, preset):
        factors = dict(planned.point.factors)
        spread = chance.choice([0.001, 0.01, 0.4])
        record = a_record(experiment, 10 ** chance.uniform(0, 6), factors, spread, **counters(factors, chance))
        ranked = all_experiments()[experiment].ranks
        names = (planned.point.device, str(factors.get("peer"))) if ranked else ()
        parties = [Party(device=name, host="a") for name in names]
        records.append(msgspec.structs.replace(record, device=planned.point.device, parties=parties))
    return chance.sample(records, min(len(records), 80))


def with_extra(records: Sequence[Record], value: str, times: float) -> list[Record]:
    """The records under another value of the unknown factor, all of their values so many times as high."""
    changed = []
    for record in records:
        assert record.summary is not None
        summary = msgspec.structs.asdict(record.summary)
        scaled = {name: v if name == "n" else v * times for name, v in summary.items()}
        changed.append(
            msgspec.structs.replace(
                record, factors={**record.factors, EXTRA: value}, summary=type(record.summary)(**scaled)
            )
        )
    return changed


def findings_of(records: Sequence[Record], devices: Sequence[DeviceInfo]) -> Iterator[Finding]:
    for part in answered(records, devices, all_experiments()):
        assert not part.answer.problem.startswith("Nothing could be derived"), part.answer.problem
        for figure in part.section.figures:
            draws_points_apart(figure, part.section.records)
        yield from part.answer.findings


def draws_points_apart(figure: Figure, records: Sequence[Record]) -> None:
    """No two points share a place, a colour, a dash and a panel."""
    if not isinstance(figure, Line | Bar | Heat):
        return
    amount, axes = (figure.z, (figure.x, figure.y)) if isinstance(figure, Heat) else (figure.y, (figure.x,))
    shown = points.complete(points.select(figure, records), amount, *axes)
    looks: dict[str, Any] = {"colour": figure.colour} if isinstance(figure, Line | Bar) else {}
    looks |= {"dash": figure.dash} if isinstance(figure, Line) else {"apart": axes}
    roles = assign(shown, axes=(*axes, amount), facet=figure.facet, **looks)
    assert all(len(same) == 1 for same in group_by(shown, *roles.names, *axes).values()), figure


def points_of(keys: Sequence[str]) -> list[dict[str, Scalar]]:
    return [msgspec.json.decode(key)[2] for key in keys]


def names_all_that_differs(finding: Finding) -> None:
    text = sentences([finding])[0]
    mine = points_of(finding.points)
    others = points_of(finding.comparison.points) if finding.comparison else []
    if EVERY in finding.claim.names:
        return
    for name in {name for point in (*mine, *others) for name in point}:
        values = {label(name, point.get(name)) for point in (*mine, *others)}
        if len(values) > 1 and name not in finding.claim.names:
            assert all(value.lower() in text.lower() for value in values), (name, values, text)


CASES = [(name, preset, device) for preset in ("quick", "standard") for device in DEVICES for name in all_experiments()]
FIRST = [case for case in CASES if case[1:] == ("quick", "apus")]
REST = [case for case in CASES if case not in FIRST]


@pytest.mark.parametrize(("experiment", "preset", "device"), matrix([*FIRST, *REST], len(FIRST)))
@pytest.mark.slow
def test_what_findings_compare_differs_in_what_they_name(experiment: str, preset: str, device: str) -> None:
    chance = random.Random(f"{experiment} {preset} {device}")
    try:
        rows = made_up(experiment, DEVICES[device], preset, chance)
    except UsageError as error:  # such a device has no points of the experiment
        pytest.skip(str(error))
    mixed = [*with_extra(rows, "a", 1), *with_extra(rows, "b", 1000)]
    found = list(findings_of(mixed, DEVICES[device]))
    for finding in found:
        names_all_that_differs(finding)
        others = finding.comparison.points if finding.comparison else ()
        (value,) = {point[EXTRA] for point in points_of([*finding.points, *others])}
        assert f"{EXTRA} {value}" in sentences([finding])[0]
    for value, times in (("a", 1), ("b", 1000)):
        alone = list(findings_of(with_extra(rows, value, times), DEVICES[device]))
        of_value = [f for f in found if f.stated[EXTRA] == value]
        same = [(f.claim.id, f.value, f.points) for f in alone]
        if any("sdma" in r.factors and "xnack" in r.factors for r in rows):  # too many groups: the fullest are told
            assert all((f.claim.id, f.value, f.points) in same for f in of_value)
        else:
            assert [(f.claim.id, f.value, f.points) for f in of_value] == same
        assert not any(EXTRA in sentence for sentence in sentences(alone))


def with_another_value(records: Sequence[Record], name: str, words: Sequence[str]) -> list[Record]:
    """The records under another value of a known factor, all of their values a thousand times as high."""
    changed = {key_of(record): record for record in records}
    for record in records:
        value = record.factors.get(name)
        others: list[Scalar] = [word for word in words if word != value]
        if isinstance(value, int):
            others = [2 * value or 1]
        if value is not None and others:
            (scaled,) = with_extra([record], "", 1000)
            factors: dict[str, Scalar] = {**record.factors, name: others[0]}
            other = msgspec.structs.replace(scaled, factors=factors)
            changed.setdefault(key_of(other), other)
    return list(changed.values())


NOT_VARIED = ("allocator", "source", "target", "peer", "node", "iterations")
"""Names of memory and of devices, and the number of counters of a record."""
QUICK = [(name, device) for name in ("accounting", "allocation", "bandwidth") for device in ("gpu",)]
MORE = [(name, device) for device in DEVICES for name in all_experiments() if (name, device) not in QUICK]


@pytest.mark.parametrize(("experiment", "device"), matrix([*QUICK, *MORE], len(QUICK)))
def test_another_value_of_a_known_factor_is_named_too(experiment: str, device: str) -> None:
    try:
        rows = made_up(experiment, DEVICES[device], "quick", random.Random(experiment))
    except UsageError as error:
        pytest.skip(str(error))
    for name, words in all_experiments()[experiment].codebook.factors.items():
        if name not in NOT_VARIED:
            for finding in findings_of(with_another_value(rows, name, list(words)), DEVICES[device]):
                names_all_that_differs(finding)
