"""docs/extending/platform.md: its file predicts what it says, and it names every key of a file."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import msgspec
import pytest
from tests.calls import call

from firsttouch.base.errors import UsageError
from firsttouch.model.platform import load_platform
from firsttouch.model.platform_files import PlatformFile, PlatformPart
from firsttouch.model.values import ValueEntry

PAGE = (Path(__file__).parents[2] / "docs/extending/platform.md").read_text()


def test_its_commands_print_what_it_says(tmp_path: Path) -> None:
    (content,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "l4.json").write_text(content)
    shown = re.findall(r"    \$ firsttouch (.*)\n    \.\.\.\n((?:    .*\n)+?)    \.\.\.\n", PAGE)
    assert [words.split()[0] for words, _ in shown] == ["run", "app"]
    for words, printed in shown:
        done = call(*shlex.split(words), cwd=tmp_path)
        assert " ".join(printed.split()) in " ".join(done.stdout.split())


@pytest.mark.parametrize("wrong", ["", "device", "device.capabilities", "device.allocators.new", "peer"])
def test_it_names_every_key_that_an_error_lists(tmp_path: Path, wrong: str) -> None:
    content: object = {"no-such-key": 1}
    for step in reversed(wrong.split(".") if wrong else []):
        content = {step: content}
    path = tmp_path / "mine.json"
    path.write_bytes(msgspec.json.encode({"extends": "gh200", **content}))  # type: ignore[dict-item]
    with pytest.raises(UsageError) as refusal:
        load_platform(str(path))
    accepted = str(refusal.value).partition("; accepted: ")[2].split(", ")
    assert len(accepted) > 5
    assert [key for key in accepted if f"`{key}`" not in PAGE] == []


@pytest.mark.parametrize("kind", [PlatformFile, PlatformPart, ValueEntry])
def test_it_names_every_key_of_a_value_and_a_part(kind: type[msgspec.Struct]) -> None:
    assert [key for key in kind.__struct_encode_fields__ if f"`{key}`" not in PAGE] == []
