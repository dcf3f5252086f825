"""The records that are stored and exchanged, schema firsttouch/2.N. docs/records.md describes each field.

Result files from others are treated as untrusted: nothing in them is executed, and invalid data are refused. A minor
version N only adds fields. Fields that a newer N added are kept and written back; other unknown fields are refused.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias, get_args

import msgspec

from firsttouch.base.encoding import encode_json
from firsttouch.records.factors import LARGEST as LARGEST
from firsttouch.records.factors import Factors as Factors
from firsttouch.records.factors import Number as Number
from firsttouch.records.factors import Point as Point
from firsttouch.records.factors import Scalar as Scalar
from firsttouch.records.factors import decode_hook as decode_hook
from firsttouch.records.predicted import Modelled as Modelled
from firsttouch.records.predicted import PredictedTerm as PredictedTerm
from firsttouch.records.stored import LARGEST_INTEGER as LARGEST_INTEGER
from firsttouch.records.stored import Integer as Integer
from firsttouch.records.stored import Stored as Stored
from firsttouch.records.stored import Struct as Struct
from firsttouch.records.stored import check_integers as check_integers
from firsttouch.records.stored import encode as encode
from firsttouch.records.stored import plain as plain

MAJOR, MINOR = 2, 8
SCHEMA = f"firsttouch/{MAJOR}.{MINOR}"
MOST_RANKS = 4096
LONGEST_TIMEOUT = 1e6
"""Seconds, 11 days."""

Seed: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Timeout: TypeAlias = Annotated[float, msgspec.Meta(gt=0, le=LONGEST_TIMEOUT)]
RankCount: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=MOST_RANKS)]
Status: TypeAlias = Literal["ok", "skipped", "failed", "timeout", "crashed"]
FAILURES: tuple[Status, ...] = ("failed", "timeout", "crashed")
WorkKind: TypeAlias = Literal["run", "app"]
AgentAccess: TypeAlias = Literal["direct", "mapped", "none"]
PEER, SELF, NODE = "peer", "self", "node"
"""The factor that names another device, and the value of it that means the acting device itself."""
OWN_FACTS = ("uuid", "pci_bus", "partition", "memory_free_bytes")
"""The facts of a device that may differ between equal ones."""
BUSY = 0.1
"""Other programs disturb what is measured if they use this part of the processors' time or more."""
PARAMETER = "param_"
"""How the names of counters with an application's parameters begin."""
RANKS = "ranks"
"""The factor with the number of processes that carry out a point together."""
ITERATION_TIME = "iteration_{}_ms"
"""The pattern of the counters with the times of iterations, or of groups of them that were timed together."""
RELATIVE_TO = "relative_to"
"""The counter that names the strategy to which applications are compared, if the call chose one."""
INTERFACE = "interface"
"""The factor that says what carries data between these processes."""
SHARED = "shared"
"""The counter that says what several of these processes have in common."""
PeerAccess: TypeAlias = Literal["direct", "copies", "none"]
TimeClass: TypeAlias = Literal["host", "host-kernels", "gpu"]
DeviceRole: TypeAlias = Literal["host", "processor", "gpu"]
"""The host alone, the host's processor as a device that runs kernels, or a GPU."""


def as_number(value: Scalar) -> float | None:
    """The value of a factor, a counter or a fact if it is a number; None for text, truth values and null."""
    return None if isinstance(value, bool | str | None) else float(value)


NONE = "none: "
"""How a counter begins that says why something is not known."""


def reason_in(counter: Scalar) -> str | None:
    """The reason in a counter that says why something is not known; None for others."""
    return counter.removeprefix(NONE) if isinstance(counter, str) and counter.startswith(NONE) else None


Better: TypeAlias = Literal["lower", "higher", "neither"]
"""Whether a lower or a higher value is better, or neither."""


