"""The numbers of a profile are those of the curves that it was made of."""

import msgspec
import pytest
from tests.profile.profiles import MiB, gpu, header, mark, write
from tests.texts import assert_states

from firsttouch.base.units import format_seconds, format_size
from firsttouch.cli.profiled import lines
from firsttouch.profile import schema as s
from firsttouch.profile.headline import headline, how_ended
from firsttouch.profile.phase_rows import MOST_PHASES
from firsttouch.profile.reading import read
from firsttouch.profile.recorded import ProcessJournal, RecordedAllocation, RecordedFree
from firsttouch.profile.summarise import MOST_PROCESSES, summarise
from firsttouch.profile.summary import ProfileSummary
from firsttouch.report.profile_tables import answer

PHASES = [
    mark(0.1, "load"),
    mark(1.0, kind="end"),
    mark(1.0, "solve"),
    mark(1.5, "inner"),
    mark(1.8, kind="end"),
    mark(3.5, kind="end"),
]


def summary_of(directory, *lines, **changes):
    return summarise(read(write(directory, *lines, **changes)))


def test_the_headline_has_both_peaks_and_the_phase(tmp_path):
    summary = summary_of(tmp_path, *PHASES, gpus=[gpu()])
    peaks = (
        "peak at least 800 MiB and at most 1000 MiB on the host at 1 s (phase solve), +500 MiB on gpu:0 by all programs"
    )
    assert headline(summary) == f"./app arg (exit status 3): {peaks}"
    assert (summary.host.peak.bytes, summary.host.peak.t, summary.host.processes) == (1000 * MiB, 1.0, 2)
    assert (summary.gpus[0].before, summary.gpus[0].rise.bytes, summary.gpus[0].rise.t) == (600 * MiB, 500 * MiB, 3.0)
    assert summary.gpus[0].peak.bytes == 1100 * MiB
    assert (summary.minor, summary.major, summary.status, summary.seconds) == (5000, 1, 3, 4.0)


@pytest.mark.parametrize(
    ("rises", "told"),
    [
        ([0, 0], "+0 B on gpu:1 by all programs"),
        ([0, 7], "+7 MiB on gpu:1 by all programs"),
        ([1, 0, 5, 9, 7, 2], "+5 MiB on gpu:2, +9 MiB on gpu:3, +7 MiB on gpu:4 by all programs, less on 2 more"),
    ],
)
def test_the_headline_names_the_gpus_that_rose_most(tmp_path, rises, told):
    gpus = [gpu(f"gpu:{i}", before=s.GpuMemory(1100 * MiB)) for i in range(len(rises))]
    rows = [s.Samples(of=f"gpu:{i}", columns=["used"], rows=[[4.0, (1100 + r) * MiB]]) for i, r in enumerate(rises)]
    assert headline(summary_of(tmp_path, *rows, gpus=gpus)).endswith(f"at 1 s, {told}")


def test_it_is_written_as_json_and_read_again(tmp_path):
    summary = summary_of(tmp_path, *PHASES, gpus=[gpu()])
    plain = msgspec.json.decode(msgspec.json.encode(summary))
    assert plain["host"]["peak"] == {"bytes": 1048576000, "t": 1.0, "phase": "solve"}
    assert msgspec.convert(plain, ProfileSummary) == summary


def test_phases_have_their_growth_peaks_and_faults(tmp_path):
    load, solve, inner = summary_of(tmp_path, *PHASES, gpus=[gpu()]).phases
    assert (load.name, load.start, load.seconds, load.depth) == ("load", 0.1, 0.9, 0)
    assert (load.peak, load.growth, load.minor) == (1000 * MiB, 920 * MiB, 990)
    assert (load.gpus[0].peak, load.gpus[0].growth) == (0, 0)
    assert (solve.growth, solve.gpus[0].peak, solve.gpus[0].growth) == (-600 * MiB, 500 * MiB, 500 * MiB)
    assert (inner.name, inner.depth, inner.growth, inner.minor) == ("inner", 1, 0, 330)


