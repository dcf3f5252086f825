"""Recomputes the tables and sentences of the documentation that quote records.

    python evidence/recompute            rewrites them
    python evidence/recompute --check    says which are out of date; exit status 1 if any is

A page holds such text between two comments. The first names it and the directories that it is computed from:

    <!-- recomputed: latency results/h200-standard -->
    ...
    <!-- end of recomputed -->

Directories are relative to the root of the repository, and may be patterns: results/h200-apps* is every directory of
that kind. The names are the keys of `TABLES` (tables.py) and of the `TEXTS` of the other modules.
"""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import evidence
import model
import port_programs
import ported
import profiled
import ranges
import traced_apps
import traced_calls
import tried
from records import ROOT, Directory, load, matching
from tables import TABLES

TEXTS = {
    **evidence.TEXTS,
    **model.TEXTS,
    **port_programs.TEXTS,
    **traced_apps.TEXTS,
    **traced_calls.TEXTS,
    **ported.TEXTS,
    **ranges.TEXTS,
}
OF_PATHS = {**profiled.OF_PROFILES, **tried.OF_TRIES}
"""Those of directories that hold no results."""
PAGES = [
    ROOT / "README.md",
    *(page for folder in ("docs", "evidence") for page in sorted((ROOT / folder).rglob("*.md"))),
]
PART = re.compile(r"<!-- recomputed: (\S+) (\S[^\n]*?) -->\n(.*?)<!-- end of recomputed -->", re.DOTALL)


def directories(patterns: str) -> Sequence[Directory]:
    paths = [path for pattern in patterns.split() for path in matching(pattern)]
    paths = [path for path in paths if (path / "results.jsonl").is_file()]
    if not paths:
        raise SystemExit(f"{patterns}: no such directory of results")
    return [load(path) for path in paths]


def text_of(name: str, patterns: str) -> str:
    """What belongs between the two comments."""
    if name in TABLES:
        return TABLES[name].text(directories(patterns))
    if name in TEXTS:
        return TEXTS[name](directories(patterns))
    if name in OF_PATHS:
        return OF_PATHS[name]([path for pattern in patterns.split() for path in matching(pattern)])
    raise SystemExit(f"{name} is neither a table nor a text; there are {', '.join([*TABLES, *TEXTS, *OF_PATHS])}")


def recomputed(page: str) -> str:
    """The page with all such texts as they follow from the records."""
    if page.count("<!-- recomputed:") != len(PART.findall(page)):
        raise SystemExit("a comment that begins a recomputed text has no end, or names no directory")
    return PART.sub(lambda m: m[0][: m.start(3) - m.start()] + text_of(m[1], m[2]) + m[0][m.end(3) - m.start() :], page)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", type=Path, default=PAGES, help="default: README.md, docs and evidence")
    parser.add_argument("--check", action="store_true", help="change nothing, and say which pages are out of date")
    options = parser.parse_args(arguments)
    stale = []
    for path in options.pages:
        before = path.read_text()
        if (after := recomputed(before)) == before:
            continue
        stale.append(path)
        if options.check:
            print(
                *difflib.unified_diff(before.splitlines(), after.splitlines(), "page", "records", n=0, lineterm=""),
                sep="\n",
            )
        if not options.check:
            path.write_text(after)
        print(f"{path}: {'out of date' if options.check else 'rewritten'}")
    return int(options.check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
