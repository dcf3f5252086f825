"""Programs that use HIP are traced through a preloaded library: what they ask for, what is found, and that everything
else runs as without it. On a stand-in for the runtime (tests/standins/hip_runtime.cpp), since there is no AMD GPU.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from tests.port.code_objects import SCALE, SCALE_NAME, bundle, code_object
from tests.port.played import FIXTURES, STANDINS, TOP
from tests.profile import injected

from firsttouch.advice.port.found import found
from firsttouch.profile.call_journal import read_calls
from firsttouch.profile.inject import HIP_LIBRARY, inject_environment, injected_library
from firsttouch.program.trace import TracedCopy, TracedFill, TracedLaunch, TracedRun, trace

BYTES, STEPS = 1 << 20, 4
TABLES = {"STANDIN_TABLES": "512"}
DEBIAN = Path("/usr/lib/x86_64-linux-gnu/libamdhip64.so.5")


@pytest.fixture(scope="module")
def built(make_once) -> Path:
    """A folder with the stand-in, the program linked with it, as a library, and with the runtime in itself."""

    def fill(folder: Path) -> None:
        runtime = folder / "libamdhip64.so.6"
        standin, source = str(STANDINS / "hip_runtime.cpp"), str(FIXTURES / "hip.c")
        options = ["-std=c++20", "-fvisibility=hidden", f"-I{TOP / 'native'}"]
        shared = ["-shared", "-fPIC"]
        versions = f"-Wl,-soname,{runtime.name},--version-script={STANDINS / 'hip_runtime.map'}"
        injected.compiled(standin, runtime, *options, *shared, versions, language="c++")
        linked = [str(runtime), f"-Wl,-rpath,{folder}"]
        injected.compiled(source, folder / "hip", *linked)
        injected.compiled(source, folder / "libprogram.so", *shared, *linked)
        injected.compiled(source, folder / "hip.o", "-c")
        injected.compiled(standin, folder / "alone", *options, "-x", "none", str(folder / "hip.o"), language="c++")
        (folder / "kernels").write_bytes(bundle(code_object({SCALE_NAME: SCALE})))

    return make_once("port-hip", fill)


def environment(directory: Path, **more: str) -> dict[str, str]:
    """The variables of a target that is traced into a directory."""
    return injected.environment(directory, nvtx=False, trace=True, **more)


def traced(
    built: Path, directory: Path, form: str, *, program: str = "hip", kernels: str = "", **more: str
) -> TracedRun:
    """The trace of a form of the program, which must print what it prints without being traced."""
    directory.mkdir(exist_ok=True)
    command = [built / program, form, kernels or built / "kernels"]
    assert injected.run(command, environment(directory, **more)) == "right\n"
    (calls,) = read_calls(directory)
    assert [(runtime.api, runtime.device) for runtime in calls.runtimes] == [("HIP", "Stand-in")]
    return trace(calls)


def copied(run: TracedRun) -> dict[str, int]:
    """Bytes by direction."""
    total = Counter[str]()
    for step in run.steps:
        if isinstance(step, TracedCopy):
            total[step.way] += step.device.total
    return dict(total)


def counted(run: TracedRun) -> Counter[str]:
    """How many steps there are of each kind."""
    return Counter(type(step).__name__ for step in run.steps)


def kinds(run: TracedRun) -> list[str]:
    return sorted({finding.kind for finding in found(run, {}).findings})


EACH_WAY = {"h2d": STEPS * BYTES, "d2h": STEPS * BYTES}


@pytest.mark.parametrize("tables", [{}, TABLES], ids=["functions", "tables"])
@pytest.mark.parametrize(
    ("form", "moved", "blocks", "findings"),
    [
        ("copied", EACH_WAY, ["device", "device"], []),
        ("stream", EACH_WAY, ["device", "device"], []),
        ("async", EACH_WAY, ["device", "device"], []),
        ("pinned", EACH_WAY, ["device", "device", "pinned", "pinned"], []),
        ("managed", {}, ["managed", "managed"], ["free-memory"]),
        ("symbol", {"h2d": 4096, "d2h": 2048}, ["device_static"], ["stack", "static"]),
        ("rows", {"h2d": 64000, "d2h": 64000}, ["device"], []),
        ("slices", {"h2d": 6000}, ["device"], ["partial"]),
        ("launches", {"h2d": BYTES, "d2h": BYTES}, ["device", "device"], []),
        ("plane", {"h2d": 16000, "d2h": 16000}, ["device"], ["partial"]),
        ("batch", {"h2d": BYTES, "d2h": BYTES}, ["device"], []),
        ("captured", EACH_WAY, ["device", "device"], []),
        ("nodes", EACH_WAY, ["device", "device"], []),
    ],
)
def test_bytes_by_direction_and_findings_are_those_of_the_source(
    built: Path, tmp_path: Path, form: str, moved: dict[str, int], blocks: list[str], findings: list[str], tables
):
    run = traced(built, tmp_path, form, **tables)
    assert copied(run) == moved
    assert sorted(block.kind for block in run.blocks) == blocks
    assert kinds(run) == findings


@pytest.mark.parametrize("form", ["captured", "nodes"])
def test_a_graph_does_what_its_nodes_do_each_time_that_it_is_launched(built: Path, tmp_path: Path, form: str):
    run = traced(built, tmp_path, form)
    launches = [step for step in run.steps if isinstance(step, TracedLaunch) and not step.call.captured]
    assert [launch.kernel for launch in launches] == [SCALE_NAME] * STEPS
    assert {(use.block, use.may_write) for launch in launches for use in launch.uses} == {(0, False), (1, True)}
    fills = [step.target.total for step in run.steps if isinstance(step, TracedFill)]
    assert fills == ([BYTES] * STEPS if form == "nodes" else [])


def test_a_call_is_recorded_once_by_whichever_door(built: Path, tmp_path: Path):
    """Functions alone, tables beside them, and the tables of a runtime that is linked into the program."""
    by_door = [
        counted(traced(built, tmp_path / "functions", "copied")),
        counted(traced(built, tmp_path / "both", "copied", **TABLES)),
        counted(traced(built, tmp_path / "tables", "copied", program="alone", **TABLES)),
    ]
    assert by_door[0]["TracedLaunch"] == STEPS
    assert by_door[0] == by_door[1] == by_door[2]


@pytest.mark.parametrize("program", ["hip", "alone"])
def test_tables_that_come_through_rocprofiler_register_are_watched(built: Path, tmp_path: Path, program: str):
    """AMD's own library, if it is installed: without a trace it finds no tool; with one it hands the tables over."""
    roots = filter(None, (os.environ.get("ROCM_PATH"), "/opt/rocm"))
    library = next((path for root in roots for path in Path(root).glob("lib/librocprofiler-register.so.0")), None)
    if library is None:
        pytest.skip("librocprofiler-register.so is not installed")
    tables = {**TABLES, "STANDIN_REGISTER": str(library)}
    command = [built / program, "copied", built / "kernels"]
    assert injected.run(command, {**os.environ, **tables}) == "right\n"
    run = traced(built, tmp_path, "copied", program=program, **tables)
    assert (copied(run), counted(run)["TracedLaunch"]) == (EACH_WAY, STEPS)


