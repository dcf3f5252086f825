"""Every platform of the program has the values that its applications need."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from firsttouch.apps import all_apps
from firsttouch.base.errors import Unsupported
from firsttouch.experiments.contract.base import Point
from firsttouch.harness.experiment import Application
from firsttouch.model.platform import MissingValue, load_platform, platform_names
from firsttouch.program.strategies import STRATEGIES
from firsttouch.records.schema import Factors

UNMEASURED = [("h100-pcie", "managed-static")]
"""What the runs did not measure that a platform is fitted to."""
CALLS: Sequence[tuple[str, dict[str, str]]] = [
    *((name, {}) for name in platform_names()),
    ("mi300a", {"xnack": "1"}),
    ("mi250x", {"xnack": "1"}),
]


@pytest.mark.parametrize(("name", "switches"), CALLS, ids=[f"{name} {switches}" for name, switches in CALLS])
def test_no_strategy_lacks_a_value(name: str, switches: dict[str, str]) -> None:
    platform, app = load_platform(name).under(switches), all_apps()["hotspot"]
    predicted = []
    for strategy, kind in STRATEGIES.items():
        entry = platform.device.allocator(kind.allocator)
        if entry is None or not entry.available or entry.gpu == "none" or (name, strategy) in UNMEASURED:
            continue
        factors = Factors({"app": app.name, "strategy": strategy, "size": 256 << 20, "events": "off", **switches})
        try:
            Application(app).predict(Point(app.name, platform.device_name, factors), platform)
        except MissingValue as missing:
            pytest.fail(f"{strategy}: {missing}")
        except Unsupported:
            continue
        predicted.append(strategy)
    assert "explicit" in predicted
    assert len(predicted) >= 3
