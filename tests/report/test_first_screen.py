"""The first screen as --json has it. test_first_screen_sentences.py has every sentence of it."""

from __future__ import annotations

import math
import re
from html import unescape
from statistics import geometric_mean

import pytest
from msgspec import to_builtins
from tests.kept_runs import stored_run

from firsttouch.base.units import format_size, parse_size
from firsttouch.cli import first_findings
from firsttouch.engine.work_kinds import reportable_experiments
from firsttouch.records.reading import key_of, load_results, point_key
from firsttouch.report.conclusions import conclusions
from firsttouch.report.page import render

RUNS = ["h200-quick", "h200-apps"]
SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}


@pytest.fixture(scope="module", params=RUNS)
def told(request):
    """The findings of a first screen as --json has them, and the records by key."""
    results = load_results(stored_run(request.param))
    own = [to_builtins(f) for f in conclusions(results).findings if f.claim.startswith(("headline.", "app.mean"))]
    for found in own:
        found["points"] = [point_key(**point) for point in found["points"]]
    return own, {key_of(r): r for r in results.records}


def amounts(text: str, *units: str) -> list[float]:
    """The numbers of a sentence before one of the units, times in seconds."""
    found = re.findall(rf"([0-9][0-9,.]*) ({'|'.join(units)})(?![a-zA-Z/])", text)
    return [float(value.replace(",", "").rstrip(".")) * SECONDS.get(unit, 1) for value, unit in found]


def close(value: float, wanted: float) -> bool:
    """Equal to two digits, which is what a number with a wide interval is rounded to."""
    return math.isclose(value, wanted, rel_tol=0.06)


def median(record) -> float:
    assert record.status == "ok"
    assert record.verified is not False
    assert not record.suspect
    scale = SECONDS.get(record.unit, 1)
    return record.summary.median * scale


def test_there_are_up_to_eight_numbers_each_with_points(told):
    own, records = told
    assert 4 <= len(own) <= 8
    assert all(f["points"] and set(f["points"]) <= set(records) for f in own)


def test_the_numbers_are_medians_of_their_points(told):
    own, records = told
    for found in own:
        points = [records[key] for key in found["points"]]
        if found["claim"] == "app.mean":
            continue
        rates = [median(r) for r in points if r.unit == "GB/s"]
        times = [median(r) for r in points if r.unit in SECONDS]
        said = found["text"].partition(": ")[2]
        said = re.sub(r"\([^()]* to [^()]*\)", "", said)  # an interval
        stated = [found["details"]["limit"]["value"]] if "limit" in found["details"] else []
        written = amounts(said, "GB/s")
        named = found["conditions"].get("allocator")
        tied = named[1:] if isinstance(named, tuple) else ()  # the same number is told of them
        assert len(written) == len(rates) - len(tied) + len(stated)
        for value in written:
            assert any(close(value, wanted) for wanted in [*rates, *stated]), (value, found["text"])
        for value in amounts(said, *SECONDS):
            assert any(close(value, wanted) for wanted in times), (value, found["text"])


def test_shares_are_of_what_the_memory_or_the_link_allows(told):
    own, records = told
    link, memory = 32e9 * 16 / 8, 2 * 3201e6 * 6016 / 8  # PCIe 5 x16; two transfers a cycle of 6016 bits
    for found in own:
        if "limit" not in found["details"]:
            continue
        first = records[found["points"][0]]
        (share,) = amounts(found["text"], "%")
        limit = found["details"]["limit"]["value"] * 1e9
        triad_over_link = link * 3 / 2  # two of three arrays are read
        assert any(math.isclose(limit, one) for one in (link, memory, triad_over_link)), limit
        assert close(share / 100, median(first) * 1e9 / limit)
        assert share <= 100


def test_managed_memory_is_compared_with_a_copy_under_equal_conditions(told):
    own, records = told
    for found in own:
        if found["claim"] == "headline.managed":
            moved, copied, *ahead = (records[key] for key in found["points"])
            differ = {n for n in moved.factors if moved.factors[n] != copied.factors[n]}
            assert differ == {"allocator"}
            assert close(found["value"]["value"], median(moved) / median(copied))
            for record in ahead:
                assert {n for n in moved.factors if moved.factors[n] != record.factors[n]} == {"prefetch"}


def test_sizes_are_those_of_the_points(told):
    own, records = told
    for found in own:
        sizes = {records[key].factors.get("size") for key in found["points"]}
        sizes |= {records[key].counters.get("page_bytes") for key in found["points"]}
        for text in re.findall(r"[0-9.]+ [KMG]iB", found["text"]):
            assert text in {format_size(size) for size in sizes if size}


