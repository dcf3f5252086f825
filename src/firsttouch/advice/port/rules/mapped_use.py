"""A kernel uses a buffer while a mapping of it has not ended: what either side then reads is undefined in OpenCL."""

from __future__ import annotations

from firsttouch.advice.port.rule import FindingRows, FindingWords, Hazard, ProgramState
from firsttouch.program.trace import TracedLaunch, TracedStep, TracedView


class MappedUse(Hazard):
    """By buffer and launch."""

    name = "mapped"
    title = "use while mapped"
    order = 8
    api = "OpenCL"
    words = {
        "writes": FindingWords("a kernel may write a buffer that is mapped"),
        "reads": FindingWords("a kernel uses a buffer that is mapped to be written"),
    }
    strategy = "unmap the buffer before the launch, or use fine-grained shared virtual memory with atomics"
    chapter = "use-while-mapped"
    steps = (TracedLaunch, TracedView)

    def __init__(self, state: ProgramState, rows: FindingRows) -> None:
        super().__init__(state, rows)
        self._mapped: dict[int, dict[tuple[int, int], TracedView]] = {}
        """The mappings that have not ended, by block, and by where they begin and end."""

    def take(self, number: int, step: TracedStep) -> None:
        if isinstance(step, TracedView):
            of_block, part = self._mapped.setdefault(step.target.block, {}), (step.target.start, step.target.nbytes)
            if step.call.begins:
                of_block[part] = step
            else:
                of_block.pop(part, None)
        elif isinstance(step, TracedLaunch) and any(self._mapped.values()):
            for use in step.uses:
                sharing = self.state.run.blocks[use.block].sharing
                views = {} if sharing & {"fine", "atomic"} else self._mapped.get(use.block, {})
                written = any(view.call.use != "reads" for view in views.values())
                if views and (use.may_write or written):
                    place = self.state.places.of(step.call.site)
                    size = sum(nbytes for _, nbytes in views)
                    row = self.row("writes" if use.may_write else "reads", "seen", (use.block, place))
                    row.add(number, size, place, use.block)
