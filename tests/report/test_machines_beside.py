"""The page of predictions for several machines has the same points of all of them beside each other."""

from __future__ import annotations

from firsttouch.model.platform import Platform, load_platform
from firsttouch.records.schema import SCHEMA, Record, Scalar, Summary
from firsttouch.report.first_screen import hardware
from firsttouch.report.machines import machines_table

GH200 = load_platform("gh200")
PAGES, LINK = GH200.changed({"host.page": "4KiB"}), GH200.changed({"link.h2d": "20GB/s"})


def record(platform: Platform, value: float, experiment: str = "app", **factors: Scalar) -> Record:
    summary = Summary(1, *([value] * len(Summary.__struct_fields__[1:])))
    return Record(SCHEMA, experiment, platform.device_name, factors, "ms", "ok", samples=[value], summary=summary)


def devices(*platforms: Platform) -> list:
    return [device for platform in platforms for device in platform.devices]


def test_changed_values_stand_beside_those_of_the_file() -> None:
    records = [
        record(platform, value, app="hotspot", strategy=strategy, size=2**30, events=events)
        for strategy, values in (("explicit", (50, 100, 75)), ("managed", (200, 300, 400)))
        for platform, value in zip((GH200, PAGES, LINK), values, strict=True)
        for events in ("off", "on")
    ]
    table = machines_table(records, devices(GH200, PAGES, LINK))
    assert table is not None
    assert table.columns == ("predicted", "gh200", "with host.page=4KiB", "with link.h2d=20GB/s")
    assert table.rows == [
        ["hotspot, explicit", "50 ms", "100 ms (2.00)", "75 ms (1.50)"],
        ["hotspot, managed", "200 ms", "300 ms (1.50)", "400 ms (2.00)"],
    ]


def test_of_experiments_the_points_that_differ_most_stand_there() -> None:
    records = [
        record(platform, 10.0 + (size if platform is LINK else 0), "transfer", size=size)
        for size in range(20)
        for platform in (GH200, LINK)
    ]
    table = machines_table(records, devices(GH200, LINK))
    assert table is not None
    assert [row[0] for row in table.rows] == [f"transfer, size {size} B" for size in range(19, 11, -1)]
    assert table.notes[-1].endswith("12 others are left out.")


def test_the_factors_of_a_row_stand_in_one_order() -> None:
    """Those of a point are a set, whose order differs from process to process."""
    records = [
        record(platform, 10.0 + (size if platform is LINK else 0), "transfer", size=size, engine=engine, pages=pages)
        for size, engine, pages in ((1, "kernel", "small"), (2, "dma", "huge"))
        for platform in (GH200, LINK)
    ]
    table = machines_table(records, devices(GH200, LINK))
    assert table is not None
    for row in table.rows:
        assert [word.split()[0] for word in row[0].split(", ")] == ["transfer", "engine", "pages", "size"]


def test_one_machine_has_no_such_table_and_several_are_not_counted_as_gpus() -> None:
    node = load_platform("mi300a-node")
    assert machines_table([record(node, 1.0, app="lud")], devices(node)) is None
    machine = GH200.machine()
    machine.devices = devices(GH200, PAGES, LINK)
    assert hardware(machine) == "Predicted: NVIDIA GH200 480GB, NVIDIA Grace, with 3 sets of values"
