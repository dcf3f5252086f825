"""What the processors of the host are called, and which of their cores are alike.

Sources: arch/*/kernel of Linux, which prints /proc/cpuinfo in another form on each architecture;
arch/arm64/include/asm/cputype.h; Documentation/ABI/testing/sysfs-devices-system-cpu.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from firsttouch.base.units import format_size
from firsttouch.machine.tree import Tree, format_ids, parse_ids, parse_int, parse_kernel_size
from firsttouch.records.schema import Scalar, as_number

CPU = "sys/devices/system/cpu"
Fields = Mapping[str, str]

_IMPLEMENTERS = {
    "0x41": "Arm",
    "0x42": "Broadcom",
    "0x43": "Cavium",
    "0x46": "Fujitsu",
    "0x48": "HiSilicon",
    "0x4e": "NVIDIA",
    "0x50": "Applied Micro",
    "0x51": "Qualcomm",
    "0x56": "Marvell",
    "0x61": "Apple",
    "0x69": "Intel",
    "0x6d": "Microsoft",
    "0x70": "Phytium",
    "0xc0": "Ampere",
}
_PARTS = {
    ("0x41", "0xd03"): "Cortex-A53",
    ("0x41", "0xd04"): "Cortex-A35",
    ("0x41", "0xd05"): "Cortex-A55",
    ("0x41", "0xd07"): "Cortex-A57",
    ("0x41", "0xd08"): "Cortex-A72",
    ("0x41", "0xd09"): "Cortex-A73",
    ("0x41", "0xd0a"): "Cortex-A75",
    ("0x41", "0xd0b"): "Cortex-A76",
    ("0x41", "0xd0c"): "Neoverse N1",
    ("0x41", "0xd0d"): "Cortex-A77",
    ("0x41", "0xd40"): "Neoverse V1",
    ("0x41", "0xd41"): "Cortex-A78",
    ("0x41", "0xd42"): "Cortex-A78AE",
    ("0x41", "0xd44"): "Cortex-X1",
    ("0x41", "0xd46"): "Cortex-A510",
    ("0x41", "0xd47"): "Cortex-A710",
    ("0x41", "0xd48"): "Cortex-X2",
    ("0x41", "0xd49"): "Neoverse N2",
    ("0x41", "0xd4d"): "Cortex-A715",
    ("0x41", "0xd4e"): "Cortex-X3",
    ("0x41", "0xd4f"): "Neoverse V2",
    ("0x41", "0xd80"): "Cortex-A520",
    ("0x41", "0xd81"): "Cortex-A720",
    ("0x41", "0xd82"): "Cortex-X4",
    ("0x41", "0xd83"): "Neoverse V3AE",
    ("0x41", "0xd84"): "Neoverse V3",
    ("0x41", "0xd85"): "Cortex-X925",
    ("0x41", "0xd87"): "Cortex-A725",
    ("0x41", "0xd8e"): "Neoverse N3",
    ("0x43", "0x0a1"): "ThunderX",
    ("0x43", "0x0af"): "ThunderX2",
    ("0x46", "0x001"): "A64FX",
    ("0x48", "0xd01"): "Kunpeng 920 (TSV110)",
    ("0x48", "0xd02"): "Kunpeng 920B (HIP09)",
    ("0x4e", "0x003"): "Denver",
    ("0x4e", "0x004"): "Carmel",
    ("0x4e", "0x010"): "Olympus",
    ("0x51", "0x001"): "Oryon",
    ("0x61", "0x022"): "Apple M1 Icestorm",
    ("0x61", "0x023"): "Apple M1 Firestorm",
    ("0x61", "0x032"): "Apple M2 Blizzard",
    ("0x61", "0x033"): "Apple M2 Avalanche",
    ("0x6d", "0xd49"): "Azure Cobalt 100",
    ("0xc0", "0xac3"): "AmpereOne",
    ("0xc0", "0xac4"): "AmpereOne A",
}
"""CPU parts by implementer, as cputype.h names them."""
_NO_NAMES = re.compile(r"unknown|ARMv\d+ Processor.*|AArch64 Processor.*|", re.IGNORECASE)
"""Model names that every processor of an architecture may have, and gVisor's."""
_NAMES = ("model name", "Model Name", "cpu model", "cpu", "uarch")
"""The field with a processor's name: of x86, LoongArch, MIPS, POWER and SPARC, RISC-V."""
_NUMBERS = (
    (("mvendorid", "marchid", "mimpid"), "RISC-V vendor {} architecture {} implementation {}"),
    (("vendor_id", "cpu family", "model"), "{} family {} model {}"),
)
_PART = "part"
_MACHINE = re.compile(r"\bmachine\s*[=:]\s*(\w+)")
_BOARDS = ("proc/device-tree/model", "sys/firmware/devicetree/base/model", "sys/class/dmi/id/product_name")
_ALIKE = 0.85
"""Cores with at least this part of the clock, or capacity, of others are like them: some of one kind may be clocked
higher.
"""
_KINDS = {"cpu_core": "P", "cpu_atom": "E", "cpu_lowpower": "low-power E"}
"""Intel's kinds of cores by the units that count their events."""
_ARM_UNIT = re.compile(r"(armv\d|apple)_\w+")


