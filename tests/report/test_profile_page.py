"""The page of a profile: the answer first, all memory over one axis, tables, and nothing from the target but text."""

import csv
import html
import json
import os
import re
from itertools import accumulate, pairwise

import pytest
from browser import CHROMIUM
from tests.calls import call
from tests.comparison.runs import RESULTS
from tests.profile.profiles import MiB, gpu, header, mark, write
from tests.profile.timed import stored, training
from tests.schemas import assert_valid
from tests.texts import assert_states

from firsttouch.base.errors import UsageError
from firsttouch.profile import schema as s
from firsttouch.profile import views
from firsttouch.profile.reading import read
from firsttouch.profile.summarise import summarise
from firsttouch.report.profile import names_of, render, write_profile
from firsttouch.report.profile_figure import figure_of, per_second
from firsttouch.report.profile_panels import MOST_KEYS, Band, MemoryFigure, size_ticks, spaced, stacked, thinned

EVIL = "</script><script>alert(1)</script><b>\x00\x1b[31m\u202e'\""


def page_of(directory, *lines, **changes):
    return render({"p": read(write(directory, *lines, **changes))})


def touched(function, file, source, number, faults, mapping):
    """The lines of a place at which pages were touched first."""
    place = touched.places = getattr(touched, "places", 0) + 1
    symbol = s.Symbol(site=place, function=function, source=source, number=number)
    return [
        s.Site(site=place, file=file, offset=8),
        symbol,
        s.Faults(t=1.0, every=64, rows=[(place, 0, mapping, faults)]),
    ]


def text_of(page):
    return html.unescape(re.sub(r"<[^>]+>", " ", page.partition("<body>")[2].partition("<script>")[0]))


def words(page):
    return " ".join(text_of(page).split())  # no-break spaces as well


def sentences(page):
    return words(page).split(". ")


MARKS = [mark(0.1, "load"), mark(1.0, kind="end"), mark(1.0, "solve"), mark(1.5, "inner"), mark(1.8, kind="end")]
MARKS += [mark(3.5, kind="end")]


@pytest.mark.usefixtures("undrawn")
def test_the_title_answers(tmp_path):
    page = page_of(tmp_path, *MARKS, gpus=[gpu()])
    answer = (
        "./app arg (exit status 3): peak at least 800 MiB and at most 1000 MiB on the host at 1 s (phase solve), "
        "+500 MiB on gpu:0 by all programs"
    )
    assert f"<h1>{answer}</h1>" in page
    assert f"<title>firsttouch: {answer}</title>" in page
    assert_states(sentences(page), "gpu:0", "500 MiB", "600 MiB", "at 3 s (phase solve)")
    assert "5,000 minor and 1 major page faults" in words(page)


def test_the_figure_has_a_panel_for_each_memory_and_names_its_lines(tmp_path):
    svg = re.search(r"<svg.*?</svg>", page_of(tmp_path, *MARKS, gpus=[gpu(), gpu("gpu:1")]), re.DOTALL)[0]
    texts = [html.unescape(text) for text in re.findall(r"<text[^>]*>([^<]*)", svg)]
    for text in [
        "Phases", "load", "solve", "inner", "Host: resident memory", "all processes", "app 100", "child 101",
        "peak 1000 MiB at 1 s", "gpu:0 (M): memory, over the 600 MiB used before", "peak 500 MiB at 3 s",
        "gpu:1 (M): memory, over the 600 MiB used before", "Page faults per second", "minor", "time since the start, s",
    ]:  # fmt: skip
        assert text in texts


def test_a_phase_of_the_figure_leads_to_its_row(tmp_path):
    page = page_of(tmp_path, *MARKS)
    links = set(re.findall(r'data-p="(phase-\d+)"', page))
    assert links == {"phase-0", "phase-1", "phase-2"}
    assert all(f'<tr id="{link}">' in page for link in links)


