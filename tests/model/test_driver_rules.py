"""The rules of drivers against their sources. Each row names the file that it follows, and the release."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest

from firsttouch.model.rules import access_counters, ats, eviction, linux, thrashing
from firsttouch.model.rules.access_counters import MovedMemory, Translation
from firsttouch.model.rules.releases import parse_release

KIB, MIB = 2**10, 2**20
CONSTANTS: list[tuple[str, str, Any, str]] = [
    ("eviction", "DISCARDED_SINCE", ((580, 65, 6),), "uvm_pmm_gpu.c, va_block_discarded (absent in 575.64.05)"),
    ("access_counters", "RANGE_BYTES", 2 * MIB, "UVM_PERF_ACCESS_COUNTER_GRANULARITY (550.40.07 to 595.45.04)"),
    ("access_counters", "THRESHOLD", 256, "UVM_PERF_ACCESS_COUNTER_THRESHOLD_DEFAULT (515.43.04 to 595.45.04)"),
    ("access_counters", "UNSERVED_PAGE", 4 * KIB, "service_virt_notifications, Bug 4299018 (550.54.15)"),
    ("ats", "WINDOW_BYTES", 2 * MIB, "uvm_va_block_types.h, UVM_VA_BLOCK_SIZE (515.43.04 to 595.45.04)"),
    ("ats", "TREE_SINCE", ((535, 104, 5),), "uvm_ats_faults.c, uvm_perf_prefetch_compute_ats (absent in 535.98)"),
    ("thrashing", "LAPSE_NS", 500_000, "UVM_PERF_THRASHING_LAPSE_USEC_DEFAULT (515.43.04 to 595.45.04)"),
    ("thrashing", "THRESHOLD", 3, "UVM_PERF_THRASHING_THRESHOLD_DEFAULT (515.43.04 to 595.45.04)"),
    ("thrashing", "MOST_EVENTS", 7, "PAGE_THRASHING_NUM_EVENTS_BITS (515.43.04 to 595.45.04)"),
    ("thrashing", "PIN_THRESHOLD", 10, "UVM_PERF_THRASHING_PIN_THRESHOLD_DEFAULT (515.43.04 to 595.45.04)"),
    ("thrashing", "NAP_NS", 500_000, "UVM_PERF_THRASHING_NAP_DEFAULT (515.43.04 to 595.45.04)"),
    ("thrashing", "OVERSLEEP", 1.5, "uvm_va_space.c, usleep_range in uvm_va_space_cpu_fault (515.43.04 to 595.45.04)"),
    ("thrashing", "PIN_NS", 150_000_000, "UVM_PERF_THRASHING_PIN_DEFAULT (515.43.04 to 595.45.04)"),
    ("kfd", "PAGE_BYTES", 4 * KIB, "AMDGPU_GPU_PAGE_SIZE, amdgpu_vm.h (Linux 6.8)"),
    ("kfd", "WINDOW_ORDER", 9, "kfd_svm.c, svm_range_set_default_attributes (Linux 6.8)"),
]


@pytest.mark.parametrize(("module", "name", "value", "source"), CONSTANTS, ids=[f"{m}.{n}" for m, n, _, _ in CONSTANTS])
def test_constants_are_those_of_their_source(module: str, name: str, value: Any, source: str) -> None:
    assert getattr(import_module(f"firsttouch.model.rules.{module}"), name) == value, source


@pytest.mark.parametrize(
    ("release", "translation", "page", "memory", "moves"),
    [
        ("550.54.15", "arm", 64 * KIB, "system", True),
        ("550.54.15", "arm", 4 * KIB, "system", False),
        ("595.45.04", "arm", 4 * KIB, "managed", False),
        ("595.45.04", "arm", 64 * KIB, "managed", True),
        ("550.40.07", "arm", 64 * KIB, "system", False),
        ("550.40.07", "ibm", 64 * KIB, "system", True),
        ("550.40.53", "arm", 64 * KIB, "system", True),
        ("545.29.02", "arm", 64 * KIB, "system", False),
        ("545.29.02", "ibm", 64 * KIB, "managed", True),
        ("535.171.04", "arm", 64 * KIB, "system", True),
        ("535.161.08", "arm", 64 * KIB, "system", False),
        ("535.129.03", "ibm", 4 * KIB, "managed", False),
        ("535.113.01", "ibm", 4 * KIB, "managed", True),
        ("560.28.03", "none", 64 * KIB, "managed", False),
        ("555.42.02", "arm", 64 * KIB, "system", True),
    ],
)
def test_access_counters_move_pages(
    release: str, translation: Translation, page: int, memory: MovedMemory, moves: bool
) -> None:
    """uvm_gpu_access_counters.c: is_migration_enabled, service_notifications and uvm_ats_service_access_counters."""
    assert access_counters.counters_migrate(parse_release(release), translation, page, memory) == moves


def test_a_range_is_notified_by_its_accesses() -> None:
    assert [access_counters.notifications(n) for n in (255, 256, 1024)] == [0, 1, 4]


@pytest.mark.parametrize(
    ("present", "pages", "after"),
    [(0, 32, 1), (1, 32, 2), (2, 32, 4), (4, 32, 8), (8, 32, 16), (16, 32, 32), (32, 32, 32), (5, 32, 8), (0, 1, 1)],
)
def test_a_notification_moves_a_page_and_what_the_tree_takes_along(present: int, pages: int, after: int) -> None:
    """uvm_ats_faults.c, uvm_ats_service_access_counters (550.54.15)."""
    assert access_counters.present_after(present, pages) == after


@pytest.mark.parametrize(
    ("release", "lists"),
    [
        ("575.64.05", ("free", "unused", "used")),
        ("580.65.06", ("free", "unused", "discarded", "used")),
        ("595.45.04", ("free", "unused", "discarded", "used")),
    ],
)
def test_chunks_are_evicted_from_lists_in_order(release: str, lists: tuple[str, ...]) -> None:
    """uvm_pmm_gpu.c, pick_root_chunk_to_evict."""
    assert eviction.chunk_lists(parse_release(release)) == lists


@pytest.mark.parametrize(
    ("release", "accessed_by", "preferred", "counts_accesses", "counters_enabled", "kept"),
    [
        ("595.45.04", True, False, False, False, True),
        ("595.45.04", False, False, True, True, True),
        ("515.43.04", False, False, True, True, True),
        ("418.67", False, False, True, True, False),
        ("418.67", True, False, True, True, True),
        ("595.45.04", False, False, True, False, False),
        ("595.45.04", False, False, False, True, False),
        ("595.45.04", False, True, True, True, False),
        ("595.45.04", True, True, True, True, False),
    ],
)
def test_evicted_pages_stay_mapped(
    release: str, accessed_by: bool, preferred: bool, counts_accesses: bool, counters_enabled: bool, kept: bool
) -> None:
    """uvm_va_block.c, uvm_va_block_evict_chunks, uvm_va_space_map_remote_on_eviction (515.43.04, 595.45.04)."""
    how = {"accessed_by": accessed_by, "preferred": preferred}
    how |= {"counts_accesses": counts_accesses, "counters_enabled": counters_enabled}
    assert eviction.keeps_mapping(parse_release(release), **how) == kept


@pytest.mark.parametrize(
    ("start", "end", "base", "huge", "pages"),
    [
        (0, 2 * MIB, 4 * KIB, 0, (512, 0)),
        (0, 2 * MIB, 4 * KIB, 2 * MIB, (0, 1)),
        (4096, 4 * MIB, 4 * KIB, 2 * MIB, (511, 1)),
        (4096, 2 * MIB, 4 * KIB, 2 * MIB, (511, 0)),
        (1, 65537, 64 * KIB, 512 * MIB, (2, 0)),
    ],
)
def test_a_first_touch_by_the_cpu_makes_pages(
    start: int, end: int, base: int, huge: int, pages: tuple[int, int]
) -> None:
    """mm/memory.c, do_anonymous_page; mm/huge_memory.c, do_huge_pmd_anonymous_page (Linux 6.8)."""
    touched = linux.first_touch(start, end, base, huge)
    assert (touched.base, touched.huge) == pages
    assert touched.zeroed_bytes == touched.base * base + touched.huge * huge
    assert touched.faults == sum(pages)


@pytest.mark.parametrize(
    ("setting", "advised", "huge"),
    [("always", False, True), ("madvise", False, False), ("madvise", True, True), ("never", True, False)],
)
def test_the_setting_of_huge_pages_decides(setting: linux.HugePages, advised: bool, huge: bool) -> None:
    """include/linux/huge_mm.h (Linux 6.8)."""
    assert linux.gets_huge_pages(setting, advised=advised) == huge


@pytest.mark.parametrize(
    ("release", "pages", "services"),
    [
        ("550.54.15", 512, 17),
        ("550.54.15", 32, 6),
        ("550.54.15", 16, 5),
        ("535.104.05", 24, 6),
        ("535.98", 32, 32),
        ("535.98", 412, 412),
    ],
)
def test_first_touches_in_order_by_a_gpu_are_serviced(release: str, pages: int, services: int) -> None:
    """uvm_ats_faults.c, ats_compute_prefetch; uvm_perf_prefetch.c, compute_prefetch_mask."""
    assert ats.services(pages, parse_release(release)) == services


def turns(count: int, serviced: dict[thrashing.Agent, float], **how: bool) -> list[str]:
    """What is done about faults of CPU and GPU in turns on a page, 20 us after each other."""
    history, now, resident, done = thrashing.PageHistory(), 0.0, "cpu", list[str]()
    agent: thrashing.Agent = "gpu"
    while len(done) < count:
        todo, history = thrashing.hint(history, now, agent, resident, **{"cpu_reaches_gpu": False, **how})  # type: ignore[arg-type]
        done.append(todo.kind + (f" {todo.place}" if todo.place else ""))
        if todo.kind == "nap":
            now = todo.until + 1
            continue
        now += serviced[agent]
        if todo.kind == "none":
            history, resident = thrashing.after_move(history, now), agent
        resident = todo.place or resident
        now, agent = now + 20e3, "cpu" if agent == "gpu" else "gpu"
    return done


def test_a_page_that_thrashes_is_left_to_one_agent_while_the_other_naps() -> None:
    """uvm_perf_thrashing.c, uvm_perf_thrashing_get_hint, thrashing_event_cb (595.45.04)."""
    assert turns(8, {"gpu": 60e3, "cpu": 20e3}) == ["none"] * 5 + ["nap", "none", "nap"]


THRASHING = thrashing.PageHistory(moved_at=100e3, events=3, free_agent="gpu", period_end=400e3)
TIRED = replace(THRASHING, naps=10)
PINNED = replace(THRASHING, free_agent="cpu", pinned_at="gpu", pinned_until=100e6)


@pytest.mark.parametrize(
    ("history", "agent", "how", "hint"),
    [
        (THRASHING, "gpu", {}, "none"),
        (THRASHING, "cpu", {}, "nap"),
        (replace(THRASHING, events=2), "cpu", {}, "none"),
        (replace(THRASHING, moved_at=-200_001.0), "cpu", {}, "none"),
        (TIRED, "gpu", {}, "pin gpu"),
        (replace(TIRED, naps=9), "gpu", {}, "none"),
        (replace(TIRED, free_agent="cpu"), "cpu", {}, "pin cpu"),
        (PINNED, "cpu", {}, "pin cpu"),
        (PINNED, "cpu", {"cpu_reaches_gpu": True}, "pin cpu"),
        (replace(PINNED, free_agent="gpu"), "cpu", {}, "nap"),
        (replace(PINNED, free_agent="gpu"), "cpu", {"cpu_reaches_gpu": True}, "pin gpu"),
        (replace(PINNED, pinned_at="cpu"), "gpu", {}, "pin cpu"),
        (replace(PINNED, pinned_until=1.0), "cpu", {}, "none"),
        (THRASHING, "gpu", {"cpu_reaches_gpu": True, "fast_link": True}, "pin gpu"),
        (THRASHING, "cpu", {"cpu_reaches_gpu": True, "fast_link": True}, "pin gpu"),
        (THRASHING, "gpu", {"fast_link": True}, "pin cpu"),
    ],
)
def test_what_is_done_about_a_fault_on_a_page_that_thrashes(
    history: thrashing.PageHistory, agent: thrashing.Agent, how: dict[str, Any], hint: str
) -> None:
    """uvm_perf_thrashing.c, get_hint_for_migration_thrashing, in the order of its cases (595.45.04)."""
    resident: thrashing.Agent = "cpu" if agent == "gpu" else "gpu"
    todo, _ = thrashing.hint(history, 300e3, agent, resident, **{"cpu_reaches_gpu": False, **how})
    assert f"{todo.kind} {todo.place or ''}".strip() == hint


def test_a_fast_link_pins_at_once_where_both_reach_the_page() -> None:
    """The same, thrashing_processors_have_fast_access_to: the CPU maps the GPU's memory, since it can cache it."""
    assert turns(6, {"gpu": 60e3, "cpu": 20e3}, cpu_reaches_gpu=True, fast_link=True)[4:] == ["pin gpu", "pin gpu"]


