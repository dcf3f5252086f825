"""What an application declares wrongly is said in a sentence when its module is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.apps.running import opencl

from firsttouch.apps import VARIABLE, all_apps
from firsttouch.apps.base import App, buffer, f32
from firsttouch.apps.measure import GENERATE, shared_kernels
from firsttouch.errors import UsageError
from firsttouch.memory.agents import Cpu, Gpu
from firsttouch.memory.strategies import STRATEGIES
from firsttouch.memory.workspace import Array, Declaration, Workspace

SIZES = {"tiny": {"n": 4}, "default": {"n": 8}}
RIGHT = {"name": "sample", "source": "ours", "pattern": "none", "sizes": SIZES}


def application(**declared: Any) -> type[App]:
    return type("Sample", (App,), {**RIGHT, **declared})


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        ({"sizes": {"tiny": {"n": 4}}}, "sizes are those of tiny and of default"),
        ({"sizes": {**SIZES, "large": {"n": 9}}}, "sizes are those of tiny and of default"),
        ({"sizes": {**SIZES, "bytes": {"m": 9}}}, "there is no parameter m"),
        ({"grows": "rows"}, "there is no parameter rows"),
        ({"tiled": ("x",)}, "there is no buffer x"),
        ({"a": buffer(f32, "m + 1", role="input")}, "the shape of buffer a has no value: name 'm' is not defined"),
        (
            {"a": buffer(f32, "n", role="input"), "b": buffer(f32, 9, role="input"), "tiled": ("a", "b")},
            r"tiled buffers have as many rows each, not \{'a': 4, 'b': 9\}",
        ),
    ],
)
def test_an_application(declared: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=f"^application sample: {words}"):
        application(**declared)
    assert application().footprint({"n": 4}) == 0


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        ({"role": "inputs"}, "'inputs' is no role of a buffer; there are input, output"),
        ({"role": "input", "starts_on": "host"}, "a buffer of sides=both starts or ends on host"),
        ({"role": "scratch", "starts_on": "cpu", "ends_on": "gpu"}, "a buffer of sides=cpu starts or ends on gpu"),
        ({"role": "output", "file": True}, "a file is an input, not output"),
    ],
)
def test_a_buffer(declared: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        buffer(f32, "n", **declared)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = 1", "defines no application: no subclass of App that has a name"),
        (
            "from firsttouch.apps.hotspot import Hotspot\nclass Mine(Hotspot):\n    name = 'lud'",
            "there is an application lud already",
        ),
        ("from firsttouch.apps.base import App\nclass Mine(App):\n    name = 'mine'", "mine: source is not given"),
    ],
)
def test_a_module(text: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "module.py").write_text(text)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "module.py"))
    with pytest.raises(UsageError, match=words):
        all_apps()


def test_a_launch() -> None:
    workspace = Workspace(STRATEGIES["explicit"], *opencl())
    file = shared_kernels(GENERATE)
    cpu, gpu = Cpu(workspace, [file]), Gpu(workspace, [file])
    array = Array(Declaration("x", np.dtype(np.int16), (8,), "inout", "both"), 1)
    workspace.allocate([array])
    for agent in (cpu, gpu):
        for value, kind in ((-1, "uint"), (2.5, "uint"), (2**33, "uint")):
            with pytest.raises(ValueError, match=f"^{value} is no value of type {kind}"):
                agent.launch("fill_32", array, 0, 4, value, over=4, writes=[array])
        with pytest.raises(ValueError, match="kernel fill_32 takes 4 arguments, not 1"):
            agent.launch("fill_32", array, over=4)
        with pytest.raises(ValueError, match="kernel fill_32: buffer x where a number goes"):
            agent.launch("fill_32", array, array, 4, 0, over=4)
        with pytest.raises(ValueError, match="x: uniform numbers are f32 or f64, not int16"):
            agent.uniform(array, 0, 1)
        with pytest.raises(ValueError, match="x: random whole numbers are i32 or u32, not int16"):
            agent.integers(array, 0, 1)
        with pytest.raises(ValueError, match="x: elements of 2 bytes are not filled"):
            agent.fill(array, 0)
    with pytest.raises(ValueError, match="kernel fill_32: give what it goes over"):
        gpu.launch("fill_32", array, 0, 4, 0, writes=[array])
    workspace.free()
