"""`firsttouch profile` as a user calls it: the target does not notice, and what is read of it is true."""

from __future__ import annotations

import errno
import json
import os
import pty
import select
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.calls import COMMAND, UNDRAWN
from tests.profile.calls import call, has_sampled, start, until, values
from tests.profile.targets import build
from tests.schemas import assert_valid
from tests.texts import assert_states

from firsttouch.profile import profiler
from firsttouch.profile.content import Profile
from firsttouch.profile.profiler import ProfileCall, directory_of
from firsttouch.profile.reading import read
from firsttouch.profile.summarise import summarise

MiB = 1 << 20


class TestTheTargetDoesNotNotice:
    @pytest.mark.slow
    def test_output_input_and_exit_status_are_its_own(self, tmp_path: Path) -> None:
        out = tmp_path / "out"
        words = [*COMMAND, "profile", "--out", str(out), "--", "sh", "-c", "cat; echo more >&2; exit 7"]
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        with subprocess.Popen(words, text=True, **pipes) as profiler:
            until(lambda: has_sampled(out))
            stdout, stderr = profiler.communicate("in\n", timeout=60)
        assert (profiler.returncode, stdout) == (7, "in\n")
        lines = stderr.splitlines()
        assert lines[0] == "more"
        assert "peak" in lines[1]
        assert len(lines) <= 26
        assert (out / "report.html").is_file()

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
    def test_signals_are_handed_on(self, tmp_path: Path, number: int) -> None:
        script = "import signal, sys\nfor n in (1, 2, 15): signal.signal(n, lambda n, f: sys.exit(40 + n))\n"
        script += "print('ready', flush=True)\nwhile True: signal.pause()"
        with start("--out", str(tmp_path / "out"), "--", sys.executable, "-c", script) as profiler:
            assert profiler.stdout is not None
            assert profiler.stdout.readline() == "ready\n"
            profiler.send_signal(number)
            assert profiler.wait(30) == 40 + number
        assert read(tmp_path / "out").end is not None

    def test_the_status_of_a_signal_is_that_of_a_shell(self, tmp_path: Path) -> None:
        done = call("--out", str(tmp_path / "out"), "--", "sh", "-c", "kill -SEGV $$")
        assert done.returncode == 128 + signal.SIGSEGV
        profile = read(tmp_path / "out")
        assert profile.first is not None
        assert profile.first.status == -signal.SIGSEGV

    def test_with_json_the_targets_stdout_goes_to_stderr(self, tmp_path: Path) -> None:
        done = call("--json", "--out", str(tmp_path / "out"), "--", "echo", "hello")
        assert done.stderr.startswith("hello\n")
        assert json.loads(done.stdout)["status"] == 0
        assert_valid("profile", json.loads(done.stdout))
        stored = json.loads((tmp_path / "out" / "profile.json").read_text())
        assert stored == json.loads(done.stdout)

    def test_pipes_break_as_without_a_profiler(self, tmp_path: Path) -> None:
        done = call("--out", str(tmp_path / "out"), "--", "sh", "-c", "yes | head -n 1; kill -PIPE $$")
        assert (done.returncode, done.stdout) == (128 + signal.SIGPIPE, "y\n")

    def test_its_environment_is_left_alone_on_request(self, tmp_path: Path) -> None:
        script = "import os; print(sorted(os.environ.items()))"
        run = {"env": dict(os.environ), "capture_output": True, "text": True, "check": True}
        plain = subprocess.run([sys.executable, "-c", script], **run).stdout
        command = ["--out", str(tmp_path / "out"), "--no-inject", "--", sys.executable, "-c", script]
        assert call(*command).stdout == plain

    def test_its_environment_is_not_recorded(self, tmp_path: Path) -> None:
        environment = {**os.environ, "SECRET_TOKEN": "hunter2", "OMP_NUM_THREADS": "3"}
        call("--out", str(tmp_path / "out"), "--", "true", env=environment)
        assert read(tmp_path / "out").header.environment == {"OMP_NUM_THREADS": "3"}
        assert all(b"hunter2" not in file.read_bytes() for file in (tmp_path / "out").iterdir())


