"""The HIP device on a stand-in for AMD's libraries (hip_on_host.cpp): what it calls, states, allocates and refuses.

Every test uses a separate process, because a process opens the runtime only once. The tests check the code of the
device, and prove nothing about AMD's libraries or hardware.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import standin
from command import run
from tests.calls import call, devices
from tests.fabricated import gpu_capabilities
from tests.matrix import matrix
from tests.texts import assert_states

from firsttouch.machine.allocators.semantics import SEMANTICS
from firsttouch.records.schema import AllocatorInfo, DeviceInfo

ALLOCATORS = [
    *("malloc", "mmap", "malloc-thp", "device", "vmm", "pinned", "registered", "pinned-noncoherent"),
    *("managed", "managed-static", "fine-grained", "coarse-grained"),
]
SIZE = 3 * 2**20 + 8

PREAMBLE = """
import json, os, sys
from firsttouch import _core
from firsttouch.machine.devices import open_device
device = open_device("hip:0")
rows = {row["name"]: row for row in device.allocators()}
def used():
    total, free = device.memory()
    return total - free
def answer(value):
    print(json.dumps(value))
"""


def run_program(program: str, *words: str, **settings: str) -> Any:
    """Returns what a program reports by `answer`, in a process with `device` open and these environment variables."""
    process = subprocess.run(
        [sys.executable, "-c", PREAMBLE + program, *words],
        env=os.environ | settings,
        text=True,
        capture_output=True,
        timeout=100,
    )
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout)


def discovered() -> DeviceInfo:
    (device,) = devices(["hip"])
    return device


def entry(device: DeviceInfo, name: str) -> AllocatorInfo:
    found = device.allocator(name)
    assert found is not None
    return found


# ------------------------------------------------------------------------------------------------------- discovery


def test_discovery_and_facts() -> None:
    device = discovered()
    assert device.available, device.reason
    assert (device.name, device.title) == ("hip:0", "stand-in on the processor")
    assert device.facts["arch"] == "gfx90a:sramecc+:xnack-"
    assert (device.facts["xnack"], device.facts["runtime"]) == ("off", "6.3.42131")
    assert (device.facts["uuid"], device.facts["pci_bus"]) == ("GPU-0123456789abcdef", "0000:c1:00.0")
    assert (device.facts["memory_bytes"], device.facts["line_bytes"]) == (2**31, 128)
    assert (device.facts["l2_bytes"], device.facts["multiprocessors"]) == (8 * 2**20, 2)
    assert [row.name for row in device.allocators] == ALLOCATORS
    assert set(ALLOCATORS) <= set(SEMANTICS)
    assert "has not run on AMD hardware" in device.notes[0]


def test_a_gpu_states_its_capabilities(monkeypatch: pytest.MonkeyPatch) -> None:
    capabilities = discovered().capabilities
    assert capabilities.runs_kernels
    assert capabilities.gpu_hierarchy
    assert not capabilities.shares_host_memory
    assert not capabilities.page_migration, "without XNACK managed memory is page-locked host memory"
    assert (capabilities.time_class, capabilities.machine_code) == ("gpu", "hsaco")
    assert capabilities == gpu_capabilities(memory_guidance=True, host_native_atomics=True, machine_code="hsaco")
    monkeypatch.setenv("HSA_XNACK", "1")
    assert discovered().capabilities.page_migration


def test_an_apu_shares_the_memory_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STANDIN_INTEGRATED", "1")
    monkeypatch.setenv("HSA_XNACK", "1")
    apu = discovered()
    assert apu.capabilities.shares_host_memory
    assert not apu.capabilities.page_migration
    assert apu.capabilities.gpu_hierarchy
    assert apu.capabilities == gpu_capabilities(
        integrated=True, memory_guidance=True, host_native_atomics=True, machine_code="hsaco"
    )


def test_two_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STANDIN_DEVICES", "2")
    first, second = devices(["hip"])
    assert (first.name, second.name) == ("hip:0", "hip:1")
    assert second.facts["pci_bus"] == "0000:c2:00.0"


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"STANDIN_DEVICES": "0"}, "hipGetDeviceCount: no ROCm-capable device is detected"),
        ({"STANDIN_FAIL": "hipInit=3"}, "hipInit: initialization error (hipErrorNotInitialized)"),
        ({"STANDIN_FAIL": "hipGetDevicePropertiesR0600=1"}, "hipGetDevicePropertiesR0600: invalid argument"),
        ({"STANDIN_KERNELS": "/nowhere"}, "the program does not hold the HIP prelude"),
    ],
)
def test_a_failure_at_discovery_makes_the_device_unavailable(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], reason: str
) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    device = discovered()
    assert not device.available
    assert reason in device.reason


def test_a_machine_without_rocm_is_reported_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in standin.VARIABLES:
        monkeypatch.setenv(variable, "/nowhere/libamdhip64.so")
    device = discovered()
    assert (device.name, device.available) == ("hip", False)
    assert_states(device.reason, "hip library", "not found: /nowhere/libamdhip64.so")


@pytest.mark.exhaustive
def test_a_missing_function_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRSTTOUCH_LIB_HIP", str(standin.build("hip_on_host", without="hipMemAdvise")))
    device = discovered()
    assert not device.available
    assert device.reason.endswith("has no function hipMemAdvise")


def test_a_missing_function_of_one_allocator_does_not_affect_others(monkeypatch: pytest.MonkeyPatch) -> None:
    incomplete = standin.build("hip_on_host", without="hipExtMallocWithFlags")
    monkeypatch.setenv("FIRSTTOUCH_LIB_HIP", str(incomplete))
    device = discovered()
    assert device.available, device.reason
    assert not entry(device, "fine-grained").available
    assert entry(device, "device").available


# ------------------------------------------------------------------------------------------- properties of memory


def test_without_xnack(monkeypatch: pytest.MonkeyPatch) -> None:
    device = discovered()
    assert entry(device, "malloc").gpu == "none"
    assert "HSA_XNACK=1" in entry(device, "malloc").gpu_reason
    assert entry(device, "managed").on_demand is False
    assert "page-locked host memory" in device.notes[1]
    monkeypatch.setenv("STANDIN_XNACK", "none")
    device = discovered()
    assert device.facts["xnack"] == "none"
    assert "the GPU has no XNACK" in entry(device, "malloc").gpu_reason


def test_with_xnack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HSA_XNACK", "1")
    device = discovered()
    assert device.facts["xnack"] == "on"
    assert device.facts["arch"] == "gfx90a:sramecc+:xnack+"
    for name in ("malloc", "mmap"):
        assert (entry(device, name).gpu, entry(device, name).concurrent) == ("direct", True)
    assert entry(device, "managed").on_demand is True
    assert len(device.notes) == 1


def test_coherence_is_stated_as_documented() -> None:
    device = discovered()
    stated = {row.name: (row.concurrent, row.shared_atomics) for row in device.allocators}
    assert stated["pinned"] == stated["registered"] == stated["managed"] == (True, True)
    assert stated["pinned-noncoherent"] == stated["coarse-grained"] == (False, False)
    assert (entry(device, "pinned-noncoherent").disjoint, entry(device, "coarse-grained").disjoint) == (True, None)
    assert stated["device"] == stated["vmm"] == stated["fine-grained"] == (None, None)


def test_the_coherence_of_a_small_apu_is_not_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STANDIN_INTEGRATED", "1")
    monkeypatch.setenv("STANDIN_ARCH", "gfx90c:")
    device = entry(discovered(), "device")
    assert (device.cpu, device.concurrent, device.shared_atomics) == ("direct", None, None)


def test_an_apu_has_one_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STANDIN_INTEGRATED", "1")
    monkeypatch.setenv("STANDIN_ARCH", "gfx942:sramecc+")
    device = discovered()
    for row in (row for row in device.allocators if row.name not in ("malloc", "mmap", "malloc-thp")):
        assert (row.host_memory, row.device_memory) == (True, True), row.name
    assert entry(device, "device").cpu == entry(device, "fine-grained").cpu == "direct"
    assert entry(device, "vmm").cpu == "none"
    assert entry(device, "device").concurrent is entry(device, "device").shared_atomics is True
    refused = run_program(
        """