def test_without_phases_they_are_found(tmp_path):
    summary = summary_of(tmp_path)
    assert summary.phases_found
    assert {row.source for row in summary.phases} == {"found"}
    assert summary.phases[0].name == "rising"
    assert summary.host.peak.phase == ""
    assert " in " not in headline(summary)


def test_many_phases_of_one_name_are_summed_by_name(tmp_path):
    marks = [m for i in range(300) for m in (mark(i / 100 + 0.005, "step"), mark(i / 100 + 0.015, kind="end"))]
    summary = summary_of(tmp_path, mark(0.0, "all"), *marks)
    assert (len(summary.phases), summary.phases_left_out) == (MOST_PHASES, 301 - MOST_PHASES)
    everything, step = summary.phases_by_name
    assert (everything.name, everything.open, everything.count) == ("all", True, 1)
    assert (step.name, step.count, step.seconds) == ("step", 300, pytest.approx(3.0))
    assert step.peak == 1000 * MiB
    assert step.minor == 3300


def test_processes_say_how_they_ended(tmp_path):
    first, child = summary_of(tmp_path).processes
    assert (first.pid, first.peak, first.minor, how_ended(first)) == (100, 800 * MiB, 5000, "exit status 3")
    assert (child.pid, child.parent, child.peak, child.t, how_ended(child)) == (
        101,
        0,
        200 * MiB,
        0.5,
        "killed by SIGKILL",
    )


@pytest.mark.parametrize(
    ("why", "running", "words"),
    [
        (s.TARGET_ENDED, 1, "; 1 process that it started was still running when it ended"),
        (s.TARGET_ENDED, 1200, "; 1,200 processes that it started were still running when it ended"),
        (s.TARGET_ENDED, 0, ""),
        ("the time was up", 1, ""),
        ("the point ended", 1, ""),
    ],
)
def test_processes_that_outlive_the_first_are_told(tmp_path, why, running, words):
    """The peak of an empty launcher must not read as that of the program that it left running."""
    end = s.End(t=4.0, status=0, why=why, still_running=running)
    summary = summarise(read(write(tmp_path / "p", s.Ended(t=3.99, key=0, status=0), end, whole=False)))
    assert headline(summary).endswith(f" s{words}")
    printed = "\n".join(lines(summary))
    assert ("(--follow)" in printed) == bool(words)


def test_many_processes_are_counted_and_the_largest_kept(tmp_path):
    lines = [s.Started(t=1.0, key=k, pid=1000 + k, parent=0, name="w") for k in range(2, 400)]
    lines += [s.Ended(t=1.5, key=k, status=0, peak=k * MiB) for k in range(2, 400)]
    summary = summary_of(tmp_path, *lines)
    assert (len(summary.processes), summary.processes_left_out) == (MOST_PROCESSES, 400 - MOST_PROCESSES)
    assert [row.pid for row in summary.processes[:3]] == [100, 1399, 1398]


def test_page_sizes_are_of_one_moment_and_of_processes_alive_at_the_peak(tmp_path):
    huge = [
        s.Samples(of="process:0", columns=["huge", "anonymous"], rows=[[0.5, 100 * MiB, 300 * MiB], [3.0, 7, 7]]),
        s.Samples(of="process:1", columns=["huge", "anonymous"], rows=[[1.1, 50 * MiB, 60 * MiB]]),
        s.Started(t=0.2, key=2, pid=102, parent=0, name="gone"),
        s.Samples(of="process:2", columns=["huge", "anonymous"], rows=[[0.3, MiB, MiB]]),
        s.Ended(t=0.4, key=2),
    ]
    pages = summary_of(tmp_path, *huge).pages
    assert (pages.t, pages.huge, pages.anonymous, pages.resident) == (0.5, 150 * MiB, 360 * MiB, 600 * MiB)
    assert (pages.swap, pages.pss) == (None, None)


def test_the_proportional_size_is_told_with_what_was_resident_when_it_was_read(tmp_path):
    rows = s.Samples(of="total", columns=["pss"], rows=[[0.1, 30 * MiB], [3.9, 70 * MiB]])
    host = summary_of(tmp_path, rows).host
    assert (host.pss.bytes, host.pss.t) == (70 * MiB, 3.9)
    assert host.pss_resident == pytest.approx(80 * MiB, abs=8)


