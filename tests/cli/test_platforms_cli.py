"""`firsttouch platforms`: the machines, the values of one with what they rest on, and other values with --what-if."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.calls import call

from firsttouch.base.errors import UsageError
from firsttouch.model.platform import platform_names
from firsttouch.model.what_if import with_changes


def printed(*words: object, status: int = 0) -> str:
    done = call("platforms", *words)
    assert done.returncode == status, done.stderr
    return done.stderr if status else done.stdout


def test_all_platforms_are_listed() -> None:
    lines = printed().splitlines()
    assert {line.split()[0] for line in lines if line} >= set(platform_names())


def test_each_value_stands_with_its_unit_its_range_and_its_source() -> None:
    text = " ".join(printed("gh200").split())
    assert "link.h2d 375 GB/s stated" in text
    assert "host.memory 470 GiB (440 GiB to assumed" in text
    assert "If host.page is 4 KiB, it has:" in text
    assert "grace-hopper/transfer.link.h2d.commscope" in text.replace(" ", "")


def test_a_file_of_ones_own_may_have_any_text(tmp_path: Path) -> None:
    value = {"value": 9, "unit": "GB/s", "how": "measured", "source": "[bold]\u202e\u001b[31m<b>me</b>"}
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"extends": "gh200", "title": "[red]mine\u0007", "parameters": {"link.h2d": value}}))
    text = printed(path)
    assert "[red]mine\\u0007" in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "Based on gh200." in text


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["gh20"], "unknown platform 'gh20' (did you mean 'gh200'?)"),
        (["gh200", "--what-if", "host.page"], "--what-if 'host.page' is not NAME=VALUE"),
        (["gh200", "--what-if", "host.pag=4KiB"], "--what-if: unknown value 'host.pag' (did you mean 'host.page'?)"),
        (["gh200", "--what-if", "host.page=4KiB,64KiB"], "two values for host.page"),
        (["gh200", "--what-if", "link.h2d=4KiB"], "--what-if link.h2d=4KiB: unit 'KiB' does not fit"),
        (["gh200", "--what-if", "driver.ats=yes"], "--what-if driver.ats=yes: 'yes' is not"),
        (["--what-if", "host.page=4KiB"], "name it"),
        (["gh200", "--values"], "leave out the platform"),
    ],
)
def test_a_wrong_call_is_refused(words: list[str], says: str) -> None:
    assert says in printed(*words, status=2)


def test_each_combination_of_other_values_is_a_machine_of_its_own() -> None:
    assert with_changes(["model:gh200"], ["host.page=4KiB,64KiB"]) == ["model:gh200", "model:gh200@host.page=4KiB"]
    devices = with_changes(["model:gh200"], ["host.page=4KiB,64KiB", "link.h2d=128GB/s,64GB/s"])
    assert devices == [
        "model:gh200",
        "model:gh200@host.page=4KiB@link.h2d=128GB/s",
        "model:gh200@host.page=4KiB@link.h2d=64GB/s",
        "model:gh200@link.h2d=128GB/s",
        "model:gh200@link.h2d=64GB/s",
    ]
    with pytest.raises(UsageError, match="300 machines"):
        with_changes(["model:gh200"], [f"host.processors={','.join(map(str, range(1, 301)))}"])
    assert with_changes(["model:gh200:cpu"], ["host.page=4KiB"])[1] == "model:gh200@host.page=4KiB:cpu"
    with pytest.raises(UsageError, match="name one"):
        with_changes(["cpu"], ["host.page=4KiB"])


def test_all_values_that_a_file_may_have_are_listed() -> None:
    text = " ".join(printed("--values").split())
    values = {value["name"]: value for value in json.loads(printed("--values", "--json"))["values"]}
    service = values["uvm.service"]
    assert (service["kind"], "ns, us, ms, s" in service["takes"]) == ("time", True)
    assert f"uvm.service time {service['about']}" in text
    assert f"time: {service['takes']}" in text
