"""Writes the tables of docs/reproduce.md from the studies' data: python docs/reproduce.py

Each paper has two tables between <!-- lines: PAPER --> and <!-- end of lines -->: the conditions of its figures, and
the calls that repeat them. A test compares.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import msgspec

from firsttouch.cli.reproduce import in_words
from firsttouch.records.papers.studies import Study, StudyLine

PAGE = Path(__file__).with_name("reproduce.md")
DATA = PAGE.parents[1] / "src/firsttouch/records/papers/data/studies"
PLACE = re.compile(r"(<!-- lines: (\S+) -->\n).*?(<!-- end of lines -->)", re.DOTALL)
NONE, NO = "none: ", "no"


def page() -> str:
    return PLACE.sub(lambda found: f"{found[1]}{tables(_study(found[2]))}{found[3]}", PAGE.read_text())


def _study(paper: str) -> Study:
    return msgspec.json.decode((DATA / f"{paper}.json").read_bytes(), type=Study)


def tables(study: Study) -> str:
    measured = [part for part in study.parts if part.measured and part.id in study.names]
    conditions = [[part.id, part.shows, "; ".join(in_words(part.conditions)) or "as for all"] for part in measured]
    everywhere = [["all", "", "; ".join(in_words(study.common))]]
    lines = [
        [where(line), line.what, command(line), ", ".join(line.machines), differs(line), ran(line), line.modelled or NO]
        for line in study.lines
    ]
    return "\n".join(
        [
            *table(["figure", "shows", "measured under these conditions"], [*everywhere, *conditions]),
            "",
            *table(["in the study", "what", "command", "machine", "differs", "ran here", "modelled"], lines),
            "",
        ]
    )


def where(line: StudyLine) -> str:
    """Figures, tables and sections, each kind named once: 'Fig. 8, 9, Sec. 6.1'."""
    words, kind = [], ""
    for name in line.where:
        this, _, number = name.partition(" ")
        words.append(number if this == kind else name)
        kind = this
    return ", ".join(words)


def command(line: StudyLine) -> str:
    return f"`{line.command}`" if line.command else f"{NONE}{line.no_command}"


def differs(line: StudyLine) -> str:
    """What differs from the study, and what it leaves open and is assumed."""
    told = [f"{name}: {why}" for name, why in line.differs.items()]
    told += [f"{name}, assumed: {why}" for name, why in line.assumed.items()]
    return "; ".join(told)


def ran(line: StudyLine) -> str:
    return ", ".join(line.ran) or NO


def table(heads: list[str], rows: Iterable[list[str]]) -> list[str]:
    cells = [heads, ["---"] * len(heads), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return [f"| {' | '.join(row)} |".replace("|  |", "| |") for row in cells]


if __name__ == "__main__":
    PAGE.write_text(page())
