"""Levels are found and named on curves like those of real machines, clean and noisy, coarse and fine."""

from __future__ import annotations

import random

import pytest

from firsttouch.experiments.analysis.plateaus import find_plateaus, name_plateaus

KIB, MIB, GIB = 2**10, 2**20, 2**30
H200 = {"l1_bytes": 256 * KIB, "l2_bytes": 60 * MIB}
XEON = {"l1_bytes": 48 * KIB, "l2_bytes": 2 * MIB, "l3_bytes": 32 * MIB}


def octaves(low, high, per_octave):
    sizes = []
    while (size := int(low * 2 ** (len(sizes) / per_octave))) <= high:
        sizes.append(size)
    return sizes


def curve(sizes, levels, beyond, noise=0.0, seed=1):
    """Steps at (capacity, ns), then beyond(size). The curve rises in the half octave after each capacity."""
    rng = random.Random(seed)

    def at(size):
        for i, (capacity, ns) in enumerate(levels):
            if size <= capacity:
                return ns
            if size <= capacity * 1.3:
                following = levels[i + 1][1] if i + 1 < len(levels) else beyond(size)
                return (ns + following) / 2
        return beyond(size)

    return [at(s) * rng.lognormvariate(0, noise) for s in sizes]


def h200(sizes, noise=0.0, seed=1):
    levels = [(192 * KIB, 17.3), (24 * MIB, 140), (50 * MIB, 250)]
    return curve(sizes, levels, lambda s: 330 if s <= GIB else 330 + 370 * (s / GIB - 1) / 3, noise, seed)


def xeon(sizes, noise=0.0, seed=1):
    return curve(sizes, [(48 * KIB, 1.1), (MIB, 3.5), (32 * MIB, 12)], lambda s: 110, noise, seed)


@pytest.mark.parametrize(("noise", "seed"), [(0.0, 0), (0.02, 1), (0.05, 2), (0.05, 3)])
def test_h200_has_two_parts_of_l2_and_memory(noise, seed):
    sizes = octaves(KIB, 4 * GIB, 4)
    named = name_plateaus(find_plateaus(sizes, h200(sizes, noise, seed)), H200)
    assert [name for name, _ in named][:4] == ["L1", "near L2", "far L2", "memory"]
    values = [p.value for _, p in named]
    assert values[:4] == pytest.approx([17.3, 140, 250, 330], rel=0.1)
    assert all(name == "memory with TLB misses" for name, _ in named[4:])
    assert named[0][1].low == KIB
    assert named[0][1].high == pytest.approx(192 * KIB, rel=0.2)
    assert named[1][1].high == pytest.approx(24 * MIB, rel=0.2)


@pytest.mark.parametrize("per_octave", [1, 2, 4])
@pytest.mark.parametrize(("noise", "seed"), [(0.0, 0), (0.03, 4), (0.06, 5)])
def test_cpu_has_three_caches_and_memory(per_octave, noise, seed):
    sizes = octaves(4 * KIB, GIB, per_octave)
    named = name_plateaus(find_plateaus(sizes, xeon(sizes, noise, seed)), XEON)
    assert [name for name, _ in named] == ["L1", "L2", "L3", "memory"]
    assert [p.value for _, p in named] == pytest.approx([1.1, 3.5, 12, 110], rel=0.1)


def test_one_outlier_does_not_split_a_plateau():
    sizes = octaves(4 * KIB, GIB, 4)
    values = xeon(sizes)
    values[sizes.index(256 * KIB)] *= 5
    assert len(find_plateaus(sizes, values)) == 4


def test_flat_curve_is_one_level_and_a_slope_is_none():
    sizes = octaves(4 * KIB, GIB, 2)
    assert [p.value for p in find_plateaus(sizes, [5.0] * len(sizes))] == [5.0]
    assert find_plateaus(sizes, [float(s) for s in sizes]) == []


def test_order_and_bad_points_do_not_matter():
    sizes = octaves(4 * KIB, GIB, 2)
    values = xeon(sizes)
    assert find_plateaus([*sizes[::-1], 99], [*values[::-1], 0.0]) == find_plateaus(sizes, values)
    assert find_plateaus([], []) == []


def test_names_without_facts():
    sizes = octaves(4 * KIB, GIB, 4)
    plateaus = find_plateaus(sizes, xeon(sizes))
    assert [n for n, _ in name_plateaus(plateaus, {})] == ["level 1", "level 2", "level 3", "level 4"]


def test_a_long_curve_is_divided_like_a_short_one():
    """5,000 different values, which are more than MOST_LEVELS."""
    sizes = range(KIB, 5001 * KIB, KIB)
    values = curve(sizes, [(1500 * KIB, 1.1), (3000 * KIB, 3.5)], lambda s: 110, noise=0.05)
    found = find_plateaus(sizes, values)
    assert [p.value for p in found] == pytest.approx([1.1, 2.3, 3.5, 56.75, 110], rel=0.02)
    assert [p.low for p in found][:2] == [KIB, 1501 * KIB]


def test_an_uncached_gpu_curve_has_no_l1():
    sizes = octaves(KIB, GIB, 4)
    values = [200.0 if s <= 50 * MIB else 500.0 for s in sizes]
    assert [n for n, _ in name_plateaus(find_plateaus(sizes, values), H200)] == ["L2", "memory"]