class Metric(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the samples of an experiment mean.

    version: the version of the definition. It is raised whenever a new definition changes the values measured on the
    same machine, so that values of two versions are never compared.
    """

    unit: str
    better: Better
    version: int = 1

    def __post_init__(self) -> None:
        if not (isinstance(self.unit, str) and isinstance(self.version, int) and self.better in get_args(Better)):
            raise ValueError(
                f"{self!r:.80} is not a metric: unit must be text, better one of {', '.join(get_args(Better))}"
            )


def comparable(a: Record, b: Record) -> bool:
    """True if the two records have the same experiment, unit and metric version, so that their values compare."""
    return (a.experiment, a.unit, a.metric_version) == (b.experiment, b.unit, b.metric_version)


class Summary(Stored):
    """Summary of one point's samples, in the record's unit. ci_low and ci_high bound the median at 95 %; those of a
    prediction are its range.
    """

    n: Integer
    median: Number
    p5: Number
    p95: Number
    min: Number
    max: Number
    ci_low: Number
    ci_high: Number


class Clocks(Stored):
    """A device's clocks at one moment. A field is None if the vendor does not report it. throttle lists the active
    throttle reasons.
    """

    core_mhz: Number | None = None
    memory_mhz: Number | None = None
    temperature_c: Number | None = None
    power_w: Number | None = None
    throttle: list[str] = []


class BufferFact(Stored):
    """Where one buffer of a point was found to be. numa_node and page_bytes are only known of pages on the host."""

    name: str
    allocator: str
    bytes: Integer
    numa_node: Integer | None = None
    page_bytes: Integer | None = None


class Party(Stored):
    """A device that took part in a point, with the rank of its process. processors has the form "0-3,8". clocks_before,
    clocks_after: of the device, where the point had several ranks.
    """

    device: str
    rank: Integer = 0
    host: str = ""
    numa_node: Integer | None = None
    processors: str = ""
    clocks_before: Clocks | None = None
    clocks_after: Clocks | None = None


class Location(Stored):
    """Where a point is measured: a device, or a device with another as its peer."""

    device: str
    peer: str = ""


class Record(Stored):
    """One measured, skipped or failed point: one line of results.jsonl.

    parties: all devices that took part; empty if that was `device` alone. stands_for: the places that are equal to the
    record's own by the facts of their devices, and at which the call did not measure this point. stated_by: the source
    of the facts that made the point possible, if that was not the driver. others_share: the part of the time of the
    processors that the point could use which other programs used; None if that is not known. suspect: the name of the
    rule of plausibility.py that the record breaks, or ''. modelled: what a prediction follows from; None for a
    measurement. terms: what takes time in a predicted point.
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
    stands_for: list[Location] = []
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
    others_share: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    suspect: str = ""
    modelled: Modelled | None = None
    terms: list[PredictedTerm] = []

    def __post_init__(self) -> None:
        check_integers((*self.factors.values(), *self.counters.values()))

    @property
    def parameters(self) -> dict[str, Scalar]:
        """The parameters with which an application ran, by name; none of an experiment."""
        return {name.removeprefix(PARAMETER): v for name, v in self.counters.items() if name.startswith(PARAMETER)}

    @property
    def is_measured(self) -> bool:
        """True if it has a value that others may use: it is ok, its data were not wrong, and it is not suspect."""
        return self.status == "ok" and self.summary is not None and self.verified is not False and not self.suspect

    @property
    def has_interval(self) -> bool:
        """True if its median has an interval: of several samples, or the range of a prediction."""
        return self.summary is not None and (self.summary.n > 1 or self.modelled is not None)

    @property
    def is_disturbed(self) -> bool:
        """True if it was measured while other programs used a tenth or more of the processors' time, and its values are
        times, rates or the like, which that changes.
        """
        return self.status == "ok" and self.better != "neither" and (self.others_share or 0.0) >= BUSY

    def text(self, factor: str) -> str:
        """The value of a factor that is a word. Raises TypeError if it is not."""
        return Factors(self.factors).text(factor)

    def count(self, factor: str) -> int:
        """The value of a factor that is a whole number or a size in bytes. Raises TypeError if it is not."""
        return Factors(self.factors).count(factor)

    def counter(self, name: str) -> float:
        """The value of a counter. Raises KeyError if there is none, and TypeError if it is not a number."""
        return Factors(self.counters).number(name)


class AllocatorInfo(Stored):
    """One allocator on one device, as its driver states it. gpu is 'none' on the device `cpu`.

    available: the call exists and worked here; reason says why not. gpu_reason: why the device's kernels cannot access
    it. host_memory, device_memory: the limits that it is charged to. migrates_on_fault: plain host memory whose pages a
    kernel's fault moves to the device (HMM), so that it is charged as managed memory is. concurrent: the CPU may use it
    while a kernel does, and each sees the other's stores. shared_atomics: atomics of both are atomic together.
    disjoint: the CPU may use one part while a kernel uses another. verified: those of these facts that the driver does
    not state and that were taken from a methods.json, each with the directory that holds the file.
    """

    name: str
    available: bool
    reason: str = ""
    cpu: AgentAccess = "none"
    gpu: AgentAccess = "none"
    gpu_reason: str = ""
    host_memory: bool = False
    device_memory: bool = False
    managed: bool = False
    migrates_on_fault: bool = False
    on_demand: bool | None = None
    concurrent: bool | None = None
    shared_atomics: bool | None = None
    disjoint: bool | None = None
    verified: dict[str, str] = {}


class DeviceCapabilities(Stored):
    """What a device can do, as its driver states it (native/device/device.hpp, Capabilities). Decisions about what is
    measured, and how, depend on these fields and never on the kind of device.

    runs_kernels: it is an agent other than the CPU; false only for the host. on_host_processor: its kernels run on the
    host's processor and use the host's caches. shares_host_memory: its memory is the host's. gpu_hierarchy: it has a
    GPU's caches and TLBs, with a first-level cache per multiprocessor that is accessed before translation.
    page_migration: managed pages move between the memories when an agent touches them. memory_guidance: it has calls
    that prefetch managed memory and advise on it. memory_events: its driver can record unified-memory events.
    coherent_during_kernel: it has memory in which the CPU and a running kernel see each other's stores.
    host_native_atomics: atomics of kernel and CPU on one word of host memory are atomic together. uncached_loads: its
    language has loads that bypass the first-level cache. device_scope_atomics: its language has atomics of a scope
    narrower than the system. device_clock: kernels can read a clock. reports_free_memory: its driver reports how much
    of the device's memory is free. time_class: the budget of a preset that its points share. machine_code: the format
    that a kernel is compiled to, '' if none is compiled.
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
    reports_free_memory: bool = False
    time_class: TimeClass = "host"
    machine_code: str = ""


class Peer(Stored):
    """Another device of the machine, as seen from the device that lists it.

    access: how kernels and copies of the listing device can use the peer's memory. "direct": in place. "copies": the
    driver copies a buffer to the device that uses it. "none": not at all; data go through the host. reason: why access
    is not "direct". same_driver: True if one driver runs both. link: what connects them, such as NVLink, xGMI or PCIe;
    '' if unknown. hops: the links along the path. peak_in_gbs, peak_out_gbs: the stated peak of the connection each
    way, seen from the listing device, in 10^9 bytes per second; None if the driver does not state it. peak_source: the
    driver's field that they follow from.
    """

    name: str
    access: PeerAccess
    reason: str = ""
    same_driver: bool = True
    link: str = ""
    hops: Integer | None = None
    peak_in_gbs: Number | None = None
    peak_out_gbs: Number | None = None
    peak_source: str = ""

    def of_peak(self, in_gbs: float, out_gbs: float) -> float | None:
        """The fraction of the stated peak that the busier direction reaches; None if that peak is not stated."""
        value, peak = (in_gbs, self.peak_in_gbs) if in_gbs >= out_gbs else (out_gbs, self.peak_out_gbs)
        return value / peak if peak else None


class DeviceInfo(Stored):
    """A device as discovery found it in a separate process.

    facts: the values that the vendor reports, under plain names. notes: sentences that a reader of its results must
    know. peers: the machine's other devices that run kernels; for the CPU, the NUMA nodes with memory (node0, node1,
    ...). environment: the variables without which no process opens it. modelled: the platform that describes it, if it
    is no device of this machine.
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
    environment: dict[str, str] = {}
    modelled: Modelled | None = None

    def __post_init__(self) -> None:
        check_integers(self.facts.values())

    @property
    def role(self) -> DeviceRole:
        if not self.capabilities.runs_kernels:
            return "host"
        return "processor" if self.capabilities.on_host_processor else "gpu"

    @property
    def product(self) -> str:
        """What its driver calls it. The title of a partition has its number, too."""
        return str(self.facts.get("model", self.title))

    @property
    def model(self) -> bytes:
        """What equal devices have in common: all that their driver states but what tells one from another, or is a
        state of the moment. Their links to others are not part of it.
        """
        entries = [msgspec.structs.replace(a, reason="", gpu_reason="", verified={}) for a in self.allocators]
        facts = {name: fact for name, fact in self.facts.items() if name not in OWN_FACTS}
        stated = [self.kind, self.product, facts, plain(self.capabilities), plain(entries), plain(self.modelled)]
        return encode_json(stated, order="sorted")

    @property
    def identity(self) -> str:
        """What distinguishes the device from that of the same name of another machine."""
        unique_id = self.facts.get("uuid") if self.modelled is None else self.modelled.digest
        return f"{self.title} {unique_id or ''}".strip()

    def peer(self, name: str) -> Peer | None:
        return next((p for p in self.peers if p.name == name), None)

    def allocator(self, name: str) -> AllocatorInfo | None:
        for allocator in self.allocators:
            if allocator.name == name:
                return allocator
        return None


