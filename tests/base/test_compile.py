"""Every kernel file compiles for every target to the expected machine code.

Kernel files are found by listing the package, so that new files are covered automatically.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from tests.base.compilers import compile_amdgpu, compile_sm_90, skip_missing_compiler
from tests.matrix import matrix

import firsttouch.base.kernels
from firsttouch import _core
from firsttouch.base.errors import Unsupported
from firsttouch.experiments import codegen
from firsttouch.machine.devices import open_device
from firsttouch.machine.libraries import candidates

FOLDER = Path(str(firsttouch.base.kernels.__file__)).parent
FILES = sorted(path.stem for path in FOLDER.glob("*.c"))

# The macros with which a file must be compiled. Each list is one build.
DEFINES: dict[str, list[list[tuple[str, str]]]] = {
    "walk": [[], [("HOP(p)", "LOAD_UNCACHED(p)")]],
    "stream": [[("UNROLL", unroll)] for unroll in ("1", "2", "4", "16")],
    "atomics": [
        [("TYPE", kind), ("ADD", f"ATOMIC_ADD_{name}_{scope}")]
        for kind, name in (("ulong", "U64"), ("double", "F64"))
        for scope in ("DEVICE", "SYSTEM")
    ],
}
NOT_OPENCL = {"gate": "uses a device clock, which OpenCL lacks; the OpenCL device holds streams by a user event"}
NOT_HOST = {
    "atomics": "its groups run until they are stopped; the host uses increment_host",
    "copy": "uses groups; the host copies with memcpy",
    "gate": "waits in a stream, which the host lacks",
    "staged": "uses groups; the CPU has no local memory",
    "stream": "uses groups; the host has separate loops for each instruction set",
    "stream_each": "a thread of a device for each element; the host has loops",
    "together": "the host's part is in native/probe/together.cpp",
    "walk": "the host uses walk_host",
}

Defines = list[tuple[str, str]]
Build = tuple[str, Defines]


def parametrized(builds: list[Build]) -> pytest.MarkDecorator:
    ids = ["-".join([name, *(value for _, value in defines)]) for name, defines in builds]
    return pytest.mark.parametrize(("name", "defines"), builds, ids=ids)


BUILDS: list[Build] = [(name, defines) for name in FILES for defines in DEFINES.get(name, [[]])]
OF_GPUS = [(name, defines) for name, defines in BUILDS if ("UNROLL", "16") not in defines]
"""Only CPUs under OpenCL unroll so far; a GPU has too few registers."""
EACH_ONCE: list[Build] = [(name, DEFINES.get(name, [[]])[0]) for name in FILES]
SIXTEEN_BYTES = {f"v{16 // size}.{kind}{8 * size}" for size in (4, 8) for kind in "fub"}


def entries(name: str) -> set[str]:
    return set(re.findall(r"^KERNEL (\w+)\(", (FOLDER / f"{name}.c").read_text(), re.MULTILINE))


@cache
def sm_90(name: str, defines: tuple[tuple[str, str], ...] = ()) -> tuple[bytes, str]:
    """The cubin and the PTX of a file."""
    return compile_sm_90(_core.translation_unit(name, "cuda", list(defines)), name)


@cache
def amdgpu(name: str, target: str, defines: tuple[tuple[str, str], ...] = ()) -> str:
    """The assembly of a file for an AMD GPU, by clang alone: no ROCm."""
    return compile_amdgpu(_core.translation_unit(name, "hip", list(defines)), target)


HIPRTC = """
import json, sys
from firsttouch import _core
from firsttouch.machine.libraries import candidates
_core.set_library_paths("hiprtc", candidates("hiprtc"))
for name, defines in json.load(sys.stdin):
    text = _core.translation_unit(name, "hip", [tuple(pair) for pair in defines])
    try:
        code, log = _core.hiprtc_compile(text, name, "gfx90a:sramecc+:xnack-")
    except _core.Unavailable as reason:
        sys.exit(f"unavailable: {reason}")
    print(json.dumps([code[:4].hex(), log, [entry for entry in {entries} if entry.encode() in code]]))
