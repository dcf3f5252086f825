"""What the docs say of the profiles under results, which were taken on an NVIDIA H200."""

from __future__ import annotations

import hashlib

import msgspec
import pytest
from tests.kept_runs import stored_run

from firsttouch.profile.reading import read
from firsttouch.profile.summarise import summarise
from firsttouch.profile.timelines import read_courses
from firsttouch.records.reading import load_results
from firsttouch.records.timeline import MemoryCourse

MiB, GiB = 1 << 20, 1 << 30


def test_a_program_whose_moves_are_known() -> None:
    trace = summarise(read(stored_run("h200-profile"))).trace
    assert trace is not None
    assert (trace.unified.h2d.bytes, trace.unified.d2h.bytes) == (64 * MiB, 96 * MiB)
    copied = {of.direction: (of.records, of.bytes) for of in trace.copies}
    assert copied == {"h2d": (10, 160 * MiB), "d2h": (5, 40 * MiB), "set": (1, 48 * MiB)}
    assert (trace.kernels, trace.allocations, trace.missing, trace.lost) == (2, 4, 0, 0)
    managed = [of for of in trace.sites if of.place.function == "allocate_managed(unsigned long)"]  # of two calls
    assert sum(of.unified.h2d.bytes for of in managed if of.unified is not None) == 64 * MiB
    phases = {phase.name: phase.unified for phase in trace.phases}
    assert phases["to the GPU"].h2d.bytes == 64 * MiB


def test_a_journal_of_version_1_gives_the_summary_that_it_gave_when_there_was_no_other() -> None:
    """But for what was added to summaries since, and for the peak of the GPU, which is the program's own."""
    summary = msgspec.structs.replace(summarise(read(stored_run("h200-profile-1"))), firsttouch="", directory="")
    plain = msgspec.to_builtins(summary)
    plain["summary"] = plain["summary"].replace("at least 578 MiB on", "715 MiB on")
    plain["trace"]["alive"][0]["t"] = summary.gpus[0].peak.t if summary.gpus[0].peak else None
    later = (
        *(
            (plain, ["by_line"]),
            (plain["host"], ["least", "most", "may_be_more"]),
            (plain["touches"], ["of_python", "sure"]),
        ),
        (plain["trace"], ["by_process", "damaged", "unfinished", "failed", "untimed"]),
        (plain["gpus"][0], ["allocated", "peak_of"]),
        *((row["place"], ["near"]) for row in (*plain["trace"]["sites"], *plain["trace"]["alive"][0]["rows"])),
    )
    for part, names in later:
        for name in names:
            del part[name]
    assert hashlib.sha256(msgspec.json.encode(plain)).hexdigest()[:16] == "cd75764653cc442b"


@pytest.fixture(scope="module")
def courses() -> dict[tuple[str, str], MemoryCourse]:
    directory = stored_run("h200-timelines")
    results = load_results(directory)
    found, problems = read_courses(directory, results.records, results.machine.devices)
    assert not problems
    peaks = [record.counters["peak_device_bytes"] for record in results.records]
    assert all(isinstance(peak, int) and 4 * GiB <= peak < 4.01 * GiB for peak in peaks)
    return {
        (str(r.factors["app"]), str(r.factors["strategy"])): found[str(r.counters["timeline"])] for r in results.records
    }


def change(course: MemoryCourse, name: str, readings: object) -> float:
    """By how much memory in use changed from the begin of a phase to its end."""
    phase = next(phase for phase in course.phases if phase.name == name)
    assert isinstance(readings, list)
    first = [value for t, value in readings if t <= phase.start][-1]
    return float([value for t, value in readings if t <= phase.end][-1] - first)


@pytest.mark.parametrize("strategy", ["managed", "managed+prefetch"])
def test_hotspot_moves_to_the_device_in_compute(courses: dict[tuple[str, str], MemoryCourse], strategy: str) -> None:
    """Temperature and power, two thirds of the footprint, leave the host; all of it is on the device then."""
    course = courses["hotspot", strategy]
    assert change(course, "compute", course.host) == pytest.approx(-4 * GiB * 2 / 3, rel=0.05)
    assert change(course, "compute", course.device) == pytest.approx(4 * GiB, rel=0.05)


def test_quantum_volume_is_on_the_device_after_initialise(courses: dict[tuple[str, str], MemoryCourse]) -> None:
    course = courses["quantum_volume", "managed"]
    assert change(course, "initialise", course.device) == pytest.approx(4 * GiB, rel=0.05)
    assert max(value for _, value in course.host) < 2 * MiB
