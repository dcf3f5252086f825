"""Reads of one process, of real children with known sizes and of machines that are not here."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.profile.trees import APUS, GIB, GRACE_HOPPER, KIB, MI300A, MIB, node, tree_of

from firsttouch.machine.pages import HUGE_PAGE
from firsttouch.machine.tree import READ_LIMIT, Tree
from firsttouch.profile import process_memory as memory
from firsttouch.profile.schema import ProfiledGpu

_SIZE = 64 * MIB


@contextmanager
def child(code: str) -> Iterator[int]:
    """A process that runs `code` and then waits; the code ends before this returns."""
    program = f"import mmap, os, sys\n{code}\nprint('ready', flush=True)\nsys.stdin.read()"
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process.pid
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(timeout=20) == 0


def _touch(flags: str, advice: str) -> str:
    return (
        f"block = mmap.mmap(-1, {_SIZE}, flags={flags})\n"
        f"block.madvise(mmap.{advice})\n"
        f"for at in range(0, {_SIZE}, 4096): block[at] = 1"
    )


BASE = _touch("mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS", "MADV_NOHUGEPAGE")
SHARED = "import ctypes\n" + _touch("mmap.MAP_SHARED | mmap.MAP_ANONYMOUS", "MADV_NORMAL")


def near(value: int | None, expected: int) -> bool:
    """Within a tenth of the size that the child touched."""
    return value is not None and abs(value - expected) < _SIZE // 10


def test_anonymous_pages_of_a_child_are_counted() -> None:
    with child("pass") as idle, child(BASE) as busy:
        before, after = memory.rollup(Tree(), idle), memory.rollup(Tree(), busy)
        placed = memory.pages_on_nodes(Tree(), busy)
        found = memory.mappings(Tree(), busy)
    if before is None or after is None:
        pytest.skip("this kernel has no smaps_rollup")
    assert near(after.resident - before.resident, _SIZE)
    assert near((after.anonymous or 0) - (before.anonymous or 0), _SIZE)
    assert after.huge == after.hugetlb == 0
    assert found is not None
    listed, others = found.rows, found.others
    assert listed[0].name == "anonymous"
    assert near(listed[0].resident, _SIZE)
    assert [each.resident for each in listed] == sorted((each.resident for each in listed), reverse=True)
    everything = sum(each.resident for each in listed) + (others.resident if others else 0)
    assert abs(everything - after.resident) < MIB
    if placed is not None:
        assert abs(sum(placed.values()) - after.resident) < MIB


def test_huge_pages_are_counted_as_such() -> None:
    # An aligned block, since a huge page needs a whole one of its addresses.
    code = (
        "import ctypes\n"
        f"block = mmap.mmap(-1, {_SIZE + HUGE_PAGE}, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\n"
        "block.madvise(mmap.MADV_HUGEPAGE)\n"
        f"start = -ctypes.addressof(ctypes.c_char.from_buffer(block)) % {HUGE_PAGE}\n"
        f"for at in range(start, start + {_SIZE}, 4096): block[at] = 1"
    )
    if Tree().selected("sys/kernel/mm/transparent_hugepage/enabled") in (None, "never") or HUGE_PAGE > _SIZE:
        pytest.skip("this machine has no transparent huge pages that fit")
    with child(code) as pid:
        read, found = memory.rollup(Tree(), pid), memory.mappings(Tree(), pid)
    assert read is not None
    assert found is not None
    assert near(read.huge, _SIZE)
    assert near(found.rows[0].huge, _SIZE)
    assert (found.sums.resident, found.sums.huge, found.sums.swap) == (read.resident, read.huge, read.swap)
    assert (read.huge or 0) <= read.resident


def test_shared_pages_are_one_half_of_the_pss_of_two() -> None:
    fork = "\nr, w = os.pipe()\npid = os.fork()\n" + (
        f"for at in range(0, {_SIZE}, 4096): block[at]\n"
        "if pid == 0: os.write(w, b'x'); os.close(w); sys.stdin.read(); os._exit(0)\n"
        "os.read(r, 1)"
    )
    with child(SHARED + fork) as pid:
        read = memory.rollup(Tree(), pid)
        found = memory.mappings(Tree(), pid)
    assert read is not None
    assert found is not None
    assert near(read.resident - (read.pss or 0) - _unshared_rest(read.resident), _SIZE // 2)
    assert near(found.rows[0].resident, _SIZE)
    assert found.rows[0].name.startswith("/dev/zero")


def _unshared_rest(resident: int) -> int:
    """An upper half of what the interpreter itself shares with its child."""
    return (resident - _SIZE) // 2


def test_a_mapping_named_by_prctl_has_that_name() -> None:
    libc = ctypes.CDLL(None)
    page = ctypes.create_string_buffer(8192)
    aligned = (ctypes.addressof(page) + 4095) & ~4095
    if libc.prctl(0x53564D41, 0, ctypes.c_ulong(aligned), ctypes.c_ulong(0), b"x") != 0:
        pytest.skip("this kernel has no names of anonymous memory (CONFIG_ANON_VMA_NAME)")
    code = BASE + (
        "\nimport ctypes\n"
        "address = ctypes.c_ulong(ctypes.addressof(ctypes.c_char.from_buffer(block)))\n"
        f"assert ctypes.CDLL(None).prctl(0x53564D41, 0, address, ctypes.c_ulong({_SIZE}), b'field') == 0"
    )
    with child(code) as pid:
        found = memory.mappings(Tree(), pid)
    assert found is not None
    assert found.rows[0].name == "[anon:field]"
    assert near(found.rows[0].resident, _SIZE)


def test_all_of_many_mappings_are_read() -> None:
    """6,000 mappings are more text than Tree reads at once."""
    code = (
        "blocks = [mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS,"
        " prot=mmap.PROT_READ | (mmap.PROT_WRITE if i % 2 else 0)) for i in range(6000)]\n"
        "for i in range(1, 6000, 2): blocks[i][0] = 1"
    )
    with child(code) as pid:
        text = Path(f"/proc/{pid}/smaps").read_bytes()
        found = memory.mappings(Tree(), pid, most=1)
    assert found is not None
    listed, others = found.rows, found.others
    assert others is not None
    assert len(text) > 4 * READ_LIMIT
    assert len(listed) == 1
    assert listed[0].count + others.count == text.count(b"\nVmFlags:")


def test_a_process_that_has_ended_is_none() -> None:
    process = subprocess.Popen(["true"])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    zombie = [f(Tree(), process.pid) for f in (memory.rollup, memory.pages_on_nodes, memory.mappings)]
    process.wait()
    gone = [f(Tree(), process.pid) for f in (memory.rollup, memory.pages_on_nodes, memory.mappings)]
    assert zombie == gone == [None] * 3
    assert "cgroup" not in memory.host_counters(Tree(), process.pid)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
def test_a_process_of_another_user_is_none() -> None:
    code = (
        "import os; from firsttouch.machine.tree import Tree; from firsttouch.profile import process_memory as memory\n"
        "os.setgid(65534); os.setuid(65534)\n"
        f"print([f(Tree(), {os.getpid()}) for f in (memory.rollup, memory.pages_on_nodes, memory.mappings)])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "[None, None, None]\n", done.stderr


def test_the_counters_of_this_host() -> None:
    found = memory.host_counters(Tree(), os.getpid())
    assert found["mem_available"] > 0
    assert all(value >= 0 for value in found.values())
    assert sum(name.startswith("node") for name in found) == len([n for n in memory.nodes(Tree()) if n.total])
    assert sum(n.total for n in memory.nodes(Tree())) >= sum(v for k, v in found.items() if k.startswith("node"))


# ------------------------------------------------------------------------------------------- machines that are not here


def test_grace_hopper_counts_each_mapping_in_its_own_pages(tmp_path: Path) -> None:
    tree = tree_of(tmp_path, GRACE_HOPPER)
    assert memory.pages_on_nodes(tree, 50) == {0: (256 + 16) * 64 * KIB + 3 * 512 * MIB, 1: 768 * 64 * KIB}
    read = memory.rollup(tree, 50)
    assert read is not None
    assert (read.resident, read.huge, read.hugetlb) == (65 * MIB, 0, None), "unknown is not zero"


def test_the_nodes_of_grace_hopper(tmp_path: Path) -> None:
    tree = tree_of(tmp_path, GRACE_HOPPER)
    gpu = ProfiledGpu(name="gpu:0", source="NVML", node=1)
    assert [(n.node, n.processors, n.gpu) for n in memory.nodes(tree, [gpu])] == [
        (0, True, ""),
        (1, False, "gpu:0"),
    ]
    assert memory.host_counters(tree, 50) == {"node0_free": 400 * GIB, "node1_free": 90 * GIB}


def test_a_node_without_processors_is_no_gpu_unless_a_driver_says_so(tmp_path: Path) -> None:
    tree = tree_of(tmp_path, {**node(0, GIB, MIB, "0-3"), **node(2, 4 * GIB, GIB, "")})
    gpu = ProfiledGpu(name="gpu:0", source="NVML", node=None)
    assert [(n.node, n.gpu) for n in memory.nodes(tree, [gpu])] == [(0, ""), (2, "")]


def test_the_nodes_of_four_apus_have_processors(tmp_path: Path) -> None:
    gpus = [
        ProfiledGpu(name=f"gpu:{n}", source="x", pci=bus, node=n, shares_host_memory=True) for n, bus in enumerate(APUS)
    ]
    found = memory.nodes(tree_of(tmp_path, MI300A), gpus)
    assert [(n.node, n.processors, n.gpu, n.total) for n in found] == [
        (n, True, f"gpu:{n}", 128 * GIB) for n in range(4)
    ]


def test_three_page_sizes_in_one_file(tmp_path: Path) -> None:
    text = (
        "1000 default anon=2 dirty=2 N0=1 N3=1 kernelpagesize_kB=4\n"
        "2000 bind:0-1 anon=5 dirty=5 N1=5 kernelpagesize_kB=64\n"
        "3000 interleave:0-3 file=/huge\\040N0=x huge dirty=2 N0=1 N1=1 kernelpagesize_kB=2048\n"
        "4000 default heap\n"
    )
    found = memory.pages_on_nodes(tree_of(tmp_path, {"proc/5/numa_maps": text}), 5)
    assert found == {0: 4 * KIB + 2 * MIB, 1: 5 * 64 * KIB + 2 * MIB, 3: 4 * KIB}


def test_pages_of_an_unknown_size_are_not_guessed(tmp_path: Path) -> None:
    assert memory.pages_on_nodes(tree_of(tmp_path, {"proc/5/numa_maps": "1000 default anon=2 N0=2\n"}), 5) is None


SMAPS = b"""\
00400000-00401000 r-xp 00000000 08:01 12                                 /opt/my app/\xff (deleted)
Rss:                   4 kB
VmFlags: rd ex mr mw me
10000000-10200000 rw-p 00000000 00:00 0                                  [anon:field one]
Size:               2048 kB
Rss:                2048 kB
AnonHugePages:      2048 kB
20000000-20001000 rw-p 00000000 00:00 0
Rss:                   4 kB
30000000-30001000 rw-p 00000000 00:00 0
Rss:                   4 kB
40000000-80000000 rw-s 00000000 00:0f 99                                 /anon_hugepage (deleted)
Rss:                   0 kB
Private_Hugetlb:  524288 kB
7ffc0000-7ffc2000 rw-p 00000000 00:00 0                                  [stack]
Rss:
Referenced:
nonsense

