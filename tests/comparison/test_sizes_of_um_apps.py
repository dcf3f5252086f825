"""Table I of the study of CUDA unified memory on the page: the paper's sizes, and those that the commands reach."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.fabricated import GIB

from firsttouch import _core
from firsttouch.apps import all_apps
from firsttouch.harness.app import solve
from firsttouch.harness.fitting import memory_sizes
from firsttouch.records.papers.rows import all_rows
from firsttouch.records.schema import DeviceInfo

PAGE = Path(__file__).parents[2] / "docs/reproduce.md"
APPS = {
    "Black-Scholes": ("black-scholes", "black_scholes"), "cublas": ("cublas", "gemm"),
    "CG": ("cg", "conjugate_gradient"), "Graph500": ("graph500", "graph500_bfs"), "conv0": ("conv0", "fft_conv_r2c"),
    "conv1": ("conv1", "fft_conv_c2c"), "conv2": ("conv2", "fft_conv_fused"), "FDTD3d": ("fdtd3d", "fdtd3d"),
}  # fmt: skip
"""By heading, what the rows call it, and the application."""
PLATFORMS = {"Pascal": ("intel-pascal", 4), "Volta, Power 9": ("intel-volta", 16)}
EXPERIMENTS = {"in memory": "application", "oversubscribed": "oversubscription"}
CELLS = [(platform, regime, app) for platform in PLATFORMS for regime in EXPERIMENTS for app in APPS]


def table() -> dict[tuple[str, str, str], str]:
    lines = [line.strip("| ").split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("|")]
    at = next(i for i, cells in enumerate(lines) if cells[0] == "GB")
    head, found = lines[at][1:], {}
    for name, *cells in lines[at + 2 : at + 6]:
        platform, _, regime = name.rpartition(", ")
        found |= {(platform, regime, app): cell for app, cell in zip(head, cells, strict=True)}
    return found


def parameters_on_page(app: str, platform: str, regime: str) -> dict[str, int]:
    """Those that the command of that machine sets instead of a size."""
    over = "--allow-oversubscription" if regime == "oversubscribed" else ""
    (line,) = (
        line
        for line in PAGE.read_text().splitlines()
        if f"app {app} " in line and ("--allow-oversubscription" in line) == bool(over) and f"| {platform}" in line
    )
    return {name: int(value) for name, value in re.findall(r"--set (n|factor)=(\d+)", line)}


@pytest.mark.parametrize(("platform", "regime", "name"), CELLS)
def test_each_size_is_the_papers_and_what_is_reached(
    platform: str, regime: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stated, _, reached = table()[platform, regime, name].partition(" (")
    (id_app, app), (id_platform, card), experiment = APPS[name], PLATFORMS[platform], EXPERIMENTS[regime]
    rows = {row.id: row for row in all_rows() if row.paper == "cuda-um-2019"}
    value = rows[f"{experiment}.{id_app}.input.{id_platform}"].value
    assert stated == value or float(stated) == value
    if not reached:
        assert value == "not run"
        return
    kind = all_apps()[app]
    if set_here := parameters_on_page(app, platform, regime) if app == "graph500_bfs" else {}:
        params = {**kind.sizes["default"], **set_here}
    else:
        monkeypatch.setattr(_core, "guard_limits", lambda: {"host": 10 * card * GIB, "FIRSTTOUCH_MAX_MANAGED": None})
        free = DeviceInfo("cuda:0", "cuda", "", facts={"memory_free_bytes": card * GIB})
        nbytes = memory_sizes(free, None)["in-memory"] if regime == "in memory" else 1.5 * card * GIB
        assert isinstance(nbytes, int | float)
        params = solve(kind, int(nbytes))
    assert float(reached.rstrip(")")) == pytest.approx(kind.footprint(params) / 1e9, rel=0.01)