@pytest.mark.usefixtures("undrawn")
def test_tables_have_the_numbers_of_the_summary(tmp_path):
    lines = [
        s.Samples(of="process:0", columns=["huge", "anonymous"], rows=[[0.9, 64 * MiB, 700 * MiB]]),
        s.Mappings(t=1.1, key=0, rows=[s.Mapping("[heap]", 1, 900 * MiB, 730 * MiB, 64 * MiB)]),
        s.BriefProcesses(t=1.0, count=30, names={"true": 29, "ls": 1}),
    ]
    page = page_of(tmp_path, *MARKS, *lines, gpus=[gpu()])
    text = words(page)
    assert "load 100 ms 900 ms 1000 MiB +920 MiB 0 B 0 990 0" in text
    assert "101 child child 500 ms 1.5 s 200 MiB 149 0 killed by SIGKILL" in text
    assert "[heap] 1 900 MiB 730 MiB 64 MiB" in text
    assert_states(sentences(page), "1.1 s", "1 s (host) and 3 s (gpu:0)")
    assert "in huge pages 64 MiB 9 %" in text
    assert_states(sentences(page), "30 further processes", "true (29) and ls (1)")
    assert "trace: CUPTI is missing <code>pip install it</code>" in page
    assert_states(sentences(page), "40 ms of processor time", "20 ms", "1.5 % of one core")


def test_rare_readings_are_dots_with_the_time_at_which_they_were_made(tmp_path):
    page = page_of(tmp_path, s.Samples(of="total", columns=["pss"], rows=[[0.1, 30 * MiB], [3.9, 70 * MiB]]))
    assert_states(sentences(page), "at most 70 MiB", "at 3.9 s", "80 MiB resident")
    assert "PSS, now and then" in page


@pytest.mark.usefixtures("undrawn")
def test_memory_by_process_is_drawn_when_it_was_read_and_not_held_until_the_next_reading():
    profile = read(RESULTS / "h200-profile")
    figure, _ = figure_of(profile, summarise(profile))
    all_programs, mine = next(panel for panel in figure.panels if panel.key == "gpu-0").series
    assert (all_programs.dots, mine.dots) == (False, True)
    rows: list[dict] = []
    stacked(figure, rows)
    drawn = [row["y"] for row in rows if row["part"] == "line" and row["stroke"] == mine.colour]
    assert drawn == [526 * MiB, 0]
    assert max(drawn) < all_programs.peak[1]


@pytest.mark.parametrize("width", [240, 620, 2000])
@pytest.mark.parametrize("lengths", [[1, 1, 1], [100, 1, 2], [3, 900, 3, 3], [1] * 40])
def test_each_phase_has_its_whole_name_in_its_band_or_below_the_bands(lengths, width):
    ends = list(accumulate(lengths))
    names = [f"phase with a long name {i}" for i in range(len(lengths))]
    bands = [Band(name, end - n, end, 0, "#000", name) for name, n, end in zip(names, lengths, ends, strict=True)]
    rows: list[dict] = []
    stacked(MemoryFigure([], ends[-1], bands, width=width), rows)
    written = [row["text"] for row in rows if row["text"]]
    assert set(written) <= set(names)
    assert len(set(written)) == len(written) >= min(len(names), MOST_KEYS)
    keys = [row for row in rows if row["part"] == "key"]
    assert all(0 <= key["x"] < ends[-1] for key in keys)
    assert len({(key["x"], key["middle"]) for key in keys}) == len(keys)


def test_found_phases_are_called_that(tmp_path):
    text = words(page_of(tmp_path))
    assert "target named no phases" in text


@pytest.mark.usefixtures("undrawn")
def test_where_pages_were_touched_first_is_shown_if_it_is_known(tmp_path):
    assert 'id="first-touches"' not in page_of(tmp_path)
    lines = [*touched("init", "/app", "app.c", 12, 20, "[heap]"), *touched("", "/lib.so", "", 0, 10, "anonymous")]
    page = page_of(tmp_path / "other", *lines)
    assert '<section id="first-touches">' in page
    text = words(page)
    assert "init app.c:12 1,280 66.7 [heap] 1,280" in text
    assert "\N{EN DASH} /lib.so 640 33.3 anonymous 640" in text
    assert "One of 64 page faults was sampled" in text


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("more", [{"node": 1}, {"shares_host_memory": True}])
def test_memory_that_may_be_counted_twice_is_never_added(tmp_path, more):
    nodes = [s.Node(node=0, total=64 << 30, processors=True), s.Node(node=1, total=96 << 30, processors=False)]
    text = words(page_of(tmp_path, gpus=[gpu(**more)], nodes=nodes))
    assert "they are not added" in text
    assert "1.46 GiB" not in text
    assert "NUMA nodes" in text


