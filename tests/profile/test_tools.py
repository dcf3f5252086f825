"""Command lines of the profilers, and what is read from their output (recorded/README.md says where that is from)."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from firsttouch.machine.backends import BACKENDS
from firsttouch.machine.conditions import measuring_conditions
from firsttouch.profile.counters.marks import ITERATIONS
from firsttouch.profile.counters.ncu import Ncu
from firsttouch.profile.counters.perf import Perf
from firsttouch.profile.counters.rocprofv3 import Rocprofv3, groups
from firsttouch.profile.counters.tool import (
    COUNTED,
    KERNEL_TIME,
    KERNELS,
    RefusedError,
    Tool,
    choose_forms,
    evaluate,
    listed_names,
)
from firsttouch.profile.counters.tools import TOOLS
from firsttouch.records.schema import Machine, Record

RECORDED = Path(__file__).with_name("recorded")
DOCS = Path(__file__).parents[2] / "docs/counters.md"
GIB = 2**30


def counted(tool: Tool, folder: Path) -> tuple[dict[str, int], int | None]:
    reading = tool.read(folder)
    return evaluate(choose_forms(tool.quantities, ()), reading), reading.kernels


def test_ncu_sums_the_counted_kernels_and_leaves_out_what_is_not_available() -> None:
    values, kernels = counted(Ncu(), RECORDED)
    assert kernels == 2
    assert values["hw_device_read_bytes"] == pytest.approx(2 * 2 * GIB, rel=1e-3)
    assert values["hw_device_write_bytes"] == pytest.approx(2 * GIB, rel=1e-3)
    assert values["hw_l2_bytes"] == values["hw_l1_bytes"] == 2 * 3 * GIB
    assert values["hw_link_read_bytes"] == 0
    assert values["hw_pcie_read_bytes"] == 2048
    assert "hw_pcie_write_bytes" not in values


def test_ncu_counts_only_the_timed_kernels_and_leaves_caches_and_clocks_alone(tmp_path: Path) -> None:
    words = " ".join(
        Ncu().arguments(["dram__bytes_read.sum", "pcie__read_bytes.sum"], tmp_path, ["worker", "task"], COUNTED)
    )
    for part in (
        "--metrics dram__bytes_read.sum,pcie__read_bytes.sum,gpu__time_duration.sum ",
        "--replay-mode application",
        "--clock-control none --cache-control none",
        "--kernel-name regex:^counted_",
        "--csv --page raw",
    ):
        assert part in words
    assert words.endswith("ncu.csv worker task")


def test_a_unit_that_is_not_the_base_unit_is_refused(tmp_path: Path) -> None:
    text = (RECORDED / "ncu.csv").read_text().replace('"byte","byte","byte"', '"Gbyte","Gbyte","Gbyte"')
    (tmp_path / "ncu.csv").write_text(text)
    with pytest.raises(RefusedError, match="in Gbyte"):
        Ncu().read(tmp_path)


@pytest.mark.parametrize(
    ("said", "reason", "lasting"),
    [
        ("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters",
         "NVreg_RestrictProfilingToAdminUsers=0", True),
        ("==ERROR== Profiling failed because a driver resource was unavailable. Ensure that no other tool (like DCGM) "
         "is concurrently collecting profiling data.", "another tool, such as DCGM, holds", True),
        ("==ERROR== Cuda driver is not compatible with Nsight Compute.", "ncu: Cuda driver is not compatible", False),
    ],
)  # fmt: skip
def test_ncus_refusals_are_one_sentence(tmp_path: Path, said: str, reason: str, lasting: bool) -> None:
    (tmp_path / "ncu.csv").write_text(f"==PROF== Connected to process 4711\n{said}\n")
    refusal = Ncu().refusal(tmp_path, "")
    assert refusal is not None
    assert reason in str(refusal)
    assert refusal.lasting is lasting
    with pytest.raises(RefusedError, match="no kernel"):
        Ncu().read(tmp_path)


def test_a_renamed_counter_is_found_by_the_list_of_the_tool() -> None:
    offered = listed_names("dram__bytes_op_read  Counter  byte  # of bytes read\nl1tex__t_bytes Counter byte")
    forms = choose_forms(Ncu.quantities, offered)
    assert forms == {"hw_l1_bytes": {"l1tex__t_bytes.sum": 1}, "hw_device_read_bytes": {"dram__bytes_op_read.sum": 1}}


def test_rocprofv3_adds_up_passes_and_requests() -> None:
    values, kernels = counted(Rocprofv3(), RECORDED / "rocprofv3")
    assert kernels == 1
    assert values == {
        "hw_tlb_misses": 24576,
        "hw_l2_bytes": 2 * GIB,
        "hw_memory_read_bytes": GIB,
        "hw_memory_write_bytes": GIB,
        "hw_device_read_requests": 8388600,
        "hw_link_read_requests": 8,
    }


def test_rocprofv3_runs_once_for_each_group_of_counters(tmp_path: Path) -> None:
    names = ["TCP_A", *(f"TCC_{i}" for i in range(6)), "TCP_B"]
    words = Rocprofv3().arguments(names, tmp_path, ["worker"], COUNTED)
    assert groups(names) == [["TCP_A", "TCP_B", "TCC_0", "TCC_1", "TCC_2", "TCC_3"], ["TCC_4", "TCC_5"]]
    assert (tmp_path / "passes.txt").read_text().splitlines()[1] == "pmc: TCC_4 TCC_5"
    assert words[-2:] == ["--", "worker"]
    assert words[words.index("--kernel-include-regex") + 1] == "^counted_"
    with pytest.raises(RefusedError, match="--list-avail"):
        Rocprofv3().read(tmp_path)


def test_perf_leaves_out_what_the_processor_does_not_count(tmp_path: Path) -> None:
    assert counted(Perf(), RECORDED) == ({"hw_tlb_misses": 1234567, "hw_l1_accesses": 6710886}, None)
    (tmp_path / "perf.csv").write_text("<not supported>,,LLC-loads,0,100.00,,\n<not counted>,,cycles,0,100.00,,\n")
    with pytest.raises(RefusedError, match="counts no LLC-loads, cycles") as refused:
        Perf().read(tmp_path)
    assert refused.value.lasting


GOOD = "1200,,dTLB-load-misses,50000,100.00,,"


@pytest.mark.parametrize(
    "odd",
    [
        ",,,,,12.3,metric",
        "70000",
        "70000,,L1-dcache-loads,50",
        "Some events were not counted.",
        "18446744073709551615,,L1-dcache-loads,50000,100.00,,",
        "-5,,L1-dcache-loads,50000,100.00,,",
        "nan,,L1-dcache-loads,50000,100.00,,",
        "1_000,,L1-dcache-loads,50000,100.00,,",
        "70000,,L1-dcache-loads,0,0.00,,",
        ",,L1-dcache-loads,50000,100.00,,",
        '70000,,"L1-dcache-loads',
        "\xff\xfe,,\x00",
    ],
)
def test_perfs_rows_that_are_no_counts_are_passed_over(tmp_path: Path, odd: str) -> None:
    (tmp_path / "perf.csv").write_bytes(f"{GOOD}\n{odd}\n".encode("latin-1"))
    assert counted(Perf(), tmp_path) == ({"hw_tlb_misses": 1200}, None)
    (tmp_path / "perf.csv").write_bytes(f"{odd}\n".encode("latin-1"))
    with pytest.raises(RefusedError, match=r"perf stat .*no count; .*`perf stat true`"):
        Perf().read(tmp_path)


@pytest.mark.parametrize(
    ("rows", "count"),
    [
        ([("cpu_core/dTLB-load-misses/", "1000", 25), ("cpu_atom/dTLB-load-misses/", "200", 75)], 400),
        ([("cpu_core/dTLB-load-misses/u", "1000", 100), ("cpu_atom/dTLB-load-misses/u", "<not counted>", 0)], 1000),
        ([("armv8_cortex_a53/dTLB-load-misses/", "80", 20), ("armv8_cortex_a73/dTLB-load-misses/", "160", 20)], 120),
        ([("apple_icestorm_pmu/dTLB-load-misses/", "7", 100), ("apple_firestorm_pmu/dTLB-load-misses/", "8", 100)], 15),
        ([("dTLB-load-misses:u", "12", 40)], 12),
    ],
)
def test_an_event_of_several_kinds_of_cores_is_counted_over_all(
    tmp_path: Path, rows: list[tuple[str, str, int]], count: int
) -> None:
    """perf states what each kind would have counted in the whole time, and the share of the time that it did."""
    lines = [f"{value},,{event},50000,{share}.00,," for event, value, share in rows]
    (tmp_path / "perf.csv").write_text("\n".join(lines))
    assert counted(Perf(), tmp_path) == ({"hw_tlb_misses": count}, None)


@pytest.mark.parametrize(("shares", "note"), [((100, 100), ""), ((100, 40), "one was counted 40 %"), ((3, 60), "3 %")])
def test_events_that_took_turns_are_told(tmp_path: Path, shares: Sequence[int], note: str) -> None:
    names = ("L1-dcache-loads", "LLC-loads")
    lines = [f"9,,{name},50000,{share}.00,," for name, share in zip(names, shares, strict=True)]
    (tmp_path / "perf.csv").write_text("\n".join(lines))
    said = Perf().read(tmp_path).note
    assert note in said
    record = Record(
        schema="", experiment="", device="", factors={}, unit="", status="ok", counters={"hw_counters": said}
    )
    assert bool(measuring_conditions(Machine(schema="", host="", created="", firsttouch=""), [record])) == bool(note)


@pytest.mark.parametrize(("share", "values"), [(100, {"hw_l1_misses": 700}), (60, {})])
def test_an_event_that_one_kind_of_cores_lacks_is_known_if_the_program_ran_on_the_other(
    tmp_path: Path, share: int, values: dict[str, int]
) -> None:
    (tmp_path / "perf.csv").write_text(
        f"700,,cpu_core/L1-dcache-load-misses/,50000,{share}.00,,\n"
        "<not supported>,,cpu_atom/L1-dcache-load-misses/,0,100.00,,\n"
    )
    assert counted(Perf(), tmp_path) == (values, None)


@pytest.mark.parametrize("end", [-2, -30, -160, -200, -250])
def test_what_ncu_wrote_in_part_is_refused(tmp_path: Path, end: int) -> None:
    (tmp_path / "ncu.csv").write_text((RECORDED / "ncu.csv").read_text()[:end])
    with pytest.raises(RefusedError, match=r"ncu .*within a row; .*TMPDIR"):
        Ncu().read(tmp_path)


@pytest.mark.parametrize("odd", ["18,446,744,073,709,551,615", "-1", "", "nan", "no data"])
def test_what_is_no_count_in_a_row_of_ncu_is_left_out(tmp_path: Path, odd: str) -> None:
    (tmp_path / "ncu.csv").write_text((RECORDED / "ncu.csv").read_text().replace("3,221,225,472", odd))
    values, _ = counted(Ncu(), tmp_path)
    assert "hw_l1_bytes" not in values
    assert values["hw_l2_bytes"] == 2 * 3 * GIB


def passes(folder: Path, *files: str) -> tuple[dict[str, int], int | None]:
    """What is read of rocprofv3's files of several passes, each in rows of a counter and its value."""
    for number, text in enumerate(files):
        counts = [row.split() for row in text.split(";")]
        before = [sum(name == counter for name, _ in counts[:at]) for at, (counter, _) in enumerate(counts)]
        rows = [f'{n},"counted_copy","{counter}",{v}' for n, (counter, v) in zip(before, counts, strict=True)]
        (folder / f"{number}_counter_collection.csv").write_text(
            "\n".join(['"Dispatch_Id","Kernel_Name","Counter_Name","Counter_Value"', *rows])
        )
    return counted(Rocprofv3(), folder)


