"""A platform file: its values, what changes them, and what ends a call."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from firsttouch.base.errors import UsageError
from firsttouch.model.costs import Time
from firsttouch.model.platform import MissingValue, load_platform, platform_names, platform_of


@pytest.mark.parametrize("name", platform_names())
def test_describes_its_devices_and_host(name: str) -> None:
    platform = load_platform(name)
    assert [d.capabilities.runs_kernels for d in (platform.host, platform.device)] == [False, True]
    assert platform.device.facts["memory_bytes"] == platform.quantity("device.memory").value
    assert platform.machine().devices[0] == platform.host


def test_a_value_is_in_the_programs_units_and_a_rate_is_a_line() -> None:
    platform = load_platform("gh200")
    assert platform.quantity("host.page").value == 65536
    assert platform.curve("link.h2d").of(375e9).value == pytest.approx(1e9)
    assert platform.quantity("link.h2d").ground.rows == ("grace-hopper/transfer.link.h2d.commscope",)


def test_what_if_makes_a_machine_of_its_own() -> None:
    platform = platform_of("model:gh200@host.page=4KiB@driver.counters=off")
    assert (platform.quantity("host.page").value, platform.flag("driver.counters")) == (4096, False)
    assert platform.device.name == "model:gh200@host.page=4KiB@driver.counters=off"
    assert platform.digest == load_platform("gh200").digest


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("gh201", "did you mean 'gh200'"),
        ("gh200@host.pages=4KiB", "unknown value 'host.pages' (did you mean 'host.page'?)"),
        ("gh200@host.page=1KiB", "1 KiB is not possible; accepted: 4 KiB to 64 KiB"),
        ("gh200@host.page=4GB/s", "unit 'GB/s' does not fit"),
        ("gh200@driver.counters=maybe", "is not on or off"),
        ("./nowhere.json", "nowhere.json: No such file"),
    ],
)
def test_a_wrong_name_or_change_is_refused(name: str, says: str) -> None:
    with pytest.raises(UsageError) as refusal:
        platform_of(f"model:{name}")
    assert says in str(refusal.value)


def test_a_missing_value_has_no_default() -> None:
    with pytest.raises(MissingValue, match=r"gh200 .* host\.nonsense"):
        load_platform("gh200").quantity("host.nonsense")


def write(path: Path, changes: dict[str, Any] | None = None, **parameters: Any) -> str:
    """A file of a user's own that extends gh200."""
    path.write_text(json.dumps({"extends": "gh200", "parameters": parameters, **(changes or {})}, indent=1))
    return str(path)


LINK = {"value": 100, "unit": "GB/s", "how": "measured", "source": "my run"}


def test_a_file_states_what_differs_from_another(tmp_path: Path) -> None:
    changes = {"device": {"facts": {"clock_khz": 10}, "allocators": {"vmm": None}}, "title": "mine"}
    platform = load_platform(write(tmp_path / "mine.json", changes, **{"link.h2d": LINK, "link.d2h": None}))
    assert platform.quantity("link.h2d").value == 100
    assert platform.quantity("link.h2d").ground.platform.endswith("mine.json")
    assert platform.quantity("host.page").ground.platform == "gh200"
    assert (platform.title, platform.device.facts["clock_khz"]) == ("mine", 10)
    assert platform.device.allocator("vmm") is None
    assert not platform.has("link.d2h")


def test_a_part_applies_to_points_and_values_that_meet_its_conditions(tmp_path: Path) -> None:
    faster = {"if": {"host.page": "4KiB"}, "parameters": {"link.h2d": LINK}}
    switched = {"if": {"xnack": "1"}, "device": {"facts": {"xnack": "on"}, "allocators": {"malloc": {"gpu": "none"}}}}
    platform = load_platform(write(tmp_path / "mine.json", {"when": [faster, switched]}))
    assert platform.quantity("link.h2d").value == 375
    assert platform.changed({"host.page": "4096B"}).quantity("link.h2d").value == 100
    assert platform.changed({"host.page": "4KiB", "link.h2d": "7GB/s"}).quantity("link.h2d").value == 7
    on = platform.under({"xnack": "1", "allocator": "malloc"}).device
    assert (on.facts["xnack"], on.allocators[0].gpu) == ("on", "none")
    assert "xnack" not in platform.under({"xnack": "0"}).device.facts


