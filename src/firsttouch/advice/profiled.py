"""Advice about the program of a profile: reads the trace, and takes the prices from a run or a platform."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from firsttouch.advice.advisor import note_conditions, note_equal_devices, prices_under
from firsttouch.advice.answer import Advice, TriedRow
from firsttouch.advice.port.places import Places
from firsttouch.advice.port.reading import findings_of, program_of, read_single, traced_run
from firsttouch.advice.traced import TracedProgram, advise_traced
from firsttouch.advice.tried.findings import BASELINE
from firsttouch.advice.tried.stored import directory_of, read_findings
from firsttouch.advice.tried.wording import why_no_time
from firsttouch.base.errors import UsageError
from firsttouch.model.as_it_is import NAME
from firsttouch.profile import schema
from firsttouch.profile.traced import device_numbers
from firsttouch.program.trace import TracedRun


def advise_profile(
    profile: Path | None,
    directories: Sequence[str | Path],
    *,
    device: str | None = None,
    process: int | None = None,
    sets: Mapping[str, object] | None = None,
    other: Mapping[str, object] | None = None,
) -> Advice:
    """Advice about a traced program. sets: conditions of the platform, such as {"xnack": "1"}. other: options of other
    advice, by their names, which this does not take.

    Raises UsageError if there is no trace in the profile, no such process in it, or no prices.
    """
    if profile is None:
        raise UsageError("--process is one of a profile; name it with --profile DIR")
    prices, records, patterns = prices_under(directories, device, sets or {})
    other = {**(other or {}), **{f"--set {name}": True for name in patterns}}
    if unused_options := [name for name, value in other.items() if value]:
        raise UsageError(f"the trace says what the program does; leave out {', '.join(unused_options)}, or --profile")
    advice = advise_traced(traced_program(profile, process), prices)
    if advice.traced is not None and (tried := directory_of(profile)) is not None:
        advice.traced = replace(advice.traced, tried=[*tried_rows(tried)])
    note_equal_devices(advice, records)
    note_conditions(advice, prices)
    return advice


def traced_program(directory: Path, process: int | None = None) -> TracedProgram:
    """A process of a profile: that with this number, or the one that copied and launched most.

    Raises UsageError if there is no trace in the profile, or no such process.
    """
    profile = read_single(directory)
    run = traced_run(profile, process)
    places, found = Places(profile.callers), findings_of(profile, run)
    return TracedProgram(run, program_of(profile, run), found, places, gpu_of(run, profile.header))


def tried_rows(directory: Path) -> Iterator[TriedRow]:
    """What `firsttouch try` measured."""
    for row in read_findings(directory).results:
        name = NAME if row.strategy == BASELINE else row.strategy
        if (time := row.time) is None:
            yield TriedRow(name, reason=why_no_time(row))
        else:
            yield TriedRow(name, 1e3 * time.median, 1e3 * time.low, 1e3 * time.high)


def gpu_of(run: TracedRun, header: schema.Header) -> str:
    """The model of the device that has most of a program's blocks, or that its runtime names; '' if the profile does
    not say.
    """
    if named := [runtime.device for runtime in run.runtimes if runtime.device]:
        return named[0]
    numbers = Counter[int]()
    for block in run.blocks:
        if not block.on_host:
            numbers[block.device] += block.nbytes
    numbers_by_name = device_numbers(header)
    models = {numbers_by_name[gpu.name]: gpu.model for gpu in header.gpus if gpu.name in numbers_by_name}
    return models.get(numbers.most_common(1)[0][0], "") if numbers else ""