def test_names_of_the_target_are_text(tmp_path):
    lines = [
        *(mark(0.1, EVIL), mark(0.2, EVIL, "instant"), mark(3.0, kind="end")),
        s.Started(t=0.0, key=0, pid=100, name=EVIL, command=[EVIL]),
        s.Mappings(t=1.0, key=0, rows=[s.Mapping(EVIL, 1, 1, 1, 1)]),
        s.Notice(t=1.0, text=EVIL),
        s.BriefProcesses(t=1.0, count=1, names={EVIL: 1}),
        s.Samples(of="machine", columns=[EVIL], rows=[[1.0, 2]]),
    ]
    changes = {"command": [EVIL], "host": EVIL, "rank": EVIL, "started": EVIL}
    head = {"gpus": [gpu(model=EVIL, by_process=EVIL)], "layers": [s.LayerState("trace", False, EVIL, EVIL)]}
    lines += touched(EVIL, EVIL, EVIL, 1, 1, EVIL)
    page = page_of(tmp_path, *lines, **changes, **head)
    assert page.count("<script>") == page.count("</script>") == 1
    assert "alert(1)" in page
    assert "<b>\N{REPLACEMENT CHARACTER}" not in page
    assert not re.search("[\x00\x1b\u202e]", page)


@pytest.mark.usefixtures("undrawn")
def test_what_lines_cost_comes_first_and_what_unified_memory_would_do_later(tmp_path):
    page = render({"p": read(stored(tmp_path / "p", training(), *MARKS))})
    tables = re.findall('<section id="([^"]+)"', page)
    assert tables[:3] == ["lines", "memory", "all-lines"]
    assert "hazards" in tables[3:]
    costs = page.partition('<section id="lines"')[2].partition("</section>")[0]
    assert re.findall(r"train\.py:\d+(?: and :\d+)?", costs) == ["train.py:14", "train.py:11", "train.py:16 and :17"]
    assert sentences(page)[0].count("train.py:14") <= 1


@pytest.mark.usefixtures("undrawn")
def test_a_program_whose_lines_cost_nothing_has_its_copies_only(tmp_path):
    program = training(0)
    page = render({"p": read(stored(tmp_path / "p", program))})
    assert 'id="lines"' not in page
    assert "train.py:5" in page


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium or google-chrome on the PATH")
@pytest.mark.slow
def test_the_page_is_self_contained_and_logs_nothing(browser, tmp_path):
    write(tmp_path / "a", *MARKS, mark(0.2, EVIL, "instant"), gpus=[gpu()], command=[EVIL])
    browser.open(write_profile([tmp_path / "a"]))
    assert browser.run("document.querySelectorAll('svg').length") > 0
    assert (browser.console, browser.requests) == ([], [])


@pytest.mark.parametrize("whole", [True, False])
def test_a_profile_that_was_cut_short_is_drawn(tmp_path, whole):
    directory = write(tmp_path, whole=whole)
    with (directory / s.FILE).open("ab") as file:
        file.write(b'{"line":"sampl')
    assert ("profiler ended before" in page_of_existing(directory)) is not whole


def page_of_existing(directory):
    return words(render({"p": read(directory)}))


def test_a_profile_without_memory_is_a_page(tmp_path):
    import msgspec

    (tmp_path / s.FILE).write_bytes(msgspec.json.encode(header(gpus=[gpu()])) + b"\n")
    assert page_of_existing(tmp_path).startswith("./app arg: no memory ")


def test_hostile_numbers_are_drawn(tmp_path):
    rows = s.Samples(of="total", columns=["resident", "minor"], rows=[[3.99, 0, 9], [4.0, 9e18, 9], [1e7, 1, 10]])
    assert "<svg" in page_of(tmp_path, rows)


