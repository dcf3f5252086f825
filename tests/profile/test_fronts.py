"""By what a program uses a device, and what of it is not traced: said before it runs, as its files tell, or after."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from pathlib import Path
from random import Random

import pytest
from tests.calls import call
from tests.profile import injected, profiles
from tests.profile.targets import NOBODY, as_nobody, readable
from tests.profile.trees import tree_of
from tests.texts import assert_states

from firsttouch.profile import process_memory
from firsttouch.profile import schema as s
from firsttouch.profile.foreseen import foreseen
from firsttouch.profile.fronts import FRONTS, TRACED, UNTRACED, is_named, is_of_front
from firsttouch.profile.programs import KINDS, help_text, markdown
from firsttouch.profile.reading import read
from firsttouch.profile.symbols.elf import Elf
from firsttouch.profile.untraced import why_untraced

NAMES = (
    *("libcudart.so.13", "libamdhip64.so.6", "libOpenCL.so.1", "libpocl.so.2", "libomptarget.so.19", "libomp.so.5"),
    *("libze_loader.so.1", "libsycl.so.8"),
)


@pytest.fixture(scope="module")
def programs(make_once) -> Path:
    """Libraries of these names that do nothing, a program linked with each, and others."""

    def fill(folder: Path) -> None:
        (folder / "nothing.c").write_text("int nothing(void) { return 0; }")
        (folder / "main.c").write_text("int main(void) { return 0; }")
        origin = ("-Wl,--no-as-needed", f"-L{folder}", "-Wl,-rpath,$ORIGIN")

        def library(name: str, *options: str) -> None:
            options = ("-shared", "-fPIC", f"-Wl,-soname,{name}", *options)
            injected.compiled(str(folder / "nothing.c"), folder / name, *options)

        for name in NAMES:
            library(name)
            injected.compiled(str(folder / "main.c"), folder / name.partition(".")[0], *origin, f"-l:{name}")
        library("libmine.so", *origin, "-l:libcudart.so.13")
        injected.compiled(str(folder / "main.c"), folder / "by-mine", *origin, "-l:libmine.so")
        injected.compiled(str(folder / "main.c"), folder / "plain")
        injected.compiled(str(folder / "main.c"), folder / "static", "-static")
        device = '__attribute__((section(".nv_fatbin"))) const char code[] = "device";'
        (folder / "within.c").write_text(f"{device} int main(void) {{ return 0; }}")
        injected.compiled(str(folder / "within.c"), folder / "within")

    return make_once("fronts", fill)


@pytest.mark.parametrize(
    ("program", "facts"),
    [
        ("libcudart", ("CUDA", "libcudart.so.13", "no driver", "libcuda.so.1")),
        ("by-mine", ("CUDA", "libcudart.so.13, which libmine.so needs", "no driver")),
        ("within", ("CUDA", "no driver")),
        ("libze_loader", ("Level Zero", "libze_loader.so.1", "not traced")),
        ("libsycl", ("libsycl.so.8", "only what it does by CUDA")),
        ("libpocl", ("libpocl.so.2", "in place of the loader", "not traced")),
        ("static", ("static is linked statically", "only programs that it starts")),
    ],
)
def test_what_is_not_traced_is_told_by_the_files_of_a_program(
    programs: Path, monkeypatch: pytest.MonkeyPatch, program: str, facts: tuple[str, ...]
):
    monkeypatch.setenv("FIRSTTOUCH_LIB_CUDA", "/there/is/none")
    assert_states(foreseen([str(programs / program), "word"], os.environ), *facts)


@pytest.mark.parametrize(
    "program", ["libcudart", "by-mine", "within", "libOpenCL", "libamdhip64", "libomptarget", "libomp", "plain"]
)
def test_of_programs_that_are_traced_nothing_is_said(programs: Path, monkeypatch: pytest.MonkeyPatch, program: str):
    monkeypatch.setenv("FIRSTTOUCH_LIB_CUDA", str(programs / "libcudart.so.13"))
    monkeypatch.setenv("FIRSTTOUCH_LIB_OPENCL_ICD", str(programs / "libpocl.so.2"))
    assert foreseen([str(programs / program)], os.environ) == ""


def test_a_program_is_looked_for_as_it_will_be_started(programs: Path, tmp_path: Path):
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    assert foreseen([str(script)], os.environ) == foreseen(["there-is-none"], os.environ) == ""
    assert "statically" in foreseen(["static"], {"PATH": str(programs)})
    assert foreseen(["static"], {"PATH": str(tmp_path)}) == ""


def test_a_library_is_found_in_the_folders_of_the_environment(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("FIRSTTOUCH_LIB_CUDA", "/there/is/none")
    program = injected.compiled(
        str(programs / "main.c"), tmp_path / "program", "-Wl,--no-as-needed", f"-L{programs}", "-l:libmine.so"
    )
    assert "which libmine.so needs" in foreseen([str(program)], {"LD_LIBRARY_PATH": f"/nowhere:{programs}"})
    assert foreseen([str(program)], {}) == ""  # the loader will not find it
    assert Elf.open(program).linking().needed[0] == "libmine.so"


CAPABILITIES = struct.pack("<5I", 0x02000001, 1 << 13, 0, 0, 0)
"""That a file gives the right to open raw sockets, as `setcap` writes it. Source: capabilities(7)."""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
@pytest.mark.parametrize(
    ("owner", "mode", "capabilities", "facts"),
    [
        (1, 0o755, b"", ()),
        (1, 0o111, b"", ()),
        (NOBODY, 0o4755, b"", ()),
        (1, 0o4755, b"", ("another user",)),
        (1, 0o4111, b"", ("another user",)),
        (1, 0o2755, b"", ("another user or group",)),
        (1, 0o755, CAPABILITIES, ("file capabilities",)),
        (1, 0o111, CAPABILITIES, ("file capabilities",)),
    ],
)
def test_what_is_said_of_a_program_with_more_rights_is_what_the_loader_does(
    programs: Path, owner: int, mode: int, capabilities: bytes, facts: tuple[str, ...]
):
    def runs() -> tuple[str, str]:
        environment = {"LD_PRELOAD": "/there/is/none.so"}
        done = subprocess.run([program], env=environment, capture_output=True, text=True, check=True)
        return foreseen([str(program)], {}), done.stderr

    with readable() as folder:
        program = Path(shutil.copy(programs / "plain", folder))
        os.chown(program, owner, 1)
        if os.statvfs(program).f_flag & os.ST_NOSUID:
            pytest.skip("programs get no other rights in this folder")
        program.chmod(mode)
        if capabilities:
            os.setxattr(program, "security.capability", capabilities)
        told, loader = as_nobody(runs)
    assert_states(told, *facts)
    assert bool(told) == bool(facts) == ("cannot be preloaded" not in loader)


@pytest.fixture(scope="module")
def entered(make_once) -> Path:
    """A folder with a program, its libraries and nothing else."""

    def fill(folder: Path) -> None:
        source = folder / "main.c"
        source.write_text('#include <stdio.h>\nint main(void) { puts("ran"); return 7; }')
        program = injected.compiled(str(source), folder / "program")
        listed = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=True).stdout
        for word in listed.split():
            if word.startswith("/"):
                copied = folder / word.lstrip("/")
                copied.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(word, copied)

    return make_once("entered", fill)


@pytest.mark.parametrize("enter", [["unshare", "-rm"], ["unshare", "-r", "--root={}"]])
def test_a_program_in_other_namespaces_runs_as_without(
    entered: Path, tmp_path: Path, enter: list[str], capfd: pytest.CaptureFixture[str]
):
    root = any("--root" in word for word in enter)
    command = [*(word.format(entered) for word in enter), "/program" if root else str(entered / "program")]
    if shutil.which("unshare") is None or subprocess.run(command, capture_output=True).returncode != 7:
        pytest.skip("namespaces are not permitted here")
    done = call("port", "--out", tmp_path / "p", "--", *command)
    assert (done.returncode, capfd.readouterr().out) == (7, "ran\n")
    assert_states(done.stderr, "no trace", "exit status 7")


def test_broken_programs_tell_nothing_or_something(programs: Path, tmp_path: Path):
    content, random = (programs / "by-mine").read_bytes(), Random(1)
    program = tmp_path / "program"
    for number in range(300):
        broken = bytearray(content[: random.randrange(len(content))] if number % 2 else content)
        for _ in range(8):
            if broken:
                broken[random.randrange(min(4096, len(broken)))] = random.randrange(256)
        program.write_bytes(broken)
        program.chmod(0o755)
        assert isinstance(foreseen([str(program)], {}), str)


def mapped(*names: str) -> s.Mappings:
    return s.Mappings(t=1.0, key=0, rows=[s.Mapping(f"/usr/lib/{name}", 1, 4096, 4096, 0) for name in names])


@pytest.mark.parametrize(
    ("loaded", "facts"),
    [
        (("libcudart.so.13.0.48",), ("CUDA was loaded", "no driver", "libcuda.so.1")),
        (("libcudart.so.13", "libcuda.so.580.95.05"), ("CUDA was loaded", "no call of it was recorded")),
        (("libamdhip64.so.6.4.1",), ("HIP was loaded", "libamdhip64.so.6.4.1", "no call of it was recorded")),
        (("libze_loader.so.1.20.1",), ("Level Zero", "libze_loader.so.1.20.1", "not traced")),
        (("libpocl.so.2.9.0",), ("libpocl.so.2.9.0", "in place of the loader")),
        (("libOpenCL.so.1.0.0", "libpocl.so.2.9.0"), ("OpenCL was loaded", "no call of it was recorded")),
        (("libm.so.6", "libomp.so.5"), ("nothing in it used CUDA",)),
        ((), ("nothing in it used CUDA", "exit status 3")),
    ],
)
def test_what_was_loaded_says_why_nothing_was_traced(tmp_path: Path, loaded: tuple[str, ...], facts: tuple[str, ...]):
    layers = [s.LayerState("trace", active=True)]
    assert_states(why_untraced(read(profiles.write(tmp_path / "p", mapped(*loaded), layers=layers))), *facts)


def test_what_was_foreseen_is_the_reason(tmp_path: Path):
    layers = [s.LayerState("trace", active=True, why="app is linked statically")]
    assert why_untraced(read(profiles.write(tmp_path / "p", layers=layers))) == "app is linked statically"


def test_libraries_that_tell_are_among_the_mappings_however_small(tmp_path: Path):
    smaps = [f"{n << 16:x}-{(n + 1) << 16:x} r--p 0 0:0 0 /lib/l{n}.so\nRss: {100 - n} kB\n" for n in range(1, 60)]
    smaps.append("ff0000-ff1000 r-xp 0 0:0 0 /lib/libamdhip64.so.6\nRss: 4 kB\n")
    look = process_memory.mappings(tree_of(tmp_path, {"proc/7/smaps": "".join(smaps)}), 7)
    assert look is not None
    assert (len(look.rows), look.rows[-1].name) == (41, "/lib/libamdhip64.so.6")
    assert look.others is not None
    assert look.others.count == 19
    assert sum(row.resident for row in look.rows) + look.others.resident == look.sums.resident


def test_the_list_is_consistent():
    assert all((front in TRACED) != (front in UNTRACED) for front in FRONTS)
    for front in TRACED:
        assert front.door
    assert is_named("/opt/x/libcudart-d034bb.so.11", ["libcudart"])
    assert not is_named("libcudartx.so", ["libcudart"])
    assert not is_of_front("/usr/lib/libcuda-like.txt")


@pytest.mark.parametrize("page", ["README.md", "docs/porting.md"])
def test_pages_have_the_table_of_programs(page: str):
    assert f"\n\n{markdown()}\n\n" in (injected.TOP / page).read_text()


def test_the_table_says_of_each_interface_what_the_list_does():
    by_api = {front.api: front for front in FRONTS}
    for kind in KINDS:
        assert {*kind.fronts} <= {*by_api}
        if front := by_api.get(kind.name):
            assert front.beneath or ("allocations, copies" in kind.unseen) == (not front.traced)
    assert {front.api for front in TRACED} <= {kind.name for kind in KINDS}
    assert max(map(len, help_text().splitlines())) <= 78
