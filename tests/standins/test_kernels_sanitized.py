"""Kernels of applications on the stand-in, under the address sanitizer.

The tests show that every access is within its buffer or array, that SHARED memory is written before it is read (it is
filled with wrong data before), that all items of a group reach each barrier, and that the results are right when groups
and items run in reverse order. The runs write no report, because the disassembler that a report needs cannot be loaded
into a process with the sanitizer.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from command import app
from tests.matrix import matrix

from firsttouch.apps import all_apps


@pytest.fixture(scope="session")
def sanitized() -> dict[str, str]:
    """Environment variables of a process whose kernels are compiled with the sanitizer."""
    found = subprocess.run(["g++", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    library = found.stdout.strip()
    if not Path(library).is_absolute():
        pytest.skip("g++ has no libasan.so")
    options = "detect_leaks=0:abort_on_error=1:detect_odr_violation=0"
    return {"STANDIN_SANITIZE": "1", "STANDIN_BACKWARD": "1", "LD_PRELOAD": library, "ASAN_OPTIONS": options}


@pytest.mark.exhaustive
@pytest.mark.timeout(600)
def test_every_application_passes(tmp_path: Path, sanitized: dict[str, str]) -> None:
    options = ("--all", "--strategy", "managed", "--size", "tiny", "--repeat", "1")
    records = app(tmp_path / "out", *options, status=None, **sanitized)
    assert not [(r.factors["app"], r.reason or r.verified_why) for r in records if r.verified is not True]
    assert {r.factors["app"] for r in records} == set(all_apps())


WRONG = """
from firsttouch.harness.app import App, buffer, f32

class Wrong(App):
    name, source, pattern, sizes = "wrong", "-", "-", {"tiny": {"n": 1000}, "default": {"n": 1000}}
    x = buffer(f32, "n", role="output", starts_on="gpu", ends_on="cpu")
    kernel_text = '''%s'''

    def initialise(self, cpu, gpu):
        pass

    def compute(self, cpu, gpu):
        gpu.launch("wrong", self.x, self.n, groups=4, threads=250, writes=[self.x])

    def check(self, view):
        return ""
"""
OUT_OF_BUFFER = "GROUP_KERNEL wrong(GLOBAL float* x, ulong n) { BARRIER(); x[GROUP_ID * 250 + LOCAL_ID + 1] = 1.0f; }"
DIVERGENT_BARRIER = "GROUP_KERNEL wrong(GLOBAL float* x, ulong n) { x[0] = 1.0f; if (LOCAL_ID < 9) BARRIER(); }"
OUT_OF_ARRAY = "GROUP_KERNEL wrong(GLOBAL float* x, ulong n) { SHARED float s[249]; s[LOCAL_ID] = 1; x[0] = s[0]; }"


@pytest.mark.parametrize(
    ("kernel", "message"),
    matrix(
        [
            (OUT_OF_BUFFER, "ABORTING"),
            (DIVERGENT_BARRIER, "some items of a group only"),
            (OUT_OF_ARRAY, "out of bounds"),
        ],
        1,
    ),
)
@pytest.mark.slow
def test_an_invalid_kernel_aborts_the_process(
    kernel: str, message: str, tmp_path: Path, sanitized: dict[str, str]
) -> None:
    module = tmp_path / "wrong.py"
    module.write_text(WRONG % kernel)
    options = ("--module", str(module), "--strategy", "explicit", "--size", "tiny", "--repeat", "1")
    (record,) = app(tmp_path / "out", "wrong", *options, status=None, **sanitized)
    assert record.status == "crashed"
    assert message in record.reason
