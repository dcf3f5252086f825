"""Every kernel of every experiment and application under compute-sanitizer on a CUDA GPU. Slow: only where
FIRSTTOUCH_SANITIZE is set.

    FIRSTTOUCH_SANITIZE=1 python -m pytest tests/experiments/test_sanitizer.py

racecheck checks memory that the threads of a block share. The intended races in global memory (the shared entry of
`caching`) are marked in the kernels; none of these tools checks global memory for races.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from small import SMALL

from firsttouch.apps import all_apps
from firsttouch.experiments import all_experiments
from firsttouch.records.reading import load_results

ALLOCATORS = "allocator=device,pinned,managed"
OWN = ("peer=self", "source=device", "target=device", "size=64KiB")
FURTHER: Mapping[str, Sequence[str]] = {
    "p2p-latency": ("peer=self", ALLOCATORS, "size=64KiB"),
    "p2p-direct": ("peer=self", ALLOCATORS, "size=2MiB"),
    "p2p-copy": OWN,
    "p2p-message": ("interface=xccl", *OWN),
    "collective": ("interface=xccl", "allocator=device", "size=64KiB"),
}
"""Small points of experiments with two devices or several processes, on one GPU."""
TOOLS = ("memcheck", "racecheck", "synccheck")
PROGRAM = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"

OUT_OF_BOUNDS = """
from firsttouch.api import App, Cpu, Gpu, View, buffer, f32


class Beyond(App):
    name, source, pattern = "beyond", "a test", "writes one element after the end"
    sizes = {"tiny": {"n": 1000}, "default": {"n": 1000}}
    n: int
    data = buffer(f32, "n", role="inout", starts_on="cpu", ends_on="cpu")
    kernel_text = "/* One value each. */ KERNEL beyond(GLOBAL float* data, ulong n) { FOR_EACH(i, n) data[i + 1] = 1; }"

    def initialise(self, cpu: Cpu, gpu: Gpu) -> None:
        cpu.uniform(self.data, -1, 1)

    def compute(self, cpu: Cpu, gpu: Gpu) -> None:
        gpu.launch("beyond", self.data, self.n, over=self.n)

    def check(self, view: View) -> str:
        return ""
"""

pytestmark = [
    pytest.mark.skipif(not os.environ.get("FIRSTTOUCH_SANITIZE"), reason="FIRSTTOUCH_SANITIZE is not set"),
    pytest.mark.skipif(not Path(PROGRAM).exists(), reason="compute-sanitizer is not here"),
    pytest.mark.timeout(600),
]


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("name", sorted(all_experiments()))
def test_no_tool_reports_an_error(name: str, tool: str, tmp_path: Path) -> None:
    out, log = tmp_path / "out", tmp_path / "log"
    asked = [ALLOCATORS if text.startswith("allocator=") else text for text in FURTHER.get(name) or SMALL[name].sets]
    sets = [word for text in asked for word in ("--set", text)]
    # NCCL asks for kernels that it may not have, which is no access to memory.
    quiet = ["--report-api-errors", "no"] if all_experiments()[name].ranks and tool == "memcheck" else []
    command = [PROGRAM, "--tool", tool, *quiet, "--target-processes", "all", "--log-file", f"{log}.%p", sys.executable]
    command += ["-m", "firsttouch.cli.main", "run", name, "--device", "cuda:0", "--timeout", "120", "--out", str(out)]
    command += ["--ranks", "1"] if all_experiments()[name].ranks else []
    done = subprocess.run([*command, *sets], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    logs = [path.read_text() for path in tmp_path.glob("log.*")]
    found = [text for text in logs if "ERROR SUMMARY" in text or "RACECHECK SUMMARY" in text]
    assert found or name == "context", "no process used the GPU under the tool"
    for text in found:
        assert "ERROR SUMMARY: 0 errors" in text or "RACECHECK SUMMARY: 0 hazards" in text, text[-3000:]
    assert any(record.status == "ok" for record in load_results(out).records)


def application(name: str, out: Path, *more: str) -> subprocess.CompletedProcess[str]:
    command = [PROGRAM, "--target-processes", "all", "--print-limit", "3", sys.executable, "-m", "firsttouch.cli.main"]
    command += ["app", name, "--size", "tiny", "--repeat", "1", "--set", "events=off", "--device", "cuda:0"]
    return subprocess.run([*command, "--out", str(out), *more], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", sorted(all_apps()))
def test_memcheck_reports_no_error_in_an_application(name: str, tmp_path: Path) -> None:
    strategies = [word for one in ("explicit", "managed", "pinned") for word in ("--strategy", one)]
    done = application(name, tmp_path / "out", *strategies)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "ERROR SUMMARY: 0 errors" in done.stdout + done.stderr
    assert any(record.verified for record in load_results(tmp_path / "out").records)


def test_memcheck_watches_the_process_that_runs_the_kernels_of_an_application(tmp_path: Path) -> None:
    (tmp_path / "beyond.py").write_text(OUT_OF_BOUNDS)
    done = application("beyond", tmp_path / "out", "--strategy", "explicit", "--module", str(tmp_path / "beyond.py"))
    assert "Invalid __global__ write" in done.stdout + done.stderr
