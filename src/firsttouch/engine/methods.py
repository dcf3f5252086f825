"""The properties of each allocator on a device: stated by its driver and vendor, and measured by trials.

A Question is one property. To add one, add a row to QUESTIONS and, if it can be measured, a trial to
engine/trials.py. Each trial runs in a separate process. If that crashes or hangs, the question's `fatal` answer
applies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import msgspec

from firsttouch.base.units import format_size
from firsttouch.engine.trials import TrialTask
from firsttouch.machine.allocators.properties import (
    allows_concurrent_parts,
    is_plain_host,
    moves_pages,
    needs_mapping,
    requested_pages,
)
from firsttouch.machine.allocators.semantics import SEMANTICS
from firsttouch.machine.pages import BASE_PAGE, HUGE_PAGE
from firsttouch.records.schema import AllocatorInfo, DeviceInfo, Struct
from firsttouch.workers.process import TaskResult, Worker

TIMEOUT = 20.0
"""Seconds after which a trial on an open device counts as hung."""

Origin: TypeAlias = Literal["measured", "stated", "unknown"]
StatedValue: TypeAlias = tuple[str, str]
"""A value ('' where nothing is stated) and a detail."""
_NOTHING: StatedValue = ("", "")
_NOT_APPLICABLE = "does not apply: "
_NOT_AVAILABLE = "not available"
_ONE_MEMORY = "host and device have one memory"
_ONE_AT_A_TIME = "memory that must be mapped belongs to one agent at a time (OpenCL 3.0, 3.3.3): not tried"


class Cell(Struct):
    """One property of one allocator on one device. stated: the answer of driver or vendor, null if there is none;
    detail: how the value was found, or why it is so or unknown; notes: those of the device.
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
    """Whether the measured value differs from the stated one, up to the first comma: in 'yes, 64 KiB' the size is not
    stated.
    """
    if cell.origin != "measured" or cell.stated is None or cell.value is None:
        return False
    return cell.value.partition(",")[0] != cell.stated.partition(",")[0]


def applies(cell: Cell) -> bool:
    """Whether the property applies to this allocator on this device."""
    return not cell.detail.startswith(_NOT_APPLICABLE) and cell.detail != _NOT_AVAILABLE


@dataclass(frozen=True)
class Question:
    """name: the property; stated: returns the answer of driver or vendor; tried: whether trials.py has a trial.

    fatal: the answer if the trial's process crashes or hangs, '' if that does not answer the question.
    gpu: whether only devices that run kernels have the property.
    needs: the agents that must be able to access the memory for the question to apply.
    direct: whether it is tried only if both agents use the memory by its address.
    in_one_memory: in place of `stated` on devices whose memory is the host's, where it depends on that.
    """

    name: str
    heading: str
    stated: Callable[[AllocatorInfo], StatedValue]
    tried: bool = False
    fatal: str = ""
    gpu: bool = False
    needs: tuple[Literal["cpu", "gpu"], ...] = ()
    direct: bool = False
    in_one_memory: Callable[[AllocatorInfo], StatedValue] | None = None

    def stated_on(self, device: DeviceInfo, info: AllocatorInfo) -> StatedValue:
        is_one = device.capabilities.shares_host_memory and self.in_one_memory is not None
        return (self.in_one_memory if is_one and self.in_one_memory else self.stated)(info)

    def reason_not_applicable(self, info: AllocatorInfo) -> str:
        """Why the question does not apply to an allocator, '' if it does."""
        lacking = next((agent for agent in self.needs if getattr(info, agent) == "none"), None)
        return f"{_NOT_APPLICABLE}the {lacking.upper()} is stated to have no access to it" if lacking else ""

    def has_trial_for(self, info: AllocatorInfo) -> bool:
        """Whether a trial can answer the question for an allocator that works."""
        by_address = info.cpu == "direct" and info.gpu == "direct"
        return self.tried and not self.reason_not_applicable(info) and (by_address or not self.direct)


