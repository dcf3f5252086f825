"""firsttouch machine: prints the facts about this machine."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import TYPE_CHECKING

from firsttouch.base.units import format_number, format_size
from firsttouch.cli.declaration import declare

if TYPE_CHECKING:
    from firsttouch.base.outputs import Output
    from firsttouch.cli.console import Console
    from firsttouch.records.schema import DeviceInfo, Library, Machine, Peer, Scalar

_CACHE_KEYS = ("l1", "l2", "l3", "l4", "infinity_cache", "line_bytes")
_UVM_KEYS = ("uvm_disable_hmm", "uvm_perf_prefetch_enable", "uvm_perf_thrashing_enable", "uvm_perf_access_counter")
_UNITS = {"_mhz": "MHz", "_w": "W", "_percent": "%", "_cores": "cores", "_c": "°C"}
_AMD_GPU, _OF_GPU, _PAIR = (re.compile(p) for p in (r"amd_gpu\d+", r"gpu(\d+)_(?!gpu\d)(.+)", r"gpu\d+_gpu\d+"))
_SIZE = re.compile(r"(.* )([0-9]+[KMGT]iB)")
_WORDS: dict[Scalar, str] = {True: "yes", False: "no", None: "unknown"}

_SECTIONS: Sequence[tuple[str, str]] = (
    ("CPU", "cpu"),
    ("Caches", "cpu"),
    ("Memory", "memory"),
    ("NUMA", "numa"),
    ("Huge pages", "huge_pages"),
    ("Kernel", "kernel"),
    ("Limits", "limits"),
    ("Environment", "environment"),
    ("Software", "software"),
    ("NVIDIA driver", "nvidia"),
    ("NVIDIA unified memory", "nvidia_uvm"),
    ("AMD driver", "amd"),
    ("AMD GPUs (kernel)", "amd_kfd"),
    ("GPU links (NVML)", "links"),
)
"""Heading and topic, in the order of printing. GPUs, devices and libraries follow."""


@dataclass(frozen=True)
class DescribedMachine:
    machine: Machine

    def output(self) -> Output:
        from firsttouch.cli.schemas import MachineOutput
        from firsttouch.report.first_screen import hardware

        machine = self.machine
        usable = [device.name for device in machine.devices if device.available]
        return MachineOutput(
            firsttouch=machine.firsttouch,
            summary=f"{machine.host}: {hardware(machine)}; devices: {', '.join(usable) or 'none'}.",
            host=machine.host,
            created=machine.created,
            facts=machine.facts,
            devices=machine.devices,
            libraries=machine.libraries,
            warnings=machine.warnings,
        )


@declare(
    "machine",
    "What this machine is, and what distorts measurements on it.",
    {"machine": "cli.schemas:MachineOutput"},
    function="describe_machine",
    indent=2,
)
def command() -> DescribedMachine:
    """Show what this machine is: CPU, caches, NUMA, huge pages, GPUs, links, drivers, libraries and limits.

    Example: firsttouch machine --json
    """
    from firsttouch.engine.discover import discover_devices
    from firsttouch.machine.facts import collect_machine

    return DescribedMachine(collect_machine(discover_devices()))


@command.shown
def _show_found(found: DescribedMachine) -> None:
    _show(found.machine)


def _show(machine: Machine) -> None:
    from firsttouch.cli.console import Console
    from firsttouch.machine.backends import names_together
    from firsttouch.machine.nvidia import gpu_topics
    from firsttouch.machine.tree import format_ids

    console = Console()
    console.print(f"{machine.host}, {machine.created}, firsttouch {machine.firsttouch}")
    _section(console, "Warnings", [("!", warning) for warning in machine.warnings])
    for heading, topic in _SECTIONS:
        _section(console, heading, _rows(heading, machine.facts.get(topic, {})))
    amd = sorted((t for t in machine.facts if _AMD_GPU.fullmatch(t)), key=lambda t: int(t.removeprefix("amd_gpu")))
    for source, topics in (("NVML", gpu_topics(machine.facts)), ("AMD SMI", amd)):
        if topics:
            of_gpus = {int(topic.rpartition("gpu")[2]): machine.facts[topic] for topic in topics}
            name = topics[0].removesuffix(str(min(of_gpus)))
            _section(console, f"{name}{format_ids(of_gpus)} ({source})", _rows_of_gpus(of_gpus))
    _partitions(console, machine)
    rows = _join_rows(map(_device_row, machine.devices), names_together) if machine.devices else [("none", "")]
    _section(console, "Devices", rows)
    _links(console, machine)
    _section(console, "Libraries", _join_rows(map(_library_row, machine.libraries)))
    _section(console, "Layers of firsttouch profile", _without_repeated_names(_profile_rows(machine)))


def _profile_rows(machine: Machine) -> Iterator[tuple[str, str]]:
    """What a profile sees here, and what to type for what it lacks. Why a library is missing is said above."""
    from firsttouch.profile.sources import of_this_machine

    missing = {library.reason: library.name for library in reversed(machine.libraries) if library.reason}
    for row in of_this_machine():
        texts = [*([] if row.state.active else ["no"]), *row.texts]
        for reason, name in missing.items():
            texts = [text.replace(reason, f"see the library {name}") for text in texts]
        yield row.state.layer, ": ".join(texts) if not row.state.active and len(texts) == 2 else "\n".join(texts)


def _join_rows(
    rows: Iterable[tuple[str, str]], joined: Callable[[Sequence[str]], str] = ", ".join
) -> list[tuple[str, str]]:
    """The rows, those of one text as one."""
    names: dict[str, list[str]] = {}
    for name, text in rows:
        names.setdefault(text, []).append(name)
    return [(joined(list(dict.fromkeys(some))), text) for text, some in names.items()]


def _rows_of_gpus(of_gpus: Mapping[int, dict[str, Scalar]]) -> list[tuple[str, str]]:
    """One row for each fact, with the value of all GPUs, or with those of each where they differ."""
    from firsttouch.machine.tree import format_ids

    rows = []
    for key in dict.fromkeys(key for facts in of_gpus.values() for key in facts):
        label, having = "", dict[str, list[int]]()
        for number, facts in of_gpus.items():
            if key in facts:
                label, text = _row(key, facts[key], plain=False)
                having.setdefault(text, []).append(number)
        (first, numbers), *other_values = having.items()
        alike = not other_values and len(numbers) == len(of_gpus)
        rows.append((label, first if alike else "\n".join(f"gpu{format_ids(n)}: {t}" for t, n in having.items())))
    return rows


def _without_repeated_names(rows: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    before = ""
    for name, text in rows:
        yield "" if name == before else name, text
        before = name


def _join_page_sizes(rows: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The rows, adjacent ones that state the same of several page sizes as one: 'thp 16KiB to 1MiB'."""
    joined: list[tuple[str, str]] = []
    for number, (label, text) in enumerate(rows):
        match, size = _SIZE.fullmatch(label), _SIZE.fullmatch(rows[number - 1][0]) if number else None
        if match and size and match[1] == size[1] and text == rows[number - 1][1]:
            first = joined.pop()[0].partition(" to ")[0]
            joined.append((f"{first} to {match[2]}", text))
        else:
            joined.append((label, text))
    return joined


