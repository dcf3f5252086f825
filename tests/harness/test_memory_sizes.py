"""Which sizes fit on a simulated GPU: the named sizes, budgets, ballasts, and the reasons for refusals."""

from __future__ import annotations

import re

import pytest
from msgspec import structs

from firsttouch import _core
from firsttouch.apps import all_apps
from firsttouch.base.errors import Unsupported, UsageError
from firsttouch.engine.plan import make_plan
from firsttouch.engine.planned import Planned
from firsttouch.engine.work_kinds import APP
from firsttouch.harness.app import solve
from firsttouch.harness.experiment import applications
from firsttouch.harness.shortage import Shortage, bytes_left_by_ballast
from firsttouch.program.needs import may_be_on_device
from firsttouch.program.steps import Allocate
from firsttouch.program.strategies import STRATEGIES, Strategy
from firsttouch.records.schema import SCHEMA, AllocatorInfo, DeviceCapabilities, DeviceInfo, Request, Scalar

MiB, GiB = 2**20, 2**30
HINT = "; use --allow-oversubscription to run it anyway"
LEFT_AT_3 = "170.7 MiB left free: 682.7 MiB less 512 MiB kept for other processes"
"""Of 2 GiB at a ratio of 3."""
_HOST = {"cpu": "direct", "gpu": "direct", "host_memory": True}
ALLOCATORS = [
    AllocatorInfo(name="device", available=True, gpu="direct", device_memory=True),
    AllocatorInfo(name="malloc", available=True, **_HOST),  # type: ignore[arg-type]
    AllocatorInfo(name="pinned", available=True, **_HOST),  # type: ignore[arg-type]
    AllocatorInfo(name="managed", available=True, device_memory=True, managed=True, **_HOST),  # type: ignore[arg-type]
]


def simulated_gpu(**facts: Scalar) -> DeviceInfo:
    known: dict[str, Scalar] = {"memory_bytes": 8 * GiB, "memory_free_bytes": 8 * GiB, **facts}
    can = DeviceCapabilities(
        runs_kernels=True,
        shares_host_memory=known.pop("shares_host_memory", None) is True,
        memory_events=True,
        memory_guidance=True,
        reports_free_memory=True,
        time_class="gpu",
    )
    return DeviceInfo(
        name="cuda:0", kind="cuda", title="simulated", facts=known, capabilities=can, allocators=ALLOCATORS
    )


@pytest.fixture(autouse=True)
def limits(monkeypatch: pytest.MonkeyPatch) -> dict[str, int | None]:
    """A host with 64 GiB of usable memory, and no limits set by the user."""
    known: dict[str, int | None] = {"host": 64 * GiB, "FIRSTTOUCH_MAX_MANAGED": None}
    monkeypatch.setattr(_core, "guard_limits", lambda: known)
    monkeypatch.delenv("FIRSTTOUCH_ALLOW_OVERSUBSCRIPTION", raising=False)
    return known


def plan(name: str, device: DeviceInfo | None = None, **sets: str) -> dict[str, Planned]:
    """The points of one application by strategy. sets: values of factors, separated by commas."""
    requested: dict[str, list[Scalar]] = {k: [*v.split(",")] for k, v in ({"events": "off"} | sets).items()}
    request = Request(
        schema=SCHEMA, experiments=[name], devices=["cuda:0"], preset="quick", seed=1, kind="app", set=requested
    )
    points = make_plan(request, [device or simulated_gpu()], applications(all_apps(), requested), {}, APP.planning)
    return {str(p.point.factors["strategy"]): p for p in points}


def reasons(name: str, device: DeviceInfo | None = None, **sets: str) -> dict[str, str]:
    return {strategy: point.reason for strategy, point in plan(name, device, **sets).items()}


@pytest.mark.parametrize(
    ("smallest", "facts", "host", "managed", "sets"),
    [
        (8 * GiB, {}, 64 * GiB, None, {}),
        (5 * GiB, {"memory_free_bytes": 5 * GiB}, 64 * GiB, None, {}),
        (8 * GiB, {"memory_free_bytes": None}, 64 * GiB, None, {}),
        (3 * GiB, {}, 6 * GiB, None, {}),
        (2 * GiB, {}, 64 * GiB, 2 * GiB, {}),
        (1 * GiB, {}, 64 * GiB, 2 * GiB, {"budget": "1GiB"}),
        (2 * GiB, {}, 64 * GiB, 2 * GiB, {"budget": "4GiB"}),
    ],
)
def test_in_memory_is_80_percent_of_the_smallest_limit(
    smallest: int,
    facts: dict[str, Scalar],
    host: int,
    managed: int | None,
    sets: dict[str, str],
    limits: dict[str, int | None],
) -> None:
    limits |= {"host": host, "FIRSTTOUCH_MAX_MANAGED": managed}
    points = plan("black_scholes", simulated_gpu(**facts), size="in-memory", strategy="managed,explicit", **sets)
    for point in points.values():
        size = point.point.factors["size"]
        assert isinstance(size, int)
        assert 0.8 * smallest * 15 / 16 <= size <= 0.8 * smallest  # rounded down, to be reproducible
        assert point.reason == ""