def test_an_older_runtime_whose_table_has_fewer_functions_is_watched_as_far_as_it_has_them(built: Path, tmp_path: Path):
    whole = counted(traced(built, tmp_path / "whole", "module", **TABLES))
    short = counted(traced(built, tmp_path / "short", "module", STANDIN_TABLES="300"))
    assert whole - short == Counter({"TracedLaunch": 1})  # hipModuleLaunchKernel has the place 308
    traced(built, tmp_path / "copied", "copied", STANDIN_TABLES="300")
    for entries in ("0", "1"):
        directory = tmp_path / entries
        directory.mkdir()
        variables = environment(directory, STANDIN_TABLES=entries)
        assert injected.run([built / "hip", "copied", built / "kernels"], variables) == "right\n"


@pytest.mark.parametrize("form", ["copied", "launches"])
def test_a_kernel_writes_only_what_its_code_object_says(built: Path, tmp_path: Path, form: str):
    run = traced(built, tmp_path, form)
    launch = next(step for step in run.steps if isinstance(step, TracedLaunch))
    assert launch.kernel == SCALE_NAME
    assert {(use.parameter, use.may_write) for use in launch.uses} == {(0, True), (1, False)}
    assert found(run, {}).saved.bytes == 2 * BYTES


def test_parameters_of_a_launch_in_one_buffer_are_found_by_their_offsets(built: Path, tmp_path: Path):
    launch = next(step for step in traced(built, tmp_path, "module").steps if isinstance(step, TracedLaunch))
    assert {use.block for use in launch.uses} == {0}


