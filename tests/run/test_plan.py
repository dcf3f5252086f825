"""From a request to points."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firsttouch.errors import UsageError
from firsttouch.experiments import all_experiments
from firsttouch.experiments.base import Experiment, Factor
from firsttouch.run.plan import BUDGETS, SHORTEST, make_plan, parse_sets, parse_value
from firsttouch.schema import SCHEMA, AllocatorInfo, DeviceInfo, Request


def a_device(name: str, allocators: tuple[str, ...] = ("malloc", "mmap"), **more: object) -> DeviceInfo:
    infos = [AllocatorInfo(name=a, available=True) for a in allocators]
    return DeviceInfo(name=name, kind=name.partition(":")[0], title=name, allocators=infos, **more)  # type: ignore[arg-type]


DEVICES = [
    a_device("cpu"),
    a_device("opencl:0", ("device", "malloc")),
    a_device("opencl:1", ("device",)),
    a_device("cuda:0", available=False, reason="libcuda.so.1 was not found"),
    a_device("hip", available=False, reason="libamdhip64.so crashed"),
]
LIMITS = {"host": 2**34, "opencl:0": 2**30}


@pytest.fixture
def experiments(environment):
    return {n: e for n, e in all_experiments().items() if type(e).__module__.startswith("firsttouch_extra")}


def a_request(*experiments: str, devices=("cpu",), preset="quick", **sets) -> Request:
    return Request(schema=SCHEMA, experiments=list(experiments), devices=list(devices), preset=preset, seed=1, set=sets)


def test_points_are_the_cross_product_in_a_stable_order(experiments):
    plan = make_plan(a_request("shaped", "fresh"), DEVICES, experiments, LIMITS)
    shaped = [p.point.factors for p in plan if p.point.experiment == "shaped"]
    assert [(f["mode"], f["size"]) for f in shaped] == [("0", 4096), ("0", 2**20), ("1", 4096), ("1", 2**20)]
    assert plan == make_plan(a_request("shaped", "fresh"), DEVICES, experiments, LIMITS)
    assert [p.fresh for p in plan] == [p.point.experiment == "fresh" for p in plan]


def test_points_of_one_group_are_side_by_side(experiments):
    plan = make_plan(a_request(devices=()), DEVICES, experiments, LIMITS)
    groups = [(p.point.device, str(p.environment)) for p in plan]
    changes = sum(a != b for a, b in itertools.pairwise(groups))
    assert changes == len(set(groups)) - 1
    assert [*dict.fromkeys(p.point.device for p in plan)] == ["cpu", "opencl:0", "opencl:1"]


def test_skipped_points_say_why_and_dropped_ones_are_none(experiments):
    sets = {"size": ["12345", "54321", "4KiB"], "mode": ["0"]}
    plan = make_plan(a_request("shaped", **sets), DEVICES, experiments, LIMITS)
    assert [(p.point["size"], p.reason) for p in plan] == [(12345, "too odd"), (4096, "")]


def test_an_experiment_without_this_device_is_one_skipped_point(experiments):
    plan = make_plan(a_request("shaped", devices=("cpu", "opencl:0")), DEVICES, experiments, LIMITS)
    assert [(p.point.factors, p.reason) for p in plan if p.point.device == "opencl:0"] == [({}, "it needs the CPU")]


def test_values_are_parsed_merged_and_taken_once(experiments):
    sets = parse_sets(["size=4KiB,4096", "size=2^13"])
    assert sets == {"size": ["4KiB", "4096", "2^13"]}
    plan = make_plan(a_request("shaped", "fresh", mode=["1"], **sets), DEVICES, experiments, LIMITS)
    assert [p.point["size"] for p in plan if p.point.experiment == "shaped"] == [4096, 8192]
    assert sum(p.point.experiment == "fresh" for p in plan) == 3  # has no such factor, and ignores it


def test_a_value_of_one_device_only_skips_the_others(experiments):
    only_here = {**experiments, "shaped": _AnyDevice()}
    plan = make_plan(a_request("shaped", devices=(), allocator=["device"], size=["4KiB"]), DEVICES, only_here, LIMITS)
    assert [(p.point.device, p.reason) for p in plan] == [
        ("cpu", "shaped on cpu has no allocator device"), ("opencl:0", ""), ("opencl:1", "")]  # fmt: skip


class _AnyDevice(Experiment):
    name = "shaped"
    unit = "ns"

    def factors(self, device, preset):
        return [Factor("allocator", ["malloc"], choices=[a.name for a in device.allocators]),
                Factor("size", [4096], kind="size")]  # fmt: skip


WRONG = [
    (("shapd",), {}, {}, ("experiment 'shapd'", "did you mean 'shaped'", "steady")),
    (("shaped",), {"devices": ("gpu:0",)}, {}, ("device 'gpu:0'", "cpu, opencl:0, opencl:1")),
    (("shaped",), {"devices": ("cuda:0",)}, {}, ("device 'cuda:0'", "libcuda.so.1 was not found", "cpu, opencl:0")),
    (("shaped",), {"devices": ("hip:0",)}, {}, ("device 'hip:0'", "libamdhip64.so crashed", "cpu, opencl:0")),
    (("shaped",), {"preset": "quik"}, {}, ("preset 'quik'", "did you mean 'quick'", "quick, standard, full")),
    (("shaped",), {}, {"sizes": ["4KiB"]}, ("factor 'sizes'", "did you mean 'size'", "allocator, size, mode")),
    (("shaped",), {}, {"allocator": ["maloc"]}, ("allocator 'maloc'", "malloc, mmap")),
    (("shaped",), {}, {"allocator": ["device"]}, ("allocator 'device'", "malloc, mmap")),
    (("shaped",), {}, {"size": ["many"]}, ("size", "'many'", "4KiB")),
    (("shaped",), {}, {"size": ["0"]}, ("size", "'0' is zero bytes", "4KiB")),
    (("shaped",), {}, {"size": ["-4KiB"]}, ("size", "'-4KiB'", "4KiB")),
    (("shaped",), {}, {"size": ["1TiB"]}, ("size", "'1TiB' exceeds", "host 16 GiB")),
    (("fresh",), {}, {"n": ["1.5"]}, ("n", "'1.5'", "whole number")),
    (("fresh",), {}, {"n": ["-1"]}, ("n", "'-1'", "zero or more")),
    (("shaped",), {"devices": ("opencl:0",)}, {}, ("nothing to measure", "it needs the CPU")),
]  # fmt: skip


@pytest.mark.parametrize(("names", "more", "sets", "words"), WRONG, ids=lambda x: str(x)[:40])
def test_a_wrong_word_is_named_with_those_accepted(experiments, names, more, sets, words):
    with pytest.raises(UsageError) as raised:
        make_plan(a_request(*names, **more, **sets), DEVICES, experiments, LIMITS)
    text = str(raised.value)
    assert "\n" not in text
    for word in words:
        assert word in text


@pytest.mark.parametrize("text", ["size", "size=", "=4KiB", "size=4KiB,,8KiB", ""])
def test_a_set_that_is_no_assignment(text):
    with pytest.raises(UsageError, match="is not factor=value"):
        parse_sets([text])


@given(
    names=st.lists(st.sampled_from(["fault", "steady", "fresh", "shaped"]), max_size=4),
    devices=st.lists(st.sampled_from(["cpu", "opencl:0", "opencl:1"]), max_size=3),
    preset=st.sampled_from(list(BUDGETS)),
    counts=st.lists(st.integers(0, 50).map(str), max_size=5),
)
def test_time_and_keys(names, devices, preset, counts):
    """No point is there twice; the seconds stay within the preset's, whatever is chosen."""
    known = _experiments()
    sets = {"n": counts} if counts and (not names or {"steady", "fresh"} & set(names)) else {}
    request = a_request(*names, devices=devices, preset=preset, **sets)
    if names and set(names) == {"shaped"} and devices and "cpu" not in devices:
        with pytest.raises(UsageError, match="nothing to measure"):
            make_plan(request, DEVICES, known, LIMITS)
        return
    plan = make_plan(request, DEVICES, known, LIMITS)
    assert len({p.key for p in plan}) == len(plan)
    runnable = [p for p in plan if not p.reason]
    for kind in ("cpu", "opencl"):
        seconds = [p.seconds for p in runnable if p.point.device.startswith(kind)]
        assert sum(seconds) <= BUDGETS[preset].seconds[kind] * (1 + 1e-9) + SHORTEST * len(seconds)
    if runnable:
        assert min(p.seconds for p in runnable) >= SHORTEST


def _experiments():
    import importlib.util
    from pathlib import Path

    if not _FAULTS:
        spec = importlib.util.spec_from_file_location("faults_for_plans", Path(__file__).with_name("faults.py"))
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        _FAULTS.update({c.name: c() for c in (module.Fault, module.Steady, module.Fresh, module.Shaped)})
    return _FAULTS


_FAULTS: dict[str, Experiment] = {}


@given(st.integers(1, 2**40))
def test_sizes_and_counts_come_back(number):
    assert parse_value(Factor("size", [], kind="size"), str(number)) == number
    assert parse_value(Factor("n", [], kind="count"), str(number)) == number


def test_thinning_never_leaves_a_value_of_set_without_points():
    real = all_experiments()
    whole = {str(p.point.factors["size"]) for p in make_plan(a_request("latency"), DEVICES, real, LIMITS)}
    odd = 3 * 2**20 + 256
    chosen = make_plan(a_request("latency", allocator=["mmap"], size=[str(odd), "4KiB"]), DEVICES, real, LIMITS)
    assert str(odd) not in whole
    assert {p.point.factors["size"] for p in chosen} == {odd, 4096}
    assert {p.point.factors["allocator"] for p in chosen} == {"mmap"}
