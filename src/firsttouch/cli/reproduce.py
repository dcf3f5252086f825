"""firsttouch reproduce: repeats a figure of a paper, or predicts it, beside what the paper states."""

from __future__ import annotations

import os
import shlex
import subprocess
import textwrap
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firsttouch.base.errors import UsageError
from firsttouch.cli.declaration import declare
from firsttouch.cli.options import path
from firsttouch.cli.output import print_error, print_stderr, print_stdout, text_width

if TYPE_CHECKING:
    from firsttouch.comparison.reproducing import (
        LineCall,
        ListedPart,
        ReproducedLine,
        ReproducedValue,
        ReproduceList,
        Reproduction,
    )
    from firsttouch.records.papers.studies import Conditions
    from firsttouch.records.reading import Results
    from firsttouch.records.reproduced import Reproduced

_FAILED = 1


@declare(
    "reproduce",
    "Repeat a figure of a paper, or predict it.",
    {
        "reproduce": "comparison.reproducing:Reproduction",
        "reproduce-list": "comparison.reproducing:ReproduceList",
    },
)
def command(
    paper: Annotated[
        str | None, typer.Argument(metavar="PAPER", help="By its name in `firsttouch published`, such as mi300a-upm.")
    ] = None,
    figure: Annotated[
        list[str] | None, typer.Argument(metavar="FIGURE", help="A figure, table or section: 3, Fig. 3, Table I.")
    ] = None,
    device: Annotated[
        str | None,
        typer.Option(
            help="A device of this machine, or a model, such as model:gh200. Default: the paper's kind of device if "
            "this machine has it, and otherwise models of the paper's machines."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", parser=path, metavar="DIR", help="Directory of the results; default: PAPER-FIGURE."),
    ] = None,
    list_only: Annotated[
        bool, typer.Option("--list", help="List the figures, their conditions and calls; carry out nothing.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the calls; carry out nothing.")] = False,
) -> Reproduction | ReproduceList:
    """Repeat what a paper measured: carry out the calls of a figure, draw it with the paper's values, and say which
    differ.

    Without a device of the paper's kind, the figure is predicted for models of the paper's machines.

    Exit status: 0 all calls were carried out; 1 some failed; 2 the call was wrong.

    Example: firsttouch reproduce mi300a-upm 3
    """
    from firsttouch.comparison.reproducing import ReproduceList, listed
    from firsttouch.records.text import count

    part = " ".join(figure or []) or None
    if list_only or paper is None or part is None:
        if dry_run or device is not None or out is not None:
            raise UsageError("name a paper and one of its figures; --list lists them")
        parts = listed(paper, part)
        lines = {id(line) for each in parts for line in each.lines}
        return ReproduceList(
            summary=f"{count(len(parts), 'figure, table or section', 'figures, tables and sections')}, "
            f"{count(len(lines), 'line')}.",
            parts=parts,
        )
    return _carry_out(paper, part, device, out, dry_run=dry_run)


def _carry_out(paper: str, figure: str, device: str | None, out: Path | None, *, dry_run: bool) -> Reproduction:
    """The calls of a figure, carried out one after another, and what their results say beside the paper."""
    from firsttouch.base.encoding import encode_json
    from firsttouch.base.files import write_atomically
    from firsttouch.comparison import reproducing
    from firsttouch.engine.discover import discover_devices
    from firsttouch.engine.reporting import draw, page_or_reason
    from firsttouch.records.papers.studies import named_part
    from firsttouch.records.reading import has_results, load_results
    from firsttouch.records.reproduced import REPRODUCED, Reproduced

    part = named_part(paper, figure)
    available = [] if device else [d.name for d in discover_devices() if d.available and d.role != "processor"]
    calls = [
        call if device is None and call.predicted else reproducing.as_the_device_has_it(call)
        for call in reproducing.calls(paper, part, device, available)
    ]
    directory = out or Path(f"{paper}-{part.replace('. ', '-').replace(' ', '-').lower()}")
    if directory.exists() and any(directory.iterdir()):
        raise UsageError(f"{directory} is not empty; choose another --out")
    if dry_run:
        return _reproduction(Reproduced(paper, part), [_line(call, _typed(call.words)) for call in calls], None)
    kinds = dict.fromkeys(call.words[0] for call in calls if not call.why_not)
    places = {kind: directory / kind if len(kinds) > 1 else directory for kind in kinds}
    lines, before = [], {kind: Counter[str]() for kind in kinds}
    for number, call in enumerate(calls, 1):
        print_stderr(f"{number} of {len(calls)}: {call.line.what}, {call.machine}")
        if call.why_not:
            lines.append(_line(call, ""))
            continue
        kind = call.words[0]
        line = _run(call, places[kind])
        after = Counter(line.counts)  # of all points in the directory
        line.counts, before[kind] = dict(after - before[kind]), after or before[kind]
        lines.append(line)
    held = [place for place in places.values() if has_results(place)]
    reproduced = Reproduced(paper, part)
    for place in held:
        write_atomically(place / REPRODUCED, encode_json(reproduced) + b"\n")
    report = directory / "report.html" if held else None
    if report is not None:
        report, problem = page_or_reason(lambda: draw(held, output=report)[0])
        if problem:
            print_error(f"the report was not drawn: {problem}")
    return _reproduction(reproduced, lines, directory if held else None, [load_results(p) for p in held], report)


def _line(call: LineCall, text: str, *, failure: str = "", **more: Any) -> ReproducedLine:
    from firsttouch.comparison.reproducing import ReproducedLine

    return ReproducedLine(
        what=call.line.what,
        call=text,
        machine=call.machine,
        predicted=call.predicted,
        differs=call.line.differs,
        left_out=[*call.left_out],
        why=call.why_not or failure,
        **more,
    )


def _typed(words: Sequence[str]) -> str:
    """A call as it is typed; '' if there is none."""
    return shlex.join(["firsttouch", *words]) if words else ""


def _run(call: LineCall, directory: Path) -> ReproducedLine:
    """Carries out the call of a line, in a process of its own: it may need other variables, and ends by itself."""
    import msgspec

    from firsttouch.base.processes import python_module
    from firsttouch.comparison.reproducing import in_directory
    from firsttouch.records.reading import has_results

    words = in_directory(call.words, directory, resume=has_results(directory))
    done = subprocess.run(
        [*python_module("firsttouch", *words), "--json"],
        env={**os.environ, **call.line.environment},
        stdout=subprocess.PIPE,
        check=False,
    )
    try:
        found = msgspec.json.decode(done.stdout)
    except ValueError:
        found = {}
    return _line(
        call,
        _typed(words),
        exit_status=done.returncode,
        counts=found.get("counts") or {},
        failure=found.get("error", {}).get("message", "") if done.returncode else "",
    )


def _reproduction(
    reproduced: Reproduced,
    lines: list[ReproducedLine],
    directory: Path | None,
    results: Sequence[Results] = (),
    report: Path | None = None,
) -> Reproduction:
    """What was carried out, and what its results say beside the paper."""
    from firsttouch.comparison import reproducing
    from firsttouch.records.text import count

    values = [value for each in results for value in reproducing.values_of_part(each, reproduced)]
    claims = [claim for each in results for claim in reproducing.claims_of_part(each, reproduced)]
    known = {value.row for value in values}
    return reproducing.Reproduction(
        summary=reproducing.summary(reproduced, values, claims) if results else f"{count(len(lines), 'call')}.",
        paper=reproduced.paper,
        part=reproduced.part,
        shows=reproducing.shows(reproduced.paper, reproduced.part),
        directory=str(directory) if directory else None,
        report=str(report) if report else None,
        lines=lines,
        values=values,
        claims=claims,
        absent=[row.says for row in reproducing.numbers_of(reproduced) if row.name not in known] if results else [],
    )


@command.finished
def _finish(found: Any) -> int:
    return _FAILED if any(line.exit_status for line in getattr(found, "lines", ())) else 0


@command.shown
def _show(
    found: Any,
    figure: list[str] | None,
    everything: Annotated[
        bool, typer.Option("--all", help="Print all numbers and orders, with the values that decide.")
    ] = False,
) -> None:
    from firsttouch.comparison.reproducing import ReproduceList

    if isinstance(found, ReproduceList):
        _show_list(found, whole=bool(figure))
    else:
        _show_reproduction(found, everything)


def _show_list(found: ReproduceList, *, whole: bool) -> None:
    for paper in dict.fromkeys(part.paper for part in found.parts):
        parts = [part for part in found.parts if part.paper == paper]
        print_stdout(f"{paper}")
        for part in parts:
            if whole:
                _show_part(part)
            elif part.shows:
                print_stdout(f"  {part.id:9} {part.shows} ({len(part.lines)} line{'s' * (len(part.lines) != 1)})")
        sections = [part.id for part in parts if not part.shows]
        if sections and not whole:
            _print(f"and {', '.join(sections)}", "  ")
    print_stdout(found.summary if whole else f"{found.summary} With a figure, its conditions and calls.")


def _show_part(part: ListedPart) -> None:
    _print(f"{part.id}: {part.shows}" if part.shows else part.id, "  ")
    for sentence in in_words(part.conditions):
        _print(sentence, "    ")
    for line in part.lines:
        print_stdout("")
        _print(line.what, "    ")
        _print(line.command or f"no call: {line.no_command}", "      ")
        for name, why in line.differs.items():
            _print(f"{name} differs: {why}", "      ")
        for name, why in line.assumed.items():
            _print(f"{name} is assumed: {why}", "      ")


def in_words(conditions: Conditions) -> list[str]:
    """The conditions of a part, a sentence for each kind."""
    memory, words = conditions.memory, []
    for name, text in (
        ("machine", conditions.machine),
        ("agents", conditions.agents),
        ("programs", "; ".join(conditions.programs)),
        ("memory", ", ".join(memory.compared)),
        ("compared to", memory.baseline),
        ("first written or touched", memory.start),
        ("only for the GPU", memory.gpu_only),
        ("sizes", "; ".join(f"{of}: {size}" if of else size for of, size in conditions.sizes.items())),
        ("repetitions", conditions.repetitions),
        ("processes", conditions.processes),
        ("switches", "; ".join(f"{of}: {text}" for of, text in conditions.switches.items())),
        ("more data than memory", conditions.oversubscription),
        ("timed", conditions.timed),
        ("by", conditions.tool),
        ("left open", "; ".join(conditions.left_open)),
    ):
        words += [f"{name}: {text}"] if text else []
    return words


def _show_reproduction(found: Reproduction, everything: bool) -> None:
    from firsttouch.records.text import count

    print_stdout(f"{found.part} of {found.paper}{f': {found.shows}' if found.shows else ''}")
    for line in found.lines:
        done = ", ".join(f"{n} {status}" for status, n in line.counts.items())
        state = (
            done or line.why or ("not carried out" if line.exit_status is None else f"exit status {line.exit_status}")
        )
        _print(f"{line.what} ({line.machine}): {state}", "  ")
        if line.exit_status is None and line.call:
            _print(line.call, "    ")
        if line.left_out:
            _print(f"without {', '.join(line.left_out)}, which this device does not have", "    ")
        for name, why in line.differs.items():
            _print(f"{name} differs from the paper: {why}", "    ")
    judged = [value for value in found.values if not value.not_independent]
    _show_values(judged)
    if inputs := [value for value in found.values if value.not_independent]:
        _print(f"{count(len(inputs), 'number')} more came from the paper itself into the model; --all has them.", "  ")
    if everything:
        _show_values(inputs)
    _show_claims(found, everything)
    print_stdout("")
    _print(found.summary, "")
    if found.absent:
        _print(f"Without a value here: {len(found.absent)} of the paper's statements; --json has them.", "")
    if found.report:
        print_stdout(found.report)


def _show_claims(found: Reproduction, everything: bool) -> None:
    for heading, verdict in (
        ("Orders that do not hold", "does not hold"),
        ("Orders left open", "no clear difference"),
        ("Orders that hold", "holds"),
    ):
        claims = [each for each in found.claims if each.verdict == verdict and (everything or not each.not_independent)]
        if claims:
            print_stdout(f"\n{heading}")
        for claim in claims:
            _print(f"{claim.text}{f' ({claim.not_independent})' if claim.not_independent else ''}", "  ")
            if everything or verdict != "holds":
                _print(claim.why, "    ")


def _show_values(values: Sequence[ReproducedValue]) -> None:
    if not values:
        return
    from rich.table import Table

    from firsttouch.cli.console import Console
    from firsttouch.records.text import quantity

    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("", "published", "predicted" if values[0].predicted else "here", "what"):
        table.add_column(heading, overflow="fold")
    for value in sorted(values, key=lambda each: not each.differs):
        low, high = (quantity(end, value.unit) for end in value.stated)
        stated = low if low == high else f"{low} to {high}"
        table.add_row(
            "differs" if value.differs else "",
            f"{value.qualifier} {stated}".strip(),
            _with_mean(value),
            value.says + (f" ({value.conditions})" if value.conditions else ""),
        )
    print_stdout("")
    Console().print(table)


def _with_mean(value: ReproducedValue) -> str:
    """A median with the mean and the standard deviation, as papers state them."""
    from firsttouch.records.text import quantity

    median = quantity(value.value, value.unit)
    if value.mean is None or value.deviation is None:
        return median
    return f"{median} (mean {quantity(value.mean, value.unit)}, deviation {quantity(value.deviation, value.unit)})"


def _print(text: str, indent: str) -> None:
    further = f"{indent}  "
    print_stdout(
        textwrap.fill(text, text_width(), initial_indent=indent, subsequent_indent=further, break_on_hyphens=False)
    )
