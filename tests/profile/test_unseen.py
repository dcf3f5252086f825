"""The share of moves that no record shows: from what must have moved, and where it is said."""

from __future__ import annotations

import msgspec
import pytest
from tests.experiments.fake_records import a_record
from tests.findings import claims
from tests.texts import assert_states

from firsttouch.comparison.papers.comparisons import compared
from firsttouch.harness.outcomes import report
from firsttouch.harness.outcomes.app_findings import ONLY_EVENTS, of_application
from firsttouch.harness.outcomes.derive import derive
from firsttouch.profile.events import unseen
from firsttouch.records.papers.claims import Compare, Level
from firsttouch.records.schema import Record, Scalar
from firsttouch.report.draw import draw
from firsttouch.report.drawing import DrawingContext
from firsttouch.report.events import event_table
from firsttouch.report.palette import Palette

GIB = 1 << 30
FULL: dict[str, Scalar] = {
    "um_events": "recorded", "um_h2d_bytes": GIB, "um_h2d_fault_bytes": GIB, "um_d2h_bytes": 0, "um_gpu_faults": 900,
    "um_least_h2d_bytes": GIB, "um_least_d2h_bytes": 0, "um_compute_nothing_recorded_ms": 5.0,
    "um_compute_to_device_ms": 9.0,
}  # fmt: skip


def record(strategy: str = "managed", **counters: Scalar) -> Record:
    made = a_record("migration", 3.0, {"app": "black_scholes", "strategy": strategy, "events": "on"})
    return msgspec.structs.replace(made, experiment="app", counters={**FULL, **counters})


@pytest.mark.parametrize(
    ("counters", "share"),
    [
        ({}, 0.0),
        ({"um_h2d_bytes": 2 * GIB}, 0.0),  # pages that move again are no more than what must
        ({"um_h2d_bytes": 42 * GIB // 100}, 0.58),
        ({"um_h2d_bytes": 0}, 1.0),
        ({"um_h2d_bytes": GIB - 4096}, 0.0),
        ({"um_h2d_bytes": GIB // 2, "um_remote_map_bytes": GIB // 2}, 0.0),
        ({"um_h2d_bytes": GIB // 4, "um_remote_map_bytes": GIB // 2}, 0.5),
        ({"um_least_h2d_bytes": 0}, 0.0),
        ({"um_least_h2d_bytes": "many"}, 0.0),
        ({"um_least_h2d_bytes": -5}, 0.0),
    ],
)
def test_the_share_is_that_of_what_must_have_moved(counters: dict[str, Scalar], share: float) -> None:
    assert unseen.unseen(record(**counters), "h2d") == pytest.approx(share, abs=1e-9)
    assert unseen.is_complete(record(**counters)) == (share == 0)


@pytest.mark.parametrize(("seen", "complete"), [(GIB // 2, False), (GIB, True), (2 * GIB, True)])
def test_records_of_earlier_versions_are_lower_bounds_where_less_was_seen_than_declared(
    seen: int, complete: bool
) -> None:
    earlier = record(um_h2d_bytes=seen, um_h2d_fault_bytes=seen, copied_h2d_bytes=GIB)
    known = {name: v for name, v in earlier.counters.items() if not name.startswith("um_least")}
    earlier = msgspec.structs.replace(earlier, counters=known)
    assert unseen.is_complete(earlier) == complete
    table = event_table([earlier])
    assert table is not None
    assert any("at least" in str(cell) for row in table.rows for cell in row) != complete


def test_a_record_without_events_misses_nothing() -> None:
    assert unseen.in_words(a_record("migration", 3.0, {"app": "bfs"})) == ""


def test_the_table_gives_lower_bounds_and_the_share() -> None:
    table = event_table([record(), record("managed+advise", um_h2d_bytes=GIB // 2, um_h2d_fault_bytes=GIB // 2)])
    assert table is not None
    assert table.rows[0][1:3] == ["1 GiB: 1 GiB fault", "900"]
    moved, faults = table.rows[1][1:3]
    assert_states(str(moved), "at least 512 MiB", "at least 50 %", "not seen")
    assert faults == "at least 900"


def test_the_bars_say_what_is_missing() -> None:
    lossy = [record("managed+advise", um_h2d_bytes=share * GIB // 10, um_least_d2h_bytes=GIB) for share in (5, 8)]
    lossy[1] = msgspec.structs.replace(lossy[1], factors={**lossy[1].factors, "size": 1})
    (part,) = report.sections(derive([record(), *lossy]), {}, {})
    (figure,) = [f for f in part.figures if f.title == report.DRIVER.title]
    to_device, to_host = figure.note.split("; ")
    assert_states(to_device, "Not seen", "to the device", "at least 20 to 50 % (managed+advise)")
    assert_states(to_host, "to the host", "at least 100 % (managed+advise)")
    drawing = draw(figure, part.records, DrawingContext(None, Palette()))
    assert drawing is not None
    assert drawing.notes[0] == figure.note


def test_the_name_that_older_records_have_for_the_rest_is_not_shown() -> None:
    old = record()
    counters = {n.replace("nothing_recorded", "undisturbed"): v for n, v in old.counters.items()}
    (read,) = derive([msgspec.structs.replace(old, counters=counters)])
    assert [n for n in read.counters if n.startswith("um_compute")] == [
        "um_compute_nothing_recorded_ms",
        "um_compute_to_device_ms",
    ]


SAME = Compare(
    experiment="app", where={}, first={"strategy": "managed+prefetch"}, second={"strategy": "managed"}, relation="same",
    metric="um_h2d_bytes", exact=True,
)  # fmt: skip


@pytest.mark.parametrize(
    ("seen", "agrees"), [(GIB, "yes"), (GIB // 2, "unclear"), (3 * GIB, "no")], ids=["all", "half", "more"]
)
def test_claims_do_not_rest_on_counts_of_which_records_are_missing(seen: int, agrees: str) -> None:
    (found,) = compared(SAME, [record("managed+prefetch"), record(um_h2d_bytes=seen)])
    assert found.agrees == agrees
    assert ("at least 50 %" in found.about and "not seen" in found.about) == (agrees == "unclear")
    assert msgspec.json.decode(msgspec.json.encode(found))["ratio"]["value"] == pytest.approx(GIB / seen)


@pytest.mark.parametrize(("faults", "agrees"), [(0, "unclear"), (7, "no")])
def test_no_fault_among_the_records_is_no_proof_where_some_are_missing(faults: int, agrees: str) -> None:
    none = Level(experiment="app", where={}, metric="um_gpu_faults", low=0, high=0, exact=True)
    (found,) = compared(none, [record(um_gpu_faults=faults, um_h2d_bytes=GIB // 2)])
    assert found.agrees == agrees


def test_runs_that_all_record_events_are_told_as_such_and_not_as_wrong() -> None:
    apps = [msgspec.structs.replace(record(), factors={**record().factors, "app": app}) for app in ("bfs", "lud")]
    parts = report.sections(derive(apps), {}, {})
    assert [part.title for part in parts] == ["bfs", "lud"]  # no overview of nothing
    assert claims(of_application(derive(apps[:1]))) == [ONLY_EVENTS]
