"""Calls on devices of platform files: what is refused, and what plans take from the platform, not from here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.calls import call
from tests.texts import assert_states

from firsttouch.machine import hosts
from firsttouch.model.platform import load_platform, platform_of
from firsttouch.records.reading import load_results

MODEL = "model:gh200"
APP = ("app", "srad", "--strategy", "managed", "--size", "tiny")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((*APP, "--device", "model:gh2000"), "unknown platform 'gh2000' (did you mean 'gh200'?)"),
        ((*APP, "--device", "model:./none.json"), "none.json: No such file"),
        ((*APP, "--device", MODEL, "--device", "cpu"), "make a call for each"),
        ((*APP, "--device", MODEL, "--counters"), "a modelled device has no profiler"),
        (("app", "srad", "--device", MODEL, "--size", "8TiB", "--strategy", "explicit"), "the limit is 470 GiB"),
        (("run", "latency", "--device", MODEL, "--set", "peer=cuda:0"), "make a call for each"),
        ((*APP, "--device", f"{MODEL}:cpu"), "does not run kernels"),
    ],
)
def test_what_cannot_be_predicted_is_refused_in_a_sentence(tmp_path: Path, words: tuple[object, ...], said: str):
    refused = call(*words, "--out", tmp_path / "out", cwd=tmp_path)
    assert refused.returncode == 2
    assert refused.stderr.count("\n") == 1
    assert said in refused.stderr
    assert not (tmp_path / "out").exists()


def test_a_directory_holds_predictions_or_measurements(tmp_path: Path):
    of_model, of_cpu = tmp_path / "model", tmp_path / "cpu"
    latency = ("run", "latency", "--set", "size=4KiB", "--set", "allocator=malloc")
    assert call(*latency, "--device", f"{MODEL}:cpu", "--out", of_model).returncode == 0
    assert call(*latency, "--device", "cpu", "--out", of_cpu).returncode == 0
    for directory, other, said in ((of_model, "cpu", "predicted"), (of_cpu, f"{MODEL}:cpu", "measured")):
        refused = call(*latency, "--device", other, "--resume", "--out", directory)
        assert refused.returncode == 2
        assert f"has {said} results" in refused.stderr


def test_the_same_call_makes_the_same_records(tmp_path: Path):
    for name in ("one", "two"):
        words = ("run", "bandwidth", "--set", "kernel=triad", "--device", MODEL, "--device", f"{MODEL}:cpu")
        assert call(*words, "--allow-oversubscription", "--out", tmp_path / name).returncode == 0
    one, two = ((tmp_path / name / "results.jsonl").read_bytes() for name in ("one", "two"))
    assert one == two
    assert all(json.loads(line)["modelled"]["platform"] == "gh200" for line in one.splitlines())


def test_a_directory_of_predictions_describes_their_machine(tmp_path: Path):
    words = ("run", "latency", "--set", "size=4KiB", "--device", f"{MODEL}@host.page=4KiB", "--device", MODEL)
    assert call(*words, "--out", tmp_path / "out").returncode == 0
    machine = load_results(tmp_path / "out").machine
    assert {device.modelled.changes.get("host.page") for device in machine.devices if device.modelled} == {None, "4KiB"}
    assert all(device.modelled for device in machine.devices)
    assert machine.facts["memory"]["total_bytes"] == load_platform("gh200").machine().facts["memory"]["total_bytes"]
    assert "page_bytes" not in machine.facts["memory"]  # on which the two do not agree


def test_limits_are_those_of_the_platform(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FIRSTTOUCH_MAX_HOST", "1MiB")
    device = platform_of(MODEL).device
    assert hosts.memory_limit(device) == 470 * 2**30
    assert hosts.usable_processors(device) == 72
    assert hosts.managed_limit(device) is None
    assert hosts.may_exceed_device(device)


@pytest.mark.slow
def test_names_in_files_are_text_everywhere(tmp_path: Path):
    """A title and a path with all that pages, patterns and terminals take for their own."""
    title = "<script>alert(1)</script> [bold]{x}{0} %s \x1b[31m \u202e"
    name = "a[b]{c}<d>%s.json"
    (tmp_path / name).write_text(json.dumps({"extends": "h200-pcie", "title": title, "device": {"title": title}}))
    words = ("run", "bandwidth", "--set", "allocator=device", "--device", f"model:./{name}", "--out", "out")
    done = call(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Predicted: <script>alert(1)</script> [bold]{x}{0} %s" in done.stdout
    for command in (("claims", "out"), ("compare", "out", "out"), ("report", "out"), ("platforms", f"./{name}")):
        shown = call(*command, cwd=tmp_path)
        assert shown.returncode == 0, shown.stderr
        assert "\x1b[31m" not in shown.stdout
        assert name in shown.stdout.replace("\n", "")
    assert "<script>alert" not in (tmp_path / "out/report.html").read_text()


def test_what_asks_the_drivers_of_this_machine_refuses_a_file():
    refused = call("methods", "--device", MODEL)
    assert refused.returncode == 2
    assert f"{MODEL} is described by a file" in refused.stderr


def test_repetitions_change_nothing(tmp_path: Path):
    done = call(*APP, "--device", MODEL, "--repeat", 5, "--out", tmp_path / "out")
    assert "--repeat changes nothing" in done.stderr


def test_a_file_that_has_changed_is_not_mixed_with_what_it_was(tmp_path: Path):
    file = tmp_path / "mine.json"
    words = ("run", "bandwidth", "--set", "kernel=triad", "--device", "model:./mine.json", "--out", "out")
    for title, status in (("one", 0), ("two", 2)):
        file.write_text(json.dumps({"extends": "h200-pcie", "title": title}))
        done = call(*words, *(() if status == 0 else ("--resume",)), cwd=tmp_path)
        assert done.returncode == status
    assert_states(done.stderr, "out ", "file changed", "model:./mine.json", "another --out")


def test_what_is_not_modelled_says_so_on_the_terminal(tmp_path: Path):
    done = call("run", "atomics", "--device", "model:gh200", "--out", tmp_path / "run")
    assert done.returncode == 0
    assert_states(done.stdout, "Nothing was predicted", "not modelled", "atomics")