@pytest.mark.slow
def test_a_day_with_many_processes_and_phases_stays_small(tmp_path):
    rows = [[4 + 3.6 * i, (i * 7919 % 1000) * MiB, i, 0, 1] for i in range(24_000)]
    lines = [s.Samples(of="total", columns=["resident", "minor", "major", "processes"], rows=rows)]
    lines += [
        s.Started(t=5.0, key=k, pid=k + 1000, parent=0, name=f"w{k}", command=["x" * 300]) for k in range(2, 3000)
    ]
    lines += [m for i in range(5000) for m in (mark(5 + i, f"step {i % 500}"), mark(5.9 + i, kind="end"))]
    directory = write(tmp_path, *lines, gpus=[gpu(f"gpu:{i}") for i in range(8)])
    page = render({"p": read(directory)})
    assert len(page.encode()) < 2 << 20
    assert page.count("<tr") < 800
    assert "time since the start, h" in page


# ---------------------------------------------------------------------------------------------------------- overlays


def test_several_profiles_have_their_peaks_side_by_side(tmp_path):
    directories = [write(tmp_path / f"run-{i}", rank=str(i), gpus=[gpu()]) for i in range(2)]
    page = write_profile(directories, tmp_path / "both.html").read_text()
    text = words(page)
    assert_states(page.splitlines(), "<h1>2 profiles of ./app arg</h1>")
    for i in range(2):
        assert f"run-{i}, rank {i} 1000 MiB 1 s +500 MiB 4 s 5,000 1 exit status 3" in text
    svg = re.search(r"<svg.*?</svg>", page, re.DOTALL)[0]
    assert svg.count(">run-1, rank 1<") == 2
    assert "gpu:0: memory of all programs" in svg


def test_memory_that_only_processes_are_counted_for_is_named_as_theirs(tmp_path):
    own = s.Samples(of="gpu:0/process:0", columns=["used"], rows=[[1.2, 477 * MiB]])
    about = {"gpus": [gpu(before=s.GpuMemory())]}
    directories = [write(tmp_path / f"run-{i}", own, rank=str(i), **about) for i in range(2)]
    one = page_of(tmp_path, *MARKS, own, **about)
    assert_states(sentences(one), "driver of gpu:0", "477 MiB for this program", "at 1.2 s (phase solve)")
    svg = re.search(r"<svg.*?</svg>", one, re.DOTALL)[0]
    assert "peak 477 MiB at 1.2 s" in svg
    assert "this program" in svg
    assert "all programs" not in svg
    both = write_profile(directories, tmp_path / "both.html").read_text()
    assert "of the profiled programs" in re.search(r"<svg.*?</svg>", both, re.DOTALL)[0]


def test_names_tell_profiles_apart(tmp_path):
    profiles = [read(write(tmp_path / name / "profile")) for name in ("a", "b")]
    assert names_of(profiles) == ["a/profile", "b/profile"]
    assert names_of([profiles[0], profiles[0]]) == ["profile", "profile (2)"]


def test_several_profiles_need_a_name_for_their_page(tmp_path):
    directories = [write(tmp_path / name) for name in "ab"]
    with pytest.raises(UsageError, match="-o FILE"):
        write_profile(directories)


# ----------------------------------------------------------------------------------------------------------- command


@pytest.mark.slow
def test_a_process_writes_the_page_and_the_command_says_the_answer(tmp_path):
    directory = write(tmp_path / "p", gpus=[gpu()])
    done = call("report", directory, drawn_by_process=True)
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "./app arg (exit status 3): peak at least 800 MiB and at most 1000 MiB on the host at 1 s, "
        "+500 MiB on gpu:0 by all programs",
        str(directory / "report.html"),
    ]
    assert "<svg" in (directory / "report.html").read_text()


@pytest.mark.usefixtures("drawn_here")
def test_json_has_the_path_and_the_summaries(tmp_path):
    directory = write(tmp_path / "p")
    written = json.loads(call("report", directory, "--json").stdout)
    assert_valid("report", written)
    assert written["report"] == str(directory / "report.html")
    assert written["summaries"][0]["host"]["peak"]["bytes"] == 1000 * MiB
    assert written["summaries"][0]["minor"] == summarise(read(directory)).minor