try:
    device.allocate("device", 2**21)
except _core.GuardRefused as refusal:
    answer(str(refusal))
""",
        FIRSTTOUCH_MAX_HOST="1MiB",
    )
    assert "FIRSTTOUCH_MAX_HOST" in refused


# --------------------------------------------------------------------------------------------- allocate, fill, copy


@pytest.mark.parametrize("xnack", ["0", "1"])
def test_each_agent_reads_what_each_agent_wrote_in_every_allocator(xnack: str) -> None:
    program = """
found, before = {}, used()
for name, row in rows.items():
    if not row["available"]:  # transparent huge pages may be off
        continue
    agents = [agent for agent in ("cpu", "gpu") if row[agent] != "none"]
    with device.allocate(name, SIZE) as buffer:
        wrong = 0
        for seed, writer in enumerate(agents, 1):
            buffer.fill(seed, writer)
            wrong += sum(buffer.check(seed, reader) for reader in agents)
            wrong += buffer.check(seed + 5, writer) == 0
    found[name] = [agents, wrong]
device.allocate("device", 4096).free()
answer([found, used() - before])
"""
    found, leaked = run_program(program.replace("SIZE", str(SIZE)), HSA_XNACK=xnack)
    assert set(ALLOCATORS) - {"malloc-thp"} <= set(found)
    assert {wrong for _, wrong in found.values()} == {0}
    assert found["device"][0] == ["gpu"]
    assert found["malloc"][0] == (["cpu", "gpu"] if xnack == "1" else ["cpu"])
    assert leaked <= 2**20  # the device keeps memory for results


def test_copies_between_all_allocators() -> None:
    program = """
