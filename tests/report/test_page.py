"""The content of the report, including that of untrusted results files."""

from __future__ import annotations

import re
from base64 import b64encode
from collections import Counter
from hashlib import sha256
from html.parser import HTMLParser
from importlib.resources import files

import pytest
import sample
from tests.texts import assert_states

from firsttouch.records.plausibility import explain
from firsttouch.records.schema import Party
from firsttouch.report.chapters import chapters
from firsttouch.report.page import render
from firsttouch.report.sections import tally


class Elements(HTMLParser):
    """Every element with its attributes, and the text of the page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


def section(page: str, name: str, device: str) -> str:
    """The text of one experiment on one device."""
    parts = page[: page.index('<section class="machine"')].split('<div class="part" data-section="')[1:]
    found = [part for part in parts if part.startswith(f'{name} on {device}">')]
    assert len(found) == 1
    return " ".join(Elements("<div>" + found[0].partition(">")[2]).text.split())


def render_records(*records):
    results = sample.results()
    results.records = list(records)
    return render({"out": results}, sample.EXPERIMENTS)


@pytest.mark.parametrize("fixture", ["page", "hostile_page"])
def test_nothing_active_and_nothing_external(fixture, request):
    elements = Elements(request.getfixturevalue(fixture)).found
    tags = {tag for tag, _ in elements}
    assert [attributes for tag, attributes in elements if tag == "script"] == [{}]  # ours, allowed by its hash
    assert not tags & {"img", "iframe", "object", "embed", "foreignobject", "base", "form", "image", "use"}
    for tag, attributes in elements:
        assert not [a for a in attributes if a.startswith("on")], (tag, attributes)
        for name in ("href", "src", "xlink:href"):
            assert (attributes.get(name) or "#").startswith(("#", "data:")), (tag, attributes)


@pytest.mark.parametrize("fixture", ["page", "hostile_page"])
def test_the_policy_allows_only_the_packages_script(fixture, request):
    page = request.getfixturevalue(fixture)
    script = page[page.index("<script>") + len("<script>") : page.index("</script>")]
    assert script == files("firsttouch.report").joinpath("page.js").read_text()
    digest = b64encode(sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; script-src 'sha256-{digest}';" in page


def test_hostile_text_is_shown_as_text(hostile_page):
    elements = Elements(hostile_page)
    assert elements.text.count(sample.EVIL) > 20
    svg_text = "".join(re.findall(r"<text[^>]*>([^<]*)</text>", hostile_page))
    assert "&lt;script&gt;" in svg_text


def test_points_of_several_processes_say_whose_and_what_they_share(hostile_page):
    parties = [Party(device="cpu", rank=rank, host="node7") for rank in range(3)]
    factors = {"allocator": "malloc", "agent": "cpu", "size": 4096}
    page = render_records(
        sample.point("latency", "cpu", 3.0, factors=factors),
        sample.point("latency", "cpu", 3.0, factors=factors | {"size": 8192}, parties=parties,
                     counters={"shared": "processor, NUMA node"}),
    )  # fmt: skip
    text = section(page, "latency", "cpu")
    assert "1 point: 3 processes on cpu (3) at node7; some share a processor, a NUMA node" in text
    assert f"1000 processes on {sample.EVIL}" in Elements(hostile_page).text


def test_ids_are_unique_and_links_have_targets(page):
    elements = Elements(page).found
    ids = [a["id"] for _, a in elements if a.get("id")]
    assert len(ids) == len(set(ids))
    assert {a["href"][1:] for _, a in elements if (a.get("href") or "").startswith("#")} <= set(ids)
    assert set(re.findall(r"url\(#([^)]+)\)", page)) <= set(ids)


def test_question_then_answer_then_figure(page):
    (chapter,) = chapters({"out": sample.results()}, sample.EXPERIMENTS)
    gpu, cpu = chapter.questions[0].sections
    assert [gpu.device, cpu.device] == ["cuda:0", "cpu"]
    text = page[page.index('<section class="experiment"') :]
    places = [text.index(part) for part in (gpu.question, gpu.brief, "<svg", cpu.answer)]
    assert places == sorted(places)


def test_levels_are_named_on_the_curve(page):
    labels = re.findall(r">([^<>]+)</(?:text|tspan)>", page)
    assert {"L1", "L2", "L3", "near L2", "far L2", "memory", "17.3 ns"} <= set(labels)
    # A label and its halo, in the form for desktops and in that for phones: one curve is named, not each allocator's.
    assert labels.count("far L2") == 4
    assert {"256 KiB", "16 MiB", "1 GiB"} <= set(labels)


def test_wrong_data_are_clearly_marked(page):
    head = page[: page.index("<nav")]
    assert_states(head[head.index('role="alert"') :], "1 point failed verification")
    one = section(page, "allocation", "cuda:0")
    assert_states(one, "byte 4096 was 0x00, not 0xa5 operation allocate, allocator device", "size 2 MiB")
    assert_states(one, "1 point here failed", "do not use")
    assert page.count('class="flawed"') == 1
    assert page.count('stroke="var(--red)"') == 2  # for desktops, and for phones


@pytest.mark.usefixtures("undrawn")
def test_wrong_points_do_not_reach_the_answer():
    def at(value, verified):
        factors = {"kernel": "copy", "allocator": "malloc"}
        return sample.point("bandwidth", "cpu", value, verified=verified, factors=factors)

    assert "At best 10 GB/s" in render_records(at(10, True), at(99999, False))
    assert_states(section(render_records(at(99999, False)), "bandwidth", "cpu"), "Nothing was measured", "wrong.")


def test_suspect_points_are_marked_and_do_not_reach_the_answer():
    def at(value, kernel, **more):
        factors = {"kernel": kernel, "allocator": "malloc"}
        return sample.point("bandwidth", "cpu", value, factors=factors, **more)

    page = render_records(at(10, "copy"), at(99999, "triad", suspect="above-peak"))
    one = section(page, "bandwidth", "cpu")
    assert "At best 10 GB/s" in one
    assert_states(one, "1 suspect point, left out", explain("above-peak"), "1 point checked and right")
    assert re.search(r"triad99,999 GB/s.*suspect: above-peak", one)
    assert "1 suspect point (above-peak)" in one  # below the figure
    assert page.count('stroke="var(--purple)"') == 2  # for desktops, and for phones
    assert '<th class="num">suspect</th>' in page
    assert "Nothing was measured" in render_records(at(99999, "triad", suspect="above-peak"))


def test_failed_skipped_and_unverified_points_have_reasons(page):
    def of(experiment, status):
        records = (r for r in sample.results().records if (r.experiment, r.device) == (experiment, "cuda:0"))
        return Counter(r.reason or r.verified_why for r in records if r.status == status and r.verified is None)

    one = section(page, "allocation", "cuda:0")
    assert of("allocation", "timeout").total() == 2
    assert_states(one, "2 points failed", *(f"timeout: {reason}" for reason in of("allocation", "timeout")))
    ((why, points),) = of("allocation", "ok").items()
    assert_states(one, f"{points} points: {why}", "±15 % typically", f"time ({points})")
    skipped, latency = of("latency", "skipped"), section(page, "latency", "cuda:0")
    assert sorted(skipped.values()) == [16, 81]
    assert_states(latency, *(f"{points} points: {why}" for why, points in skipped.items()), "allocator pinned; size")


def test_the_counts_are_of_every_point(page):
    table = page[page.index('<table class="wide summary">') :]
    rows = re.findall(r'<tr><td><a href="#[^"]+">(\w+)</a></td><td>([^<]+)</td>(.*?)</tr>', table)
    counts = {(name, device): re.findall(r">(\d+)<", rest) for name, device, rest in rows}
    # ok, wrong, failed, skipped, unverified, throttled
    assert counts["allocation", "cuda:0"] == ["87", "1", "2", "0", "87", "0"]
    assert counts["latency", "cuda:0"] == ["389", "0", "0", "97", "0", "6"]
    assert len(counts) == 8


@pytest.mark.usefixtures("undrawn")
def test_the_summary_has_no_columns_of_zeros():
    page = render_records(sample.point("bandwidth", "cpu", 5.0, factors={"kernel": "copy", "allocator": "malloc"}))
    outcomes = [name for name in tally([]) if name != "ok"]
    assert {"wrong", "suspect", "failed", "skipped"} < {*outcomes}
    assert " or ".join(outcomes) in Elements(page).text
    assert not any(f'<th class="num">{name}</th>' in page for name in outcomes)


def test_contents_name_each_question_once(page):
    entries = page[page.index("<nav") : page.index("</nav>")].split("<li>")[1:]
    links = [a["href"] for entry in entries for tag, a in Elements(entry).found if tag == "a"]
    assert links == ["#answer", *(f"#{name}" for name in sample.EXPERIMENTS), "#answer-machine"]
    assert [href for href, entry in zip(links, entries, strict=True) if 'class="bad"' in entry] == ["#allocation"]


def test_one_question_shows_one_device_and_one_figure(page):
    shown = page[: page.index('<section class="machine"')]
    for question in shown.split('<section class="experiment"')[1:]:
        shown = re.sub(r"<details.*?</details>", "", question, flags=re.DOTALL)
        assert shown.count("<h2>") == 1
        assert shown.count("<figure") <= 1
    latency = page[page.index('id="latency"') : page.index('id="allocation"')]
    assert latency.index("latency on cuda:0") < latency.index('data-section="latency on cpu"')


def test_caveats_are_collapsed_at_the_end(page):
    at = page.index('<section class="machine"')
    assert "NUMA balancing is on" not in page[:at]
    text = " ".join(Elements(page[at:]).text.split())
    assert_states(text, "NUMA balancing", "cut short", "10 points ... throttled (sw_power_cap)", "87 noisy points")
    assert "libamdhip64.so was not found" in text
    shown = re.sub(r"<details.*?</details>", "", page[at : page.index("</main>")], flags=re.DOTALL)
    assert " ".join(Elements(shown).text.split()).endswith("Machine, caveats and counts")


def test_conditions_never_share_a_line():
    """Factors that the figure does not name get a channel."""
    records = [
        sample.point(
            "allocation", "cpu", 10.0 * (1 + n) * s,
            factors={"size": 2**s, "allocator": a, "operation": "free", "pages": p, "first_touch": t},
        )
        for s in range(3, 9) for a in ("malloc", "mmap") for n, (p, t) in
        enumerate([("base", "cpu"), ("base", "gpu"), ("huge", "cpu"), ("huge", "gpu")])
    ]  # fmt: skip
    page = render_records(*records)
    whole = page[page.index('class="on-demand"') :]
    figure = whole[whole.index("<svg") : whole.index("</svg>")]
    texts = re.findall(r">([^<>]+)</text>", figure)
    assert {"first_touch cpu", "first_touch gpu"} <= set(texts)  # panels
    assert {"malloc", "mmap", "base", "huge"} <= set(texts)  # colours and dashes
    assert "Held constant: operation free." in page


def test_unknown_experiments_and_failing_findings_do_not_prevent_a_report(hostile_page):
    assert "experiment unknown to" in hostile_page
    assert "(KeyError)" in hostile_page


def test_empty_results_make_a_report():
    assert "holds no points" in render_records()


@pytest.mark.parametrize("value", [0.0, -5.0])
def test_values_without_a_logarithm_are_drawn(value):
    points = [
        sample.point("allocation", "cpu", v, factors={"size": s, "allocator": "malloc"})
        for s, v in [(0, value), (8, 3.0), (16, 1e6)]
    ]
    assert "<svg" in render_records(*points)


@pytest.mark.exhaustive
def test_two_directories_are_distinguished():
    both = {"a": sample.results("left"), "b": sample.results("right")}
    page = render(both, sample.EXPERIMENTS)
    assert page.count("<h1>") == 1
    assert "(a)</h2>" in page
    assert "(b)</h2>" in page
    assert page.count(sample.Bandwidth.question) == 2
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))


def test_a_later_run_has_the_same_ids():
    def ids(scale):
        records = [
            sample.point("allocation", "cpu", scale * s, factors={"size": s, "allocator": a, "operation": "free"})
            for s in (8, 16)
            for a in ("malloc", "mmap")
        ]
        page = render_records(*(records if scale == 1 else reversed(records)))
        found = re.findall(r' (?:id|data-p)="([^"]+)"', page)
        return {one for one in found if "clip" not in one}  # inside a figure

    first = ids(1)
    assert len([one for one in first if one.startswith("p-")]) == 4
    assert first == ids(2.5)


def test_each_point_of_a_figure_has_its_row(page):
    rows, marks = (set(re.findall(rf' {name}="(p-[^"]+)"', page)) for name in ("id", "data-p"))
    assert len(marks) > 100
    assert marks <= rows


@pytest.mark.exhaustive
def test_two_directories_share_no_id_of_a_point():
    page = render({"a": sample.results("left"), "b": sample.results("right")}, sample.EXPERIMENTS)
    rows, marks = (re.findall(rf' {name}="(p-[^"]+)"', page) for name in ("id", "data-p"))
    assert len(rows) == len(set(rows))
    assert set(marks) <= set(rows)
    assert {name.partition(".")[2] for name in marks} == {"", "2"}