def _availability_answer(info: AllocatorInfo) -> StatedValue:
    return ("yes", "") if info.available else ("no", info.reason)


def _allocation_answer(info: AllocatorInfo) -> StatedValue:
    return _NOTHING if info.on_demand is None else ("on-demand" if info.on_demand else "up-front", "")


def _page_answer(info: AllocatorInfo) -> StatedValue:
    """The page size that the allocator requests from the kernel, if it does."""
    if requested_pages(info.name) == "base":
        return format_size(BASE_PAGE), "requested from the kernel with MADV_NOHUGEPAGE"
    if requested_pages(info.name) == "huge":
        return format_size(HUGE_PAGE), "requested from the kernel with MADV_HUGEPAGE"
    return _NOTHING


def _answer_from_semantics(part: str) -> Callable[[AllocatorInfo], StatedValue]:
    return lambda info: (str(getattr(SEMANTICS.get(info.name), part, "")), "")


def _caching_answer(agent: str) -> Callable[[AllocatorInfo], StatedValue]:
    def stated(info: AllocatorInfo) -> StatedValue:
        semantics = SEMANTICS.get(info.name)
        if semantics is None:
            return _NOTHING
        return ("yes" if agent in semantics.cached else "no" if agent in semantics.uncached else "", "")

    return stated


def _concurrent_use_answer(fact: str, yes: str) -> Callable[[AllocatorInfo], StatedValue]:
    """The answer that a boolean field of AllocatorInfo states about concurrent use; `yes` is the word for True."""

    def stated(info: AllocatorInfo) -> StatedValue:
        answer = getattr(info, fact)
        return ("" if answer is None else yes if answer else "no", _ONE_AT_A_TIME if needs_mapping(info) else "")

    return stated


def _concurrent_parts_answer(info: AllocatorInfo) -> StatedValue:
    """Concurrent use of different parts, on which applications and experiments decide too."""
    answer = allows_concurrent_parts(info)
    return ("" if answer is None else "yes" if answer else "no", _ONE_AT_A_TIME if needs_mapping(info) else "")


def _migration_answer(info: AllocatorInfo) -> StatedValue:
    if needs_mapping(info):
        return "", "not stated; the CPU sees its pages only between map and unmap: not tried"
    moves = moves_pages(info)
    if moves is None:
        return _NOTHING
    return ("yes", "") if moves else ("no", "its pages are allocated up-front and do not move" if info.managed else "")


def _moves_in_one_memory(info: AllocatorInfo) -> StatedValue:
    if is_plain_host(info.name):
        return _answer_from_semantics("moves")(info)
    mapped = "; an OpenCL driver may copy at map and unmap" if needs_mapping(info) else ""
    return f"never: {_ONE_MEMORY}{mapped}", ""


def _migrates_in_one_memory(info: AllocatorInfo) -> StatedValue:
    return _migration_answer(info) if needs_mapping(info) or moves_pages(info) is None else ("no", _ONE_MEMORY)


def _concurrency_question(name: str, heading: str, stated: Callable[[AllocatorInfo], StatedValue]) -> Question:
    """A question about use by both agents while a kernel runs."""
    return Question(name, heading, stated, tried=True, fatal="no", gpu=True, needs=("cpu", "gpu"), direct=True)


