"""Pages that several processes share count once in the peak, by whatever way they share them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.profile.calls import call

from firsttouch.profile.headline import headline, known_peak, pss_at_peak
from firsttouch.profile.reading import read
from firsttouch.profile.summarise import summarise
from firsttouch.profile.summary import ProfileSummary

MIB = 1 << 20
SIZE, CHILDREN = 96 * MIB, 4
PROGRAM = """
import ctypes, mmap, os, sys, tempfile, time
kind, size, children = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])

def mapped(file):
    os.ftruncate(file, size)
    return mmap.mmap(file, size)

def filled(memory):
    for at in range(0, size, 1 << 20):
        memory[at : at + (1 << 20)] = b"x" * (1 << 20)
    return memory

def read_all(memory):
    assert memory[::4096].count(b"x") == size // 4096

memory = None
if kind == "mmap":
    memory = filled(mmap.mmap(-1, size))
elif kind == "shm":
    memory = filled(mapped(os.open(f"/dev/shm/firsttouch-{os.getpid()}", os.O_RDWR | os.O_CREAT | os.O_EXCL)))
    os.unlink(f"/dev/shm/firsttouch-{os.getpid()}")
elif kind == "memfd":
    memory = filled(mapped(os.memfd_create("shared")))
elif kind == "file":
    file, name = tempfile.mkstemp()
    os.unlink(name)
    memory = filled(mapped(file))
elif kind == "fork":
    memory = filled(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
pids = []
for _ in range(children):
    if (pid := os.fork()) == 0:
        if kind == "private":
            memory = filled(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
        if memory is not None:
            read_all(memory)
        time.sleep(1)
        os._exit(0)
    pids.append(pid)
for pid in pids:
    os.waitpid(pid, 0)
"""


def profiled(tmp_path: Path, kind: str) -> ProfileSummary:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    out = tmp_path / "out"
    ran = call("--out", str(out), "--", sys.executable, str(program), kind, str(SIZE), str(CHILDREN))
    assert ran.returncode == 0, ran.stderr
    return summarise(read(out))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["mmap", "shm", "memfd", "file", "fork"])
def test_shared_pages_are_not_added_up(tmp_path: Path, kind: str) -> None:
    summary = profiled(tmp_path, kind)
    host = summary.host
    assert host.peak is not None
    assert host.least is not None
    assert host.most is not None
    assert host.processes == 1 + CHILDREN
    assert host.peak.bytes > CHILDREN * SIZE  # the sum
    interpreter = 60 * MIB
    assert host.least <= SIZE + interpreter
    assert host.least >= SIZE
    assert host.most >= SIZE
    assert known_peak(host) is None or known_peak(host) <= 1.05 * (SIZE + interpreter)  # type: ignore[operator]
    assert pss_at_peak(host) is None or SIZE <= pss_at_peak(host) <= SIZE + CHILDREN * interpreter  # type: ignore[operator]
    words = ("at least", "at most") if known_peak(host) is None and pss_at_peak(host) is None else ("peak",)
    assert all(word in headline(summary) for word in words)


@pytest.mark.slow
def test_memory_of_their_own_is_added_up(tmp_path: Path) -> None:
    host = profiled(tmp_path, "private").host
    assert host.most is not None
    assert host.most >= CHILDREN * SIZE
    assert pss_at_peak(host) is None or pss_at_peak(host) >= 0.9 * CHILDREN * SIZE  # type: ignore[operator]


@pytest.mark.slow
def test_programs_of_their_own_share_nothing_of_their_own(tmp_path: Path) -> None:
    """Such as ranks: what is resident at least is about the sum."""
    own = f"import time; a = b'x' * {SIZE}; time.sleep(1)"
    program = tmp_path / "ranks.py"
    program.write_text(
        "import subprocess, sys\n"
        f"ranks = [subprocess.Popen([sys.executable, '-c', {own!r}]) for _ in range({CHILDREN})]\n"
        "assert not any(rank.wait() for rank in ranks)\n"
    )
    out = tmp_path / "out"
    ran = call("--out", str(out), "--", sys.executable, str(program))
    assert ran.returncode == 0, ran.stderr
    host = summarise(read(out)).host
    assert host.peak is not None
    assert host.least is not None
    assert CHILDREN * SIZE <= host.least <= host.peak.bytes


@pytest.mark.slow
def test_the_peak_of_one_process_is_what_was_read(tmp_path: Path) -> None:
    out = tmp_path / "out"
    ran = call("--out", str(out), "--", sys.executable, "-c", f"import time; a = b'x' * {SIZE}; time.sleep(0.3)")
    assert ran.returncode == 0, ran.stderr
    host = summarise(read(out)).host
    assert host.peak is not None
    assert known_peak(host) == host.peak.bytes >= SIZE
