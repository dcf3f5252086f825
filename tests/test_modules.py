"""User-defined experiments and applications: --module, entry points, and the errors for invalid modules."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from tests.calls import UNDRAWN, call
from tests.matrix import matrix

EXAMPLES = Path(__file__).parents[1] / "docs" / "examples"
STRIDE = (EXAMPLES / "stride.py").read_text()
SMOOTH = (EXAMPLES / "smooth.py").read_text()


def start(cwd: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*UNDRAWN, *words],
        cwd=cwd,
        env=os.environ | more,
        capture_output=True,
        text=True,
        timeout=100,
    )


def assert_one_sentence(done: subprocess.CompletedProcess[str], *expected: str) -> None:
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    for words in expected:
        assert words in done.stderr
    assert done.stderr.startswith("firsttouch: ")
    assert done.stderr.count("\n") == 1, done.stderr


def test_the_example_in_the_docs_is_the_file_that_runs(tmp_path: Path) -> None:
    assert STRIDE in (EXAMPLES.parent / "extending/experiment.md").read_text()
    asked = ("--device", "cpu", "--set", "stride=64,4KiB", "--out", "o")
    done = call("run", "stride", "--module", str(EXAMPLES / "stride.py"), *asked, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "stride on cpu: 2 ok" in done.stderr


@pytest.mark.exhaustive
def test_a_package_provides_experiments_by_an_entry_point(tmp_path: Path) -> None:
    about = tmp_path / "site" / "mine-1.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[firsttouch.experiments]\nstride = stride_of_mine\n")
    (tmp_path / "site" / "stride_of_mine.py").write_text(STRIDE)
    path = f"{tmp_path / 'site'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    asked = ("--device", "cpu", "--set", "stride=64", "--out", "o")
    done = start(tmp_path, "run", "stride", *asked, PYTHONPATH=path)
    assert done.returncode == 0, done.stderr
    (tmp_path / "site" / "stride_of_mine.py").write_text("raise SystemExit(0)")
    broken = start(tmp_path, "run", "stride", "--device", "cpu", PYTHONPATH=path)
    assert_one_sentence(broken, "entry point 'stride'", "stride_of_mine, does not load: SystemExit: 0")


def changed(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new)


RENAMED = changed(STRIDE, 'name = "stride"', 'name = "latency"')
NOT_LOADED = {
    "syntax": ("x = (", "does not load: SyntaxError: '(' was never closed (", "mine.py:1)"),
    "nothing": ("x = 1", "defines no {noun}: no subclass of "),
    "exits": ("import sys\nsys.exit(0)", "does not load: SystemExit: 0 (", "mine.py:2)"),
    "unknown name": ("\n\nprint(nothing)", "does not load: NameError: name 'nothing' is not defined (", "mine.py:3)"),
    "no import": ("import nothing_of_that_name", "does not load: ModuleNotFoundError"),
}


@pytest.mark.parametrize("command", ["run", "app"])
@pytest.mark.parametrize("case", matrix(NOT_LOADED, 2))
def test_a_module_that_does_not_load(command: str, case: str, tmp_path: Path) -> None:
    text, *said = NOT_LOADED[case]
    (tmp_path / "mine.py").write_text(text)
    noun = {"run": "experiment", "app": "application"}[command]
    done = call(command, "stride", "--module", "mine.py", "--out", "o", cwd=tmp_path)
    assert_one_sentence(done, *(words.format(noun=noun) for words in said))
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize("path", ["nothing.py", ".", "x" * 300 + ".py", "mine.txt"])
def test_a_module_that_is_not_a_python_file(path: str, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text(STRIDE)
    for command in ("run", "app"):
        done = call(command, "--list", "--module", path, cwd=tmp_path)
        assert_one_sentence(done, f"--module '{tmp_path / path}' is not a Python file")


WRONG = [
    ("run", STRIDE, 'name = "stride"', 'name = "latency"', "there is an experiment latency already, in "),
    ("app", SMOOTH, 'name = "smooth"', 'name = "hotspot"', "there is an application hotspot already, in "),
    (
        "run",
        STRIDE,
        'name = "stride"',
        "name = 5",
        "mine.py:28: 5 can't be the name of an experiment; accepted: letters",
    ),
    ("app", SMOOTH, 'name = "smooth"', "name = 5", ": 5 can't be the name of an application; accepted: letters"),
    ("app", SMOOTH, 'name = "smooth"', 'name = "a\\x1b[31mb"', r": 'a\x1b[31mb' can't be the name of an application"),
    ("run", STRIDE, "def measure", "def measured", "mine.py:28: the experiment stride has no measure"),
    ("run", STRIDE, "    counted = ", "    counts = ", "the experiment stride has no counted"),
    ("app", SMOOTH, "def check", "def checks", "mine.py:8: the application smooth has no check"),
    ("app", SMOOTH, "    source = ", "    sources = ", "application smooth: source is missing (", "mine.py:8)"),
    ("run", STRIDE, "def factors", "def factors(self, device, preset): missing\n    def f", "'missing' is not defined"),
    ("run", STRIDE, "share = 0.2", "share = 'x'", "the experiment stride: share is 'x', not a number above 0"),
    ("run", STRIDE, "figures = (", "figures = (5, ", "the experiment stride: figures is (5, "),
    ("run", STRIDE, "counted = ", "counted = 5 #", "mine.py:28: the experiment stride: counted is 5, not a text"),
    ("run", STRIDE, '"ns", "lower"', '"ns", "less"', "Metric(unit='ns', better='less', version=1) is not a metric"),
    (
        "run",
        STRIDE,
        'strides, "size")',
        'iter(int, 1), "size")',
        "factor stride has more than 10000 values (",
        "py:41)",
    ),
    ("run", STRIDE, 'strides, "size")', '[2**70], "size")', "is not a number, a printable text or None (", "py:41)"),
    (
        "run",
        STRIDE,
        'strides, "size")',
        'strides, "sizes")',
        "'sizes' is not one of size, count, ratio, fraction, extent, name, choice",
    ),
    (
        "run",
        STRIDE,
        'strides, "size")',
        '[], "size")',
        "nothing to measure: stride on ",
        ": there is no value of stride",
    ),
    ("run", STRIDE, "strides = [", "return 5\n        strides = [", "factors() gave 5, not a list of Factor"),
    ("run", STRIDE, "return unreachable(", "return 5, (", "skip() gave (5, ", ", not a sentence or None"),
    (
        "run",
        STRIDE,
        "strides = [",
        "import os; os._exit(0)\n        strides = [",
        "SystemExit: os._exit(0) (",
        ".py:40)",
    ),
    (
        "run",
        STRIDE,
        "    def factors",
        "    def __init__(self, size):\n        self.size = size\n\n    def factors",
        "mine.py:28: the experiment stride cannot be created: TypeError: ",
    ),
    ("app", SMOOTH, '"n", role="inout")', '"m", role="inout")', "cannot evaluate the shape of buffer then"),
]


@pytest.mark.parametrize(("command", "text", "old", "new", "said"), matrix([(*w[:4], w[4:]) for w in WRONG], 6))
def test_the_error_for_an_invalid_class(
    command: str, text: str, old: str, new: str, said: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(changed(text, old, new))
    name = "stride" if command == "run" else "smooth"
    done = call(command, name, "--module", "mine.py", "--out", "o", cwd=tmp_path)
    assert_one_sentence(done, *said)
    assert not (tmp_path / "o").exists()


def test_two_files_with_the_same_name_and_one_file_given_twice(tmp_path: Path) -> None:
    for folder, text in (("a", STRIDE), ("b", changed(STRIDE, 'name = "stride"', 'name = "other"'))):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.py").write_text(text)
    both = ("--module", "a/mine.py", "--module", "b/mine.py", "--module", "./a/mine.py")
    done = call("run", "stride", "other", *both, "--device", "cpu", "--list", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [line.partition(":")[0] for line in done.stdout.splitlines() if line[0] != " "] == ["stride", "other"]


def test_a_module_that_exits_while_planning(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        changed(STRIDE, "def skip(self, factors, device):", "def skip(self, *_):\n        raise SystemExit(0)")
    )
    done = call("run", "stride", "--module", "mine.py", "--device", "cpu", "--out", "o", cwd=tmp_path)
    assert_one_sentence(done, "SystemExit: 0 (", "mine.py:")
    assert not (tmp_path / "o").exists()


NOISY = "import sys\nprint('\\x1b[31mred')\nprint('\\x1b[32mgreen', file=sys.stderr)\n"


def test_output_of_a_module_is_escaped_on_stderr(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(NOISY + STRIDE)
    done = call("run", "stride", "--module", "mine.py", "--list", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [entry["name"] for entry in json.loads(done.stdout)["experiments"]] == ["stride"]
    assert done.stderr.splitlines() == ["\\u001b[31mred", "\\u001b[32mgreen"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    matrix(
        [
            ("agent, device = ", "return 5\n        agent, device = ", "measure() returned 5, not a Measurement"),
            (
                "return Measurement.of(",
                "return Measurement([1.0], 'yes')\n            return Measurement.of(",
                "verified is 'yes', not True, False or None",
            ),
            (
                "return Measurement.of(",
                "return Measurement([1e300] * 3, True)\n            return Measurement.of(",
                "the measurement can't be stored: ",
            ),
        ],
        1,
    ),
)
def test_an_invalid_measurement_fails_its_point(old: str, new: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(changed(STRIDE, old, new))
    asked = ("--device", "cpu", "--set", "stride=64", "--out", "o")
    done = call("run", "stride", "--module", "mine.py", *asked, cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    (record,) = map(json.loads, (tmp_path / "o" / "results.jsonl").read_text().splitlines())
    assert (record["status"], record["verified"]) == ("failed", None)
    assert said in record["reason"]
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("code", "said"),
    matrix(
        [
            ("raise SystemExit(0)", "(SystemExit: 0 ("),
            ("raise ValueError('no\\nluck')", "(ValueError: no luck ("),
            ("import os; os._exit(0)", "(SystemExit: os._exit(0) ("),
        ],
        1,
    ),
)
def test_failing_findings_of_a_module_are_reported_in_one_sentence(code: str, said: str, tmp_path: Path) -> None:
    head = "def findings(self, records, device):\n"
    (tmp_path / "mine.py").write_text(changed(STRIDE, head, f"{head}        {code}\n"))
    asked = ("--device", "cpu", "--set", "stride=64", "--out", "o")
    done = call("run", "stride", "--module", "mine.py", *asked, cwd=tmp_path, drawn=True)
    assert done.returncode == 0, done.stderr
    assert f"Nothing could be derived from these points {said}" in " ".join(done.stdout.split())
    not_drawn = "the report was not drawn: its process ended before it was written" in done.stderr
    assert not_drawn == ("_exit" in code)


@pytest.mark.parametrize(
    ("method", "said"),
    matrix(
        [
            ("def derive(self, records):\n        return 5", "(TypeError)"),
            ("def sections(self, records, device):\n        raise ValueError('no luck')", "(ValueError: no luck ("),
        ],
        1,
    ),
)
def test_failing_sections_of_a_module_are_reported_in_one_sentence(method: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(changed(STRIDE, "    def findings", f"    {method}\n\n    def findings"))
    done = call(
        "run", "stride", "--module", "mine.py", "--device", "cpu", "--set", "stride=64", "--out", "o", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert f"These points could not be divided into sections {said}" in " ".join(done.stdout.split())


def test_an_error_while_measuring_names_its_line(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(changed(SMOOTH, "gpu.swap(self.now, self.then)", "gpu.swap(self.now, self.than)"))
    asked = ("--strategy", "svm-fine", "--size", "tiny", "--repeat", "1", "--device", "opencl:0", "--out", "o")
    done = call("app", "smooth", "--module", "mine.py", *asked, cwd=tmp_path)
    assert done.returncode == 1
    line = (tmp_path / "mine.py").read_text().splitlines().index("            gpu.swap(self.now, self.than)") + 1
    assert f"has no attribute 'than' ({tmp_path / 'mine.py'}:{line})" in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


CHECK = "    def check(self, view: View) -> str:\n"


@pytest.mark.parametrize("value", matrix(["None", "0", "True"], 1))
def test_a_check_that_returns_no_text_is_an_error(value: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(changed(SMOOTH, CHECK, f"{CHECK}        return {value}\n"))
    asked = ("--strategy", "svm-fine", "--size", "tiny", "--repeat", "1", "--device", "opencl:0", "--out", "o")
    done = call("app", "smooth", "--module", "mine.py", *asked, cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert f"check() of smooth must return '' or an error message, not {value}" in " ".join(done.stderr.split())
    (record,) = map(json.loads, (tmp_path / "o" / "results.jsonl").read_text().splitlines())
    assert (record["status"], record["verified"]) == ("failed", None)


@pytest.mark.parametrize("separate_file", matrix([False, True], 1))
def test_compiler_errors_have_the_line_of_the_module(separate_file: bool, tmp_path: Path) -> None:
    text, file = changed(SMOOTH, "then[i] = i == 0", "then[i] = missing == 0"), tmp_path / "mine.py"
    if separate_file:
        text, kernels = text.partition('    kernel_text = """\n')[0::2]
        kernels, rest = kernels.split('"""\n', 1)
        text, file = text + rest, tmp_path / "mine.c"
        file.write_text("\n" + kernels)
    (tmp_path / "mine.py").write_text(text)
    line = next(n for n, one in enumerate(file.read_text().splitlines(), 1) if "missing == 0" in one)
    asked = ("--strategy", "svm-fine", "--size", "tiny", "--repeat", "1", "--device", "opencl:0", "--out", "o")
    done = call("app", "smooth", "--module", "mine.py", *asked, cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    (record,) = map(json.loads, (tmp_path / "o" / "results.jsonl").read_text().splitlines())
    assert f"{file}:{line}:" in record["reason"]
    assert "undeclared identifier" in record["reason"]
    assert "Traceback" not in done.stderr


def test_a_kernel_with_the_name_of_a_built_in_function_of_opencl(tmp_path: Path) -> None:
    text = changed(SMOOTH, "KERNEL smooth(", "KERNEL step(")
    (tmp_path / "mine.py").write_text(changed(text, 'gpu.launch("smooth"', 'gpu.launch("step"'))
    asked = ("--strategy", "svm-fine", "--size", "tiny", "--repeat", "1", "--device", "opencl:0", "--out", "o")
    done = call("app", "smooth", "--module", "mine.py", *asked, cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert "kernel step: 'step' is a built-in function of OpenCL C; use another name" in done.stderr
    assert "Traceback" not in done.stderr
