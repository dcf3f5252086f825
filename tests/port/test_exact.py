"""What kernels use, from a run under the Sanitizer API: the injected library on a played one, and its journals."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from firsttouch.base.errors import UsageError
from firsttouch.profile.exact import FOLDER, ExactBlock, ExactCalls, ExactLaunch, ExactMove, ExactUse, read_exact
from firsttouch.profile.inject import injected_library

TOP = Path(__file__).parents[2]
BLOCK = 0x700000000000
MIB = 1 << 20
Play = Callable[..., ExactCalls]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The stand-in for the Sanitizer API, and a program that plays the driver through it."""
    compiler = shutil.which(os.environ.get("CXX", "g++"))
    if compiler is None or not injected_library().is_file():
        pytest.skip("no C++ compiler here, or the injected library was not built")
    folder = tmp_path_factory.mktemp("played")
    standin, program = folder / "standin.so", folder / "play"
    include = [f"-I{TOP / 'native'}", f"-I{TOP / 'src/firsttouch'}"]
    source = TOP / "tests/standins/sanitizer.cpp"
    subprocess.run([compiler, "-std=c++20", "-shared", "-fPIC", *include, source, "-o", standin], check=True)
    subprocess.run([compiler, "-x", "c", Path(__file__).with_name("play.c"), "-o", program, "-ldl"], check=True)
    return standin, program


@pytest.fixture
def play(programs: tuple[Path, Path], tmp_path: Path) -> Play:
    def played(*script: str, **more: str) -> ExactCalls:
        standin, program = programs
        folder = tmp_path / FOLDER
        folder.mkdir()
        patch = tmp_path / "patch"
        patch.touch()
        variables = {
            "CUDA_INJECTION64_PATH": str(injected_library()),
            "FIRSTTOUCH_PROFILE": str(folder),
            "FIRSTTOUCH_EXACT": str(patch),
            "FIRSTTOUCH_PROFILE_SANITIZER": str(standin),
            "STANDIN": str(standin),
        }
        done = subprocess.run([program, ";".join(script)], env=variables | more, capture_output=True, timeout=60)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
        (calls,) = read_exact(tmp_path)
        return calls

    return played


def test_what_a_launch_reads_and_writes_of_each_block(play: Play) -> None:
    other = BLOCK + 4 * MIB
    calls = play(
        "module",
        f"alloc {BLOCK} {4 * MIB}",
        f"alloc {other} 1000 0x2",
        f"copy 2 {BLOCK} {4 * MIB}",
        f"r {BLOCK} 65536; r {BLOCK + MIB + 65535} 2; w {other} 4",
        "launch axpy 128 256",
        "sync",
        f"copy 3 0x1000 {MIB} 1",
        f"free {other}",
    )
    assert calls.steps == [
        ExactBlock(BLOCK, 4 * MIB, True, "device"),
        ExactBlock(other, 1000, True, "managed"),
        ExactMove("h2d", BLOCK, 4 * MIB),
        ExactLaunch(
            "axpy",
            (128, 1, 1),
            (256, 1, 1),
            used=[
                ExactUse(BLOCK, 4 * MIB, reads=((0, 65536), (MIB, MIB + 2 * 65536))),
                ExactUse(other, 1000, writes=((0, 1000),)),
            ],
        ),
        ExactMove("d2h", 0x1000, MIB),
        ExactBlock(other, 1000, False, "managed"),
    ]


def test_accesses_beside_all_blocks_are_counted(play: Play) -> None:
    block = f"alloc {BLOCK} {MIB}"
    (launch,) = play("module", block, f"r 0x600 4; a {BLOCK + MIB - 4} 8; r {BLOCK + MIB} 4", "launch k 1 1").launches
    assert launch.outside == 3
    edge = ((MIB - 65536, MIB),)
    assert launch.used == [ExactUse(BLOCK, MIB, reads=edge, writes=edge)]


@pytest.mark.parametrize("end", ["sync", f"free {BLOCK}", f"copy 3 0x1000 {MIB}", ""])
def test_a_launch_is_told_where_the_program_waits_or_ends(play: Play, end: str) -> None:
    (launch,) = play("module", f"alloc {BLOCK} {MIB}", f"r {BLOCK} 4", "graph", "node k 1 32", end).launches
    assert launch.of_graph
    assert launch.used == [ExactUse(BLOCK, MIB, reads=((0, 65536),))]


def test_of_many_launches_of_a_kernel_the_first_and_some_later_ones_are_looked_at(play: Play) -> None:
    again = [f"w {BLOCK} 4;launch k 7 32"] * 40
    launches = play("module", f"alloc {BLOCK} {MIB}", *again, "launch k 8 32", "sync").launches
    assert [i + 1 for i, launch in enumerate(launches) if launch.used is not None] == [*range(1, 17), 32, 41]


def test_kernels_of_one_graph_are_not_told_apart(play: Play) -> None:
    nodes = [f"r {BLOCK} 4", "node a 1 32", f"w {BLOCK} 4", "node b 1 32"]
    launches = play("module", f"alloc {BLOCK} {MIB}", "graph", *nodes, "graph", *nodes[:2], "sync").launches
    assert [launch.used for launch in launches] == [None, None, [ExactUse(BLOCK, MIB, reads=((0, 65536),))]]


@pytest.mark.parametrize("call", ["sanitizerSubscribe", "sanitizerPatchModule", "sanitizerAddPatchesFromFile"])
def test_what_the_api_refuses_is_said_once_and_the_program_goes_on(play: Play, call: str) -> None:
    script = ("module", "module", f"alloc {BLOCK} {MIB}", "launch k 1 1", "launch k 1 1", "sync")
    calls = play(*script, STANDIN_SANITIZER_FAILS=f"{call}=14")
    (notice,) = calls.notices
    assert notice.endswith(f"{call}: SANITIZER_ERROR_NOT_SUPPORTED")
    assert all(launch.used is None for launch in calls.launches)


