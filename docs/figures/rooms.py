"""Draws docs/figures/rooms.svg from the import contract in pyproject.toml: python docs/figures/rooms.py"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PICTURE = Path(__file__).with_suffix(".svg")

ABOUT = {
    "cli": "one thin module per command",
    "library": "what `import firsttouch` offers",
    "commands": "what each command finds, for both",
    "report": "figures, page, export",
    "worker": "the worker process: its table of tasks",
    "advice": "which memory strategy to take",
    "work": "kinds of work: run and app",
    "api": "the names that external modules import",
    "apps": "one module and one kernel file per application",
    "harness": "measures applications",
    "engine": "discover, plan, run point by point",
    "outcomes": "what records of applications say",
    "experiments": "one module per experiment",
    "papers": "published results, and claims tested on a run",
    "comparison": "sides of `compare`, what differs",
    "session": "what a measurement uses",
    "text": "how values are written",
    "workspace": "strategies and copies",
    "allocators": "properties of allocators, and trials",
    "workers": "processes that may crash",
    "profile": "memory of any program over time",
    "events": "unified-memory events",
    "counters": "counters of profilers",
    "machine": "this machine, backends, devices",
    "analysis": "statistics, curves, findings",
    "figures": "kinds of figure",
    "kernels": "device code",
    "records": "stored records and their schemas",
    "files": "safe files",
    "modules": "loads modules",
    "errors": "errors",
    "units": "sizes, times",
}
NATIVE = "C++: Device contract, guard, backends, Lab, probes, CPU loops, events, profiling, math libraries"
WIDTH, ROW, GAP, LEFT = 880, 46, 8, 46


def layers() -> list[list[str]]:
    """The rooms of each layer of the contract, highest first."""
    contract = (ROOT / "pyproject.toml").read_text().partition("[tool.importlinter]")[2]
    rows = re.search(r"^layers = \[(.*?)^\]", contract, re.DOTALL | re.MULTILINE)
    assert rows is not None
    return [row.split(" | ") for row in re.findall(r'"([^"]+)"', rows[1])]


def _box(x: float, y: float, width: float, name: str, about: str, fill: str) -> str:
    middle = x + width / 2
    return (
        f'<rect x="{x:.0f}" y="{y}" width="{width:.0f}" height="{ROW - GAP}" rx="4" fill="{fill}" stroke="#8c959f"/>'
        f'<text x="{middle:.0f}" y="{y + 16}" font-weight="bold">{escape(name)}</text>'
        f'<text x="{middle:.0f}" y="{y + 31}" font-size="11">{escape(about)}</text>'
    )


def picture() -> str:
    rows = layers()
    height = (len(rows) + 1) * ROW + 2 * GAP + 12
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
        'font-size="13" text-anchor="middle" fill="#1f2328" role="img">'
        "<title>The rooms of firsttouch; each imports only rooms below it</title>"
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>'
    ]
    for index, names in enumerate(rows):
        each = (WIDTH - LEFT - GAP - GAP * (len(names) - 1)) / len(names)
        for place, name in enumerate(names):
            parts.append(_box(LEFT + place * (each + GAP), GAP + index * ROW, each, name, ABOUT[name], "#f6f8fa"))
    parts.append(_box(LEFT, GAP + len(rows) * ROW + 12, WIDTH - LEFT - GAP, "_core", NATIVE, "#ddf4ff"))
    end = height - 2 * GAP
    parts.append(
        f'<path d="M18 {2 * GAP} V{end} M12 {end - 10} L18 {end} L24 {end - 10}" fill="none" stroke="#57606a" '
        f'stroke-width="1.5"/><text transform="translate(36 {height / 2:.0f}) rotate(-90)">imports</text></svg>\n'
    )
    return "\n".join(parts)


if __name__ == "__main__":
    PICTURE.write_text(picture())
