"""Names of processors as each architecture prints them, and cores that differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from firsttouch.machine import cores, host
from firsttouch.machine.cores import CPU
from firsttouch.machine.tree import Facts, Tree

MakeTree = Callable[[Mapping[str, "str | bytes"]], Tree]
Files = dict[str, "str | bytes"]


def arm(*parts: str) -> str:
    """/proc/cpuinfo of cores with these implementers and parts."""
    pairs = (part.split() for part in parts)
    return "\n\n".join(
        f"processor\t: {n}\nCPU implementer\t: {maker}\nCPU architecture: 8\nCPU part\t: {part}\nCPU revision\t: 1"
        for n, (maker, part) in enumerate(pairs)
    )


POWER = (
    "processor\t: 0\ncpu\t\t: POWER9, altivec supported\nclock\t: 3450.0MHz\n\ntimebase\t: 512\nmodel\t\t: 8335-GTW\n"
)
Z_OLD = "vendor_id : IBM/S390\n# processors : 1\nprocessor 0: version = 00,  identification = 279F25,  machine = 2817\n"
Z_NEW = "vendor_id : IBM/S390\nfeatures\t: esan3\n\ncpu number : 0\nversion : FF\nmachine : 3931\n"
RISCV = (
    "processor\t: 0\nhart\t\t: 1\nisa\t\t: rv64imafdc\nmvendorid\t: 0x5b7\nmarchid\t\t: 0x80000000\nmimpid\t\t: 0x1\n"
)
HIDDEN = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\nmodel name\t: unknown\n"


@pytest.mark.parametrize(
    ("cpuinfo", "model", "vendor"),
    [
        (POWER, "POWER9", "IBM"),
        (Z_OLD, "IBM/S390 2817", "IBM/S390"),
        (Z_NEW, "IBM/S390 3931", "IBM/S390"),
        (arm("0x41 0xd87", "0x41 0xd85", "0x41 0xd87"), "Cortex-A725 + Cortex-X925", "Arm"),
        (arm("0x48 0xd01"), "Kunpeng 920 (TSV110)", "HiSilicon"),
        (arm("0xc0 0xac3"), "AmpereOne", "Ampere"),
        (arm("0x41 0xfff"), "Arm part 0xfff", "Arm"),
        (arm("0x7f 0x001"), "implementer 0x7f part 0x001", None),
        (arm("0x41 0xfff") + "\n\nModel\t: Raspberry Pi 9\n", "Arm part 0xfff (Raspberry Pi 9)", "Arm"),
        ("processor\t: 0\nmodel name\t: ARMv7 Processor rev 3 (v7l)\nCPU implementer\t: 0x41\nCPU part\t: 0xd08\n",
         "Cortex-A72", "Arm"),
        ("processor\t: 0\nmodel name\t: EPYC 9654\n\nprocessor\t: 1\nmodel name\t: EPYC 9654\n", "EPYC 9654", None),
        ("system type\t: Loongson\nprocessor\t: 0\ncpu model\t: Loongson-3 V0.13\n", "Loongson-3 V0.13", None),
        ("processor\t: 0\nModel Name\t: Loongson-3A5000\n", "Loongson-3A5000", None),
        ("processor\t: 0\nuarch\t\t: sifive,u74-mc\n", "sifive,u74-mc", None),
        (RISCV, "RISC-V vendor 0x5b7 architecture 0x80000000 implementation 0x1", None),
        (HIDDEN, "GenuineIntel family 6 model 143", "GenuineIntel"),
        ("cpu\t: UltraSparc T5 (Niagara5)\nfpu\t\t: UltraSparc T5 integrated FPU\n", "UltraSparc T5 (Niagara5)", None),
        ("no such file", None, None),
    ],
)  # fmt: skip
def test_every_architecture_names_its_processor(
    make_tree: MakeTree, cpuinfo: str, model: str | None, vendor: str | None
) -> None:
    facts = host.cpu(make_tree({"proc/cpuinfo": cpuinfo}), [0])
    assert (facts.get("model"), facts.get("vendor")) == (model, vendor)


@pytest.mark.parametrize(
    ("file", "content"),
    [("proc/device-tree/model", b"A board\0"), ("sys/class/dmi/id/product_name", "A board\n")],
)
def test_a_processor_without_a_name_is_that_of_its_board(make_tree: MakeTree, file: str, content: str | bytes) -> None:
    assert host.cpu(make_tree({file: content}), [0])["model"] == "processor of A board"


@pytest.mark.parametrize(
    ("facts", "name"),
    [
        ({}, "unnamed riscv64 processor (nothing known of it)"),
        ({"cores_online": 4, "l2_bytes": 2**21}, "unnamed riscv64 processor (4 cores online, 2 MiB L2)"),
        ({"l3_bytes": 2**25}, "unnamed riscv64 processor (32 MiB L3)"),
    ],
)
def test_what_is_known_tells_processors_without_a_name_apart(facts: Facts, name: str) -> None:
    assert cores.unnamed(facts, "riscv64") == name


def of_each(name: str, *values: str) -> Files:
    """A file of each core."""
    return {f"{CPU}/cpu{n}/{name}": value for n, value in enumerate(values) if value}


def l2(*sizes: str) -> Files:
    alike: Files = dict.fromkeys((f"{CPU}/cpu{n}/cache/index2/level" for n in range(len(sizes))), "2")
    return alike | of_each("cache/index2/size", *sizes)


def l3(*sizes: str) -> Files:
    alike: Files = dict.fromkeys((f"{CPU}/cpu{n}/cache/index3/level" for n in range(len(sizes))), "3")
    return alike | of_each("cache/index3/size", *sizes)


@pytest.mark.parametrize(
    ("files", "kinds"),
    [
        ({"sys/devices/cpu_core/cpus": "0-1", "sys/devices/cpu_atom/cpus": "2-3"}, "0-1: P; 2-3: E"),
        ({"sys/devices/armv8_cortex_a53/cpus": "0,2", "sys/devices/armv8_cortex_a72/cpus": "1,3"},
         "0,2: armv8_cortex_a53; 1,3: armv8_cortex_a72"),
        ({"proc/cpuinfo": arm("0x41 0xd87", "0x41 0xd85", "0x41 0xd85", "0x41 0xd87"),
          **of_each("cpufreq/cpuinfo_max_freq", "2808000", "3900000", "4004000", "2808000")},
         "0,3: Cortex-A725, up to 2.808 GHz; 1-2: Cortex-X925, up to 4.004 GHz"),
        (of_each("cpu_capacity", "381", "381", "1024", "1000"), "0-1: capacity 381; 2-3: capacity 1024"),
        (l2("1280K", "1280K", "2048K", "2048K"), "0-1: 1.25 MiB L2; 2-3: 2 MiB L2"),
        (l3("98304K", "98304K", "32768K", "32768K"), "0-1: 96 MiB L3; 2-3: 32 MiB L3"),
        (of_each("cpufreq/cpuinfo_max_freq", "5100000", "5100000", "3300000", "3300000"),
         "0-1: up to 5.1 GHz; 2-3: up to 3.3 GHz"),
        # What follows are cores that are alike, as far as is known.
        ({"proc/cpuinfo": arm(*["0x41 0xd4f"] * 4)}, None),
        (of_each("cpufreq/cpuinfo_max_freq", "5800000", "5800000", "5500000", "5500000"), None),
        (of_each("cpu_capacity", "1024", "1009", "1009", "1024"), None),
        (l2("1280K", "1280K", "1280K", ""), None),
        (of_each("cpu_capacity", "1024", "381"), None),
        ({"sys/devices/cpu_core/cpus": "0-3"}, None),
        ({"sys/devices/cpu_core/cpus": "garbage", "sys/devices/cpu_atom/cpus": "2-3"}, None),
        ({}, None),
    ],
)  # fmt: skip
def test_cores_that_differ_are_told(make_tree: MakeTree, files: Files, kinds: str | None) -> None:
    assert host.cpu(make_tree(files), [0, 1, 2, 3]).get("core_kinds") == kinds


def test_only_usable_cores_are_compared(make_tree: MakeTree) -> None:
    tree = make_tree({"sys/devices/cpu_core/cpus": "0-1", "sys/devices/cpu_atom/cpus": "2-3"})
    assert "core_kinds" not in host.cpu(tree, [2, 3])


@pytest.mark.parametrize(
    ("listed", "there", "usable", "online"),
    [
        ("0-3", 4, [0, 1, 2, 3], 4),
        ("0-1", 8, [6, 7], None),
        ("0", 2, [1], None),
        ("0-255", 2, [1], 2),
        ("0-3", 0, [1], 4),
        ("odd", 2, [1], None),
    ],
)
def test_a_containers_list_of_cores_is_not_taken_for_the_machines(
    make_tree: MakeTree, listed: str, there: int, usable: list[int], online: int | None
) -> None:
    packages = of_each("topology/physical_package_id", *["0"] * there)
    facts = host.cpu(make_tree({f"{CPU}/online": listed, **packages}), usable)
    assert facts.get("cores_online") == online
    assert facts.get("sockets") == (1 if there else None)