class Library(Stored):
    """A vendor library that was looked for: its path if it was found, otherwise the reason."""

    name: str
    path: str = ""
    version: str = ""
    reason: str = ""


class Machine(Stored):
    """The content of machine.json. facts: values grouped by topic: 'cpu', 'memory', 'limits', 'kernel', ..."""

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


class Selection(Stored):
    """What an earlier call selected for the same directory, as in Request."""

    experiments: list[str]
    devices: list[str]
    set: dict[str, list[Scalar]] = {}
    events: bool = False
    counters: bool = False
    ranks: RankCount | None = None
    every_device: bool = True


class Request(Stored):
    """The request of a `firsttouch run` or `firsttouch app`: the content of run.json. --resume continues from it.

    experiments: the applications if kind is "app". earlier: what earlier calls selected for this directory, as far as
    it is not a part of what the other fields select. ranks: the most processes that carry out a point together.
    every_device: every device is measured in full; otherwise one of several equal devices is, and stands for the
    others. modules (the user's own files) and allow_oversubscription are for information only: code to run and limits
    to lift come from the call alone, never from a results directory. relative_to: the strategy to which applications
    are compared; '' for the usual one.
    """

    schema: str
    experiments: list[str]
    devices: list[str]
    preset: str
    seed: Seed
    timeout: Timeout | None = None
    set: dict[str, list[Scalar]] = {}
    events: bool = False
    counters: bool = False
    ranks: RankCount | None = None
    every_device: bool = True
    kind: WorkKind = "run"
    modules: list[str] = []
    allow_oversubscription: bool = False
    relative_to: str = ""
    earlier: list[Selection] = []