def _rows(heading: str, facts: dict[str, Scalar]) -> list[tuple[str, str]]:
    """A topic's facts in words. The cache facts of the topic 'cpu' have a separate section. Of the driver's
    unified-memory parameters, only those that affect migration are shown; --json has all of them.
    """
    from firsttouch.machine.tree import format_ids

    shown: dict[str, Callable[[str], bool]] = {
        "CPU": lambda key: not key.startswith(_CACHE_KEYS),
        "Caches": lambda key: key.startswith(_CACHE_KEYS),
        "NVIDIA unified memory": lambda key: key.startswith(_UVM_KEYS),
    }
    is_shown: Callable[[str], bool] = shown.get(heading, lambda key: True)
    of_gpus: dict[int, dict[str, Scalar]] = {}
    for key in facts:
        if match := _OF_GPU.fullmatch(key):
            of_gpus.setdefault(int(match[1]), {})[match[2]] = facts[key]
    if len(of_gpus) > 2:  # one row for each of two GPUs is shorter
        pairs = _join_rows((pair.replace("_", " "), str(facts[pair])) for pair in facts if _PAIR.fullmatch(pair))
        every = [(f"all {len(of_gpus)} GPUs in pairs", pairs[0][1])] if len(pairs) == 1 else pairs
        return [("GPUs", f"gpu{format_ids(of_gpus)}"), *_rows_of_gpus(of_gpus), *every]
    rows = [_row(key, value, plain=heading == "Environment") for key, value in facts.items() if is_shown(key)]
    return _join_page_sizes(rows)


def _row(key: str, value: Scalar, plain: bool) -> tuple[str, str]:
    if plain:
        return key, str(value)
    unit = next((suffix for suffix in ("_bytes", *_UNITS) if key.endswith(suffix)), "")
    label = key.removesuffix(unit).replace("_", " ")
    if value is None or isinstance(value, (str, bool)):
        return label, _WORDS.get(value, str(value))
    if unit == "_bytes":
        return label, format_size(value)
    return label, f"{value:.10g} {_UNITS.get(unit, '')}".rstrip()


def _device_row(device: DeviceInfo) -> tuple[str, str]:
    usable = [allocator.name for allocator in device.allocators if allocator.available]
    state = f"allocators: {', '.join(usable)}" if device.available else f"not available: {device.reason}"
    xnack = f"XNACK: {device.facts['xnack']}" if "xnack" in device.facts else ""
    lines = [device.title if device.title != device.name else "", xnack, state]
    return device.name, "\n".join(filter(None, lines))


_PARTITION_COLUMNS = ("GPU", "number", "name", "mode", "memory", "multiprocessors", "memory shared by", "device")