class Terminal:
    """An interactive shell on a terminal of its own."""

    def __init__(self) -> None:
        self.pid, self._master = pty.fork()
        if self.pid == 0:
            os.environ["PS1"] = "$ "
            os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
        self.text = ""

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def until(self, *words: str, seconds: float = 60.0) -> None:
        """Reads until all words have been printed since the last call."""
        end = time.monotonic() + seconds
        self.text = ""
        while not all(word in self.text for word in words):
            if time.monotonic() > end:
                raise TimeoutError(self.text)
            if select.select([self._master], [], [], 0.1)[0]:
                self.text += os.read(self._master, 1 << 16).decode(errors="replace")

    def close(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._master)


def test_the_terminal_belongs_to_the_target(tmp_path: Path) -> None:
    """Input, Ctrl-Z, fg and Ctrl-C act as without a profiler."""
    terminal = Terminal()
    try:
        terminal.until("$ ")
        script = "import time; print('got', input(), flush=True); time.sleep(60)"
        words = [*UNDRAWN, "profile", "--out", str(tmp_path / "out"), "--", sys.executable, "-c", script]
        terminal.type(shlex.join(words) + "\n")
        until(lambda: (tmp_path / "out" / "profile.jsonl").is_file())
        terminal.type("this\n")
        terminal.until("got this")
        terminal.type("\x1a")
        terminal.until("Stopped", "$ ")
        terminal.type("fg\n")
        terminal.until("profile")
        time.sleep(0.3)
        terminal.type("\x03")
        terminal.until("KeyboardInterrupt", "peak", "$ ")
        terminal.type("echo status=$?\n")
        terminal.until("status=130")
    finally:
        terminal.close()


RAMP = """
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
/* A ramp of 16 MiB each 50 ms, of base or huge pages, held until the input ends; then all is freed. */
int main(int argc, char **argv) {
    const size_t size = 16 << 20;
    char *at[8], word;
    for (int i = 0; i < 8; ++i) {
        at[i] = mmap(0, size + (2 << 20), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        at[i] = (char *)(((size_t)at[i] + (2 << 20) - 1) & -(size_t)(2 << 20));
        madvise(at[i], size, argc > 1 ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
        for (size_t k = 0; k < size; k += 4096) at[i][k] = 1;
        usleep(50000);
    }
    while (read(0, &word, 1) > 0) {}
    for (int i = 0; i < 8; ++i) munmap(at[i], size), usleep(20000);
    usleep(200000);
}
"""


def huge_pages_are_there() -> bool:
    file = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    return file.is_file() and "[never]" not in file.read_text()


@pytest.mark.parametrize("pages", ["base", "huge"])
@pytest.mark.slow
def test_a_ramp(tmp_path: Path, pages: str) -> None:
    if pages == "huge" and not huge_pages_are_there():
        pytest.skip("needs transparent huge pages")
    program = build(tmp_path, "ramp", RAMP)
    out = tmp_path / "out"
    with start("--out", str(out), "--", str(program), *["huge"] * (pages == "huge"), stdin=subprocess.PIPE) as running:
        until(lambda: max(values(out, "total", "resident")) >= 128 * MiB, apart=0.05)
        if pages == "huge":
            until(lambda: max(values(out, "process:0", "huge")) >= 128 * MiB, apart=0.05)
        running.communicate()
        assert running.returncode == 0
    profile = read(out)
    curve = profile.curves["total", "resident"]
    at, peak = curve.peak
    assert 128 * MiB <= peak < 136 * MiB
    assert min(value for t, value in curve if t <= at) < 64 * MiB
    assert curve.values[-1] < 8 * MiB
    faults = profile.curves["total", "minor"].values[-1]
    assert faults > 32_768 if pages == "base" else faults < 5_000
    assert profile.first is not None
    assert (profile.first.peak or 0) >= 128 * MiB
    if pages == "huge":
        rows = [row for line in profile.mappings for row in line.rows]
        assert max(row.huge for row in rows) >= 16 * MiB


TREE = """
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
/* A child, and two more at the first letter of the input, touch the 16 MiB that their parent shares with them. All stay
   until the input ends. */
int main(void) {
    char word, *at = mmap(0, 16 << 20, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memset(at, 1, 16 << 20);
    pid_t children[3];
    for (int i = 0; i < 3; ++i) {
        if (i == 1) read(0, &word, 1);
        if ((children[i] = fork()) == 0) {
            for (size_t k = 0; k < 16 << 20; k += 4096) at[k] = 2;
            pause();
        }
    }
    while (read(0, &word, 1) > 0) {}
    for (int i = 0; i < 3; ++i) kill(children[i], SIGTERM);
    while (wait(0) > 0) {}
}
"""


