"""First touches by address: which lines, and how many threads, touched a range of host memory first."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.profile.profiles import header, write
from tests.profile.targets import build, held, opened, readable

from firsttouch.profile import touches
from firsttouch.profile.content import Profile, ProfiledProcess
from firsttouch.profile.faults import FaultRecorder
from firsttouch.profile.reading import read
from firsttouch.profile.schema import TOUCH_GRANULE, Site, Started, Symbol, TouchSamples
from firsttouch.profile.touches import RangeTouches, TouchIndex, TouchRecorder

THREADS = r"""
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static char* block;
static void* fill(void* part) {
    memset(block + (long)part * (4 << 20), 1, 4 << 20);  // line of fill
    return 0;
}
int main(void) {
    block = mmap(0, 16 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(block, 16 << 20, MADV_NOHUGEPAGE);
    printf("%lu\n", (unsigned long)block);
    fflush(stdout);
    pthread_t threads[4];
    for (long i = 0; i < 4; ++i) pthread_create(&threads[i], 0, fill, (void*)i);
    for (long i = 0; i < 4; ++i) pthread_join(threads[i], 0);
}
"""
SYMBOLS = (
    Site(site=0, file="/lib/libc.so", offset=1, caller=1),
    Symbol(site=0, function="__memset_avx2"),
    Site(site=1, file="/app", offset=2),
    Symbol(site=1, function="main", source="/app.c", number=7),
)


def index_of(directory: Path, *lines: TouchSamples) -> TouchIndex:
    write(directory, *SYMBOLS, *lines)
    profile = read(directory)
    return TouchIndex(profile, profile.header.pid)


def profile_of(lines: list[TouchSamples]) -> Profile:
    return Profile(Path(), header(pid=1), touches=lines, processes={0: ProfiledProcess(0, 1, None, "app", [], 0.0)})


def test_a_range_has_its_lines_and_threads(tmp_path: Path) -> None:
    rows = [(0, 0, 0, 100, 50, 200), (1, 0, 3, 150, 50, 50), (0, 7, 1, 100, 100, 9)]
    index = index_of(tmp_path, TouchSamples(t=1.0, every=8, rows=rows[:1]), TouchSamples(t=2.0, every=8, rows=rows[1:]))
    both = index.of(140 * TOUCH_GRANULE, 160 * TOUCH_GRANULE)
    assert (both.threads, both.samples, both.every) == (2, 50, 8)  # of another process nothing counts
    assert [(p.function, p.line, p.through, p.samples) for p in both.places] == [
        ("main", 7, "memset", 40),
        ("main", 7, "", 10),
    ]
    assert index.of(90 * TOUCH_GRANULE, 100 * TOUCH_GRANULE) == RangeTouches()


def test_what_is_written_is_read(tmp_path: Path) -> None:
    write(
        tmp_path / "a",
        TouchSamples(t=1.0, every=8, rows=[(0, 0, 0, 5, 1, 1)], left_out=3),
        Started(t=0.0, key=9, pid=1),
    )
    assert read(tmp_path / "a").touches == [TouchSamples(t=1.0, every=8, rows=[(0, 0, 0, 5, 1, 1)], left_out=3)]


SAMPLES = st.lists(st.tuples(st.integers(0, 2), st.integers(5, 7), st.integers(0, 40)), max_size=60)


@given(SAMPLES, st.integers(0, 40), st.integers(1, 41))
def test_rows_equal_the_samples(samples: list[tuple[int, int, int]], first: int, granules: int) -> None:
    recorder, lines = TouchRecorder(1), []
    for number, (site, thread, granule) in enumerate(samples):
        recorder.add(site, 0, thread, granule * TOUCH_GRANULE + number)
        if number % 20 == 19:
            lines += recorder.flush(0.0)
    lines += recorder.flush(0.0)
    index = TouchIndex(profile_of(lines), 1)
    within = [(site, thread) for site, thread, granule in samples if first <= granule < first + granules]
    touched = index.of(first * TOUCH_GRANULE, (first + granules) * TOUCH_GRANULE)
    assert touched.threads >= len({thread for _, thread in within})  # a row's samples are spread over its parts
    assert (touched.samples > 0) == bool(within)
    whole = index.of(0, 100 * TOUCH_GRANULE)
    assert (whole.samples, whole.threads) == (len(samples), len({thread for _, thread, _ in samples}))


def test_rows_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(touches, "MOST_ROWS", 5)
    recorder = TouchRecorder(1)
    for granule in range(0, 20, 2):
        recorder.add(0, 0, 1, granule * TOUCH_GRANULE)
    (line,) = recorder.flush(0.0)
    assert (len(line.rows), line.left_out) == (5, 5)


def test_threads_of_a_program() -> None:
    with readable() as folder, held([build(folder, "threads", THREADS)]) as target:
        events = opened(target.pid, 8)
        recorder = FaultRecorder(8, {target.pid: 0}.get, touches=TouchRecorder(8))
        target.release()
        while not target.ended():
            recorder.take(events.read())
        recorder.take(events.read(rest=True))
        lines = [line for line in recorder.flush(0.0) if isinstance(line, TouchSamples)]
    by_thread = {thread: samples for line in lines for _, _, thread, _, granules, samples in line.rows if granules > 50}
    assert len(by_thread) == 4
    assert all(samples == pytest.approx(128, abs=2) for samples in by_thread.values())