def test_a_price_goes_through_its_points_or_is_a_rate_or_a_time(tmp_path: Path) -> None:
    points = {"points": [[4096, 2, 1, 3], [8192, 4, 2, 6]], "unit": "us", "how": "assumed", "source": "a guess"}
    rates = {"points": [[1e6, 10], [1e9, 20]], "unit": "GB/s", "how": "measured", "source": "a run"}
    once = {"value": 5, "unit": "us", "how": "measured", "source": "a run"}
    copies = {"copy.h2d.pinned": points, "copy.d2h.pinned": rates, "copy.h2d.malloc": once}
    platform = load_platform(write(tmp_path / "mine.json", **copies))
    assert platform.curve("copy.h2d.pinned").of(6144) == Time(3000, 1500, 4500)
    assert platform.curve("copy.d2h.pinned").of(1e9).value == pytest.approx(5e7)
    assert platform.curve("copy.h2d.malloc").of(2**30).value == 5000


WRONG: Sequence[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"titel": "x"}, {}, ":4:2: titel: unknown key (did you mean 'title'?); accepted: title, note, extends"),
    ({"title": 3}, {}, "title: expected 'str', got 'int'"),
    ({"extends": "gh20"}, {}, ":2:2: extends: unknown platform 'gh20' (did you mean 'gh200'?); accepted:"),
    ({"extends": "./gone.json"}, {}, "extends: there is no file './gone.json'"),
    ({"extends": "./mine.json"}, {}, "in a circle"),
    ({"extends": ""}, {}, "'title' is missing"),
    ({"devices": 0}, {}, "devices: 0 is not 1 to 64"),
    ({"device": {"fact": {}}}, {}, "device.fact: unknown key (did you mean 'facts'?)"),
    ({"device": {"name": "cuda:0"}}, {}, "device.name: unknown key; accepted: kind, title"),
    ({"device": {"capabilities": {"page_migrations": True}}}, {}, "device.capabilities.page_migrations: unknown key"),
    ({"device": {"allocators": {"malloc": {"gpu": "maybe"}}}}, {}, "gpu: invalid enum value 'maybe'; accepted: direct"),
    ({"device": {"facts": {"line_bytes": 1}}}, {}, "device.facts.line_bytes: it follows from the value device.line"),
    ({"host": []}, {}, "host: expected 'object', got 'array'"),
    ({"when": [{"device": {}}]}, {}, "when.0: 'if' is missing or empty"),
    ({"when": [{"if": {"xnack": "on"}}]}, {}, "when.0.if.xnack: 'on' is not 0 or 1"),
    ({"when": [{"if": {"xnak": "1"}}]}, {}, "when.0.if.xnak: neither a value nor a switch"),
    ({"when": [{"if": {"xnack": "1"}, "parameters": {"link.h2d": 3}}]}, {}, "when.0.parameters.link.h2d: expected"),
    ({}, {"link.h2x": LINK}, ":4:3: parameters.link.h2x: unknown value (did you mean 'link.h2d'?)"),
    ({}, {"link.h2d": {**LINK, "unit": "GiB"}}, "link.h2d.unit: unit 'GiB' does not fit; accepted: MB/s"),
    ({}, {"link.h2d": {**LINK, "unit": ""}}, "link.h2d.unit: the unit is missing; accepted: MB/s"),
    ({}, {"link.h2d": {**LINK, "value": 0}}, "link.h2d: 0 GB/s is not possible; accepted: 0.001 GB/s to"),
    ({}, {"link.h2d": {**LINK, "low": 50, "high": 1e9}}, "link.h2d: 1e+09 GB/s is not possible"),
    ({}, {"link.h2d": {**LINK, "value": "fast"}}, "link.h2d: 'value' must be a number"),
    ({}, {"link.h2d": {**LINK, "value": True}}, "link.h2d: 'value' must be a number"),
    ({}, {"link.h2d": {**LINK, "low": 120, "high": 90}}, "the value 100 is not within its range, 120 to 90"),
    ({}, {"link.h2d": {**LINK, "low": 90}}, "a value that is measured has both 'low' and 'high' or neither"),
    ({}, {"link.h2d": {**LINK, "how": "assumed"}}, "a value that is assumed has both 'low' and 'high'"),
    ({}, {"link.h2d": {**LINK, "how": "guessed"}}, "how: invalid enum value 'guessed'; accepted: assumed"),
    ({}, {"link.h2d": {**LINK, "source": " "}}, "link.h2d.source: empty"),
    ({}, {"link.h2d": {**LINK, "how": "fitted", "low": 9, "high": 999}}, "a fitted value needs 'rows'"),
    ({}, {"link.h2d": {**LINK, "rows": ["a/b"]}}, "link.h2d.rows.0: there is no published row 'a/b'"),
    ({}, {"link.h2d": {**LINK, "points": [[1, 2]]}}, "link.h2d.points: it is one number and has no points"),
    ({}, {"link.h2d": {**LINK, "colour": "red"}}, "link.h2d.colour: unknown key; accepted: how, source, value"),
    ({}, {"host.thp": {**LINK, "value": "sometimes"}}, "host.thp.unit: a value that is no number has none"),
    ({}, {"driver.ats": {"value": 1, "how": "stated", "source": "s"}}, "driver.ats: 'value' must be true or false"),
    ({}, {"copy.h2d.pinned": {**LINK, "points": [[1, 2]]}}, "has 'points' or 'value', 'low' and 'high', not both"),
    ({}, {"copy.h2d.pinned": {**LINK, "value": None, "points": [[2, 1], [1, 1]]}}, "points.1: the sizes of points"),
    ({}, {"copy.h2d.pinned": {**LINK, "value": None, "points": [[1, 0]]}}, "points.0: a rate must be above 0"),
    ({}, {"copy.h2d.pinned": {**LINK, "value": None, "points": [[1, 2, 3]]}}, "points.0: a point is [bytes, value]"),
]


