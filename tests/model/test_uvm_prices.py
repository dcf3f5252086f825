"""Prices of managed memory by the driver's rules: what twelve values make of them is what runs measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from firsttouch.model.platform import load_platform
from firsttouch.model.platform_prices import PlatformPrices
from firsttouch.model.uvm_prices import uvm_price

H200 = load_platform("h200-pcie")
BLOCK = 2**21


@pytest.mark.parametrize(
    "name",
    [
        "gpu_fault.update.dense.none",
        "gpu_fault.read.dense.none",
        "gpu_fault.read.dense.read-mostly",
        "gpu_fault.update.dense.preferred-gpu",
        "gpu_fault.update.dense.preferred-cpu",
        "gpu_fault.update.eighth.none",
        "gpu_fault.update.random.none",
        "gpu_fault.update.per-2MiB.none",
        "gpu_touch",
        "cpu_fault",
        "moving_touch",
        "prefetch",
        "prefetch_back",
        "isolated_fault",
        "advise.preferred-gpu+accessed-by-cpu",
        "advise.read-mostly+preferred-gpu",
        "touched_free.gpu",
    ],
)
def test_counts_times_a_few_values_are_the_prices_that_were_measured(name: str) -> None:
    family, *rest = f"{name}.managed".split(".")
    by_rule = uvm_price(H200, H200.device, family, *rest)
    assert by_rule is not None
    assert by_rule.of(BLOCK).value == pytest.approx(H200.curve(f"{name}.managed").of(BLOCK).value, rel=0.35)


def test_a_platform_without_measured_prices_has_those_of_the_rules() -> None:
    prices = PlatformPrices(load_platform("p9-volta"))
    grounds = {ground.name for ground in prices.gpu_fault("managed", reads_only=False).grounds}  # type: ignore[union-attr]
    assert grounds == {"uvm.service", "uvm.copy", "link.h2d"}


def test_memory_that_the_driver_does_not_move_has_no_such_price() -> None:
    pascal, apu = load_platform("intel-pascal"), load_platform("mi300a")
    assert uvm_price(pascal, pascal.device, "gpu_touch", "pinned") is None
    assert uvm_price(apu, apu.device, "gpu_touch", "managed") is None
    assert uvm_price(pascal, pascal.device, "host_copy") is None


@pytest.mark.parametrize(
    ("change", "name", "ratio"),
    [
        ({"link.h2d": "27.7GB/s"}, "copy.h2d.pinned", 2.0),
        ({"link.h2d": "4GB/s"}, "copy.h2d.malloc", 2.2),
        ({"link.h2d": "400GB/s"}, "copy.h2d.malloc", 1.0),
        ({"link.d2h": "27.5GB/s"}, "copy.h2d.pinned", 1.0),
        ({"link.h2d": "27.7GB/s"}, "prefetch.managed", 1.85),
        ({"uvm.service": "6.28us"}, "gpu_fault.update.dense.none.managed", 0.82),
        ({"uvm.service": "6.28us"}, "gpu_fault.update.dense.preferred-cpu.managed", 1.0),
        ({"device.bandwidth": "2TB/s"}, "own_pass.managed", 2.0),
        ({"host.fault": "0.1us"}, "host_touch.base.one", 0.47),
        ({"host.page": "64KiB"}, "host_touch.base.one", 0.45),
        ({"copy.h2d.pinned": "1GB/s", "link.h2d": "20GB/s"}, "copy.h2d.pinned", 55.4),
    ],
)
def test_a_changed_value_changes_the_measured_prices_that_it_is_a_part_of(
    change: dict[str, str], name: str, ratio: float
) -> None:
    """The rest of what was measured stays."""
    before, after = (PlatformPrices(p).price(*name.split(".")).of(2**30) for p in (H200, H200.changed(change)))
    assert after.value / before.value == pytest.approx(ratio, rel=0.1)
    assert after.low <= after.value <= after.high


def test_a_file_that_changes_a_value_changes_the_prices_that_it_extends(tmp_path: Path) -> None:
    """As --what-if does. A price that it states itself is taken as it is."""
    link = {"value": 27.7, "unit": "GB/s", "how": "stated", "source": "a data sheet"}
    for name, parameters in (("slow", {"link.h2d": link}), ("own", {"link.h2d": link, "copy.h2d.pinned": link})):
        content = {"extends": "h200-pcie", "parameters": parameters}
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    slow, own = (PlatformPrices(load_platform(str(tmp_path / f"{name}.json"))) for name in ("slow", "own"))
    changed = PlatformPrices(H200.changed({"link.h2d": "27.7GB/s"}))
    for prices in (slow, own):
        assert prices["prefetch", "managed"].of(2**30) == changed["prefetch", "managed"].of(2**30)
    assert slow["copy", "h2d", "pinned"].of(2**30) == changed["copy", "h2d", "pinned"].of(2**30)
    assert own["copy", "h2d", "pinned"].of(27.7e9).value == pytest.approx(1e9)
