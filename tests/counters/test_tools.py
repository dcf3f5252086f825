"""Command lines of the profilers, and what is read from their output (recorded/README.md says where that is from)."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from firsttouch.counters.ncu import Ncu
from firsttouch.counters.perf import Perf
from firsttouch.counters.rocprofv3 import Rocprofv3, groups
from firsttouch.counters.tool import KERNELS, RefusedError, Tool, choose_forms, evaluate, listed_names
from firsttouch.counters.tools import TOOLS
from firsttouch.machine.backends import BACKENDS

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
    words = " ".join(Ncu().arguments(["dram__bytes_read.sum", "pcie__read_bytes.sum"], tmp_path, ["worker", "task"]))
    for part in (
        "--metrics dram__bytes_read.sum,pcie__read_bytes.sum",
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
    words = Rocprofv3().arguments(names, tmp_path, ["worker"])
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
    assert named == quantities | {KERNELS, "hw_loads"}


def test_backends_name_tools_that_exist() -> None:
    assert {row.counters for row in BACKENDS.values()} - {""} == {*TOOLS}
