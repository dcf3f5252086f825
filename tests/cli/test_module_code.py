"""Modules that end, hold up or burden the command that loads them: one sentence with the place, and an end."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.calls import COMMAND
from tests.texts import assert_states

from firsttouch.base import modules
from firsttouch.base.errors import UsageError
from firsttouch.cli.module_code import code_of_modules, interrupter
from firsttouch.cli.output import shortened


@pytest.fixture(autouse=True)
def nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(modules.VARIABLE, "")
    monkeypatch.setattr(modules, "_foreign", set())
    yield
    modules._from_file.cache_clear()


def loaded(tmp_path: Path, text: str) -> str:
    """The sentence about a module that does not load."""
    (tmp_path / "mine.py").write_text(text)
    with code_of_modules(), pytest.raises(UsageError) as raised:
        modules.add_modules([str(tmp_path / "mine.py")])
    return str(raised.value)


def module_in(tmp_path: Path) -> Any:
    return next(m for m in sys.modules.values() if getattr(m, "__file__", "") == str(tmp_path / "mine.py"))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("os._exit(0)", r"os\._exit\(0\)"),
        ("os.abort()", r"os\.abort\(\)"),
        ("os.kill(os.getpid(), 9)", r"os\.kill\(\d+, 9\)"),
        ("os.execlp('true', 'true')", r"os\.execv\(.*true"),
        ("os.execle('/bin/true', 'true', {})", r"os\.execve\('/bin/true'"),
        ("sys.exit(0)", "0"),
    ],
)
def test_a_module_that_ends_the_process(tmp_path: Path, call: str, said: str) -> None:
    sentence = loaded(tmp_path, f"import os, sys\n\n{call}\n")
    assert re.search(said, sentence)
    assert "does not load: SystemExit: " in sentence
    assert sentence.endswith(f"({tmp_path / 'mine.py'}:3)")


def test_signals_to_others_and_ends_of_forked_processes_are_as_ever(tmp_path: Path) -> None:
    with code_of_modules():
        os.kill(os.getpid(), 0)
        if (child := os.fork()) == 0:
            os._exit(5)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5


THREAD = """import threading
ending, begun = threading.Event(), threading.Event()
def work():
    begun.set()
    ending.wait(60)
thread = threading.Thread(target=TARGET, daemon=True)
thread.start()
begun.wait(60)
"""


@pytest.mark.parametrize("target", ["work", "lambda: work()", "threading.Timer(0, work).run"])
def test_a_module_that_starts_a_thread(tmp_path: Path, target: str) -> None:
    sentence = loaded(tmp_path, THREAD.replace("TARGET", target))
    assert_states(sentence, "starts a thread", f"({tmp_path / 'mine.py'}:")
    module_in(tmp_path).ending.set()
    module_in(tmp_path).thread.join(20)
    assert not modules.thread_location()


def test_a_thread_that_has_ended_is_no_matter(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import threading\nt = threading.Thread(target=print)\nt.start()\nt.join()\n")
    modules.add_modules([str(tmp_path / "mine.py")])


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("while True:\n    pass\n", "does not load: SystemExit: no end within 0.1 s ("),
        ("import time\ntime.sleep(500)\n", "does not load: SystemExit: no end within 0.1 s ("),
        ("import threading, time\nthreading.Thread(target=lambda: time.sleep(500)).start()\n", "starts a thread"),
    ],
)
def test_the_command_ends_all_the_same(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "mine.py").write_text(text)
    words = ["run", "--list", "--timeout", "0.1", "--module", "mine.py"]
    done = subprocess.run([*COMMAND, *words], cwd=tmp_path, capture_output=True, text=True, timeout=50)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert said in done.stderr
    assert f"{tmp_path / 'mine.py'}:" in done.stderr


def test_only_one_long_call_into_a_module_is_interrupted(tmp_path: Path) -> None:
    """Many short ones may take as long as they like, and so may the code of this package."""
    (tmp_path / "mine.py").write_text("def calls(function):\n    function()\n    function()\n")
    modules.add_modules([str(tmp_path / "mine.py")])
    calls = module_in(tmp_path).calls
    now = [0.0]
    look = interrupter(10.0, lambda: now[0])

    def later() -> None:
        now[0] += 9.0
        look(0, sys._getframe())

    for _ in range(3):
        later()
    later_outside = now[0]
    calls(lambda: None)
    later()
    assert now[0] > later_outside
    calls(lambda: look(0, sys._getframe()))
    with pytest.raises(SystemExit, match="no end within 10 s"):
        calls(lambda: (later(), later()))


def test_an_error_is_never_longer_than_a_screen(tmp_path: Path) -> None:
    sentence = loaded(tmp_path, "raise ValueError('x' * 100_000)\n")
    assert len(sentence) < 1000
    assert sentence.endswith("mine.py:1)")
    assert len(shortened("a" * 10_000 + "(mine.py:1)")) < 1600
    assert shortened("a" * 10_000 + "(mine.py:1)").endswith("(mine.py:1)")
    assert shortened("short") == "short"
