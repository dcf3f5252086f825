from __future__ import annotations

import errno
import os
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest
from tests.harness.running import assert_detected, opencl, run_tiny

from firsttouch import _core
from firsttouch.apps import mapped_file
from firsttouch.apps.mapped_file import MappedFile
from firsttouch.base.errors import Unsupported
from firsttouch.harness import measure
from firsttouch.harness.app import buffer, solve, u64
from firsttouch.harness.random import words
from firsttouch.program.execution.workspace import Workspace
from firsttouch.program.strategies import STRATEGIES


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("2 * (first + i) + 1", "2 * i + 3"),
        ("2 * (first + i) + 1", "2 * (first + i)"),
        ("(i < n ?", "(i + 1 < n ?"),  # without the last word
        ("words[offset + i]", "words[offset + (i == 77 ? 78 : i)]"),
        ("words[offset + i]", "words[offset + (i ^ (i + 1 < n))]"),  # every word in its neighbour's place
        ("words[offset + i] : 0ul", "words[offset + i] + (i == 77) : 0ul"),
        ("start < n; start +=", "start + 4 * GLOBAL_SIZE < n; start +="),
        ("k < 4; ++k", "k < 1; ++k"),
        ("GROUP_SUM(sums, sum, THREADS)", "GROUP_SUM(sums, sum, THREADS / 2)"),
        ("if (LOCAL_ID == 0) partial[GROUP_ID]", "if (LOCAL_ID == 0 && GROUP_ID > 0) partial[GROUP_ID]"),
        ("partial[GROUP_ID] = ", "partial[GROUP_ID ^ 1] = "),
        ("partial[GROUP_ID]) + sums[0]", "partial[GROUP_ID]) + sums[0] / 1000 * 1001"),
    ],
)
def test_wrong_kernel_is_detected(before: str, after: str) -> None:
    assert_detected(MappedFile, before, after)


def test_check_reads_the_file_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapped_file, "CHUNK", mapped_file.GROUPS * mapped_file.THREADS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run_tiny(MappedFile).error == ""


def workspace(strategy: str) -> Workspace:
    info, device = opencl()
    return Workspace(STRATEGIES[strategy], info, device)


class Inspected(MappedFile):
    """Records the kind of the buffer's memory while the application runs."""

    def check(self, view):  # type: ignore[no-untyped-def]
        memory = self.words.memory
        self.host, self.shared = memory.host.allocator, memory.shared
        self.mappings = sum("(deleted)" in line for line in Path("/proc/self/maps").read_text().splitlines())
        return super().check(view)


def inspect(space: Workspace) -> Inspected:
    app = Inspected(MappedFile.sizes["tiny"])
    app.kernels = MappedFile(MappedFile.sizes["tiny"]).kernels
    assert measure.run(app, space).error == ""
    return app


def test_explicit_copies_from_the_mapping() -> None:
    app = inspect(workspace("explicit"))
    assert (app.host, app.shared) == ("mmap", False)


def test_file_is_read_into_memory_that_the_gpu_can_access() -> None:
    app = inspect(workspace("svm-fine"))
    assert (app.host, app.shared) == ("svm-fine", True)


@pytest.mark.parametrize("strategy", ["system", "system+prefault"])
def test_shared_plain_memory_is_the_mapping(strategy: str) -> None:
    """Tests only the CPU's access. This device cannot show that kernels access it too."""
    app, space = MappedFile(MappedFile.sizes["tiny"]), workspace(strategy)
    app.arrange()
    space.allocate([app.words])
    try:
        assert app.words.memory.shared
        assert [(name, allocator) for name, allocator, _ in space.allocations()] == [("words", "mmap")]
        space.load(app.words, 0)
        assert (space.view(app.words) == words(app.words.key, np.arange(app.n))).all()
    finally:
        space.free()


def test_mapping_and_its_reservation_are_released(monkeypatch: pytest.MonkeyPatch) -> None:
    before = sum("(deleted)" in line for line in Path("/proc/self/maps").read_text().splitlines())
    app = inspect(workspace("explicit"))
    assert app.mappings > before
    assert sum("(deleted)" in line for line in Path("/proc/self/maps").read_text().splitlines()) == before
    # Device memory is host memory here, so a run needs twice the file. A reservation left over would exceed the limit.
    monkeypatch.setenv("FIRSTTOUCH_MAX_HOST", str(app.words.nbytes * 3))
    inspect(workspace("explicit"))
    inspect(workspace("explicit"))


def test_guard_refuses_a_mapping_beyond_the_limit() -> None:
    _, device = opencl()
    with tempfile.TemporaryFile() as file:
        file.truncate(1 << 20)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("FIRSTTOUCH_MAX_HOST", "64KiB")
            with pytest.raises(_core.GuardRefused, match="FIRSTTOUCH_MAX_HOST"):
                device.map_file(file.fileno(), 1 << 20)
        with device.map_file(file.fileno(), 1 << 20) as mapped:
            assert (mapped.allocator, mapped.size) == ("mmap", 1 << 20)


def test_files_that_cannot_be_mapped_are_reported() -> None:
    _, device = opencl()
    with tempfile.TemporaryFile() as file:
        file.write(b"short")
        file.flush()
        with pytest.raises(_core.Unavailable, match="5 bytes"):
            device.map_file(file.fileno(), 4096)
    with pytest.raises(_core.Unavailable, match="Bad file descriptor"):
        device.map_file(-1, 4096)


def test_full_disk_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(Unsupported, match=r"space for .* 2400056 bytes"):
        run_tiny(MappedFile)


def test_no_file_is_left_behind() -> None:
    before = set(os.listdir(tempfile.gettempdir()))
    run_tiny(MappedFile)
    left = set(os.listdir(tempfile.gettempdir())) - before
    assert not [name for name in left if name.startswith("tmp")]


def test_file_is_streamed_through_a_window() -> None:
    app = MappedFile(MappedFile.sizes["tiny"])
    run = measure.run(app, workspace("explicit"), windows={app.words: 100_000 * 8})
    assert run.error == ""
    assert run.transferred["gpu"] == 2 * app.words.nbytes


def test_only_an_input_may_be_a_file() -> None:
    with pytest.raises(ValueError, match="must be an input"):
        buffer(u64, "n", role="inout", file=True)


def test_size_in_bytes() -> None:
    found = solve(MappedFile, 1 << 32)
    assert (1 << 32) - 16 < MappedFile.footprint(found) <= 1 << 32