size, wrong = 100_003, {}
stop = _core.Stop(tolerance=1, seconds=0.01, min_samples=1, max_samples=2)
names = [name for name, row in rows.items() if row["available"]]
for source, target in zip(names, [*names[1:], names[0]], strict=True):
    with device.allocate(source, size) as a, device.allocate(target, size) as b:
        outcome = _core.copy(device, b, a, engine="copy-engine", bytes=size, streams=2, seed=3, stop=stop)
        wrong[f"{source} to {target}"] = outcome.errors
answer(wrong)
"""
    wrong = run_program(program)
    assert len(wrong) >= len(ALLOCATORS) - 1
    assert set(wrong.values()) == {0}


# ----------------------------------------------------------------------------------------------------- guard, errors


LIMITED = {
    "DEVICE": ["device", "vmm", "fine-grained", "managed", "coarse-grained"],
    "HOST": ["pinned", "pinned-noncoherent", "registered", "managed"],
    "MANAGED": ["managed", "coarse-grained"],
}


@pytest.mark.parametrize("limit", LIMITED)
def test_limits_are_enforced(limit: str) -> None:
    program = """
refused = []
for allocator in sys.argv[1:]:
    held = device.allocate(allocator, 2**20)
    try:
        device.allocate(allocator, 2**20)
    except _core.GuardRefused as refusal:
        refused.append(str(refusal))
    held.free()
answer(refused)
"""
    refused = run_program(program, *LIMITED[limit], **{f"FIRSTTOUCH_MAX_{limit}": "2000000"})
    assert [f"FIRSTTOUCH_MAX_{limit}" in reason for reason in refused] == [True] * len(LIMITED[limit])


def test_free_device_memory_is_a_limit() -> None:
    program = """
try:
    device.allocate("device", 2**30)
except _core.GuardRefused as refusal:
    answer(str(refusal))
"""
    assert "free memory of hip:0 now" in run_program(program, STANDIN_MEMORY=str(2**30))


def test_memory_of_the_host_is_free_although_the_driver_counts_the_page_cache() -> None:
    program = """