"""


@cache
def opencl() -> _core.Device:
    try:
        return open_device("opencl:0")
    except _core.Unavailable as reason:
        skip_missing_compiler(str(reason))


def ptx_of(ptx: str, entry: str) -> str:
    """The body of one kernel in PTX."""
    found = re.search(rf"\.entry {entry}\(.*?^\}}", ptx, re.DOTALL | re.MULTILINE)
    assert found is not None, f"{entry} is not in the PTX"
    return found[0]


def gcn_of(assembly: str, entry: str) -> str:
    """The instructions of one kernel in AMDGPU assembly."""
    found = re.search(rf"^{entry}:.*?\.Lfunc_end", assembly, re.DOTALL | re.MULTILINE)
    assert found is not None, f"{entry} is not in the assembly"
    return found[0]


def test_kernels_are_found_and_embedded() -> None:
    assert {"chase", "copy", "pattern", "stream"} <= set(FILES)
    for name in FILES:
        assert entries(name), f"{name}.c has no kernel"
        assert _core.kernel_file(f"{name}.c") == (FOLDER / f"{name}.c").read_text(), "the core is older than the file"


@parametrized(OF_GPUS)
def test_sm_90(name: str, defines: Defines) -> None:
    cubin, ptx = sm_90(name, tuple(defines))
    assert cubin[:4] == b"\x7fELF"
    assert set(re.findall(r"\.entry (\w+)\(", ptx)) == entries(name)
    assert not re.search(r"\.local\b|__local_depot", ptx), "arrays in local memory"


@pytest.mark.parametrize("target", matrix(["gfx90a", "gfx942"], 1))
@parametrized(OF_GPUS)
def test_amdgpu(name: str, defines: Defines, target: str) -> None:
    assembly = amdgpu(name, target, tuple(defines))
    assert set(re.findall(r"^\s*\.amdhsa_kernel (\w+)", assembly, re.MULTILINE)) == entries(name)
    scratch = re.findall(r"^\s*\.private_segment_fixed_size: (\d+)", assembly, re.MULTILINE)
    assert scratch == ["0"] * len(entries(name)), "arrays in scratch memory"
    spilled = re.findall(r"^\s*\.vgpr_spill_count: (\d+)", assembly, re.MULTILINE)
    assert set(spilled) == {"0"}


@pytest.mark.parametrize("builds", matrix([EACH_ONCE, OF_GPUS]), ids=["each-once", "all"])
@pytest.mark.slow
def test_hiprtc(builds: list[Build]) -> None:
    """AMD's run-time compiler adds its own header and needs no GPU. It runs in a separate process: it may crash."""
    every = sorted({entry for name in FILES for entry in entries(name)})
    program = HIPRTC.replace("{entries}", repr(every))
    done = subprocess.run(
        [sys.executable, "-c", program], input=json.dumps(builds), text=True, capture_output=True, timeout=100
    )
    if done.stderr.startswith("unavailable"):
        skip_missing_compiler(f"{done.stderr} (Debian 12: libamdhip64-5, libhiprtc-builtins5)")
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(builds)
    for (name, _), (magic, log, found) in zip(builds, answers, strict=True):
        assert magic == b"\x7fELF".hex()
        assert "warning" not in log
        assert set(found) >= entries(name)


def managed_array() -> str:
    return _core.translation_unit("static", "hip", [("BYTES", "70000000")], _core.kernel_file("static.hip.h"))


@pytest.mark.parametrize("target", ["gfx90a", "gfx942"])
def test_clang_makes_a_managed_array_and_a_pointer_to_it(target: str) -> None:
    sizes = re.findall(r"\.size\s+(firsttouch_static\S*), (\d+)", compile_amdgpu(managed_array(), target))
    assert dict(sizes) == {"firsttouch_static.managed": "70000000", "firsttouch_static": "8"}


