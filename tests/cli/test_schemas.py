"""Everything that --json prints, and every file of a results directory, is what its published schema says."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import typer
from jsonschema import Draft202012Validator
from tests.calls import call
from tests.cli.test_library import CALLS
from tests.kept_runs import stored_run
from tests.schemas import FOLDER, assert_valid, generated

from firsttouch import __version__
from firsttouch.base.encoding import encode_json
from firsttouch.cli import main
from firsttouch.cli.schemas import json_schema, schemas
from firsttouch.records.findings import Quantity

RUN = stored_run("h200-quick")
PROFILE = stored_run("h200-profile")
OTHERS: dict[str, Sequence[object]] = {
    "run-list": ["run", "--list", "--device", "cpu"],
    "app-list": ["app", "--list"],
    "platform-values": ["platforms", "--values"],
    "published-figures": ["published", "--figures"],
    "reproduce-list": ["reproduce", "grace-hopper", "--list"],
    "profile-sources": ["profile", "--sources"],
    "examples": ["examples", "OUT"],
    "schema": ["schema"],
    "fit": ["fit", RUN, "--out", "OUT/mine.json"],
}
"""Calls of the schemas that test_library.py has no call of."""


def lines(file: Path) -> Iterator[object]:
    return map(json.loads, file.read_text().splitlines())


def test_every_command_with_json_has_a_schema() -> None:
    commands = typer.main.get_command(main.app).commands  # type: ignore[attr-defined]
    with_json = {name for name, command in commands.items() if any("--json" in p.opts for p in command.params)}
    assert with_json <= schemas().keys()
    files = {name for name in schemas() if "." in name}
    assert schemas().keys() - files == with_json | OTHERS.keys() | {"error"}
    assert with_json - {"report", "profile", "try", *OTHERS} == CALLS.keys()


@pytest.mark.parametrize("name", OTHERS)
def test_an_output_is_what_its_schema_says(name: str, tmp_path: Path) -> None:
    done = call(*(str(word).replace("OUT", str(tmp_path)) for word in OTHERS[name]), "--json")
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    assert_valid(name, printed)
    assert printed["schema"] == f"firsttouch-{name}/1"
    assert printed["firsttouch"] == __version__
    assert printed["summary"].endswith(".")


def test_stored_files_are_what_their_schemas_say() -> None:
    for directory in (RUN, stored_run("h100-quick"), stored_run("h200-x2-transport")):
        for record in list(lines(directory / "results.jsonl"))[::40]:
            assert_valid("results.jsonl", record)
        for name in ("machine.json", "run.json"):
            assert_valid(name, json.loads((directory / name).read_text()))
    for line in list(lines(PROFILE / "profile.jsonl"))[:200]:
        assert_valid("profile.jsonl", line)


def test_a_schema_refuses_what_is_not_so() -> None:
    record = next(lines(RUN / "results.jsonl"))
    assert isinstance(record, dict)
    assert_valid("results.jsonl", record | {"field_of_a_newer_version": 1})
    for wrong in ({"status": "fine"}, {"samples": "1"}, {"schema": "firsttouch/3.0"}):
        with pytest.raises(AssertionError, match=next(iter(wrong))):
            assert_valid("results.jsonl", record | wrong)


def test_the_schemas_in_the_docs_are_those_of_the_types() -> None:
    written = {path.name: path.read_bytes() for path in FOLDER.iterdir()}
    assert written.keys() == generated().keys()
    assert [name for name, content in generated().items() if written[name] != content] == [], "make schemas"


def test_the_command_prints_each_schema_and_lists_all() -> None:
    listed = call("schema").stdout
    assert [line.split()[0] for line in listed.splitlines()] == list(schemas())
    assert json.loads(call("schema", "error").stdout) == json_schema("error")
    assert "did you mean 'results.jsonl'" in call("schema", "result.jsonl").stderr


@pytest.mark.parametrize(("name", "part"), [("run", "Quantity"), ("claims", "ComparedValue")])
def test_an_infinite_ratio_is_null(name: str, part: str) -> None:
    value = json.loads(encode_json(Quantity(math.inf)))
    assert value["value"] is None
    Draft202012Validator(json_schema(name) | {"$ref": f"#/$defs/{part}"}).validate(value)


WRONG: dict[str, tuple[Sequence[object], str]] = {
    "an unknown command": (["rum"], "accepted: machine"),
    "an unknown option": (["run", "--fast"], "firsttouch run --help"),
    "an unknown device": (["run", "latency", "--device", "cuda:9"], "."),
    "no results": (["compare", "nowhere", "nowhere-either"], "."),
    "nothing to profile": (["profile"], "firsttouch profile -- ./app"),
    "an unknown schema": (["schema", "nothing"], "accepted: advise"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_call_with_json_prints_an_error_object(what: str, tmp_path: Path) -> None:
    words, hint = WRONG[what]
    done = call(*words, "--json", cwd=tmp_path)
    assert done.returncode == 2
    printed = json.loads(done.stdout)
    assert_valid("error", printed)
    error = printed["error"]
    assert done.stderr == f"firsttouch: {error['message']}\n"
    assert error["exit_status"] == 2
    assert re.search(hint, error["hint"])
    assert call(*words, cwd=tmp_path).stdout == ""


def test_the_words_of_a_profiled_program_are_not_those_of_the_call(tmp_path: Path) -> None:
    done = call("profile", "--no-such-option", "--", "./app", "--json", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
