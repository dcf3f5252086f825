"""What a record says of several repetitions agrees: the phases add up to the median, and no part exceeds its whole."""

from __future__ import annotations

import time
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firsttouch.apps import all_apps
from firsttouch.apps.hotspot import Hotspot
from firsttouch.harness.experiment import Application
from firsttouch.harness.measure import PHASES, Run, process_seconds

PARAMS = Hotspot.sizes["tiny"]
APP = Hotspot(PARAMS)
runs = st.lists(
    st.lists(st.floats(1e-6, 10), min_size=len(PHASES) - 1, max_size=len(PHASES) - 1), min_size=1, max_size=6
)


@given(runs)
def test_phases_add_up_to_the_median(seconds: list[list[float]]) -> None:
    made = [Run(phases=dict(zip(PHASES[1:], each, strict=True)), transferred={"cpu": 0, "gpu": 0}) for each in seconds]
    measurement = Application(Hotspot)._measurement(APP, PARAMS, 1.0, made)
    phases = sum(float(measurement.counters[f"phase_{name}_ms"]) for name in PHASES[1:])
    assert phases == pytest.approx(median(measurement.samples))


def test_iterations_are_those_of_the_repetition_that_the_phases_are_of() -> None:
    made = [
        Run(dict.fromkeys(PHASES[1:], n), [n / 4, n / 2], n, transferred={"cpu": 0, "gpu": 0}) for n in (3.0, 1.0, 2.0)
    ]
    counters = Application(Hotspot)._measurement(APP, PARAMS, 1.0, made).counters
    assert [counters[name] for name in ("iteration_0_ms", "iteration_1_ms", "iterations_ms")] == [500, 1000, 2000]


@pytest.mark.parametrize(("name", "left_out"), [("hotspot", 10), ("srad", 10), ("quantum_volume", 0), ("transport", 0)])
def test_the_time_without_initialisation_has_that_of_the_gpu(name: str, left_out: float) -> None:
    """The state of quantum_volume and the particles of transport are generated on the GPU."""
    app = all_apps()[name]
    made = [
        Run({**dict.fromkeys(PHASES[1:], n), "initialise": 10.0}, transferred={"cpu": 0, "gpu": 0})
        for n in (3.0, 1.0, 2.0)
    ]
    params = app.sizes["tiny"]
    counters = Application(app)._measurement(app(params), params, 1.0, made).counters
    assert counters["without_initialise_ms"] == pytest.approx(1e3 * (2.0 * (len(PHASES) - 2) + 10 - left_out))
    assert counters["without_initialise_sd_ms"] == pytest.approx(1e3 * (len(PHASES) - 2))
    (once,) = (Application(app)._measurement(app(params), params, 1.0, made[:1]).counters,)
    assert "without_initialise_sd_ms" not in once


def test_the_process_is_older_than_what_it_measured() -> None:
    first = process_seconds()
    time.sleep(0.05)
    assert 0 < first < process_seconds()