def of_total(column, value):
    return s.Samples(of="total", columns=[column], rows=[[0.0, value * MiB]])


def of_machine(anonymous, mapped, *times):
    rows = [[t, anonymous * MiB, mapped * MiB] for t in times or (0.0, 1.0, 1.9)]
    return s.Samples(of="machine", columns=["anon_pages", "mapped"], rows=rows)


@pytest.mark.parametrize(
    ("lines", "least", "most", "told"),
    [
        ([], 800, 1000, ["at least 800 MiB", "at most 1000 MiB"]),
        ([of_total("least", 900)], 900, 1000, ["at least 900 MiB", "at most 1000 MiB"]),
        # 200 of the sum may be shared; the machine has 700 of its own and 120 shared in all programs
        ([of_total("shared", 200), of_machine(700, 120)], 800, 820, ["at least 800 MiB", "at most 820 MiB"]),
        ([of_total("shared", 200), of_machine(700, 105)], 800, 805, ["peak 805 MiB"]),
        ([of_total("shared", 200), of_machine(9000, 9000)], 800, 1000, ["at most 1000 MiB"]),
        # between two readings, what processes gave back until the second is added: 720 MiB and 200 MiB
        ([of_total("shared", 200), of_machine(10, 10, 0.0, 3.9)], 800, 930, ["at most 930 MiB"]),
        ([s.Samples(of="total", columns=["pss"], rows=[[1.0, 870 * MiB]])], 800, 1000, ["about 870 MiB"]),
        # read with little memory, this tells nothing of the peak
        ([s.Samples(of="total", columns=["pss"], rows=[[0.2, 150 * MiB]])], 800, 1000, ["at least 800 MiB"]),
    ],
)
def test_of_pages_that_processes_share_the_peak_has_bounds(tmp_path, lines, least, most, told):
    summary = summary_of(tmp_path, *lines)
    assert (summary.host.least, summary.host.most) == (least * MiB, most * MiB)
    assert_states(headline(summary), *told)


def test_nodes_have_what_the_target_uses(tmp_path):
    nodes = [
        s.Node(node=0, total=64 << 30, processors=True),
        s.Node(node=1, total=96 << 30, processors=False, gpu="gpu:0"),
    ]
    rows = s.Samples(of="process:0", columns=["node0", "node1"], rows=[[0.9, 700 * MiB, 20 * MiB]])
    free = s.Samples(of="machine", columns=["node0_free", "cgroup"], rows=[[0.0, 60 << 30, 5], [2.0, 50 << 30, 9]])
    summary = summary_of(tmp_path, rows, free, nodes=nodes, gpus=[gpu(node=1)])
    assert [(n.node, n.used, n.t, n.least_free) for n in summary.nodes] == [
        (0, 700 * MiB, 0.9, 50 << 30),
        (1, 20 * MiB, 0.9, None),
    ]
    assert "not added" in summary.gpus[0].shared
    assert [(c.name, c.first, c.last) for c in summary.counters] == [("cgroup", 5.0, 9.0)]


def mapped(t, mib, key=0, others=0):
    row = s.Mapping("[heap]", 1, 900 * MiB, mib * MiB, 64 * MiB)
    return s.Mappings(t=t, key=key, rows=[row], others=s.Mapping("", 3, 0, others * MiB, 0) if others else None)


def test_mappings_are_those_nearest_to_each_peak(tmp_path):
    lines = [mapped(0.2, 160), mapped(1.1, 760), mapped(2.9, 700, others=60), mapped(1.0, 200, key=1)]
    mappings = summary_of(tmp_path, *lines, gpus=[gpu()]).mappings
    assert {(m.key, m.t, *m.of) for m in mappings} == {(0, 1.1, "host"), (1, 1.0, "host"), (0, 2.9, "gpu:0")}
    assert mappings[0].rows[0].resident == 760 * MiB


