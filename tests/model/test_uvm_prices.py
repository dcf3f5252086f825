"""Prices of managed memory by the driver's rules: what twelve values make of them is what runs measured."""

from __future__ import annotations

import pytest

from firsttouch.model.platform import load_platform
from firsttouch.model.platform_prices import PlatformPrices
from firsttouch.model.uvm_prices import uvm_price

OF_AN_H200 = {
    "uvm.batch": "10us",
    "uvm.service": "16us",
    "uvm.map": "5.6us",
    "uvm.copy": "2us",
    "uvm.cpu_fault": "3.2us",
    "uvm.new_pages": "27GB/s",
    "uvm.prefetch": "6.7us",
    "uvm.prefetch_back": "78us",
    "uvm.advice.preferred": "20us",
    "uvm.advice.accessed-by": "43us",
    "uvm.advice.read-mostly": "105us",
    "uvm.free": "15us",
}
H200 = load_platform("h200-pcie").changed(OF_AN_H200)
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
    assert by_rule.of(BLOCK).value == pytest.approx(H200.curve(f"{name}.managed").of(BLOCK).value, rel=0.25)


def test_a_platform_without_measured_prices_has_those_of_the_rules() -> None:
    prices = PlatformPrices(load_platform("p9-volta"))
    grounds = {ground.name for ground in prices.gpu_fault("managed", reads_only=False).grounds}  # type: ignore[union-attr]
    assert grounds == {"uvm.service", "uvm.copy", "link.h2d"}


def test_memory_that_the_driver_does_not_move_has_no_such_price() -> None:
    pascal, apu = load_platform("intel-pascal"), load_platform("mi300a")
    assert uvm_price(pascal, pascal.device, "gpu_touch", "pinned") is None
    assert uvm_price(apu, apu.device, "gpu_touch", "managed") is None
    assert uvm_price(pascal, pascal.device, "host_copy") is None