@pytest.mark.parametrize(
    "image", [b"CCOB".ljust(8192, b"\1"), b"nothing known".ljust(8192, b"\0")], ids=["compressed", "unknown"]
)
def test_without_a_code_object_that_can_be_read_the_name_tells_of_pointers(built: Path, tmp_path: Path, image: bytes):
    kernels = tmp_path / "kernels"
    kernels.write_bytes(image)
    run = traced(built, tmp_path / "trace", "copied", kernels=str(kernels))
    launch = next(step for step in run.steps if isinstance(step, TracedLaunch))
    assert {(use.block, use.parameter) for use in launch.uses} == {(0, 1), (1, 0)}


def test_what_the_compiler_makes_is_read(built: Path, tmp_path: Path):
    clang = shutil.which("clang-19") or shutil.which("clang")
    source = tmp_path / "kernel.hip"
    source.write_text(
        "__attribute__((global)) void scale(float* __restrict__ out, const float* __restrict__ in, int count) {\n"
        "    const int i = __builtin_amdgcn_workitem_id_x();\n"
        "    if (i < count) out[i] = 2 * in[i];\n"
        "}\n"
    )
    options = ["-x", "hip", "--cuda-device-only", "-nogpulib", "-nogpuinc", "-O2", "-c"]
    targets = ["--offload-arch=gfx90a", "--offload-arch=gfx942"]
    kernels = tmp_path / "kernels"
    command = [clang or "", *options, *targets, source, "-o", kernels]
    if clang is None or subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("no clang here that compiles for AMD GPUs")
    run = traced(built, tmp_path / "trace", "copied", kernels=str(kernels))
    launch = next(step for step in run.steps if isinstance(step, TracedLaunch))
    assert {(use.parameter, use.may_write) for use in launch.uses} == {(0, True), (1, False)}


def test_a_runtime_that_only_a_library_of_a_package_sees_is_found(built: Path, tmp_path: Path):
    """As Python opens it: neither the library nor the runtime is visible to others."""
    script = (
        "import ctypes, sys; program = ctypes.CDLL(sys.argv[1]); texts = [b'', b'copied', sys.argv[2].encode()]\n"
        "sys.exit(program.main(3, (ctypes.c_char_p * 3)(*texts)))"
    )
    command = [*injected.python(script), built / "libprogram.so", built / "kernels"]
    assert injected.run(command, environment(tmp_path)) == "right\n"
    (calls,) = read_calls(tmp_path)
    assert copied(trace(calls)) == EACH_WAY


def test_programs_that_a_shell_or_python_starts_are_traced_and_those_do_nothing_else(built: Path, tmp_path: Path):
    program = f"{built / 'hip'} copied {built / 'kernels'}"
    script = f"import subprocess; subprocess.run({program.split()}, check=True)"
    for number, command in enumerate((["sh", "-c", f"{program}; echo done >&2"], injected.python(script))):
        directory = tmp_path / str(number)
        directory.mkdir()
        bare = subprocess.run(command, capture_output=True, check=False)
        done = subprocess.run(command, env=environment(directory), capture_output=True, check=False)
        assert (done.stdout, done.stderr, done.returncode) == (bare.stdout, bare.stderr, bare.returncode)
        assert [copied(trace(calls)) for calls in read_calls(directory)] == [EACH_WAY]


HELLO = '#include <stdio.h>\nint main(void) { return puts("hello") < 0; }\n'


@pytest.mark.parametrize("option", ["-static", "-fsanitize=address"])
def test_other_programs_run_as_they_would(tmp_path: Path, option: str):
    source = tmp_path / "hello.c"
    source.write_text(HELLO)
    try:
        program = injected.compiled(str(source), tmp_path / "hello", option)
    except subprocess.CalledProcessError:
        pytest.skip(f"nothing is built with {option} here")
    directory = tmp_path / "trace"
    directory.mkdir()
    assert injected.run([program], environment(directory)) == "hello\n"
    assert not any(directory.iterdir())


def test_what_is_not_there_changes_nothing(built: Path, tmp_path: Path):
    """No journal is asked for; the recorder is not beside the library; the library itself is gone; all calls fail."""
    alone = tmp_path / "alone"
    alone.mkdir()
    shutil.copy(injected_library().with_name(HIP_LIBRARY), alone)
    variables = environment(tmp_path / "none")
    command = [built / "hip", "copied", built / "kernels"]
    for more in ({"FIRSTTOUCH_TRACE": ""}, {"FIRSTTOUCH_PROFILE": ""}, {"LD_PRELOAD": str(alone / HIP_LIBRARY)}):
        assert injected.run(command, variables | more | TABLES) == "right\n"
        assert injected.run(command, variables | more) == "right\n"
    gone = subprocess.run(command, env=variables | {"LD_PRELOAD": "/gone.so"}, capture_output=True, check=False)
    assert (gone.stdout, gone.returncode) == (b"right\n", 0)
    (tmp_path / "none").mkdir()
    assert injected.run(command, variables | {"STANDIN_FAIL": "1"}, status=3) == "error 1\n"
    assert not any(calls.calls for calls in read_calls(tmp_path / "none"))


