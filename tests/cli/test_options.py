"""docs/options.md says of every option and every environment variable who needs it."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

from firsttouch.cli.main import app, parser

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/options.md").read_text()
ROWS = re.findall(r"^\| (`.*?) \| (.*?) \| (.*?) \|$", PAGE.partition("## Environment")[0], re.MULTILINE)


def names(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def test_every_option_has_somebody_who_needs_it() -> None:
    of_commands = defaultdict(set)
    for command in app.registered_commands:
        for parameter in parser(command.name or "").commands[command.name].params:
            if parameter.param_type_name == "option" and parameter.name != "help":
                of_commands[max(parameter.opts, key=len)].add(command.name)
    listed = defaultdict(set)
    for options, commands, who in ROWS:
        assert re.match(r"[NDPMOX]\b", who), who
        for option in names(options):
            listed[option] |= set(names(commands))
    everything = {command.name for command in app.registered_commands}
    listed["--json"] = everything - {"mark", "completion"}
    assert listed == of_commands


def test_every_environment_variable_is_listed() -> None:
    found: set[str] = set()
    for folder in ("src/firsttouch", "native"):
        for path in (ROOT / folder).rglob("*.[ch]pp" if folder == "native" else "*.py"):
            found |= set(re.findall(r'"(FIRSTTOUCH_[A-Z_]+[A-Z])"', path.read_text()))
    unlisted = {name for name in found if not name.startswith("FIRSTTOUCH_LIB_")} - set(names(PAGE))
    assert not unlisted, "docs/options.md says who needs it"