@pytest.mark.parametrize(
    ("of", "facts", "sets"),
    [
        (8 * GiB, {}, {}),
        (6 * GiB, {"memory_free_bytes": 6 * GiB}, {}),
        (2 * GiB, {}, {"budget": "2GiB"}),
    ],
)
def test_oversubscribed_is_150_percent_of_free_memory_or_budget(
    of: int, facts: dict[str, Scalar], sets: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRSTTOUCH_ALLOW_OVERSUBSCRIPTION", "1")
    (point,) = plan("black_scholes", simulated_gpu(**facts), size="oversubscribed", strategy="managed", **sets).values()
    size = point.point.factors["size"]
    assert isinstance(size, int)
    assert 1.5 * of * 15 / 16 <= size <= 1.5 * of
    assert point.reason == ""


def test_managed_oversubscription_must_be_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    sets = {"size": "12GiB", "strategy": "explicit,managed,managed+prefetch,pinned"}
    found = reasons("black_scholes", **sets)
    needs = str(found["explicit"])
    assert "12 GiB of cuda:0" in needs
    assert needs.endswith("8 GiB")
    assert found == {"explicit": needs, "managed": needs + HINT, "managed+prefetch": needs + HINT, "pinned": ""}
    with pytest.raises(UsageError, match=r"nothing to measure: .*--allow-oversubscription"):
        plan("black_scholes", size="12GiB", strategy="managed")
    monkeypatch.setenv("FIRSTTOUCH_ALLOW_OVERSUBSCRIPTION", "1")
    assert reasons("black_scholes", **sets) == {"explicit": needs, "managed": "", "managed+prefetch": "", "pinned": ""}


def needs_more_than(limit: str) -> str:
    """The reason for buffers of 2 GiB."""
    return f"black_scholes needs 2 GiB of device memory, more than the {limit}"


def _hmm() -> DeviceInfo:
    """A GPU that takes pages of plain memory on a fault."""
    device = simulated_gpu()
    device.allocators = [
        structs.replace(entry, migrates_on_fault=True) if entry.name == "malloc" else entry for entry in ALLOCATORS
    ]
    return device


@pytest.mark.parametrize(
    ("sets", "needs"),
    [
        ({"size": "12GiB"}, "black_scholes needs 12 GiB of cuda:0, which has 8 GiB"),
        ({"size": "2GiB", "budget": "1GiB"}, needs_more_than("budget")),
        ({"size": "2GiB", "oversubscribe": "3"}, needs_more_than(LEFT_AT_3)),
    ],
)
def test_plain_memory_that_moves_on_a_fault_is_oversubscribed_like_managed_memory(
    sets: dict[str, str], needs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    strategies = {"strategy": "managed,pinned,system,system+prefault"}
    asked = dict.fromkeys(("managed", "system", "system+prefault"), needs + HINT)
    assert reasons("black_scholes", _hmm(), **sets, **strategies) == asked | {"pinned": ""}
    by_table = reasons("black_scholes", **sets, **strategies)
    assert {by_table["system"], by_table["system+prefault"]} == {""}, "address translation moves no pages on a fault"
    monkeypatch.setenv("FIRSTTOUCH_ALLOW_OVERSUBSCRIPTION", "1")
    assert set(reasons("black_scholes", _hmm(), **sets, **strategies).values()) == {""}


def test_memory_that_no_kernel_uses_does_not_move() -> None:
    found = reasons("black_scholes", _hmm(), size="12GiB", budget="1GiB", strategy="explicit,pinned")
    assert found["explicit"] == ""
    entry = _hmm().allocator("malloc")
    assert entry is not None
    for step, moves in (
        (Allocate(0, "host", "malloc", 1), False),
        (Allocate(0, "shared", "malloc", 1), True),
        (Allocate(0, "device", "malloc", 1), True),
        (Allocate(0, "shared", "malloc", 1, file=True), False),
    ):
        assert may_be_on_device(entry, step) is moves


def test_budget_streams_explicit_and_refuses_managed(monkeypatch: pytest.MonkeyPatch) -> None:
    sets = {"size": "2GiB", "budget": "1GiB", "strategy": "explicit,managed,pinned,system"}
    needs = needs_more_than("budget")
    assert reasons("black_scholes", **sets) == {"explicit": "", "managed": needs + HINT, "pinned": "", "system": ""}
    monkeypatch.setenv("FIRSTTOUCH_ALLOW_OVERSUBSCRIPTION", "1")
    assert reasons("black_scholes", **sets)["managed"] == ""


def test_budget_larger_than_the_application_has_no_effect() -> None:
    found = reasons("black_scholes", size="2GiB", budget="4GiB", strategy="explicit,managed,pinned")
    assert set(found.values()) == {""}


def test_streaming_allows_sizes_beyond_device_memory() -> None:
    assert reasons("black_scholes", size="12GiB", budget="1GiB", strategy="explicit,pinned")["explicit"] == ""


def test_application_larger_than_the_ballast_leaves_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    sets = {"size": "2GiB", "oversubscribe": "3", "strategy": "explicit,managed,pinned,system"}
    needs = needs_more_than(LEFT_AT_3)
    assert reasons("black_scholes", **sets) == {"explicit": needs, "managed": needs + HINT, "pinned": "", "system": ""}
    assert set(reasons("black_scholes", **sets | {"oversubscribe": "0.5"}).values()) == {""}
    monkeypatch.setenv("FIRSTTOUCH_ALLOW_OVERSUBSCRIPTION", "1")
    assert reasons("black_scholes", **sets)["managed"] == ""
    with pytest.raises(UsageError, match=r"256 MiB .* cuda:0, .* 512 MiB"):
        plan("black_scholes", **sets | {"oversubscribe": "8"})


SCRATCH = ("sums", "squares", "to_north", "to_south", "to_west", "to_east", "diffuses")
OF_THE_STRATEGY = {f"memory.{name}": "strategy" for name in SCRATCH}
"""What makes the scratch of srad memory of the strategy."""


def test_beside_ballast_scratch_of_the_device_must_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven of srad's eight arrays are scratch. As memory of the strategy they may exceed what is left."""
    monkeypatch.setenv("FIRSTTOUCH_ALLOW_OVERSUBSCRIPTION", "1")
    sets = {"size": "4GiB", "oversubscribe": "2", "strategy": "managed,pinned,system"}
    with pytest.raises(UsageError, match=r"3\.5 GiB of device .* 1\.5 GiB") as refusal:
        plan("srad", **sets)
    assert "--allow-oversubscription" not in str(refusal.value)
    assert "(--set memory.sums=strategy --set memory.squares=strategy " in str(refusal.value)
    assert set(reasons("srad", **sets, **OF_THE_STRATEGY).values()) == {""}


@pytest.mark.parametrize("measured", [0, 2 * GiB])
def test_a_ratio_may_be_of_a_measured_peak(measured: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 1 GiB of buffers beside which a library has a workspace, as the peak under explicit shows."""
    monkeypatch.setenv("FIRSTTOUCH_ALLOW_OVERSUBSCRIPTION", "1")
    sets = {"size": "1GiB", "oversubscribe": "1.25", "strategy": "managed,system,pinned"}
    points = plan("black_scholes", **sets, **({"peak": "measured"} if measured else {}))
    assert {point.reason for point in points.values()} == {""}
    under: list[str] = []

    def run(strategy: Strategy) -> int:
        under.append(strategy.name)
        return measured

    def shortage(name: str, **facts: Scalar) -> Shortage:
        app, device = all_apps()["black_scholes"], simulated_gpu(**facts)
        return Shortage(app, solve(app, GiB), STRATEGIES[name], points[name].point.factors, device, run)

    assert [shortage(name).left for name in points] == [pytest.approx((measured or GiB) / 1.25, rel=1e-6)] * 3
    assert under == (["explicit"] * 3 if measured else [])
    if measured:
        with pytest.raises(Unsupported, match=r"1\.6 GiB .* cuda:0, .* 1 GiB"):
            shortage("managed", memory_free_bytes=GiB)


@pytest.mark.parametrize("strategy", ["managed", "pinned"])
def test_scratch_that_no_driver_moves_must_fit_the_device(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRSTTOUCH_ALLOW_OVERSUBSCRIPTION", "1")
    with pytest.raises(UsageError, match=r"14 GiB of cuda:0, .* 8 GiB"):
        plan("srad", size="16GiB", strategy=strategy)
    assert reasons("srad", size="16GiB", strategy=strategy, **OF_THE_STRATEGY) == {strategy: ""}


def test_buffers_of_the_gpu_alone_are_where_the_strategy_has_them_unless_they_are_scratch() -> None:
    """The state of quantum_volume, 16 GiB for 31 qubits, is plain memory under `system` and device memory otherwise."""
    found = reasons("quantum_volume", qubits="31", strategy="explicit,managed,system")
    assert found["system"] == ""
    for strategy in ("explicit", "managed"):
        assert re.search("16 GiB of cuda:0, .* 8 GiB", found[strategy])


def test_host_limit_applies_to_every_strategy(limits: dict[str, int | None]) -> None:
    limits["host"] = GiB
    assert reasons("black_scholes", size="512MiB", strategy="explicit") == {"explicit": ""}
    with pytest.raises(UsageError, match=r"2 GiB of host memory; .* 1 GiB"):
        plan("black_scholes", size="2GiB", strategy="explicit,managed,pinned")


@pytest.mark.parametrize(
    ("strategy", "factors", "left"),
    [
        ("managed", {"budget": 1000}, 1000),
        ("managed+both", {"budget": 1000}, 1000),
        ("system", {"budget": 1000}, 1000),  # the GPU's first touch, or its driver, brings pages to the device
        ("pinned", {"budget": 1000}, None),
        ("explicit", {"budget": 1000}, None),
        ("managed", {"budget": 8 * GiB}, None),
        *((strategy, {"oversubscribe": 2.0}, 1500) for strategy in ("explicit", "managed", "system", "pinned")),
        ("explicit", {}, None),
    ],
)
@pytest.mark.parametrize("faults", [False, True])
def test_ballast_exists_only_where_it_limits_the_strategy(
    strategy: str, factors: dict[str, Scalar], left: int | None, faults: bool
) -> None:
    device = _hmm() if faults else simulated_gpu()
    assert bytes_left_by_ballast(3000, STRATEGIES[strategy], factors, device) == left


@pytest.mark.parametrize("strategy", ["explicit", "managed", "system"])
def test_a_device_that_shares_the_hosts_memory_is_not_oversubscribed(
    strategy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRSTTOUCH_ALLOW_OVERSUBSCRIPTION", "1")
    device = simulated_gpu(shares_host_memory=True)
    why = "cuda:0 shares the host's memory"
    for sets in ({"size": "oversubscribed"}, {"oversubscribe": "1.5"}, {"oversubscribe": "0.5"}):
        with pytest.raises(UsageError, match=why):
            plan("black_scholes", device, strategy=strategy, **sets)


def test_of_a_device_that_shares_the_hosts_memory_a_budget_is_exceeded_by_tiles_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FIRSTTOUCH_ALLOW_OVERSUBSCRIPTION", "1")
    device = simulated_gpu(shares_host_memory=True)
    found = reasons("black_scholes", device, size="oversubscribed", budget="64MiB", strategy="explicit,managed")
    assert found["explicit"] == ""
    assert "shares the host's memory" in found["managed"]


@pytest.mark.parametrize("facts", [{}, {"memory_free_bytes": 100 * MiB, "memory_bytes": 100 * MiB}])
def test_data_of_the_gpu_alone_are_charged_where_the_strategy_puts_them(facts: dict[str, Scalar]) -> None:
    """Of quantum_volume the CPU uses only the gates; the GPU's state of 16 GiB is in page-locked memory here."""
    device = simulated_gpu(**facts)
    assert reasons("quantum_volume", device, qubits="31", strategy="pinned") == {"pinned": ""}
    assert reasons("quantum_volume", device, qubits="31", strategy="pinned", budget="50MiB") == {"pinned": ""}


def test_data_of_the_gpu_alone_take_host_memory_if_the_strategy_puts_them_there(limits: dict[str, int | None]) -> None:
    limits["host"] = 8 * GiB
    found = reasons("quantum_volume", qubits="29,31", strategy="explicit,pinned")
    assert re.search("of host memory; .* 8 GiB", found["pinned"])
    assert re.search("of cuda:0, .* 8 GiB", found["explicit"])


def test_a_size_that_is_not_reached_says_so() -> None:
    found = reasons("graph500_bfs", size="12GiB,4GiB", strategy="explicit,pinned")
    assert found  # the reasons of 4 GiB are the last
    assert set(found.values()) == {""}
    with pytest.raises(UsageError, match=r"graph500_bfs .* 8 GiB of cuda:0 .* 12 GiB: "):
        plan("graph500_bfs", size="12GiB", strategy="explicit,pinned")
    with pytest.raises(UsageError, match=r"budget of 8 GiB .* 12 GiB"):
        plan("graph500_bfs", size="oversubscribed", budget="8GiB", strategy="pinned")


def test_no_ballast_leaves_more_than_is_free() -> None:
    with pytest.raises(UsageError, match=r"20 GiB .* cuda:0, .* 8 GiB"):
        plan("black_scholes", size="2GiB", oversubscribe="0.1", strategy="pinned")
