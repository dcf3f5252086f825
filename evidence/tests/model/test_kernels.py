"""What kernels of applications take, from profiles: at another size, on another device, and in the host's memory."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from types import ModuleType

import msgspec
import pytest
from tests.kept_runs import stored_run
from tests.scripts import load_script

from firsttouch.apps import all_apps
from firsttouch.base.errors import UsageError
from firsttouch.harness.app import solve
from firsttouch.model import kernel_records, kernels
from firsttouch.model.kernels import KernelProfiles, Kernels, NoProfile, known_profiles
from firsttouch.model.micro import code
from firsttouch.model.platform import Platform, load_platform
from firsttouch.model.what_if import with_kernels
from firsttouch.program.dry_run import program_of
from firsttouch.program.program import Launch

ROOT = Path(__file__).parents[3]
GIB = 2**30


def recompute(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "evidence/recompute")
    return load_script(ROOT / "evidence/recompute/kernels.py")


def kernels_of(name: str, size: int, platform: Platform, profiles: KernelProfiles | None = None) -> Kernels:
    app = all_apps()[name]
    if profiles is not None:
        return kernels.kernels_at(app, size, platform, profiles)
    return kernel_records.kernels_for(app, size, platform)


def without(profiles: KernelProfiles, *sources: str) -> KernelProfiles:
    """Profiles without the points of directories whose names contain any of these."""
    kept = {
        name: msgspec.structs.replace(p, points=tuple(q for q in p.points if not any(s in q.source for s in sources)))
        for name, p in profiles.applications.items()
    }
    return msgspec.structs.replace(profiles, applications=kept)


def test_the_profiles_are_those_of_the_records(monkeypatch: pytest.MonkeyPatch) -> None:
    assert recompute(monkeypatch).generated() == Path(str(kernels.FILE)).read_bytes(), (
        "run: python evidence/recompute/kernels.py"
    )


def test_the_code_of_targets_is_that_of_the_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "evidence/recompute")
    made = load_script(ROOT / "evidence/recompute/code.py")
    assert made.generated() == Path(str(code.FILE)).read_bytes(), "run: python evidence/recompute/code.py"


@pytest.mark.parametrize("name", sorted(known_profiles().applications))
def test_runs_in_place_at_another_size_take_what_a_profile_says(name: str) -> None:
    """On an H100 at 1 GiB, from another size, visit and machine: an H200 at 256 MiB."""
    profiles, other = known_profiles(), without(known_profiles(), "h100", "h200-apps")
    for point in profiles.applications[name].points:
        if "1gib" in point.source and point.link and other.applications[name].points:
            crossings = kernels_of(name, GIB, load_platform("h200-pcie"), other).crossings
            assert crossings is not None
            ns = crossings.value * point.link_bytes / profiles.devices[point.device].link
            assert ns == pytest.approx(point.link, rel=0.4)


UNKNOWN_BEFOREHAND = {
    "pointer_tree": "walks of page tables of more memory than the GPU's translations reach",
    "producer_consumer": "turns of a kernel and the CPU over flags, which take the latency of the link",
    "transport": "each particle is taken once for each segment of its way, whose number follows from the data",
}
"""Why kernels take more than three times what they declare across the link."""


@pytest.mark.parametrize("name", sorted(known_profiles().applications))
def test_kernels_take_across_the_link_what_they_declare_within_a_factor_of_three(name: str) -> None:
    profiles = known_profiles()
    points = [p for p in profiles.applications[name].points if p.link and p.footprint > 200e6]
    ratios = [(p.link or 0) * profiles.devices[p.device].link / p.link_bytes for p in points]
    assert all(1 / 3 < ratio < 3 for ratio in ratios) or name in UNKNOWN_BEFOREHAND, ratios


def test_kernels_that_memory_limits_are_scaled_by_it_and_others_by_the_processors() -> None:
    """An H100 at 1 GiB, and a GH200."""
    on_h200, on_gh200 = (load_platform(name) for name in ("h200-pcie", "gh200"))
    profiles = known_profiles()
    ratio = profiles.devices["h200"].memory / on_gh200.quantity(kernels.BANDWIDTH).value
    own, scaled = (kernels_of("black_scholes", 2 * GIB, p, without(profiles, "h100")) for p in (on_h200, on_gh200))
    assert scaled.per_byte.value == pytest.approx(ratio * own.per_byte.value)
    assert scaled.per_byte.low <= own.per_byte.value <= scaled.per_byte.high
    gemm_own, gemm = (kernels_of("gemm", GIB, p, without(profiles, "h100")).per_byte.value for p in (on_h200, on_gh200))
    assert gemm == pytest.approx(gemm_own, rel=0.01)  # as many processors at the same clock
    on_h100 = load_platform("h100-pcie")
    for name in ("hotspot", "particlefilter", "lud", "cfd", "black_scholes"):
        measured = kernels_of(name, GIB, on_h100).per_byte
        moved = kernels_of(name, GIB, on_h100, without(profiles, "h100")).per_byte
        assert measured is not None
        assert moved is not None
        assert moved.low <= measured.high, name
        assert measured.low <= moved.high, name
        assert moved.value == pytest.approx(measured.value, rel=0.4), name


def test_an_application_that_has_changed_has_no_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    app, platform = all_apps()["hotspot"], load_platform("h200-pcie")
    kernel_records.kernels_for(app, GIB, platform)
    fft = all_apps()["fft_conv_fused"]
    with pytest.raises(NoProfile, match="not measured with library=own"):
        kernel_records.kernels_for(fft, GIB, platform, {"library": "own"})
    kernels.digest_of.cache_clear()
    monkeypatch.setattr(app, "kernel_files", lambda self: [self.kernels, self.kernels])
    with pytest.raises(NoProfile, match="hotspot has changed"):
        kernel_records.kernels_for(app, GIB, platform)
    kernels.digest_of.cache_clear()
    monkeypatch.setattr(app, "name", "mine")
    with pytest.raises(NoProfile, match=r"kernels of mine .*not measured"):
        kernel_records.kernels_for(app, GIB, platform)


def test_kernels_of_ones_own_runs_take_the_place_of_the_program_s() -> None:
    """On another device: the rates of its memory are those that this program knows of it."""
    runs = str(stored_run("h100-apps-256mib"))
    own = load_platform("h200-pcie").changed({"kernels": runs})
    kernels = kernels_of("hotspot", 256 * 2**20, own)
    assert kernels.sources == (runs,)
    assert kernels.per_byte is not None
    known = kernels_of("hotspot", 256 * 2**20, load_platform("h200-pcie")).per_byte
    assert known is not None
    assert kernels.per_byte.low <= known.value <= kernels.per_byte.high
    with pytest.raises(NoProfile, match=f"{re.escape(runs)} .*quantum_volume"):
        kernels_of("quantum_volume", 256 * 2**20, own)


def test_the_rates_of_ones_own_device_are_those_of_its_platform(tmp_path: Path) -> None:
    """A device that this program does not know, whose micro-measurements are in the platform file."""
    for file in ("machine.json", "run.json", "results.jsonl"):
        text = (stored_run("h200-in-place-2") / file).read_text()
        (tmp_path / file).write_text(text.replace("NVIDIA H200", "My GPU"))
    mine = json.dumps({"extends": "h200-pcie", "title": "Mine", "device": {"title": "My GPU"}})
    (tmp_path / "mine.json").write_text(mine)
    own = load_platform(str(tmp_path / "mine.json")).changed({"kernels": str(tmp_path)})
    crossings = kernels_of("graph500_bfs", 256 * 2**20, own).crossings
    known = kernels_of("graph500_bfs", 256 * 2**20, load_platform("h200-pcie")).crossings
    assert crossings is not None
    assert known is not None
    assert crossings.value == pytest.approx(known.value, rel=0.1)
    with pytest.raises(NoProfile, match="firsttouch run bandwidth"):
        kernels_of("graph500_bfs", 256 * 2**20, load_platform("gh200").changed({"kernels": str(tmp_path)}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({}, "holds no results of applications"),
        ({"modelled": {"platform": "gh200", "digest": "0"}}, "holds predictions"),
        ({"device": "cuda:1"}, "holds runs on A and B"),
    ],
)
def test_runs_that_say_nothing_of_kernels_are_refused(tmp_path: Path, change: dict[str, object], message: str) -> None:
    source = stored_run("h200-in-place-2")
    if change:
        machine = json.loads((source / "machine.json").read_text())
        gpu = next(d for d in machine["devices"] if d["name"] == "cuda:0")
        machine["devices"] += [{**gpu, "name": "cuda:1", "title": "B"}]
        gpu["title"] = "A"
        (tmp_path / "machine.json").write_text(json.dumps(machine))
        shutil.copy(source / "run.json", tmp_path)
        line = (source / "results.jsonl").read_text().splitlines()[0]
        changed = json.dumps(json.loads(line) | change)
        (tmp_path / "results.jsonl").write_text(f"{line}\n{changed}\n")
    with pytest.raises(UsageError, match=message):
        with_kernels(["model:gh200"], str(tmp_path))
    with pytest.raises(UsageError, match="--kernels is for predictions"):
        with_kernels(["cuda:0"], str(tmp_path))


def test_what_the_cpu_computes_at_the_beginning_is_measured_in_memory_that_is_there() -> None:
    """bfs counts and connects nodes, which takes many times as long as streaming through their bytes."""
    bfs = all_apps()["bfs"]
    program = program_of(bfs, solve(bfs, 256 * 2**20))
    known = kernel_records.kernels_for(bfs, program.nbytes, load_platform("h200-pcie"))
    times = [known.cpu_time(launch, "initialise").value for launch in program.initialise if isinstance(launch, Launch)]
    assert 20e6 < sum(times) < 40e6  # ns; 29.5 ms were measured in page-locked memory


def test_of_runs_that_only_counted_nothing_but_what_was_counted_is_known() -> None:
    profiles = known_profiles()
    points = [p for p in profiles.applications["srad"].points if p.asked]
    counted = [msgspec.structs.replace(p, kernels=None, link=None, cpu=None, begin=None) for p in points]
    profile = msgspec.structs.replace(profiles.applications["srad"], points=tuple(counted))
    only = msgspec.structs.replace(profiles, applications={"srad": profile})
    found = kernels_of("srad", points[0].footprint, load_platform("tk1"), only)
    assert found.asked is not None
    assert (found.per_byte, found.crossings, found.cpu_per_byte, found.begin_per_byte) == (None, None, None, None)
