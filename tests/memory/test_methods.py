"""methods --verify on the devices that are here, and what the death of a trial's process means."""

from __future__ import annotations

from pathlib import Path

import pytest

from firsttouch.memory import methods, trials
from firsttouch.memory.allocators import MEANINGS
from firsttouch.memory.methods import QUESTIONS, Cell, disagrees, judge, stated_cells, verified_cells
from firsttouch.run.discover import discover_devices
from firsttouch.run.process import Answer, Worker
from firsttouch.run.worker import Reply, Try
from firsttouch.schema import AllocatorInfo, DeviceInfo

Found = dict[tuple[str, str], Cell]
BY_NAME = {question.name: question for question in QUESTIONS}


def _verified(kind: str) -> Found:
    devices = [device for device in discover_devices([kind]) if device.available]
    if not devices:
        pytest.skip(f"no {kind} device here")
    seen: list[Cell] = []
    cells = verified_cells(devices[:1], seen.append)
    assert cells == seen
    return {(cell.allocator, cell.property): cell for cell in cells}


@pytest.fixture(scope="module")
def cpu() -> Found:
    return _verified("cpu")


@pytest.fixture(scope="module")
def opencl() -> Found:
    return _verified("opencl")


@pytest.mark.parametrize("allocator", ["malloc", "mmap"])
def test_plain_host_memory(cpu: Found, allocator: str) -> None:
    expected = {"available": "yes", "cpu": "direct", "allocation": "on-demand"}
    assert {p: cpu[allocator, p].value for p in expected} == expected
    assert {cpu[allocator, p].origin for p in expected} == {"measured"}


def test_the_page_size_is_what_mmap_asks_for(cpu: Found) -> None:
    cell = cpu["mmap", "page"]
    assert (cell.value, cell.stated, cell.origin) == ("4 KiB", "4 KiB", "measured")


def test_the_cpu_has_no_gpu(cpu: Found) -> None:
    assert "gpu" not in {property for _, property in cpu}


@pytest.mark.parametrize("allocator", ["device", "pinned", "registered", "svm-coarse", "svm-fine"])
def test_opencl_memory(opencl: Found, allocator: str) -> None:
    if opencl[allocator, "available"].stated == "no":
        pytest.skip(opencl[allocator, "available"].detail)
    assert opencl[allocator, "available"].origin == "measured"
    assert opencl[allocator, "gpu"].value == "direct"
    assert opencl[allocator, "gpu"].origin == "measured"
    assert opencl[allocator, "cpu"].value == ("direct" if allocator == "svm-fine" else "mapped")


def test_what_the_driver_denies_is_tried(opencl: Found) -> None:
    cell = opencl["malloc", "gpu"]
    if cell.stated != "none":
        pytest.skip("this driver states that kernels reach malloc")
    assert cell.origin == "measured"
    assert cell.value in ("direct", "none")
    assert disagrees(cell) == (cell.value == "direct")


DEVICE = DeviceInfo(
    name="cpu",
    kind="cpu",
    title="here",
    allocators=[
        AllocatorInfo(name="malloc", available=True, cpu="direct", on_demand=True),
        AllocatorInfo(name="device", available=False, reason="the driver said no", cpu="none"),
    ],
)


ILL = """
import os, time
from firsttouch.memory import trials
trials.TRIALS["crash"] = (lambda bench: os.kill(os.getpid(), 11), "")
trials.TRIALS["hang"] = (lambda bench: time.sleep(60), "")
"""


@pytest.fixture
def ill(tmp_path: Path) -> dict[str, str]:
    """The environment of a worker that knows two trials more, which end badly."""
    (tmp_path / "sitecustomize.py").write_text(ILL)
    return {"PYTHONPATH": str(tmp_path)}


def _ask(question: str, *, device: DeviceInfo = DEVICE, timeout: float = 20.0, **environment: str) -> Answer:
    worker = Worker(environment)
    try:
        return worker.ask(Try(device=device, allocator="malloc", question=question), timeout=timeout)
    finally:
        worker.kill()


