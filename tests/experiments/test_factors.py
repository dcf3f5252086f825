"""The description of every factor and of the values that --set accepts."""

from __future__ import annotations

import pytest
from fake_devices import GPU, OPENCL_GPU, amd, opencl
from preset_helpers import plan

from firsttouch.base.errors import UsageError
from firsttouch.experiments import all_experiments
from firsttouch.experiments.contract.base import Experiment, Factor, describe_factors


@pytest.mark.parametrize("experiment", all_experiments().values(), ids=lambda one: one.name)
def test_every_factor_is_described(experiment: Experiment) -> None:
    for device in (opencl(GPU), opencl(OPENCL_GPU), amd()):
        factors = experiment.factors(device, "full")
        for name, about in describe_factors(factors).items():
            assert about["doc"], name
            assert about["accepts"], name


@pytest.mark.parametrize(
    ("factor", "words"),
    [
        (Factor("a", ("x",), choices=("x", "y")), "x, y"),
        (Factor("a", (1,), "count"), "a whole number"),
        (Factor("a", (1,), "count", least=1), "a whole number of at least 1"),
        (Factor("a", (64,), "count", most=256, multiple=64), "a whole number from 0 to 256, a multiple of 64"),
        (Factor("a", (64,), "size", least=4096), "a size of at least 4 KiB"),
        (Factor("a", (1,), "count", most=8, known={"best": "best"}), "best, or a whole number from 0 to 8"),
        (Factor("a", (1.5,), "ratio"), "a number above 0"),
        (Factor("a", ("tiny",), "extent", known={"tiny": "tiny"}), "tiny, or a size"),
        (Factor("a", (), "name", choices=("gfx942", "sm_90"), pattern=r"\w+"), "a name such as gfx942, sm_90"),
    ],
)
def test_accepted_values_in_words(factor: Factor, words: str) -> None:
    assert factor.accepted() == words


def test_values_that_differ_between_devices_are_listed_together() -> None:
    same = [Factor("agent", ("cpu",), choices=("cpu",)), Factor("agent", ("gpu",), choices=("gpu", "cpu"))]
    assert describe_factors(same)["agent"]["accepts"] == "cpu, gpu"


@pytest.mark.parametrize(
    ("experiment", "factor", "value", "said"),
    [
        ("accounting", "size", "1", "at least"),
        ("allocation", "size", "0", "zero bytes"),
        ("atomics", "elements", "0", "from 1 to 2147483648"),
        ("atomics", "gpu_threads", "65", "a multiple of 64"),
        ("atomics", "cpu_threads", "999999999999", "more than can be measured"),
        ("caching", "padding", "12", "a multiple of 8"),
        ("caching", "threads", "999999999999", "from 0 to 1073741824"),
        ("concurrency", "iterations", "0", "at least 1"),
        ("concurrency", "size", "4096", "a multiple of 128 KiB"),
        ("locking", "inside", "257", "from 1 to 256"),
        ("locking", "sections", "0", "from 1 to"),
        ("migration", "iterations", "0", "from 1 to"),
        ("pagefault", "pages", "0", "from 1 to"),
        ("tlb", "stride", "12", "a multiple of 8"),
        ("transfer", "streams", "0", "from 1 to"),
    ],
)
def test_a_value_that_cannot_be_measured_is_refused_by_the_planner(
    experiment: str, factor: str, value: str, said: str
) -> None:
    with pytest.raises(UsageError, match=factor) as refused:
        plan(experiment, amd(), **{factor: [value]})
    assert said in str(refused.value)