@pytest.mark.usefixtures("drawn_here")
@pytest.mark.parametrize(("form", "start"), [("svg", b"<svg"), ("png", b"\x89PNG")])
def test_the_figure_is_written_by_itself(tmp_path, form, start):
    directory = write(tmp_path / "p")
    done = call("report", directory, "--format", form)
    assert done.stdout.split() == [str(directory / "figures" / f"profile.{form}")]
    assert (directory / "figures" / f"profile.{form}").read_bytes().startswith(start)


@pytest.mark.usefixtures("drawn_here")
def test_a_table_has_every_reading(tmp_path):
    directory = write(tmp_path / "p")
    assert call("report", directory, "--format", "csv").returncode == 0
    with (directory / "figures" / "curves.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [*rows[0]] == ["of", "column", "t", "value"]
    total = [row for row in rows if (row["of"], row["column"]) == ("total", "resident")]
    assert len(total) == 400
    assert {"of": "total", "column": "resident", "t": "1.0", "value": str(1000 * MiB)} in total


@pytest.mark.usefixtures("drawn_here")
def test_profiles_and_results_are_not_mixed(tmp_path):
    (tmp_path / "other").mkdir()
    done = call("report", write(tmp_path / "p"), tmp_path / "other", "-o", tmp_path / "x.html")
    assert done.returncode == 2
    assert "holds a profile and" in done.stderr
    assert len(done.stderr.splitlines()) == 1


# ------------------------------------------------------------------------------------------------------------- parts


def test_labels_are_spaced_and_keep_their_order():
    places = spaced([50, 50, 51, 99], 10, 0, 100)
    assert all(b - a >= 10 for a, b in pairwise(places))
    assert max(places) <= 100


def test_ticks_of_sizes_are_powers_of_two_times_a_whole_number():
    assert size_ticks(0, 1000 * MiB) == [0, 256 * MiB, 512 * MiB, 768 * MiB]
    assert size_ticks(-3 * MiB, 5 * MiB)[0] < 0


def test_thinned_readings_keep_the_extremes():
    readings = [(float(i), float(i * 7919 % 1013)) for i in range(50_000)]
    kept = thinned(readings, 100)
    assert len(kept) <= 100
    assert {max(v for _, v in kept), min(v for _, v in kept)} == {1012.0, 0.0}


def test_faults_per_second_are_the_slope_of_their_count(tmp_path):
    rates = per_second(read(write(tmp_path)).curves["total", "minor"], 4.0, 0.01)
    inner = [rate for _, rate in rates[1:-1]]
    assert sum(inner) / len(inner) == pytest.approx(1100, rel=0.02)


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("kept", ["", "{", "[1]", None])
@pytest.mark.parametrize("written", [b"1", b""])
def test_numbers_that_another_process_adds_up_are_those_of_the_page(tmp_path, monkeypatch, kept, written):
    """kept: what the file is cut to; None: not at all."""
    directory = write(tmp_path / "p")
    alone = write_profile([directory]).read_text()
    views.write(directory)
    numbers = directory / views.SUMMARY
    if kept is not None:
        numbers.write_text(kept)
    reading, writing = os.pipe()
    os.write(writing, written)
    os.close(writing)
    with open(reading) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        assert write_profile([directory], None, True).read_text() == alone


@pytest.mark.usefixtures("undrawn")
def test_the_page_takes_numbers_once_they_are_written(tmp_path, monkeypatch):
    directory = write(tmp_path / "p")
    views.write(directory)
    numbers = directory / views.SUMMARY
    numbers.write_text(numbers.read_text().replace('"host_name": "', '"host_name": "elsewhere-'))
    for written in (b"1", b""):
        reading, writing = os.pipe()
        os.write(writing, written)
        os.close(writing)
        with open(reading) as stdin:
            monkeypatch.setattr("sys.stdin", stdin)
            page = write_profile([directory], None, True).read_text()
        assert ("elsewhere-" in page) == bool(written)
