"""port-concurrent: the CPU prepares the next frame while the GPU sums the current one.

With two copies of a frame, the one on the host is free as soon as it has been copied. One unified buffer is still read
then, so that sums have words of two frames. The ported form takes two buffers in turn, and waits for the sum of the
frame before last.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from firsttouch import _core
from firsttouch.apps.port_programs.parts import WORD, Parts, wait_for, words
from firsttouch.apps.port_programs.program import FormRun, PortProgram, codebook, fact

FRAMES = 12


class FramesInTurn(PortProgram):
    """Double buffering. Source: IISWC 2025 Sec. III-C, concurrent CPU-GPU accesses."""

    name = "port-concurrent"
    order = 91
    question = "What happens if the CPU prepares data in the buffer that a kernel reads?"
    hazard = "sums contain words of the next frame, which the CPU wrote while the kernel read"
    strategy = "alternates between two buffers and waits for an event"
    codebook = codebook(mixed_frames="", frames="")

    def expected(self, size: int) -> Sequence[int]:
        return [size // WORD * (frame + 1) for frame in range(FRAMES)]

    def discrete(self, parts: Parts, size: int) -> FormRun:
        with parts.on_host(size) as host, parts.on_device(size) as device, parts.on_device(FRAMES * WORD) as sums:
            _clear(parts, sums)
            for frame in range(FRAMES):
                words(host)[:] = frame + 1
                parts.copy(device, host, size)
                copied = parts.device.record()
                _sum(parts, device, sums, frame)
                wait_for(copied)
            return FormRun(_read(sums), buffers=[fact("host", host)])

    def naive(self, parts: Parts, size: int) -> FormRun:
        with parts.unified(size) as buffer, parts.on_device(FRAMES * WORD) as sums:
            _clear(parts, sums)
            for frame in range(FRAMES):
                words(buffer)[:] = frame + 1
                _sum(parts, buffer, sums, frame)
            result, facts = _read(sums), [fact("frame", buffer)]
        mixed = sum(a != b for a, b in zip(result, self.expected(size), strict=True))
        hazard = f"{mixed} of {FRAMES} sums contain words of the next frame" if mixed else ""
        return FormRun(result, hazard, {"mixed_frames": mixed, "frames": FRAMES}, facts)

    def ported(self, parts: Parts, size: int) -> FormRun:
        with ExitStack() as alive:
            buffers = [alive.enter_context(parts.unified(size)) for _ in range(2)]
            sums = alive.enter_context(parts.on_device(FRAMES * WORD))
            _clear(parts, sums)
            summed = list[_core.Event]()
            for frame in range(FRAMES):
                if frame >= 2:
                    wait_for(summed[frame - 2])
                words(buffers[frame % 2])[:] = frame + 1
                _sum(parts, buffers[frame % 2], sums, frame)
                summed.append(parts.device.record())
            result, facts = _read(sums), [fact(f"frame {i}", buffer) for i, buffer in enumerate(buffers)]
        return FormRun(result, buffers=facts)


def _clear(parts: Parts, sums: _core.Buffer) -> None:
    sums.write(0, bytes(FRAMES * WORD))


def _sum(parts: Parts, frame: _core.Buffer, sums: _core.Buffer, at: int) -> None:
    count = frame.size // WORD
    parts.launch("port_sum", count, frame, count, sums, at)


def _read(sums: _core.Buffer) -> list[int]:
    """The sums, when all work has completed."""
    raw = sums.read(0, FRAMES * WORD)
    return [int.from_bytes(raw[i : i + WORD], "little") for i in range(0, len(raw), WORD)]


PROGRAM = FramesInTurn()
