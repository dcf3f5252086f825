"""A page of every kind that firsttouch writes, for tests of what all of them have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import sample
from tests.kept_runs import stored_run

MIB = 1 << 20


def _results(*runs: str) -> Callable[[Path], Path]:
    """The report of one kept run or of several."""

    def write(folder: Path) -> Path:
        from firsttouch.report.page import write_report

        return write_report([stored_run(run) for run in runs], folder / "report.html")

    return write


def _of_sample(name: str) -> Callable[[Path], Path]:
    """The report of results that hold a point of every outcome, and hostile ones."""

    def write(folder: Path) -> Path:
        from firsttouch.report.page import render

        path = folder / "report.html"
        path.write_text(render({"out": getattr(sample, name)()}, sample.EXPERIMENTS), encoding="utf-8", newline="")
        return path

    return write


def predicted(folder: Path) -> Path:
    """What `firsttouch run --device model:mi300a` writes, of a few experiments."""
    from tests.calls import call

    run = (
        "run",
        "latency",
        "bandwidth",
        "allocation",
        "migration",
        "--device",
        "model:mi300a",
        "--out",
        folder / "run",
    )
    assert call(*run, drawn=True).returncode == 0
    return folder / "run" / "report.html"


def predicted_apps(folder: Path) -> Path:
    """What `firsttouch app --device model:gh200` writes."""
    from tests.calls import call

    run = ("app", "srad", "hotspot", "--device", "model:gh200", "--size", "64MiB", "--out", folder / "run")
    assert call(*run, drawn=True).returncode == 0
    return folder / "run" / "report.html"


def _compared(*sides: str) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        from firsttouch.report.comparison import write_comparison

        return write_comparison([str(stored_run(side)) for side in sides], folder / "compare.html")

    return write


def fleet(folder: Path) -> Path:
    """Five nodes compared, of which one is slower."""
    from tests.comparison.runs import another_run, copy, slower

    from firsttouch.report.comparison import write_comparison

    sides = [copy(folder / f"n{i}", another_run(i)) for i in range(4)]
    sides.append(copy(folder / "n4", another_run(4), slower("bandwidth", 2.0)))
    return write_comparison(sides, folder / "compare.html")


def one_profile(folder: Path) -> Path:
    from tests.profile.profiles import gpu, mark, write

    from firsttouch.report.profile import write_profile

    marks = [mark(0.1, "load"), mark(1.0, kind="end"), mark(1.0, "solve"), mark(3.5, kind="end")]
    return write_profile([write(folder / "p", *marks, gpus=[gpu()])])


def profiles(folder: Path) -> Path:
    """Two profiles over one another."""
    from tests.profile.profiles import gpu, write

    from firsttouch.report.profile import write_profile

    return write_profile([write(folder / name, gpus=[gpu()]) for name in "ab"], folder / "report.html")


def ported(folder: Path) -> Path:
    """The page of a traced program."""
    from tests.port.journals import profile
    from tests.port.test_port_command import backprop
    from tests.port.test_port_findings import names

    from firsttouch.report.profile import write_profile

    directory = profile(folder / "p", backprop().traced, callers=names())
    lines = directory / "profile.jsonl"
    lines.write_text(lines.read_text().replace('"clock":1000.0', '"clock":0.0', 1))  # that of the calls
    return write_profile([directory])


def advised(folder: Path) -> Path:
    """Advice about a traced program from a kept run."""
    from tests.port.journals import profile
    from tests.port.test_port_command import backprop
    from tests.port.test_port_findings import names

    from firsttouch.report.advised import write_advice

    traced = profile(folder / "p", backprop().traced, callers=names())
    return write_advice([str(stored_run("h200-standard"))], folder / "advice.html", str(traced), None, None)


KINDS: Mapping[str, Callable[[Path], Path]] = {
    "sample": _of_sample("results"),
    "hostile": _of_sample("hostile"),
    "h200-quick": _results("h200-quick"),
    "h200-apps-1": _results("h200-apps-1"),
    "several-gpus": _results("h200-x2-quick"),
    "several-runs": _results("h200-message", "xeon-vm-quick"),
    "predicted": predicted,
    "predicted-apps": predicted_apps,
    "comparison": _compared("h200-standard", "h200-standard-2"),
    "other-machine": _compared("h100-quick", "h200-quick"),
    "fleet": fleet,
    "profile": one_profile,
    "profiles": profiles,
    "ported": ported,
    "advised": advised,
}