def _partitions(console: Console, machine: Machine) -> None:
    """The partitions of GPUs, with the devices of those that a process opens. What they share is a warning."""
    from firsttouch.machine.partitions import topics_of

    names = {(d.facts.get("pci_bus"), d.facts["partition"]): d.name for d in machine.devices if "partition" in d.facts}
    rows = [_partition_row(facts, names.get((facts.get("gpu"), facts.get("number")), "")) for facts in
            topics_of(machine.facts)]  # fmt: skip
    _table(console, "Partitions of GPUs", "", _PARTITION_COLUMNS, rows)


def _partition_row(facts: dict[str, Scalar], device: str) -> Sequence[str]:
    memory, number, sharing = (facts.get(name) for name in ("memory_bytes", "number", "memory_shared_by"))
    return (
        str(facts.get("gpu", _UNKNOWN)),
        str(number + 1) if isinstance(number, int) else _UNKNOWN,
        str(facts.get("name") or facts.get("uuid") or ""),
        str(facts.get("mode", _UNKNOWN)),
        format_size(memory) if isinstance(memory, int) else _UNKNOWN,
        str(facts.get("multiprocessors", _UNKNOWN)),
        _UNKNOWN if sharing is None else "no other" if sharing == 1 else f"{sharing} partitions",
        device or f"not offered: {facts['uuid']}" if facts.get("uuid") else device or _UNKNOWN,
    )


_LINK_COLUMNS = ("from", "to", "link", "hops", "access", "GB/s out", "GB/s in", "source")
_ACCESS = {"direct": "direct", "copies": "by copies", "none": "none"}
_UNKNOWN = "unknown"


def _links(console: Console, machine: Machine) -> None:
    """The pairs of devices with the same driver and of NUMA nodes, and why kernels do not reach across."""
    pairs = [(d, peer) for d in machine.devices if d.capabilities.runs_kernels for peer in d.peers]
    rows = [_link_row(d, peer) for d, peer in pairs if peer.same_driver]
    rows = _join_pairs(rows) + _node_rows(machine.facts.get("numa", {}))
    if not rows:
        return
    _table(
        console, "Links", "GB/s out and in: the stated peak each way, seen from the first column", _LINK_COLUMNS, rows
    )
    reasons = [f"{_ACCESS[peer.access]}: {peer.reason}" for _, peer in pairs if peer.same_driver and peer.reason]
    for reason in dict.fromkeys(reasons):
        console.print(reason)
    if any(not peer.same_driver for _, peer in pairs):
        console.print("devices of different drivers share data only through the host")


def _table(console: Console, heading: str, remark: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.table import Table

    if not rows:
        return
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*row)
    console.print()
    console.print(heading, style="bold")
    if remark:
        console.print(remark)
    console.print(table)


def _link_row(device: DeviceInfo, peer: Peer) -> Sequence[str]:
    return (
        device.name,
        peer.name,
        peer.link or _UNKNOWN,
        _UNKNOWN if peer.hops is None else str(peer.hops),
        _ACCESS[peer.access],
        _gbs(peer.peak_out_gbs),
        _gbs(peer.peak_in_gbs),
        peer.peak_source,
    )


def _join_pairs(rows: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    """The rows of pairs, those of all pairs of three devices or more as one if they state the same."""
    from firsttouch.machine.backends import names_together

    alike: dict[tuple[str, ...], list[tuple[str, str]]] = {}
    for first, second, *stated in rows:
        alike.setdefault(tuple(stated), []).append((first, second))
    joined: list[Sequence[str]] = []
    for stated_facts, pairs in alike.items():
        names = list(dict.fromkeys(first for first, _ in pairs))
        if len(names) > 2 and set(pairs) == set(permutations(names, 2)):
            joined.append((names_together(names), "each other", *stated_facts))
        else:
            joined += [(*pair, *stated_facts) for pair in pairs]
    return joined


def _gbs(value: float | None) -> str:
    return _UNKNOWN if value is None else format_number(value, 6)


def _node_rows(facts: dict[str, Scalar]) -> list[Sequence[str]]:
    """The pairs of a NUMA node with cores and one with memory, with the distance that the firmware states."""
    nodes = sorted(int(key[4:-10]) for key in facts if key.endswith("_distances"))
    stated = (_UNKNOWN, _ACCESS["direct"], _UNKNOWN, _UNKNOWN, "")
    rows: list[Sequence[str]] = []
    for near in nodes:
        distances = dict(zip(nodes, str(facts[f"node{near}_distances"]).split(), strict=False))
        rows += [
            (f"node{near}", f"node{far}", f"distance {distances.get(far, _UNKNOWN)}", *stated)
            for far in nodes
            if far != near and facts.get(f"node{near}_cpus") and facts.get(f"node{far}_total_bytes")
        ]
    return rows


def _library_row(library: Library) -> tuple[str, str]:
    version = f" (version {library.version})" if library.version else ""
    return library.name, f"{library.path}{version}" if library.path else library.reason


def _section(console: Console, heading: str, rows: Iterable[tuple[str, str]]) -> None:
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    table.add_column(min_width=22, overflow="fold")
    table.add_column(overflow="fold")
    for row in rows:
        table.add_row(*row)
    if table.row_count:
        console.print()
        console.print(heading, style="bold")
        console.print(table)