held = device.allocate("device", 2**22)
answer([held.size, device.memory()[1], device.facts()["memory_free_bytes"]])
"""
    settings = {"STANDIN_INTEGRATED": "1", "STANDIN_MEMORY": str(2**30), "STANDIN_FREE": str(2**20)}
    size, stated, free = run_program(program, **settings)
    assert (size, stated) == (2**22, 2**20)
    assert stated < free <= 2**30


def test_plain_memory_that_moves_to_the_device_on_a_fault_is_charged_as_managed_memory_is() -> None:
    program = """
import tempfile
answers = [[rows[name]["migrates_on_fault"] for name in ("malloc", "mmap", "malloc-thp", "managed", "pinned")]]
for name in ("malloc", "mmap", "managed"):
    try:
        device.allocate(name, 2**26)
    except _core.GuardRefused as refusal:
        answers.append("free memory of hip:0 now" in str(refusal))
    with device.allocate(name, 2**20):
        answers.append(_core.guard_held("hip:0"))
answers.append(device.allocate("malloc", 2**26, host_only=True).size)
with tempfile.TemporaryFile() as file:
    file.truncate(2**26)
    answers.append(device.map_file(file.fileno(), 2**26).size)
os.environ["FIRSTTOUCH_ALLOW_OVERSUBSCRIPTION"] = "1"
answers.append(device.allocate("malloc", 2**26).size)
answer(answers)
"""
    flags, *found = run_program(program, HSA_XNACK="1", STANDIN_MEMORY=str(2**26))
    assert flags == [True, True, True, False, False]
    charged = {"host": 2**20, "device": 2**20, "managed": 2**20}
    assert found == [True, charged] * 3 + [2**26] * 3


@pytest.mark.parametrize("settings", [{"HSA_XNACK": "0"}, {"HSA_XNACK": "1", "STANDIN_INTEGRATED": "1"}])
def test_plain_memory_that_stays_is_the_hosts_alone(settings: dict[str, str]) -> None:
    program = """
with device.allocate("malloc", 2**26) as held:
    answer([rows["malloc"]["migrates_on_fault"], _core.guard_held("hip:0")])
"""
    found = run_program(program, STANDIN_MEMORY=str(2**26), **settings)
    assert found == [False, {"host": 2**26, "device": 0, "managed": 0}]


FAILING = [
    ("device", "hipMalloc", 2, "out of memory (hipErrorOutOfMemory)"),
    ("fine-grained", "hipExtMallocWithFlags", 801, "operation not supported (hipErrorNotSupported)"),
    ("pinned", "hipHostMalloc", 2, "out of memory (hipErrorOutOfMemory)"),
    ("pinned", "hipHostGetDevicePointer", 1, "invalid argument (hipErrorInvalidValue)"),
    ("registered", "hipHostRegister", 1, "invalid argument (hipErrorInvalidValue)"),
    ("registered", "hipHostGetDevicePointer", 1, "invalid argument (hipErrorInvalidValue)"),
    ("managed", "hipMallocManaged", 999, "unknown error (hipErrorUnknown)"),
    ("coarse-grained", "hipMemAdvise", 1, "invalid argument (hipErrorInvalidValue)"),
    ("managed-static", "hipModuleGetGlobal", 500, "named symbol not found (hipErrorNotFound)"),
    *(
        ("vmm", call, 1, "invalid argument (hipErrorInvalidValue)")
        for call in ("hipMemCreate", "hipMemAddressReserve", "hipMemMap", "hipMemSetAccess")
    ),
    ("vmm", "hipMemGetAllocationGranularity", 801, "operation not supported (hipErrorNotSupported)"),
]


@cache
def failures() -> Any:
    """By allocator and call: what is said of the failure, and the errors of a buffer and the bytes held after it."""
    program = """
found = {}
for allocator, call, code, _ in json.loads(sys.argv[1]):
    before = used()
    os.environ["STANDIN_FAIL"] = f"{call}={code}"
    try:
        device.allocate(allocator, 2**20)
    except _core.VendorError as error:
        reported = str(error)
    os.environ["STANDIN_FAIL"] = ""
    again = device.allocate(allocator, 2**20)
    again.fill(1, "gpu")
    wrong = again.check(1, "gpu")
    again.free()
    with device.allocate("device", 2**20):
        pass
    found[f"{allocator} {call}"] = [reported, wrong, used() - before]
