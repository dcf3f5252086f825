"""The records that are stored and exchanged, decoded strictly. docs/records.md describes each field.

Every value here may come from a stranger's file: nothing is executed, unknown fields are refused.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

SCHEMA = "firsttouch/1"

Scalar: TypeAlias = str | int | float | bool | None
Factors: TypeAlias = dict[str, Scalar]
Status: TypeAlias = Literal["ok", "skipped", "failed", "timeout", "crashed"]
Kind: TypeAlias = Literal["run", "app"]
Access: TypeAlias = Literal["direct", "mapped", "none"]


class Struct(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Base of every record: keyword fields, unknown fields refused."""


class Summary(Struct):
    """Of one point's samples, in the record's unit. ci_low and ci_high bound the median at 95 %."""

    n: int
    median: float
    p5: float
    p95: float
    min: float
    max: float
    ci_low: float
    ci_high: float


class Clocks(Struct):
    """A device's clocks at one moment. Absent where the vendor offers none; throttle lists active reasons."""

    core_mhz: float | None = None
    memory_mhz: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    throttle: list[str] = []


class BufferFact(Struct):
    """Where one buffer of a point really was. numa_node and page_bytes only for host-resident pages."""

    name: str
    allocator: str
    bytes: int
    numa_node: int | None = None
    page_bytes: int | None = None


class Record(Struct):
    """One measured, skipped or failed point: one line of results.jsonl."""

    schema: str
    experiment: str
    device: str
    factors: Factors
    unit: str
    status: Status
    samples: list[float] = []
    summary: Summary | None = None
    verified: bool | None = None
    verified_why: str = ""
    reason: str = ""
    stopped_by: str = ""
    preset: str = ""
    seed: int = 0
    started: str = ""
    seconds: float = 0.0
    counters: dict[str, Scalar] = {}
    buffers: list[BufferFact] = []
    clocks_before: Clocks | None = None
    clocks_after: Clocks | None = None
    throttled: bool | None = None


class AllocatorInfo(Struct):
    """One allocator on one device, as its driver states it. gpu is 'none' on the device `cpu`.

    available says that the call exists and worked here; reason says why not. gpu_reason says why the device's
    kernels can't reach it. host_memory and device_memory say which limit it is charged to. concurrent: the CPU may use
    it while a kernel does, each seeing the other's stores; shared_atomics: atomics of both are atomic together;
    disjoint: the CPU may use one part while a kernel uses another.
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


class DeviceInfo(Struct):
    """A device as discovery saw it in a throw-away process. facts are the vendor's own answers by plain names; notes
    are sentences that a reader of its results must know.
    """

    name: str
    kind: str
    title: str
    available: bool = True
    reason: str = ""
    facts: dict[str, Scalar] = {}
    allocators: list[AllocatorInfo] = []
    notes: list[str] = []

    def allocator(self, name: str) -> AllocatorInfo | None:
        return next((a for a in self.allocators if a.name == name), None)


class Library(Struct):
    """A vendor library that was looked for: path where found, else the reason."""

    name: str
    path: str = ""
    version: str = ""
    reason: str = ""


class Machine(Struct):
    """What machine.json holds. facts groups plain values by topic: 'cpu', 'memory', 'limits', 'kernel', ..."""

    schema: str
    host: str
    created: str
    firsttouch: str
    facts: dict[str, dict[str, Scalar]] = {}
    devices: list[DeviceInfo] = []
    libraries: list[Library] = []
    warnings: list[str] = []


class Request(Struct):
    """What was asked of `firsttouch run` or `firsttouch app`; run.json. --resume goes on from it.

    experiments are applications where kind is "app"; modules, the user's own files of applications.
    """

    schema: str
    experiments: list[str]
    devices: list[str]
    preset: str
    seed: int
    timeout: float | None = None
    set: dict[str, list[Scalar]] = {}
    events: bool = False
    kind: Kind = "run"
    modules: list[str] = []
    allow_oversubscription: bool = False
