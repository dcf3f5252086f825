"""All memory is obtained through the guard, and its three limits from the environment are enforced."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

NATIVE = Path(__file__).parents[2] / "native"

# Calls that allocate memory of a size that the user chooses, and the only files that may contain them.
HOST, OPENCL = "device/host/memory.cpp", "device/opencl/device.cpp"
GPU, GPU_HEADER, HIP = "device/gpu.cpp", "device/gpu.hpp", "device/hip/device.cpp"
# What a profile needs for itself: names of ranges, a journal that is a file, and buffers that the kernel limits.
NAMES, JOURNAL, RINGS = "profile/inject/front/cuda/nvtx.cpp", "profile/inject/core/journal.cpp", "profile/perf.cpp"
PYTHON = "profile/python_process.cpp"  # the target's interpreter, whose symbols are read
CODE = "profile/inject/front/hip/layer.cpp"  # a file of code that the program loads, which is read
TRACKED = "profile/page_tracker.cpp"  # pages on which it tries what the kernel offers
FORKED = "events/home_process.hpp"  # a page that the kernel wipes in a forked process
# Under `try`, malloc's family, for a program that asks for memory itself, and memory that its blocks are placed in.
TRIED, PLACED = {"profile/tried/library.cpp", "profile/tried/memory.cpp"}, "profile/tried/driver.cpp"
OBTAINING = {
    r"\b(?:std::)?malloc\(": {HOST, NAMES, *TRIED},
    r"\bmmap\(": {HOST, JOURNAL, RINGS, PYTHON, CODE, TRACKED, FORKED, PLACED},
    r"\.mem_alloc\b": {GPU},
    r"\.mem_alloc_managed\b": {GPU},
    r"\.mem_alloc_flags\b": {HIP},
    r"\.mem_host_alloc\b": {GPU},
    r"\.mem_host_register\b": {GPU},
    r"\.mem_create\b": {GPU},
    r"\.module_load\b": {GPU, GPU_HEADER},  # kernels; a __managed__ array
    r"\bcreate_buffer,": {OPENCL},
    r"\bsvm_alloc,": {OPENCL},
    r"\b(?:posix_memalign|aligned_alloc|memalign|p?valloc|calloc|realloc)\(": TRIED,
    r"\b(?:sbrk|shmget|shm_open|memfd_create|numa_alloc\w*)\(": set(),
    r"\bnew \w+[^;(]*\[": set(),
    r"\bobtain\(": {HOST, GPU, GPU_HEADER, OPENCL, "device/host/device.cpp", "device/device.hpp", "device/device.cpp"}
    | {"probe/allocation.cpp"},  # times obtain itself, and holds a Reservation for all of it
    r"\bobtain_host\(": {HOST, GPU, OPENCL, "device/host/device.cpp", "device/host/memory.hpp"},
}


def code_of(path: Path) -> str:
    """Returns the text of a file without comments and string literals."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)
    return re.sub(r'"(?:\\.|[^"\\\n])*"', '""', text)


@pytest.mark.parametrize("call", OBTAINING)
def test_memory_is_obtained_only_by_the_implementations_of_devices(call: str) -> None:
    files = [path for path in NATIVE.rglob("*") if path.suffix in (".cpp", ".hpp")]
    assert len(files) > 20
    found = {str(path.relative_to(NATIVE)) for path in files if re.search(call, code_of(path))}
    if OBTAINING[call]:
        assert found, f"the table is out of date: nothing matches {call}"
    assert found <= OBTAINING[call], f"{call} obtains memory outside the guard"


def test_allocate_reserves_before_it_obtains() -> None:
    body = code_of(NATIVE / "device/device.cpp").partition("Device::allocate(")[2]
    assert 0 < body.index("reserve(") < body.index("obtain(")
    probe = code_of(NATIVE / "probe/allocation.cpp").partition("Outcome allocation(")[2]
    assert 0 < probe.index(".reserve(") < probe.index("blocks.run(")  # which obtains them
    assert ".obtain(" not in probe