@pytest.mark.slow
def test_shared_memory_counts_once_in_pss_and_the_sum_says_so(tmp_path: Path) -> None:
    """Also what was counted for a process before it shared memory with others."""
    program, out = build(tmp_path, "tree", TREE), tmp_path / "out"
    with start("--out", str(out), "--", str(program), stdin=subprocess.PIPE) as running:
        assert running.stdin is not None
        until(lambda: max(values(out, "total", "resident")) >= 32 * MiB, apart=0.05)
        until(lambda: max(values(out, "total", "pss")) >= 16 * MiB, apart=0.05)
        before = len(values(out, "total", "pss"))
        running.stdin.write("f")
        running.stdin.flush()
        until(lambda: max(values(out, "total", "resident")) >= 64 * MiB, apart=0.05)
        until(lambda: len(values(out, "total", "pss")) > before, apart=0.05)
        _, printed = running.communicate()
    profile = read(out)
    assert 64 * MiB <= profile.curves["total", "resident"].peak[1] < 80 * MiB
    assert profile.curves["total", "pss"].peak[1] < 24 * MiB
    assert summarise(profile).host.processes == 4
    assert "in 4 processes, in sum 6" in " ".join(printed.split())


CHILDREN = """
#include <sys/wait.h>
#include <unistd.h>
/* 20 children that live for a millisecond, one that executes sleep, and one whose parent ends at once. */
int main(void) {
    for (int i = 0; i < 20; ++i) {
        if (fork() == 0) usleep(1000), _exit(0);
        wait(0);
    }
    if (fork() == 0) execlp("sleep", "sleep", "0.7", (char *)0);
    if (fork() == 0) {
        if (fork() == 0) usleep(800000);
        _exit(0);
    }
    while (wait(0) > 0) {}
    usleep(300000);
}
"""


@pytest.mark.slow
def test_children_of_all_kinds_are_counted(tmp_path: Path) -> None:
    program = build(tmp_path, "children", CHILDREN)
    call("--out", str(tmp_path / "out"), "--", str(program))
    profile = read(tmp_path / "out")
    perf = next(layer for layer in profile.header.layers if layer.layer == "processes")
    if not perf.active:
        pytest.skip(perf.why)
    counted = len(profile.processes) + sum(line.count for line in profile.brief)
    assert counted == 1 + 20 + 1 + 2
    names = [process.name for process in profile.processes.values()]
    assert "sleep" in names
    children = [p for p in profile.processes.values() if p.name == "children" and p.parent is not None]
    assert any(p.ended is not None for p in children), "that whose parent has ended"
    assert all(0 <= p.started <= profile.seconds for p in children), "perf events have the clock of the profile"


@pytest.mark.slow
def test_children_are_found_without_perf_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from firsttouch.profile import profiler

    monkeypatch.setattr(profiler, "open_processes", lambda *_, **__: (None, []))
    program = build(tmp_path, "children", CHILDREN)
    profiler.profile(profiler.ProfileCall(command=[str(program)], out=tmp_path / "out"))
    names = [process.name for process in read(tmp_path / "out").processes.values()]
    assert names.count("sleep") == 1
    assert names.count("children") >= 2  # the parent, and the one whose own parent had ended


def profile_of(tmp_path: Path, *command: str) -> Profile:
    assert call("--out", str(tmp_path / "out"), "--", *command).returncode == 0
    return read(tmp_path / "out")


