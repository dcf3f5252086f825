"""Shows the progress of a run on stderr: a bar on a terminal, otherwise plain lines."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from firsttouch.base.units import format_seconds
from firsttouch.cli.output import print_stderr, printable, shortened
from firsttouch.records.schema import FAILURES, Record
from firsttouch.records.text import count

if TYPE_CHECKING:
    from rich.progress import Progress

    from firsttouch.engine.planned import Planned

_PER_EXPERIMENT = 3
"""The most failures of one experiment or application on one device that are printed. Further ones are only counted."""
QUIET = 10.0
"""Seconds without output after which the state of the run is printed."""


class _Screen(Protocol):
    def line(self, text: str) -> None: ...
    def begin(self, total: int) -> None: ...
    def point(self, text: str) -> None: ...
    def advance(self) -> None: ...
    def end(self) -> None: ...


class _PlainProgress:
    """Plain lines for a log, with the state of the run after QUIET seconds without output."""

    def __init__(self) -> None:
        self._ended = threading.Event()
        self._total, self._done, self._current = 0, 0, ""
        self._began = self._last_line = time.monotonic()

    def line(self, text: str) -> None:
        self._last_line = time.monotonic()
        print_stderr(text)

    def begin(self, total: int) -> None:
        self._total, self._began = total, time.monotonic()
        with suppress(RuntimeError):  # if no further thread is allowed, the state is not printed
            threading.Thread(target=self._print_states, daemon=True).start()

    def _print_states(self) -> None:
        while not self._ended.wait(max(0.0, self._last_line + QUIET - time.monotonic())):
            if time.monotonic() - self._last_line >= QUIET:
                self.line(self._state())

    def _state(self) -> str:
        elapsed = time.monotonic() - self._began
        remaining = elapsed / self._done * (self._total - self._done) if self._done else 0.0
        left = f", about {format_seconds(remaining)} left" if remaining else ""
        return f"{self._done} of {self._total} points in {format_seconds(elapsed)}{left}; now {self._current}"

    def point(self, text: str) -> None:
        self._current = text

    def advance(self) -> None:
        self._done += 1

    def end(self) -> None:
        self._ended.set()


class _ProgressBar:
    """A progress bar on a terminal, with the current point, the elapsed time and the remaining time."""

    def __init__(self) -> None:
        from firsttouch.cli.console import Console

        self._console = Console(stderr=True)
        self._progress: Progress | None = None

    def line(self, text: str) -> None:
        self._console.print(text, soft_wrap=True)

    def begin(self, total: int) -> None:
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )
        from rich.table import Column

        self._progress = Progress(
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, ratio=1)),
            console=self._console,
            transient=True,
            expand=True,
            speed_estimate_period=3600,  # points may take minutes; the estimate needs several
        )
        self._task = self._progress.add_task("", total=total)
        self._progress.start()

    def point(self, text: str) -> None:
        if self._progress is not None:
            self._progress.update(self._task, description=printable(text))

    def advance(self) -> None:
        if self._progress is not None:
            self._progress.advance(self._task)

    def end(self) -> None:
        if self._progress is not None:
            self._progress.stop()


def _screen() -> _Screen:
    return _ProgressBar() if sys.stderr.isatty() else _PlainProgress()


def _elapsed_time(refresh_per_second: float = 10) -> Progress:
    """A line with what is done and the time until now, which vanishes at the end."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from firsttouch.cli.console import Console

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    console = Console(stderr=True)
    return Progress(*columns, console=console, transient=True, refresh_per_second=refresh_per_second)


