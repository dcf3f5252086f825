"""`firsttouch reproduce`: figures of papers, their calls on other devices, and what papers state beside predictions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.calls import call
from tests.schemas import assert_valid
from tests.texts import assert_states

import firsttouch
from firsttouch.base.errors import UsageError
from firsttouch.comparison.reproducing import values_of_part
from firsttouch.records.reading import load_results
from firsttouch.records.reproduced import Reproduced


def test_the_papers_and_their_figures_are_listed() -> None:
    out = call("reproduce").stdout
    for paper in ("mi300a-upm", "mi300a-node", "grace-hopper", "integrated-2017", "cuda-um-2019"):
        assert paper in out
    assert "  Fig. 3    triad bandwidth of GPU and CPU by allocator (3 lines)" in out


def test_a_figure_is_listed_with_its_conditions_and_calls() -> None:
    out = call("reproduce", "mi300a-upm", "3", "--list").stdout
    assert_states(out, "OMP_PROC_BIND", "arrays of 256 MiB on the GPU", "firsttouch run bandwidth --device hip:0")


@pytest.mark.parametrize("typed", [("3",), ("Fig.", "3"), ("fig3",), ("figure 3",), ("FIG. 3",)])
def test_a_figure_may_be_typed_in_several_ways(typed: tuple[str, ...]) -> None:
    done = call("reproduce", "mi300a-upm", *typed, "--dry-run", "--device", "model:mi300a")
    assert done.stdout.startswith("Fig. 3 of mi300a-upm")


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["mi300a-up", "3"], "did you mean 'mi300a-upm'?"),
        (["mi300a-upm", "33"], "unknown figure '33'"),
        (["mi300a-upm", "Table", "9"], "unknown figure 'Table 9'"),
        (["mi300a-upm", "--dry-run"], "name a paper and one of its figures"),
    ],
)
def test_a_wrong_call_says_what_there_is(words: list[str], named: str) -> None:
    done = call("reproduce", *words)
    assert done.returncode == 2
    assert named in done.stderr


def test_devices_and_peers_of_a_call_become_those_of_the_model() -> None:
    lines = firsttouch.reproduce("mi300a-node", "3", device="model:mi300a-node", dry_run=True)["lines"]
    peers = next(line["call"] for line in lines if "p2p-latency" in line["call"])
    assert "--device model:mi300a-node " in peers
    assert "peer=self,model:mi300a-node:1,model:mi300a-node:2,model:mi300a-node:3" in peers
    assert all(line["predicted"] for line in lines)


def test_on_another_device_only_the_device_changes() -> None:
    (line, *_) = firsttouch.reproduce("grace-hopper", "6", device="cuda:1", dry_run=True)["lines"]
    assert "--device cuda:1" in line["call"]
    assert not line["predicted"]


def test_a_device_of_another_kind_does_without_what_it_does_not_have() -> None:
    gpu, _, cpu = firsttouch.reproduce("mi300a-upm", "3", device="model:h200-pcie", dry_run=True)["lines"]
    assert gpu["left_out"] == ["xnack=0,1"]  # a switch of AMD's driver
    assert "xnack" not in gpu["call"]
    assert cpu["left_out"] == ["threads=18,20,24"]  # it has 16 processors
    (strategies, *_) = firsttouch.reproduce("integrated-2017", "15", device="model:h200-pcie", dry_run=True)["lines"]
    assert strategies["left_out"] == ["svm-fine"]
    lines = firsttouch.reproduce("integrated-2017", "3", device="model:gh200", dry_run=True)["lines"]
    assert any(line["left_out"] == ["allocator=pinned-noncoherent"] for line in lines)


def test_a_line_of_which_a_device_has_nothing_says_so() -> None:
    lines = firsttouch.reproduce("integrated-2017", "11", device="model:gh200@driver.ats=off", dry_run=True)["lines"]
    assert any(line["left_out"] or line["why"] for line in lines)


def test_without_the_hardware_each_machine_of_the_paper_is_predicted() -> None:
    lines = firsttouch.reproduce("cuda-um-2019", "3", dry_run=True)["lines"]
    assert {line["machine"] for line in lines} == {"model:intel-pascal", "model:intel-volta", "model:p9-volta"}


def test_what_is_predicted_stands_beside_what_the_paper_states(tmp_path: Path) -> None:
    out = tmp_path / "fig3"
    done = call("reproduce", "mi300a-upm", "3", "--out", out, "--device", "model:mi300a", "--json", drawn=True)
    found = json.loads(done.stdout)
    assert_valid("reproduce", found)
    assert [line["exit_status"] for line in found["lines"]] == [0, 0, 0]
    assert [line["counts"]["ok"] for line in found["lines"]] == [22, 19, 13]
    by_row = {value["row"].partition("/")[2]: value for value in found["values"]}
    threads = by_row["bandwidth.cpu.threads-a"]
    assert threads["differs"]
    assert not threads["not_independent"]
    assert by_row["bandwidth.gpu.hipmalloc"]["not_independent"]  # the platform file has it
    assert not by_row["bandwidth.gpu.hipmalloc"]["differs"]
    assert {"holds", "does not hold"} >= {claim["verdict"] for claim in found["claims"]}
    page = (out / "report.html").read_text()
    assert "Fig. 3 of Wahlgren et al. 2025" in page
    assert "Diamonds are what Wahlgren et al. 2025 state" in page
    again = call("reproduce", "mi300a-upm", "3", "--out", out, "--device", "model:mi300a")
    assert again.returncode == 2
    assert "is not empty" in again.stderr


def test_experiments_and_applications_of_a_figure_come_into_folders_of_their_own(tmp_path: Path) -> None:
    out = tmp_path / "fig12"
    done = call("reproduce", "grace-hopper", "10", "--out", out, "--device", "model:gh200")
    assert done.returncode == 0, done.stderr
    assert (out / "run/results.jsonl").exists()
    assert (out / "app/results.jsonl").exists()


def test_a_damaged_note_of_what_is_repeated_is_named(tmp_path: Path) -> None:
    out = tmp_path / "out"
    call("run", "transfer", "--device", "model:mi300a", "--set", "size=1MiB", "--out", out)
    (out / "reproduced.json").write_text('{"paper": 3}')
    with pytest.raises(UsageError, match=r"reproduced\.json"):
        firsttouch.claims(out)


def test_a_report_can_be_left_out(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = call(
        "run", "transfer", "--device", "model:mi300a", "--set", "size=1MiB", "--no-report", "--out", out, drawn=True
    )
    assert done.returncode == 0, done.stderr
    assert not (out / "report.html").exists()
    assert str(out) in done.stdout


def test_the_mean_and_the_deviation_of_measurements_stand_beside_their_median() -> None:
    results = load_results(Path(__file__).parents[2] / "results/h100-quick")
    call_of, ratio = (v for v in values_of_part(results, Reproduced("mi300a-upm", "Fig. 6")) if "hipmalloc" in v.row)
    assert call_of.deviation is not None
    assert call_of.mean == pytest.approx(call_of.value, rel=0.2)
    assert 0 < call_of.deviation < call_of.value
    assert (ratio.unit, ratio.mean) == ("times", None)


def test_a_prediction_has_no_deviation(tmp_path: Path) -> None:
    call("reproduce", "mi300a-upm", "2", "--device", "model:mi300a", "--out", tmp_path / "out")
    values = values_of_part(load_results(tmp_path / "out"), Reproduced("mi300a-upm", "Fig. 2"))
    assert values
    assert all(v.deviation is None for v in values)
