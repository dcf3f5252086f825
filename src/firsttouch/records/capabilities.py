"""The capabilities of devices in a machine.json of schema firsttouch/1, which does not hold them.

They are reconstructed from the kind and the facts of a device. Nowhere else do capabilities follow from the kind.
"""

from __future__ import annotations

from collections.abc import Mapping

from firsttouch.records.schema import DeviceCapabilities, Scalar

_MACHINE_CODE = {"cuda": "cubin", "hip": "hsaco"}


def capabilities_of_schema1(kind: str, facts: Mapping[str, Scalar]) -> DeviceCapabilities:
    """The capabilities of a device of firsttouch/1, given its kind and facts. An unknown kind has none.

    Those records hold no type of OpenCL device. A device that shares the host's memory is assumed to be the host's
    processor, as it was when they were written.
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
        integrated, concurrent = facts.get("integrated") is True, facts.get("concurrentManagedAccess") is True
        return DeviceCapabilities(
            runs_kernels=True,
            shares_host_memory=integrated,
            gpu_hierarchy=True,
            page_migration=concurrent and not integrated and (kind == "cuda" or facts.get("xnack") == "on"),
            memory_guidance=concurrent,
            memory_events=kind == "cuda",
            coherent_during_kernel=True,
            host_native_atomics=facts.get("hostNativeAtomicSupported") is True,
            uncached_loads=True,
            device_scope_atomics=True,
            device_clock=True,
            reports_free_memory=True,
            time_class="gpu",
            machine_code=_MACHINE_CODE[kind],
        )
    is_host = kind == "cpu"
    return DeviceCapabilities(
        on_host_processor=is_host,
        shares_host_memory=is_host,
        coherent_during_kernel=is_host,
        host_native_atomics=is_host,
    )
