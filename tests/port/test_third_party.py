"""What `firsttouch port` finds in programs that nobody here wrote, against a table of what is known of them.

recorded/ has a profile (`profile --trace --faults=8 --host`) of each, made on the stand-ins at a small size, where host
code runs and kernels do not, and of some made on a card. Sources: Rodinia 3.1, um-apps, HeCBench and NVIDIA's CUDA
samples; the table is of the issue that asked for `port`, which its author had made by reading the sources.
"""

from __future__ import annotations

import tarfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from firsttouch.advice.port.port_findings import PortFindings
from firsttouch.advice.port.reading import findings_of as findings_of_profile
from firsttouch.advice.port.reading import traced_run
from firsttouch.profile.reading import read
from firsttouch.profile.traced import CallLocation
from firsttouch.report.ported import ported_page

RECORDED = Path(__file__).parent / "recorded"
Finding = tuple[str, str, str]
"""Kind, certainty and place. Redundant copies are of the kind 'needless'; a hidden allocator
has the place of the block, and what is static on the host says so.
"""


@dataclass(frozen=True)
class Known:
    """What the table says of a program.

    pairs: where blocks are allocated that copies join with the host. saved: percent of the bytes of both sides.
    windows: those whose partners take turns; read_again: those that the CPU reads after they were copied in. listed:
    findings of the table; beyond: others, each with the reason why it is right or may be.
    """

    pairs: tuple[str, ...]
    saved: int
    windows: tuple[str, ...] = ()
    read_again: tuple[str, ...] = ()
    listed: set[Finding] = field(default_factory=set)
    beyond: dict[Finding, str] = field(default_factory=dict)


def lines(file: str, *numbers: int) -> tuple[str, ...]:
    return tuple(f"{file}:{number}" for number in numbers)


SAME_COPY = "the host side of the same copy is static too"
UNCHANGED = "the CPU sends again what came back, without a change"
EQUAL = "equal bytes are sent again, as the table says; certain only if the kernel does not write them"
REUSED = "malloc gave out memory that the vector had before it grew"
ONCE_MORE = "a page that the CPU writes after the copy, of memory that is never copied again: possible, and not counted"
KNOWN = {
    "backprop": Known(
        pairs=lines("backprop_cuda.cu", 97, 99, 100, 164, 165),
        saved=50,
        listed={("restoring", "likely", "backprop_cuda.cu:169")},
    ),
    "bfs": Known(
        pairs=lines("bfs.cu", 157, 162, 167, 171, 176, 187),
        saved=50,
        listed={("stack", "seen", "bfs.cu:216"), ("stack", "seen", "bfs.cu:236")},
    ),
    "heartwall": Known(
        pairs=lines("main.cu", 165, 219, 243, 247, 250, 291, 326, 330, 333),
        saved=4,
        windows=lines("main.cu", 165),
        listed={("static", "seen", f"main.cu:{line}") for line in (634, 635, 659)}
        | {("concurrent", "likely", "main.cu:658")},
        beyond={("static", "seen", f"main.cu:{line} of the host"): SAME_COPY for line in (634, 635, 659)},
    ),
    "hotspot": Known(pairs=lines("hotspot.cu", 321, 325), saved=50),
    "lud": Known(pairs=lines("lud.cu", 144), saved=50),
    "nn": Known(
        pairs=lines("nn_cuda.cu", 151, 152),
        saved=50,
        listed={("free-memory", "seen", "nn_cuda.cu:118"), ("hidden", "likely", "nn_cuda.cu:151")},
        beyond={("hidden", "likely", "nn_cuda.cu:152"): REUSED},
    ),
    "nw": Known(pairs=lines("needle.cu", 155, 156), saved=60),
    "pathfinder": Known(
        pairs=lines("pathfinder.cu", 219, 222), saved=50, listed={("partial", "likely", "pathfinder.cu:223")}
    ),
    "srad_v1": Known(
        pairs=lines("main.cu", 236, 239, 241, 243, 245),
        saved=11,
        listed={(kind, "seen", f"main.cu:{line}") for kind in ("partial", "stack") for line in (360, 361)},
    ),
    "cfd": Known(
        pairs=lines("euler3d.cu", 528, 531, 534, 543),  # three of them by alloc, line 105
        saved=40,
        listed={
            (kind, "seen", f"euler3d.cu:{line}") for kind in ("static", "stack") for line in (472, 473, 474, 475, 477)
        },
        beyond={("concurrent", "possible", "euler3d.cu:252"): ONCE_MORE},
    ),
    "streamcluster": Known(
        pairs=lines("streamcluster_cuda.cu", 96, 97, 98, 99, 197, 197, 197),  # of two sizes, by two paths
        saved=50,
        beyond={("needless", "possible", f"streamcluster_cuda.cu:{line}"): EQUAL for line in (221, 222)},
    ),
    "particlefilter_naive": Known(
        pairs=lines("ex_particle_CUDA_naive_seq.cu", *range(463, 469)),
        saved=50,
        beyond={("needless", "seen", f"ex_particle_CUDA_naive_seq.cu:{line}"): UNCHANGED for line in (564, 565)},
    ),
    "hwt1d": Known(pairs=lines("main.cu", 71, 74, 77), saved=50),
    "simpleStreams": Known(
        pairs=lines("simpleStreams.cu", 310),
        saved=50,
        listed={("stack", "seen", "simpleStreams.cu:313")},
    ),
    "BlackScholes": Known(pairs=lines("BlackScholes.cu", 168, 169, 170, 171, 172), saved=50),
    "BlackScholes-validate": Known(
        pairs=lines("BlackScholes.cu", 168, 169, 170, 171, 172),
        saved=50,
        read_again=lines("BlackScholes.cu", 170, 171, 172),
    ),
    "FDTD3d": Known(pairs=lines("FDTD3dGPU.cu", 95, 96), saved=50, listed={("static", "seen", "FDTD3dGPU.cu:148")}),
}


