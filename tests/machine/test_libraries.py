from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from firsttouch.machine import libraries
from firsttouch.machine.libraries import LIBRARIES, candidates, find_libraries, variable


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hide all installed wheels, toolkits and drivers; a test creates its own below tmp_path."""
    for name in (
        "CUDA_HOME",
        "CUDA_PATH",
        "ROCM_PATH",
        "OPENCL_VENDOR_PATH",
        "LD_LIBRARY_PATH",
        *map(variable, LIBRARIES),
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OCL_ICD_VENDORS", str(tmp_path / "vendors"))
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site-packages")])
    monkeypatch.setattr(libraries, "loader_cache", dict)


def library(path: Path) -> str:
    """Create a file with the ELF header of a library for this processor, and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(Path(sys.executable).read_bytes()[:20] + b"rest")
    return str(path)


def found(name: str) -> libraries.Library:
    return next(one for one in find_libraries() if one.name == name)


def test_the_order_is_system_toolkit_wheel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    toolkit = library(tmp_path / "cuda-12.8/lib64/libnvrtc.so.12")
    wheel = library(tmp_path / "site-packages/nvidia/cu13/lib/libnvrtc.so.13")
    library(tmp_path / "site-packages/nvidia/cu13/lib/libnvrtc.alt.so.13")
    library(tmp_path / "site-packages/nvidia/cu13/lib/libnvrtc-builtins.so.13.0")
    older = library(tmp_path / "site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda-12.8"))
    tried = candidates("nvrtc")
    assert tried[: len(LIBRARIES["nvrtc"].sonames)] == LIBRARIES["nvrtc"].sonames
    ours = [path for path in tried if str(tmp_path) in path]
    assert ours == [toolkit, wheel, older]


@pytest.mark.parametrize("name", ["cublas", "cusparse", "cufft"])
def test_cuda_math_comes_from_toolkit_or_wheel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str) -> None:
    soname, site = LIBRARIES[name].sonames[0], tmp_path / "site-packages"
    toolkit = library(tmp_path / f"cuda-13.0/lib64/{soname}")
    wheel = library(site / f"nvidia/cu13/lib/{soname}")
    older = library(site / f"nvidia/{name}/lib/{LIBRARIES[name].sonames[-2]}")
    monkeypatch.setenv("CUDA_PATH", str(tmp_path / "cuda-13.0"))
    assert [path for path in candidates(name) if str(tmp_path) in path] == [toolkit, wheel, older]
    major = soname.rpartition(".")[2]
    monkeypatch.setenv(variable(name), toolkit)
    assert found(name).version == major, "the library's version differs from the toolkit's"
    (site / f"nvidia_{name}-{major}.3.4.dist-info").mkdir()
    (site / f"nvidia_{name}-{major}.3.4.dist-info/METADATA").write_text(f"Name: nvidia-{name}\nVersion: {major}.3.4\n")
    monkeypatch.setenv(variable(name), wheel)
    assert found(name).version == f"{major}.3.4"


@pytest.mark.parametrize("name", ["hipblas", "hipsparse", "hipfft"])
def test_rocm_math_comes_from_rocm_or_its_wheel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str) -> None:
    soname = LIBRARIES[name].sonames[0]
    toolkit = library(tmp_path / f"rocm/lib/{soname}")
    wheel = library(tmp_path / f"site-packages/_rocm_sdk_libraries_gfx94X_dcgpu/lib/{soname}")
    monkeypatch.setenv("ROCM_PATH", str(tmp_path / "rocm"))
    assert [path for path in candidates(name) if str(tmp_path) in path] == [toolkit, wheel]


