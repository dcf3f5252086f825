"""Points as Parquet, and the numbers of the first screen as OpenMetrics, read by the readers of others."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest
from prometheus_client import parser as classic
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from tests.calls import call
from tests.node_of_gpus import Node
from tests.node_of_gpus import results as node_results
from tests.profile.profiles import write as write_profile
from tests.texts import assert_states

import firsttouch
from firsttouch.engine.work_kinds import reportable_experiments
from firsttouch.records.reading import Results, load_results
from firsttouch.records.schema import SCHEMA
from firsttouch.report.conclusions import conclusions
from firsttouch.report.openmetrics import openmetrics
from firsttouch.report.parquet import parquet

pytestmark = pytest.mark.usefixtures("drawn_here")
RUN = Path(__file__).parents[2] / "results" / "h200-quick"


def metrics_of(*results: Results) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Samples by metric, as Prometheus' own parser reads them."""
    text = openmetrics({f"run{i}": held for i, held in enumerate(results)}, reportable_experiments())
    assert text.endswith("# EOF\n")
    families = list(text_string_to_metric_families(text))
    in_text_form = [sample for family in classic.text_string_to_metric_families(text) for sample in family.samples]
    assert len(in_text_form) == sum(len(family.samples) for family in families)
    assert all(family.type == "gauge" and family.documentation for family in families)
    assert all(family.name.endswith(f"_{family.unit}") for family in families if family.unit)
    return {family.name: [(s.labels, s.value) for s in family.samples] for family in families}


def test_every_number_of_the_first_screen_is_a_metric_in_base_units() -> None:
    results = load_results(RUN)
    metrics = metrics_of(results)
    for number in conclusions(results).screen.numbers:
        named = {name: s for name, rows in metrics.items() for s in rows if s[0].get("what") == number.head}
        (disturbed,) = (name for name in named if name.endswith("_disturbed"))
        assert named.pop(disturbed)[1] in (0, 1)
        ((name, (labels, value)),) = named.items()
        assert labels["host"] == results.machine.host
        if name.endswith("_seconds"):
            assert 1e-9 < value < 1
        elif name.endswith("bytes_per_second"):
            assert 1e9 < value < 1e13
        else:
            assert name == "firsttouch_headline_managed_ratio"
    points = {labels["status"]: value for labels, value in metrics["firsttouch_points"]}
    assert sum(points.values()) == len(results.records)
    ((about, one),) = metrics["firsttouch_run_info"]
    assert (about["firsttouch"], one) == (results.machine.firsttouch, 1)


def test_each_pair_of_gpus_has_its_sample() -> None:
    node = node_results(Node(gpus=3, slow_pair=(0, 2)))
    copies = metrics_of(node)["firsttouch_p2p_copy_bytes_per_second"]
    one_way = {(s["device"], s["peer"]): value for s, value in copies if s["direction"] == "out"}
    assert len(one_way) == 6
    assert min(one_way, key=lambda pair: one_way[pair]) == ("cuda:0", "cuda:2")
    assert 1.9e11 < min(one_way.values()) < 2e11 < 3.7e11 < max(one_way.values()) < 3.8e11


def test_labels_and_hosts_from_strangers_are_escaped_and_runs_told_apart() -> None:
    results = load_results(RUN)
    hostile = msgspec.structs.replace(results.machine, host='a"b\\c\nd\udce9')
    results.machine = hostile
    results.records = [
        msgspec.structs.replace(r, factors={**r.factors, "9-lives": True, "nothing": None}) for r in results.records
    ]
    rows = metrics_of(results, load_results(RUN))["firsttouch_run_info"]
    assert [(labels["run"], labels["host"][:6]) for labels, _ in rows] == [("run0", 'a"b\\c\n'), ("run1", "vm")]
    loads = metrics_of(results)["firsttouch_latency_seconds"]
    assert {(labels["factor_9_lives"], "nothing" in labels) for labels, _ in loads} == {("true", False)}


def test_the_command_writes_the_file_that_collectors_read(tmp_path: Path) -> None:
    done = call("report", RUN, "--format", "openmetrics", "-o", tmp_path)
    assert done.stdout.split() == [str(tmp_path / "headlines.prom")]
    text = (tmp_path / "headlines.prom").read_text()
    assert "# UNIT firsttouch_headline_memory_bytes_per_second bytes_per_second" in text


def test_parquet_has_the_rows_of_load_with_their_types(tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    done = call("report", RUN, "--format", "parquet", "-o", tmp_path)
    assert done.returncode == 0, done.stderr
    table = pq.read_table(tmp_path / "points.parquet")
    points = firsttouch.load(RUN)
    assert [name for name in table.column_names if not name.endswith(".text")] == points.columns
    assert table.num_rows == len(points)
    for name in ("experiment", "summary.median", "verified", "samples"):
        assert table[name].to_pylist() == [row[name] for row in points]
    sizes = [row["factors.size"] for row in points]
    assert table["factors.size"].to_pylist() == [size if isinstance(size, int) else None for size in sizes]
    assert set(table["factors.size.text"].to_pylist()) == {None, *(size for size in sizes if isinstance(size, str))}
    kinds = {name: str(table.schema.field(name).type) for name in table.column_names}
    assert kinds["factors.size"] == "int64"
    assert kinds["summary.median"] == "double"
    assert kinds["samples"].startswith("list<")
    assert table.schema.metadata[b"schema"] == SCHEMA.encode()


@pytest.mark.parametrize(
    ("values", "kind", "read"),
    [
        (["a", None, True], "string", ["a", None, "true"]),
        ([1, 2.5], "double", [1.0, 2.5]),
        ([2**64 - 1, 0], "double", [float(2**64 - 1), 0.0]),
        ([True, None], "bool", [True, None]),
        ([[{"a": 1}], []], "string", ['[{"a":1}]', "[]"]),
        ([None, None], "string", [None, None]),
        (["\udce9"], "string", ["\\udce9"]),
    ],
)
def test_a_column_of_several_types_is_text(values: list[object], kind: str, read: list[object], tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    (tmp_path / "t").write_bytes(parquet({"c": values}))
    table = pq.read_table(tmp_path / "t")
    assert str(table.schema.field("c").type) == kind
    assert table["c"].to_pylist() == read


def test_without_pyarrow_the_call_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    done = call("report", RUN, "--format", "parquet", "-o", tmp_path)
    assert done.returncode == 2
    assert_states(done.stderr, "needs pyarrow", "`pip install 'firsttouch[parquet]'`")


def test_a_profile_is_a_table_and_no_metrics(tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    directory = write_profile(tmp_path / "p")
    assert call("report", directory, "--format", "parquet").returncode == 0
    assert pq.read_table(directory / "figures" / "curves.parquet").column_names == ["of", "column", "t", "value"]
    refused = call("report", directory, "--format", "openmetrics")
    assert refused.returncode == 2
    assert_states(refused.stderr, "profiles", "openmetrics", "parquet")