SCALAR = "a number in a frame of the program"
ONE_ARRAY = "records and nodes are parts of one allocation"
OTHERS = {
    "hotspot3D": Known(pairs=lines("opt1.cu", 73, 74, 75), saved=50),
    "myocyte": Known(
        pairs=lines("work.cu", 101, 106, 111, 116),
        saved=2,
        windows=lines("work.cu", 106),
        beyond={("needless", "possible", f"master.cu:{line}"): EQUAL for line in (46, 47)},
    ),
    "srad_v2": Known(pairs=lines("srad.cu", 131), saved=14, beyond={("needless", "seen", "srad.cu:228"): UNCHANGED}),
    "particlefilter_float": Known(
        pairs=lines("ex_particle_CUDA_float_seq.cu", 690, 691, 692, 693, 699, 700, 701, 703), saved=20
    ),
    "b+tree": Known(
        pairs=(
            *lines("kernel_gpu_cuda_wrapper.cu", 106, 114, 122, 130, 138, 150),
            *lines("kernel_gpu_cuda_wrapper_2.cu", 108, 116, 124, 132, 140, 148, 156, 168, 176),
        ),
        saved=50,
        beyond={("partial", "likely", "kernel_gpu_cuda_wrapper.cu:174"): ONE_ARRAY},
    ),
    "dwt2d": Known(pairs=lines("components.cu", 140), saved=9),
    "lavaMD": Known(pairs=lines("kernel_gpu_cuda_wrapper.cu", 103, 110, 117, 128), saved=50),
    "matrixMul": Known(pairs=lines("matrixMul.cu", 209, 211, 213), saved=50),
    "hec-jacobi": Known(pairs=lines("main.cu", 145, 148), saved=50, beyond={("stack", "seen", "main.cu:178"): SCALAR}),
    "hec-floydwarshall": Known(
        pairs=lines("main.cu", 218),
        saved=33,
        beyond={("restoring", "likely", "main.cu:244"): "each of its repetitions begins with the input again"},
    ),
    "hec-iso2dfd": Known(pairs=lines("iso2dfd.cu", 239, 241, 243), saved=50),
    "hec-softmax": Known(pairs=lines("main.cu", 97, 98), saved=50),
    "hec-adam": Known(pairs=lines("main.cu", 77, 80, 83, 86), saved=50),
    "hec-stencil1d": Known(pairs=lines("stencil_1d.cu", 66, 67), saved=50),
    "hec-nbody": Known(
        pairs=lines("GSimulation.cu", 105, 109),
        saved=50,
        beyond={("partial", "seen", "GSimulation.cu:128"): "the energy alone is read, which is the first of a block"},
    ),
    "BlackScholesUM_hint_prefetch": Known(pairs=(), saved=0),
    "FDTD3dUM": Known(pairs=(), saved=0),
}
"""Programs of which the table says nothing: every finding has its reason."""
ON_A_CARD = {
    name: KNOWN[name]
    for name in ("backprop", "bfs", "nw", "srad_v1", "BlackScholes", "BlackScholes-validate", "FDTD3d")
} | {
    "hotspot": Known(pairs=lines("hotspot.cu", 321, 322, 325), saved=50),  # an odd number of steps ends in the other
    "matrixMul": OTHERS["matrixMul"],
    "simpleCUBLAS": Known(pairs=lines("simpleCUBLAS.cpp", 215, 221, 227), saved=14),
}
"""The same programs on an H100, where kernels run, with the runtime linked statically, at sizes of some MiB."""


