"""`--exact`: the program runs a second time, slowly, under NVIDIA's Sanitizer API (exact.py).

Neither the library nor the compiler of its patch comes with this package: both are the user's.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from glob import glob
from pathlib import Path
from tempfile import TemporaryDirectory

from firsttouch.base.errors import UsageError
from firsttouch.machine.libraries import find_library
from firsttouch.profile.exact import FOLDER
from firsttouch.profile.gpu_sampler import GpuSampler
from firsttouch.profile.inject import CUDA_VARIABLE
from firsttouch.profile.profiler import ProfileCall, ProfileOutcome, profile, rank_of

PATCH = Path(__file__).with_name("granules.cu")
_COMPILE_SECONDS = 120
_MOST_SECONDS, _MOST_TIMES = 60.0, 30.0
"""The second run may take this many seconds, plus this many times as long as the first: a child of fork may hang in it.
"""
_HOMES = ("/usr/local/cuda", "/usr/local/cuda-*")
_WHEELS = ("nvidia/cu[0-9]*", "nvidia/cuda_nvcc")


def profile_twice(call: ProfileCall, gpus: GpuSampler, say: Callable[[str], None]) -> ProfileOutcome:
    """Profiles a command, and then runs it again to see which bytes its kernels use. gpus: what reads the GPUs in the
    first run. say: gets a sentence before the second run, and where it was left out or ended otherwise.

    Raises:
        UsageError: the call was wrong, or a second run cannot tell; nothing was started.
        launch.NotStarted: the program can't be executed.
    """
    _check(call)
    with TemporaryDirectory(prefix="firsttouch-") as folder:
        patch = build_patch(Path(folder), call.environment)
        begin, started = _input_offset(), time.monotonic()
        outcome = profile(call, gpus)
        most = _MOST_SECONDS + _MOST_TIMES * (time.monotonic() - started)
        if outcome.status is None or outcome.status > 128:
            say("there is no second run, because the first was ended by a signal")
            return outcome
        if begin is not None:  # the target moved the offset of the file that it shares with this process
            os.lseek(0, begin, os.SEEK_SET)
        say("the program runs again, slowly, to see which bytes its kernels use")
        again = replace(
            call,
            out=outcome.directory / FOLDER,
            faults=0,
            trace=False,
            host=False,
            shadow=False,
            exact=False,
            patch=patch,
            duration=most,
        )
        started = time.monotonic()
        second = profile(again)
    if time.monotonic() - started >= most:
        say(f"the second run was killed after {most:.0f} s, because it hung or was too slow; what it told is used")
    elif second.status != outcome.status:
        say(f"the second run ended with status {second.status}, the first with {outcome.status}")
    return replace(outcome, failure=outcome.failure or second.failure)


def _input_offset() -> int | None:
    """How far the standard input has been read; None if it is no file, so that the second run cannot read it again."""
    try:
        return os.lseek(0, 0, os.SEEK_CUR)
    except OSError:
        return None


def _check(call: ProfileCall) -> None:
    if rank_of(call.environment):
        raise UsageError("--exact runs a program twice, which ranks of MPI cannot do; trace one process without mpirun")
    if CUDA_VARIABLE in call.environment:
        raise UsageError(f"--exact needs {CUDA_VARIABLE}, which is set already, so another tool is loaded; unset it")
    if reason := find_library("sanitizer").reason:
        raise UsageError(f"--exact needs NVIDIA's Sanitizer API: libsanitizer-public.so was {reason}")


def build_patch(folder: Path, environment: Mapping[str, str]) -> Path:
    """Compiles the patch for the GPUs of this machine. Returns its file.

    Raises:
        UsageError: there is no compiler, or it failed.
    """
    compiler = next(_compilers(environment), None)
    if compiler is None:
        raise UsageError(
            "--exact needs nvcc, to build the code that it inserts into kernels: it is neither on the PATH nor in "
            "CUDA_HOME nor in /usr/local/cuda; pip install 'firsttouch[exact]'"
        )
    target = folder / "granules.fatbin"
    command = [compiler, "-arch=native", "--compile-as-tools-patch", "--fatbin", str(PATCH), "-o", str(target)]
    try:
        result = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", cwd=folder,
            timeout=_COMPILE_SECONDS,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"--exact: {compiler} could not build its patch: {error}") from None
    if result.returncode or not target.is_file():
        messages = [line.strip() for line in result.stderr.splitlines() if line.strip()]
        reason = next(
            (line for line in messages if "error" in line or "fatal" in line),
            messages[-1] if messages else "no message",
        )
        raise UsageError(f"--exact: {compiler} could not build its patch: {reason:.200}")
    return target


def _compilers(environment: Mapping[str, str]) -> Iterator[str]:
    if on_path := shutil.which("nvcc", path=environment.get("PATH")):
        yield on_path
    homes = [environment[name] for name in ("CUDA_HOME", "CUDA_PATH") if environment.get(name)]
    sites = [os.path.join(site, wheel) for wheel in _WHEELS for site in filter(None, sys.path)]
    for pattern in (*homes, *_HOMES, *sites):
        for home in sorted(glob(pattern), reverse=True):
            if os.access(compiler := os.path.join(home, "bin", "nvcc"), os.X_OK):
                yield compiler