answer(found)
"""
    return run_program(program, json.dumps(FAILING))


@pytest.mark.parametrize(("allocator", "call", "code", "message"), FAILING)
def test_a_failing_allocation_names_the_call_and_leaks_nothing(
    allocator: str, call: str, code: int, message: str
) -> None:
    reported, wrong, leaked = failures()[f"{allocator} {call}"]
    assert reported == f"{call}: {message}"
    assert wrong == 0
    assert leaked <= 2**20


def test_a_failing_launch_names_the_call() -> None:
    failing = [
        ("hipModuleLoadData", 209, "hipErrorNoBinaryForGpu"),
        ("hipModuleGetFunction", 500, "hipErrorNotFound"),
        ("hipStreamCreateWithFlags", 2, "hipErrorOutOfMemory"),
        ("hipModuleLaunchKernel", 719, "hipErrorLaunchFailure"),
        ("hipStreamSynchronize", 700, "hipErrorIllegalAddress"),
    ]
    program = """
with device.allocate("device", 2**20) as buffer:
    said = []
    for call, code, _ in json.loads(sys.argv[1]):
        os.environ["STANDIN_FAIL"] = f"{call}={code}"
        try:
            buffer.fill(1, "gpu")
        except _core.VendorError as error:
            said.append(str(error))
    os.environ["STANDIN_FAIL"] = ""
answer(said)
"""
    for (function, _, name), message in zip(failing, run_program(program, json.dumps(failing)), strict=True):
        assert message.startswith(f"{function}: ")
        assert message.endswith(f"({name})")


def test_a_kernel_refuses_memory_that_the_gpu_cannot_access() -> None:
    program = """
with device.allocate("malloc", 4096) as buffer:
    try:
        buffer.fill(1, "gpu")
    except _core.Unavailable as reason:
        answer(str(reason))
"""
    assert "malloc memory" in run_program(program)


def test_a_compilation_error_contains_the_compilers_message() -> None:
    program = """
try:
    device.compile("broken", "KERNEL f(GLOBAL ulong* p) { *p = undeclared_name; }")
except _core.VendorError as error:
    answer(str(error))