@pytest.mark.parametrize(("t", "mib"), [(0.05, 40), (0.8, 640), (1.0, 700), (3.9, 80)])
def test_mappings_that_were_read_with_less_memory_are_not_those_of_the_peak(tmp_path, t, mib):
    summary = summary_of(tmp_path, mapped(t, mib))
    assert summary.mappings == []
    (row,) = [row for row in summary.unseen if row.layer == "mappings"]
    assert f"with at most {mib} MiB resident" in row.why
    assert "not within 10 % of the peak of 1000 MiB" in row.why


def test_calls_of_the_mark_command_are_no_part_of_what_they_mark(tmp_path):
    """The child of 200 MiB is such a call, and another one ended between two ticks."""
    marks = [mark(1.5, "solve", source="mark", pid=101), mark(2.5, "end", source="mark", pid=102)]
    brief = s.BriefProcesses(t=2.6, count=3, names={"firsttouch": 1, "sed": 2})
    extra = [brief, mapped(1.2, 190, key=1), s.Faults(t=3.0, every=1, rows=[(1, 0, "a", 5), (1, 1, "a", 7)])]
    summary = summary_of(tmp_path, *marks, *extra)
    plain = summary_of(tmp_path / "plain")
    assert [row.pid for row in summary.processes] == [100]
    assert (summary.host.peak.bytes, summary.host.processes) == (800 * MiB, 1)
    assert (plain.host.peak.bytes, plain.host.processes) == (1000 * MiB, 2)
    assert summary.minor == 5000 - 149
    assert (summary.brief.count, summary.brief.names["sed"]) == (2, 2)
    solve, after = summary.phases
    assert (solve.name, solve.start, solve.peak, solve.growth) == ("solve", 1.5, 800 * MiB, 0)
    assert (after.name, after.growth) == ("end", summary.host.at_end - 800 * MiB)
    assert summary.mappings == []
    assert sum(row.faults for row in summary.touches.rows) == 5
    own = summary_of(tmp_path / "own", mark(1.5, "solve", source="mark", pid=100))  # the first process marks itself
    assert own.host.peak.bytes == 1000 * MiB


def test_a_script_of_a_thousand_marks_is_summed_up(tmp_path):
    """Each call holds 30 MiB for one tick; without them the first process has 100 MiB throughout."""
    lines = []
    for i in range(1000):
        t, key, pid = 4 + i / 100, 10 + i, 2000 + i
        both, alone = [t, 130 * MiB, 2], [t + 0.005, 100 * MiB, 1]
        lines += [
            s.Started(t=t, key=key, pid=pid, parent=0, name="firsttouch", command=["firsttouch", "mark"]),
            s.Samples(of=f"process:{key}", columns=["resident", "minor", "major"], rows=[[t, 30 * MiB, 9, 0]]),
            s.Samples(of="total", columns=["resident", "processes"], rows=[both, alone]),
            mark(t + 0.001, f"step {i % 7}", source="mark", pid=pid),
            s.Ended(t=t + 0.005, key=key, status=0),
        ]
    profile = read(write(tmp_path, *lines, whole=False))
    for column, expected in (("resident", 100 * MiB), ("processes", 1)):
        assert {value for t, value in profile.curve("total", column) if t >= 4} == {expected}
    assert len(profile.processes) == 2


