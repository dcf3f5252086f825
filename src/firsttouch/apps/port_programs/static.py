"""port-static: a filter whose coefficients are in a variable of the whole file.

With copies, the variable is one of the device, to which the program copies. A static variable of the host is no
substitute: the compiler of a kernel refuses it, or makes another of the same name, which the host's stores do not
reach. The ported form passes the address of unified memory: of a managed static variable where the language has them,
and of a block.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from contextlib import ExitStack

from firsttouch import _core
from firsttouch.apps.port_programs.parts import WORD, Parts, words
from firsttouch.apps.port_programs.program import FormRun, PortProgram, codebook, fact
from firsttouch.base.errors import Unsupported
from firsttouch.experiments.contract.common import unreachable
from firsttouch.machine.allocators.properties import role, variant
from firsttouch.records.schema import DeviceInfo, Metric, Scalar

COEFFICIENTS = (1, 3, 5, 7, 11)
VARIABLE = "firsttouch_host_static"
HOST_STATIC = f"static ulong {VARIABLE}[5] = {{1, 3, 5, 7, 11}};\n"
_KERNEL = """
KERNEL port_static(GLOBAL ulong* out, GLOBAL ulong* coefficients, ulong count) {
    FOR_EACH(i, count) out[i] = COEFFICIENTS[i % 5ul]++;
}
"""


class CoefficientsInSymbol(PortProgram):
    """Coefficients in a symbol. Source: IISWC 2025 Sec. III-C, static variables."""

    name = "port-static"
    order = 95
    question = "What takes the place of a symbol of the device?"
    hazard = "a kernel cannot see a static variable of the host"
    metric = Metric("ms", "lower", version=2)
    """Version 1 timed the kernel with either memory once, so that one of them also moved the arrays."""
    strategy = "passes the address of unified memory"
    codebook = codebook(static_ms="ms", pointer_ms="ms")

    def expected(self, size: int) -> Sequence[int]:
        count = size // WORD
        return [sum(COEFFICIENTS) * (count * (count - 1) // 2) % 2**64]

    def discrete(self, parts: Parts, size: int) -> FormRun:
        count, has = size // WORD, 0
        with ExitStack() as alive:
            host, out = (alive.enter_context(parts.on_host(size)) for _ in range(2))
            coefficients, marked = (alive.enter_context(parts.on_device(max(WORD, 64))) for _ in range(2))
            on_device, filtered = (alive.enter_context(parts.on_device(size)) for _ in range(2))
            marked.write(0, bytes(WORD))
            coefficients.write(0, _coefficients())
            _fill(host)
            parts.copy(on_device, host, size)
            parts.launch("port_filter_symbol", count, on_device, filtered, count, coefficients, 1, marked)
            parts.launch("port_filter_symbol", count, on_device, filtered, count, coefficients, 0, marked)
            parts.copy(out, filtered, size)
            parts.wait()
            has = int.from_bytes(marked.read(0, WORD), "little")
            result = [_sum(out)]
        if not has:
            raise Unsupported("the language of its kernels has no variables of a whole file that a program can write")
        return FormRun(result)

    def naive(self, parts: Parts, size: int) -> FormRun:
        if parts.info.capabilities.machine_code:
            parts.device.compile("port_static", _KERNEL, [("COEFFICIENTS", "coefficients")])  # so that this compiles
            try:
                parts.device.compile("port_static", HOST_STATIC + _KERNEL, [("COEFFICIENTS", VARIABLE)])
            except _core.VendorError as error:
                refusal = f"the compiler refuses a static variable of the host in a kernel: {_refusal(error)}"
                return FormRun([], refusal)
        result = [_filtered_by_own_variable(parts, size)]
        same = result == [*self.expected(size)]
        return FormRun(result, "" if same else "the kernel reads a variable of its own, which the host has not set")

    def ported(self, parts: Parts, size: int) -> FormRun:
        counters: dict[str, Scalar] = {}
        with ExitStack() as alive:
            array, out = (alive.enter_context(parts.unified(size)) for _ in range(2))
            _fill(array)
            places = {"pointer_ms": alive.enter_context(parts.unified(4096))}
            if name := _managed_static(parts.info):
                places["static_ms"] = alive.enter_context(parts.device.allocate(name, 4096))
            results = []
            for counter, coefficients in places.items():
                coefficients.write(0, _coefficients())
                for _ in range(2):  # the first moves the arrays
                    start = time.perf_counter()
                    parts.launch("port_filter", size // WORD, array, out, size // WORD, coefficients)
                    parts.wait()
                    counters[counter] = 1e3 * (time.perf_counter() - start)
                results.append(_sum(out))
            facts = [fact(name.removesuffix("_ms"), buffer) for name, buffer in places.items()]
        same = results if len(set(results)) == 1 else []
        return FormRun(same[:1], counters=counters, buffers=facts)


def _filtered_by_own_variable(parts: Parts, size: int) -> int:
    """The sum of the filtered array if the host sets the variable of the kernels' file as the host has it."""
    text, count = _core.kernel_file("port.c"), size // WORD
    kernel = parts.device.kernel("port", text, "port_filter_symbol", "ppLpLp", [("PORT_SET_BY_HOST", "1")])
    with ExitStack() as alive:
        array, out = (alive.enter_context(parts.unified(size)) for _ in range(2))
        coefficients, has = (alive.enter_context(parts.unified(4096)) for _ in range(2))
        _fill(array)
        coefficients.write(0, _coefficients())
        addresses = [each.address for each in (array, out, coefficients, has)]
        _core.launch_on_host("port_filter_symbol", "ppLpLp", 1, [*addresses[:2], count, addresses[2], 1, addresses[3]])
        parts.device.launch(kernel, *parts.device.grid(count), [array, out, count, coefficients, 0, has])
        parts.wait()
        return _sum(out)


def _refusal(error: _core.VendorError) -> str:
    """What a compiler says of its first error, without the place."""
    line = next((line for line in str(error).splitlines() if "error: " in line), str(error))
    return re.sub(r"^\S*:\d+:\d+: ", "", line.partition("error: ")[2])[:100].rstrip()


def _managed_static(device: DeviceInfo) -> str:
    """The allocator of static variables that CPU and kernels share, or ''."""
    names = (e.name for e in device.allocators if role(e.name) == "shared" and variant(e.name) == "call")
    return next((name for name in names if not unreachable(device, name, "cpu", "gpu")), "")


def _coefficients() -> bytes:
    return b"".join(each.to_bytes(WORD, "little") for each in COEFFICIENTS)


def _fill(buffer: _core.Buffer) -> None:
    import numpy as np

    words(buffer)[:] = np.arange(buffer.size // WORD, dtype=np.uint64)


def _sum(buffer: _core.Buffer) -> int:
    return int(words(buffer).sum())


PROGRAM = CoefficientsInSymbol()