def test_a_library_that_cannot_be_opened_is_said(play: Play, tmp_path: Path) -> None:
    (notice,) = play("module", "launch k 1 1", FIRSTTOUCH_PROFILE_SANITIZER=str(tmp_path / "none.so")).notices
    assert "none.so" in notice


@pytest.mark.parametrize("cut", [*range(1, 9), 40, 100])
def test_a_journal_that_ends_early_is_read_up_to_there(play: Play, tmp_path: Path, cut: int) -> None:
    calls = play("module", f"alloc {BLOCK} {MIB}", f"r {BLOCK} 4", "launch k 1 1", "sync")
    (file,) = (tmp_path / FOLDER).iterdir()
    content = file.read_bytes().rstrip(b"\0")
    file.write_bytes(content[:-cut])
    (short,) = read_exact(tmp_path)
    assert short.steps[:1] == calls.steps[:1]


def test_a_record_that_contradicts_itself_is_refused(play: Play, tmp_path: Path) -> None:
    play("module", f"alloc {BLOCK} {MIB}", f"r {BLOCK + 7 * 65536} 4", "launch k 1 1", "sync")
    (file,) = (tmp_path / FOLDER).iterdir()
    run = (7).to_bytes(4, "little") + (1).to_bytes(4, "little")
    content = file.read_bytes()
    head, tail = content[:4096], content[4096:]
    assert tail.count(run) == 1
    file.write_bytes(head + tail.replace(run, (400).to_bytes(4, "little") + run[4:]))
    with pytest.raises(UsageError, match="broken record"):
        read_exact(tmp_path)


def cubin(**codes: int) -> bytes:
    """An ELF file with the code of functions: 1 KiB that begins with the number of an instruction."""
    names = b"\0.names\0" + b"".join(b".text." + name.encode() + b"\0" for name in codes)
    parts = [names, *(code.to_bytes(2, "little").ljust(1024, b"\0") for code in codes.values())]
    starts = [64 + sum(map(len, parts[:i])) for i in range(len(parts) + 1)]
    headers = struct.pack("<IIQQQQIIQQ", 1, 3, 0, 0, starts[0], len(names), 0, 0, 1, 0)
    for i, name in enumerate(codes):
        at = names.index(b".text." + name.encode())
        headers += struct.pack("<IIQQQQIIQQ", at, 1, 6, 0, starts[i + 1], 1024, 0, 0, 1, 0)
    head = b"\x7fELF\2\1\1".ljust(16, b"\0")
    head += struct.pack("<HHIQQQIHHHHHH", 2, 190, 1, 0, 0, starts[-1], 0, 64, 0, 0, 64, 1 + len(codes), 0)
    return head + b"".join(parts) + headers


def test_a_kernel_that_copies_by_tensor_maps_is_not_told(play: Play, tmp_path: Path) -> None:
    file = tmp_path / "module.cubin"
    file.write_bytes(cubin(tensor=0x75B4, plain=0x7918))
    used = f"r {BLOCK} 4"
    script = (f"module {file}", f"alloc {BLOCK} {MIB}", used, "launch tensor 1 1", used, "launch plain 1 1", "sync")
    launches = play(*script).launches
    assert [(launch.opaque, launch.used is None) for launch in launches] == [(True, True), (False, False)]


@pytest.mark.parametrize("size", [3, 40, 64, 200, 1200])
def test_a_damaged_module_tells_nothing_of_its_kernels(play: Play, tmp_path: Path, size: int) -> None:
    file = tmp_path / "module.cubin"
    file.write_bytes(cubin(tensor=0x75B4)[:size])
    (launch,) = play(f"module {file}", "launch tensor 1 1", "sync").launches
    assert not launch.opaque


def test_what_an_h100_told_is_what_its_kernels_use() -> None:
    """The journal of a program whose kernels use known bytes of blocks of 64 MiB, on an H100 with CUDA 13.0."""
    (calls,) = read_exact(Path(__file__).parent / "h100")
    a, b, managed, pinned, small = (
        step.address
        for step in calls.steps
        if isinstance(step, ExactBlock) and step.begins and step.bytes in (1000, 64 * MIB)
    )
    names = {a: "a", b: "b", managed: "managed", pinned: "pinned", small: "small"}
    used = [
        {
            names.get(use.address, "table"): tuple(
                sum(end - start for start, end in way) / 65536 for way in (use.reads, use.writes)
            )
            for use in launch.used or ()
        }
        for launch in calls.launches
    ]
    assert used == [
        {"a": (16, 0), "b": (0, 16)},  # one of 64, the first
        {"a": (379, 0), "managed": (0, 379)},  # 37 of 100, scattered
        {"a": (1024, 1024)},
        {"b": (1024, 1024)},
        {"small": (1000 / 65536, 1000 / 65536)},  # by atomics
        {"a": (128, 0), "b": (0, 32)},  # by cp.async
        {"a": (256, 0), "b": (0, 256)},  # by bulk copies, both ways
        {"pinned": (1024, 0), "b": (0, 1024)},
        {"a": (2, 2), "b": (1, 1), "managed": (1, 1), "table": (32 / 65536, 0)},  # by pointers in memory
        {"a": (0, 1)},
    ]
    scattered = next(use for use in calls.launches[1].used or () if use.reads)
    assert [start // 65536 for start, _ in scattered.reads] == [g for g in range(1024) if g * 37 % 100 < 37]
    assert [launch.outside for launch in calls.launches] == [0] * 9 + [64]  # a static variable
