"""Runs of a program under the library that `firsttouch try` preloads."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from firsttouch.advice.tried.outputs import RunOutputs, files_in, keep_outputs
from firsttouch.advice.tried.recorded import ProcessNotes, RunCounts, read_notes
from firsttouch.base.errors import UsageError
from firsttouch.profile.inject import injected_library, preload

LIBRARY = "libfirsttouch_try.so"
ASKED, FOLDER, PLAN, CHECK, MOST = (
    "FIRSTTOUCH_TRY",
    "FIRSTTOUCH_TRY_FOLDER",
    "FIRSTTOUCH_TRY_PLAN",
    "FIRSTTOUCH_TRY_CHECK",
    "FIRSTTOUCH_TRY_MOST",
)
RUNS = "runs"
NO_RESULT = 96
"""The exit status of a run that left the plan, or whose strategy is not possible here."""
_LEAST_SECONDS, _TIMES_PLAIN = 60.0, 20.0


@dataclass(frozen=True)
class FinishedRun:
    """seconds: from the start of the program to its end. too_long: it was ended because it took far longer than the
    plain run.
    """

    outputs: RunOutputs
    seconds: float
    notes: Sequence[ProcessNotes]
    too_long: bool = False

    @property
    def counts(self) -> RunCounts | None:
        """Those of the process that copied, or of the largest one; None if it did not end by itself."""
        found = [notes.counts for notes in self.notes if notes.counts]
        return max(found, key=lambda counts: (counts.left_out + counts.made, counts.host_peak), default=None)

    @property
    def left(self) -> str:
        """Why the run left the plan; '' if it did not."""
        return next((notes.left for notes in self.notes if notes.left), "")

    @property
    def impossible(self) -> str:
        """Why this machine cannot give the run the memory of its strategy; '' if it can."""
        return next((notes.impossible for notes in self.notes if notes.impossible), "")


class Runner:
    """Runs a command, each time in the same folder, with an empty standard input."""

    def __init__(
        self, command: Sequence[str], out: Path, environment: Mapping[str, str], most_managed: int | None = None
    ) -> None:
        """out: where what the runs leave is kept. most_managed: bytes of managed memory that a run may have."""
        self._command, self._out, self._environment = command, out.absolute(), environment
        self._most_managed, self._folder = most_managed, Path.cwd()
        self._library = injected_library().with_name(LIBRARY)
        self._limit: float | None = None
        if not self._library.is_file():
            raise UsageError(f"this installation has no {LIBRARY}; pip install --force-reinstall firsttouch")
        if not preload(self._library, environment):
            raise UsageError(
                f"{self._library.parent} has a space or a colon, which LD_PRELOAD does not allow; "
                "install firsttouch elsewhere"
            )

    def limit(self, plain_seconds: float) -> None:
        """Sets after which time a run is ended."""
        self._limit = max(_LEAST_SECONDS, _TIMES_PLAIN * plain_seconds)

    def environment(
        self, folder: Path, asked: str, plan: Path | None = None, *, checks: bool = False
    ) -> dict[str, str]:
        """The variables of a run. asked: what the library does: "record", or the name of a strategy."""
        added = {ASKED: asked, FOLDER: str(folder), **preload(self._library, self._environment)}
        if plan is not None:
            added[PLAN] = str(plan)
        if checks:
            added[CHECK] = "1"
        if self._most_managed is not None:
            added[MOST] = str(self._most_managed)
        return {**self._environment, **added}

    @contextmanager
    def prepared(self, name: str) -> Iterator[tuple[Path, Path]]:
        """A folder for what a run leaves, and the file of its standard output."""
        folder = self.folder(name)
        folder.mkdir(parents=True)
        yield folder, folder / "stdout"

    def folder(self, name: str) -> Path:
        """Where a run leaves what it does."""
        return self._out / RUNS / name

    def run(self, name: str, asked: str, plan: Path | None = None, *, checks: bool = False) -> FinishedRun:
        """name: of the folder of the run. checks: the bytes of copies are noted.

        Raises:
            OSError: The program can't be started.
        """
        with self.prepared(name) as (folder, stdout):
            environment = self.environment(folder, asked, plan, checks=checks)
            before = files_in(self._folder, self._out)
            with stdout.open("wb") as out, (folder / "stderr").open("wb") as err:
                began = time.monotonic()
                process = subprocess.Popen(
                    self._command, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err
                )
                status, too_long = self._wait(process, began)
                seconds = time.monotonic() - began
            outputs = self.outputs(folder, stdout, status, before)
            return FinishedRun(outputs, seconds, read_notes(folder), too_long)

    def outputs(self, folder: Path, stdout: Path, status: int, before: Mapping[str, object]) -> RunOutputs:
        """before: the files in the program's folder before the run."""
        after = files_in(self._folder, self._out)
        written = [name for name, state in after.items() if before.get(name) != state]
        return keep_outputs(status, stdout, self._folder, written, folder / "files")

    def files(self) -> dict[str, object]:
        """The files in the program's folder."""
        return dict(files_in(self._folder, self._out))

    def _wait(self, process: subprocess.Popen[bytes], began: float) -> tuple[int, bool]:
        too_long = False
        try:
            while True:
                pid, status = os.waitpid(process.pid, os.WNOHANG)
                if pid:
                    break
                elapsed = time.monotonic() - began
                if self._limit is not None and elapsed > self._limit and not too_long:
                    process.send_signal(signal.SIGKILL)
                    too_long = True
                time.sleep(min(0.001, elapsed / 100 + 1e-5))
        except BaseException:
            process.kill()
            raise
        code = os.waitstatus_to_exitcode(status)
        process.returncode = code
        return code if code >= 0 else 128 - code, too_long