class Waiting:
    """Use while one thing is done that takes seconds. On a terminal, stderr has a line with the time until now, which
    vanishes at the end; elsewhere nothing.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._progress: Progress | None = None

    def __enter__(self) -> None:
        if not sys.stderr.isatty():
            return
        self._progress = _elapsed_time()
        self._progress.add_task(printable(self._text), total=None)
        self._progress.start()

    def __exit__(self, *error: object) -> None:
        if self._progress is not None:
            self._progress.stop()


class Steps:
    """Says which step of a call is under way, and for how long. On a terminal, stderr has a line for that, which
    vanishes at the end; elsewhere a line when a step has ended, and every QUIET seconds.
    """

    def __init__(self) -> None:
        self._text, self._began = "", time.monotonic()
        self._progress: Progress | None = None
        self._ended = threading.Event()

    def __enter__(self) -> Steps:
        if sys.stderr.isatty():
            self._progress = _elapsed_time(refresh_per_second=1)  # seldom, since it takes time from what is timed
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._finish()
        if self._progress is not None:
            self._progress.stop()

    def __call__(self, text: str) -> None:
        """Begins a step, which ends the one before."""
        self._finish()
        is_first, self._text, self._began = not self._text, text, time.monotonic()
        if self._progress is not None:
            for task in self._progress.task_ids:
                self._progress.remove_task(task)
            self._progress.add_task(printable(text), total=None)
        if is_first:
            self._start()

    def _start(self) -> None:
        """Starts the thread that says it. What it starts takes no signals, which a profiler waits for."""
        from firsttouch.cli.profile import signals_for_this_thread

        with signals_for_this_thread(), suppress(RuntimeError):
            if self._progress is not None:
                self._progress.start()
            else:
                threading.Thread(target=self._say, daemon=True).start()

    def _finish(self) -> None:
        if self._text and self._progress is None:
            print_stderr(f"firsttouch: {self._text}: {format_seconds(time.monotonic() - self._began)}")

    def _say(self) -> None:
        while not self._ended.wait(QUIET):
            if (elapsed := time.monotonic() - self._began) >= QUIET:
                print_stderr(f"firsttouch: {self._text}: under way for {format_seconds(elapsed)}")


class RunProgress:
    """Watches a run. Prints failures at once, and one line per experiment and device when it is finished."""

    def __init__(self) -> None:
        self.directory: Path | None = None
        self.kept = 0
        self._screen = _screen()
        self._left: Counter[str] = Counter()
        self._counts: dict[str, Counter[str]] = {}
        self._began: dict[str, float] = {}
        self._seconds: defaultdict[str, float] = defaultdict(float)
        """Of the points of each experiment and device alone, as those of others are measured between them."""

    def warn(self, text: str) -> None:
        self._screen.line(f"warning: {shortened(text)}")

    def note(self, text: str) -> None:
        self._screen.line(text)

    def begin(self, directory: Path, todo: Sequence[Planned], held: int) -> None:
        self._left = Counter(planned.title for planned in todo)
        if self.directory is None:
            verb = _verb(todo)
            already = f", {held} already {'predicted' if verb == 'predict' else 'measured'}" if held else ""
            self._screen.line(f"{count(len(todo), 'point')} to {verb}{already}{_planned(todo)}, into {directory}")
            self.directory, self.kept = directory, held
        else:  # further points, chosen from the results so far
            self._screen.end()
            self._screen = _screen()
            self._screen.line(f"{count(len(todo), 'further point')} to {_verb(todo)}{_planned(todo)}")
        self._screen.begin(len(todo))
        self._announce_report()

    def point(self, planned: Planned) -> None:
        self._began[planned.key] = time.monotonic()
        self._screen.point(f"{planned.title} {_factors(planned)}")

    def recorded(self, planned: Planned, record: Record) -> None:
        title = planned.title
        counts = self._counts.setdefault(title, Counter())
        counts[record.status] += 1
        counts["wrong data"] += record.verified is False
        counts["suspect"] += bool(record.suspect)
        self.kept += 1
        self._left[title] -= 1
        now = time.monotonic()
        self._seconds[title] += now - self._began.pop(planned.key, now)
        self._print_failure(title, planned, record, counts)
        self._screen.advance()
        if not self._left[title]:
            words = ", ".join(f"{n} {status}" for status, n in counts.items() if n)
            self._screen.line(f"{title}: {words}, {format_seconds(self._seconds[title])}")
        self._announce_report()

    def _announce_report(self) -> None:
        if not self._left.total():
            self._screen.point("writing the report")

    def _print_failure(self, title: str, planned: Planned, record: Record, counts: Counter[str]) -> None:
        wrong = record.verified is False
        failures = sum(counts[s] for s in (*FAILURES, "wrong data"))
        if (record.status in FAILURES or wrong) and failures <= _PER_EXPERIMENT:
            head, why = ("wrong data", record.verified_why) if wrong else (record.status, record.reason)
            failure = f"{head}: {why}" if why else head
            self._screen.line(f"{title} {_factors(planned)}: {shortened(failure)}")

    def end(self) -> None:
        self._screen.end()


def _verb(todo: Sequence[Planned]) -> str:
    """What is done with the points of a call, which is the same for all of them."""
    return "predict" if any(planned.info.modelled for planned in todo) else "measure"


def _planned(todo: Sequence[Planned]) -> str:
    from firsttouch.engine.estimate import in_words, planned_seconds

    return in_words(planned_seconds(todo))


def _factors(planned: Planned) -> str:
    return " ".join(f"{name}={value}" for name, value in planned.point.factors.items() if value != planned.name)
