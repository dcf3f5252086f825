"""What each allocator is on a device: as its driver and vendor state it, and as experiment finds it.

A Question is one property. Adding one: a row in QUESTIONS and, where it can be tried, a trial in
allocators/trials.py. Each trial runs in a separate process; one that crashes or hangs gives the question's `fatal`
answer.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import msgspec

from firsttouch.allocators.properties import asked_pages, moves_pages, needs_mapping
from firsttouch.allocators.semantics import SEMANTICS
from firsttouch.allocators.trials import Try
from firsttouch.records.schema import AllocatorInfo, DeviceInfo, Struct
from firsttouch.units import format_size
from firsttouch.workers.process import Answer, Worker

TIMEOUT = 20.0
"""Seconds after which a trial on an open device counts as hung."""

Origin: TypeAlias = Literal["measured", "stated", "unknown"]
Stated: TypeAlias = tuple[str, str]
"""A value ('' where nothing is stated) and a detail."""
_NOTHING: Stated = ("", "")
_NO_MEANING = "does not apply: "
_GONE = "not available"
_ONE_AT_A_TIME = "memory that must be mapped belongs to one agent at a time (OpenCL 3.0, 3.3.3): not tried"


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
    """Whether the measured value is another than the stated one; what follows a comma ('yes, 64 KiB') is not stated."""
    if cell.origin != "measured" or cell.stated is None or cell.value is None:
        return False
    return cell.value.partition(",")[0] != cell.stated.partition(",")[0]


def applies(cell: Cell) -> bool:
    """Whether the property means something of this allocator here."""
    return not cell.detail.startswith(_NO_MEANING) and cell.detail != _GONE


@dataclass(frozen=True)
class Question:
    """name: the property; stated: what driver or vendor say; tried: whether trials.py can find out.

    fatal: the answer that the death of a trial's process gives, '' where it leaves the question open.
    gpu: whether only a device that runs kernels has the property.
    needs: who must reach an allocator for the question to mean something.
    direct: whether it is tried only of memory that both agents use by its address.
    """

    name: str
    heading: str
    stated: Callable[[AllocatorInfo], Stated]
    tried: bool = False
    fatal: str = ""
    gpu: bool = False
    needs: tuple[Literal["cpu", "gpu"], ...] = ()
    direct: bool = False

    def means_nothing(self, info: AllocatorInfo) -> str:
        """Why it has no answer for an allocator, '' where it has."""
        lacking = next((agent for agent in self.needs if getattr(info, agent) == "none"), None)
        return f"{_NO_MEANING}the {lacking.upper()} is stated not to reach it" if lacking else ""

    def tried_of(self, info: AllocatorInfo) -> bool:
        """Whether a trial can answer it for an allocator that works."""
        by_address = info.cpu == "direct" and info.gpu == "direct"
        return self.tried and not self.means_nothing(info) and (by_address or not self.direct)


def _available(info: AllocatorInfo) -> Stated:
    return ("yes", "") if info.available else ("no", info.reason)


def _allocation(info: AllocatorInfo) -> Stated:
    return _NOTHING if info.on_demand is None else ("on-demand" if info.on_demand else "up-front", "")


def _page(info: AllocatorInfo) -> Stated:
    """Of the allocators that ask for a page size."""
    if asked_pages(info.name) == "base":
        return format_size(os.sysconf("SC_PAGE_SIZE")), "asked of the kernel with MADV_NOHUGEPAGE"
    if asked_pages(info.name) == "huge":
        return "2 MiB", "asked of the kernel with MADV_HUGEPAGE"
    return _NOTHING


def _meaning(part: str) -> Callable[[AllocatorInfo], Stated]:
    return lambda info: (str(getattr(SEMANTICS.get(info.name), part, "")), "")


def _cached(agent: str) -> Callable[[AllocatorInfo], Stated]:
    def stated(info: AllocatorInfo) -> Stated:
        meaning = SEMANTICS.get(info.name)
        if meaning is None:
            return _NOTHING
        return ("yes" if agent in meaning.cached else "no" if agent in meaning.uncached else "", "")

    return stated


def _while_a_kernel_runs(fact: str, yes: str) -> Callable[[AllocatorInfo], Stated]:
    """What a fact of AllocatorInfo states of both agents at once."""

    def stated(info: AllocatorInfo) -> Stated:
        known = getattr(info, fact)
        return ("" if known is None else yes if known else "no", _ONE_AT_A_TIME if needs_mapping(info) else "")

    return stated


def _concurrent(info: AllocatorInfo) -> Stated:
    """Different parts at once: as the vendor states it, else where the driver states that all may be used at once."""
    stated = str(getattr(SEMANTICS.get(info.name), "halves", ""))
    return (stated, "") if stated else _while_a_kernel_runs("concurrent", "yes")(info)


def _migrates(info: AllocatorInfo) -> Stated:
    if needs_mapping(info):
        return "", "not stated; the CPU sees its pages only between map and unmap: not tried"
    moves = moves_pages(info)
    if moves is None:
        return _NOTHING
    return ("yes", "") if moves else ("no", "its pages are there at once, and stay" if info.managed else "")


def _at_once(name: str, heading: str, stated: Callable[[AllocatorInfo], Stated]) -> Question:
    """Of both agents while a kernel runs."""
    return Question(name, heading, stated, tried=True, fatal="no", gpu=True, needs=("cpu", "gpu"), direct=True)


QUESTIONS: Sequence[Question] = (
    Question("what", "what it is", _meaning("call")),
    Question("available", "available", _available, tried=True, fatal="no"),
    Question("allocation", "pages come", _allocation, tried=True),
    Question("cpu", "CPU access", lambda info: (info.cpu, ""), tried=True, fatal="none"),
    Question("gpu", "GPU access", lambda info: (info.gpu, info.gpu_reason), tried=True, fatal="none", gpu=True),
    Question("page", "host page", _page, tried=True, needs=("cpu",)),
    Question("moves", "moves", _meaning("moves")),
    Question("cached cpu", "cached CPU", _cached("cpu"), tried=True, needs=("cpu",)),
    Question("cached gpu", "cached GPU", _cached("gpu"), tried=True, needs=("gpu",), gpu=True),
    _at_once("coherent", "coherent", _while_a_kernel_runs("concurrent", "both")),
    _at_once("concurrent", "at once", _concurrent),
    _at_once("atomics", "atomics", _while_a_kernel_runs("shared_atomics", "yes")),
    Question("migrates", "pages migrate", _migrates, tried=True, needs=("gpu",), direct=True, gpu=True),
)
"""In the order of asking. `available` comes before all that is tried: where it is 'no' nothing else is."""


def _questions(device: DeviceInfo) -> list[Question]:
    return [q for q in QUESTIONS if device.capabilities.runs_kernels or not q.gpu]


def stated_cells(device: DeviceInfo) -> list[Cell]:
    """What the driver and the vendor state of every allocator of a device."""
    return [_stated(device, info, question) for info in device.allocators for question in _questions(device)]


def _stated(device: DeviceInfo, info: AllocatorInfo, question: Question) -> Cell:
    value, detail = question.stated(info)
    if nothing := question.means_nothing(info):
        value, detail = "", nothing
    if not info.available and question.tried and question.name != "available":
        value, detail = "", _GONE
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
                if works and question.tried_of(info):
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
