"""What each allocator is on a device: as its driver and vendor state it, and as experiment finds it.

A Question is one property. Adding one: a row in QUESTIONS and, where it can be tried, a trial in
memory/trials.py. Each trial runs in a throw-away process; one that crashes or hangs gives the question's `fatal`
answer.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import msgspec

from firsttouch.memory.allocators import MEANINGS
from firsttouch.run.process import Answer, Worker
from firsttouch.run.worker import Try
from firsttouch.schema import AllocatorInfo, DeviceInfo, Struct
from firsttouch.units import format_size

TIMEOUT = 20.0
"""Seconds after which a trial on an open device counts as hung."""

Origin: TypeAlias = Literal["measured", "stated", "unknown"]
Stated: TypeAlias = tuple[str, str]
"""A value ('' where nothing is stated) and a detail."""
_NOTHING: Stated = ("", "")


class Cell(Struct):
    """One property of one allocator on one device. stated is what driver or vendor say, null where they say nothing;
    detail says how it was found, or why it is so or unknown; notes are the device's.
    """

    device: str
    allocator: str
    property: str
    value: str | None
    origin: Origin
    stated: str | None = None
    detail: str = ""
    notes: list[str] = []


def disagrees(cell: Cell) -> bool:
    """Whether the measured value is another than the stated one."""
    return cell.origin == "measured" and cell.stated is not None and cell.value != cell.stated


@dataclass(frozen=True)
class Question:
    """name: the property; stated: what driver or vendor say; tried: whether trials.py can find out.

    fatal: the answer that the death of a trial's process gives, '' where it leaves the question open.
    gpu: whether only a device that runs kernels has the property.
    """

    name: str
    heading: str
    stated: Callable[[AllocatorInfo], Stated]
    tried: bool = False
    fatal: str = ""
    gpu: bool = False


def _available(info: AllocatorInfo) -> Stated:
    return ("yes", "") if info.available else ("no", info.reason)


def _allocation(info: AllocatorInfo) -> Stated:
    return _NOTHING if info.on_demand is None else ("on-demand" if info.on_demand else "up-front", "")


def _page(info: AllocatorInfo) -> Stated:
    """Of the allocators that ask for a page size."""
    if info.name == "mmap":
        return format_size(os.sysconf("SC_PAGE_SIZE")), "asked of the kernel with MADV_NOHUGEPAGE"
    if info.name == "malloc-thp":
        return "2 MiB", "asked of the kernel with MADV_HUGEPAGE"
    return _NOTHING


def _meaning(part: str) -> Callable[[AllocatorInfo], Stated]:
    return lambda info: (str(getattr(MEANINGS.get(info.name), part, "")), "")


QUESTIONS: Sequence[Question] = (
    Question("what", "what it is", _meaning("call")),
    Question("available", "available", _available, tried=True, fatal="no"),
    Question("allocation", "pages come", _allocation, tried=True),
    Question("cpu", "CPU access", lambda info: (info.cpu, ""), tried=True, fatal="none"),
    Question("gpu", "GPU access", lambda info: (info.gpu, info.gpu_reason), tried=True, fatal="none", gpu=True),
    Question("page", "host page", _page, tried=True),
    Question("moves", "moves", _meaning("moves")),
    Question("cached", "cached by", _meaning("cached")),
)
"""In the order of asking. `available` comes before all that is tried: where it is 'no' nothing else is."""


def _questions(device: DeviceInfo) -> list[Question]:
    return [q for q in QUESTIONS if not (q.gpu and device.kind == "cpu")]


def stated_cells(device: DeviceInfo) -> list[Cell]:
    """What the driver and the vendor state of every allocator of a device."""
    return [_stated(device, info, question) for info in device.allocators for question in _questions(device)]


def _stated(device: DeviceInfo, info: AllocatorInfo, question: Question) -> Cell:
    value, detail = question.stated(info)
    if not info.available and question.tried and question.name != "available":
        value, detail = "", "not available"
    return Cell(
        device=device.name,
        allocator=info.name,
        property=question.name,
        value=value or None,
        origin="stated" if value else "unknown",
        stated=value or None,
        detail=detail or ("" if value else "not stated"),
        notes=device.notes,
    )


def verified_cells(devices: Sequence[DeviceInfo], watch: Callable[[Cell], None]) -> list[Cell]:
    """Every cell of `devices`, those that can be tried by experiment. `watch` sees each as it is found."""
    cells = []
    with _Throwaways() as processes:
        for cell in _verify(devices, processes):
            watch(cell)
            cells.append(cell)
    return cells


def _verify(devices: Iterable[DeviceInfo], processes: _Throwaways) -> Iterator[Cell]:
    for device in devices:
        for info in device.allocators:
            works = info.available
            for question in _questions(device):
                cell = _stated(device, info, question)
                if question.tried and works:
                    cell = judge(cell, question, processes.ask(device, info, question))
                    works = works and not (question.name == "available" and cell.value == "no")
                yield cell


def judge(cell: Cell, question: Question, answer: Answer) -> Cell:
    """A stated cell after its trial."""
    if answer.reply is not None:
        value, detail = answer.reply.value, answer.reply.reason
    else:
        began = answer.after == "opened"
        value, detail = (question.fatal if began else ""), answer.reason
    if value:
        return msgspec.structs.replace(cell, value=value, origin="measured", detail=detail)
    cell.detail = f"not established: {detail}"
    return cell


class _Throwaways:
    """Processes of one trial each; the next one starts while a trial runs."""

    def __enter__(self) -> _Throwaways:
        self._spare = Worker()
        return self

    def __exit__(self, *_: object) -> None:
        self._spare.kill()

    def ask(self, device: DeviceInfo, info: AllocatorInfo, question: Question) -> Answer:
        worker, self._spare = self._spare, Worker()
        try:
            return worker.ask(Try(device=device, allocator=info.name, question=question.name), timeout=TIMEOUT)
        finally:
            worker.kill()
