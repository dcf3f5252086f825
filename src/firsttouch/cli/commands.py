"""What each command finds, made in one place for the command line and for `import firsttouch`.

A function here is a command without its words and exit status. Its CommandResult has what the terminal shows in words,
and the data that --json prints and that the function of `firsttouch` returns. Nothing here prints.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from firsttouch.base.errors import UsageError

if TYPE_CHECKING:
    from firsttouch.advice.answer import Advice
    from firsttouch.advice.port.port_findings import PortFindings
    from firsttouch.base.examples import Example
    from firsttouch.base.outputs import Output
    from firsttouch.cli.schemas import FitOutput, SchemasOutput
    from firsttouch.comparison.compare import ResultsComparison
    from firsttouch.comparison.papers.evaluate import Claims
    from firsttouch.comparison.papers.figures import PaperFigures
    from firsttouch.comparison.validation.results import Validation
    from firsttouch.engine.methods import Cell
    from firsttouch.engine.request import RunOptions
    from firsttouch.engine.runner import RunOutcome
    from firsttouch.engine.work import Listing, Work
    from firsttouch.experiments.analysis.fastest_interfaces import Interfaces
    from firsttouch.harness.outcomes.explanations import Explanation
    from firsttouch.model.listing import KnownValuesOutput, PlatformsOutput
    from firsttouch.profile.sources import LayerSource
    from firsttouch.profile.summary import ProfileSummary
    from firsttouch.program.program import Program
    from firsttouch.records.papers.rows import Published
    from firsttouch.records.reading import Results
    from firsttouch.records.schema import DeviceInfo, Machine
    from firsttouch.report.answers import AnsweredSection
    from firsttouch.report.first_screen import FirstScreen
    from firsttouch.report.sentences import WordedFinding

T = TypeVar("T")


def _itself(value: Any) -> Any:
    return value


@dataclass(frozen=True)
class CommandResult(Generic[T]):
    """value: what the terminal shows. output: what --json prints, which is made when it is asked for."""

    value: T
    as_output: Callable[[T], Output] = _itself

    @cached_property
    def output(self) -> Output:
        return self.as_output(self.value)


# ------------------------------------------------------------------------------------------------ this machine


def machine() -> CommandResult[Machine]:
    from firsttouch.engine.discover import discover_devices
    from firsttouch.machine.facts import collect_machine

    return CommandResult(collect_machine(discover_devices()), _machine_output)


def _machine_output(machine: Machine) -> Output:
    from firsttouch.cli.schemas import MachineOutput
    from firsttouch.report.first_screen import hardware

    usable = [device.name for device in machine.devices if device.available]
    return MachineOutput(
        firsttouch=machine.firsttouch,
        summary=f"{machine.host}: {hardware(machine)}; devices: {', '.join(usable) or 'none'}.",
        host=machine.host,
        created=machine.created,
        facts=machine.facts,
        devices=machine.devices,
        libraries=machine.libraries,
        warnings=machine.warnings,
    )


@dataclass(frozen=True)
class Methods:
    """The properties of the allocators of `devices`. absent: devices that could not be asked, if none was named. equal:
    the number of equal GPUs for which one of several was asked, by its name.
    """

    devices: Sequence[DeviceInfo]
    absent: Sequence[DeviceInfo]
    cells: Sequence[Cell]
    equal: Mapping[str, int] = field(default_factory=dict)

    def title(self, device: DeviceInfo) -> str:
        number = self.equal.get(device.name, 1)
        return f"{device.title}, for {number} equal GPUs" if number > 1 else device.title


def methods(names: Sequence[str], watch: Callable[[Cell], None] | None) -> CommandResult[Methods]:
    """watch: called with every property that is measured; None: nothing is measured. Without names, the first of equal
    GPUs is asked for all.
    """
    from firsttouch.engine.choices import choose_devices
    from firsttouch.engine.discover import find_devices
    from firsttouch.engine.methods import stated_cells, verified_cells
    from firsttouch.engine.sisters import Sisters
    from firsttouch.records.predicted import is_predicted

    if modelled := [name for name in names if is_predicted(name)]:
        raise UsageError(
            f"methods asks the drivers of this machine, and {modelled[0]} is described by a file; "
            "firsttouch platforms NAME shows what it says"
        )
    devices = find_devices(names)
    chosen = choose_devices(names, devices)
    alike = Sisters.of(d for d in chosen if d.role == "gpu" and not names)
    equal = Counter(alike.first(device.name) for device in chosen)
    chosen = [device for device in chosen if device.name in equal]
    cells = verified_cells(chosen, watch) if watch else [cell for device in chosen for cell in stated_cells(device)]
    absent = [] if names else [device for device in devices if not device.available]
    return CommandResult(Methods(chosen, absent, cells, equal), _methods_output)


def profile_sources() -> CommandResult[Sequence[LayerSource]]:
    """What this machine offers to each layer of a profile."""
    from firsttouch.profile.sources import of_this_machine

    return CommandResult(of_this_machine(), _sources_output)


def _sources_output(sources: Sequence[LayerSource]) -> Output:
    from msgspec.structs import asdict

    from firsttouch.cli.schemas import SourceOutput, SourcesOutput
    from firsttouch.records.text import join_names

    active = {row.state.layer: row.state.active for row in sources}
    absent = [layer for layer, is_active in active.items() if not is_active]
    seen = f"{len(active) - len(absent)} of {len(active)} layers of a profile are available here"
    return SourcesOutput(
        summary=f"{seen}{f', all but {join_names(absent)}' if absent else ''}.",
        sources=[SourceOutput(**asdict(row.state), sees=row.sees) for row in sources],
    )


def port(directory: Path, process: int | None = None, *, keep: bool = False) -> CommandResult[PortFindings]:
    """What stands between the program of a profile and unified memory. process: of several; by default the busiest.
    keep: the program is written beside the profile.
    """
    from firsttouch.advice.port.reading import findings_of, read_single, traced_run, write_program

    profile = read_single(directory)
    run = traced_run(profile, process)
    unwritten = write_program(profile, run) if keep else ""
    return CommandResult(findings_of(profile, run, unwritten))


def traced_program(directory: Path, process: int | None = None) -> Program:
    """What the program of a profile does with memory."""
    from firsttouch.advice.port.reading import program_of, read_single, traced_run

    profile = read_single(directory)
    return program_of(profile, traced_run(profile, process))


def _methods_output(methods: Methods) -> Output:
    from firsttouch.cli.schemas import MethodsOutput
    from firsttouch.engine.methods import disagrees
    from firsttouch.records.text import count

    usable = []
    for device in methods.devices:
        states = [c.value for c in methods.cells if c.device == device.name and c.property == "available"]
        usable.append(f"{states.count('yes')} of {count(len(states), 'allocator')} of {device.name} are available")
    measured = [cell for cell in methods.cells if cell.origin == "measured"]
    wrong = sum(map(disagrees, measured))
    found = [f"{count(len(measured), 'property', 'properties')} measured, {wrong} not as stated"]
    return MethodsOutput(summary=f"{'; '.join([*usable, *(found if measured else [])])}.", cells=methods.cells)


# ------------------------------------------------------------------------------------------------ measuring


@dataclass(frozen=True)
class Conclusions:
    """What a results directory says: its first screen, and its sections with their findings, as in the report."""

    screen: FirstScreen
    answers: Sequence[AnsweredSection]

    @cached_property
    def findings(self) -> list[WordedFinding]:
        """All findings, each with its sentence; those of the first screen come first."""
        from firsttouch.report.sentences import worded

        of_first_screen = [
            entry for number in self.screen.numbers for entry in worded(number.experiment, [number.finding])
        ]
        advice = [entry for sentence in self.screen.advice for entry in worded("advice", sentence.findings)]
        of_sections = [entry for part in self.answers for entry in worded(part.experiment, part.answer.findings)]
        return [*of_first_screen, *advice, *(e for e in of_sections if e not in of_first_screen)]


def conclusions(results: Results) -> Conclusions:
    from firsttouch.engine.work_kinds import reportable_experiments
    from firsttouch.report.answers import answered
    from firsttouch.report.first_screen import first_screen

    answers = list(answered(results.records, results.machine.devices, reportable_experiments()))
    return Conclusions(first_screen(results, answers), answers)


@dataclass(frozen=True)
class Measured:
    """A run that ended, and what its directory says."""

    outcome: RunOutcome
    conclusions: Conclusions


def check_explained(devices: Sequence[str]) -> None:
    """Raises UsageError if predictions for these devices cannot be explained, because they are measured."""
    from firsttouch.machine.backends import is_modelled

    if not devices or not all(map(is_modelled, devices)):
        raise UsageError("--explain says what a prediction follows from; give --device model:PLATFORM, without others")


def explained(work: Work, outcome: RunOutcome) -> list[Explanation]:
    """Explains the predictions of a run, in its summary too, and writes a trace of them into its directory."""
    from firsttouch.harness.explaining import explain
    from firsttouch.profile.events.predicted_trace import write_predicted_trace
    from firsttouch.records.schema import Factors

    records = outcome.results.records
    explanations = explain(records, lambda record: work.find(record.experiment, Factors(record.factors)))
    write_predicted_trace(outcome.directory, records)
    outcome.summary["explanations"] = explanations
    return explanations


def measured(outcome: RunOutcome) -> CommandResult[Measured]:
    """What `firsttouch run` and `firsttouch app` say of a run that ended."""
    return CommandResult(Measured(outcome, conclusions(outcome.results)), _measured_output)


def _measured_output(measured: Measured) -> Output:
    from firsttouch.cli.schemas import AppOutput, RunOutput
    from firsttouch.records.text import count

    outcome, screen = measured.outcome, measured.conclusions.screen
    ends = ", ".join(f"{n} {status}" for status, n in outcome.counts.items())
    first = next((f" {number.head}: {number.text}." for number in screen.numbers), "")
    kind = AppOutput if outcome.summary else RunOutput
    return kind(
        summary=f"{count(sum(outcome.counts.values()), 'point')}: {ends}. {screen.title}.{first}",
        directory=str(outcome.directory),
        report=str(outcome.report) if outcome.report else None,
        counts=outcome.counts,
        unverified=outcome.unverified,
        suspect=outcome.suspect,
        disturbed=outcome.disturbed,
        seconds=outcome.seconds,
        title=screen.title,
        conditions=screen.conditions,
        measured_on=screen.measured_on,
        absent=screen.absent,
        predicted=screen.predicted,
        findings=measured.conclusions.findings,
        **outcome.summary,
    )


def listed(work: Work, options: RunOptions) -> CommandResult[Listing]:
    """What `firsttouch run --list` and `firsttouch app --list` print."""
    from firsttouch.engine.runner import list_work

    return CommandResult(list_work(work, options), lambda listing: listing.output)


# ------------------------------------------------------------------------------------------------ results


@dataclass(frozen=True)
class Compared:
    """page: the path of the page, if one was asked for and could be drawn. not_drawn: why not."""

    comparison: ResultsComparison
    page: Path | None = None
    not_drawn: str = ""

    def output(self) -> Output:
        from firsttouch.comparison.plain import output

        return output(self.comparison, str(self.page) if self.page else None)


def compare(sides: Sequence[str], limit: float | None, out: Path | None = None) -> CommandResult[Compared]:
    """A failure of the renderer does not lose the comparison."""
    from firsttouch.comparison.compare import compare_results
    from firsttouch.engine.reporting import NotDrawn, draw_comparison

    comparison, page, not_drawn = compare_results(sides, limit), None, ""
    if out is not None:
        try:
            page = draw_comparison(sides, out, limit)
        except NotDrawn as error:
            not_drawn = str(error)
    return CommandResult(Compared(comparison, page, not_drawn), Compared.output)


def advise(
    directories: Sequence[Path],
    *,
    device: str | None,
    app: str | None,
    size: int | str | None,
    pattern: str | None,
    modules: Sequence[str],
    sets: Mapping[str, object] | None = None,
    profile: Path | None = None,
    process: int | None = None,
) -> CommandResult[Advice]:
    """modules: files of applications; a single one need not be named. profile: of a traced program, asked about."""
    if profile is not None or process is not None:
        from firsttouch.advice.profiled import advise_profile

        other = {"--app": app, "--size": size, "--pattern": pattern, "--set": sets, "--module": modules}
        about = advise_profile(profile, directories, device=device, process=process, other=other)
        return CommandResult(about, lambda advice: advice.output())
    from firsttouch.advice import advisor

    apps = None
    if modules or app is not None:
        from firsttouch.apps import apps_with, only_app

        apps = apps_with(modules)
        if modules and app is None:
            app = only_app(modules, apps)
    advice = advisor.advise(directories, device=device, app=app, size=size, pattern=pattern, sets=sets, apps=apps)
    return CommandResult(advice, lambda advice: advice.output())


def fit(
    directories: Sequence[Path], *, out: Path, device: str | None, title: str, extends: str
) -> CommandResult[FitOutput]:
    """Writes the prices of runs as a platform file."""
    from firsttouch.advice.advisor import choose_device
    from firsttouch.base.files import write_output
    from firsttouch.cli.schemas import FitOutput
    from firsttouch.model.fit import file_text, fitted_platform
    from firsttouch.records.reading import load_results
    from firsttouch.records.text import count, join_names

    runs = {str(directory): load_results(directory) for directory in directories}
    content = fitted_platform(runs, choose_device([*runs.values()], device), title, extends)
    write_output(out, file_text(content).encode())
    values = len(content["parameters"])
    summary = f"{out}: {count(values, 'value')} of {content['title']}, from {join_names([*runs])}."
    return CommandResult(FitOutput(summary=summary, platform=str(out), runs=[*runs], values=values))


def interfaces(directory: Path, kinds: Sequence[str]) -> CommandResult[Interfaces]:
    from firsttouch.report.interface_answers import output, read

    return CommandResult(read(directory, kinds), lambda interfaces: output(interfaces, str(directory)))


def platform_values() -> CommandResult[KnownValuesOutput]:
    from firsttouch.model.listing import known_values

    return CommandResult(known_values())


def platforms(name: str | None, what_if: Sequence[str] = ()) -> CommandResult[PlatformsOutput]:
    from firsttouch.model.listing import platforms
    from firsttouch.model.what_if import single_changes

    return CommandResult(platforms(name, single_changes(name, what_if)))


def published(search: str | None) -> CommandResult[Published]:
    from firsttouch.records.papers.rows import published

    return CommandResult(published(search))


def paper_figures(search: str | None = None) -> CommandResult[PaperFigures]:
    from firsttouch.comparison.papers.figures import figures

    return CommandResult(figures(search))


def claims(directories: Sequence[Path]) -> CommandResult[Claims]:
    from firsttouch.comparison.papers.evaluate import claims

    return CommandResult(claims(directories))


def validate(names: Sequence[str], rows: Path | None, measured: Sequence[Path]) -> CommandResult[Validation]:
    from firsttouch.comparison.validation.validate import validation

    return CommandResult(validation(names, rows, measured))


# ------------------------------------------------------------------------------------------------ files


def examples(directory: Path) -> CommandResult[Sequence[Example]]:
    from firsttouch.base.examples import copy_examples

    return CommandResult(copy_examples(directory), lambda copied: _examples_output(directory, copied))


def _examples_output(directory: Path, copied: Sequence[Example]) -> Output:
    from firsttouch.cli.schemas import ExamplesOutput
    from firsttouch.records.text import count

    return ExamplesOutput(
        summary=f"{count(len(copied), 'example')} copied to {directory}.", directory=str(directory), examples=copied
    )


# ------------------------------------------------------------------------------------------------ schemas


def schema(name: str) -> dict[str, Any]:
    """The JSON Schema of an output or a file."""
    from firsttouch.cli.schemas import json_schema

    return json_schema(name)


def schemas() -> CommandResult[SchemasOutput]:
    from firsttouch.cli.schemas import schemas_output

    return CommandResult(schemas_output())


# ------------------------------------------------------------------------------------------------ reports


@dataclass(frozen=True)
class Report:
    """What was written. conclusions, profiles: what the page of these directories begins with."""

    paths: Sequence[Path]
    directories: Sequence[Path]
    conclusions: Sequence[Conclusions] = ()
    profiles: Sequence[ProfileSummary] = ()

    def output(self) -> Output:
        from msgspec.structs import asdict

        from firsttouch.cli.schemas import ReportedDirectory, ReportedFinding, ReportOutput
        from firsttouch.records.text import count

        names = list(map(str, self.paths))
        conclusions = list(zip(map(str, self.directories), self.conclusions, strict=bool(self.conclusions)))
        titles = [conclusion.screen.title for conclusion in self.conclusions] or [p.summary for p in self.profiles]
        return ReportOutput(
            summary="; ".join(titles) or f"{count(len(names), 'file')} written.",
            report=names[0] if titles else None,
            files=names,
            directories=[ReportedDirectory(directory=name, title=found.screen.title) for name, found in conclusions],
            findings=[
                ReportedFinding(directory=name, **asdict(f)) for name, found in conclusions for f in found.findings
            ],
            summaries=self.profiles,
        )


def report(named: Iterable[Path], form: str, output: Path | None, modules: Sequence[str] = ()) -> CommandResult[Report]:
    """modules: files of experiments and applications. Raises NotDrawn if the process that draws failed."""
    from firsttouch.engine.reporting import draw
    from firsttouch.profile.reading import is_profile, profiles_in, read
    from firsttouch.profile.summarise import summarise
    from firsttouch.records.reading import load_results

    if modules:
        from firsttouch.engine.work_kinds import add_any_modules

        add_any_modules(modules)
    named = list(named)
    directories = profiles_in(named)
    if output is None and form == "html" and len(named) == 1 and directories != named:
        output = named[0] / "report.html"  # in the directory that holds the folders of the ranks
    paths = draw(directories, form, output)
    if form != "html":
        return CommandResult(Report(paths, directories), Report.output)
    if is_profile(directories[0]):
        summaries = [summarise(read(directory)) for directory in directories]
        return CommandResult(Report(paths, directories, profiles=summaries), Report.output)
    results = [conclusions(load_results(directory)) for directory in directories]
    return CommandResult(Report(paths, directories, results), Report.output)