def test_an_override_is_the_only_candidate(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FIRSTTOUCH_LIB_NVRTC", str(tmp_path / "gone.so"))
    assert candidates("nvrtc") == [str(tmp_path / "gone.so")]
    assert (
        found("nvrtc").reason
        == f"FIRSTTOUCH_LIB_NVRTC names {tmp_path}/gone.so, which is not a library for this machine"
    )
    assert variable("opencl-icd") == "FIRSTTOUCH_LIB_OPENCL_ICD"


def test_newer_toolkits_come_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    paths = [library(tmp_path / f"rocm-{version}/lib/libamdhip64.so.6") for version in ("6.10.0", "6.9.1")]
    spec = libraries.LibrarySpec(["libamdhip64.so.6"], [f"{tmp_path}/rocm-*/lib"], versioned=True)
    monkeypatch.setattr(libraries, "LIBRARIES", {"hip": spec})
    assert candidates("hip")[1:] == paths
    monkeypatch.setenv("FIRSTTOUCH_LIB_HIP", paths[0])
    assert found("hip").version == "6.10.0"


def test_the_version_in_the_name_of_a_links_target(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    library(tmp_path / "lib/libcuda.so.580.95.05")
    (tmp_path / "lib/libcuda.so.1").symlink_to("libcuda.so.580.95.05")
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{tmp_path / 'lib'}:/nonexistent")
    cuda = found("cuda")
    assert (cuda.path, cuda.version, cuda.reason) == (str(tmp_path / "lib/libcuda.so.1"), "580.95.05", "")


def test_the_version_of_a_wheel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    site = tmp_path / "site-packages"
    path = library(site / "nvidia/cu13/lib/libcupti.so.13")
    for name, version in (("nvidia_cuda_cupti", "13.0.85"), ("nvidia_cuda_cupti_cu12", "12.8.90")):
        (site / f"{name}-{version}.dist-info").mkdir(parents=True)
        (site / f"{name}-{version}.dist-info/METADATA").write_text(f"Name: {name}\nVersion: {version}\n")
    monkeypatch.setenv("FIRSTTOUCH_LIB_CUPTI", path)
    assert found("cupti").version == "13.0.85"


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"GROUP ( libnccl.so.2 ) linker script", b"\x7fELF" + b"\0" * 60])
def test_files_that_are_not_libraries_for_this_processor_are_skipped(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "libnccl.so.2").write_bytes(content)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    assert str(tmp_path) not in found("nccl").path


def test_opencl_drivers(tmp_path: Path) -> None:
    vendors = tmp_path / "vendors"
    vendors.mkdir()
    first = library(tmp_path / "driver/liba.so")
    sibling = library(vendors / "libb.so")
    wheel = library(tmp_path / "site-packages/pyopencl/.libs/libpocl-21062cec.so")
    for name, line in {
        "a.icd": f"{first}\n",
        "b.icd": "libb.so",
        "c.icd": "libnowhere.so.1",
        "d.icd": "",
        "e.icd": wheel,
        "x.txt": "no",
    }.items():
        (vendors / name).write_text(line)
    (vendors / "f.icd").mkdir()
    assert candidates("opencl-icd") == [first, sibling, "libnowhere.so.1", wheel]
    assert candidates("pocl") == [wheel]
    assert [one.path for one in find_libraries() if one.name == "opencl-icd"] == [first, sibling, wheel]


@pytest.mark.timeout(20)
def test_a_fifo_in_place_of_a_file_is_passed_over(tmp_path: Path) -> None:
    driver = library(tmp_path / "opt/libdriver.so.1")
    (tmp_path / "vendors").mkdir()
    (tmp_path / "vendors/b.icd").write_text(driver)
    (tmp_path / "vendors/c.icd").write_text(str(tmp_path / "libpipe.so"))
    for name in ("vendors/a.icd", "libpipe.so"):
        os.mkfifo(tmp_path / name)
    assert candidates("opencl-icd") == [driver, str(tmp_path / "libpipe.so")]
    assert [one.path for one in find_libraries() if one.name == "opencl-icd"] == [driver]


def test_an_icd_file_instead_of_a_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "one.icd").write_text("libone.so\n")
    monkeypatch.setenv("OCL_ICD_VENDORS", str(tmp_path / "one.icd"))
    assert candidates("opencl-icd") == ["libone.so"]


def test_the_reason_for_a_missing_library_has_the_places_and_a_remedy(tmp_path: Path) -> None:
    missing = [one for one in find_libraries() if not one.path]
    assert {"hip", "mpi", "opencl-icd", "pocl"} <= {one.name for one in missing} | {"hip", "mpi"}
    assert all(one.reason.startswith("not found: looked in ") and "; " in one.reason for one in missing)


@pytest.mark.parametrize("name", ["pocl", "opencl-icd"])
def test_without_any_opencl_driver_the_reason_says_how_to_install_one(name: str) -> None:
    assert candidates(name) == []
    assert found(name).reason.endswith("pip install 'firsttouch[pocl]'")


def test_every_library_is_reported() -> None:
    assert {one.name for one in find_libraries()} == set(LIBRARIES)


def test_an_unknown_name_raises_key_error() -> None:
    with pytest.raises(KeyError):
        candidates("nothing")


def test_collecting_facts_opens_no_vendor_library() -> None:
    program = (
        "from firsttouch.machine.facts import collect_machine\n"
        "collect_machine([])\n"
        "maps = open('/proc/self/maps').read()\n"
        "assert not [n for n in ('libcuda', 'nvidia-ml', 'nvrtc', 'libpocl', 'OpenCL', 'amdhip') if n in maps]\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, env=None)
