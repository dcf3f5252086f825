"""firsttouch app as a user calls it, on the first OpenCL device."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.calls import call
from tests.matrix import matrix
from tests.texts import assert_states

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "smooth.py"
DEVICE = ("--device", "opencl:0")


def app(*arguments: str, cwd: Path, drawn: bool = False) -> subprocess.CompletedProcess[str]:
    return call("app", *arguments, cwd=cwd, drawn=drawn)


def records(directory: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (directory / "results.jsonl").read_text().splitlines()]


@pytest.mark.exhaustive
def test_an_application_from_a_module_runs_under_every_strategy(tmp_path: Path) -> None:
    words = ("--module", str(EXAMPLE), "--size", "1MiB", "--out", "o", "--json", *DEVICE)
    done = app("smooth", *words, cwd=tmp_path, drawn=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["counts"]["ok"] >= 5
    found = records(tmp_path / "o")
    right = {r["factors"]["strategy"] for r in found if r["status"] == "ok" and r["verified"]}
    assert right >= {"explicit", "buffer", "pinned", "registered", "svm-coarse", "svm-fine"}
    assert "smooth" in (tmp_path / "o" / "report.html").read_text()
    told = {row["strategy"]: row for row in json.loads(done.stdout)["applications"]}
    assert told.keys() == {r["factors"]["strategy"] for r in found}
    explicit = next(r for r in found if r["factors"]["strategy"] == "explicit")
    assert (told["explicit"]["total_ms"], told["explicit"]["relative_time"]) == (explicit["summary"]["median"], 1)
    again = app("--resume", "--out", "o", "--module", str(EXAMPLE), cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert records(tmp_path / "o") == found
    lines = [line.split() for line in again.stdout.splitlines()]
    assert ["smooth"] in lines
    assert any(line[:1] == ["svm-fine"] and line[-1] == "✓" for line in lines)
    assert lines[-2] == ["o/report.html"]
    assert lines[-1][:5] == ["Next:", "firsttouch", "advise", "o", "--app"]


@pytest.mark.exhaustive
def test_a_budget_streams_tiles(tmp_path: Path) -> None:
    done = app(
        *("black_scholes", "--size", "8MiB", "--budget", "2MiB", "--strategy", "explicit", "--out", "o", *DEVICE),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    (record,) = records(tmp_path / "o")
    assert record["verified"] is True
    assert sum(b["bytes"] for b in record["buffers"] if b["allocator"] == "device") <= 2 * 2**20


def test_kernel_times_are_those_of_runs_that_are_no_samples(tmp_path: Path) -> None:
    asked = ("hotspot", "--size", "tiny", "--repeat", "2", "--strategy", "explicit", "--set", "kernel_times=on")
    done = app(*asked, "--out", "o", *DEVICE, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "kernel" in done.stdout
    (record,) = records(tmp_path / "o")
    assert (record["verified"], len(record["samples"]), record.get("suspect", "")) == (True, 2, "")
    counters = record["counters"]
    assert {"kernel_sd_ms", "kernel_intervals", "kernel_compute_ms", "iterations_ms"} <= counters.keys()
    assert all(counters[name] > 0 for name in ("kernel_ms", "gpu_ms"))


@pytest.mark.slow
def test_scratch_may_be_memory_of_the_strategy_as_in_the_published_version(tmp_path: Path) -> None:
    asked = ("srad", "--size", "tiny", "--repeat", "1", "--strategy", "svm-fine", "--set", "placement=strategy,paper")
    done = app(*asked, "--out", "o", *DEVICE, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    of = {r["factors"]["placement"]: r for r in records(tmp_path / "o")}
    assert all(r["verified"] for r in of.values())
    used = {name: {b["name"]: b["allocator"] for b in r["buffers"]} for name, r in of.items()}
    assert {used["strategy"][name] for name in ("sums", "diffuses")} == {"device"}
    assert {name: used["paper"][name] for name in ("sums", "diffuses")} == {"sums": "svm-fine", "diffuses": "device"}


@pytest.mark.parametrize("iterations", ["4", "6"])  # two launches, and three, after which the result is in `next`
def test_a_buffer_that_is_swapped_may_be_device_memory(iterations: str, tmp_path: Path) -> None:
    asked = ("hotspot", "--size", "tiny", "--repeat", "1", "--strategy", "svm-fine")
    settings = ("--set", f"iterations={iterations}", "--set", "memory.next=device")
    done = app(*asked, *settings, "--out", "o", *DEVICE, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (record,) = records(tmp_path / "o")
    assert record["verified"]
    allocators = [b["allocator"] for b in record["buffers"] if b["allocator"] != "malloc"]
    assert sorted(allocators) == ["device", "svm-fine", "svm-fine"]


def test_the_list_describes_each_application(tmp_path: Path) -> None:
    done = app("--list", "--json", cwd=tmp_path)
    listed = {one["name"]: one for one in json.loads(done.stdout)["applications"]}
    assert "heat" in listed["hotspot"]["what"]
    assert listed["hotspot"]["footprint_bytes"] == 12 * 512**2
    assert "hotspot: " in app("--list", "hotspot", cwd=tmp_path).stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    matrix(
        [
            (["hotspto"], "unknown application 'hotspto' (did you mean 'hotspot'?)"),
            ([], "name applications, or give --all"),
            (["hotspot", "--strategy", "manged"], "unknown strategy 'manged' (did you mean 'managed'?)"),
            (["hotspot", "--strategy", "managed"], "opencl:0 has no allocator managed ... without --strategy"),
            (["hotspot", "--size", "0"], "'0' is zero bytes"),
            (["hotspot", "--size", "huge"], "tiny, default ... oversubscribed"),
            (["hotspot", "--size", "500TiB"], "500 TiB of host memory ... limit is"),
            (["hotspot", "--size", "5"], "hotspot needs at least 12 bytes, more than 5"),
            (["hotspot", "--set", "n=0"], "hotspot: n must be at least 1, not 0"),
            (["lud", "--set", "n=100"], "lud: n must be a multiple of"),
            (["hotspot", "--set", "colour=red"], "unknown factor 'colour'"),
            (["hotspot", "--budget", "1KiB", "--strategy", "explicit"], "has no tiled buffers"),
            (["hotspot", "--oversubscribe", "0"], "'0' is not a number above 0"),
            (["hotspot", "--oversubscribe", "2"], "opencl:0 shares the host's memory"),
            (["hotspot", "--strategy", "explicit+pinned"], "opencl:0 ... map and unmap"),
            (["nn", "--iterations", "3"], "unknown factor 'iterations' ... app, strategy, size"),
            (["hotspot", "--repeat", "0"], "repeat: '0' is less"),
            (["hotspot", "--iterations", "-1"], "iterations: '-1' is not a whole number"),
            (["hotspot", "--budget", "4GB2"], "budget: '4GB2' is not a size such as"),
            (["hotspot", "--strategy", ""], "--strategy is empty"),
            (["hotspot", "--size", " "], "--size is empty"),
            (["hotspot", "--relative-to", " "], "--relative-to is empty"),
            (["hotspot", "--relative-to", "bufer"], "unknown strategy 'bufer' (did you mean 'buffer'?)"),
            (["hotspot", "--seed", "-1"], "--seed '-1' is not a whole number from 0 to 2^63 - 1"),
            (["hotspot", "--seed", str(2**63)], "is not a whole number from 0 to 2^63 - 1"),
            (["hotspot", "--all"], "--all ... hotspot"),
            (["--resume"], "o holds no run ... name applications ... --all"),
            (["hotspot", "--set", "events=on"], "unknown factor 'events' ... app, strategy, size"),
            (["hotspot", "--module", "nothing.py"], "nothing.py' is not a Python file"),
        ],
        8,
    ),
)
def test_bad_input_gets_one_sentence(arguments: list[str], said: str, tmp_path: Path) -> None:
    done = app(*arguments, *DEVICE, "--out", "o", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert_states(done.stderr, said)
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "o").exists()


@pytest.mark.exhaustive
def test_an_impossible_strategy_is_a_row_of_a_larger_run(tmp_path: Path) -> None:
    strategies = ("--strategy", "svm-fine", "--strategy", "managed")
    done = app("hotspot", *strategies, "--size", "tiny", "--repeat", "1", "--out", "o", *DEVICE, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert {(r["status"], r["reason"]) for r in records(tmp_path / "o")} == {
        ("ok", ""),
        ("skipped", "opencl:0 has no allocator managed"),
    }


def test_the_cpu_alone_runs_no_application(tmp_path: Path) -> None:
    done = app("hotspot", "--device", "cpu", "--out", "o", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert_states(done.stderr, "cpu", "kernels", "choose a device")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = (", "does not load: SyntaxError"),
        ("x = 1", "defines no application"),
        ("raise SystemExit(3)", "does not load: SystemExit: 3"),
        ("import nothing_of_that_name", "does not load: ModuleNotFoundError"),
        (EXAMPLE.read_text().replace('name = "smooth"', 'name = "hotspot"'), "application hotspot already"),
    ],
)
def test_an_invalid_module_is_a_wrong_call(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(text)
    done = app("smooth", "--module", "mine.py", "--out", "o", *DEVICE, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert_states(done.stderr, said)
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "o").exists()


@pytest.mark.exhaustive
def test_an_application_without_a_parameter_runs_with_those_that_have_it(tmp_path: Path) -> None:
    asked = ("--iterations", "2", "--strategy", "buffer", "--size", "tiny", "--repeat", "1", "--out", "o", *DEVICE)
    done = app("hotspot", "nn", *asked, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [(r["factors"]["app"], r["factors"].get("iterations")) for r in records(tmp_path / "o")] == [
        ("hotspot", 2),
        ("nn", None),
    ]


@pytest.mark.exhaustive
def test_resume_takes_the_applications_of_the_run(tmp_path: Path) -> None:
    tiny = ("--size", "tiny", "--repeat", "1", "--out", "o", *DEVICE)
    app("nn", "--strategy", "pinned", *tiny, cwd=tmp_path)
    done = app("--resume", "--strategy", "buffer", *tiny, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [(r["factors"]["app"], r["factors"]["strategy"]) for r in records(tmp_path / "o")] == [
        ("nn", "pinned"),
        ("nn", "buffer"),
    ]
    assert "nn on opencl:0: 1 ok" in done.stderr
    compared = app("--resume", "--relative-to", "buffer", "--out", "o", "--json", cwd=tmp_path)
    told = {row["strategy"]: row for row in json.loads(compared.stdout)["applications"]}
    assert len(records(tmp_path / "o")) == 2, "nothing is measured again"
    assert {row["relative_to"] for row in told.values()} == {"buffer"}
    assert told["pinned"]["relative_time"] == told["pinned"]["total_ms"] / told["buffer"]["total_ms"]
    again = app("--resume", "--out", "o", cwd=tmp_path)
    assert "Relative to buffer" in again.stdout, "later calls keep it"


@pytest.mark.exhaustive
def test_results_of_run_and_app_are_kept_apart(tmp_path: Path) -> None:
    app("hotspot", "--strategy", "svm-fine", "--size", "tiny", "--repeat", "1", "--out", "o", *DEVICE, cwd=tmp_path)
    done = call("run", "--resume", "--out", "o", cwd=tmp_path)
    assert done.returncode == 2
    assert "holds results of `firsttouch app`" in done.stderr


@pytest.mark.exhaustive
def test_modules_named_by_a_results_directory_are_not_run(tmp_path: Path) -> None:
    small = ("--strategy", "svm-fine", "--size", "tiny", "--repeat", "1", "--out", "o", *DEVICE)
    assert app("hotspot", *small, cwd=tmp_path).returncode == 0
    stranger = tmp_path / "stranger.py"
    stranger.write_text("from pathlib import Path\nPath(__file__).with_name('ran').touch()\n" + EXAMPLE.read_text())
    request = json.loads((tmp_path / "o" / "run.json").read_text())
    changed = request | {"modules": [str(stranger)], "allow_oversubscription": True}
    (tmp_path / "o" / "run.json").write_text(json.dumps(changed))
    refused = app("--resume", "--out", "o", cwd=tmp_path)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert f"to continue, add --module {stranger}" in refused.stderr
    assert not (tmp_path / "ran").exists()
    (tmp_path / "o" / "run.json").write_text(json.dumps(request | {"allow_oversubscription": True}))
    done = app("--resume", "--out", "o", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert_states(done.stderr.splitlines(), "measured with --allow-oversubscription", "this call does not")
    assert json.loads((tmp_path / "o" / "run.json").read_text())["allow_oversubscription"] is False


def test_entry_points_provide_applications(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    about = tmp_path / "site" / "mine-1.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[firsttouch.apps]\nsmooth = smooth_of_mine\n")
    (tmp_path / "site" / "smooth_of_mine.py").write_text(EXAMPLE.read_text())
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'site'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.syspath_prepend(tmp_path / "site")
    done = app(
        "smooth", "--strategy", "svm-fine", "--size", "tiny", "--repeat", "1", "--out", "o", *DEVICE, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert [r["verified"] for r in records(tmp_path / "o")] == [True]
