from __future__ import annotations

import pytest

from firsttouch.machine.measurement_warnings import (
    conditions,
    conditions_by_name,
    measurement_warnings,
    memory_comes_as_used,
)
from firsttouch.machine.tree import Facts

QUIET: dict[str, Facts] = {
    "cpu": {"cores_usable": 64, "governor": "performance", "load_1min": 0.3},
    "memory": {"total_bytes": 2**38, "available_bytes": 2**37, "swap_used_bytes": 0, "ksm": False},
    "numa": {"nodes": 2, "node0_total_bytes": 2**37, "node1_total_bytes": 2**37, "balancing": False},
    "huge_pages": {"thp_enabled": "madvise"},
    "limits": {"memlock_bytes": "unlimited", "root": False},
    "kernel": {"release": "6.8"},
    "gpu0": {
        "persistence": True,
        "mig": False,
        "busy_percent": 0,
        "processes": 0,
        "throttle": "",
        "compute_mode": "default",
    },
    "links": {"gpu0_pcie_width": 16, "gpu0_pcie_width_max": 16},
}


def test_a_well_configured_machine_has_no_warnings() -> None:
    assert measurement_warnings(QUIET) == []


def test_missing_facts_cause_no_warnings() -> None:
    assert measurement_warnings({}) == []


ONLY_DECIDE = {"uvm_disable_hmm", "compute_mode", "available_bytes", "available_to_process_bytes"}
"""Facts that decide what can be measured, and change no value."""


