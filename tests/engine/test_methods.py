"""methods --verify on the devices of this machine, and the answers after a trial's process crashes."""

from __future__ import annotations

import os
import re
from typing import Any

import pytest
from msgspec.structs import replace
from tests.fabricated import MACHINES
from tests.matrix import matrix

from firsttouch import _core
from firsttouch.engine import methods, trials
from firsttouch.engine.discover import discover_devices
from firsttouch.engine.methods import QUESTIONS, Cell, applies, disagrees, stated_cells, verified_cells, with_result
from firsttouch.engine.trials import TrialTask
from firsttouch.machine.allocators.properties import allows_concurrent_parts
from firsttouch.machine.allocators.semantics import SEMANTICS
from firsttouch.records.schema import AllocatorInfo, DeviceCapabilities, DeviceInfo
from firsttouch.workers.process import TaskResult, Worker
from firsttouch.workers.protocol import Reply

Found = dict[tuple[str, str], Cell]
BY_DEFAULT = {"cpu": ("malloc", "mmap"), "opencl": ("malloc", "device", "svm-atomic")}
"""The allocators that are verified, by kind of device; all are in exhaustive runs."""
BY_NAME = {question.name: question for question in QUESTIONS}


@pytest.fixture(scope="module")
def devices() -> list[DeviceInfo]:
    return discover_devices(BY_DEFAULT)


def _verified(kind: str, devices: list[DeviceInfo]) -> Found:
    device = next((device for device in devices if device.kind == kind and device.available), None)
    if device is None:
        pytest.skip(f"no {kind} device here")
    if not os.environ.get("FIRSTTOUCH_EXHAUSTIVE"):
        device = replace(device, allocators=[entry for entry in device.allocators if entry.name in BY_DEFAULT[kind]])
    seen: list[Cell] = []
    cells = verified_cells([device], seen.append)
    assert cells == seen
    return {(cell.allocator, cell.property): cell for cell in cells}


@pytest.fixture(scope="module")
def cpu(devices: list[DeviceInfo]) -> Found:
    return _verified("cpu", devices)


@pytest.fixture(scope="module")
def opencl(devices: list[DeviceInfo]) -> Found:
    return _verified("opencl", devices)


@pytest.mark.parametrize("allocator", ["malloc", "mmap"])
def test_plain_host_memory(cpu: Found, allocator: str) -> None:
    expected = {"available": "yes", "cpu": "direct", "allocation": "on-demand"}
    assert {p: cpu[allocator, p].value for p in expected} == expected
    assert {cpu[allocator, p].origin for p in expected} == {"measured"}


def test_mmap_has_the_page_size_that_it_requests(cpu: Found) -> None:
    cell = cpu["mmap", "page"]
    assert (cell.value, cell.stated, cell.origin) == ("4 KiB", "4 KiB", "measured")


def test_the_cpu_has_no_gpu(cpu: Found) -> None:
    assert "gpu" not in {property for _, property in cpu}


@pytest.mark.parametrize(
    "allocator", matrix(["device", "svm-atomic", "svm-fine", "pinned", "registered", "svm-coarse"], 2)
)
def test_opencl_memory(opencl: Found, allocator: str) -> None:
    if opencl[allocator, "available"].stated == "no":
        pytest.skip(opencl[allocator, "available"].detail)
    assert opencl[allocator, "available"].origin == "measured"
    assert opencl[allocator, "gpu"].value == "direct"
    assert opencl[allocator, "gpu"].origin == "measured"
    assert opencl[allocator, "cpu"].value == ("direct" if allocator in ("svm-atomic", "svm-fine") else "mapped")


def test_access_that_the_driver_denies_is_tried(opencl: Found) -> None:
    cell = opencl["malloc", "gpu"]
    if cell.stated != "none":
        pytest.skip("this driver states that kernels can access malloc")
    assert cell.origin == "measured"
    assert cell.value in ("direct", "none")
    assert disagrees(cell) == (cell.value == "direct")


