"""What the API of a traced program calls things, and which strategies it has: one row for each API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from firsttouch.program.strategies import STRATEGIES, Strategy, strategies_of
from firsttouch.records.schema import DeviceInfo


@dataclass(frozen=True)
class ApiMemory:
    """How a program of an API makes buffers of both sides. make: with {buffers}, and {arrays} of the host that they
    replace. drops: what becomes of the copies in its braces. short: what they are; needs: of the device and of the API.
    mapped: whether the CPU uses them between map and unmap. sets: the call that passes them to kernels, if it is
    another than before. ends: how they are given back; '' if there is nothing that was not given back before.
    """

    make: str
    short: str = ""
    needs: str = ""
    mapped: bool = False
    sets: str = ""
    ends: str = "free {}"
    drops: str = "drop {}"


@dataclass(frozen=True)
class ApiWords:
    """wait: for the device. again: what to do about buffers that are freed and given the same bytes again, with these
    copies in its braces. shared: by the names of strategies that have one buffer for both sides. lock: how host
    arrays become page-locked. first: the strategy of which pages list the changes if no device is named. lacks: why the
    API has no other strategies; '' if it has those of any device. same: strategies that are others in this API.
    """

    wait: str = "wait for the device"
    again: str = "allocate these buffers once, and drop {} of bytes that they had"
    shared: Mapping[str, ApiMemory] = field(default_factory=dict)
    lock: str = "allocate {arrays} as {allocator} memory"
    first: str = "managed"
    lacks: str = ""
    same: Mapping[str, str] = field(default_factory=dict)

    def memory(self, strategy: Strategy) -> ApiMemory:
        """Of a strategy that has one buffer for both sides."""
        general = ApiMemory(f"allocate {{buffers}} as {strategy.allocator} memory, which replaces {{arrays}}")
        return self.shared.get(strategy.name, general)

    def why_not(self, strategy: Strategy, device: DeviceInfo) -> str:
        """Why a program of the API cannot use a strategy of a device, or ''."""
        if not self.lacks or strategy.name in _COPYING:
            return ""
        if strategy.name not in self.shared:
            return self.lacks
        same = self.same.get(strategy.name)
        return f"it is the same as {same}" if same in strategies_of(device) else ""

    def named(self, strategy: str) -> str:
        """A strategy, and what it is in the terms of the API."""
        short = self.shared[strategy].short if strategy in self.shared else ""
        return f"{strategy} ({short})" if short else strategy


def words_of(apis: Sequence[str]) -> ApiWords:
    """The words of the first API that has any; those of CUDA if none has."""
    return next((WORDS[api] for api in apis if api in WORDS), WORDS["CUDA"])


_COPYING = ("explicit", "explicit+pinned")
_MANAGED = [name for name, strategy in STRATEGIES.items() if strategy.allocator == "managed"]


def _by(call: str) -> ApiMemory:
    return ApiMemory(f"allocate {{buffers}} by {call}, which replaces {{arrays}}")


def _svm(flags: str, capability: str, *, mapped: bool = False) -> ApiMemory:
    """Shared virtual memory of OpenCL."""
    call = f"clSVMAlloc{f' with {flags}' if flags else ''}"
    return replace(
        _by(call),
        short=call,
        needs=f"OpenCL 2.0 and {capability}",
        mapped=mapped,
        sets="clSetKernelArgSVMPointer",
        ends="free {} by clSVMFree, which does not wait for kernels,",
    )


_MADE = ApiMemory(
    "create {buffers} with CL_MEM_ALLOC_HOST_PTR, which replaces {arrays}",
    "buffers with CL_MEM_ALLOC_HOST_PTR",
    mapped=True,
    ends="release {}",
)
_GIVEN = replace(
    _MADE,
    make="create {buffers} with CL_MEM_USE_HOST_PTR of {arrays}, at multiples of 4,096 bytes",
    short="buffers with CL_MEM_USE_HOST_PTR",
)
_SYSTEM = ApiMemory(
    "pass {arrays} to kernels in place of {buffers}",
    "plain memory in kernels",
    "OpenCL 2.0 and CL_DEVICE_SVM_FINE_GRAIN_SYSTEM",
    sets="clSetKernelArgSVMPointer",
    ends="",
)
_REQUIRED = ApiMemory(
    "add `#pragma omp requires unified_shared_memory` to each file, which replaces {buffers} by {arrays}",
    "unified_shared_memory",
    drops="the maps may stay, and no longer make {}",
    ends="",
)
WORDS: Mapping[str, ApiWords] = {
    "CUDA": ApiWords(shared=dict.fromkeys(_MANAGED, _by("cudaMallocManaged"))),
    "HIP": ApiWords(
        shared=dict.fromkeys(_MANAGED, _by("hipMallocManaged"))
        | {"unified": _by("hipMalloc"), "pinned": _by("hipHostMalloc")}
    ),
    "OpenCL": ApiWords(
        wait="wait for the device (clFinish)",
        lock="keep {arrays} in mapped buffers with CL_MEM_ALLOC_HOST_PTR",
        first="buffer",
        lacks="OpenCL has no such memory",
        same={"pinned": "buffer"},
        shared={
            "buffer": _MADE,
            "pinned": _MADE,
            "registered": _GIVEN,
            "svm-coarse": _svm("", "CL_DEVICE_SVM_COARSE_GRAIN_BUFFER", mapped=True),
            "svm-fine": _svm("CL_MEM_SVM_FINE_GRAIN_BUFFER", "CL_DEVICE_SVM_FINE_GRAIN_BUFFER"),
            "svm-atomic": _svm(
                "CL_MEM_SVM_FINE_GRAIN_BUFFER and CL_MEM_SVM_ATOMICS",
                "CL_DEVICE_SVM_FINE_GRAIN_BUFFER and CL_DEVICE_SVM_ATOMICS",
            ),
            "system": _SYSTEM,
            "system+prefault": _SYSTEM,
        },
    ),
    "OpenMP": ApiWords(
        wait="wait for the device (taskwait)",
        again="put the constructs there into one `target data` region, so that {} of bytes that were mapped before go",
        shared={name: _REQUIRED for name, strategy in STRATEGIES.items() if not strategy.duplicated},
    ),
}