def test_means_over_applications_are_geometric(told):
    own, records = told
    explicit = {
        (r.factors["app"], r.factors.get("size"), r.factors.get("iterations")): r
        for r in records.values()
        if r.experiment == "app" and r.factors["strategy"] == "explicit" and r.factors.get("events") == "off"
    }
    for found in own:
        if found["claim"] != "app.mean":
            continue
        rows = [records[key] for key in found["points"]]
        bases = [explicit[r.factors["app"], r.factors.get("size"), r.factors.get("iterations")] for r in rows]
        ratios = [median(r) / median(base) for r, base in zip(rows, bases, strict=True)]
        assert close(found["value"]["value"], geometric_mean(ratios))


@pytest.mark.parametrize(("name", "ground"), [("h200-quick", "estimated"), ("h200-apps-1", "measured")])
def test_advice_comes_first_and_says_what_its_numbers_are(name, ground, undrawn, capsys):
    results = load_results(stored_run(name))
    found = conclusions(results)
    first_findings.show_first_screen(found)
    title, _, advice, *rest = re.split(r"\n", capsys.readouterr().out)
    assert title == found.screen.title
    assert advice.startswith(f"Advice ({ground}): Use ")
    number, page = found.screen.numbers[0], unescape(render({name: results}, reportable_experiments()))
    assert any(line.startswith(number.head) for line in rest)
    places = [page.index(part) for part in (f"<b>Advice ({ground})</b>", f"{number.head}</a></dt>", "<figcaption>")]
    assert places == sorted(places)


@pytest.mark.parametrize("name", ["h200-quick", "h200-standard", "xeon-vm-quick", "xeon-vm-standard"])
def test_the_title_of_the_picture_is_its_message(name):
    screen = conclusions(load_results(stored_run(name))).screen
    for agent in {r.factors["agent"] for r in screen.shown}:
        shown = {median(r): r.factors["allocator"] for r in screen.shown if r.factors["agent"] == agent}
        said = screen.message.partition(f"the {agent.upper()} ")[2]
        for value in dict.fromkeys((min(shown), max(shown))):
            parts = re.findall(r"[0-9.]+ [nu]s \([a-z, -]+\)", said)
            text = next(part for part in parts if f"({shown[value]}" in part)
            names = re.split(", | or ", text.partition("(")[2].rstrip(")"))
            assert sorted(names) == sorted(name for other, name in shown.items() if 1 / 1.05 <= other / value <= 1.05)
            assert close(amounts(text, *SECONDS)[0], value)
    (size,) = {r.factors["size"] for r in screen.shown}
    assert parse_size(re.findall(r"[0-9.]+ [KMG]iB", screen.message)[0].replace(" ", "")) == size
    assert len(screen.shown) <= 8


def test_the_picture_of_applications_says_how_the_best_did():
    screen = conclusions(load_results(stored_run("h200-apps-1"))).screen
    best = min(screen.numbers, key=lambda number: number.finding.value.value)
    assert screen.message == f"{best.head} takes {best.text}."


@pytest.mark.parametrize(("share", "trusted"), [(0.9, False), (0.4, True)])
def test_a_disturbed_run_says_so_first_and_shows_the_spread_of_its_numbers(share, trusted, capsys):
    results = load_results(stored_run("h200-quick"))
    timed = [r for r in results.records if r.status == "ok" and r.better != "neither"]
    for n, record in enumerate(timed):
        record.others_share = 0.5 if n < share * len(timed) else 0.0
    found = conclusions(results)
    first_findings.show_first_screen(found)
    shown = " ".join(capsys.readouterr().out.split())
    assert ("This run was disturbed: " in shown) != trusted
    assert ("`firsttouch run --wait`" in found.screen.disturbed) != trusted
    wide = [n for n in found.screen.numbers if n.finding.value.low and n.finding.value.high > 1.3 * n.finding.value.low]
    assert all(("(" in number.value) != trusted for number in wide)


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        ("h200-quick", ("NVIDIA H200", "experiments")),
        ("h200-apps", ("NVIDIA H200", "30 applications", "5 memory strategies")),
        ("h200-producer-consumer", ("producer_consumer",)),
        ("h200-pagefault", ("pagefault",)),
    ],
)
@pytest.mark.usefixtures("undrawn")
def test_the_title_says_what_was_measured(name, facts):
    page = render({name: load_results(stored_run(name))}, reportable_experiments())
    for element in ("title", "h1"):
        (title,) = re.findall(f"<{element}>(.*?)</{element}>", page)
        assert all(fact in title for fact in facts), title
    (contents,) = re.findall("<nav.*?</nav>", page, re.DOTALL)
    assert ("1 point failed" in contents) == (name == "h200-apps")
