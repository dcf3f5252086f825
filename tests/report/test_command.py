"""`firsttouch report`: its files, its JSON, its errors."""

from __future__ import annotations

import csv
import errno
import json
import os
import resource
import signal
import subprocess
import sys

import msgspec
import pytest
import sample
from tests.calls import call
from tests.matrix import matrix
from tests.schemas import assert_valid
from tests.texts import assert_states

import firsttouch
from firsttouch.records.schema import Party

pytestmark = pytest.mark.usefixtures("known")


def few():
    """Results of which a page is drawn quickly."""
    results = sample.results()
    results.records = [r for r in results.records if r.experiment == "sharing"]
    return results


@pytest.mark.slow
def test_a_process_writes_the_report_into_the_results_directory(write):
    directory = write(few())
    result = call("report", directory, drawn_by_process=True)
    title, *findings, written = result.stdout.splitlines()
    assert title == "NVIDIA H200, Intel Xeon Platinum 8480C"
    assert "sharing on cuda:0" in findings, "a page without numbers has its findings in the terminal too"
    assert written == str(directory / "report.html")
    assert (directory / "report.html").read_text().startswith("<!doctype html>")


@pytest.mark.usefixtures("drawn_here")
def test_json_is_the_only_output_on_stdout(write, tmp_path):
    result = call("report", write(few()), "-o", tmp_path / "r.html", "--json")
    printed = json.loads(result.stdout)
    assert_valid("report", printed)
    assert printed["report"] == str(tmp_path / "r.html")
    title = "NVIDIA H200, Intel Xeon Platinum 8480C"
    assert printed["directories"] == [{"directory": str(tmp_path / "out"), "title": title}]
    assert {entry["directory"] for entry in printed["findings"]} == {str(tmp_path / "out")}


@pytest.mark.usefixtures("drawn_here")
@pytest.mark.parametrize(("form", "start"), matrix([("svg", b"<svg"), ("png", b"\x89PNG")], 1))
def test_figures_as_files(write, form, start):
    directory = write(sample.results())
    files = sorted((directory / "figures").iterdir()) if call("report", directory, "--format", form) else []
    names = "allocation-cuda-0-1 bandwidth-cpu-1 bandwidth-cuda-0-1 latency-cpu-1 latency-cuda-0-1"
    names += " migration-cuda-0-1 migration-cuda-0-2 sharing-cuda-0-1"
    assert [f.name for f in files] == [f"{name}.{form}" for name in names.split()]
    assert all(f.read_bytes().startswith(start) for f in files)


