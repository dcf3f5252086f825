"""The rules of NVIDIA's driver for managed memory, by the source that they follow (kernel-open/nvidia-uvm)."""

import pytest

from firsttouch.model.rules import uvm
from firsttouch.model.rules.uvm import Destination, Policy, copies, density_prefetch, filled, span

LEAVES = 512
BOTH = ("cpu", "gpu")


def in_order(leaves: int, big: int, *, grow: bool = True) -> list[int]:
    """The pages on which touches of a block in order fault."""
    there, faults = 0, []
    while missing := filled(leaves) & ~there:
        page = (missing & -missing).bit_length() - 1
        faults.append(page)
        fault = 1 << page
        there |= fault | density_prefetch(there, fault, leaves, big=big, grow=grow)
    return faults


@pytest.mark.parametrize(
    ("leaves", "big", "faults"),
    [
        (512, 16, [0, 16, 32, 64, 128, 256]),  # uvm_perf_prefetch.c of 580.95.05: half is not more than 51 %
        (13, 16, [0]),  # a block without a big page moves whole
        (100, 16, [0, 16, 32, 64]),  # what follows the last whole big page moves with it
        (32, 1, [0, 1, 2, 4, 8, 16]),  # pages of 64 KiB are big pages themselves
    ],
)
def test_touches_of_a_block_in_order_fault_where_half_of_a_part_is_there(leaves, big, faults):
    assert in_order(leaves, big) == faults


def test_without_big_pages_a_block_of_ats_takes_more_faults():
    # uvm_perf_prefetch_compute_ats fills no big pages
    assert len(in_order(512, 16, grow=False)) == 17


def test_the_threshold_is_per_cent_of_a_part_and_strict():
    assert density_prefetch(span(0, 16), 1 << 16, 32, big=1) | span(0, 17) == filled(32)  # 17 of 32 are 53 %
    assert density_prefetch(span(0, 15), 1 << 16, 32, big=1) & 1 << 31 == 0  # 16 of 32 are 50 %


def test_a_page_in_a_dense_block_takes_the_rest_along():
    assert density_prefetch(span(0, 300), 1 << 400, LEAVES) == filled(LEAVES) & ~(1 << 400)


@pytest.mark.parametrize(
    ("agent", "writes", "resident", "policy", "reaches", "wanted"),
    [  # uvm_va_block.c, block_select_processor_residency, in its order
        ("gpu", False, "cpu", Policy(read_mostly=True), BOTH, Destination("gpu", True)),
        ("gpu", True, "cpu", Policy(read_mostly=True), BOTH, Destination("gpu")),
        ("gpu", True, "cpu", Policy(preferred="gpu", accessed_by=("gpu",)), BOTH, Destination("gpu")),
        ("gpu", True, None, Policy(preferred="cpu"), BOTH, Destination("cpu")),
        ("cpu", True, None, Policy(preferred="gpu"), ("cpu",), Destination("cpu")),
        ("gpu", True, "cpu", Policy(accessed_by=("gpu",)), BOTH, Destination("cpu")),
        ("cpu", True, "gpu", Policy(accessed_by=("cpu",)), ("cpu",), Destination("cpu")),
        ("gpu", True, "cpu", Policy(preferred="cpu"), BOTH, Destination("cpu")),
        ("gpu", True, "cpu", Policy(), BOTH, Destination("gpu")),
        ("cpu", True, "gpu", Policy(preferred="gpu"), ("cpu",), Destination("cpu")),
    ],
)
def test_where_pages_go_that_an_agent_faults_on(agent, writes, resident, policy, reaches, wanted):
    assert uvm.residency(agent, writes=writes, resident=resident, policy=policy, reaches=reaches) == wanted


@pytest.mark.parametrize(
    ("destination", "preferred", "release", "takes"),
    [  # uvm_perf_prefetch.c of 580.142 and 590.44.01
        ("cpu", None, (590, 44, 1), True),
        ("cpu", "cpu", (590, 44, 1), True),
        ("cpu", "gpu", (590, 44, 1), False),
        ("cpu", "gpu", (580, 142), True),
    ],
)
def test_since_590_nothing_is_taken_along_out_of_the_preferred_location(destination, preferred, release, takes):
    assert uvm.takes_along(destination, Policy(preferred=preferred), release) is takes


def test_the_first_touch_at_the_preferred_location_brings_the_whole_block():
    preferred = Policy(preferred="gpu")
    assert uvm.fills_block("gpu", preferred, 0)
    assert not uvm.fills_block("gpu", preferred, 1)
    assert not uvm.fills_block("cpu", preferred, 0)


def test_what_faulted_and_what_was_taken_along_is_copied_apart():
    # uvm_va_block.c, block_copy_resident_pages_between: a page, and 15 around it
    assert copies(span(0, 16), 1 << 0) == 2
    assert copies(span(0, 16), 1 << 7) == 3
    assert copies(span(0, 16), span(0, 16)) == 1


@pytest.mark.parametrize(("mib", "counted"), [(1038, 1024), (358, 384), (2048, 2048), (1096, 1152), (1080, 1024)])
def test_the_vendors_library_counts_managed_memory_in_steps(mib, counted):
    # kmeans, nn and hotspot at 2 GiB in evidence/results/h200-apps-1 and -2
    assert uvm.counted(mib << 20) == counted << 20