def test_hiprtc_keeps_both_symbols_of_a_managed_array(tmp_path: Path) -> None:
    program = f"""
import sys
from firsttouch import _core
from firsttouch.machine.libraries import candidates
_core.set_library_paths("hiprtc", candidates("hiprtc"))
try:
    code, _ = _core.hiprtc_compile(sys.stdin.read(), "static", "gfx90a:sramecc+:xnack-")
except _core.Unavailable as reason:
    sys.exit(f"unavailable: {{reason}}")
open({str(tmp_path / "code")!r}, "wb").write(code)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], input=managed_array(), text=True, capture_output=True, timeout=100
    )
    if done.stderr.startswith("unavailable"):
        skip_missing_compiler(f"{done.stderr} (Debian 12: libamdhip64-5, libhiprtc-builtins5)")
    assert done.returncode == 0, done.stderr
    names = (tmp_path / "code").read_bytes().split(b"\0")
    assert {b"firsttouch_static", b"firsttouch_static.managed"} <= set(names)


@parametrized(BUILDS)
def test_pocl(name: str, defines: Defines) -> None:
    device = opencl()
    if name in NOT_OPENCL:
        pytest.skip(NOT_OPENCL[name])
    kind, code, _ = device.compile(name, _core.kernel_file(f"{name}.c"), defines)
    assert kind == "opencl"
    for entry in entries(name):
        assert entry.encode() in code


def test_tables_contain_only_existing_files() -> None:
    assert set(DEFINES) | set(NOT_OPENCL) | set(NOT_HOST) <= set(FILES)


@pytest.mark.parametrize("name", FILES)
def test_host(name: str) -> None:
    """Kernels without groups are compiled into the core; the others are unavailable."""
    cpu = open_device("cpu")
    text = _core.kernel_file(f"{name}.c")
    missing = set()
    for entry in entries(name):
        try:
            cpu.prepare(name, text, entry)
        except _core.Unavailable:
            missing.add(entry)
    assert missing == (entries(name) if name in NOT_HOST else set())


@pytest.mark.parametrize("unroll", ["1", "2", "4"])
def test_streams_load_16_bytes_on_sm_90(unroll: str) -> None:
    _, ptx = sm_90("stream", (("UNROLL", unroll),))
    for entry in entries("stream"):
        body = ptx_of(ptx, entry)
        loads = re.findall(r"ld\.global(?:\.nc)?\.(\S+)", body)
        stores = re.findall(r"st\.global\.(\S+)", body)
        assert set(loads) <= SIXTEEN_BYTES, f"{entry} loads {loads}"
        assert bool(loads) == (entry != "stream_write")
        if entry != "stream_read":  # each thread stores one sum of 8 bytes
            assert set(stores) <= SIXTEEN_BYTES, f"{entry} stores {stores}"
            assert stores


def test_no_pass_of_a_thread_for_each_element_is_dropped() -> None:
    _, ptx = sm_90("stream_each", ())
    for entry in entries("stream_each"):
        body = ptx_of(ptx, entry)
        kept = r"[^:]*?(?:ld|st)\.global\.f64[^:]*?bra\s+\1;"  # in a loop
        assert re.search(rf"(\$L\w+):{kept}", body), entry


@pytest.mark.parametrize("target", ["gfx90a", "gfx942"])
def test_streams_load_16_bytes_on_amdgpu(target: str) -> None:
    assembly = amdgpu("stream", target, (("UNROLL", "4"),))
    for entry in entries("stream") - {"stream_write"}:
        body = gcn_of(assembly, entry)
        assert "global_load_dwordx4" in body
        assert not re.search(r"(?:global|flat)_load_dword(?:x2)?\b", body), f"{entry} loads less than 16 bytes"


@pytest.mark.parametrize("target", ["gfx90a", "gfx942"])
def test_loads_of_a_tile_precede_its_stores(target: str) -> None:
    body = gcn_of(amdgpu("stream", target, (("UNROLL", "4"),)), "stream_copy")
    memory = re.findall(r"global_(load|store)_dwordx4", body)
    assert ["load"] * 4 + ["store"] * 4 in [memory[i : i + 8] for i in range(len(memory))]


def test_sm_90_has_native_adds() -> None:
    _, ptx = sm_90("codegen")
    for entry, scope, kind in [
        ("codegen_add_f64_device", "", "f64"),
        ("codegen_add_f64_system", "sys", "f64"),
        ("codegen_add_u64_device", "", "u64"),
        ("codegen_add_u64_system", "sys", "u64"),
    ]:
        body = ptx_of(ptx, entry)
        adds = re.findall(r"(?:atom|red)\.(\S*add\S*)", body)
        assert adds, entry
        for add in adds:
            assert add.endswith(f"add.{kind}")
            assert ("sys" in add) == (scope == "sys")
        assert ".cas" not in body


@pytest.mark.parametrize("defines", DEFINES["atomics"], ids=lambda defines: defines[1][1])
def test_histogram_uses_one_native_add_on_sm_90(defines: Defines) -> None:
    _, ptx = sm_90("atomics", tuple(defines))
    body, kind = ptx_of(ptx, "atomics_increment"), {"ulong": "u64", "double": "f64"}[defines[0][1]]
    scope = r"sys\." if "SYSTEM" in defines[1][1] else ""
    adds = re.findall(r"\b(?:atom|red)\.\S+", body)
    assert adds
    assert all(re.fullmatch(rf"\w+\.(?:global\.)?{scope}add\.{kind}", add) for add in adds), adds


@pytest.mark.parametrize(
    ("loads", "load", "gfx90a", "gfx942"),
    [
        ("cached", r"ld\.ca\.u64", "", ""),
        ("uncached", r"ld\.volatile\.global\.u64", "glc", "sc0 sc1"),
        ("bypass_l1", r"ld\.cg\.u64", "glc", "sc1"),
    ],
)
def test_every_update_is_a_load_and_a_store(loads: str, load: str, gfx90a: str, gfx942: str) -> None:
    """In the loop of every target no value is kept in a register, and only some kinds of loads bypass a cache."""
    body = ptx_of(sm_90("caching")[1], f"caching_{loads}")
    memory = re.findall(rf"\b({load}|st\.u64|(?:ld|st)\.(?!param)\S+)", body)
    assert len(memory) >= 2
    assert [bool(re.fullmatch(load, word)) for word in memory] == [True, False] * (len(memory) // 2), memory
    for target, bits in (("gfx90a", gfx90a), ("gfx942", gfx942)):
        loop = gcn_of(amdgpu("caching", target), f"caching_{loads}")
        pair = re.findall(r"(?:global|flat)_(load|store)_dwordx2 [^\n]*?(off[^\n]*)", loop)
        assert pair == [("load", f"off {bits}".strip()), ("store", "off")]
        assert re.search(r"_load_dwordx2(?:(?!\.LBB\w+:).)*_store_dwordx2(?:(?!\.LBB\w+:).)*s_cbranch", loop, re.DOTALL)


def test_staged_updates_use_local_memory() -> None:
    """Between a load and a store of the entry, its value is stored in local memory and loaded from there."""
    body = ptx_of(sm_90("staged")[1], "caching_staged")
    assert re.search(r"ld\.ca\.u64.*st\.shared.*bar\.sync.*ld\.shared.*st\.shared.*bar\.sync.*st\.u64", body, re.DOTALL)
    for target in ("gfx90a", "gfx942"):
        loop = gcn_of(amdgpu("staged", target), "caching_staged")
        steps = re.findall(r"(global_load|flat_load|ds_write|s_barrier|ds_read|ds_add|global_store|flat_store)", loop)
        assert {"ds_write", "s_barrier"} <= set(steps), steps
        assert {"ds_read", "ds_add"} & set(steps), steps


def test_gfx942_has_native_adds_of_doubles_at_system_scope() -> None:
    assembly = amdgpu("codegen", "gfx942")
    at_system = gcn_of(assembly, "codegen_add_f64_system")
    assert re.search(r"global_atomic_add_f64 .*\bsc1\b", at_system)
    assert "cmpswap" not in at_system
    on_device = gcn_of(assembly, "codegen_add_f64_device")
    assert re.search(r"global_atomic_add_f64(?!.*\bsc1\b)", on_device)
    assert "cmpswap" not in on_device


def test_gfx90a_adds_doubles_by_compare_and_swap_at_system_scope() -> None:
    assembly = amdgpu("codegen", "gfx90a")
    at_system = gcn_of(assembly, "codegen_add_f64_system")
    assert "global_atomic_cmpswap_x2" in at_system
    assert "atomic_add_f64" not in at_system
    assert re.search(r"s_cbranch_\w+ ", at_system), "no loop"


@pytest.mark.parametrize(
    ("target", "doubles", "shown"),
    [("gfx942", "native", r"global_atomic_add_f64 .*\bsc1\b"), ("gfx90a", "loop", "global_atomic_cmpswap_x2")],
)
def test_experiment_classifies_amdgpu_code(target: str, doubles: str, shown: str, tmp_path: Path) -> None:
    """Uses llvm-objdump on a code object, as the experiment does on such a GPU."""
    amdgpu_text, code = amdgpu("codegen", target), tmp_path / "codegen.o"
    (tmp_path / "codegen.s").write_text(amdgpu_text)
    command = ["clang-19", "-target", "amdgcn-amd-amdhsa", f"-mcpu={target}", "-c", str(tmp_path / "codegen.s")]
    subprocess.run([*command, "-o", str(code)], check=True)
    done = {}
    for operation in codegen.OPERATIONS:
        try:
            read_from, listing = codegen.hip_listing(f"codegen_{operation}", code.read_bytes())
        except Unsupported as reason:
            skip_missing_compiler(f"{reason} (Debian: llvm-19)")
        assert read_from == "AMD GPU code"
        assert listing[-1] == "s_endpgm"
        assert len(codegen.assembly_listing(f"codegen_{operation}", amdgpu_text)[1]) == len(listing)
        done[operation] = codegen.classify(operation, listing)
    assert {operation: verdict for operation, (verdict, _) in done.items()} == {
        "add_u64_device": "native",
        "add_u64_system": "native",
        "add_f64_device": doubles,
        "add_f64_system": doubles,
        "load_vector": "16 bytes or more a load",
        "load_uncached": "bypasses the first level",
    }
    assert re.search(shown, done["add_f64_system"][1])


def test_invalid_amdgpu_code_is_reported() -> None:
    with pytest.raises(Unsupported, match="llvm-objdump"):
        codegen.hip_listing("codegen_load_vector", b"nothing")


def test_uncached_loads_bypass_the_caches() -> None:
    assert re.search(r"ld\.volatile\.global|ld\.relaxed\.sys", ptx_of(sm_90("codegen")[1], "codegen_load_uncached"))
    assert re.search(r"global_load_dwordx2 .*sc0 sc1", gcn_of(amdgpu("codegen", "gfx942"), "codegen_load_uncached"))
    assert re.search(r"global_load_dwordx2 .*glc", gcn_of(amdgpu("codegen", "gfx90a"), "codegen_load_uncached"))


def test_walk_consists_of_32_dependent_loads() -> None:
    # The address of each load is the result of the previous one, with no instruction between them.
    body = ptx_of(sm_90("walk")[1], "chase_walk")
    chained = r"(?:\n\s*ld\.(?:global\.)?[ub]64\s+%rd\d+, \[%rd\d+\];)"
    runs = [run.count("\n") for run in re.findall(f"{chained}+", body)]
    assert sorted(runs)[-2:] == [32, 32], "one warm-up run, one timed run"
    for target in ("gfx90a", "gfx942"):
        loads = re.findall(
            r"(?:flat|global)_load_dwordx2 (v\[\d+:\d+\]), ", gcn_of(amdgpu("walk", target), "chase_walk")
        )
        assert len(loads) >= 64


def test_compiler_errors_name_the_line() -> None:
    _core.set_library_paths("nvrtc", candidates("nvrtc"))
    try:
        with pytest.raises(_core.VendorError, match=r"broken\.cu\(1\).*undeclared_name"):
            _core.nvrtc_compile('extern "C" __global__ void f(int* p) { *p = undeclared_name; }', "broken", "sm_90")
    except _core.Unavailable as reason:
        skip_missing_compiler(str(reason))