WORKER = """
import json, os, sys
from contextlib import ExitStack
from firsttouch import _core
from firsttouch.machine.devices import open_device

def allocate(device_name, allocator, sizes):
    with ExitStack() as held:
        try:
            device = open_device(device_name)
        except _core.Unavailable as reason:
            yield f"unavailable: {reason}"
            return
        for size in sizes:
            try:
                held.enter_context(device.allocate(allocator, size))
                yield "allocated"
            except _core.GuardRefused as refusal:
                yield f"refused: {refusal}"
            except ValueError as error:
                yield f"bad: {error}"

for line in sys.stdin:
    limits, *asked = json.loads(line)
    os.environ.update(limits)
    print(json.dumps([*allocate(*asked)]), flush=True)
    for name in limits:
        del os.environ[name]
"""

Worker = Callable[..., list[str]]


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    """worker(device, allocator, sizes..., LIMIT=...): one line per allocation in another process with these limits,
    which holds no other memory. All of them are freed afterwards.
    """
    clean = {key: value for key, value in os.environ.items() if not key.startswith("FIRSTTOUCH_MAX_")}
    command = [sys.executable, "-c", WORKER]
    with subprocess.Popen(command, env=clean, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout

        def ask(device: str, allocator: str, *sizes: int, **limits: str) -> list[str]:
            print(json.dumps([limits, device, allocator, sizes]), file=process.stdin, flush=True)
            lines: list[str] = json.loads(process.stdout.readline())
            if lines[0].startswith("unavailable"):
                if os.environ.get("CI") and not device.startswith(("cuda", "hip")):
                    pytest.fail(lines[0])
                pytest.skip(lines[0])
            return lines

        yield ask


@pytest.mark.parametrize("allocator", ["malloc", "mmap"])
def test_host_limit(worker: Worker, allocator: str) -> None:
    first, second, third = worker("cpu", allocator, 2**20, 2**19 + 1, 2**19, FIRSTTOUCH_MAX_HOST="1.5MiB")
    assert (first, third) == ("allocated", "allocated")
    assert re.match(
        r"refused: needs 512 KiB of host memory with 1 MiB already held.* 1\.5 MiB.*FIRSTTOUCH_MAX_HOST", second
    )


@pytest.mark.parametrize("allocator", ["device", "pinned", "svm-coarse", "svm-fine", "svm-atomic"])
def test_device_limit(worker: Worker, allocator: str) -> None:
    # Opening the OpenCL device allocates no device memory, so the limit applies to these requests alone.
    first, second = worker("opencl:0", allocator, 2**20, 1, FIRSTTOUCH_MAX_DEVICE="2^20")
    assert first == "allocated"
    assert re.match(r"refused: needs 1 B of device memory with 1 MiB already held.*FIRSTTOUCH_MAX_DEVICE", second)


def test_device_memory_that_is_host_memory_counts_as_host_memory(worker: Worker) -> None:
    (line,) = worker("opencl:0", "device", 2**21, FIRSTTOUCH_MAX_HOST="1MiB")
    assert line.endswith("(FIRSTTOUCH_MAX_HOST)")


def test_managed_limit(worker: Worker) -> None:
    # Only a GPU has managed memory; tests/native/test_guard.cpp tests the same limit on every machine.
    first, second = worker("cuda:0", "managed", 2**20, 1, FIRSTTOUCH_MAX_MANAGED="1MiB")
    assert first == "allocated"
    assert "FIRSTTOUCH_MAX_MANAGED" in second


def test_without_limits_the_memory_of_the_machine_is_the_limit(worker: Worker) -> None:
    (line,) = worker("cpu", "mmap", 2**60)
    assert line.startswith("refused: ")
    assert "less a reserve" in line


@pytest.mark.parametrize("text", ["plenty", "inf", "2^", "2^64", "-1", "1e40"])
def test_a_limit_that_does_not_parse_is_named(worker: Worker, text: str) -> None:
    (line,) = worker("cpu", "malloc", 4096, FIRSTTOUCH_MAX_HOST=text)
    assert line == f"bad: FIRSTTOUCH_MAX_HOST='{text}' is not a size such as 24GiB"