@pytest.mark.parametrize(
    ("files", "values"),
    [
        (["TCC_REQ_sum 4;TCC_REQ_sum 4", "TCP_UTCL1_TRANSLATION_MISS_sum 7"], {"hw_l2_bytes": 1024}),
        (["TCC_EA0_RDREQ_sum 5;TCC_REQ_sum 1", "TCC_EA0_RDREQ_DRAM_sum 8"],
         {"hw_l2_bytes": 128, "hw_device_read_requests": 8}),
        (["TCC_REQ_sum 4", "TCP_UTCL1_TRANSLATION_MISS_sum 1.8446744073709552e+19"], {"hw_l2_bytes": 512}),
        (["TCC_REQ_sum 4", "TCP_UTCL1_TRANSLATION_MISS_sum -3"], {"hw_l2_bytes": 512}),
    ],
)  # fmt: skip
def test_uneven_passes_of_rocprofv3_give_no_false_counts(
    tmp_path: Path, files: list[str], values: dict[str, int]
) -> None:
    assert passes(tmp_path, *files)[0] == values


@pytest.mark.parametrize("end", [-1, -30, -45, -60, -150])
def test_a_row_that_rocprofv3_did_not_end_is_left_out(tmp_path: Path, end: int) -> None:
    whole = (RECORDED / "rocprofv3/pmc_1/counted_counter_collection.csv").read_text()
    (tmp_path / "counted_counter_collection.csv").write_text(whole.rstrip()[:end])
    values, kernels = counted(Rocprofv3(), tmp_path)
    assert kernels == 1
    assert values.items() <= {"hw_tlb_misses": 24576, "hw_l2_bytes": 2 * GIB, "hw_memory_read_bytes": GIB}.items()


