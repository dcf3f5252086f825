"""The records that are stored and exchanged, schema firsttouch/2.N. docs/records.md describes each field.

Result files from others are treated as untrusted: nothing in them is executed, and what does not fit is refused. A
minor version N only adds fields. What a newer N added is kept and written back; what is unknown otherwise is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, TypeAlias, get_args

import msgspec

MAJOR, MINOR = 2, 0
SCHEMA = f"firsttouch/{MAJOR}.{MINOR}"
LARGEST = 1e100
"""No number in a record is larger, so that no sum or product of a few of them overflows."""
LARGEST_INTEGER = 2**64 - 1
LONGEST_TIMEOUT = 1e6
"""Seconds, 11 days."""

Number: TypeAlias = Annotated[float, msgspec.Meta(ge=-LARGEST, le=LARGEST)]
Integer: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Scalar: TypeAlias = str | int | Number | bool | None
Seed: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Timeout: TypeAlias = Annotated[float, msgspec.Meta(gt=0, le=LONGEST_TIMEOUT)]
Status: TypeAlias = Literal["ok", "skipped", "failed", "timeout", "crashed"]
Kind: TypeAlias = Literal["run", "app"]
Access: TypeAlias = Literal["direct", "mapped", "none"]
PEER, SELF = "peer", "self"
"""The factor that names another device, and its value for the device that acts."""
PeerAccess: TypeAlias = Literal["direct", "copies", "none"]
TimeClass: TypeAlias = Literal["host", "host-kernels", "gpu"]


class Factors(dict[str, Scalar]):
    """The factors of a point by name. The methods give a value as the type that it must have.

    They raise KeyError where there is no such factor, and TypeError where its value is of another type.
    """

    def text(self, name: str) -> str:
        """A value of kind "choice"."""
        value = self[name]
        if not isinstance(value, str):
            raise TypeError(f"{name} is {value!r}, not a word")
        return value

    def count(self, name: str) -> int:
        """A whole number."""
        value = self[name]
        if not isinstance(value, int):
            raise TypeError(f"{name} is {value!r}, not a whole number")
        return value

    def size(self, name: str) -> int:
        """Bytes."""
        return self.count(name)

    def number(self, name: str) -> float:
        value = self[name]
        if not isinstance(value, (int, float)):
            raise TypeError(f"{name} is {value!r}, not a number")
        return float(value)

    def __or__(self, other: Mapping[str, Scalar]) -> Factors:  # type: ignore[override]
        return Factors({**self, **other})


Better: TypeAlias = Literal["lower", "higher", "neither"]
"""Which of two values is the better one."""


class Struct(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Base of all that is exchanged with workers: keyword fields, unknown ones refused."""


class Stored(Struct, dict=True):
    """Base of all that is stored in files, which may hold fields of a newer minor version of the schema."""

    @property
    def unknown(self) -> dict[str, Any]:
        """The fields of a newer minor version that stood beside the known ones."""
        found: dict[str, Any] = self.__dict__.get("_unknown", {})
        return found

    def keep_unknown(self, fields: dict[str, Any]) -> None:
        """Have `fields` written back with the known ones."""
        self.__dict__["_unknown"] = fields


def plain(value: Any) -> Any:
    """A record, or a list of them, as what a file is to hold: dicts, with the unknown fields, of valid Unicode."""
    if isinstance(value, Stored):
        return {name: plain(getattr(value, name)) for name in value.__struct_fields__} | value.unknown
    if isinstance(value, str) and not value.isascii():
        return value.encode(errors="backslashreplace").decode()  # names of files need not be valid Unicode
    return [plain(one) for one in value] if isinstance(value, list) else value


def encode(document: Stored) -> bytes:
    """The JSON of a record, in one line."""
    return msgspec.json.encode(plain(document))


def check_integers(values: Iterable[Scalar]) -> None:
    """Raises ValueError where an integer does not fit into 64 bits."""
    for value in values:
        if isinstance(value, int) and not -(2**63) <= value <= LARGEST_INTEGER:
            raise ValueError("an integer is below -2^63 or above 2^64 - 1")