"""


def test_names_and_huge_pages_of_mappings(tmp_path: Path) -> None:
    found = memory.mappings(tree_of(tmp_path, {"proc/5/smaps": SMAPS}), 5, most=3)
    assert found is not None
    listed, others = found.rows, found.others
    assert [(m.name, m.count, m.size, m.resident, m.huge) for m in listed] == [
        ("/anon_hugepage (deleted)", 1, GIB, 512 * MIB, 512 * MIB),
        ("[anon:field one]", 1, 2 * MIB, 2 * MIB, 2 * MIB),
        ("anonymous", 4, 2 * 4 * KIB, 2 * 4 * KIB, 0),
    ]
    assert others is not None
    assert (others.name, others.count, others.resident) == ("others", 2, 4 * KIB)


def test_an_empty_tree_has_no_counters(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    assert memory.host_counters(tree, 1) == {}
    assert memory.nodes(tree) == []
    assert memory.rollup(tree, 1) is None
    assert memory.pages_on_nodes(tree, 1) is None
    assert memory.mappings(tree, 1) is None


def test_the_kernels_counters_are_read_as_they_are(tmp_path: Path) -> None:
    files = {
        "proc/vmstat": "nr_free_pages 5\nnuma_pages_migrated 42\nnuma_hint_faults 7\nthp_split_page 3\npswpin x\n",
        "proc/meminfo": "MemAvailable: 8 kB\n",
    }
    assert memory.host_counters(tree_of(tmp_path, files), 1) == {
        "mem_available": 8 * KIB,
        "numa_hint_faults": 7,
        "numa_pages_migrated": 42,
        "thp_split_page": 3,
    }