class TestPhases:
    def test_of_python(self, tmp_path: Path) -> None:
        script = tmp_path / "phases.py"
        script.write_text(
            "import firsttouch, time, threading\n"
            "def other():\n"
            "    with firsttouch.phase('beside'): time.sleep(0.3)\n"
            "with firsttouch.phase('load'):\n"
            "    data = bytearray(64 << 20); time.sleep(0.1)\n"
            "    thread = threading.Thread(target=other); thread.start()\n"
            "    with firsttouch.phase('in\"ner'): time.sleep(0.1)\n"
            "thread.join()\n"
        )
        profile = profile_of(tmp_path, sys.executable, str(script))
        phases = {phase.name: phase for phase in profile.phases}
        assert list(phases) == ["load", "beside", 'in"ner'] or list(phases) == ["load", 'in"ner', "beside"]
        assert (phases["load"].depth, phases['in"ner'].depth, phases["beside"].depth) == (0, 1, 0)
        assert phases["load"].start < phases['in"ner'].start < phases["load"].end
        peak, _ = profile.curves["total", "resident"].peak
        assert peak > phases["load"].start

    def test_of_a_script(self, tmp_path: Path) -> None:
        mark = " ".join([*COMMAND, "mark"])
        script = f"{mark} first; sleep 0.2; {mark} second; sleep 0.1; {mark} --end; sleep 0.1"
        phases = profile_of(tmp_path, "sh", "-c", script).phases
        assert [phase.name for phase in phases] == ["first", "second"]
        assert phases[0].end == phases[1].start
        assert not phases[1].open

    def test_nothing_is_done_outside_a_profile(self, tmp_path: Path) -> None:
        script = "import firsttouch, sys\nwith firsttouch.phase('x'): pass\n"
        script += "print([name for name in ('numpy', 'msgspec', 'typer') if name in sys.modules])"
        environment = {name: value for name, value in os.environ.items() if name != "FIRSTTOUCH_PROFILE"}
        run = {"cwd": tmp_path, "env": environment, "capture_output": True, "text": True, "check": True}
        if path := os.environ.get("PYTHONPATH"):
            environment["PYTHONPATH"] = os.path.abspath(path)
        assert subprocess.run([sys.executable, "-c", script], **run).stdout == "[]\n"
        assert subprocess.run([*COMMAND, "mark", "x"], **run).stdout == ""
        assert not any(tmp_path.iterdir())


class TestAttached:
    def test_until_the_time_is_up(self, tmp_path: Path) -> None:
        with subprocess.Popen(["sleep", "30"]) as target:
            done = call("--pid", str(target.pid), "--duration", "0.5s", "--out", str(tmp_path / "out"))
            assert done.returncode == 0
            assert target.poll() is None
            target.kill()
        profile = read(tmp_path / "out")
        assert profile.end is not None
        assert (profile.end.why, profile.end.still_running) == ("the time was up", 1)

    @pytest.mark.slow
    def test_until_it_ends_and_until_ctrl_c(self, tmp_path: Path) -> None:
        with subprocess.Popen(["sleep", "30"]) as target:
            profiler = start("--pid", str(target.pid), "--out", str(tmp_path / "one"))
            until(lambda: has_sampled(tmp_path / "one"))
            target.kill()
            target.wait()
            assert profiler.wait(30) == 0
            profiler.communicate()
        ended = read(tmp_path / "one").end
        assert ended is not None
        assert ended.why == "the target ended"
        with subprocess.Popen(["sleep", "30"]) as target:
            profiler = start("--pid", str(target.pid), "--out", str(tmp_path / "two"))
            until(lambda: has_sampled(tmp_path / "two"))
            profiler.send_signal(signal.SIGINT)
            assert profiler.wait(30) == 0
            profiler.communicate()
            target.kill()
        ended = read(tmp_path / "two").end
        assert ended is not None
        assert ended.why == "ended by SIGINT"


@pytest.mark.parametrize(
    ("arguments", "status", "facts"),
    [
        ([], 2, ["nothing to profile", "firsttouch profile -- ./app", "--pid"]),
        (["--", "./not-there"], 127, ["can't start ./not-there", "no such program"]),
        (["--", "not-there-at-all"], 127, ["can't start not-there-at-all", "no such program"]),
        (["--json", "--", "/etc/passwd"], 126, ["can't start /etc/passwd", os.strerror(errno.EACCES)]),
        (["--interval", "0", "true"], 2, ["--interval '0'", "at least 1ms"]),
        (["--interval", "500us", "true"], 2, ["--interval '500us'", "at least 1ms"]),
        (["--interval", "soon", "true"], 2, ["--interval 'soon'", "at least 1ms"]),
        (["--pid", "999999999"], 2, ["no process 999999999", "--pid"]),
        (["--pid", "0x1"], 2, ["--pid '0x1'", "not the number"]),
        (["--duration", "1s", "--", "true"], 2, ["--duration needs --pid"]),
        (["--pid", "1", "--", "true"], 2, ["a command and --pid"]),
        (["--out", "FULL", "--", "true"], 2, ["FULL", "results already", "(results.jsonl)"]),
    ],
)
def test_a_wrong_call_is_one_sentence(tmp_path: Path, arguments: list[str], status: int, facts: list[str]) -> None:
    (tmp_path / "FULL").mkdir()
    (tmp_path / "FULL" / "results.jsonl").touch()
    environment = dict(os.environ)
    if "PYTHONPATH" in environment:
        environment["PYTHONPATH"] = os.path.abspath(environment["PYTHONPATH"])
    done = call(*arguments, cwd=tmp_path, env=environment)
    assert done.returncode == status
    assert bool(done.stdout) == ("--json" in arguments)
    if done.stdout:
        error = json.loads(done.stdout)["error"]
        assert (error["hint"], error["exit_status"]) == ("see firsttouch profile --help", status)
        assert f"firsttouch: {error['message']}" in done.stderr
    assert_states(done.stderr, "firsttouch: ", *facts)
    assert done.stderr.count("\n") == 1
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["FULL", "results.jsonl"]