def test_of_many_found_spans_the_longest_is_shown(tmp_path):
    teeth = [[i / 100, (100 + (700 * (i % 20) // 20 if i < 150 else 0)) * MiB] for i in range(1000)]
    rows = [s.Samples(of="total", columns=["resident"], rows=[[4 + t, size] for t, size in teeth])]
    summary = summary_of(tmp_path, *rows, whole=False)
    longest = max(summary.phases, key=lambda row: row.seconds)
    shown = [line for line in lines(summary) if " flat " in line or " rising " in line or " falling " in line]
    assert len(summary.phases) > len(shown) == 6
    assert any(f" {format_seconds(longest.seconds)} " in line for line in shown)


def test_the_driver_s_count_of_the_target_ends_with_its_processes(tmp_path):
    lines = [
        s.Samples(of="gpu:0/process:0", columns=["used"], rows=[[1.0, 100 * MiB], [3.5, 200 * MiB]]),
        s.Samples(of="gpu:0/process:1", columns=["used"], rows=[[1.0, 150 * MiB]]),
    ]
    row = summary_of(tmp_path, *lines, gpus=[gpu()]).gpus[0]
    assert (row.own.bytes, row.own.t) == (250 * MiB, 1.0)
    assert [(p.pid, p.peak.bytes) for p in row.processes] == [(100, 200 * MiB), (101, 150 * MiB)]


@pytest.mark.parametrize(
    ("free", "known", "said"),
    [
        ([[0.0, 60 << 30], [2.0, 50 << 30], [3.0, 55 << 30]], {}, "10 GiB less was available to all programs at 2 s"),
        ([[0.0, 60 << 30]], {}, "its driver does not state how much."),
        ([], {}, "its driver does not state how much."),
        ([[0.0, 60 << 30], [2.0, 50 << 30]], {"before": s.GpuMemory(5 * MiB)}, "they are not added."),
        ([[0.0, 60 << 30], [2.0, 50 << 30]], {"shares_host_memory": False}, ""),
    ],
)
def test_a_gpu_in_the_host_s_memory_says_what_the_host_knows(tmp_path, free, known, said):
    device = gpu(**{"before": s.GpuMemory(), "shares_host_memory": True, **known})
    rows = s.Samples(of="machine", columns=["mem_available"], rows=free)
    summary = summary_of(tmp_path, rows, gpus=[gpu("gpu:1"), device])
    assert summary.gpus[1].shared.endswith(said if "less" not in said else f"{said} than at the start.")
    assert (summary.gpus[1].shared.partition(";")[0] in " ".join(" ".join(lines(summary)).split())) or not said


def test_memory_that_is_not_known_is_none(tmp_path):
    summary = summary_of(tmp_path, gpus=[gpu(before=s.GpuMemory(), by_process="NVML told foreign pids")])
    assert (summary.gpus[0].before, summary.gpus[0].rise, summary.gpus[0].own) == (None, None, None)
    assert "on gpu:0" not in headline(summary)
    assert summary.pages is None
    (why,) = [part.why for part in summary.unseen if part.layer == "gpus"]
    assert_states(why, "gpu:0", "NVML told foreign pids")


def only_by_process(tmp_path, *rows, model="NVIDIA GB10"):
    """A profile of a GPU of which the driver states what processes hold, and no memory of its own."""
    of = [s.Samples(of=f"gpu:0/process:{key}", columns=["used"], rows=[[t, held * MiB]]) for key, t, held in rows]
    return summary_of(tmp_path, *PHASES, *of, gpus=[gpu(model=model, before=s.GpuMemory(), total=None)])


def test_where_only_processes_are_counted_theirs_is_the_memory(tmp_path):
    summary = only_by_process(tmp_path, (0, 1.2, 477), (1, 1.1, 23))
    row = summary.gpus[0]
    assert (row.rise, row.only_own, row.before) == (row.own, True, None)
    assert (row.rise.bytes, row.rise.phase) == (500 * MiB, "solve")
    assert headline(summary).endswith(", 500 MiB on gpu:0")
    (line,) = [line for line in lines(summary) if line.startswith("gpu:0")]
    assert_states(line, "500 MiB", "target's processes", "1.2 s (phase solve)", "(NVIDIA GB10, NVML)")
    assert summary.phases[1].gpus[0].peak == 500 * MiB


def test_a_gpu_whose_processes_are_not_of_the_target_stays_unknown(tmp_path):
    row = only_by_process(tmp_path).gpus[0]
    assert (row.rise, row.own, row.only_own) == (None, None, False)


def allocating(*blocks, pid=100, device=0):
    """The journal of a process that allocates. blocks: time, kind, MiB, and when it is freed or None."""
    journal = ProcessJournal(pid=pid, opened=0.0, traced=True)
    for n, (t, kind, size, end) in enumerate(blocks):
        about = {"address": (n + 1) << 40, "bytes": size * MiB, "kind": kind, "device": device}
        journal.allocations.append(RecordedAllocation(t=CLOCK + t, **about))
        if end is not None:
            journal.frees.append(RecordedFree(t=CLOCK + end, **about))
    return journal


CLOCK = 123456.789
OWN = s.Samples(of="gpu:0/process:0", columns=["used"], rows=[[1.0, 100 * MiB]])
TWICE = [(0.5, "device", 60, 1.0), (1.0, "device", 60, None), (1.5, "device", 20, None)]
"""80 MiB are alive at once."""


@pytest.mark.parametrize(
    ("rows", "journals", "expected"),
    [
        ([OWN], [], ("processes", 100, 1.0)),
        ([OWN], [allocating(*TWICE)], ("processes", 100, 1.0)),  # which have a context too
        ([OWN], [allocating((2.0, "device", 300, None))], ("allocations", 300, 2.0)),  # they were not read then
        ([], [allocating(*TWICE)], ("allocations", 80, 1.5)),
        ([], [allocating(*TWICE), allocating((0.0, "device", 5, 1.2), (1.4, "device", 9, 3.0), pid=101)],
         ("allocations", 89, 1.5)),
        ([], [allocating((0.0, "managed", 400, None), (2.0, "pinned", 400, None))], ("all programs", 500, 3.0)),
        ([], [allocating((0.0, "device", 400, None), device=1)], ("all programs", 500, 3.0)),
        ([], [], ("all programs", 500, 3.0)),
    ],
    ids=["read", "traced too", "read too early", "traced", "two processes", "none of a GPU", "another GPU", "none"],
)  # fmt: skip
def test_the_peak_on_a_gpu_is_that_of_the_target_if_it_is_known(tmp_path, rows, journals, expected):
    profile = read(write(tmp_path / "p", *rows, gpus=[gpu()], clock=CLOCK))
    profile.journals.extend(journals)
    summary = summarise(profile)
    (row,) = summary.gpus
    assert (row.peak_of, row.told.bytes, round(row.told.t, 3)) == (expected[0], expected[1] * MiB, expected[2])
    assert (row.rise.bytes, row.only_own) == (500 * MiB, False)
    if summary.trace is not None and expected[0] == "allocations":
        assert sum(alive.bytes for alive in summary.trace.alive[0].rows) == row.told.bytes
    text = " ".join(" ".join(lines(summary)).split())
    assert_states(text, f"{expected[1]} MiB", "of the device, others included, +500 MiB at 3 s over 600 MiB before")
    assert ("by all programs" in headline(summary)) == (expected[0] == "all programs")
    assert f"{expected[1]} MiB" in headline(summary)
    (told,) = [sentence for sentence in answer(summary) if "gpu:0" in sentence]
    assert_states(told, f"{expected[1]} MiB", "500 MiB")


def test_the_rise_is_taken_from_free_memory_if_used_is_not_stated(tmp_path):
    rows = s.Samples(of="gpu:9", columns=["free"], rows=[[0.0, 100 * MiB], [1.0, 30 * MiB]])
    summary = summary_of(tmp_path, rows, gpus=[])
    assert summary.gpus == []
    header_only = gpu("gpu:9", before=s.GpuMemory(free=100 * MiB))
    (tmp_path / "b").mkdir()
    lines = (tmp_path / s.FILE).read_bytes().split(b"\n", 1)
    head = msgspec.json.decode(lines[0]) | {"gpus": [msgspec.to_builtins(header_only)]}
    (tmp_path / "b" / s.FILE).write_bytes(msgspec.json.encode(head) + b"\n" + lines[1])
    assert summarise(read(tmp_path / "b")).gpus[0].rise.bytes == 70 * MiB


def test_what_was_not_seen_is_told_once_with_the_line_to_type(tmp_path):
    notices = [s.Notice(t=1.0, text="the GPU's library hangs")] * 2
    summary = summary_of(tmp_path, *notices, s.BriefProcesses(t=1.0, count=3, names={"true": 3}), whole=False)
    assert [(part.layer, part.mend) for part in summary.unseen] == [("trace", "pip install it"), ("", ""), ("", "")]
    assert "profiler ended" in summary.unseen[1].why
    assert summary.unseen[2].why == "the GPU's library hangs"
    assert (summary.brief.count, summary.brief.names) == (3, {"true": 3})
    assert (summary.ended, summary.status, summary.cost) == ("", None, None)


def test_the_cost_is_told_as_a_part_of_the_time(tmp_path):
    cost = summary_of(tmp_path).cost
    assert (cost.busy, cost.locked, cost.late) == (pytest.approx(0.015), pytest.approx(0.0025), 2)


def test_a_profile_of_an_attached_process_names_it(tmp_path):
    summary = summary_of(tmp_path, command=[], attached=True)
    assert headline(summary).startswith("process 100 (app) (exit status 3): peak")


def test_hostile_numbers_and_names_stay_one_line_of_json(tmp_path):
    rows = s.Samples(of="total", columns=["resident"], rows=[[4.0, 9e18]])
    summary = summary_of(tmp_path, rows, mark(0.0, "a\nb"), command=["x\ny" * 200])
    assert "\n" not in headline(summary)
    assert len(headline(summary)) < 300
    assert msgspec.json.decode(msgspec.json.encode(summary))["host"]["peak"]["bytes"] > 1 << 60


# ------------------------------------------------------------------------------------------- a peak that is not known


def one_process(directory, readings, minor, *, peak=None):
    """A program that ends after readings of its resident KiB and minor faults, one a ms. minor: faults at its end."""
    rows = [[0.001 * n, kib << 10, faults] for n, (kib, faults) in enumerate(readings, 1)]
    lines = [
        header(),
        s.Started(t=0.0, key=0, pid=100, name="app", command=["./app", "arg"]),
        s.Samples(of="process:0", columns=["resident", "minor"], rows=rows),
        s.Samples(of="total", columns=["resident", "minor"], rows=rows),
        s.Ended(t=0.02, key=0, status=0, peak=peak, minor=minor, with_children=True),
        s.End(t=0.02, status=0, why="the target ended"),
    ]
    directory.mkdir(parents=True, exist_ok=True)
    (directory / s.FILE).write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    return summarise(read(directory))


@pytest.mark.parametrize(
    ("readings", "minor"),
    [
        ([(16, 387)], 434),  # as /bin/true
        ([(8_000, 2_000)] * 50, 50_000),  # as a burst before the end
        ([(100, 40), (3_000, 700)], 720),
        ([(900, 200), (700, 300)], 360),
    ],
    ids=["read once", "a burst at the end", "still growing", "growing again"],
)
def test_a_peak_after_the_last_reading_is_unknown(readings, minor, tmp_path):
    summary = one_process(tmp_path, readings, minor)
    least = max(kib for kib, _ in readings) << 10
    assert (summary.host.may_be_more, summary.host.least, summary.host.most) == (True, least, None)
    assert summary.processes[0].peak is None
    for text in (headline(summary), " ".join(lines(summary)), " ".join(answer(summary))):
        assert_states(text, f"at least {format_size(least, 3)}")
    assert_states(headline(summary), "peak unknown")


@pytest.mark.parametrize(
    ("readings", "minor", "more"),
    [
        ([(16, 387), (4_000, 1_400)], 1_410, {}),
        ([(9_000, 2_000), (100, 2_000)], 2_500, {}),
        ([(16, 387)], 434, {"peak": 20 << 20}),
        ([(16, 387)], 387, {}),
        ([(16, 387)], None, {}),
    ],
    ids=["read before the end", "most was given back", "the kernel states it", "no fault since", "nothing is stated"],
)
def test_a_peak_that_was_read_or_stated_is_told(readings, minor, more, tmp_path):
    summary = one_process(tmp_path, readings, minor, **more)
    assert not summary.host.may_be_more
    assert "unknown" not in headline(summary)
    assert summary.processes[0].peak == more.get("peak", max(kib for kib, _ in readings) << 10)