def test_measured_sharing_agrees_with_the_driver(opencl: Found) -> None:
    if opencl["svm-atomic", "available"].stated == "no":
        pytest.skip(opencl["svm-atomic", "available"].detail)
    expected = {"coherent": "both", "concurrent": "yes", "atomics": "yes", "migrates": "no"}
    cells = {p: opencl["svm-atomic", p] for p in expected}
    assert {p: cell.value for p, cell in cells.items()} == expected, cells
    assert {cell.origin for cell in cells.values()} == {"measured"}
    assert not any(map(disagrees, cells.values()))
    assert re.search(r"\d+ questions were answered in \S+ (ns|us|ms) each", cells["coherent"].detail)


def test_concurrent_use_of_mapped_memory_is_not_tried(opencl: Found) -> None:
    for name in ("coherent", "concurrent", "atomics"):
        cell = opencl["device", name]
        assert (cell.value, cell.origin) == ("no", "stated")
        assert "not tried" in cell.detail
    assert opencl["device", "migrates"].origin == "unknown"


def test_the_cpu_caches_its_memory(cpu: Found, opencl: Found) -> None:
    for cells, allocator, agent in [(cpu, "malloc", "cpu"), (cpu, "mmap", "cpu"), (opencl, "device", "gpu")]:
        cell = cells[allocator, f"cached {agent}"]
        assert (cell.value, cell.stated, cell.origin) == ("yes", "yes", "measured"), cell.detail
        assert len(re.findall(r"[\d.]+ (?:ns|us|ms)\b", cell.detail)) == 2, "the detail has both times"


def test_questions_do_not_apply_without_access(opencl: Found) -> None:
    if opencl["malloc", "gpu"].stated != "none":
        pytest.skip("this driver states that kernels can access malloc")
    for name in ("cached gpu", "coherent", "concurrent", "atomics", "migrates"):
        cell = opencl["malloc", name]
        assert (cell.value, cell.origin) == (None, "unknown")
        assert not applies(cell)
    assert applies(opencl["malloc", "cached cpu"])


A_GPU = DeviceCapabilities(runs_kernels=True, gpu_hierarchy=True, time_class="gpu")
DEVICE = DeviceInfo(
    name="cpu",
    kind="cpu",
    title="here",
    allocators=[
        AllocatorInfo(name="malloc", available=True, cpu="direct", on_demand=True),
        AllocatorInfo(name="device", available=False, reason="the driver said no", cpu="none"),
    ],
)


FAILING_TRIALS = """
import os, time
from firsttouch.engine import trials
trials.TRIALS["crash"] = (lambda bench: os.kill(os.getpid(), 11), "")
trials.TRIALS["hang"] = (lambda bench: time.sleep(60), "")
"""