def test_another_users_process_is_refused(tmp_path: Path) -> None:
    if os.getuid() == 0:
        pytest.skip("root may read all processes")
    done = call("--pid", "1", "--out", str(tmp_path / "out"))
    assert (done.returncode, "is another user's" in done.stderr) == (2, True)


def test_profiles_of_the_same_second_are_beside_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(profiler, "default_directory", lambda call: Path("profiles") / "app")

    def directory(**environment: str) -> str:
        return str(directory_of(ProfileCall(["app"], environment=environment)).relative_to("profiles"))

    assert [directory() for _ in range(3)] == ["app", "app-2", "app-3"]
    monkeypatch.setattr(profiler, "default_directory", lambda call: Path("profiles") / "ranks")
    launches = [
        {"PMIX_NAMESPACE": "prterun-1@1"},
        {"PMIX_NAMESPACE": "prterun-2@1"},
        {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0"},
        {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "1"},
    ]
    for rank in ("0", "1"):  # of each launch; in another order each time
        for number, launch in sorted(enumerate(launches, 1), reverse=rank == "1"):
            name = "ranks" if number == 1 else f"ranks-{number}"
            assert directory(PMI_RANK=rank, **launch) == f"{name}/rank-{rank}"


def test_ranks_of_a_launcher_that_says_nothing_and_a_file_system_without_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(profiler, "default_directory", lambda call: Path(*call.command))

    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "symlink", refuse)
    for name, launch in (("a", {}), ("b", {"FLUX_JOB_ID": "f1"})):
        calls = [ProfileCall([name], environment={"PMI_RANK": rank, **launch}) for rank in ("0", "1", "0")]
        made = [str(directory_of(call)) for call in calls]
        assert made == [f"{name}/rank-0", f"{name}/rank-1", f"{name}-2/rank-0"]


def test_ranks_write_directories_of_their_own(tmp_path: Path) -> None:
    for rank in range(2):
        environment = {**os.environ, "OMPI_COMM_WORLD_RANK": str(rank)}
        assert call("--out", str(tmp_path / "out"), "--", "true", env=environment).returncode == 0
    assert [path.name for path in sorted((tmp_path / "out").iterdir())] == ["rank-0", "rank-1"]
    assert read(tmp_path / "out" / "rank-1").header.rank == "1"


@pytest.mark.parametrize("by_signal", [False, True])
def test_follow_goes_on_until_every_process_has_ended(tmp_path: Path, by_signal: bool) -> None:
    """The first process ends at once, a child of it when its input does."""
    out = tmp_path / "p"
    script = "exec 3<&0; cat <&3 > /dev/null & exit 3"
    with start("--follow", "--out", str(out), "--", "bash", "-c", script, stdin=subprocess.PIPE) as running:
        until(lambda: has_sampled(out) and (first := read(out).first) and first.ended, apart=0.05)
        assert running.poll() is None
        if by_signal:
            running.send_signal(signal.SIGTERM)
            until(lambda: read(out).end, apart=0.05)
        running.communicate()
    profile = read(out)
    assert (running.returncode, profile.first and profile.first.status) == (3, 3)
    assert profile.end is not None
    ended = (profile.end.why, profile.end.status, profile.end.still_running)
    assert ended == (("ended by SIGTERM", 3, 1) if by_signal else ("the target ended", 3, 0))
    assert [p.ended is None for p in profile.processes.values()].count(True) == by_signal
