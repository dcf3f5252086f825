"""What `firsttouch port` says of programs that nobody here wrote: each number has its word, and only what is seen or
likely comes with advice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.port.test_third_party import KNOWN, findings_of

from firsttouch.advice.port.hazards import ANCHORS, PAGE
from firsttouch.advice.port.port_findings import PortFindings
from firsttouch.cli.ported import MOST_LINES, lines
from firsttouch.profile.reading import read
from firsttouch.report.ported import ported_page

LARGE = {"streamcluster", "cfd", "simpleStreams"}
"""Those that take seconds."""
WORD = re.compile(r"\b(exact|assumed|unseen|seen|likely|at most|none)\b")
NAMES = re.compile(r"\S+\.(?:cu|cpp|c|h|tcc|so)\S*|docs/\S+|:\d+|\b[A-Za-z_]+\w*\d\w*")
"""Files, lines, links and names, whose digits are no numbers of this program."""


@pytest.fixture(params=sorted(KNOWN.keys() - LARGE), scope="module")
def port(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> PortFindings:
    return findings_of(request.param, tmp_path_factory.mktemp("recorded"))


def test_each_number_on_the_terminal_has_its_word(port: PortFindings):
    shown = lines(port, ["report.html"])
    assert len(shown) <= MOST_LINES
    *paragraphs, last, page = re.split(r"\n(?! )", "\n".join(shown))
    assert last.startswith("next      firsttouch advise RUN --profile ")
    assert page == "report.html"
    entries = [entry for paragraph in paragraphs for entry in re.split(r"\n {10}(?=\S)", paragraph)]
    for entry in entries:
        head = paragraphs[-1].startswith("unseen") and entry in paragraphs[-1]
        assert head or WORD.search(entry) or not re.search(r"\d", NAMES.sub("", entry)), entry


def test_advice_is_given_for_what_is_seen_or_likely_and_a_likely_finding_names_its_innocent_reading(port: PortFindings):
    for finding in port.findings:
        is_counted = finding.certainty != "possible"
        assert bool(finding.strategy) == bool(finding.link) == is_counted
        assert bool(finding.reading) == (finding.certainty == "likely")
    assert all(bool(row.reading) == (row.certainty == "likely") for row in port.needless)


def test_each_number_of_the_page_s_tables_has_its_word(port: PortFindings):
    page = ported_page(read(Path(port.directory)))
    assert page is not None
    tables = {table.anchor: table for table in page.tables}
    for anchor in tables.keys() & {"solve-first", "needless-copies"}:
        assert {row[0] for row in tables[anchor].rows} <= {"seen", "likely", "possible"}
    assert all("exact" in note or "at most" in note for note in tables["unified-memory"].notes[1:2])
    for (step,) in tables["program"].rows:
        used = re.search(r"^ *(?:gpu|cpu|copy) .*\[|reads|writes|updates", step)
        assert not used or re.search(r"\b(exact|assumed)\b", step), step


def test_each_number_of_the_json_has_its_certainty(port: PortFindings):
    data = msgspec.to_builtins(port)

    def walk(value: Any, path: str) -> Iterator[str]:
        for key, part in value.items() if isinstance(value, dict) else ():
            yield from walk(part, f"{path}.{key}" if path else key)
        for part in value if isinstance(value, list | tuple) else ():
            yield from walk(part, path)
        if isinstance(value, int | float) and not isinstance(value, bool):
            yield path

    known = tuple(data["certainties"])
    bare = {path for path in walk(data, "") if not path.startswith((*known, "findings", "needless"))}
    assert bare <= {"pid", "others", "status", "blocks.number", "blocks.place.line"}


def test_each_finding_links_to_a_chapter_of_the_guide():
    text = (Path(__file__).parents[2] / PAGE).read_text()
    chapters = {line.lstrip("# ").lower().replace(" ", "-") for line in text.splitlines() if line.startswith("#")}
    assert set(ANCHORS.values()) <= chapters
