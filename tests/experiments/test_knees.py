"""Knees and page sizes of curves that are generated for TLBs of known size."""

from __future__ import annotations

import random

import pytest

from firsttouch.experiments.analysis.tlb import EffectivePage, Knee, effective_page, find_knees, name_levels

KiB, MiB = 1 << 10, 1 << 20
OCTAVES = [1 << k for k in range(3, 17)]
HALVES = sorted({n for k in range(3, 17) for n in (1 << k, 3 << k >> 1)})


def curve(
    pages: list[int],
    entries: list[int],
    costs: list[float],
    stride: int = 4 * KiB,
    page: int = 4 * KiB,
    noise: float = 0,
) -> list[float]:
    """The cost of a load where an entry covers `page` bytes: costs[i] while entries[i] entries hold all pages."""
    rng = random.Random(len(pages))

    def cost(n: int) -> float:
        needed = n if stride >= page else n * stride / page
        level = next((i for i, held in enumerate(entries) if needed <= held), len(entries))
        return costs[level] * rng.lognormvariate(0, noise)

    return [cost(n) for n in pages]


@pytest.mark.parametrize("noise", [0, 0.02, 0.05])
def test_two_levels_have_two_knees(noise: float) -> None:
    costs = curve(OCTAVES, [64, 2048], [1, 2.6, 9], noise=noise)
    first, second = find_knees(OCTAVES, costs)
    assert (first.pages, first.following) == (64, 128)
    assert (second.pages, second.following) == (2048, 4096)
    assert [first.before, first.after, second.after] == pytest.approx([1, 2.6, 9], rel=0.1)
    assert [name for name, _ in name_levels(OCTAVES, costs)] == [
        "L1 TLB, 64 pages",
        "L2 TLB, 2048 pages",
        "beyond the L2 TLB",
    ]


def test_half_octaves_find_the_knee_between() -> None:
    (knee,) = find_knees(HALVES, curve(HALVES, [96], [1, 3]))
    assert knee == Knee(96, 128, 1, 3)


def test_a_rise_without_an_end_still_ends_the_level_before() -> None:
    """Beyond the last TLB a curve need not be flat, since lines of the page tables leave the caches gradually."""
    costs = [1.0] * 4 + [2.6] * 5 + [9, 15, 30, 60, 120]
    assert [knee.pages for knee in find_knees(OCTAVES, costs)] == [64, 2048]
    assert find_knees(OCTAVES, costs)[1].after == 15


def test_one_bad_point_does_not_hide_a_knee() -> None:
    for costs in ([1.0] * 4 + [2.6] * 4 + [5.9, 2.6, 6.4, 11, 15, 30], [1.0] * 4 + [2.6, 2.6, 9, 2.6, 2.6] + [9.0] * 5):
        assert find_knees(OCTAVES, costs)[0].pages == 64
        assert len(find_knees(OCTAVES, costs)) == 2


def test_the_levels_of_a_rise_without_an_end_have_names() -> None:
    costs = [1.0] * 4 + [2.6] * 5 + [9, 15, 30, 60, 120]
    assert [name for name, _ in name_levels(OCTAVES, costs)] == ["L1 TLB, 64 pages", "L2 TLB, 2048 pages"]


def test_a_flat_curve_has_no_knee() -> None:
    costs = curve(OCTAVES, [1 << 20], [1, 9], noise=0.03)
    assert find_knees(OCTAVES, costs) == []
    assert [name for name, _ in name_levels(OCTAVES, costs)] == ["no knee"]


def test_order_and_bad_points_do_not_matter() -> None:
    costs = curve(OCTAVES, [64], [1, 3])
    assert find_knees(OCTAVES[::-1], costs[::-1]) == find_knees([*OCTAVES, 5], [*costs, 0.0])
    assert find_knees([], []) == []


def test_a_fall_is_no_knee() -> None:
    assert find_knees(OCTAVES, [3.0] * 7 + [1.0] * 7) == []


STRIDES = [4 * KiB, 16 * KiB, 64 * KiB, 256 * KiB, 2 * MiB]


@pytest.mark.parametrize(
    ("page", "found"),
    [
        (4 * KiB, EffectivePage(4 * KiB, "at most")),
        (16 * KiB, EffectivePage(16 * KiB, "about")),
        (64 * KiB, EffectivePage(64 * KiB, "about")),
        (256 * KiB, EffectivePage(256 * KiB, "about")),
        (2 * MiB, EffectivePage(2 * MiB, "at least")),
        (32 * MiB, EffectivePage(2 * MiB, "at least")),
    ],
)
@pytest.mark.parametrize("pages", [OCTAVES, HALVES])
def test_the_count_stops_shrinking_at_the_page(pages: list[int], page: int, found: EffectivePage) -> None:
    pages = [*pages, *(n << 14 for n in pages[2:])]  # enough for 64 entries of 32 MiB at 4 KiB
    knees = {s: find_knees(pages, curve(pages, [64], [1, 3], s, page))[0].pages for s in STRIDES}
    assert effective_page(knees) == found


@pytest.mark.parametrize("page", [16 * KiB, 64 * KiB, 512 * KiB])
def test_two_strides_are_enough(page: int) -> None:
    pages = [*OCTAVES, 1 << 17]
    knees = {s: find_knees(pages, curve(pages, [64], [1, 3], s, page))[0].pages for s in (4 * KiB, 2 * MiB)}
    assert effective_page(knees) == EffectivePage(page, "about")


def test_one_stride_does_not_determine_the_page() -> None:
    assert effective_page({4 * KiB: 64}) is None
    assert effective_page({}) is None
    assert effective_page({64 * KiB: 100, 256 * KiB: 100}) == EffectivePage(64 * KiB, "at most")


def test_a_dip_is_not_a_level() -> None:
    pages = [2**k for k in range(2, 17)]
    costs = [1.9 if n <= 96 else 4.5 if n <= 1024 else 16.0 if n <= 8192 else 1.9 for n in pages]
    assert [level.value for _, level in name_levels(pages, costs)] == pytest.approx([1.9, 4.5, 16.0])
