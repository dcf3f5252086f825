"""Tries an installed firsttouch as a new user would: the commands of its README, in order, outside any clone.

    python packaging/try_installed.py        with the Python that it is installed for

The README is that of the installed package, and the commands are those in its indented blocks. What installs is left
out, and a run is a short one. Exit status 1: a command fails, or does not print what the README says.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from importlib.metadata import distribution
from pathlib import Path

SHORT = {"firsttouch run": "firsttouch run latency --device cpu --set size=32KiB"}
"""What is carried out in place of a command that takes minutes."""


def commands(readme: str) -> list[tuple[str, list[str]]]:
    """The commands of the indented blocks, each with the lines that it prints there, up to '...'."""
    shown: list[tuple[str, list[str]]] = []
    for line in re.findall(r"^ {4}(.+)$", readme, re.MULTILINE):
        if line.startswith(("$ ", "firsttouch ")):
            shown.append((line.removeprefix("$ ").partition("  #")[0].strip(), []))
        elif shown and shown[-1][1][-1:] != ["..."]:
            shown[-1][1].append(line)
    return shown


def lacking(lines: list[str], printed: str) -> list[str]:
    """The lines that were not printed. Lines may break elsewhere."""
    whole = " ".join(printed.split())
    return [line for line in lines if line != "..." and " ".join(line.split()) not in whole]


def carry_out(command: str, lines: list[str], folder: Path) -> tuple[str, Path]:
    """Returns what was wrong, and the folder of the next command."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "FIRSTTOUCH"))}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    program, _, below = SHORT.get(command, command).partition(" && cd ")
    done = subprocess.run(program, shell=True, cwd=folder, env=environment, text=True, capture_output=True)
    if done.returncode:
        return f"exit status {done.returncode}: {done.stderr.strip()[-500:]}", folder
    missing = lacking(lines, done.stdout)
    return f"does not print {missing[0]!r}" if missing else "", folder / below


def main() -> int:
    package = distribution("firsttouch")
    shown = commands(package.metadata.get_payload() or package.metadata["Description"])
    failed = len(shown) < 5
    print(f"firsttouch {package.version}, Python {sys.version.split()[0]}, {len(shown)} commands in its README")
    with tempfile.TemporaryDirectory() as empty:
        folder = Path(empty)
        for command, lines in [("firsttouch --version", [f"firsttouch {package.version}"]), *shown]:
            began = time.monotonic()
            wrong, folder = carry_out(command, lines, folder)
            print(f"{time.monotonic() - began:5.1f} s  {command}: {wrong or 'as the README says'}", flush=True)
            failed |= bool(wrong)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