def _stated(question: str) -> Cell:
    (cell,) = [c for c in stated_cells(DEVICE) if (c.allocator, c.property) == ("malloc", question)]
    return cell


@pytest.mark.parametrize(("question", "value"), [("cpu", "none"), ("available", "no"), ("allocation", "on-demand")])
def test_a_trial_that_crashes_is_a_no(ill: dict[str, str], question: str, value: str) -> None:
    cell = judge(_stated(question), BY_NAME[question], _ask("crash", **ill))
    assert cell.value == value
    assert "SIGSEGV" in cell.detail
    if question == "allocation":
        assert (cell.origin, cell.detail[:16]) == ("stated", "not established:")
    else:
        assert cell.origin == "measured"
        assert disagrees(cell)


def test_a_trial_that_hangs_is_a_no(ill: dict[str, str]) -> None:
    answer = _ask("hang", timeout=0.5, **ill)
    assert answer.how == "timeout"
    assert judge(_stated("cpu"), BY_NAME["cpu"], answer).value == "none"


def test_a_device_that_does_not_open_leaves_the_question_open() -> None:
    gone = DeviceInfo(name="cpus", kind="cpu", title="", allocators=DEVICE.allocators)
    answer = _ask("cpu", device=gone)
    assert answer.reply is not None
    assert answer.reply.value == ""
    assert "'cpus' is not a device" in answer.reply.reason


def test_death_before_the_device_opened_leaves_the_question_open() -> None:
    cell = judge(_stated("cpu"), BY_NAME["cpu"], Answer("crashed", "opening", reason="worker ended by SIGSEGV"))
    assert (cell.value, cell.origin) == ("direct", "stated")
    assert cell.detail == "not established: worker ended by SIGSEGV"


def test_a_refused_limit_leaves_the_question_open() -> None:
    reply = _ask("cpu", FIRSTTOUCH_MAX_HOST="1MiB").reply
    assert reply is not None
    assert reply.value == ""
    assert "FIRSTTOUCH_MAX_HOST" in reply.reason


def test_less_is_touched_where_the_guard_permits_less() -> None:
    reply = _ask("page", FIRSTTOUCH_MAX_HOST="20MiB").reply
    assert reply is not None
    assert reply.value.endswith("iB")


def test_nothing_is_tried_of_what_is_unavailable_or_does_not_work(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def ask(self: object, device: DeviceInfo, info: AllocatorInfo, question: methods.Question) -> Answer:
        asked.append((info.name, question.name))
        return Answer("done", "opened", Reply(event="done", value="no", reason="all wrong"))

    monkeypatch.setattr(methods._Throwaways, "ask", ask)
    cells = {(c.allocator, c.property): c for c in verified_cells([DEVICE], lambda _: None)}
    assert asked == [("malloc", "available")]
    assert (cells["malloc", "cpu"].value, cells["malloc", "cpu"].origin) == ("direct", "stated")
    assert cells["device", "available"].detail == "the driver said no"
    assert (cells["device", "cpu"].value, cells["device", "cpu"].origin) == (None, "unknown")


def test_every_question_that_is_tried_has_a_trial() -> None:
    assert {q.name for q in QUESTIONS if q.tried} <= set(trials.TRIALS)


def test_every_allocator_has_a_meaning() -> None:
    for device in discover_devices(["cpu", "opencl"]):
        assert {a.name for a in device.allocators} <= set(MEANINGS)


def test_on_demand_needs_a_touch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that takes the pages itself is up-front."""
    info = DEVICE.allocators[0]
    bench = trials.Bench(DEVICE, info, trials.open_device("cpu"))
    assert trials.allocation(bench)[0] == "on-demand"
    plain = bench.allocate

    def eager(size: int = 1 << 22) -> object:
        buffer = plain(size)
        buffer.fill(1, "cpu")
        return buffer

    monkeypatch.setattr(bench, "allocate", eager)
    assert trials.allocation(bench)[0] == "up-front"
