"""The lines of Python of calls and of page faults."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from tests.profile.injected import HERE, environment, only_journal, run

from firsttouch.profile.profiler import ProfileCall, profile
from firsttouch.profile.reading import read
from firsttouch.profile.recorded import ProcessJournal
from firsttouch.profile.summarise import summarise

VERSIONS = ("3.10", "3.11", "3.12", "3.13")


def interpreters() -> list[str]:
    """This Python, and those that FIRSTTOUCH_TEST_PYTHONS and the system have."""
    more = os.environ.get("FIRSTTOUCH_TEST_PYTHONS", "").split(":")
    found = [sys.executable, *more, shutil.which("python3", path="/usr/bin")]
    return list(dict.fromkeys(os.path.realpath(path) for path in found if path))


def traced(python: str, standin: Path, folder: Path) -> tuple[ProcessJournal, list[tuple[int, str, int, str]]]:
    script = folder / "dürer" / "日本 😀.py"
    script.parent.mkdir()
    shutil.copy(HERE / "python_calls.py", script)
    package = folder / "site-packages"
    package.mkdir()
    (package / "helper.py").write_text("def through(f, *arguments):\n    return f(*arguments)\n")
    (script.parent / "grün.py").write_text("def through(f, of, call):\n\n    return f(*of(call()))\n")
    variables = environment(
        folder, nvtx=False, trace=True, STANDIN=str(standin), FIRSTTOUCH_PROFILE_CUPTI=str(standin),
        STANDIN_CUPTI_REPEAT="0", MORE=str(package), PYTHONIOENCODING="utf-8", PYTHONUTF8="1",
    )  # fmt: skip
    output = run([python, script], variables)
    return only_journal(folder), [tuple(row) for row in json.loads(output)]


@pytest.mark.parametrize("python", interpreters())
def test_each_call_has_the_users_line(python: str, standin, tmp_path: Path) -> None:
    journal, expected = traced(python, standin(), tmp_path)
    version = re.search(r"3\.\d+", subprocess.run([python, "-V"], capture_output=True, text=True).stdout)
    found = {a.bytes: next((f for f in a.site if f.function), None) for a in journal.allocations}
    if version is None or version[0] not in VERSIONS:
        assert not any(found.values())
        assert any("lines of Python" in notice.text for notice in journal.notices)
        return
    assert len(expected) > 250
    wrong = [row for row in expected if (f := found[row[0]]) is None or (f.file, f.offset, f.function) != row[1:]]
    assert not wrong
    assert not journal.notices


@pytest.mark.parametrize("python", interpreters())
def test_page_faults_have_the_users_line(python: str, tmp_path: Path) -> None:
    script = tmp_path / "füll.py"
    script.write_text(
        "def fill():\n    return b'x' * (48 << 20)\n\n\ndata = fill()\n"
        "more = list(range(1 << 20))\nexec('again = bytes(data[1:])')\n"
    )
    outcome = profile(ProfileCall(command=[python, str(script)], out=tmp_path / "out", faults=8))
    assert outcome.status == 0
    if not any(layer.layer == "faults" and layer.active for layer in read(outcome.directory).header.layers):
        pytest.skip("perf events are not permitted here")
    summary = summarise(read(outcome.directory))
    assert summary.touches is not None
    shares: dict[tuple[str, int], float] = defaultdict(float)
    for row in summary.touches.rows:
        shares[row.source, row.line] += row.percent
    version = re.search(r"3\.\d+", subprocess.run([python, "-V"], capture_output=True, text=True).stdout)
    if version is None or version[0] not in VERSIONS:
        assert str(script) not in {source for source, _ in shares}
        return
    largest = sorted(shares, key=lambda place: -shares[place])[:3]
    assert set(largest) == {(str(script), 2), (str(script), 6), ("<string>", 1)}
    assert summary.touches.of_python > 50