def cpuinfo(tree: Tree) -> list[dict[str, str]]:
    """The blocks of /proc/cpuinfo: one for each processor, on some architectures one of the machine."""
    blocks: list[dict[str, str]] = [{}]
    for line in tree.stream("proc/cpuinfo") or ():
        field, colon, value = line.decode(errors="replace").partition(":")
        if colon:
            blocks[-1].setdefault(field.strip(), value.strip())
        elif blocks[-1]:
            blocks.append({})
    return [block for block in blocks if block]


def first_fields(blocks: Sequence[Fields]) -> dict[str, str]:
    """Each field as its first block has it."""
    fields: dict[str, str] = {}
    for block in blocks:
        fields = {**block, **fields}
    return fields


def vendor(fields: Fields) -> str | None:
    power = "IBM" if fields.get("cpu", "").startswith("POWER") else None
    return fields.get("vendor_id") or _IMPLEMENTERS.get(fields.get("CPU implementer", "")) or power


def model(tree: Tree, blocks: Sequence[Fields]) -> str | None:
    """What tells the processors of this machine from others: their names, else their numbers and the machine's name.

    Kinds of cores that differ are joined. None if nothing is known.
    """
    names = list(dict.fromkeys(name for block in blocks if (name := core_name(block))))
    if names and not any(map(_is_number, names)):
        return " + ".join(names)
    fields = first_fields(blocks)
    numbers = " + ".join(names) or _numbers(fields)
    board = fields.get("Model") or next((text.rstrip("\0") for file in _BOARDS if (text := tree.text(file))), None)
    if numbers and board:
        return f"{numbers} ({board})"
    return numbers or (f"processor of {board}" if board else None)


def unnamed(facts: Mapping[str, Scalar], architecture: str) -> str:
    """What distinguishes a processor of which only `facts` are known, those of host.cpu."""
    sizes = [
        f"{format_size(int(size))} {level.upper()}"
        for level in ("l2", "l3")
        if (size := as_number(facts.get(f"{level}_bytes")))
    ]
    cores = f"{facts['cores_online']} cores online" if "cores_online" in facts else ""
    return f"unnamed {architecture} processor ({', '.join(filter(None, [cores, *sizes])) or 'nothing known of it'})"


def core_name(block: Fields) -> str | None:
    """The name of one processor, or the number of its part, from its own block."""
    for field in _NAMES:
        name = block.get(field, "")
        if not _NO_NAMES.fullmatch(name):
            return name.partition(",")[0] if field == "cpu" else name
    implementer, part = block.get("CPU implementer"), block.get("CPU part")
    if implementer is None or part is None:
        return None
    return (
        _PARTS.get((implementer, part))
        or f"{_IMPLEMENTERS.get(implementer, f'implementer {implementer}')} {_PART} {part}"
    )


def _is_number(name: str) -> bool:
    return f" {_PART} " in name


def _numbers(fields: Fields) -> str | None:
    """What tells a processor without a name: its numbers on x86 and RISC-V, or its type of machine on IBM Z."""
    for names, text in _NUMBERS:
        if all(fields.get(name) for name in names):
            return text.format(*(fields[name] for name in names))
    matches = (_MACHINE.search(f"{name}: {value}") for name, value in fields.items())
    number = next((match[1] for match in matches if match), None)
    return f"{fields.get('vendor_id', 'machine')} {number}" if number else None