class Metric(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the samples of an experiment mean. version: of their definition, raised whenever the same machine would give
    other values under the new one, so that values of two versions are never compared.
    """

    unit: str
    better: Better
    version: int = 1

    def __post_init__(self) -> None:
        if not (isinstance(self.unit, str) and isinstance(self.version, int) and self.better in get_args(Better)):
            raise ValueError(f"{self!r:.80} is no metric: unit is a text, better one of {', '.join(get_args(Better))}")


def comparable(a: Record, b: Record) -> bool:
    """Whether the values of two records mean the same: one experiment, one unit, one version of the definition."""
    return (a.experiment, a.unit, a.metric_version) == (b.experiment, b.unit, b.metric_version)


class Summary(Stored):
    """Of one point's samples, in the record's unit. ci_low and ci_high bound the median at 95 %."""

    n: Integer
    median: Number
    p5: Number
    p95: Number
    min: Number
    max: Number
    ci_low: Number
    ci_high: Number


class Clocks(Stored):
    """A device's clocks at one moment. Absent where the vendor offers none; throttle lists active reasons."""

    core_mhz: Number | None = None
    memory_mhz: Number | None = None
    temperature_c: Number | None = None
    power_w: Number | None = None
    throttle: list[str] = []


class BufferFact(Stored):
    """Where one buffer of a point really was. numa_node and page_bytes only for host-resident pages."""

    name: str
    allocator: str
    bytes: Integer
    numa_node: Integer | None = None
    page_bytes: Integer | None = None


class Party(Stored):
    """Who took part in a point: a device, or the rank of a process with it. processors as in "0-3,8"."""

    device: str
    rank: Integer = 0
    host: str = ""
    numa_node: Integer | None = None
    processors: str = ""


class Record(Stored):
    """One measured, skipped or failed point: one line of results.jsonl.

    parties: everyone who took part; empty where that was `device` alone. stated_by: on whose word the point was
    possible, where that was not the driver's.
    """

    schema: str
    experiment: str
    device: str
    factors: dict[str, Scalar]
    unit: str
    status: Status
    better: Better = "neither"
    metric_version: Integer = 1
    parties: list[Party] = []
    stated_by: str = ""
    samples: list[Number] = []
    summary: Summary | None = None
    verified: bool | None = None
    verified_why: str = ""
    reason: str = ""
    stopped_by: str = ""
    preset: str = ""
    seed: Seed = 0
    started: str = ""
    seconds: Number = 0.0
    counters: dict[str, Scalar] = {}
    buffers: list[BufferFact] = []
    clocks_before: Clocks | None = None
    clocks_after: Clocks | None = None
    throttled: bool | None = None

    def __post_init__(self) -> None:
        check_integers((*self.factors.values(), *self.counters.values()))

    def text(self, factor: str) -> str:
        """The factor's value, which is a word; TypeError where it is not."""
        return Factors(self.factors).text(factor)

    def count(self, factor: str) -> int:
        """The factor's value, which is a whole number or bytes; TypeError where it is not."""
        return Factors(self.factors).count(factor)

    def counter(self, name: str) -> float:
        """The counter's value, which is a number; KeyError where there is none, TypeError where it is not a number."""
        return Factors(self.counters).number(name)


class AllocatorInfo(Stored):
    """One allocator on one device, as its driver states it. gpu is 'none' on the device `cpu`.

    available says that the call exists and worked here; reason says why not. gpu_reason says why the device's
    kernels can't reach it. host_memory and device_memory say which limit it is charged to. concurrent: the CPU may use
    it while a kernel does, each seeing the other's stores; shared_atomics: atomics of both are atomic together;
    disjoint: the CPU may use one part while a kernel uses another. verified: which of these facts the driver leaves
    unsaid and were taken from a methods.json, by the directory that holds it.
    """

    name: str
    available: bool
    reason: str = ""
    cpu: Access = "none"
    gpu: Access = "none"
    gpu_reason: str = ""
    host_memory: bool = False
    device_memory: bool = False
    managed: bool = False
    on_demand: bool | None = None
    concurrent: bool | None = None
    shared_atomics: bool | None = None
    disjoint: bool | None = None
    verified: dict[str, str] = {}


class DeviceCapabilities(Stored):
    """What a device can do, as its driver states it (native/device/device.hpp, Capabilities). Decisions about what is
    measured, and how, ask these fields and never the kind of device.

    runs_kernels: it has an agent beside the CPU; only the host has none. on_host_processor: what runs on it runs on the
    host's processor, through the host's caches. shares_host_memory: its memory is the host's. gpu_hierarchy: it has a
    GPU's caches and TLBs, a first level per multiprocessor that comes before translation. page_migration: managed
    pages move between the memories when an agent touches them. memory_guidance: it has calls that prefetch managed
    memory and advise on it. memory_events: its driver can record what unified memory does. coherent_during_kernel: it
    has memory in which the CPU and a running kernel see each other's stores. host_native_atomics: atomics of kernel and
    CPU on one word of host memory are atomic together. uncached_loads: its language has loads past the first-level
    cache. device_scope_atomics: its language has atomics of a scope narrower than the system. device_clock: kernels can
    read a clock. tells_free_memory: its driver tells how much of its own memory is free. time_class: which of a
    preset's budgets its points share. machine_code: what a kernel is compiled to, '' where none is compiled.
    """

    runs_kernels: bool = False
    on_host_processor: bool = False
    shares_host_memory: bool = False
    gpu_hierarchy: bool = False
    page_migration: bool = False
    memory_guidance: bool = False
    memory_events: bool = False
    coherent_during_kernel: bool = False
    host_native_atomics: bool = False
    uncached_loads: bool = False
    device_scope_atomics: bool = False
    device_clock: bool = False
    tells_free_memory: bool = False
    time_class: TimeClass = "host"
    machine_code: str = ""


class Peer(Stored):
    """Another device of the machine, as seen from the one that states it.

    access: what its kernels and copies can do with memory of the other one. "direct": use it in place; "copies": use
    it, but the driver copies a buffer to the device that works on it; "none": nothing, data go through the host. reason
    says why not "direct". same_driver: whether one driver runs both.
    """

    name: str
    access: PeerAccess
    reason: str = ""
    same_driver: bool = True


class DeviceInfo(Stored):
    """A device as discovery saw it in a separate process. facts are the vendor's own answers by plain names; notes
    are sentences that a reader of its results must know; peers are the machine's other devices that run kernels and, of
    the CPU, its NUMA nodes where there are several (node0, node1, ...).
    """

    name: str
    kind: str
    title: str
    available: bool = True
    reason: str = ""
    facts: dict[str, Scalar] = {}
    capabilities: DeviceCapabilities = msgspec.field(default_factory=DeviceCapabilities)
    allocators: list[AllocatorInfo] = []
    notes: list[str] = []
    peers: list[Peer] = []

    def __post_init__(self) -> None:
        check_integers(self.facts.values())

    def peer(self, name: str) -> Peer | None:
        return next((p for p in self.peers if p.name == name), None)

    def allocator(self, name: str) -> AllocatorInfo | None:
        return next((a for a in self.allocators if a.name == name), None)


class Library(Stored):
    """A vendor library that was looked for: path where found, else the reason."""

    name: str
    path: str = ""
    version: str = ""
    reason: str = ""


class Machine(Stored):
    """What machine.json holds. facts groups plain values by topic: 'cpu', 'memory', 'limits', 'kernel', ..."""

    schema: str
    host: str
    created: str
    firsttouch: str
    facts: dict[str, dict[str, Scalar]] = {}
    devices: list[DeviceInfo] = []
    libraries: list[Library] = []
    warnings: list[str] = []

    def __post_init__(self) -> None:
        for topic in self.facts.values():
            check_integers(topic.values())


class Request(Stored):
    """What was asked of `firsttouch run` or `firsttouch app`; run.json. --resume continues from it.

    experiments are applications where kind is "app". modules (the user's own files) and allow_oversubscription are
    information for the reader: what runs or lifts a limit comes from the call alone, never from a results directory.
    """

    schema: str
    experiments: list[str]
    devices: list[str]
    preset: str
    seed: Seed
    timeout: Timeout | None = None
    set: dict[str, list[Scalar]] = {}
    events: bool = False
    kind: Kind = "run"
    modules: list[str] = []
    allow_oversubscription: bool = False
