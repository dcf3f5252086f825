"""The kernels of every application compile for every target. Other tests run them on PoCL and the host."""

from __future__ import annotations

import re

import pytest
from tests.base.compilers import compile_amdgpu, compile_sm_90
from tests.matrix import matrix

from firsttouch import _core
from firsttouch.apps import all_apps
from firsttouch.harness.app import GENERATE, shared_kernels
from firsttouch.program.execution.agents import entries

FILES = {
    name: shared_kernels(name) for name in (GENERATE, *(n for app in all_apps().values() for n in app.more_kernels))
}
FILES |= {name: app(app.sizes["tiny"]).kernels for name, app in all_apps().items()}
CPU_ONLY = {"dwt2d_image", "bfs_count", "bfs_connect", "kronecker_deal", "kronecker_sort"}
"""Kernels that no GPU runs, so they may have arrays in local memory."""
DISTINCT = {(file.name, file.text, *file.defines): name for name, file in reversed(FILES.items())}
"""Variants of an application may have the same kernels."""
every_file = pytest.mark.parametrize("name", DISTINCT.values())


def unit(name: str, language: str) -> str:
    file = FILES[name]
    return _core.translation_unit(file.name, language, file.defines, file.text)


@pytest.mark.exhaustive
@every_file
def test_sm_90(name: str) -> None:
    cubin, ptx = compile_sm_90(unit(name, "cuda"), name)
    assert cubin[:4] == b"\x7fELF"
    assert set(re.findall(r"\.entry (\w+)\(", ptx)) == set(FILES[name].entries)
    spilled = {
        found[1] for found in re.finditer(r"\.entry (\w+)\((?:(?!^\}).)*?\.local\b", ptx, re.DOTALL | re.MULTILINE)
    }
    assert spilled <= CPU_ONLY, "arrays in local memory"


@pytest.mark.parametrize("target", matrix(["gfx90a", "gfx942"], 1))
@every_file
def test_amdgpu(name: str, target: str) -> None:
    assembly = compile_amdgpu(unit(name, "hip"), target)
    assert set(re.findall(r"^\s*\.amdhsa_kernel (\w+)", assembly, re.MULTILINE)) == set(FILES[name].entries)


@every_file
def test_core_contains_the_kernels_without_groups(name: str) -> None:
    file = FILES[name]
    for entry in file.entries.values():
        assert _core.has_host_kernel(f"{file.name}/{entry.name}") != entry.groups


def test_a_kernel_with_more_parameters_than_a_gpu_takes_is_refused() -> None:
    def with_parameters(count: int) -> str:
        return f"KERNEL many({', '.join(f'uint p{i}' for i in range(count))}) {{}}"

    assert len(entries(with_parameters(24))["many"].codes) == 24
    with pytest.raises(ValueError, match=r"many has 25 parameters; .* 24$"):
        entries(with_parameters(25))