QUESTIONS: Sequence[Question] = (
    Question("what", "what it is", _answer_from_semantics("call")),
    Question("available", "available", _availability_answer, tried=True, fatal="no"),
    Question("allocation", "pages come", _allocation_answer, tried=True),
    Question("cpu", "CPU access", lambda info: (info.cpu, ""), tried=True, fatal="none"),
    Question("gpu", "GPU access", lambda info: (info.gpu, info.gpu_reason), tried=True, fatal="none", gpu=True),
    Question("page", "host page", _page_answer, tried=True, needs=("cpu",)),
    Question("moves", "moves", _answer_from_semantics("moves"), in_one_memory=_moves_in_one_memory),
    Question("cached cpu", "cached CPU", _caching_answer("cpu"), tried=True, needs=("cpu",)),
    Question("cached gpu", "cached GPU", _caching_answer("gpu"), tried=True, needs=("gpu",), gpu=True),
    _concurrency_question("coherent", "coherent", _concurrent_use_answer("concurrent", "both")),
    _concurrency_question("concurrent", "at once", _concurrent_parts_answer),
    _concurrency_question("atomics", "atomics", _concurrent_use_answer("shared_atomics", "yes")),
    Question(
        *("migrates", "pages migrate", _migration_answer),
        tried=True,
        needs=("gpu",),
        direct=True,
        gpu=True,
        in_one_memory=_migrates_in_one_memory,
    ),
)
"""In the order of their trials. `available` comes first: if it is 'no', no other question is tried."""


def _questions(device: DeviceInfo) -> list[Question]:
    return [q for q in QUESTIONS if device.capabilities.runs_kernels or not q.gpu]


def stated_cells(device: DeviceInfo) -> list[Cell]:
    """The properties of all allocators of a device, as the driver and the vendor state them."""
    return [_stated_cell(device, info, question) for info in device.allocators for question in _questions(device)]


def _stated_cell(device: DeviceInfo, info: AllocatorInfo, question: Question) -> Cell:
    value, detail = question.stated_on(device, info)
    if reason := question.reason_not_applicable(info):
        value, detail = "", reason
    if not info.available and question.tried and question.name != "available":
        value, detail = "", _NOT_AVAILABLE
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


def verified_cells(devices: Sequence[DeviceInfo], on_cell: Callable[[Cell], None]) -> list[Cell]:
    """All cells of `devices`, measured by a trial where there is one. `on_cell` is called with each finished cell."""
    cells = []
    with _TrialWorkers() as workers:
        for cell in _verify_answers(devices, workers):
            on_cell(cell)
            cells.append(cell)
    return cells


def _verify_answers(devices: Iterable[DeviceInfo], workers: _TrialWorkers) -> Iterator[Cell]:
    for device in devices:
        for info in device.allocators:
            works = info.available
            for question in _questions(device):
                cell = _stated_cell(device, info, question)
                if works and question.has_trial_for(info):
                    cell = with_result(cell, question, workers.ask(device, info, question))
                    works = works and not (question.name == "available" and cell.value == "no")
                yield cell


def with_result(cell: Cell, question: Question, result: TaskResult) -> Cell:
    """A stated cell, updated with the result of its trial."""
    if result.reply is not None:
        value, detail = result.reply.value, result.reply.reason
    else:
        trial_started = result.last_state == "opened"
        value, detail = (question.fatal if trial_started else ""), result.reason
    if value:
        return msgspec.structs.replace(cell, value=value, origin="measured", detail=detail)
    cell.detail = f"not established: {detail}"
    return cell


class _TrialWorkers:
    """A worker that carries out each trial in a child of its own. A trial that fails ends it, and another starts."""

    def __init__(self) -> None:
        self._worker: Worker | None = None
        self._environment: dict[str, str] = {}

    def __enter__(self) -> _TrialWorkers:
        return self

    def __exit__(self, *_: object) -> None:
        if self._worker is not None:
            self._worker.kill()

    def ask(self, device: DeviceInfo, info: AllocatorInfo, question: Question) -> TaskResult:
        if self._worker is not None and device.environment != self._environment:
            self._worker.kill()
            self._worker = None
        self._environment = device.environment
        self._worker = self._worker or Worker(device.environment)
        result = self._worker.ask(
            TrialTask(device=device, allocator=info.name, question=question.name), timeout=TIMEOUT
        )
        if result.outcome != "done":  # the worker was killed
            self._worker = None
        return result
