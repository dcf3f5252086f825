"""Who called the C library's function that touched pages."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.profile.calls import call
from tests.profile.targets import build

from firsttouch.profile.callers import KNOWN, is_behind_a_call, is_of_the_c_library, plain_name
from firsttouch.profile.reading import read
from firsttouch.profile.summarise import summarise

PROGRAM = """
#include <stdlib.h>
#include <string.h>
__attribute__((noinline)) void clear_grid(char *at) {
    memset(at, 0, 64 << 20);
    __asm__ volatile("");
}
int main(void) {
    char *at = malloc(64 << 20);
    clear_grid(at);
    return at[77];
}
"""


@pytest.mark.skipif(not KNOWN, reason="the return address is in a register on this processor")
def test_memset_is_told_with_its_caller_and_the_line(tmp_path: Path) -> None:
    program = build(tmp_path, "clear", PROGRAM)
    call("--faults=8", "--out", str(tmp_path / "out"), "--", str(program))
    profile = read(tmp_path / "out")
    layer = next(state for state in profile.header.layers if state.layer == "faults")
    if not layer.active:
        pytest.skip(layer.why)
    touches = summarise(profile).touches
    assert touches is not None
    first = touches.rows[0]
    assert (first.function, first.through, os.path.basename(first.source), first.line) == (
        "clear_grid",
        "memset",
        "clear.c",
        5,
    )
    assert first.percent > 95


def test_libraries_and_names() -> None:
    of_c = [
        "/lib/x86_64-linux-gnu/libc.so.6",
        "/usr/lib64/libc-2.28.so",
        "/usr/lib/libstdc++.so.6.0.33",
        "/lib/ld-musl-x86_64.so.1",
    ]
    assert all(map(is_of_the_c_library, of_c))
    assert not any(map(is_of_the_c_library, ["/app", "/usr/lib/libcuda.so.1", "/usr/lib/libcrypt.so.1", "libc.so.6"]))
    assert plain_name("__memset_avx512_unaligned_erms") == "memset"
    assert plain_name("calloc") == "calloc"


def test_calls_in_machine_code() -> None:
    assert is_behind_a_call(bytes.fromhex("9090e800000000"))  # call rel32
    assert is_behind_a_call(bytes.fromhex("90ff1500000000"))  # call [rip + disp32]
    assert is_behind_a_call(bytes.fromhex("9090909090ffd0"))  # call rax
    assert not is_behind_a_call(bytes.fromhex("90909090909090"))
    assert not is_behind_a_call(b"\xe8")