@pytest.mark.usefixtures("drawn_here")
def test_csv_has_one_row_per_point(write, tmp_path):
    results = sample.results()
    call("report", write(results), "--format", "csv", "-o", tmp_path / "csv")
    with (tmp_path / "csv" / "points.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(results.records)
    row = next(r for r in rows if r["experiment"] == "bandwidth" and r["device"] == "cuda:0")
    factors = [row[f"factors.{name}"] for name in ("kernel", "allocator", "size")]
    assert (*factors, row["unit"]) == ("copy", "device", str(2**30), "GB/s")
    low, median, high = (float(row[f"summary.{name}"]) for name in ("ci_low", "median", "ci_high"))
    assert low < median < high


@pytest.mark.usefixtures("drawn_here")
def test_csv_has_the_columns_of_load(write, tmp_path):
    directory = write(sample.results())
    call("report", directory, "--format", "csv", "-o", tmp_path / "csv")
    with (tmp_path / "csv" / "points.csv").open(newline="") as file:
        columns = next(csv.reader(file))
    rows = firsttouch.load(directory)
    assert columns == [*rows[0]]
    assert {"host", "run"} <= {*columns}
    assert rows[0]["run"] == str(directory)


@pytest.mark.usefixtures("drawn_here")
def test_csv_names_metric_and_parties(write, tmp_path):
    results = sample.results()
    both = [Party(device="cuda:0"), Party(device="cuda:1", rank=1, host="node7")]
    results.records[0] = msgspec.structs.replace(results.records[0], parties=both, better="lower", metric_version=2)
    call("report", write(results), "--format", "csv", "-o", tmp_path / "csv")
    with (tmp_path / "csv" / "points.csv").open(newline="") as file:
        row = next(csv.DictReader(file))
    assert (row["better"], row["metric_version"]) == ("lower", "2")
    assert [(p["device"], p["rank"], p["host"]) for p in json.loads(row["parties"])] == [
        ("cuda:0", 0, ""),
        ("cuda:1", 1, "node7"),
    ]


@pytest.mark.exhaustive
def test_hostile_results_create_no_files_elsewhere_and_no_formulas(write, tmp_path):
    directory, out = write(sample.hostile()), tmp_path / "x"
    for form in ("svg", "csv"):
        call("report", directory, "--format", form, "-o", out)
    assert all("<script" not in f.read_text() for f in out.glob("*.svg"))
    csv.field_size_limit(1 << 24)  # the parties of a point are one cell
    with (out / "points.csv").open(newline="") as file:
        cells = [cell for row in csv.reader(file) for cell in row]
    assert any(cell.startswith("'=1+<script>") for cell in cells)
    assert not any(cell.startswith(("=", "@")) for cell in cells)
    made = {p.name for p in tmp_path.rglob("*") if p.is_file()}
    assert all(set(name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.") for name in made)


@pytest.mark.slow
def test_a_full_disk_leaves_the_old_page(write):
    directory = write(few())
    (directory / "report.html").write_text("old")
    command = [sys.executable, "-m", "firsttouch.cli.main", "report", str(directory)]

    def little_room():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))

    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100, preexec_fn=little_room)
    assert done.returncode == 2
    assert_states(done.stderr, f"{directory}/report.html: {os.strerror(errno.EFBIG)}")
    assert (directory / "report.html").read_text() == "old"
    assert sorted(p.name for p in directory.iterdir()) == ["machine.json", "report.html", "results.jsonl"]


@pytest.mark.exhaustive
def test_few_descriptors_give_one_message(write):
    directory = write(sample.results())
    command = [sys.executable, "-m", "firsttouch.cli.main", "report", str(directory)]

    def few_descriptors():
        resource.setrlimit(resource.RLIMIT_NOFILE, (12, 12))

    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100, preexec_fn=few_descriptors)
    assert "Traceback" not in done.stderr
    if done.returncode != 0:  # what the renderer needs depends on its version
        assert done.returncode == 2
        assert "not be drawn" in done.stderr


@pytest.mark.exhaustive
def test_a_device_that_is_named_is_written_to(write):
    done = call("report", write(sample.results()), "-o", "/dev/full")
    assert done.returncode == 2
    assert_states(done.stderr, f"/dev/full: {os.strerror(errno.ENOSPC)}")


@pytest.mark.exhaustive
def test_a_link_in_an_untrusted_directory_is_replaced(write, tmp_path):
    directory, other = write(sample.results()), tmp_path / "precious"
    other.write_text("precious")
    (directory / "report.html").symlink_to(other)
    call("report", directory)
    assert other.read_text() == "precious"
    assert (directory / "report.html").read_text().startswith("<!doctype html>")


@pytest.mark.exhaustive
def test_wrong_calls_are_refused_in_one_sentence(write, tmp_path):
    (tmp_path / "empty").mkdir()
    directory, other = write(sample.results()), write(sample.results(), "other")
    for arguments, words in [
        ([tmp_path / "nowhere"], "nowhere"),
        ([tmp_path / "empty"], "results.jsonl"),
        ([directory, other], "-o"),
        ([directory, other, "--format", "csv"], "-o"),
        ([directory, "-o", tmp_path / "no" / "such" / "r.html"], "cannot write"),
        ([directory, "-o", tmp_path / "empty"], "is a directory"),
        ([directory, "--format", "svg", "-o", directory / "results.jsonl"], "cannot write"),
    ]:
        done = call("report", *arguments)
        assert done.returncode == 2
        assert words in done.stderr
        assert len(done.stderr.splitlines()) == 1
