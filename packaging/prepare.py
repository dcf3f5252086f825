#!/usr/bin/env python3
"""Fills in what leads nowhere until a release is published: see PUBLISH.md.

packaging/prepare.py https://HOST/firsttouch --report security@HOST
packaging/prepare.py --digest firsttouch-0.2.0.tar.gz
"""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ADDRESS = "https://firsttouch.example/firsttouch"
REPORT = "by the form of the site that hosts this repository"
DIGEST = "0" * 64
FILES = (
    "pyproject.toml",
    "CITATION.cff",
    "SECURITY.md",
    "packaging/conda/recipe.yaml",
    "packaging/spack/packages/py_firsttouch/package.py",
)


def fill_in(root: Path, values: Mapping[str, str]) -> list[str]:
    """Replaces each text by its value in all files. Returns the files that changed."""
    changed = []
    for name in FILES:
        path = root / name
        text = before = path.read_text(encoding="utf-8")
        for placeholder, value in values.items():
            text = text.replace(placeholder, value)
        if text != before:
            path.write_text(text, encoding="utf-8")
            changed.append(name)
    return changed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address", nargs="?", help="of the repository, without a slash at the end")
    parser.add_argument("--report", help="where vulnerabilities are reported: an address or a mailbox")
    parser.add_argument("--digest", type=Path, metavar="FILE", help="the source distribution that was uploaded")
    given = parser.parse_args()
    values = {
        **({ADDRESS: given.address.rstrip("/")} if given.address else {}),
        **({REPORT: f"to {given.report}"} if given.report else {}),
        **({DIGEST: hashlib.sha256(given.digest.read_bytes()).hexdigest()} if given.digest else {}),
    }
    if not values:
        parser.error("name the repository's address, --report or --digest")
    print("\n".join(fill_in(ROOT, values)) or "nothing was left to fill in")


if __name__ == "__main__":
    main()
