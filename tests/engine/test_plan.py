"""The points that follow from a request."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fabricated import HOST, gpu_capabilities
from tests.texts import assert_states

from firsttouch.base.errors import UsageError
from firsttouch.engine.choices import BUDGETS
from firsttouch.engine.plan import SHORTEST, make_plan
from firsttouch.engine.values import parse_sets, parse_value
from firsttouch.experiments import all_experiments
from firsttouch.experiments.contract.base import Experiment, Factor, Planning
from firsttouch.experiments.contract.common import peer, unreachable_peer
from firsttouch.experiments.contract.presets import QUICK, Not, leave_out
from firsttouch.records.schema import SCHEMA, AllocatorInfo, DeviceCapabilities, DeviceInfo, Metric, Peer, Request

CAPABILITIES = {
    "cpu": HOST,
    "opencl": DeviceCapabilities(
        runs_kernels=True, on_host_processor=True, shares_host_memory=True, time_class="host-kernels"
    ),
    "cuda": gpu_capabilities(),
    "hip": gpu_capabilities(),
}


def a_device(name: str, allocators: tuple[str, ...] = ("malloc", "mmap"), **more: object) -> DeviceInfo:
    infos, kind = [AllocatorInfo(name=a, available=True) for a in allocators], name.partition(":")[0]
    known: dict[str, object] = {"capabilities": CAPABILITIES[kind], **more}
    return DeviceInfo(name=name, kind=kind, title=name, allocators=infos, **known)  # type: ignore[arg-type]


DEVICES = [
    a_device("cpu"),
    a_device("opencl:0", ("device", "malloc")),
    a_device("opencl:1", ("device",)),
    a_device("cuda:0", available=False, reason="libcuda.so.1 was not found"),
    a_device("hip", available=False, reason="libamdhip64.so crashed"),
]
LIMITS = {"host": 2**34, "opencl:0": 2**30}


@pytest.fixture
def experiments(with_faults):
    return {n: e for n, e in all_experiments().items() if type(e).__module__.startswith("firsttouch_module")}


def a_request(*experiments: str, devices=("cpu",), preset="quick", **sets) -> Request:
    return Request(schema=SCHEMA, experiments=list(experiments), devices=list(devices), preset=preset, seed=1, set=sets)


def test_points_are_the_cross_product_in_a_stable_order(experiments):
    plan = make_plan(a_request("shaped", "fresh"), DEVICES, experiments, LIMITS)
    shaped = [p.point.factors for p in plan if p.point.experiment == "shaped"]
    assert [(f["mode"], f["size"]) for f in shaped] == [("0", 4096), ("0", 2**20), ("1", 4096), ("1", 2**20)]
    assert plan == make_plan(a_request("shaped", "fresh"), DEVICES, experiments, LIMITS)
    assert [p.fresh for p in plan] == [p.point.experiment == "fresh" for p in plan]


def test_a_device_that_only_some_variables_open_has_them_in_its_workers():
    alone = [a_device("cuda:0"), a_device("cuda:1", environment={"SHOWN": "1"})]
    plan = make_plan(a_request("context", devices=("cuda:0", "cuda:1")), alone, all_experiments(), LIMITS)
    shown = {(p.point.device, p.environment.get("SHOWN"), dict(p.group.environment).get("SHOWN")) for p in plan}
    assert shown == {("cuda:0", None, None), ("cuda:1", "1", "1")}


def test_points_of_one_group_are_adjacent(experiments):
    plan = make_plan(a_request(devices=()), DEVICES, experiments, LIMITS)
    groups = [(p.point.device, str(p.environment)) for p in plan]
    changes = sum(a != b for a, b in itertools.pairwise(groups))
    assert changes == len(set(groups)) - 1
    assert [*dict.fromkeys(p.point.device for p in plan)] == ["cpu", "opencl:0", "opencl:1"]


def test_skipped_points_have_reasons_and_meaningless_ones_are_removed(experiments):
    sets = {"size": ["12345", "54321", "4KiB"], "mode": ["0"]}
    plan = make_plan(a_request("shaped", **sets), DEVICES, experiments, LIMITS)
    assert [(p.point["size"], p.reason) for p in plan] == [(12345, "too odd"), (4096, "")]


def test_values_that_the_plan_leaves_out_are_reported():
    told: list[str] = []
    sets = {"pattern": ["own", "one"], "padding": ["8"], "threads": ["1"]}
    plan = make_plan(a_request("caching", **sets), DEVICES, all_experiments(), LIMITS, warn=told.append)
    assert {p.point["pattern"] for p in plan} == {"own"}
    (text,) = told
    assert_states(
        text, "left out", "caching on cpu: pattern=one padding=8 threads=1 (", "pattern=one goes with padding=0"
    )
    sets["pattern"] = ["one"]
    with pytest.raises(UsageError, match=r"caching on cpu: .*pattern=one goes with padding=0"):
        make_plan(a_request("caching", **sets), DEVICES, all_experiments(), LIMITS)


def test_a_value_that_one_device_does_not_have_is_reported(experiments):
    told: list[str] = []
    request = a_request("shaped", devices=(), allocator=["malloc", "device"], size=["4KiB"])
    make_plan(request, DEVICES, {**experiments, "shaped": _AnyDevice()}, LIMITS, warn=told.append)
    (text,) = told
    assert_states(text, "left out", "shaped on cpu: allocator=device (cpu has no such ")


class Colourful(Experiment):
    """Has a factor that points have only if --set names it, on the device `cpu` alone."""

    name = "colourful"
    metric = Metric("ns", "lower")

    def factors(self, device, preset):
        return [
            Factor("n", (1,), "count"),
            Factor("colour", (), "name", choices=("red",), pattern="[a-z]+", optional=True, only_on="cpu"),
        ]


def colourful(devices=(), **sets) -> list[tuple[str, dict]]:
    told: list[str] = []
    plan = make_plan(
        a_request("colourful", devices=devices, **sets), DEVICES, {"colourful": Colourful()}, LIMITS, warn=told.append
    )
    assert not told
    return [(p.point.device, dict(p.point.factors)) for p in plan]


def test_points_have_an_optional_factor_only_if_set_names_it():
    assert colourful() == [(d, {"n": 1}) for d in ("cpu", "opencl:0", "opencl:1")]
    assert colourful(colour=["red", "blue"]) == [("cpu", {"n": 1, "colour": c}) for c in ("red", "blue")]


@pytest.mark.parametrize(
    ("devices", "colour", "said"),
    [
        ((), "R2", "^colour: 'R2' is no such name; accepted: a name such as red$"),
        (("opencl:0",), "red", "colourful can't run on opencl:0: colour goes with the device cpu only"),
    ],
)
def test_an_optional_factor_is_refused_in_one_sentence(devices, colour, said):
    with pytest.raises(UsageError, match=said):
        colourful(devices, colour=[colour])


def test_combinations_given_with_set_are_measured_with_any_preset():
    sets = {"allocator": ["malloc", "mmap"], "size": ["4KiB", "12KiB"], "order": ["random"]}
    plan = make_plan(a_request("latency", **sets), DEVICES, all_experiments(), LIMITS)
    named = {(p.point["allocator"], p.point["size"]) for p in plan}
    assert named == {("malloc", 4096), ("malloc", 12288), ("mmap", 4096), ("mmap", 12288)}


NO_MMAP = "no mmap here"


class Barren(Experiment):
    """Cannot measure anything with one of its allocators."""

    name = "barren"
    metric = Metric("ns", "lower")
    planning = Planning(rules=(leave_out("it takes too long", QUICK, allocator="mmap"),))

    def factors(self, device, preset):
        return [Factor("allocator", ["malloc", "mmap"]), Factor("n", list(range(150)), "count")]

    def skip(self, factors, device):
        return NO_MMAP if factors["allocator"] == "mmap" else None


@pytest.mark.parametrize(
    ("preset", "sets", "said"),
    [("full", {}, True), ("quick", {"allocator": ["mmap", "malloc"]}, False)],
)
def test_many_points_skipped_for_one_reason_are_recorded_once(preset, sets, said):
    told: list[str] = []
    request = a_request("barren", preset=preset, **sets)
    plan = make_plan(request, DEVICES, {"barren": Barren()}, LIMITS, warn=told.append)
    assert [(p.point["n"], p.reason) for p in plan if p.reason] == [(0, NO_MMAP)]
    assert sum(not p.reason for p in plan) == 150
    assert len(told) == said
    for text in told:
        assert_states(text, "left out", "barren on cpu", "149 of 150 points", f"({NO_MMAP})")


@pytest.mark.parametrize(
    ("name", "sets", "said"),
    [
        ("latency", {"size": ["1"]}, "size: '1' is less than can be measured; accepted: a size of at least 64 B"),
        ("bandwidth", {"size": ["8"]}, "size: '8' is less than can be measured; accepted: a size of at least 64 B"),
        ("bandwidth", {"threads": ["999999999999"]}, "threads: '999999999999' is more than can be measured"),
        ("bandwidth", {"threads": ["bets"]}, "threads: 'bets' is not a whole number, zero or more; or one of best"),
    ],
)
def test_values_that_cannot_be_measured_are_refused_when_planning(name, sets, said):
    with pytest.raises(UsageError, match=said):
        make_plan(a_request(name, **sets), DEVICES, all_experiments(), LIMITS)


def test_unavailable_devices_are_named_if_no_device_supports_the_experiment(experiments):
    facts = (
        "shaped can't run on opencl:0: it needs the CPU",
        *(f"{device.name} is not available: {device.reason}" for device in DEVICES if not device.available),
    )
    assert len(facts) == 3
    with pytest.raises(UsageError, match="nothing to measure") as raised:
        make_plan(a_request("shaped", devices=("opencl:0",), colour=["red"]), DEVICES, experiments, LIMITS)
    assert_states(str(raised.value), *facts)


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
    assert [(p.point.device, bool(p.reason)) for p in plan] == [
        ("cpu", True), ("opencl:0", False), ("opencl:1", False)]  # fmt: skip
    assert_states(plan[0].reason, "shaped on cpu", "no allocator device")


class _AnyDevice(Experiment):
    name = "shaped"
    metric = Metric("ns", "lower")

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
    (("fresh",), {}, {"n": ["9" * 5000]}, ("n", "'9999999999", "not a whole number below 2^63")),
    (("fresh",), {}, {"n": ["\N{ARABIC-INDIC DIGIT THREE}"]}, ("n", "not a whole number, zero or more")),
    (("shaped",), {"devices": ("opencl:0",)}, {}, ("nothing to measure", "it needs the CPU")),
]  # fmt: skip


@pytest.mark.parametrize(("names", "more", "sets", "words"), WRONG, ids=lambda x: str(x)[:40])
def test_messages_name_the_wrong_word_and_the_accepted_ones(experiments, names, more, sets, words):
    with pytest.raises(UsageError) as raised:
        make_plan(a_request(*names, **more, **sets), DEVICES, experiments, LIMITS)
    text = str(raised.value)
    assert "\n" not in text
    for word in words:
        assert word in text


@pytest.mark.parametrize("text", ["size", "size=", "=4KiB", "size=4KiB,,8KiB", ""])
def test_a_set_option_that_is_not_an_assignment(text):
    with pytest.raises(UsageError, match="is not factor=value"):
        parse_sets([text])


@given(
    names=st.lists(st.sampled_from(["fault", "steady", "fresh", "shaped"]), max_size=4),
    devices=st.lists(st.sampled_from(["cpu", "opencl:0", "opencl:1"]), max_size=3),
    preset=st.sampled_from(list(BUDGETS)),
    counts=st.lists(st.integers(0, 50).map(str), max_size=5),
)
def test_time_and_keys(names, devices, preset, counts):
    """No point appears twice, and the seconds stay within those of the preset for any choice."""
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
    for kind, time_class in (("cpu", "host"), ("opencl", "host-kernels")):
        seconds = [p.seconds for p in runnable if p.point.device.startswith(kind)]
        assert sum(seconds) <= BUDGETS[preset].seconds[time_class] * (1 + 1e-9) + SHORTEST * len(seconds)
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


def test_presets_never_remove_all_points_of_a_value_of_set():
    real = all_experiments()
    whole = {str(p.point.factors["size"]) for p in make_plan(a_request("latency"), DEVICES, real, LIMITS)}
    odd = 3 * 2**20 + 256
    chosen = make_plan(a_request("latency", allocator=["mmap"], size=[str(odd), "4KiB"]), DEVICES, real, LIMITS)
    assert str(odd) not in whole
    assert {p.point.factors["size"] for p in chosen} == {odd, 4096}
    assert {p.point.factors["allocator"] for p in chosen} == {"mmap"}


class Unhurried(Experiment):
    """An experiment whose points the preset quick leaves out."""

    name = "unhurried"
    metric = Metric("ns", "lower")
    planning = Planning(rules=(leave_out("a point takes an hour", QUICK),))

    def factors(self, device, preset):
        return [Factor("n", [1, 2], "count")]


def test_a_preset_that_leaves_out_everything_is_reported_and_set_takes_precedence():
    with pytest.raises(UsageError, match=r"preset quick .*: a point takes an hour"):
        make_plan(a_request("unhurried"), DEVICES, {"unhurried": Unhurried()}, LIMITS)
    assert len(make_plan(a_request("unhurried", n=["1"]), DEVICES, {"unhurried": Unhurried()}, LIMITS)) == 1
    assert len(make_plan(a_request("unhurried", preset="full"), DEVICES, {"unhurried": Unhurried()}, LIMITS)) == 2


class Sparing(Experiment):
    """The preset quick measures one mode in each memory, and both modes in the main memory at one size."""

    name = "sparing"
    metric = Metric("ns", "lower")
    planning = Planning(
        rules=(
            leave_out("two modes take long", QUICK, mode="both"),
            leave_out("the other memory is measured once", QUICK, memory="other", size=Not(1)),
        ),
    )

    def factors(self, device, preset):
        modes = Factor("mode", ["one"], choices=["one", "both", "neither"])
        return [modes, Factor("memory", ["main", "other"]), Factor("size", [1, 2, 3], "count")]


@pytest.mark.parametrize(
    ("sets", "measured"),
    [
        ({"mode": ["both"]}, {("main", 1), ("main", 2), ("main", 3), ("other", 1)}),
        ({"mode": ["both"], "memory": ["other"]}, {("other", 1), ("other", 2), ("other", 3)}),
        ({"mode": ["both"], "size": [2]}, {("main", 2), ("other", 2)}),
        ({"mode": ["one"]}, {("main", 1), ("main", 2), ("main", 3), ("other", 1)}),
        ({"mode": ["one"], "memory": ["other"], "size": [7]}, {("other", 7)}),
    ],
)
def test_a_value_that_a_preset_leaves_out_is_measured_where_the_preset_measures_others(sets, measured):
    plan = make_plan(a_request("sparing", **sets), DEVICES, {"sparing": Sparing()}, LIMITS)
    assert {(p.point.factors["memory"], p.point.factors["size"]) for p in plan} == measured


class Pairwise(Experiment):
    """Every device with each of its peers."""

    name = "pairwise"
    metric = Metric("ns", "lower")

    def factors(self, device, preset):
        return [peer(device, itself=True), Factor("n", [1, 2], "count")]

    def skip(self, factors, device):
        return unreachable_peer(device, factors.text("peer"))


TRIPLE = [
    a_device("hip:0", peers=[Peer(name="hip:1", access="direct"), Peer(name="hip:2", access="none", reason="no link"),
                             Peer(name="opencl:0", access="none", reason="another driver", same_driver=False)]),
    a_device("hip:1", peers=[Peer(name="hip:0", access="direct"), Peer(name="hip:2", access="direct")]),
    a_device("hip:2", peers=[Peer(name="hip:0", access="direct"), Peer(name="hip:1", access="direct")]),
    a_device("opencl:0"),
]  # fmt: skip


def peers_of(devices=(), **sets) -> dict[str, list[str]]:
    plan = make_plan(a_request("pairwise", devices=devices, **sets), TRIPLE, {"pairwise": Pairwise()}, LIMITS)
    found: dict[str, list[str]] = {}
    for one in plan:
        found.setdefault(one.point.device, []).append(f"{one.point.factors.get('peer')}{' ' + one.reason}".strip())
    return {device: list(dict.fromkeys(names)) for device, names in found.items()}


def test_without_a_choice_all_devices_of_the_driver_are_peers():
    found = peers_of()
    assert found["hip:0"] == ["self", "hip:1", "hip:2 no link"]
    assert found["hip:2"] == ["self", "hip:0", "hip:1"]
    assert found["opencl:0"] == ["self"]


def test_chosen_devices_are_the_peers_of_each_other():
    assert peers_of(("hip:0", "hip:1")) == {"hip:0": ["self", "hip:1"], "hip:1": ["self", "hip:0"]}


def test_set_names_any_peer_even_one_of_another_driver():
    assert peers_of(("hip:0",), peer=["hip:1", "opencl:0"]) == {"hip:0": ["hip:1", "opencl:0 another driver"]}


def test_a_device_without_peers_is_named():
    class Apart(Pairwise):
        def factors(self, device, preset):
            return [peer(device), Factor("n", [1, 2], "count")]

    with pytest.raises(UsageError, match=r"pairwise on opencl:0 .*peer"):
        make_plan(a_request("pairwise", devices=("opencl:0",), n=["1"]), TRIPLE, {"pairwise": Apart()}, LIMITS)


def test_an_unknown_peer_is_reported():
    with pytest.raises(UsageError, match=r"unknown peer 'hip:7'.*accepted: self, hip:1, hip:2, opencl:0"):
        peers_of(("hip:0",), peer=["hip:7"])


def test_points_with_one_peer_are_adjacent():
    plan = make_plan(a_request("pairwise", devices=("hip:0",), peer=["hip:1", "self"]), TRIPLE,
                     {"pairwise": Pairwise()}, LIMITS)  # fmt: skip
    assert [p.peer for p in plan] == ["hip:1", "hip:1", "", ""]
    assert len({p.group for p in plan}) == 2
