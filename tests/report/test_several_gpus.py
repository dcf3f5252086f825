"""The first screen of a run on a node of several GPUs, in the report and on the terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import msgspec
import pytest
from tests.node_of_gpus import FAULTY, Node, machine, records, results
from tests.texts import assert_states

from firsttouch.experiments import all_experiments
from firsttouch.experiments.views.equals import alikeness
from firsttouch.experiments.views.gpus import numbers_of_several
from firsttouch.records.figures import Heat
from firsttouch.records.findings import Quantity
from firsttouch.records.reading import Results
from firsttouch.records.schema import Location, Record
from firsttouch.report.conclusions import Conclusions, conclusions
from firsttouch.report.draw import draw
from firsttouch.report.drawing import Drawing, DrawingContext
from firsttouch.report.first_screen import LATENCIES, FirstScreen, first_screen
from firsttouch.report.openmetrics import openmetrics
from firsttouch.report.palette import Palette
from firsttouch.report.sentences import sentences

SHOWN = ("bandwidth", "latency", "transfer", "p2p-latency", "p2p-copy", "p2p-message", "collective")


@cache
def measured_on(node: Node) -> tuple[Record, ...]:
    return tuple(records(node))


def screen_of(node: Node, change: Callable[[Record], bool] = lambda record: True) -> FirstScreen:
    rows = [r for r in measured_on(node) if r.experiment in SHOWN and change(r)]
    return first_screen(Results(machine(node), None, rows, []), [])


def texts(screen: FirstScreen) -> dict[str, str]:
    return {number.head: number.text for number in screen.numbers}


def test_a_sound_node_is_said_to_be_alike_with_the_share_of_the_stated_peak() -> None:
    screen = screen_of(Node())
    said = texts(screen)
    assert screen.title.startswith("8 x NVIDIA H100 80GB HBM3, NVLink switch, ")
    assert said["Copies between GPUs, one way"] == (
        "374 GB/s over 256 MiB of device memory (copy-engine), 78 % of the link's stated 478 GB/s; "
        "all 56 pairs equal within 1 %"
    )
    assert "77 % of the link's stated 478 GB/s each way; all 28 pairs" in said["Copies between GPUs, both ways"]
    assert said["Loads from another GPU"] == "700 ns from 1 GiB of device memory; all 56 pairs equal within 1 %"
    assert "GB/s of bus bandwidth over 256 MiB of device memory (xccl)" in said["All-reduce of 8 GPUs"]
    assert said["Each of 8 GPUs"].endswith("for a copy from it: all 8 GPUs equal within 1 %")
    assert not screen.absent


def test_a_slow_pair_a_slow_gpu_and_an_absent_one_are_named() -> None:
    screen = screen_of(FAULTY)
    said = texts(screen)
    assert said["Copies between GPUs, one way"].endswith(
        "41 of 42 pairs equal within 1 %, but cuda:2 to cuda:5 at 198 GB/s"
    )
    assert "20 of 21 pairs equal within 1 %, but cuda:2 and cuda:5 at" in said["Copies between GPUs, both ways"]
    assert "6 of 7 GPUs equal within 1 %, but cuda:6 at 2,390 GB/s; 620 ns" in said["Each of 7 GPUs"]
    (absent,) = screen.absent
    assert absent.startswith("cuda:3 is not available: cuDevicePrimaryCtxRetain")


def test_without_a_stated_peak_no_share_is_given_and_links_of_several_kinds_are_told_apart() -> None:
    node = Node(gpus=4)
    known = machine(node)
    for device in known.devices:
        for peer in device.peers:
            peer.peak_in_gbs = peer.peak_out_gbs = None
    rows = [r for r in measured_on(node) if r.experiment == "p2p-copy"]
    (first, *_) = numbers_of_several(rows, known)
    assert "stated" not in first.claim.text
    for device in known.devices[1:3]:
        for peer in device.peers:
            peer.link = "PCIe" if peer.name in ("cuda:2", "cuda:3") else peer.link
    heads = [f.claim.head for f in numbers_of_several(rows, known) if f.claim.id == "headline.copies_one_way"]
    assert heads == [f"copies between GPUs, one way over {link}:" for link in ("NVLink switch", "PCIe")]


def _slowed(rows: Sequence[Record], pairs: set[tuple[str, str]]) -> list[Record]:
    def slow(r: Record) -> Record:
        assert r.summary
        half = {name: v * 0.5 for name, v in msgspec.structs.asdict(r.summary).items() if name != "n"}
        return msgspec.structs.replace(r, summary=msgspec.structs.replace(r.summary, **half))

    return [slow(r) if (r.device, r.factors["peer"]) in pairs else r for r in rows]


@pytest.mark.parametrize(
    ("slow", "words"),
    [
        ({("cuda:0", "cuda:1"), ("cuda:4", "cuda:2")}, "but cuda:{} to cuda:{} at"),
        ({("cuda:3", f"cuda:{n}") for n in range(8)}, "but the 7 from cuda:3 at"),
        ({(f"cuda:{n}", "cuda:3") for n in range(8)}, "but the 7 to cuda:3 at"),
        (
            {(f"cuda:{n}", "cuda:3") for n in range(8)} | {("cuda:3", f"cuda:{n}") for n in range(8)},
            "but the 14 with cuda:3 at",
        ),
        ({(f"cuda:{n}", f"cuda:{n + 1}") for n in range(7)}, "and 4 more"),
    ],
)
def test_pairs_that_are_apart_are_named_together_where_they_have_a_gpu_in_common(
    slow: set[tuple[str, str]], words: str
) -> None:
    node = Node()
    rows = [r for r in measured_on(node) if r.experiment == "p2p-copy" and r.factors["direction"] == "out"]
    rows = [r for r in rows if r.factors["engine"] == "copy-engine" and r.factors["peer"] != "self"]
    (screen,) = [first_screen(Results(machine(node), None, _slowed(rows, slow), []), [])]
    said = texts(screen)
    assert list(said) == ["Copies between GPUs, one way"], said
    (text,) = said.values()
    assert all(part in text for part in words.split("{}")), text
    assert f"{56 - len({(a, b) for a, b in slow if a != b})} of 56 pairs equal" in text


def test_values_that_differ_throughout_are_a_range_and_two_values_have_no_outlier() -> None:
    rows = [r for r in measured_on(Node()) if r.experiment == "bandwidth" and r.factors.get("allocator") == "device"]
    triads = [r for r in rows if r.factors["kernel"] == "triad"]

    def at(*rates: float) -> list[Record]:
        made = []
        for record, rate in zip(triads, rates, strict=False):
            assert record.summary
            summary = msgspec.structs.replace(record.summary, median=rate, ci_low=rate * 0.999, ci_high=rate * 1.001)
            made.append(msgspec.structs.replace(record, summary=summary))
        return made

    assert not alikeness(at(100, 50)).apart
    assert [r.device for r in alikeness(at(100, 50, 101)).apart] == ["cuda:1"]
    assert not alikeness(at(100, 98, 102, 99, 101)).apart
    screen = first_screen(Results(machine(Node()), None, at(100, 50), []), [])
    assert "2 GPUs, from 50 GB/s for cuda:1 to 100 GB/s for cuda:0" in texts(screen)["Each of 2 GPUs"]
    screen = first_screen(Results(machine(Node()), None, at(60, 70, 80, 90, 100), []), [])
    assert "5 GPUs, from 60 GB/s for cuda:0 to 100 GB/s for cuda:4" in texts(screen)["Each of 5 GPUs"]


def test_pairs_and_gpus_that_were_not_measured_are_named() -> None:
    said = texts(screen_of(Node(), lambda r: (r.device, r.factors.get("peer")) != ("cuda:1", "cuda:2")))
    assert "; 55 measured pairs of 56 (not cuda:1 to cuda:2) equal" in said["Copies between GPUs, one way"]
    assert "; 55 measured pairs of 56 (not cuda:1 from cuda:2) equal" in said["Loads from another GPU"]
    said = texts(screen_of(Node(gpus=3), lambda r: (r.experiment, r.device) != ("latency", "cuda:1")))
    assert "for a copy from it: all 3 GPUs equal within 1 %" in said["Each of 3 GPUs"]
    assert "own memory: 2 measured GPUs of 3 (not cuda:1) equal within 1 %" in said["Each of 3 GPUs"]


def test_one_gpu_has_no_numbers_between_several() -> None:
    screen = screen_of(Node(gpus=1))
    assert not any("between GPUs" in head or "Each of" in head for head in texts(screen))
    assert "The GPU, in its own memory" in texts(screen)


def test_a_record_that_someone_changed_costs_only_itself() -> None:
    made = results(Node(gpus=3))
    broken = next(r for r in made.records if r.experiment == "p2p-copy" and r.factors["peer"] != "self")
    del broken.factors["size"]
    others = [
        msgspec.structs.replace(r, factors={}) for r in made.records if r.experiment in ("bandwidth", "collective")
    ]
    made.records = [*made.records, *others[:1], *others[-1:]]
    found: Conclusions = conclusions(made)
    assert {"Copies between GPUs, one way", "All-reduce of 3 GPUs", "Each of 3 GPUs"} <= set(texts(found.screen))
    assert all(isinstance(number.finding.value, Quantity) for number in found.screen.numbers)


def _drawn(screen: FirstScreen) -> Drawing:
    assert screen.figure
    drawing = draw(screen.figure, screen.shown, DrawingContext(None, Palette()))
    assert drawing
    return drawing


def _rows(drawing: Drawing) -> list[dict[str, Any]]:
    assert drawing.spec
    rows: list[dict[str, Any]] = drawing.spec["datasets"]["rows"]
    return [row for row in rows if row["kind"] == "point"]


def test_the_picture_is_all_pairs_one_way_and_both_ways_in_percent_of_the_stated_peak() -> None:
    screen = screen_of(FAULTY)
    drawing = _drawn(screen)
    cells = {(row["panel"], row["y"], row["x"]): row["text"] for row in _rows(drawing)}
    assert len(cells) == 2 * 42
    assert cells["direction out", "cuda:2", "cuda:5"] == "41"
    assert cells["direction out", "cuda:5", "cuda:2"] == "78"
    assert cells["direction both", "cuda:5", "cuda:2"] == "41"
    assert "Blank" not in " ".join(drawing.notes)
    assert screen.message.startswith(
        "Copies one way: 41 of 42 pairs equal within 1 %, but cuda:2 to cuda:5 at 198 GB/s."
    )


def test_two_gpus_have_the_picture_of_latencies_and_no_columns_of_pairs() -> None:
    screen = screen_of(Node(gpus=2))
    assert screen.figure is LATENCIES
    (table,) = screen.gpus
    assert not any("slowest" in head for head in table.columns)
    said = texts(screen_of(Node(gpus=2), lambda r: r.experiment != "p2p-copy" or r.device == "cuda:0"))
    assert_states(said["Copies between GPUs, one way"], "cuda:0 to cuda:1", "one direction measured of 2")


def test_the_table_of_gpus_has_what_is_apart_with_its_part_of_the_usual_value() -> None:
    (table,) = screen_of(FAULTY).gpus
    rows = {row[0]: row[1:] for row in table.rows}
    assert [row[0] for row, kind in zip(table.rows, table.kinds, strict=True) if kind] == ["cuda:2", "cuda:5", "cuda:6"]
    assert rows["cuda:6"][0] == "2,390 GB/s (0.80)"
    assert rows["cuda:2"][-2:] == ["198 GB/s (0.53, to cuda:5)", "373 GB/s"]
    assert rows["cuda:5"][-1] == "198 GB/s (0.53, from cuda:2)"
    assert not any(screen_of(Node()).gpus[0].kinds)
    (table,) = screen_of(Node(gpus=4, slow_pair=(2, 1), slow_gbs=430.0)).gpus
    assert [row[-2] for row in table.rows if row[0] == "cuda:2"] == ["373 GB/s"]  # not that of its faster pair


def test_the_matrix_of_a_section_has_its_diagonal_apart_from_the_scale_of_the_pairs() -> None:
    known = all_experiments()["p2p-copy"]
    rows = [r for r in measured_on(Node(gpus=3, slow_pair=(0, 1))) if r.experiment == "p2p-copy"]
    (section,) = known.sections(known.derive(rows), None)
    drawing = draw(section.figures[0], section.records, DrawingContext(None, Palette()))
    assert drawing
    assert drawing.spec
    assert_states(drawing.notes, "Grey: its own memory")
    assert all((row["x"] == row["y"]) == ("grey" in row) for row in _rows(drawing))
    scale = [
        part["encoding"]["color"]["scale"]["domain"] for part in _layers(drawing.spec) if "color" in part["encoding"]
    ]
    assert all(190 < ends[0] < 200 and 370 < ends[-1] < 380 for ends in scale)
    assert scale


def _layers(spec: Any) -> list[Any]:
    """All layers with an encoding, wherever they are."""
    parts = spec.values() if isinstance(spec, dict) else spec if isinstance(spec, list) else ()
    own = [spec] if isinstance(spec, dict) and "encoding" in spec else []
    return own + [layer for part in parts for layer in _layers(part)]


def test_a_plain_run_says_for_which_pairs_its_messages_hold_and_draws_no_matrix_of_one_pair() -> None:
    node = Node(every=False)
    said = texts(screen_of(node))
    assert said["Messages between GPUs"].endswith("measured from cuda:0 to cuda:1, which stands for 56 equal pairs")
    assert "all 28 pairs equal" in said["Copies between GPUs, both ways"]
    figures = {}
    for name in ("p2p-direct", "p2p-message", "p2p-copy", "p2p-latency"):
        known = all_experiments()[name]
        (section,) = known.sections(known.derive([r for r in measured_on(node) if r.experiment == name]), None)
        figures[name] = [figure for figure in section.figures if isinstance(figure, Heat)]
    assert not figures["p2p-direct"] + figures["p2p-message"]
    (copies,) = figures["p2p-copy"]
    assert copies.where["engine"] == ("copy-engine",)
    assert figures["p2p-latency"]


@pytest.mark.parametrize(
    ("experiment", "said"),
    [
        ("p2p-copy", "copy-engine 374 GB/s (55 of 56 pairs equal within 1 %, but cuda:2 to cuda:5 at 198 GB/s)"),
        ("p2p-direct", "read 330 GB/s (55 of 56 pairs equal within 1 %, but cuda:5 in that of cuda:2 at 174 GB/s)"),
        ("p2p-message", "xccl 364 GB/s in device memory (55 of 56 pairs equal within 1 %, but cuda:2 to cuda:5 at"),
        (
            "p2p-latency",
            "700 ns (all 56 pairs equal within 1 %), 1.13 times ... own (620 ns, cuda:",
        ),
    ],
)
def test_sections_say_of_all_pairs_which_are_alike(experiment: str, said: str) -> None:
    rows = [r for r in measured_on(Node(slow_pair=(2, 5))) if r.experiment == experiment]
    assert_states(sentences(all_experiments()[experiment].findings(rows, None)), said)


def test_a_monitoring_system_gets_the_same_series_whether_or_not_a_pair_is_slow() -> None:
    def series(node: Node) -> set[str]:
        rows = [r for r in measured_on(node) if r.experiment in SHOWN]
        text = openmetrics({"run": Results(machine(node), None, rows, [])}, all_experiments())
        return {line.rpartition(" ")[0] for line in text.splitlines() if "_headline_" in line and "{" in line}

    assert series(Node(gpus=4)) == series(Node(gpus=4, slow_pair=(2, 1), slow_gpu=3))


def test_sections_compare_no_pairs_over_different_links() -> None:
    def slowed(r: Record) -> Record:
        assert r.summary is not None
        tenth = {n: getattr(r.summary, n) * 0.1 for n in ("median", "ci_low", "ci_high")}
        counters = {n: v * 0.1 if n.endswith("_gbs") else v for n, v in r.counters.items() if isinstance(v, float)}
        return msgspec.structs.replace(r, counters=counters, summary=msgspec.structs.replace(r.summary, **tenth))

    linked = ({"cuda:0", "cuda:1"}, {"cuda:2", "cuda:3"})
    rows = [r if {r.device, r.factors["peer"]} in linked else slowed(r)
            for r in measured_on(Node(gpus=4)) if r.experiment == "p2p-copy"]  # fmt: skip
    said = " ".join(sentences(all_experiments()["p2p-copy"].findings(rows, None)))
    assert "copy-engine 37.4 GB/s where the link has 47.8 GB/s each way (all 8 pairs equal within 1 %)" in said
    assert "copy-engine 374 GB/s where the link has 478 GB/s each way (all 4 pairs equal within 1 %)" in said


def test_runs_of_a_node_show_the_same_of_engines_that_are_as_good() -> None:
    for run in range(3):
        assert "(copy-engine)" in texts(screen_of(Node(gpus=3, run=run)))["Copies between GPUs, one way"]


def test_the_bandwidth_of_all_gpus_is_that_of_a_process_for_each() -> None:
    def by_one(r: Record) -> Record:
        return msgspec.structs.replace(
            r, factors=r.factors | {"processes": "one"}, counters=r.counters | {"bus_gbs": 400.0}
        )

    rows = [r for r in measured_on(Node(gpus=2)) if r.experiment == "collective"]
    one = [*map(by_one, rows)]
    for some, said in (
        ([*one, *rows], "all-reduce of {ranks} GPUs:"),
        (one, "all-reduce of {ranks} GPUs by one process:"),
    ):
        (found,) = numbers_of_several(some, machine(Node(gpus=2)))
        assert found.claim.head == said
        assert isinstance(found.value, Quantity)
        assert (found.value.value == 400) == (some is one)


def test_braces_in_a_strangers_file_are_no_placeholders() -> None:
    node = Node(gpus=4, every=False)
    known, bad = machine(node), "<b>{value}{x}"
    rows = [r for r in measured_on(node) if r.experiment in SHOWN]
    heads = set(texts(first_screen(Results(known, None, rows, []), [])))
    for device in known.devices[1:3]:
        device.title = bad
        device.peers[0].link = bad
    other = [Location(device=bad, peer=bad)]
    rows = [msgspec.structs.replace(r, stands_for=other) if r.stands_for else r for r in rows]
    said = texts(first_screen(Results(known, None, rows, []), []))
    assert f"Each of 2 {bad}" in said
    assert f"Copies between GPUs, one way over {bad}" in said
    assert len(said) >= len(heads)


def test_one_gpu_of_two_backends_is_one() -> None:
    def both(gpus: int) -> FirstScreen:
        node = Node(gpus=gpus)
        known, rows = machine(node), [r for r in measured_on(node) if r.experiment in SHOWN]
        twins = [msgspec.structs.replace(d, name=f"opencl:{d.name[5:]}", kind="opencl", peers=[])
                 for d in known.devices if d.kind == "cuda" and d.available]  # fmt: skip
        known.devices += twins
        rows += [msgspec.structs.replace(r, device=f"opencl:{r.device[5:]}") for r in rows
                 if r.device != "cpu" and "peer" not in r.factors and not r.parties]  # fmt: skip
        return first_screen(Results(known, None, rows, []), [])

    assert both(1).title.startswith("NVIDIA H100 80GB HBM3, ")
    assert not both(1).gpus
    assert both(2).title.startswith("2 x NVIDIA H100 80GB HBM3, NVLink switch, ")
    assert {"Each of 2 NVIDIA H100 80GB HBM3 (cuda)", "Each of 2 NVIDIA H100 80GB HBM3 (opencl)"} <= set(texts(both(2)))


def test_the_only_gpu_of_another_model_is_on_the_first_screen_too() -> None:
    node = Node(gpus=2)
    known, rows = machine(node), [r for r in measured_on(node) if r.experiment in SHOWN]
    known.devices[2].title = "NVIDIA A100"
    said = texts(first_screen(Results(known, None, rows, []), []))
    assert said["GPU cuda:1, in its own memory"].startswith("2,990 GB/s in a triad over 256 MiB")
    assert "GPU cuda:1, in its own memory" not in texts(screen_of(node))


def test_partitions_are_equals_and_no_gpus_of_their_own() -> None:
    node = Node(gpus=4)
    known, rows = machine(node), [r for r in measured_on(node) if r.experiment in SHOWN]
    for i, device in enumerate(known.devices[1:5]):
        device.facts |= {"model": device.title, "partitions": 2, "partition": i % 2, "partition_mode": "CPX, NPS1"}
        device.facts["pci_bus"] = f"0000:0{i // 2}:00.0"
        device.title = f"{device.title}, partition {i % 2 + 1} of 2 (CPX, NPS1)"
        for peer in device.peers:
            peer.link = "same GPU" if int(peer.name[-1]) // 2 == i // 2 else peer.link
    screen = first_screen(Results(known, None, rows, []), [])
    assert screen.title.startswith("2 x NVIDIA H100 80GB HBM3 (4 partitions, CPX, NPS1), NVLink switch, ")
    assert "all 4 partitions equal" in texts(screen)["Each of 4 partitions"]


def test_a_link_that_joins_some_pairs_only_is_said_to() -> None:
    node = Node(gpus=3)
    known = machine(node)
    for peer in known.devices[3].peers:
        peer.link = "PCIe"
    assert "NVLink switch between some, " in first_screen(Results(known, None, [], []), []).title