def test_slow_turns_do_not_thrash() -> None:
    assert set(turns(20, {"gpu": 600e3, "cpu": 500e3})) == {"none"}


@pytest.mark.parametrize(
    ("fault", "turns", "measured"),
    [(28.6, 10, 218), (28.6, 100, 77.7), (31.5, 10, 277), (31.5, 30, 251), (31.5, 100, 82.2)],
)
def test_turns_over_a_page_take_what_was_measured(fault: float, turns: int, measured: float) -> None:
    """us a turn beyond a launch, of `exchange` on an H100 and an H200 with driver 580.159.04, from a fault alone."""
    time = thrashing.time_of_turns(turns, fault * 1e3, fault * 1e3, remote=1.8e3)
    assert time / turns / 1e3 == pytest.approx(measured, rel=0.2)


def test_turns_that_are_far_apart_only_move_the_page() -> None:
    assert thrashing.time_of_turns(100, 30e3, 30e3, 1e3, gap=1e6) == pytest.approx(100 * 60e3)
    assert thrashing.time_of_turns(100, 30e3, 30e3, 1e3, cpu_reaches_gpu=True, fast_link=True) < 10 * 60e3


def test_what_is_known_of_a_page_ends_but_not_its_naps() -> None:
    """uvm_perf_thrashing.c, thrashing_reset_page, thrashing_pin_page."""
    assert thrashing.after_move(TIRED, 700e3) == replace(TIRED, moved_at=-1, events=0)
    assert thrashing.after_move(TIRED, 600e3) == replace(TIRED, moved_at=600e3, events=4)
    assert thrashing.hint(TIRED, 300e3, "gpu", "cpu", cpu_reaches_gpu=False)[1].naps == 0
    after = thrashing.hint(replace(PINNED, pinned_until=1.0), 300e3, "cpu", "gpu", cpu_reaches_gpu=False)[1]
    assert (after.pinned_at, after.events, after.moved_at) == (None, 0, -1)
