"""Advice about programs that use OpenCL: strategies that it has, and changes in its calls."""

from __future__ import annotations

import msgspec
import pytest
from tests.advice.test_traced_advice import NAMES, prices
from tests.port.traces import Calls
from tests.texts import assert_states

from firsttouch.advice.answer import Advice
from firsttouch.advice.apis import words_of
from firsttouch.advice.edits import edits
from firsttouch.advice.output import answer
from firsttouch.advice.port.found import found
from firsttouch.advice.port.places import Places
from firsttouch.advice.traced import TracedProgram, advise_traced
from firsttouch.profile.recorded import Runtime
from firsttouch.program.strategies import STRATEGIES
from firsttouch.program.trace import TracedRun, trace
from firsttouch.program.traced import program_of_trace

SIZE = 64 << 20
OPENCL = Runtime(api="OpenCL", version="OpenCL 1.2", device="pthread-skylake")
PLATFORMS = ("model:kaveri", "model:tk1", "model:mi300a", "model:gh200")


def two_buffers(api: str) -> TracedRun:
    """One array in, one out, in 20 rounds."""
    calls = Calls()
    hosts, buffers = [calls.host(SIZE), calls.host(SIZE)], [calls.block(SIZE, line=10), calls.block(SIZE, line=11)]
    for _ in range(20):
        calls.copy(buffers[0], hosts[0], SIZE, line=20)
        calls.launch(*buffers, line=21)
        calls.copy(hosts[1], buffers[1], SIZE, line=22)
    for buffer in buffers:
        calls.free(buffer, line=30)
    return trace(msgspec.structs.replace(calls.traced, runtimes=[OPENCL] if api == "OpenCL" else []))


def advised(api: str, platform: str) -> Advice:
    run = two_buffers(api)
    about = found(run, NAMES, directory="port-1", command=["/opt/app"], status=0)
    traced = TracedProgram(run, program_of_trace(run), about, Places(NAMES), OPENCL.device)
    return advise_traced(traced, prices(platform))


def changes(api: str, strategy: str) -> list[tuple[str, str, list[str]]]:
    run = two_buffers(api)
    made = edits(run, found(run, NAMES), Places(NAMES), STRATEGIES[strategy])
    return [(edit.what, edit.text, edit.lines) for edit in made]


@pytest.mark.parametrize("platform", PLATFORMS)
def test_only_strategies_that_opencl_has_are_offered(platform: str) -> None:
    advice = advised("OpenCL", platform)
    offered = {row.strategy for row in advice.strategies}
    assert not any(STRATEGIES[name].allocator == "managed" for name in offered)
    assert "unified" not in offered
    assert {"explicit"} <= offered
    others = {row.strategy for row in advised("CUDA", platform).strategies}
    assert offered <= others


def test_strategies_of_opencl_stay_on_a_device_that_has_them() -> None:
    offered = {row.strategy for row in advised("OpenCL", "model:kaveri").strategies}
    assert {"buffer", "svm-coarse", "svm-fine", "svm-atomic", "system"} <= offered
    assert "pinned" not in offered  # which is a buffer there
    assert {row.strategy for row in advised("CUDA", "model:tk1").strategies} >= {"managed", "pinned"}


def test_the_answer_says_what_a_strategy_is_in_opencl() -> None:
    advice = advised("OpenCL", "model:mi300a")
    assert advice.verdict.strategies[0] == "pinned"
    assert_states(str(answer(advice)[0]), "Use pinned (buffers with CL_MEM_ALLOC_HOST_PTR)")
    assert "CL_" not in str(answer(advised("CUDA", "model:mi300a"))[0])


def test_buffers_that_are_mapped_take_the_place_of_copies() -> None:
    allocate, copied, _, waits, free = changes("OpenCL", "buffer")
    assert_states(allocate[1], "create 2 buffers with CL_MEM_ALLOC_HOST_PTR")
    assert allocate[2] == ["bs.cu:10", "bs.cu:11"]
    assert copied[0] == "map"
    assert_states(copied[1], "map and unmap", "in place of 40 copies")
    assert copied[2] == ["bs.cu:20", "bs.cu:22"]
    assert_states(waits[1], "map by a call that blocks")
    assert_states(free[1], "release 2 buffers")


@pytest.mark.parametrize(
    ("strategy", "capability", "is_mapped"),
    [
        ("svm-coarse", "CL_DEVICE_SVM_COARSE_GRAIN_BUFFER", True),
        ("svm-fine", "CL_DEVICE_SVM_FINE_GRAIN_BUFFER", False),
        ("svm-atomic", "CL_DEVICE_SVM_ATOMICS", False),
    ],
)
def test_shared_virtual_memory_says_what_it_needs(strategy: str, capability: str, is_mapped: bool) -> None:
    allocate, passed, copied, _, waits, free = changes("OpenCL", strategy)
    assert_states(allocate[1], "clSVMAlloc", "OpenCL 2.0", capability)
    assert_states(passed[1], "clSetKernelArgSVMPointer")
    assert passed[2] == ["bs.cu:21"]
    assert (copied[0], "clFinish" in waits[1]) == (("map", False) if is_mapped else ("drop", True))
    assert_states(free[1], "clSVMFree, which does not wait for kernels")


def test_plain_memory_needs_no_buffers_that_are_given_back() -> None:
    what = [change for change, _, _ in changes("OpenCL", "system")]
    assert what == ["allocate", "pass", "drop", "check", "wait"]
    assert_states(changes("OpenCL", "system")[0][1], "in place of 2 buffers", "CL_DEVICE_SVM_FINE_GRAIN_SYSTEM")


def test_changes_of_cuda_stay_in_its_terms() -> None:
    texts = [text for _, text, _ in changes("CUDA", "managed")]
    assert_states(texts[0], "allocate 2 buffers by cudaMallocManaged, which replaces 2 host arrays")
    assert not any("cl" in word for text in texts for word in text.split() if word.startswith("cl"))
    assert [what for what, _, _ in changes("CUDA", "managed")] == ["allocate", "drop", "check", "wait", "free"]


def test_page_locked_host_arrays_of_opencl_are_mapped_buffers() -> None:
    assert_states(changes("OpenCL", "explicit+pinned")[0][1], "keep 2 host arrays in mapped buffers")
    assert_states(changes("CUDA", "explicit+pinned")[0][1], "allocate 2 host arrays as pinned memory")


def test_an_api_without_words_of_its_own_has_those_of_cuda() -> None:
    assert words_of(["another"]) is words_of(["CUDA"])
    assert words_of(["another", "OpenCL"]) is words_of(["OpenCL"])


def test_a_program_of_hip_is_told_calls_of_hip() -> None:
    changed = {name: words_of(["HIP"]).memory(STRATEGIES[name]).make for name in ("managed", "pinned", "unified")}
    called = [text.partition(" by ")[2].partition(",")[0] for text in changed.values()]
    assert called == ["hipMallocManaged", "hipHostMalloc", "hipMalloc"]
