"""What was measured on one GPU for equal ones says so: on the page, in the terminal, in comparisons and in advice."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.calls import call

from firsttouch.advice import advisor
from firsttouch.comparison.compare import compare_results
from firsttouch.comparison.words import notes, what_to_type
from firsttouch.experiments import all_experiments
from firsttouch.records.reading import load_results
from firsttouch.records.schema import SCHEMA, Location, Record, encode
from firsttouch.report.answers import answered

RESULTS = Path(__file__).parents[2] / "results/h100-quick"
EQUAL = "measured on cuda:0, which stands for 2 equal GPUs"


def written(directory: Path, *experiments: str) -> Path:
    """A run on an H100 as one of two equal GPUs of which the first was measured for both, but for its triads."""
    stored = load_results(RESULTS)
    assert stored.request is not None
    gpu = stored.machine.devices[-1]
    gpus = [gpu, msgspec.structs.replace(gpu, name="cuda:1")]
    stored.machine.devices = [*stored.machine.devices[:-1], *gpus]
    stored.request.every_device = False
    stored.request.devices = ["cpu", "cuda:0", "cuda:1"]
    records = [as_one_of_two(r) for r in stored.records if r.experiment in experiments or not experiments]
    directory.mkdir()
    (directory / "machine.json").write_bytes(encode(stored.machine))
    (directory / "run.json").write_bytes(encode(stored.request))
    (directory / "results.jsonl").write_bytes(b"".join(encode(r) + b"\n" for r in records))
    return directory


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("equal") / "node")


def as_one_of_two(record: Record) -> Record:
    both = record.device == "cuda:0" and record.experiment != "bandwidth"
    return msgspec.structs.replace(record, schema=SCHEMA, stands_for=[Location(device="cuda:1")] if both else [])


def test_page_and_terminal_say_it(tmp_path: Path) -> None:
    directory = written(tmp_path / "node", "context", "locking")
    done = call("report", directory)
    assert f"20 of 22 points {EQUAL}" in " ".join(done.stdout.split())
    page = " ".join((directory / "report.html").read_text().split())
    assert f"context on cuda:0 (NVIDIA H100 80GB HBM3); {EQUAL}" in page


def test_a_comparison_says_it_and_repeats_the_call_as_it_was(directory: Path) -> None:
    comparison = compare_results([str(directory), str(RESULTS)])
    assert f"Most points were {EQUAL}." in notes(comparison)
    comparison.sides[1].runs[0].conditions["run.equal GPUs"] = (
        "most points were measured on cuda:0, which stands for 7 equal GPUs"
    )
    assert f"{comparison.names[0].rpartition('/')[2]}: most points were {EQUAL}." in notes(comparison)
    assert any("firsttouch run --out" in text for text in what_to_type(comparison))


def test_advice_for_an_equal_gpu_rests_on_what_was_measured_for_it(directory: Path) -> None:
    first, other = (advisor.advise([directory], device=name) for name in ("cuda:0", "cuda:1"))
    assert [row.strategy for row in first.strategies] == [row.strategy for row in other.strategies]
    assert [text for text in other.assumptions if "for 2 equal GPUs" in text]


def test_gpus_of_which_only_their_headlines_were_measured_share_a_section() -> None:
    triad, other = (r for r in load_results(RESULTS).records if r.experiment == "bandwidth" and is_streamed(r))
    others = [Location(device=f"cuda:{n}") for n in (1, 2, 3)]
    records = [triad, msgspec.structs.replace(other, stands_for=others)]
    records += [msgspec.structs.replace(triad, device=place.device) for place in others]
    records.append(msgspec.structs.replace(other, device="cuda:2"))  # it differs, and was measured as if alone
    sections = list(answered(records, [], all_experiments()))
    assert [part.devices for part in sections] == [["cuda:0"], ["cuda:1", "cuda:3"], ["cuda:2"]]
    assert "beside its equals" in sections[1].answer.problem


def is_streamed(record: Record) -> bool:
    """A triad over large arrays of device memory, and one of page-locked memory."""
    wanted = {"arrays": "memory", "kernel": "triad", "agent": "gpu"}
    return wanted.items() <= record.factors.items() and record.factors["allocator"] in ("device", "pinned")