def online(tree: Tree, usable: Sequence[int]) -> list[int]:
    """The cores that are on; empty if that is not known.

    A container's list may number as many as it may use from 0 on, or be of another machine (lxcfs).
    """
    listed = parse_ids(tree.text(f"{CPU}/online"))
    if not {*usable} <= {*listed}:
        return []
    return [core for core in listed if tree.exists(f"{CPU}/cpu{core}")] or listed


class Cache(NamedTuple):
    """A cache of a core. name: l1, l1i, l2, ... shared: the cores that share it."""

    name: str
    size: int
    shared: str
    line: int


def caches(tree: Tree, core: int) -> list[Cache]:
    of_core = []
    for index in tree.names(f"{CPU}/cpu{core}/cache"):
        folder = f"{CPU}/cpu{core}/cache/{index}"
        level, size = tree.integer(f"{folder}/level"), parse_kernel_size(tree.text(f"{folder}/size"))
        if level is None or size is None or not 1 <= level <= 4:
            continue
        name = f"l{level}i" if tree.text(f"{folder}/type") == "Instruction" else f"l{level}"
        shared = tree.text(f"{folder}/shared_cpu_list") or str(core)
        of_core.append(Cache(name, size, shared, tree.integer(f"{folder}/coherency_line_size") or 0))
    return of_core


def kinds(
    tree: Tree, blocks: Sequence[Fields], usable: Sequence[int], of_cores: Sequence[Sequence[Cache]]
) -> str | None:
    """The kinds of usable cores in words, such as "0-3: P, 1.25 MiB L2; 4-7: E, 2 MiB L2"; None where they are alike.

    of_cores: the caches of each core. A trait that is not known of every core tells none apart.
    """
    traits = [
        _units(tree, usable),
        _named_cores(blocks, usable),
        *(_sizes(level, of_cores) for level in ("l1", "l2", "l3")),
        _steps([tree.integer(f"{CPU}/cpu{n}/cpu_capacity") for n in usable], "capacity {}"),
        _steps([tree.integer(f"{CPU}/cpu{n}/cpufreq/cpuinfo_max_freq") for n in usable], "up to {:.4g} GHz", 1e6),
    ]
    telling = [values for values in traits if None not in values and len({*values}) > 1]
    groups: dict[tuple[str | None, ...], list[int]] = {}
    for at, core in enumerate(usable):
        groups.setdefault(tuple(values[at] for values in telling), []).append(core)
    if len(groups) < 2:
        return None
    return "; ".join(f"{format_ids(cores)}: {', '.join(map(str, words))}" for words, cores in groups.items())


def _units(tree: Tree, usable: Sequence[int]) -> list[str | None]:
    """The unit that counts each core's events, which Linux has one of for each kind."""
    unit_of_core: dict[int, str] = {}
    for unit in tree.names("sys/devices"):
        if unit in _KINDS or _ARM_UNIT.fullmatch(unit):
            unit_of_core |= dict.fromkeys(parse_ids(tree.text(f"sys/devices/{unit}/cpus")), _KINDS.get(unit, unit))
    return [unit_of_core.get(core) for core in usable]


def _named_cores(blocks: Sequence[Fields], usable: Sequence[int]) -> list[str | None]:
    names = {parse_int(block.get("processor")): core_name(block) for block in blocks}
    return [names.get(core) for core in usable]


def _sizes(name: str, of_cores: Sequence[Sequence[Cache]]) -> list[str | None]:
    sizes = [sum(cache.size for cache in of_core if cache.name == name) for of_core in of_cores]
    return [
        f"{format_size(size)} {name.upper()}" if of_core else None
        for size, of_core in zip(sizes, of_cores, strict=True)
    ]


def _steps(values: Sequence[int | None], text: str, unit: float = 1) -> list[str | None]:
    """The words for each value, by the largest of those that are alike."""
    tops: list[int] = []
    for value in sorted({value for value in values if value}, reverse=True):
        if not tops or value < _ALIKE * tops[-1]:
            tops.append(value)
    chosen_tops = [next((top for top in tops[::-1] if value and value <= top), None) for value in values]
    return [None if top is None else text.format(top / unit if unit != 1 else top) for top in chosen_tops]
