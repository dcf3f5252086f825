"""What surrounds a profile may be odd: signals, limits, descriptors, processes and MPI launchers."""

from __future__ import annotations

import errno
import json
import os
import resource
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.calls import COMMAND, UNDRAWN
from tests.mpi import Mpi
from tests.profile.calls import call, has_sampled, start, until
from tests.profile.targets import build
from tests.texts import assert_states

from firsttouch.base.errors import UsageError
from firsttouch.machine.tree import Tree
from firsttouch.profile import launch, profiler
from firsttouch.profile.perf import PerfBatch
from firsttouch.profile.reading import read
from firsttouch.profile.records import Pace, Writer
from firsttouch.profile.sampler import Sampler
from firsttouch.profile.tree import Processes

SLEEPS = "import time; held = bytearray(16 << 20); time.sleep(30)"


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


class TestSignals:
    def test_only_the_thread_that_waits_takes_them(self, tmp_path: Path) -> None:
        """Threads of libraries would take signals to the process that it waits for and hands on."""
        words = [*UNDRAWN, "profile", "--out", str(tmp_path / "out"), "--", "sleep", "30"]
        with subprocess.Popen(words, stderr=subprocess.DEVNULL) as running:
            until(lambda: has_sampled(tmp_path / "out"))
            for thread in Path(f"/proc/{running.pid}/task").iterdir():
                if thread.name == str(running.pid):
                    continue
                status = thread / "status"
                blocked = next(line for line in status.read_text().splitlines() if line.startswith("SigBlk"))
                assert int(blocked.split()[1], 16) >> (signal.SIGTERM - 1) & 1
            running.send_signal(signal.SIGTERM)
            assert running.wait(30) == 128 + signal.SIGTERM

    def test_ends_are_told_where_the_caller_ignores_them(self, tmp_path: Path) -> None:
        script = "import signal, sys; sys.exit(signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN and 7)"
        done = call(
            *("--out", str(tmp_path / "out"), "--", sys.executable, "-c", script),
            preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN),
        )
        assert done.returncode == 7

    @pytest.mark.slow
    def test_a_stop_of_the_target_from_elsewhere_does_not_stop_the_profiler(self, tmp_path: Path) -> None:
        """In a process group of its own, since SIGTSTP does nothing in one that is orphaned, as pytest's may be."""
        out = tmp_path / "out"
        words = ["--out", str(out), "--", sys.executable, "-c", SLEEPS]
        with start(*words, preexec_fn=os.setpgrp) as running:
            until(lambda: has_sampled(out))
            target = read(out).header.pid
            for number in (signal.SIGTSTP, signal.SIGSTOP):
                os.kill(target, number)
                until(lambda: state_of(target) == "T")
                time.sleep(0.2)
                assert state_of(running.pid) != "T"
                os.kill(target, signal.SIGCONT)
            os.kill(target, signal.SIGTERM)
            assert running.wait(30) == 128 + signal.SIGTERM


