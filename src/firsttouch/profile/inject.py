"""The library that drivers load into the target, and the environment that makes them do so."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from firsttouch.machine.libraries import candidates
from firsttouch.profile.events.log import VARIABLE as EVENTS
from firsttouch.profile.schema import LayerState

LIBRARY, HIP_LIBRARY = "libfirsttouch_inject.so", "libfirsttouch_hip.so"
NVTX_VARIABLE, CUDA_VARIABLE = "NVTX_INJECTION64_PATH", "CUDA_INJECTION64_PATH"
OPENCL_VARIABLE, OPENMP_VARIABLE = "OPENCL_LAYERS", "OMP_TOOL_LIBRARIES"
PRELOAD_VARIABLE, SANITIZER_OPTIONS = "LD_PRELOAD", "ASAN_OPTIONS"
FOLDER_VARIABLE, TRACE_VARIABLE, CUPTI_VARIABLE = "FIRSTTOUCH_PROFILE", "FIRSTTOUCH_TRACE", "FIRSTTOUCH_PROFILE_CUPTI"
CHECK_VARIABLE = "FIRSTTOUCH_CHECK_COPIES"
HOST_VARIABLE, HOST_PERCENT = "FIRSTTOUCH_HOST", 2
"""The variable that asks for the watch of host buffers, and how many percent of the run it may take."""
SHADOW_VARIABLE = "FIRSTTOUCH_SHADOW"

PATCH_VARIABLE, SANITIZER_VARIABLE = "FIRSTTOUCH_EXACT", "FIRSTTOUCH_PROFILE_SANITIZER"


def injected_library() -> Path:
    """Where the library is that drivers load into the target."""
    return Path(__file__).resolve().parents[1] / LIBRARY


def inject_environment(
    directory: Path,
    *,
    nvtx: bool,
    trace: bool,
    host: bool = False,
    shadow: bool = False,
    check_copies: bool = False,
    patch: Path | None = None,
    current: Mapping[str, str],
) -> tuple[dict[str, str], list[LayerState]]:
    """The variables to add to those of the target (`current`), and what then is seen of it.

    A variable that the user has set is never changed. directory: where journals are written; it must exist. host: with
    the trace, what the CPU does with buffers that are copied is recorded; shadow: by their bytes, and beside those of
    the device. check_copies: all bytes of copies are
    compared. patch: a file that is put into kernels and tells what they use, in place of the trace.
    """
    library = injected_library()
    states = []
    added: dict[str, str] = {}
    if nvtx:
        states.append(_state("phases", library, NVTX_VARIABLE, current, "NVTX ranges of the target"))
        if states[-1].active:
            added[NVTX_VARIABLE] = str(library)
    if trace:
        states.append(_state("trace", library, CUDA_VARIABLE, current, "CUDA calls of the target"))
        if states[-1].active and current.get(EVENTS) == "1":
            reason = f"{EVENTS}=1 is set, with which programs of firsttouch record events themselves"
            states[-1] = LayerState(layer="trace", active=False, why=reason, mend=f"unset {EVENTS}")
        if states[-1].active:
            added |= {
                CUDA_VARIABLE: str(library),
                TRACE_VARIABLE: "1",
                CUPTI_VARIABLE: ":".join(candidates("cupti")),
                **{
                    variable: ":".join(filter(None, (current.get(variable, ""), str(library))))
                    for variable in (OPENCL_VARIABLE, OPENMP_VARIABLE)
                },
            }
            added |= preload(library.with_name(HIP_LIBRARY), current)
            if check_copies:
                added[CHECK_VARIABLE] = "1"
            if host:
                states.append(_host_state())
                if states[-1].active:
                    added |= {SHADOW_VARIABLE: "1"} if shadow else {HOST_VARIABLE: str(HOST_PERCENT)}
    if patch is not None:
        states.append(_state("trace", library, CUDA_VARIABLE, current, "what kernels use"))
        if states[-1].active:
            added |= {
                CUDA_VARIABLE: str(library),
                PATCH_VARIABLE: str(patch),
                SANITIZER_VARIABLE: ":".join(candidates("sanitizer")),
            }
    if added:
        added[FOLDER_VARIABLE] = os.path.abspath(directory)
    return added, states


def preload(library: Path, current: Mapping[str, str]) -> dict[str, str]:
    """What loads a library into each process before others. The address sanitizer of gcc would refuse to start a
    program before whose library another one is loaded. The loader would split a path with such characters.
    """
    if not library.is_file() or any(character in str(library) for character in " :"):
        return {}
    lists = {PRELOAD_VARIABLE: (str(library), current.get(PRELOAD_VARIABLE, ""))}
    lists[SANITIZER_OPTIONS] = (current.get(SANITIZER_OPTIONS, ""), "verify_asan_link_order=0")
    return {name: ":".join(filter(None, parts)) for name, parts in lists.items()}


def _host_state() -> LayerState:
    """Whether this kernel tells which pages are written. It is tried on memory of this process."""
    from firsttouch import _core

    if reason := _core.why_no_page_tracking():
        mend = "docker run --security-opt seccomp=unconfined ..." if "refused" in reason else ""
        return LayerState(
            layer="host", active=False, why=f"what the CPU does with host data is not seen: {reason}", mend=mend
        )
    return LayerState(layer="host", active=True)


def _state(
    layer: Literal["phases", "trace"], library: Path, variable: str, current: Mapping[str, str], subject: str
) -> LayerState:
    if variable in current:
        reason = f"{subject} are not seen: {variable} is set already, so another tool is loaded"
        return LayerState(layer=layer, active=False, why=reason, mend=f"unset {variable}")
    if not library.is_file():
        reason = f"{subject} are not seen: this installation has no {LIBRARY}"
        return LayerState(layer=layer, active=False, why=reason, mend="pip install --force-reinstall firsttouch")
    return LayerState(layer=layer, active=True)
