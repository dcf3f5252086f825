"""What each command finds, made in one place for the command line and for `import firsttouch`.

A function here is a command without its words and exit status. Its CommandResult has what the terminal shows in words,
and the data that --json prints and that the function of `firsttouch` returns. Nothing here prints.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from firsttouch.errors import UsageError

if TYPE_CHECKING:
    from firsttouch.advice.answer import Advice
    from firsttouch.allocators.methods import Cell
    from firsttouch.analysis.interfaces import Interfaces
    from firsttouch.comparison.compare import ResultsComparison
    from firsttouch.engine.runner import RunOutcome
    from firsttouch.examples import Example
    from firsttouch.harness.app import App
    from firsttouch.papers.evaluate import Claims
    from firsttouch.papers.figures import PaperFigures
    from firsttouch.papers.rows import Published
    from firsttouch.profile.summary import ProfileSummary
    from firsttouch.records.reading import Results
    from firsttouch.records.schema import DeviceInfo, Machine
    from firsttouch.report.answers import AnsweredSection
    from firsttouch.report.first_screen import FirstScreen

T = TypeVar("T")


def _itself(value: Any) -> Any:
    return value


@dataclass(frozen=True)
class CommandResult(Generic[T]):
    """value: what the terminal shows. data: what --json prints, which is made when it is asked for."""

    value: T
    as_data: Callable[[T], object] = _itself

    @cached_property
    def data(self) -> object:
        return self.as_data(self.value)


# ------------------------------------------------------------------------------------------------ this machine


def machine() -> CommandResult[Machine]:
    from firsttouch.engine.discover import discover_devices
    from firsttouch.machine.facts import collect_machine

    return CommandResult(collect_machine(discover_devices()))


@dataclass(frozen=True)
class Methods:
    """The properties of the allocators of `devices`. absent: devices that could not be asked, if none was named."""

    devices: Sequence[DeviceInfo]
    absent: Sequence[DeviceInfo]
    cells: Sequence[Cell]


def methods(names: Sequence[str], watch: Callable[[Cell], None] | None) -> CommandResult[Methods]:
    """watch: called with every property that is measured; None: nothing is measured."""
    from firsttouch.allocators.methods import stated_cells, verified_cells
    from firsttouch.engine.choices import choose_devices
    from firsttouch.engine.discover import find_devices

    known = find_devices(names)
    chosen = choose_devices(names, known)
    cells = verified_cells(chosen, watch) if watch else [cell for device in chosen for cell in stated_cells(device)]
    absent = [] if names else [device for device in known if not device.available]
    return CommandResult(Methods(chosen, absent, cells), lambda methods: methods.cells)


# ------------------------------------------------------------------------------------------------ measuring


@dataclass(frozen=True)
class Conclusions:
    """What a results directory says: its first screen, and its sections with their findings, as in the report."""

    screen: FirstScreen
    answers: Sequence[AnsweredSection]

    def as_data(self) -> dict[str, Any]:
        """The title and all findings, each with its sentence; those of the first screen come first."""
        from firsttouch.report.sentences import plain

        own = [entry for number in self.screen.numbers for entry in plain(number.experiment, [number.finding])]
        advice = [entry for sentence in self.screen.advice for entry in plain("advice", sentence.findings)]
        of_sections = [entry for part in self.answers for entry in plain(part.experiment, part.answer.findings)]
        findings = [*own, *advice, *(e for e in of_sections if e not in own)]
        return {
            "title": self.screen.title,
            "conditions": [*self.screen.conditions],
            "absent": [*self.screen.absent],
            "findings": findings,
        }


def conclusions(results: Results) -> Conclusions:
    from firsttouch.report.answers import answered
    from firsttouch.report.first_screen import first_screen
    from firsttouch.work import reportable_experiments

    answers = list(answered(results.records, results.machine.devices, reportable_experiments()))
    return Conclusions(first_screen(results, answers), answers)


@dataclass(frozen=True)
class Measured:
    """A run that ended, and what its directory says."""

    outcome: RunOutcome
    conclusions: Conclusions


def measured(outcome: RunOutcome) -> CommandResult[Measured]:
    """What `firsttouch run` and `firsttouch app` say of a run that ended."""
    return CommandResult(
        Measured(outcome, conclusions(outcome.results)),
        lambda measured: measured.outcome.as_dict() | measured.conclusions.as_data(),
    )


# ------------------------------------------------------------------------------------------------ results


@dataclass(frozen=True)
class Compared:
    """page: the path of the page, if one was asked for and could be drawn. not_drawn: why not."""

    comparison: ResultsComparison
    page: Path | None = None
    not_drawn: str = ""

    def as_data(self) -> dict[str, Any]:
        from firsttouch.comparison.plain import plain

        return plain(self.comparison) | ({"report": str(self.page)} if self.page else {})


def compare(sides: Sequence[str], limit: float | None, out: Path | None = None) -> CommandResult[Compared]:
    """A failure of the renderer does not lose the comparison."""
    from firsttouch.comparison.compare import compare
    from firsttouch.engine.reporting import NotDrawn, draw_comparison

    comparison, page, not_drawn = compare(sides, limit), None, ""
    if out is not None:
        try:
            page = draw_comparison(sides, out, limit)
        except NotDrawn as error:
            not_drawn = str(error)
    return CommandResult(Compared(comparison, page, not_drawn), Compared.as_data)


def advise(
    directories: Sequence[Path],
    *,
    device: str | None,
    app: str | None,
    size: int | str | None,
    pattern: str | None,
    modules: Sequence[str],
    sets: Mapping[str, object] | None = None,
) -> CommandResult[Advice]:
    """modules: files of applications. If they hold a single one, it need not be named."""
    from firsttouch.advice import advisor

    known = None
    if modules or app is not None:
        known = _applications(modules)
        if modules and app is None:
            app = _only_application(modules, known)
    advice = advisor.advise(directories, device=device, app=app, size=size, pattern=pattern, sets=sets, apps=known)
    return CommandResult(advice, lambda advice: advice.to_builtins())


def _applications(modules: Sequence[str]) -> Mapping[str, type[App]]:
    from firsttouch.apps import all_apps
    from firsttouch.harness.app import App
    from firsttouch.modules import add_modules, require_classes

    add_modules(modules)
    known = all_apps()
    require_classes(modules, known.values(), App, "application")
    return known


def _only_application(modules: Sequence[str], known: Mapping[str, type[App]]) -> str:
    import inspect

    own = [name for name, app in known.items() if inspect.getfile(app) in modules]
    if len(own) != 1:
        raise UsageError(f"--module has {len(own)} applications: {', '.join(own)}; choose one with --app")
    return own[0]


def interfaces(directory: Path, kinds: Sequence[str]) -> CommandResult[Interfaces]:
    from firsttouch.report.interfaces import plain, read

    return CommandResult(read(directory, kinds), lambda interfaces: plain(interfaces, str(directory)))


def published(search: str | None) -> CommandResult[Published]:
    from firsttouch.papers.rows import published

    return CommandResult(published(search))


def paper_figures(search: str | None = None) -> CommandResult[PaperFigures]:
    from firsttouch.papers.figures import figures

    return CommandResult(figures(search))


def claims(directories: Sequence[Path]) -> CommandResult[Claims]:
    from firsttouch.papers.evaluate import claims

    return CommandResult(claims(directories))


# ------------------------------------------------------------------------------------------------ files


def examples(directory: Path) -> CommandResult[Sequence[Example]]:
    from firsttouch.examples import copy_examples

    return CommandResult(
        copy_examples(directory), lambda copied: {"directory": str(directory), "examples": [*map(asdict, copied)]}
    )


@dataclass(frozen=True)
class Report:
    """What was written. conclusions, profiles: what the page of these directories begins with."""

    paths: Sequence[Path]
    directories: Sequence[Path]
    conclusions: Sequence[Conclusions] = ()
    profiles: Sequence[ProfileSummary] = ()

    def as_data(self) -> dict[str, Any]:
        import msgspec

        names = list(map(str, self.paths))
        if self.profiles:
            return {"report": names[0], "summaries": msgspec.to_builtins(self.profiles)}
        if not self.conclusions:
            return {"files": names}
        findings = [
            {"directory": str(directory)} | entry
            for directory, conclusion in zip(self.directories, self.conclusions, strict=True)
            for entry in conclusion.as_data()["findings"]
        ]
        return {
            "report": names[0],
            "titles": [conclusion.screen.title for conclusion in self.conclusions],
            "findings": findings,
        }


def report(named: Iterable[Path], form: str, output: Path | None, modules: Sequence[str] = ()) -> CommandResult[Report]:
    """modules: files of experiments and applications. Raises NotDrawn if the process that draws failed."""
    from firsttouch.engine.reporting import draw
    from firsttouch.profile.reading import is_profile, profiles_in, read
    from firsttouch.profile.summarise import summarise
    from firsttouch.records.reading import load_results

    if modules:
        from firsttouch.work import add_any_modules

        add_any_modules(modules)
    named = list(named)
    directories = profiles_in(named)
    if output is None and form == "html" and len(named) == 1 and directories != named:
        output = named[0] / "report.html"  # beside the folders of the ranks
    paths = draw(directories, form, output)
    if form != "html":
        return CommandResult(Report(paths, directories), Report.as_data)
    if is_profile(directories[0]):
        summaries = [summarise(read(directory)) for directory in directories]
        return CommandResult(Report(paths, directories, profiles=summaries), Report.as_data)
    results = [conclusions(load_results(directory)) for directory in directories]
    return CommandResult(Report(paths, directories, results), Report.as_data)
