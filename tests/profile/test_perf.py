"""What perf events tell of processes, with real ones; and the reasons where they are refused."""

from __future__ import annotations

import errno
import gc
import os
import resource
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.profile.targets import as_nobody, build, executed, held, in_child, opened, readable, running, watch

from firsttouch.profile import perf
from firsttouch.profile.perf import open_processes, why_refused

CHILDREN = r"""
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void* idle(void* unused) { usleep(1000); return unused; }

int main(int count, char** words) {
    const char* how = words[1];
    for (int i = 0; i < 100; ++i) {
        if (!strcmp(how, "threads")) {
            pthread_t thread;
            pthread_create(&thread, 0, idle, 0);
            pthread_join(thread, 0);
            continue;
        }
        pid_t child = !strcmp(how, "vfork") ? vfork() : fork();
        if (child == 0) {
            if (!strcmp(how, "exec") || !strcmp(how, "vfork")) execl("/bin/true", "true", NULL);
            if (!strcmp(how, "double")) {
                if (fork() == 0) usleep(1000);
                _exit(0);
            }
            if (!strcmp(how, "brief")) usleep(1000);
            if (!strcmp(how, "threaded")) {
                pthread_t thread;
                pthread_create(&thread, 0, idle, 0);
                pthread_exit(0);
            }
            _exit(0);
        }
        waitpid(child, 0, 0);
    }
    return 0;
}
"""


@pytest.fixture(scope="module")
def children() -> Iterator[Path]:
    with readable() as folder:
        yield build(folder, "children", CHILDREN)


@pytest.mark.parametrize(
    ("how", "processes", "programs"),
    [
        ("fork", 100, 1),
        ("brief", 100, 1),
        ("double", 200, 1),
        ("exec", 100, 101),
        ("vfork", 100, 101),
        ("threaded", 100, 1),
    ],
)
def test_every_child_is_told_of(children: Path, how: str, processes: int, programs: int) -> None:
    batches, counted, pid = watch([children, how])
    starts = [start for batch in batches for start in batch.starts]
    ends = [end for batch in batches for end in batch.ends]
    assert len(starts) == len({start.pid for start in starts}) == processes
    assert sorted(end.pid for end in ends) == sorted([pid, *(start.pid for start in starts)])
    assert len(executed(batches)) == programs
    assert {change.name for change in executed(batches)} <= {"children", "true"}
    known = {pid}
    for start in starts:
        assert start.parent in known
        known.add(start.pid)
    assert sum(batch.lost for batch in batches) == 0
    assert counted is None


def test_threads_are_no_processes(children: Path) -> None:
    batches, _, pid = watch([children, "threads"])
    assert [start for batch in batches for start in batch.starts] == []
    assert [end.pid for batch in batches for end in batch.ends] == [pid]


def test_records_are_in_the_order_of_time(children: Path) -> None:
    batches, _, _ = watch([children, "brief"], every=1)
    for records in zip(*batches, strict=True):
        if isinstance(records[0], list):
            times = [record.t for batch in records for record in batch]
            assert times == sorted(times)


def test_an_ordinary_user_sees_the_same(children: Path) -> None:
    def count() -> tuple[int, int]:
        batches, counted, _ = watch([children, "fork"], every=1)
        assert counted == sum(len(batch.samples) for batch in batches)
        return os.geteuid(), sum(len(batch.starts) for batch in batches)

    user, starts = as_nobody(count)
    assert user != 0
    assert starts == 100


def test_nothing_is_told_before_the_command_is_executed() -> None:
    with held(["sleep", "10"]) as process:
        events = opened(process.pid, 1)
        time.sleep(0.02)
        assert events.read(rest=True) == ([], [], [], [], [], 0, [])
        assert events.attached == [process.pid]
        process.release()
        deadline = time.monotonic() + 60
        changes: list[perf.NameChange] = []
        while not changes and time.monotonic() < deadline:
            changes += events.read(rest=True).names
        assert [(c.pid, c.name, c.executed) for c in changes] == [(process.pid, "sleep", True)]


def test_a_running_tree_is_attached_to(tmp_path: Path) -> None:
    script = "sleep 100 & echo $!; while read line; do /bin/true; done; kill $!"
    with running(["sh", "-c", script], tmp_path) as shell:
        assert shell.stdin is not None
        sleeper = int(Path(f"/proc/{shell.pid}/task/{shell.pid}/children").read_text())
        events = opened(shell.pid, 0, enable_on_exec=False)
        assert sorted(events.attached) == sorted([shell.pid, sleeper])
        shell.stdin.write(b"\n" * 20)
        shell.stdin.close()
        shell.wait()
        batch = events.read(rest=True)
    assert len(batch.starts) == 20
    assert {start.parent for start in batch.starts} == {shell.pid}
    assert [change.name for change in batch.names if change.executed].count("true") == 20
    assert {end.pid for end in batch.ends} >= {shell.pid, *(start.pid for start in batch.starts)}


