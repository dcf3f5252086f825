"""port-stack: a kernel raises a flag that its caller keeps in a local variable.

With copies, the flag of the device is copied into the variable when the kernel has ended. If kernels may use plain
memory, the variable's address can be passed instead; a function that returns before the kernel ends then has its frame
overwritten by whoever takes its place. The ported form has a block that lives as long as the kernel; where kernels
reach the stack, it also passes the variable's address and waits before the function returns.
"""

from __future__ import annotations

from collections.abc import Sequence

from firsttouch import _core
from firsttouch.apps.port_programs.parts import WORD, Parts, why_no_plain_memory, words
from firsttouch.apps.port_programs.program import NAIVE, FormRun, PortProgram, codebook, fact
from firsttouch.records.schema import DeviceInfo, Factors

RAISED = 0x706F7274


class FlagOnStack(PortProgram):
    """A flag in a stack frame. Source: IISWC 2025 Sec. III-C, stack variables."""

    name = "port-stack"
    order = 94
    question = "What if a kernel stores to a variable of a function that has returned?"
    hazard = "the kernel stores into the stack frame of a function that has returned"
    strategy = "keeps the flag in a buffer that outlives the kernel"
    size = 64 * 1024
    codebook = codebook(overwritten_words="", waited="")

    def skip(self, factors: Factors, device: DeviceInfo) -> str | None:
        if factors["form"] == NAIVE and (reason := why_no_plain_memory(device)):
            return f"no kernel reaches the stack: {reason}"
        return super().skip(factors, device)

    def expected(self, size: int) -> Sequence[int]:
        return [RAISED]

    def discrete(self, parts: Parts, size: int) -> FormRun:
        with parts.on_device(size) as flag:
            flag.write(0, bytes(WORD))
            parts.launch("port_raise", 1, flag, RAISED)
            return FormRun([int.from_bytes(flag.read(0, WORD), "little")])

    def naive(self, parts: Parts, size: int) -> FormRun:
        _, overwritten = _core.store_to_frame(parts.device, wait=False)
        hazard = "the kernel changed the frame of the function that was called next" if overwritten else ""
        return FormRun([], hazard, {"overwritten_words": overwritten})

    def ported(self, parts: Parts, size: int) -> FormRun:
        with parts.unified(size) as flag:
            words(flag)[0] = 0
            parts.launch("port_raise", 1, flag, RAISED)
            parts.wait()
            result, facts = [int(words(flag)[0])], [fact("flag", flag)]
        if why_no_plain_memory(parts.info):
            return FormRun(result, buffers=facts)
        seen, _ = _core.store_to_frame(parts.device, wait=True)
        return FormRun(result if seen else [], counters={"waited": int(seen)}, buffers=facts)


PROGRAM = FlagOnStack()