@pytest.mark.parametrize(
    ("topic", "facts", "words"),
    [
        ("cpu", {"cores_usable": 2}, "Usable CPU cores: 2. "),
        ("cpu", {"cores_usable": 64, "governor": "powersave"}, "governor is 'powersave'"),
        ("cpu", {"cores_usable": 64, "load_1min": 40.0}, "load average was 40"),
        ("cpu", {"cores_usable": 64, "load_1min": 0.1, "others_percent": 45.2}, "Other programs used 45 % of"),
        ("kernel", {"virtualisation": "KVM"}, "virtual machine (KVM)"),
        ("kernel", {"clock_source": "hpet"}, "clock source is 'hpet'"),
        ("kernel", {"clock_source": "acpi_pm"}, "a call into the kernel"),
        ("kernel", {"clock_source": "hyperv_clocksource_msr"}, "a call into the kernel"),
        ("cpu", {"cores_usable": 8, "core_kinds": "0-3: P; 4-7: E"}, "`taskset -c 0-3 firsttouch run`"),
        ("huge_pages", {"thp_enabled": "never"}, "Transparent huge pages are off"),
        ("huge_pages", {"thp_enabled": "always", "thp_denied": True}, "switched off for this process"),
        ("limits", {"memlock_bytes": 65536}, "Only 64 KiB of memory may be locked"),
        ("limits", {"memlock_bytes": 65536, "root": True, "memlock_exempt": False}, "This root has no CAP_IPC_LOCK"),
        ("limits", {"memlock_bytes": 65536, "root": True}, "Only 64 KiB of memory may be locked"),
        ("limits", {"cpu_quota_cores": 1.5}, "1.5 cores' worth"),
        ("memory", {"swap_used_bytes": 2**30, "swap_on": "disk"}, "1 GiB of swap are in use: pages may come back from"),
        ("memory", {"swap_used_bytes": 2**30, "swap_on": "zram"}, "unpacked again in memory (zram)"),
        ("memory", {"free_pages_reported": True}, "virtio_balloon): the hypervisor seems to allocate"),
        ("limits", {"pinning_refused": "Operation not permitted"}, "bound to processors (Operation not permitted)"),
        ("environment", {"LD_PRELOAD": "/opt/lib/libjemalloc.so.2"}, "sets LD_PRELOAD (libjemalloc.so.2): malloc"),
        ("environment", {"MALLOC_ARENA_MAX": "1", "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}, "MALLOC_ARENA_MAX"),
        ("memory", {"available_bytes": 2**20}, "Only 1 MiB of memory are available:"),
        ("memory", {"available_bytes": 2**37, "available_to_process_bytes": 0}, "Only 0 B of memory are available:"),
        (
            "memory",
            {"available_to_process_bytes": 2**20, "available_bound": "what the limit of data (ulimit -d) leaves"},
            "Only 1 MiB of memory are available (what the limit of data (ulimit -d) leaves): large",
        ),
        ("memory", {"init_on_alloc": True}, "init_on_alloc"),
        ("memory", {"ksm": True}, "same-page merging"),
        ("memory", {"total_bytes": 2**39}, "on first use"),
        ("numa", {"nodes": 2, "balancing": True}, "NUMA balancing is on"),
        ("nvidia_uvm", {"uvm_disable_hmm": "Y"}, "HMM disabled"),
        ("gpu0", {"processes": 2}, "gpu0 is in use: 2 process(es)"),
        ("gpu0", {"busy_percent": 50}, "50 % busy"),
        ("gpu0", {"persistence": False}, "persistence mode off"),
        ("gpu0", {"mig": True}, "MIG on"),
        ("gpu0", {"compute_mode": "prohibited"}, "compute mode 'prohibited'"),
        ("gpu0", {"throttle": "software power cap"}, "software power cap"),
        ("gpu0", {"power_limit_w": 400.0, "power_limit_default_w": 700.0}, "limited to 400 W"),
        ("links", {"gpu0_pcie_width": 8, "gpu0_pcie_width_max": 16}, "8 of its 16 PCIe lanes"),
    ],
)
def test_each_condition_is_one_sentence(topic: str, facts: Facts, words: str) -> None:
    (sentence,) = measurement_warnings(QUIET | {topic: facts})
    assert words in sentence
    assert sentence.endswith(".")
    assert len(conditions(QUIET | {topic: facts})) == (not facts.keys() & ONLY_DECIDE)


def test_what_a_trace_preloads_does_not_replace_malloc() -> None:
    ours = "/site-packages/firsttouch/libfirsttouch_hip.so"
    assert not measurement_warnings(QUIET | {"environment": {"LD_PRELOAD": ours}})
    (sentence,) = measurement_warnings(QUIET | {"environment": {"LD_PRELOAD": f"{ours}:/libjemalloc.so"}})
    assert "LD_PRELOAD (libjemalloc.so)" in sentence


VIRTUAL: Facts = {"virtualisation": "KVM"}


@pytest.mark.parametrize(
    ("cpu", "holds"),
    [
        ({"pair_speedup": 1.52}, True),
        ({"pair_speedup": 1.95}, False),
        ({}, False),
        ({"pair_speedup": 1.2, "others_percent": 60.0}, False),  # other programs may be why
    ],
)
def test_processors_of_a_virtual_machine_that_share_a_core_show_in_their_effect(cpu: Facts, holds: bool) -> None:
    topics = {**QUIET, "kernel": VIRTUAL, "cpu": QUIET["cpu"] | cpu}
    assert any("share a core of the host" in words for words in conditions(topics)) == holds
    assert any("they share a core of the host" in sentence for sentence in measurement_warnings(topics)) == holds


@pytest.mark.parametrize(
    ("kernel", "memory", "holds"),
    [
        (VIRTUAL, {"touch_fresh_ns": 9300.0, "touch_again_ns": 174.7}, True),
        (VIRTUAL, {"touch_fresh_ns": 184.0, "touch_again_ns": 174.0}, False),
        (VIRTUAL, {"touch_fresh_ns": 900.0, "touch_again_ns": 0.0}, False),
        ({}, {"touch_fresh_ns": 9300.0, "touch_again_ns": 174.7}, False),  # perhaps compaction for huge pages
        ({}, {"free_pages_reported": True}, True),
        ({}, {"total_bytes": 2**39}, True),
    ],
)
def test_memory_that_a_host_hands_out_as_it_is_used_shows_in_its_effect(
    kernel: Facts, memory: Facts, holds: bool
) -> None:
    topics = {**QUIET, "kernel": kernel, "memory": QUIET["memory"] | memory}
    assert memory_comes_as_used(topics) == holds
    assert any("on first use" in words for words in conditions(topics)) == holds
    assert any("on first use" in sentence for sentence in measurement_warnings(topics)) == holds


def test_what_was_measured_of_the_load_counts_more_than_the_average_of_the_minute_before() -> None:
    cpu: Facts = {"cores_usable": 2, "load_1min": 9.0, "others_percent": 3.0}
    assert not any("other programs" in words.lower() for words in conditions({"cpu": cpu}))


def test_variables_that_leave_malloc_alone_cause_no_warning() -> None:
    variables: Facts = {"GLIBC_TUNABLES": "glibc.cpu.x86_rep_movsb_threshold=1", "MALLOC_CHECK_": "", "OMP_PLACES": "c"}
    assert conditions({"environment": variables}) == []


@pytest.mark.parametrize("clock", ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter", "timebase"])
def test_clocks_that_are_read_without_a_call_cause_no_warning(clock: str) -> None:
    assert measurement_warnings(QUIET | {"kernel": {"clock_source": clock}}) == []


@pytest.mark.parametrize("root", [True, False])
def test_the_limit_of_locked_memory_does_not_apply_to_who_may_exceed_it(root: bool) -> None:
    limits: Facts = {"memlock_bytes": 65536, "root": root, "memlock_exempt": True}
    assert measurement_warnings(QUIET | {"limits": limits}) == []


def test_no_warning_about_hmm_if_the_gpu_uses_ats() -> None:
    uvm: dict[str, Facts] = {"nvidia_uvm": {"uvm_disable_hmm": "Y"}, "nvidia": {"gpus": 1}}
    assert measurement_warnings(QUIET | uvm | {"gpu0": {"addressing_mode": "ATS"}}) == []


def test_facts_of_unexpected_types_raise_no_error() -> None:
    odd: dict[str, Facts] = {t: dict.fromkeys(f, "odd") for t, f in QUIET.items()}
    measurement_warnings(odd)
    measurement_warnings({topic: dict.fromkeys(facts) for topic, facts in odd.items()})


def test_what_holds_for_many_gpus_is_said_once() -> None:
    """And compared by name with a machine on which it holds for one."""
    slow = {"persistence": False}
    topics = QUIET | {f"gpu{n}": slow if n != 2 else {"compute_mode": "prohibited"} for n in range(5)}
    first, second = measurement_warnings(topics)
    assert first.startswith("each of gpu0-1,3-4 has persistence mode off: ")
    assert second.startswith("gpu2 is in compute mode 'prohibited'")
    assert conditions(topics) == ["gpu0-1,3-4 without persistence mode"]
    one, many = (conditions_by_name(some) for some in (QUIET | {"gpu0": slow}, topics))
    assert one.keys() == many.keys()
    assert len(measurement_warnings(QUIET | {"gpu0": slow, "gpu1": slow})) == 2