class TestLimits:
    def test_processes_for_which_no_descriptors_are_left_are_told(self, tmp_path: Path) -> None:
        script = "import os, time\nfor i in range(40):\n"
        script += " if os.fork() == 0: os.closerange(0, 3); time.sleep(2); os._exit(0)\ntime.sleep(0.6)"
        done = call(
            *("--out", str(tmp_path / "out"), "--", sys.executable, "-c", script),
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)),
        )
        assert done.returncode == 0
        assert_states(done.stderr, "memory of some processes", "no more descriptors")
        profile = read(tmp_path / "out")
        assert not sum(line.count for line in profile.brief)
        unread = next(text for text in profile.notices if "are in no number" in text)
        assert len(profile.processes) + int(unread.split()[0]) == 41

    def test_the_soft_limit_is_no_limit_and_stays_the_targets(self, tmp_path: Path) -> None:
        script = "import os, resource, time\nfor i in range(60):\n"
        script += " if os.fork() == 0: os.closerange(0, 3); time.sleep(1); os._exit(0)\n"
        script += "time.sleep(0.4); print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])"
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        done = call(
            *("--out", str(tmp_path / "out"), "--", sys.executable, "-c", script),
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard)),
        )
        assert done.stdout == "64\n"
        profile = read(tmp_path / "out")
        assert len(profile.processes) + sum(line.count for line in profile.brief) == 61
        assert not profile.notices

    def test_little_address_space_ends_the_report_but_not_the_profile(self, tmp_path: Path) -> None:
        done = subprocess.run(
            [*COMMAND, "profile", "--out", str(tmp_path / "out"), "--", "sh", "-c", "sleep 0.2; exit 5"],
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (230 << 20, 230 << 20)),
            **{"capture_output": True, "text": True, "timeout": 60, "check": False},
        )
        assert done.returncode == 5
        assert "not drawn" in done.stderr or "no summary" in done.stderr
        assert read(tmp_path / "out").end is not None

    def test_the_summary_is_printed_where_nothing_can_be_written(self, tmp_path: Path) -> None:
        out = tmp_path / "out"
        (tmp_path / "limit.py").write_text(
            "import resource, sys\n"
            "from firsttouch.cli.main import main\n"
            "from firsttouch.profile import views\n"
            "def full(*_): raise OSError(28, 'No space left on device')\n"
            "views.write_atomically = full\n"
            "sys.argv[0] = 'firsttouch'\n"
            "main()\n"
        )
        words = [sys.executable, str(tmp_path / "limit.py"), "profile", "--out", str(out), "--", "sh", "-c"]
        done = subprocess.run([*words, "sleep 0.1; exit 5"], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 5
        assert "peak" in done.stderr.splitlines()[0]
        assert_states(
            done.stderr.splitlines()[-1], f"firsttouch: {out} ", "can't be written", os.strerror(errno.ENOSPC)
        )


@pytest.mark.slow
def test_a_failing_profiler_leaves_the_target_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise MemoryError("none left")

    for number, name in enumerate(("Sampler", "open_processes")):
        with monkeypatch.context() as patched:
            patched.setattr(profiler, name, fail)
            call = profiler.ProfileCall(command=["sh", "-c", "echo on; exit 4"], out=tmp_path / str(number))
            outcome = profiler.profile(call)
        assert (outcome.status, outcome.failure) == (4, "sampling failed: MemoryError: none left")
        assert capfd.readouterr().out == "on\n"


def test_a_program_that_cannot_be_forked_was_not_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", fail)
    with pytest.raises(launch.NotStarted, match=r"can't start true: .* unavailable"):
        profiler.profile(profiler.ProfileCall(command=["true"], out=tmp_path / "out"))
    assert not (tmp_path / "out").exists()


class TestAttached:
    def test_processes_that_were_started_before_are_seen(self, tmp_path: Path) -> None:
        script = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"
        words = [sys.executable, "-c", script, SLEEPS]
        with subprocess.Popen(words) as target:
            child = int(until(lambda: Path(f"/proc/{target.pid}/task/{target.pid}/children").read_text()))
            until(lambda: Tree().kibibytes(f"proc/{child}/status").get("VmRSS", 0) > 16 << 20)
            assert call("--pid", str(target.pid), "--duration", "0.5s", "--out", str(tmp_path / "out")).returncode == 0
            os.kill(child, signal.SIGTERM)
            target.wait()
        profile = read(tmp_path / "out")
        assert [(process.pid, process.parent) for process in profile.processes.values()] == [
            (target.pid, None),
            (child, 0),
        ]
        assert (list(profile.processes.values())[1].peak or 0) > 16 << 20

    def test_the_shell_that_started_the_profiler(self, tmp_path: Path) -> None:
        """The profiler is among its processes, and leaves itself out."""
        words = " ".join([shlex.join(UNDRAWN), "profile --pid $$ --duration 0.5s --out", str(tmp_path / "out")])
        done = subprocess.run(
            ["sh", "-c", f"{words}; exit $?"], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        assert not any(
            "firsttouch" in " ".join(process.command[:3])
            for process in list(read(tmp_path / "out").processes.values())[1:]
        )

    def test_a_process_that_ends_before_the_first_tick(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with subprocess.Popen(["sleep", "30"]) as target:
            check = profiler._check_pid

            def end(*words: Any) -> None:
                check(*words)
                target.kill()
                target.wait()

            monkeypatch.setattr(profiler, "_check_pid", end)
            with pytest.raises(UsageError, match="has ended already"):
                profiler.profile(profiler.ProfileCall(pid=target.pid, out=tmp_path / "out"))
        assert not (tmp_path / "out").exists()

    def test_a_kernel_thread_is_refused(self, tmp_path: Path) -> None:
        if not Path("/proc/2/comm").is_file() or Path("/proc/2/comm").read_text() != "kthreadd\n":
            pytest.skip("no kernel threads in this PID namespace")
        done = call("--pid", "2", "--out", str(tmp_path / "out"))
        assert (done.returncode, "process 2 is the kernel's" in done.stderr) == (2, True)

    def test_itself_is_refused(self, tmp_path: Path) -> None:
        script = f"import os, sys; os.execv(sys.executable, [{COMMAND[0]!r}, *{COMMAND[1:]!r}, 'profile', '--pid', "
        script += f"str(os.getpid()), '--out', {str(tmp_path / 'out')!r}])"
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, "is this one; give --pid a process of yours" in done.stderr) == (2, True)


FORKS = """
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
/* Many processes, one after the other, that execute `true`, and generations that double. */
int main(int count, char **words) {
    for (int i = 0; i < atoi(words[1]); ++i) {
        if (vfork() == 0) execlp("true", "true", (char *)0), _exit(1);
        wait(0);
    }
    for (int i = 0; i < atoi(words[2]); ++i) fork();
    usleep(200000);
    while (wait(0) > 0) {}
}
"""


@pytest.mark.slow
def test_many_processes_are_counted(tmp_path: Path) -> None:
    program = build(tmp_path, "forks", FORKS)
    done = call("--out", str(tmp_path / "out"), "--", str(program), "1000", "8")
    assert done.returncode == 0
    assert len(done.stderr.splitlines()) <= 25
    profile = read(tmp_path / "out")
    if not next(layer for layer in profile.header.layers if layer.layer == "processes").active:
        pytest.skip("needs perf events")
    names: dict[str, int] = {}
    for line in profile.brief:
        names = {name: names.get(name, 0) + line.names.get(name, 0) for name in {*names, *line.names}}
    assert "" not in names
    assert len(profile.processes) + sum(names.values()) == 1000 + 256


def test_a_process_that_ends_while_it_is_looked_for_is_counted(tmp_path: Path) -> None:
    class Ending(Tree):
        """Processes end as soon as a first file of them was looked for."""

        def path(self, name: str) -> Path:
            path = super().path(name)
            if path.parent.name.isdecimal() or path.name.isdecimal():
                ended.append(name)
            return path.parent / "gone" if len(ended) > 1 else path

    ended: list[str] = []
    (tmp_path / "proc/7").mkdir(parents=True)
    writer = Writer(tmp_path / "out")
    processes = Processes(Ending(tmp_path), writer, Pace(0.01))
    processes.started(7, 1)
    processes.add_started(0.0)
    writer.close()
    (brief,) = (tmp_path / "out" / "profile.jsonl").read_text().splitlines()
    assert '"count":1' in brief


def test_the_end_of_others_is_seen_where_the_first_had_ended_before_it_was_read(tmp_path: Path) -> None:
    """Else `profile --follow` waits for ever."""
    first = subprocess.Popen(["true"])
    first.wait()
    writer = Writer(tmp_path / "out")
    processes = Processes(Tree(), writer, Pace(0.01))
    processes.first_is_child = True
    assert not processes.add_first(0.0, first.pid)
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as other:
        assert processes.add(0.0, other.pid, 0)
        assert processes.key_of(other.pid) == 1
    processes.stop()
    processes.take_readings(0.0)
    writer.close()
    assert not processes.members


def test_processes_of_which_the_kernel_had_no_room_to_tell_are_found(tmp_path: Path) -> None:
    class Lossy:
        every, core = 0, None

        def read(self, *, rest: bool) -> PerfBatch:
            return PerfBatch([], [], [], [], [], lost=9)

    words = ["sh", "-c", "sleep 30 & echo on; wait"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True) as target:
        assert target.stdout is not None
        target.stdout.readline()
        writer = Writer(tmp_path / "out")
        sampler = Sampler(Tree(), writer, time.monotonic(), 0.01, perf=Lossy())  # type: ignore[arg-type]
        sampler.begin(target.pid, is_child=True)
        until(lambda: sampler.step() or len(sampler.processes.members) == 2)
        sampler.processes.stop()
        writer.close()
        os.killpg(target.pid, signal.SIGKILL)
    lines = [json.loads(line) for line in (tmp_path / "out" / "profile.jsonl").read_text().splitlines()]
    (notice,) = [line["text"] for line in lines if "text" in line]
    assert_states(notice, "many processes", "not counted")


class TestRanks:
    @pytest.fixture
    def words(self, mpi: Mpi) -> list[str]:
        if mpi.why_not:
            pytest.skip(mpi.why_not)
        launcher = Path(mpi.command[0]).with_name("mpirun")
        options = ["--allow-run-as-root", "--oversubscribe"] if mpi.name == "openmpi" else []
        return [str(launcher), *options, "-n", "3", *UNDRAWN, "profile"]

    def test_each_has_a_folder_and_report_takes_all(self, tmp_path: Path, words: list[str]) -> None:
        out = tmp_path / "out"
        script = "import time; held = bytearray(16 << 20); time.sleep(0.5); print('done')"
        words += ["--out", str(out), "--", sys.executable, "-c", script]
        done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
        assert (done.returncode, done.stdout) == (0, "done\n" * 3)
        assert sorted(path.name for path in out.iterdir()) == ["rank-0", "rank-1", "rank-2"]
        lines = [line for line in done.stderr.splitlines() if ": peak " in line]
        assert sorted(line.partition(":")[0] for line in lines) == ["rank 0", "rank 1", "rank 2"]
        assert len(done.stderr.splitlines()) <= 27
        drawn = subprocess.run([*COMMAND, "report", str(out)], capture_output=True, text=True, timeout=120, check=False)
        assert [line.partition(":")[0] for line in drawn.stdout.splitlines()] == [
            *("rank 0", "rank 1", "rank 2"),
            str(out / "report.html"),
        ]

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_a_signal_to_the_launcher_ends_all(self, tmp_path: Path, words: list[str], number: int) -> None:
        out = tmp_path / "out"
        words += ["--out", str(out), "--", sys.executable, "-c", SLEEPS]
        with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as launcher:
            until(lambda: all(has_sampled(out / f"rank-{rank}") for rank in range(3)), 60)
            targets = [read(out / f"rank-{rank}").header.pid for rank in range(3)]
            launcher.send_signal(number)
            assert launcher.wait(60) != 0
        until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in targets))


@pytest.mark.parametrize("call", [{"command": ["true"]}, {"pid": 1}])
def test_a_proc_of_other_processes_is_refused_before_anything_starts(tmp_path: Path, call: dict[str, Any]) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/self").symlink_to("1")
    with pytest.raises(UsageError, match=r"/proc .* PID namespace.*`unshare --mount-proc`"):
        profiler.profile(profiler.ProfileCall(**call, out=tmp_path / "out", tree=Tree(tmp_path)))
    assert not (tmp_path / "out").exists()
