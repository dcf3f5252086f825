"""The schema firsttouch/1 as its last version wrote it. It is read but no longer written, so nothing here changes."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

SCHEMA = "firsttouch/1"

_Scalar: TypeAlias = str | int | float | bool | None
_Access: TypeAlias = Literal["direct", "mapped", "none"]


class _Struct(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    pass


class Summary(_Struct):
    n: int
    median: float
    p5: float
    p95: float
    min: float
    max: float
    ci_low: float
    ci_high: float


class Clocks(_Struct):
    core_mhz: float | None = None
    memory_mhz: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    throttle: list[str] = []


class BufferFact(_Struct):
    name: str
    allocator: str
    bytes: int
    numa_node: int | None = None
    page_bytes: int | None = None


class Record(_Struct):
    schema: str
    experiment: str
    device: str
    factors: dict[str, _Scalar]
    unit: str
    status: Literal["ok", "skipped", "failed", "timeout", "crashed"]
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
    counters: dict[str, _Scalar] = {}
    buffers: list[BufferFact] = []
    clocks_before: Clocks | None = None
    clocks_after: Clocks | None = None
    throttled: bool | None = None


class AllocatorInfo(_Struct):
    name: str
    available: bool
    reason: str = ""
    cpu: _Access = "none"
    gpu: _Access = "none"
    gpu_reason: str = ""
    host_memory: bool = False
    device_memory: bool = False
    managed: bool = False
    on_demand: bool | None = None
    concurrent: bool | None = None
    shared_atomics: bool | None = None
    disjoint: bool | None = None


class DeviceInfo(_Struct):
    name: str
    kind: str
    title: str
    available: bool = True
    reason: str = ""
    facts: dict[str, _Scalar] = {}
    allocators: list[AllocatorInfo] = []
    notes: list[str] = []


class Library(_Struct):
    name: str
    path: str = ""
    version: str = ""
    reason: str = ""


class Machine(_Struct):
    schema: str
    host: str
    created: str
    firsttouch: str
    facts: dict[str, dict[str, _Scalar]] = {}
    devices: list[DeviceInfo] = []
    libraries: list[Library] = []
    warnings: list[str] = []


class Request(_Struct):
    schema: str
    experiments: list[str]
    devices: list[str]
    preset: str
    seed: int
    timeout: float | None = None
    set: dict[str, list[_Scalar]] = {}
    events: bool = False
    kind: Literal["run", "app"] = "run"
    modules: list[str] = []
    allow_oversubscription: bool = False