def shown(place: CallLocation) -> str:
    return f"{place.source.rpartition('/')[2]}:{place.line}" if place.source else place.file.rpartition("/")[2]


def findings_of(name: str, directory: Path) -> PortFindings:
    with tarfile.open(RECORDED / f"{name}.tar.xz") as archive:
        for member in archive:
            (directory / member.name).write_bytes(content.read() if (content := archive.extractfile(member)) else b"")
    profile = read(directory)
    return findings_of_profile(profile, traced_run(profile))


def found_in(port: PortFindings) -> set[Finding]:
    blocks = {block.number: block for block in port.blocks}
    found = {("needless", row.certainty, shown(row.place)) for row in port.needless}
    for row in port.findings:
        of_host = " of the host" if row.kind == "static" and row.text == "of the host" else ""
        for place in (blocks[number].place for number in row.blocks) if row.kind == "hidden" else row.places:
            found.add((row.kind, row.certainty, shown(place) + of_host))
    return found


ALL = KNOWN | OTHERS | {f"h100-{name}": known for name, known in ON_A_CARD.items()}


@pytest.mark.parametrize("name", ALL)
@pytest.mark.slow
def test_what_is_known_of_a_program_is_found_and_the_rest_explained(name: str, tmp_path: Path) -> None:
    port, known = findings_of(name, tmp_path), ALL[name]
    paired = [block for block in port.blocks if block.partners]
    assert sorted(shown(block.place) for block in paired) == sorted(known.pairs)
    assert round(100 * port.saved.bytes / port.saved.of) == known.saved
    windows = {shown(block.place) for block in paired if any(partner.window for partner in block.partners)}
    assert windows == set(known.windows)
    read_again = {shown(block.place) for block in paired if block.read_again and block.read_again >= block.bytes}
    assert read_again == set(known.read_again)
    assert found_in(port) == known.listed | known.beyond.keys()
    assert not known.listed & known.beyond.keys()


def test_blocks_are_found_through_pointers_in_memory(tmp_path: Path) -> None:
    """The kernel of heartwall has no parameters; its structures are in variables of the device."""
    port = findings_of("heartwall", tmp_path)
    assert {block.launches for block in port.blocks} == {4}
    assert len(port.blocks) == 626
    page = ported_page(read(tmp_path))
    assert page is not None
    (rows,) = (table.rows for table in page.tables if table.anchor == "unified-memory")
    assert len(rows) < 40
    assert sum(row[0].endswith(", 51 of these") for row in rows) == 12


def test_what_kernels_use_of_static_variables_that_nothing_copies_matters_to_nobody(tmp_path: Path) -> None:
    """Objects of CUDA's C++ library are empty, but each is a variable of the device that any kernel may name."""
    port = findings_of("hec-softmax", tmp_path)
    assert sum(block.kind == "device_static" for block in port.blocks) == 10
    assert any("bytes of 2 buffers" in sentence for sentence in port.unseen)