def test_threads_of_a_running_process_are_attached_to(tmp_path: Path) -> None:
    source = r"""
    #include <pthread.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <unistd.h>
    static void* touch(void* unused) {
        while (access("go", F_OK)) usleep(1000);
        volatile char* block = malloc(1000 << 12);
        for (int i = 0; i < 1000; ++i) block[(long)i << 12] = 1;
        return unused;
    }
    int main() {
        pthread_t threads[4];
        for (int i = 0; i < 4; ++i) pthread_create(threads + i, 0, touch, 0);
        puts("ready");
        fflush(stdout);
        for (int i = 0; i < 4; ++i) pthread_join(threads[i], 0);
    }"""
    program = build(tmp_path, "threads", source)
    with running([program], tmp_path) as process:
        events = opened(process.pid, 1, enable_on_exec=False)
        (tmp_path / "go").touch()
        process.wait()
        batch = events.read(rest=True)
    assert len({sample.tid for sample in batch.samples if sample.tid != process.pid}) == 4
    assert events.counted() == len(batch.samples) >= 4000
    assert [end.pid for end in batch.ends] == [process.pid]


def test_no_descriptor_is_inherited_and_none_remains(children: Path) -> None:
    before = sorted(os.listdir("/proc/self/fd"))
    with held(["true"]) as process:
        events = opened(process.pid, 64)
        listed = subprocess.run(["ls", "-l", "/proc/self/fd"], capture_output=True, text=True, check=True).stdout
        assert "perf_event" not in listed
        process.release()
        del events
    assert len(os.listdir("/proc/self/fd")) == len(before)


def limited_descriptors(more: int, hard: int) -> list[perf.LayerState]:
    """The layers where this process may have so many more descriptors, and `hard` more by its hard limit."""
    gc.collect()  # what is closed later would leave room
    before = len(os.listdir("/proc/self/fd")) + 2

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (before + more, before + hard))

    def layers() -> list[perf.LayerState]:
        with held(["true"]) as process:
            states = open_processes(process.pid, 64)[1]
            process.release()
            return states

    return list(in_child(layers, limit))


def test_few_descriptors_are_a_reason() -> None:
    with held(["true"]) as process:
        opened(process.pid, 64)
        process.release()
    states = limited_descriptors(1, 1)
    assert [state.active for state in states] == [False, False]
    assert "descriptors" in states[0].why
    assert "nofile" in states[0].mend
    assert [state.active for state in limited_descriptors(1, 4096)] == [True, True]


def test_layers_of_what_was_opened() -> None:
    with held(["true"]) as process:
        opened(process.pid, 64)
        _, states = open_processes(process.pid, 64)
        assert [(state.layer, state.active) for state in states] == [("processes", True), ("faults", True)]
        assert states[1].why == ""
        _, states = open_processes(process.pid)
        assert [(state.layer, state.active, state.why) for state in states] == [("processes", True, "")]
        process.release()


@pytest.mark.parametrize(
    ("number", "level", "why", "mend"),
    [
        (
            errno.EACCES,
            "4",
            "kernel.perf_event_paranoid is 4; 2 or less permits",
            "sudo sysctl kernel.perf_event_paranoid=2",
        ),
        (errno.EPERM, "3", "kernel.perf_event_paranoid is 3", "sudo sysctl kernel.perf_event_paranoid=2"),
        (errno.EPERM, "2", "filter of system calls", "--cap-add=PERFMON"),
        (errno.EACCES, "2", "process 17 is another user's", ""),
        (errno.EACCES, "", "no perf events", ""),
        (errno.ENOSYS, "2", "no perf events", ""),
        (errno.EMFILE, "2", "descriptors", "nofile"),
        (errno.ESRCH, "2", "ended", ""),
        (errno.EIO, "2", "EIO", ""),
    ],
)
def test_reasons_name_the_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, level: str, why: str, mend: str
) -> None:
    monkeypatch.setattr(perf, "PARANOID", tmp_path / "perf_event_paranoid")
    if level:
        perf.PARANOID.write_text(f"{level}\n")

    def refuse(*_: object) -> None:
        raise OSError(number, "perf_event_open")

    monkeypatch.setattr(perf._core, "PerfEvents", refuse)
    events, states = open_processes(17, 64)
    assert events is None
    assert [(state.layer, state.active) for state in states] == [("processes", False), ("faults", False)]
    for state in states:
        assert why in state.why
        assert mend in state.mend
        assert bool(mend) == bool(state.mend)


def test_a_small_limit_for_buffers_is_named() -> None:
    why, mend = why_refused(OSError(errno.EPERM, "mmap"), 17)
    assert "perf_event_mlock_kb" in why
    assert "perf_event_mlock_kb" in mend


def test_a_process_that_ended_is_a_reason_and_no_error() -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    for on_exec in (True, False):
        events, states = open_processes(process.pid, 64, enable_on_exec=on_exec)
        assert events is None
        assert [state.active for state in states] == [False, False]
        assert all(state.why for state in states)
