"""Memory of every real device: it keeps what is written, and a check finds wrong data."""

from __future__ import annotations

import ctypes

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from open_devices import agents_of, allocators_of, brief, device_of, on_every_device, rows_of

from firsttouch import _core
from firsttouch.machine.devices import open_device

SIZES = [1, 7, 8, 4095, 4096, 2**20 + 3]
few_examples = settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))


@on_every_device
@pytest.mark.parametrize("size", SIZES)
def test_every_agent_reads_what_every_agent_wrote(name: str, size: int) -> None:
    device = device_of(name)
    for row in allocators_of(device):
        with device.allocate(row["name"], size) as buffer:
            assert (buffer.size, buffer.allocator) == (size, row["name"])
            for seed, writer in enumerate(agents_of(row), start=5):
                buffer.fill(seed, writer)
                for reader in agents_of(row):
                    assert buffer.check(seed, reader) == 0
                    assert buffer.check(seed + 9, reader) == -(-size // 8), "every word differs between seeds"


@on_every_device
@few_examples
@given(data=st.data())
def test_one_flipped_bit_is_one_wrong_word(name: str, data: st.DataObject) -> None:
    device = device_of(name)
    row = data.draw(st.sampled_from(allocators_of(device)))
    size = data.draw(st.integers(1, 3 * 4096))
    at, bit = data.draw(st.integers(0, size - 1)), data.draw(st.integers(0, 7))
    with device.allocate(row["name"], size) as buffer:
        buffer.fill(1, data.draw(st.sampled_from(agents_of(row))))
        right = buffer.read(at, 1)
        buffer.write(at, bytes([right[0] ^ 1 << bit]))
        for reader in agents_of(row):
            assert buffer.check(1, reader) == 1
        buffer.write(at, right)
        for reader in agents_of(row):
            assert buffer.check(1, reader) == 0


@on_every_device
@few_examples
@given(data=st.data())
def test_a_write_is_read_back_and_does_not_change_other_bytes(name: str, data: st.DataObject) -> None:
    device = device_of(name)
    row = data.draw(st.sampled_from(allocators_of(device)))
    size = data.draw(st.integers(1, 9000))
    expected = bytearray(index % 251 for index in range(size))
    with device.allocate(row["name"], size) as buffer:
        buffer.write(0, bytes(expected))
        for _ in range(3):
            offset = data.draw(st.integers(0, size - 1))
            piece = data.draw(st.binary(min_size=1, max_size=min(64, size - offset)))
            buffer.write(offset, piece)
            expected[offset : offset + len(piece)] = piece
        assert buffer.read(0, size) == bytes(expected)


@on_every_device
def test_reads_and_writes_outside_the_buffer_are_refused(name: str) -> None:
    with device_of(name).allocate("malloc", 100) as buffer:
        for offset, count in [(0, 101), (100, 1), (2**64 - 1, 2), (1, 2**64 - 1), (2**63, 2**63)]:
            with pytest.raises(IndexError):
                buffer.read(offset, count)
        for offset in (100, 2**64 - 1):
            with pytest.raises(IndexError):
                buffer.write(offset, b"xx")


@on_every_device
def test_use_of_a_freed_buffer_is_refused(name: str) -> None:
    device = device_of(name)
    buffer = device.allocate("malloc", 4096)
    buffer.free()
    buffer.free()
    for use in (lambda: buffer.fill(1, "cpu"), lambda: buffer.read(0, 1), lambda: buffer.size):
        with pytest.raises(RuntimeError, match="freed"):
            use()
    with device.allocate("malloc", 4096) as other:
        pass
    with pytest.raises(RuntimeError, match="freed"):
        _core.chase(device, other, agent="cpu", first_touch="cpu", stride=64, seed=1, stop=brief())


@on_every_device
def test_invalid_requests_are_refused_with_a_reason(name: str) -> None:
    device = device_of(name)
    for row in rows_of(device):
        with pytest.raises((ValueError, _core.Unavailable)):
            device.allocate(row["name"], 0)
        if not row["available"]:
            with pytest.raises(_core.Unavailable, match=row["name"]):
                device.allocate(row["name"], 4096)
    with pytest.raises(ValueError, match=r"'heap' .*allocator"):
        device.allocate("heap", 4096)
    of_another_kind = "svm-fine" if name.startswith(("cuda", "hip")) else "managed"
    with pytest.raises(_core.Unavailable, match=of_another_kind):
        device.allocate(of_another_kind, 4096)
    with pytest.raises(ValueError, match="'gigantic'"):
        device.allocate("malloc", 4096, "gigantic")
    with device.allocate("malloc", 4096) as buffer, pytest.raises(ValueError, match=r"'tpu' .*agent"):
        buffer.fill(1, "tpu")


@pytest.mark.parametrize("name", ["tpu:0", "", "cuda:x", "opencl:99", "opencl:-1", "cpu:1"])
def test_a_device_that_does_not_exist_is_unavailable(name: str) -> None:
    with pytest.raises(_core.Unavailable):
        open_device(name)


@on_every_device
def test_a_device_states_all_properties_of_its_allocators(name: str) -> None:
    device = device_of(name)
    assert next(iter(device.facts())) == "title"
    total, free = device.memory()
    assert 0 < free <= total
    for row in rows_of(device):
        assert row["available"] == (row["reason"] == "")
        assert row["cpu"] in ("none", "mapped", "direct")
        assert row["gpu"] in ("none", "mapped", "direct")


def test_huge_pages_that_are_denied_to_this_process_are_not_obtained() -> None:
    disable = 41  # PR_SET_THP_DISABLE of linux/prctl.h

    def huge_pages() -> tuple[bool, str]:
        (row,) = (row for row in _core.open("cpu").allocators() if row["name"] == "malloc-thp")
        return bool(row["available"]), str(row["reason"])

    usual = huge_pages()
    if not usual[0] or ctypes.CDLL(None).prctl(disable, 1, 0, 0, 0) != 0:
        pytest.skip(usual[1] or "prctl refuses PR_SET_THP_DISABLE")
    try:
        assert _core.huge_pages_denied()
        available, reason = huge_pages()
    finally:
        ctypes.CDLL(None).prctl(disable, 0, 0, 0, 0)
    assert not available
    assert "PR_SET_THP_DISABLE" in reason
    assert huge_pages() == usual