def test_files_that_are_no_csv_are_refused(tmp_path: Path) -> None:
    (tmp_path / "perf.csv").write_text('1,,"' + "x" * 200_000)
    with pytest.raises(RefusedError, match="perf wrote no valid CSV"):
        Perf().read(tmp_path)
    (tmp_path / "counted_counter_collection.csv").write_text("")
    with pytest.raises(RefusedError, match="--list-avail"):
        Rocprofv3().read(tmp_path)


@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS)
def test_a_tool_that_is_not_installed_is_one_sentence(
    tool: Tool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(type(tool), "places", ())
    with pytest.raises(RefusedError, match=f"{tool.name} is not on the PATH; it is ") as refused:
        tool.find()
    assert refused.value.lasting
    shutil.copy("/bin/true", tmp_path / tool.name)
    assert tool.find() == str(tmp_path / tool.name)


def test_the_page_names_the_vendors_counter_behind_each_name() -> None:
    rows = [line for line in DOCS.read_text().splitlines() if line.startswith("| `hw_")]
    for tool in TOOLS.values():
        for quantity in tool.quantities:
            (row,) = [row for row in rows if f"`{quantity.name}`" in row and f"| {tool.name} |" in row]
            for form in quantity.forms:
                for counter in form:
                    assert f"`{counter}`" in row
    named = {name for row in rows for name in re.findall(r"`(hw_\w+)`", row)}
    quantities = {quantity.name for tool in TOOLS.values() for quantity in tool.quantities}
    assert named == quantities | {KERNELS, KERNEL_TIME, ITERATIONS, "hw_loads"}


def test_backends_name_tools_that_exist() -> None:
    assert {row.counters for row in BACKENDS.values()} - {""} == {*TOOLS}


@pytest.mark.parametrize(("unit", "ms"), [("ns", 0.731456), ("usecond", 731.456), ("byte", None)])
def test_ncu_states_the_time_of_each_launch(tmp_path: Path, unit: str, ms: float | None) -> None:
    (tmp_path / "ncu.csv").write_text((RECORDED / "ncu.csv").read_text().replace('"ns"', f'"{unit}"'))
    assert [launch.ms for launch in Ncu().launches(tmp_path)] == pytest.approx([ms] * 3)


def test_rocprofv3_states_the_time_of_each_launch() -> None:
    counted, *_ = Rocprofv3().launches(RECORDED / "rocprofv3", COUNTED)
    assert counted.ms == pytest.approx(0.01024)