@pytest.mark.parametrize(("changes", "parameters", "says"), WRONG, ids=[says for _, _, says in WRONG])
def test_a_wrong_file_is_refused_with_the_place(
    tmp_path: Path, changes: dict[str, Any], parameters: dict[str, Any], says: str
) -> None:
    with pytest.raises(UsageError) as refusal:
        load_platform(write(tmp_path / "mine.json", changes, **parameters))
    text = str(refusal.value)
    assert says in text
    assert re.match(re.escape(str(tmp_path / "mine.json")) + r":\d+:\d+: ", text)
    assert "\n" not in text


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"title: mine", ":1:1: not JSON"),
        (b'{\n "title": "x",\n}', ":3:1: not JSON"),
        (b"[]", ":1:1: a platform is an object"),
        (b'{"a": [{},\n{"b c": 1, "b c": 2}]}', ":2:2: not JSON that can be used: 'b c' stands twice in one object"),
        (b'{"NaN": "NaN",\n "devices": NaN}', ":2:13: not JSON that can be used: NaN is no number that can be used"),
        (b'{"devices": 1e999}', ":1:13: not JSON that can be used: 1e999 is no number that can be used"),
        (b'{"title": "' + b"x" * 2**20 + b'"}', "larger than 1 MiB"),
        (b'{\n"title": "\xff"}', ":2: not UTF-8"),
        (b"[" * 100_000, "not JSON"),
        (b"", ":1:1: not JSON"),
    ],
)
def test_what_is_no_json_is_refused(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "mine.json"
    path.write_bytes(content)
    with pytest.raises(UsageError) as refusal:
        load_platform(str(path))
    assert says in str(refusal.value)


def test_files_that_extend_each_other_are_four_at_most_and_no_circle(tmp_path: Path) -> None:
    for n in range(1, 6):
        write(tmp_path / f"{n}.json", {"extends": f"./{n - 1}.json" if n > 1 else "gh200"})
    assert load_platform(str(tmp_path / "4.json")).quantity("host.page").value == 65536
    with pytest.raises(UsageError, match="more than 4 deep"):
        load_platform(str(tmp_path / "5.json"))
    write(tmp_path / "1.json", {"extends": "./2.json"})
    with pytest.raises(UsageError, match="in a circle"):
        load_platform(str(tmp_path / "2.json"))


@pytest.mark.parametrize(
    "path", ["folder.json", "pipe.json", "loop.json", "a\0b.json", "x" * 300 + ".json", "/dev/zero"]
)
def test_what_is_no_file_is_refused(tmp_path: Path, path: str) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "loop.json").symlink_to(tmp_path / "loop.json")
    with pytest.raises(UsageError):
        load_platform(str(tmp_path / path))
