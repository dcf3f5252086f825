"""A copy from or to a static variable of the device, or one of the host, which cannot be allocated otherwise."""

from __future__ import annotations

from firsttouch.advice.port.rule import FindingWords, Hazard
from firsttouch.program.trace import NO_BLOCK, TracedCopy, TracedFill, TracedRange, TracedStep


class StaticVariable(Hazard):
    """The variables of the device one by one, those of the host by the calls that copy them."""

    name = "static"
    title = "static variable"
    order = 5
    words = {
        "device": FindingWords("of the device"),
        "host": FindingWords("of the host", memory="static variables of the host"),
    }
    strategy = "declare the variable managed, or pass a pointer to managed memory"
    chapter = "static-variables"
    steps = (TracedCopy, TracedFill)
    names_variables = True

    def take(self, number: int, step: TracedStep) -> None:
        if isinstance(step, TracedFill):
            self._device(number, step.target, step)
        elif isinstance(step, TracedCopy):
            self._device(number, step.target, step)
            self._device(number, step.source, step)
            of_device = step.way in ("h2d", "d2h") and step.device.block != NO_BLOCK
            if of_device and step.call.host == "static":
                place, block = self.state.places.of(step.call.site), self.state.run.blocks[step.device.block]
                buffer = () if block.kind == "device_static" else (block.number,)  # its name is not the host's
                self.row("host", "seen", place).add(number, step.device.total, place, *buffer)

    def _device(self, number: int, side: TracedRange, step: TracedCopy | TracedFill) -> None:
        block = self.state.run.blocks[side.block] if side.block != NO_BLOCK else None
        if block is not None and block.kind == "device_static":
            place = self.state.places.of(step.call.site)
            self.row("device", "seen", block.number).add(number, side.total, place, block.number)