"""
    message = run_program(program)
    assert message.startswith("hiprtcCompileProgram of broken.hip with --offload-arch=gfx90a:sramecc+:xnack-")
    assert "undeclared_name" in message


# ---------------------------------------------------------------------------------------------------- whole programs


SMALL = {
    "latency": ["size=64KiB"],
    "bandwidth": ["size=64KiB,32MiB", "allocator=device,managed", "kernel=triad"],
    "transfer": ["size=4096,1000003", "sdma=0,1"],
    "allocation": ["size=64KiB", "xnack=0,1"],
    "context": ["phase=launch-next"],
    "exchange": ["turns=2", "gap_us=10", "method=shared,copied,prefetched,queued", "allocator=managed,malloc,device"],
    "atomics": ["elements=1024", "gpu_threads=64", "allocator=device,pinned"],
}


@pytest.mark.parametrize("name", matrix(SMALL))
def test_experiments_run_and_verify(name: str, tmp_path: Path) -> None:
    options = [word for setting in SMALL[name] for word in ("--set", setting)]
    records = run(tmp_path / "out", name, *options)
    assert records
    for record in records:
        assert record.status == "ok" or (record.status == "skipped" and record.reason), (record.factors, record.reason)
        assert record.verified is not False, record.factors
    assert any(record.status == "ok" and record.verified for record in records) or name == "context"
    for switch in {"transfer": ["sdma"], "allocation": ["xnack"]}.get(name, []):
        assert {record.factors[switch] for record in records if record.status == "ok"} == {"0", "1"}


@pytest.mark.exhaustive
def test_prices_that_advise_needs_are_measured_on_a_gpu_with_its_own_memory(tmp_path: Path) -> None:
    sets = ["direction=d2h", "engine=copy-engine", "allocator=malloc,managed", "call=free-gpu-touched", "size=1MiB"]
    sets += ["sdma=1", "prefetch=back", "advice=none", "events=off", "touch=dense", "iterations=2", "starts_on=cpu"]
    sets += ["operation=update", "order=parallel"]
    options = [word for setting in sets for word in ("--set", setting)]
    records = run(tmp_path / "out", "transfer", "allocation", "migration", *options, HSA_XNACK="1")
    measured = {(r.experiment, r.factors["allocator"]): r for r in records if r.status == "ok"}
    assert all(r.verified for r in measured.values())
    copied, moved = measured["transfer", "malloc"].counters, measured["migration", "managed"].counters
    ends = [copied[f"new_pages{end}_us"] for end in ("_low", "", "_high")]
    assert ends == sorted(ends)
    assert moved["prefetch_back_ms"] > 0
    assert measured["allocation", "managed"].factors["call"] == "free-gpu-touched"


@pytest.mark.exhaustive
def test_the_tests_of_every_device_pass_on_the_hip_device() -> None:
    """Runs the tests of tests/core that use a HIP device if there is one."""
    tests = [str(standin.ROOT / "tests/core" / name) for name in ("test_memory.py", "test_probes.py")]
    process = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *tests, "-k", "hip"],
        capture_output=True,
        text=True,
        timeout=115,
    )
    assert process.returncode == 0, process.stdout
    summary = process.stdout.splitlines()[-1]
    assert " passed" in summary
    assert "skipped" not in summary


def test_each_value_of_xnack_has_a_worker_that_decides_what_to_skip(tmp_path: Path) -> None:
    every = bool(os.environ.get("FIRSTTOUCH_EXHAUSTIVE"))
    scenarios = [] if every else ["scenario=gpu-major,gpu-minor"]
    sets = ("xnack=0,1", "pages=64", "allocator=mmap,managed", *scenarios)
    options = [word for setting in sets for word in ("--set", setting)]
    records = run(tmp_path / "out", "pagefault", *options)
    by_xnack = {value: [record for record in records if record.factors["xnack"] == value] for value in ("0", "1")}
    measured = [record for record in by_xnack["1"] if not record.reason.startswith("below what this machine resolves")]
    assert {record.factors["allocator"] for record in measured} == {"mmap", "managed"}
    assert {(record.status, record.verified) for record in measured} == {("ok", True)}
    assert {record.status for record in by_xnack["0"]} == {"skipped"}
    (mmap,), (managed,) = (
        {record.reason for record in by_xnack["0"] if record.factors["allocator"] == allocator}
        for allocator in ("mmap", "managed")
    )
    assert_states(mmap, "pageableMemoryAccess is 0", "GPU")
    assert_states(managed, "managed memory", "allocated before")


@pytest.mark.parametrize("form", matrix([[], ["--json"]], 1))
def test_methods_and_machine_note_that_no_amd_gpu_was_tested(form: list[str]) -> None:
    for arguments in (["methods", "--device", "hip:0"], ["machine"]):
        process = call(*arguments, *form)
        assert process.returncode == 0, process.stderr
        said = " ".join(process.stdout.split())
        assert "has not run on AMD hardware" in said
        assert "not on a machine with several GPUs" not in said
        if not form:
            assert arguments[0] == "methods" or "XNACK: off" in process.stdout
        elif arguments[0] == "methods":
            assert all(cell["notes"] for cell in json.loads(process.stdout))


def test_the_stand_in_for_nvidia_gpus_builds() -> None:
    """It runs only with an NVIDIA GPU. That it builds shows that its functions have the types of the table."""
    symbols = subprocess.run(["nm", "-D", str(standin.build("hip_on_cuda"))], capture_output=True, text=True)
    assert "T hipModuleLaunchKernel" in symbols.stdout
    assert "T hiprtcCompileProgram" in symbols.stdout
