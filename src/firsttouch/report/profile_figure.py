"""What the figure of a profile shows: one panel for the host, one for each GPU, one for page faults, and the phases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from firsttouch.base.units import format_seconds, format_size
from firsttouch.profile import schema
from firsttouch.profile.content import Profile, ProfiledProcess
from firsttouch.profile.curves import Curve
from firsttouch.profile.gpu_curves import own_of, rise_of, rise_of_all
from firsttouch.profile.phase_rows import phases_of
from firsttouch.profile.phases import TargetPhase
from firsttouch.profile.segments import FALLING, FLAT, RISING, SOURCE
from firsttouch.profile.summary import ProfileSummary
from firsttouch.report.palette import COLOURS, Palette
from firsttouch.report.profile_panels import MOST_READINGS, Band, Instant, MemoryFigure, Panel, Series, plain, when

MOST_LINES = 8
"""The most lines of a panel."""
MOST_GPUS = 8
MOST_ROWS = 6
"""The most rows of phases."""
MOST_INSTANTS = 200
MOST_OVERLAID = 12
"""The most profiles that one figure shows."""
_FOUND = {RISING: "#D55E00", FLAT: "#808080", FALLING: "#0072B2"}
_MOST_DOTS = 200
_FAULT_SPANS = 240
"""The most spans of time for which faults per second are drawn."""


def figure_of(profile: Profile, summary: ProfileSummary) -> tuple[MemoryFigure, list[str]]:
    """The figure of one profile, and sentences on what it leaves out."""
    notes: list[str] = []
    panels = [_host(profile, summary, notes), *_gpus(profile, summary, notes), _fault_panel(profile)]
    bands = _bands(profile, notes)
    marks = [mark for mark in profile.marks if mark.kind == "instant"]
    if len(marks) > MOST_INSTANTS:
        notes.append(f"The first {MOST_INSTANTS} of {len(marks):,} instants are drawn.")
    instants = [Instant(mark.name, mark.t, f"instant-{i}") for i, mark in enumerate(marks[:MOST_INSTANTS])]
    return MemoryFigure([panel for panel in panels if panel], profile.seconds, bands, instants), notes


# ------------------------------------------------------------------------------------------------------------- host


def _host(profile: Profile, summary: ProfileSummary, notes: list[str]) -> Panel | None:
    total = profile.curve("total", "resident")
    if total is None or not len(total):
        return None
    several = len(profile.processes) > 1
    peak = summary.host.peak
    series = [
        Series(
            "all processes" if several else "resident",
            total.thinned(MOST_READINGS),
            COLOURS[0],
            width=2.0,
            peak=total.peak,
            about=_about(peak.t, peak.phase) if peak else (),
        )
    ]
    pss = profile.curve("total", "pss")
    if several and pss is not None and len(pss):
        series.append(Series("PSS, now and then", pss.thinned(_MOST_DOTS), COLOURS[0], dots=True))
    if several:
        largest = sorted(profile.processes.values(), key=lambda process: -(process.peak or 0))
        shown = largest[: MOST_LINES - len(series)]
        if len(largest) > len(shown):
            notes.append(f"Of {len(largest):,} processes, the {len(shown)} largest have a line of their own.")
        for process, colour in zip(shown, COLOURS[1:], strict=False):
            readings = readings_of(profile, process)
            if readings:
                series.append(Series(name_of(process), readings, colour, ended=process.ended is not None))
    return Panel("host", "Host: resident memory", series, height=190)


def readings_of(profile: Profile, process: ProfiledProcess) -> list[tuple[float, float]]:
    """The resident memory of a process, with none after its end."""
    curve = profile.curve(f"process:{process.key}", "resident")
    if curve is None or not len(curve):
        return []
    readings = curve.thinned(MOST_READINGS)
    return [*readings, (max(process.ended, readings[-1][0]), 0.0)] if process.ended is not None else readings


def name_of(process: ProfiledProcess) -> str:
    return f"{plain(process.name, 15) or 'process'} {process.pid}"


def _about(t: float, phase: str) -> list[str]:
    return [f"at {when(t)}", *([f"in {phase}"] if phase else [])]


# -------------------------------------------------------------------------------------------------------------- GPUs


def _gpus(profile: Profile, summary: ProfileSummary, notes: list[str]) -> list[Panel]:
    """The GPUs whose memory changed, those that changed most first if there are many."""
    panels: list[tuple[float, Panel]] = []
    unchanged = []
    for gpu, row in zip(profile.header.gpus, summary.gpus, strict=True):
        rise = rise_of(profile, gpu)
        if rise is None:
            continue
        span = max(rise.values) - min(0.0, *rise.values)
        if span == 0:
            unchanged.append(gpu.name)
            continue
        about = _about(row.rise.t, row.rise.phase) if row.rise else []
        of_all = None if row.only_own else rise
        panels.append((span, _gpu_panel(gpu, of_all, own_of(profile, gpu.name), about)))
    if unchanged and panels:
        notes.append(f"The memory of {', '.join(unchanged[:8])}{', …' * (len(unchanged) > 8)} did not change.")
    if len(panels) > MOST_GPUS:
        notes.append(f"Of {len(panels)} GPUs, the {MOST_GPUS} that changed most are drawn.")
        panels = sorted(panels, key=lambda pair: -pair[0])[:MOST_GPUS]
    return [panel for _, panel in panels]


def _gpu_panel(gpu: schema.ProfiledGpu, rise: Curve | None, program_curve: Curve | None, about: Sequence[str]) -> Panel:
    """rise: that of all programs, None if it is not known."""
    before = f", over the {format_size(gpu.before.used, 3)} used before" if gpu.before.used is not None else ""
    series = []
    if rise is not None:
        of_all = rise.thinned(MOST_READINGS)
        series.append(Series("all programs", of_all, COLOURS[1], width=2.0, peak=rise.peak, about=about))
    if program_curve is not None:
        mine = program_curve.thinned(MOST_READINGS)
        if rise is None:
            series.append(Series("this program", mine, COLOURS[2], peak=program_curve.peak, about=about))
        else:  # processes are read less often, so that a value may not hold until the next one
            series.append(Series("this program, when read", mine, COLOURS[2], dots=True))
    model = f" ({gpu.model})" if gpu.model else ""
    return Panel(key(gpu.name), f"{gpu.name}{model}: memory{before}", series, height=120)


def key(name: str) -> str:
    """A name as letters and digits."""
    return "".join(c if c.isascii() and c.isalnum() else "-" for c in name)


# ------------------------------------------------------------------------------------------------------------ faults


def _fault_panel(profile: Profile) -> Panel | None:
    series = []
    for column, colour in (("minor", COLOURS[4]), ("major", COLOURS[3])):
        curve = profile.curve("total", column)
        if curve is None or not len(curve) or (column == "major" and curve.values[-1] == curve.values[0]):
            continue
        rates = per_second(curve, profile.seconds, profile.header.interval)
        if rates:
            series.append(Series(column, rates, colour, shows_values=True))
    return Panel("faults", "Page faults per second", series, height=70, unit="/s") if series else None


def per_second(curve: Curve, until: float, interval: float) -> list[tuple[float, float]]:
    """The growth of a counter per second, in equal spans of time of at least two intervals."""
    start = curve.times[0]
    spans = min(_FAULT_SPANS, int((until - start) / max(2 * interval, 1e-6)))
    if spans < 1:
        return []
    width, last, rates = (until - start) / spans, curve.values[0], []
    for i in range(spans):
        value = curve.at(start + (i + 1) * width)
        growth = max(0.0, (last if value is None else value) - last)
        rates.append((start + i * width, growth / width))
        last = last if value is None else max(last, value)
    return rates


# ------------------------------------------------------------------------------------------------------------ phases


def _bands(profile: Profile, notes: list[str]) -> list[Band]:
    phases, is_found = phases_of(profile)
    names = dict.fromkeys(phase.name for phase in phases)
    colours = dict(zip(names, Palette().styles("phase", names)[0], strict=True))
    if is_found:
        colours = {name: _FOUND[name] for name in names}
        notes.append(
            "The target named no phases; the bands are spans in which its resident memory rose, stayed or fell."
        )
    placed, left_out = rows_of(phases)
    if left_out:
        notes.append(f"{left_out:,} phases of further threads or depths are not drawn.")
    return [
        Band(phase.name, phase.start, phase.end, row, colours[phase.name], f"phase-{i}", phase_details(phase))
        for i, phase, row in placed
    ]


def phase_details(phase: TargetPhase) -> list[str]:
    """What is said about a phase where it is pointed at."""
    span = f"{when(phase.start)} to {when(phase.end)}, {format_seconds(phase.seconds)}"
    where = [] if phase.source == SOURCE else [f"process {phase.pid}" + f", thread {phase.thread}" * bool(phase.thread)]
    return [span, *(["its end was not seen"] if phase.open else []), *where]


def rows_of(phases: Sequence[TargetPhase]) -> tuple[list[tuple[int, TargetPhase, int]], int]:
    """The phases with their numbers and the row of each, and how many have no room. Each thread has rows of its own, by
    depth; the thread whose phases cover most time is the first.
    """
    groups: dict[tuple[int, int], list[tuple[int, TargetPhase]]] = {}
    for i, phase in enumerate(phases):
        groups.setdefault((phase.pid, phase.thread), []).append((i, phase))
    placed: list[tuple[int, TargetPhase, int]] = []
    base = left_out = 0
    for group in sorted(groups.values(), key=_covered, reverse=True):
        used = 0
        for i, phase, row in _lanes(group):
            if base + row < MOST_ROWS:
                placed.append((i, phase, base + row))
                used = max(used, row + 1)
            else:
                left_out += 1
        base += used
    return placed, left_out


def _covered(group: Iterable[tuple[int, TargetPhase]]) -> float:
    """The time that phases of a thread cover."""
    covered = until = 0.0
    for _, phase in group:
        covered += max(0.0, phase.end - max(until, phase.start))
        until = max(until, phase.end)
    return covered


def _lanes(group: Iterable[tuple[int, TargetPhase]]) -> Iterable[tuple[int, TargetPhase, int]]:
    """The phases of a thread, each in the first row that is free when it begins."""
    free: list[float] = []
    for i, phase in sorted(group, key=lambda pair: (pair[1].start, -pair[1].end)):
        row = next((n for n, until in enumerate(free) if until <= phase.start), len(free))
        free[row : row + 1] = [phase.end]
        yield i, phase, row


# ---------------------------------------------------------------------------------------------------------- overlays


def overlay(profiles: Mapping[str, Profile], summaries: Mapping[str, ProfileSummary]) -> tuple[MemoryFigure, list[str]]:
    """Several profiles over one another, by their short names: a panel for the host and one for each GPU."""
    notes = ["Each profile begins at zero."]
    shown = list(profiles)
    if len(shown) > MOST_OVERLAID:
        shown = sorted(sorted(shown, key=lambda name: -_host_peak(summaries[name]))[:MOST_OVERLAID], key=shown.index)
        notes.append(f"Of {len(profiles)} profiles, the {MOST_OVERLAID} with the largest peaks on the host are drawn.")
    colours = dict(zip(shown, COLOURS, strict=False))
    host = [
        _whole_run(name, profiles[name], curve, colours[name], _peak_of(summaries[name]))
        for name in shown
        if (curve := profiles[name].curve("total", "resident")) is not None and len(curve)
    ]
    panels = [Panel("host", "Host: resident memory of all processes", host, height=230)] if host else []
    names = dict.fromkeys(gpu.name for name in shown for gpu in profiles[name].header.gpus)
    for gpu_name in list(names)[:MOST_GPUS]:
        gpus = {name: gpu for name in shown for gpu in profiles[name].header.gpus if gpu.name == gpu_name}
        rises = {name: rise_of_all(profiles[name], gpu) for name, gpu in gpus.items()}
        title = f"{gpu_name}: memory of all programs over the reading before"
        if not any(rises.values()):
            rises = {name: own_of(profiles[name], gpu_name) for name in gpus}
            title = f"{gpu_name}: memory of the profiled programs"
        series = [
            _whole_run(name, profiles[name], rise, colours[name])
            for name, rise in rises.items()
            if rise is not None and any(rise.values)
        ]
        if series:
            panels.append(Panel(key(gpu_name), title, series, height=170))
    return MemoryFigure(panels, max(profiles[name].seconds for name in shown)), notes


def _whole_run(name: str, profile: Profile, curve: Curve, colour: str, about: Sequence[str] = ()) -> Series:
    """The line of a profile, until its end."""
    readings = [*curve.thinned(MOST_READINGS), (max(profile.seconds, curve.times[-1]), curve.values[-1])]
    return Series(name, readings, colour, width=1.5, peak=curve.peak, about=about, ended=True)


def _host_peak(summary: ProfileSummary) -> int:
    return summary.host.peak.bytes if summary.host.peak else 0


def _peak_of(summary: ProfileSummary) -> list[str]:
    peak = summary.host.peak
    return _about(peak.t, peak.phase) if peak else []
