"""A directory of `firsttouch try` as results: each strategy is a point, and each round a sample of it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import msgspec

from firsttouch import _core
from firsttouch.advice.tried.findings import BASELINE, TryFindings
from firsttouch.advice.tried.stored import PROFILE, read_findings
from firsttouch.advice.tried.wording import name_of
from firsttouch.profile.reading import read_header
from firsttouch.records.reading import Results
from firsttouch.records.schema import SCHEMA, DeviceCapabilities, DeviceInfo, Machine, Record, Summary

EXPERIMENT = "try"
DEVICE = "gpu"


def tried_results(directory: Path) -> Results:
    """Raises UsageError if the directory holds nothing that was tried, or not its profile."""
    findings, header = read_findings(directory), read_header(directory / PROFILE)
    device = DeviceInfo(DEVICE, DEVICE, findings.device, capabilities=DeviceCapabilities(runs_kernels=True))
    machine = Machine(
        SCHEMA,
        header.host,
        header.started,
        findings.firsttouch,
        facts={"settings": {**header.settings}},
        devices=[device],
    )
    return Results(machine, None, [*records(findings)])


def call_of(findings: TryFindings) -> str:
    """The call that tries the same again, without its directory and the program."""
    strategies = [row.strategy for row in findings.results if row.strategy != BASELINE]
    tolerance = f" --tolerance {findings.tolerance:g}" if findings.tolerance else ""
    return f"firsttouch try --strategy {','.join(strategies)} --rounds {findings.rounds}{tolerance}"


def records(findings: TryFindings) -> Iterator[Record]:
    """Seconds of the program under each strategy; those without a time say why."""
    for row in findings.results:
        record = Record(
            schema=SCHEMA,
            experiment=EXPERIMENT,
            device=DEVICE,
            factors={
                "program": name_of(findings),
                "arguments": shlex.join(findings.command[1:]),
                "strategy": row.strategy,
            },
            unit="s",
            better="lower",
            status="ok" if row.time else "skipped",
            reason=row.reason,
        )
        if row.time:
            numbers = dict(zip(Summary.__struct_fields__, _core.summarise(row.time.samples), strict=True))
            summary = msgspec.convert(numbers, Summary)
            record = msgspec.structs.replace(record, samples=[*row.time.samples], summary=summary)
        yield record