def test_the_runtime_of_debian_without_a_gpu_fails_as_it_does_and_nothing_is_recorded(tmp_path: Path):
    if not DEBIAN.is_file():
        pytest.skip("libamdhip64-5 is not installed")
    source = tmp_path / "program.c"
    source.write_text(
        "#include <stdio.h>\nint hipMalloc(void**, size_t);\n"
        'int main(void) { void* at; return printf("%d\\n", hipMalloc(&at, 4096)) < 0; }\n'
    )
    program = injected.compiled(str(source), tmp_path / "program", str(DEBIAN))
    bare = subprocess.run([program], capture_output=True, text=True, check=True)
    assert int(bare.stdout) != 0
    directory = tmp_path / "trace"
    directory.mkdir()
    assert injected.run([program], environment(directory)) == bare.stdout
    assert not any(calls.calls for calls in read_calls(directory))


def test_the_preloaded_library_needs_nothing_but_a_few_functions_of_any_c_library():
    """So that it also loads where the C library is musl, whose loader ends a program that misses one."""
    library = injected_library().with_name(HIP_LIBRARY)
    if not library.is_file():
        pytest.skip(f"{library} was not built")
    tools = [shutil.which(name) for name in ("nm", "readelf")]
    if None in tools:
        pytest.skip("no binutils")
    listed = subprocess.run([tools[0], "-D", "--undefined-only", library], capture_output=True, text=True, check=True)
    symbols = {line.split()[-1].split("@")[0] for line in listed.stdout.splitlines() if line.split()[-2] == "U"}
    assert symbols <= {"dl_iterate_phdr", "dlclose", "dlopen", "dlsym", "sched_yield", "strcpy", "strlen", "strncmp",
                       "strrchr", "memset"}  # fmt: skip
    needed = subprocess.run([tools[1], "-d", library], capture_output=True, text=True, check=True).stdout
    assert set(re.findall(r"\(NEEDED\).*\[(.*)\]", needed)) <= {"libc.so.6", "libdl.so.2"}


def test_what_the_user_preloads_and_asks_of_the_sanitizer_stays(tmp_path: Path):
    injected.environment(tmp_path, nvtx=False, trace=True)  # or skips
    current = {"LD_PRELOAD": "/their.so", "ASAN_OPTIONS": "detect_leaks=0"}
    added, _ = inject_environment(tmp_path, nvtx=False, trace=True, current=current)
    assert added["LD_PRELOAD"].endswith(f"/{HIP_LIBRARY}:/their.so")
    assert added["ASAN_OPTIONS"].split(":")[0] == "detect_leaks=0"
    assert "LD_PRELOAD" not in inject_environment(tmp_path, nvtx=True, trace=False, current=current)[0]


def test_the_numbers_of_functions_are_those_of_the_header():
    """If ROCm's headers are here: hip_api_trace.hpp has the functions in the order of the table."""
    roots = filter(None, (os.environ.get("ROCM_PATH"), "/opt/rocm", "/usr"))
    headers = [Path(root, "include/hip/amd_detail/hip_api_trace.hpp") for root in roots]
    header = next((path for path in headers if path.is_file()), None)
    if header is None:
        pytest.skip("hip_api_trace.hpp is not installed")
    text = header.read_text()
    listed = (TOP / "native/profile/inject/front/hip/calls.hpp").read_text()
    for name, macro in (
        ("HipDispatchTable", r"(\d+), (hip\w+)"),
        ("HipCompilerDispatchTable", r"(\d+), \w+\**, (__\w+)"),
    ):
        body = text[text.index(f"struct {name} {{") :].split("\n};")[0]
        order = re.findall(r"^\s*t_\w+\s+(\w+)_fn;", body, re.M)
        order = [function.replace("PropertiesR0000", "Properties") for function in order]
        places = {function: int(place) for place, function in re.findall(rf"CALL\({macro}", listed)}
        assert places
        assert {function: order.index(function) for function in places if function in order} == {
            function: place for function, place in places.items() if place < len(order)
        }