@pytest.fixture(scope="module")
def failing_trials(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a worker with two further trials, of which one crashes and one hangs."""
    folder = tmp_path_factory.mktemp("trials")
    (folder / "sitecustomize.py").write_text(FAILING_TRIALS)
    return {"PYTHONPATH": os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])}


@pytest.fixture(scope="module")
def crash(failing_trials: dict[str, str]) -> TaskResult:
    return _ask("crash", **failing_trials)


def _ask(question: str, *, device: DeviceInfo = DEVICE, timeout: float = 20.0, **environment: str) -> TaskResult:
    worker = Worker(environment)
    try:
        return worker.ask(TrialTask(device=device, allocator="malloc", question=question), timeout=timeout)
    finally:
        worker.kill()


def _stated(question: str) -> Cell:
    (cell,) = [c for c in stated_cells(DEVICE) if (c.allocator, c.property) == ("malloc", question)]
    return cell


@pytest.mark.parametrize(("question", "value"), [("cpu", "none"), ("available", "no"), ("allocation", "on-demand")])
def test_a_crashing_trial_answers_no(crash: TaskResult, question: str, value: str) -> None:
    cell = with_result(_stated(question), BY_NAME[question], crash)
    assert cell.value == value
    assert "SIGSEGV" in cell.detail
    if question == "allocation":
        assert (cell.origin, cell.detail[:16]) == ("stated", "not established:")
    else:
        assert cell.origin == "measured"
        assert disagrees(cell)


def test_a_hanging_trial_answers_no(failing_trials: dict[str, str]) -> None:
    answer = _ask("hang", timeout=0.5, **failing_trials)
    assert answer.outcome == "timeout"
    assert with_result(_stated("cpu"), BY_NAME["cpu"], answer).value == "none"


def test_a_device_that_does_not_open_is_no_answer() -> None:
    missing = DeviceInfo(name="cpus", kind="cpu", title="", allocators=DEVICE.allocators)
    answer = _ask("cpu", device=missing)
    assert answer.reply is not None
    assert answer.reply.value == ""
    assert "'cpus' is not a device" in answer.reply.reason


def test_a_crash_before_the_device_opened_is_no_answer() -> None:
    cell = with_result(_stated("cpu"), BY_NAME["cpu"], TaskResult("crashed", "opening", reason="ended by SIGSEGV"))
    assert (cell.value, cell.origin) == ("direct", "stated")
    assert cell.detail == "not established: ended by SIGSEGV"


def test_memory_that_the_guard_refuses_is_no_answer() -> None:
    reply = _ask("cpu", FIRSTTOUCH_MAX_HOST="1MiB").reply
    assert reply is not None
    assert reply.value == ""
    assert "FIRSTTOUCH_MAX_HOST" in reply.reason


def test_trials_use_smaller_buffers_under_a_small_limit() -> None:
    reply = _ask("page", FIRSTTOUCH_MAX_HOST="20MiB").reply
    assert reply is not None
    assert reply.value.endswith("iB")


def test_no_trials_of_allocators_that_are_unavailable_or_do_not_work(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    class AllWrong:
        """A worker whose trials find wrong data."""

        def ask(self, task: TrialTask, timeout: float) -> TaskResult:
            asked.append((task.allocator, task.question))
            return TaskResult("done", "opened", Reply(state="done", value="no", reason="all wrong"))

        def kill(self) -> None: ...

    monkeypatch.setattr(methods, "Worker", lambda environment: AllWrong())
    cells = {(c.allocator, c.property): c for c in verified_cells([DEVICE], lambda _: None)}
    assert asked == [("malloc", "available")]
    assert (cells["malloc", "cpu"].value, cells["malloc", "cpu"].origin) == ("direct", "stated")
    assert cells["device", "available"].detail == "the driver said no"
    assert (cells["device", "cpu"].value, cells["device", "cpu"].origin) == (None, "unknown")


def test_every_question_that_is_tried_has_a_trial() -> None:
    assert {q.name for q in QUESTIONS if q.tried} <= set(trials.TRIALS)


def test_semantics_has_every_allocator(devices: list[DeviceInfo]) -> None:
    for device in devices:
        assert {a.name for a in device.allocators} <= set(SEMANTICS)


def test_on_demand_needs_a_touch(monkeypatch: pytest.MonkeyPatch) -> None:
    """An allocation is up-front if the call touches the pages."""
    info = DEVICE.allocators[0]
    context = trials.TrialContext(DEVICE, info, trials.open_device("cpu"))
    assert trials.allocation(context)[0] == "on-demand"
    plain = context.allocate

    def eager(size: int = 1 << 22) -> object:
        buffer = plain(size)
        buffer.fill(1, "cpu")
        return buffer

    monkeypatch.setattr(context, "allocate", eager)
    assert trials.allocation(context)[0] == "up-front"


SVM = AllocatorInfo(name="managed", available=True, cpu="direct", gpu="direct", managed=True)
MiB = 1 << 20


def _found(monkeypatch: pytest.MonkeyPatch, question: str, native: str, **found: Any) -> trials.TrialResult:
    """The answer of a trial if the native function returns `found`."""
    monkeypatch.setattr(_core, native, lambda *_: found)
    context = trials.TrialContext(DEVICE, SVM, trials.open_device("cpu"))
    monkeypatch.setattr(context, "allocate", lambda size=MiB: trials.open_device("cpu").allocate("malloc", size))
    return trials.TRIALS[question][0](context)


@pytest.mark.parametrize(
    ("gpu", "cpu", "answered", "value"),
    [(9, 9, 50, "both"), (9, 0, 0, "gpu sees cpu"), (0, 9, 0, "cpu sees gpu"), (0, 0, 0, "no"), (9, 9, 49, "")],
)
def test_coherence_is_evaluated_for_each_direction(
    monkeypatch: pytest.MonkeyPatch, gpu: int, cpu: int, answered: int, value: str
) -> None:
    rounds = 50 if gpu and cpu else 0
    seen = {"gpu_saw": gpu, "cpu_saw": cpu, "rounds": rounds, "answered": answered, "round_trip_ns": 1500.0}
    found, how = _found(monkeypatch, "coherent", "try_coherence", **seen)
    assert found == value
    assert f"the GPU saw {gpu} and the CPU {cpu} changes" in how


@pytest.mark.parametrize(("total", "mixed", "value"), [(300, 80, "yes"), (299, 80, "no"), (300, 3, "")])
def test_one_lost_addition_answers_no(monkeypatch: pytest.MonkeyPatch, total: int, mixed: int, value: str) -> None:
    counts = {"by_cpu": 100, "by_gpu": 200, "sum": total, "mixed": mixed}
    found, how = _found(monkeypatch, "atomics", "try_shared_adds", **counts)
    assert found == value
    assert ("1 additions were lost" in how) == (value == "no")


@pytest.mark.parametrize(("errors", "passes", "value"), [(0, 5, "yes"), (1, 5, "no"), (0, 0, "")])
def test_concurrent_halves_must_be_correct_and_overlap_in_time(
    monkeypatch: pytest.MonkeyPatch, errors: int, passes: int, value: str
) -> None:
    seen = {"errors": errors, "cpu_passes": passes, "gpu_passes": 7, "seconds": 0.04}
    assert _found(monkeypatch, "concurrent", "try_halves", **seen)[0] == value


@pytest.mark.parametrize(
    ("one", "region", "everything", "nodes", "value", "words"),
    [
        (16, 16, 2048, (0, 0), "yes, 64 KiB", "removed 64 KiB from the CPU's page tables"),
        (512, 512, 2048, (0, 0), "yes, 2 MiB", "returned 100%"),
        (0, 0, 2048, (0, 0), "yes", "touching every page removed 100%"),
        (0, 0, 0, (0, 0), "no", "all 8 MiB stayed"),
        (0, 0, 0, (0, 1), "yes", "NUMA node 0 to 1"),
        (0, 0, 0, (None, 1), "no", "all 8 MiB stayed"),
    ],
)
def test_pages_that_left_the_page_tables_migrated(
    monkeypatch: pytest.MonkeyPatch,
    one: int,
    region: int,
    everything: int,
    nodes: tuple[int | None, int],
    value: str,
    words: str,
) -> None:
    moves = {
        "page_bytes": 4096,
        "pages": 2048,
        "present": 2048,
        "touched": 1280,
        "left_by_one": one,
        "region": region,
        "region_first": 1280,
        "left_by_all": everything,
        "back": 2048,
        "node_before": nodes[0],
        "node_by_all": nodes[1],
        "errors": 0,
    }
    found, how = _found(monkeypatch, "migrates", "try_moves", **moves)
    assert found == value
    assert words in how


@pytest.mark.parametrize(("value", "stated", "expected"), [("yes, 64 KiB", "yes", False), ("no", "yes", True)])
def test_a_measured_granularity_is_not_a_disagreement(value: str, stated: str, expected: bool) -> None:
    cell = Cell(device="d", allocator="a", property="migrates", value=value, origin="measured", stated=stated)
    assert disagrees(cell) == expected


@pytest.mark.parametrize(
    ("name", "concurrent", "atomics", "stated"),
    [
        ("managed", False, False, {"coherent": "no", "concurrent": "no", "atomics": "no", "migrates": "yes"}),
        ("managed", True, True, {"coherent": "both", "concurrent": "yes", "atomics": "yes", "migrates": "yes"}),
        ("pinned", True, False, {"coherent": "both", "concurrent": "yes", "atomics": "no", "migrates": "no"}),
        ("svm-fine", False, False, {"coherent": "no", "concurrent": "yes", "atomics": "no", "migrates": None}),
        ("malloc", None, None, {"coherent": None, "concurrent": None, "atomics": None, "migrates": None}),
    ],
)
def test_stated_answers_about_concurrent_use_and_the_answers_of_a_crash(
    name: str, concurrent: bool | None, atomics: bool | None, stated: dict[str, str | None]
) -> None:
    info = AllocatorInfo(
        name=name, available=True, cpu="direct", gpu="direct", concurrent=concurrent, shared_atomics=atomics
    )
    device = DeviceInfo(name="gpu:0", kind="some", title="a GPU", capabilities=A_GPU, allocators=[info])
    cells = {cell.property: cell for cell in stated_cells(device)}
    assert {p: cells[p].value for p in stated} == stated
    assert all(BY_NAME[p].has_trial_for(info) for p in stated), "tried whatever is stated"
    for p in ("coherent", "concurrent", "atomics"):
        crashed = with_result(cells[p], BY_NAME[p], TaskResult("crashed", "opened", reason="worker ended by SIGSEGV"))
        assert (crashed.value, crashed.origin) == ("no", "measured")
        assert disagrees(crashed) == (stated[p] in ("yes", "both"))
    assert with_result(cells["migrates"], BY_NAME["migrates"], TaskResult("crashed", "opened")).origin != "measured"


@pytest.mark.parametrize(
    ("machine", "allocator", "parts"),
    [
        ("mi300a", "pinned-noncoherent", "yes"),  # not coherent while a kernel runs, and used in parts all the same
        ("kaveri", "svm-fine", "yes"),
        ("kaveri", "svm-coarse", "no"),
        ("tk1", "managed", "no"),
        ("tk1", "pinned", "yes"),
        ("kaveri-hsa", "malloc", "yes"),
    ],
)
def test_the_stated_use_in_parts_is_what_plans_decide_on(machine: str, allocator: str, parts: str) -> None:
    device = MACHINES[machine].devices[-1]
    (cell,) = [c for c in stated_cells(device) if (c.allocator, c.property) == (allocator, "concurrent")]
    assert cell.value == parts
    info = device.allocator(allocator)
    assert info is not None
    assert allows_concurrent_parts(info) == (parts == "yes")


@pytest.mark.parametrize("machine", [name for name in MACHINES if MACHINES[name].devices[-1].kind != "cpu"])
def test_nothing_is_said_to_cross_a_link_or_to_migrate_where_host_and_device_have_one_memory(machine: str) -> None:
    for device in MACHINES[machine].devices:
        cells = {(c.allocator, c.property): c.value or "" for c in stated_cells(device)}
        says = [cells[a, "moves"] for a in {allocator for allocator, _ in cells}]
        migrates = {value for (_, name), value in cells.items() if name == "migrates"}
        if device.capabilities.shares_host_memory:
            assert not any("link" in text or "follow" in text for text in says), device.name
            assert "yes" not in migrates
        elif device.capabilities.page_migration:
            assert any("over the link" in text for text in says), device.name
            assert "yes" in migrates
