"""The capabilities of devices in a machine.json that was written before it held them.

The only place where they follow from a kind of device: what its backend stated then, reconstructed from its facts.
"""

from __future__ import annotations

from collections.abc import Mapping

from firsttouch.records.schema import DeviceCapabilities, Scalar

_MACHINE_CODE = {"cuda": "cubin", "hip": "hsaco"}


def capabilities_of_old(kind: str, facts: Mapping[str, Scalar]) -> DeviceCapabilities:
    """What a device of this kind could do by the facts of firsttouch/1. An unknown kind can nothing that is known.

    Those records hold no type of OpenCL device: one that shares the host's memory is taken for the host's processor,
    as it was when they were written.
    """
    if kind == "opencl":
        shares, atomics = facts.get("shares_host_memory") is True, facts.get("svm_atomics") is True
        return DeviceCapabilities(
            runs_kernels=True,
            on_host_processor=shares,
            shares_host_memory=shares,
            gpu_hierarchy=not shares,
            coherent_during_kernel=atomics,
            host_native_atomics=atomics,
            time_class="host-kernels" if shares else "gpu",
            machine_code="opencl",
        )
    if kind in _MACHINE_CODE:
        integrated, together = facts.get("integrated") is True, facts.get("concurrentManagedAccess") is True
        return DeviceCapabilities(
            runs_kernels=True,
            shares_host_memory=integrated,
            gpu_hierarchy=True,
            page_migration=together and not integrated and (kind == "cuda" or facts.get("xnack") == "on"),
            memory_guidance=together,
            memory_events=kind == "cuda",
            coherent_during_kernel=True,
            host_native_atomics=facts.get("hostNativeAtomicSupported") is True,
            uncached_loads=True,
            device_scope_atomics=True,
            device_clock=True,
            tells_free_memory=True,
            time_class="gpu",
            machine_code=_MACHINE_CODE[kind],
        )
    of_host = kind == "cpu"
    return DeviceCapabilities(
        on_host_processor=of_host,
        shares_host_memory=of_host,
        coherent_during_kernel=of_host,
        host_native_atomics=of_host,
    )
