"""Invalid declarations of an application are reported in one sentence when its module is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.harness.running import opencl

from firsttouch.apps import all_apps
from firsttouch.base import modules
from firsttouch.base.errors import UsageError
from firsttouch.harness.app import GENERATE, App, buffer, f32, shared_kernels
from firsttouch.program.declarations import Declaration
from firsttouch.program.execution.agents import Cpu, Gpu
from firsttouch.program.execution.arrays import Array
from firsttouch.program.execution.workspace import Workspace
from firsttouch.program.strategies import STRATEGIES

SIZES = {"tiny": {"n": 4}, "default": {"n": 8}}
VALID = {"name": "sample", "source": "ours", "pattern": "none", "sizes": SIZES}


def application(**declared: Any) -> type[App]:
    return type("Sample", (App,), {**VALID, **declared})


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"sizes": {"tiny": {"n": 4}}}, "sizes .* tiny and default"),
        ({"sizes": {**SIZES, "large": {"n": 9}}}, "sizes .* tiny and default"),
        ({"sizes": {**SIZES, "bytes": {"m": 9}}}, "there is no parameter m"),
        ({"grows": "rows"}, "there is no parameter rows"),
        ({"grows": None}, "grows is None, not"),
        ({"pattern": 5}, "pattern is 5, not a text"),
        ({"sizes": "tiny"}, "sizes is 'tiny', not"),
        ({"sizes": {"tiny": {"n": "4"}, "default": {"n": 8}}}, "sizes: tiny: n is '4', not"),
        ({"sizes": {"tiny": {"n": 4}, "default": {"n": 8.0}}}, "sizes: default: n is 8.0, not"),
        ({"options": ("a",)}, r"options is \('a',\), not a mapping"),
        ({"tiled": "x"}, "tiled is 'x', not"),
        (
            {"a": buffer(f32, "2**n", 2**60, role="input")},
            r".* size default .* 2\^63 bytes",
        ),
        ({"tiled": ("x",)}, "there is no buffer x"),
        ({"a": buffer(f32, "m + 1", role="input")}, ".* buffer a: name 'm' "),
        (
            {"a": buffer(f32, "n", role="input"), "b": buffer(f32, 9, role="input"), "tiled": ("a", "b")},
            r"tiled buffers .* rows, not \{'a': 4, 'b': 9\}",
        ),
    ],
)
def test_invalid_application(declared: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"^application sample: {message}"):
        application(**declared)
    assert application().footprint({"n": 4}) == 0


@pytest.mark.parametrize("given", ["float32", "f4", np.float32, f32])
def test_a_type_is_taken_as_numpy_takes_it(given: Any) -> None:
    app = application(a=buffer(given, "n", role="input"))
    assert app.buffers()[0].dtype == f32
    assert app.footprint({"n": 4}) == 16


@pytest.mark.parametrize("given", ["flaot32", "", "U8", "O", ">f4", "m8[s]", "f4,f4", None, 5, str, "i" * 900])
def test_what_is_no_type_of_numbers_is_one_sentence(given: Any) -> None:
    with pytest.raises(ValueError, match="a buffer's items; give f32, u64") as raised:
        buffer(given, "n", role="input")
    assert len(str(raised.value)) < 200


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("shape", "why"),
    [
        ("n**n**n**n", "a power in it"),
        ("2 ** (10 ** 12)", "a power in it"),
        ("9.0 ** n ** 9", "a power in it"),
        ("1 << 10 ** 12", "a shifted number"),
        ("(0,) * 10 ** 12", "a factor in it"),
        ("'n' * n", "a factor in it"),
        ("1e200 * 1e200", "infinity"),
        ("-n", "it is -4, not"),
        ("n +", "invalid syntax"),
        ("n // 0", "by zero"),
        ("n.name", "no attribute 'name'"),
        (None, "int"),
    ],
)
def test_a_shape_without_a_value_is_one_sentence(shape: Any, why: str) -> None:
    with pytest.raises(ValueError, match=f"^application sample: .* buffer a: .*{why}"):
        application(a=buffer(f32, shape, role="input"))


@pytest.mark.parametrize(
    ("shape", "items"),
    [
        ("2**(n + 5).bit_length()", 16),
        (" n * 3 // 2", 6),
        ("1 << n", 16),
        ("n / 2", 2),
        ("n if n > 3 else 9", 4),
        (7, 7),
    ],
)
def test_shapes_are_evaluated_as_python_code(shape: str, items: int) -> None:
    assert application(a=buffer(f32, shape, role="input")).declarations({"n": 4})[0].shape == (items,)


def test_parameters_for_which_a_shape_has_no_value_are_a_problem() -> None:
    app = application(a=buffer(f32, "2**n", role="input"))
    assert app.problem({"n": 40}) == ""
    problem = app.problem({"n": 4000})
    assert problem.startswith("sample: ")
    assert "buffer a: a power" in problem


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"role": "inputs"}, "'inputs' .* input, output"),
        ({"role": "input", "starts_on": "host"}, "sides=both .* on host"),
        ({"role": "scratch", "starts_on": "cpu", "ends_on": "gpu"}, "sides=cpu .* on gpu"),
        ({"role": "output", "file": True}, "file=True .* input, not output"),
    ],
)
def test_invalid_buffer(declared: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        buffer(f32, "n", **declared)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "from firsttouch.apps.hotspot import Hotspot\nclass Mine(Hotspot):\n    name = 'lud'",
            "application lud already",
        ),
        ("from firsttouch.harness.app import App\nclass Mine(App):\n    name = 'mine'", "mine: source is missing"),
    ],
)
def test_invalid_module(text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "module.py").write_text(text)
    monkeypatch.setenv(modules.VARIABLE, str(tmp_path / "module.py"))
    with pytest.raises(UsageError, match=message):
        all_apps()


def test_invalid_launch() -> None:
    workspace = Workspace(STRATEGIES["explicit"], *opencl())
    file = shared_kernels(GENERATE)
    cpu, gpu = Cpu(workspace, [file]), Gpu(workspace, [file])
    array = Array(Declaration("x", np.dtype(np.int16), (8,), "inout", "both"), 1)
    workspace.allocate([array])
    for agent in (cpu, gpu):
        for value, kind in ((-1, "uint"), (2.5, "uint"), (2**33, "uint")):
            with pytest.raises(ValueError, match=f"^{value} .* of type {kind}"):
                agent.launch("fill_32", array, 0, 4, value, over=4, writes=[array])
        with pytest.raises(ValueError, match="fill_32 takes 4 arguments, not 1"):
            agent.launch("fill_32", array, over=4)
        with pytest.raises(ValueError, match=r"fill_32: .* number, not buffer x"):
            agent.launch("fill_32", array, array, 4, 0, over=4)
        with pytest.raises(ValueError, match=r"x: uniform\(\) .* f32 or f64, not int16"):
            agent.uniform(array, 0, 1)
        with pytest.raises(ValueError, match=r"x: integers\(\) .* i32 or u32, not int16"):
            agent.integers(array, 0, 1)
        with pytest.raises(ValueError, match=r"x: fill\(\) .* 1, 4 or 8 bytes, not 2"):
            agent.fill(array, 0)
    with pytest.raises(ValueError, match="fill_32: pass over"):
        gpu.launch("fill_32", array, 0, 4, 0, writes=[array])
    workspace.free()
