"""User-defined experiments and applications: --module, entry points, and the errors for invalid modules."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.calls import UNDRAWN, call
from tests.matrix import matrix
from tests.texts import assert_states

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
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


@pytest.mark.slow
def test_a_module_imports_what_lies_beside_it(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "of_stride.py").write_text("NAME = 'strides-of-mine'\n")
    (tmp_path / "mine" / "types.py").write_text("raise SystemExit('of the user')\n")
    text = changed(STRIDE, 'name = "stride"', "name = NAME")
    text = changed(text, "\nfrom firsttouch.api", "\nfrom of_stride import NAME\nfrom firsttouch.api")
    (tmp_path / "mine" / "m.py").write_text(text)
    asked = ("--module", "mine/m.py", "--device", "cpu", "--set", "stride=64", "--out", "o")
    done = start(tmp_path, "run", "strides-of-mine", *asked)
    assert done.returncode == 0, done.stderr


def changed(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new)


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
        "mine.py:29: 5 can't be the name of an experiment; accepted: letters",
    ),
    ("app", SMOOTH, 'name = "smooth"', "name = 5", ": 5 can't be the name of an application; accepted: letters"),
    ("app", SMOOTH, 'name = "smooth"', 'name = "a\\x1b[31mb"', r": 'a\x1b[31mb' can't be the name of an application"),
    ("run", STRIDE, "def measure", "def measured", "mine.py:29: the experiment stride has no measure"),
    ("run", STRIDE, "    counted = ", "    counts = ", "the experiment stride has no counted"),
    ("app", SMOOTH, "def check", "def checks", "mine.py:8: the application smooth has no check"),
    ("app", SMOOTH, "    source = ", "    sources = ", "application smooth: source is missing (", "mine.py:8)"),
    ("run", STRIDE, "def factors", "def factors(self, device, preset): missing\n    def f", "'missing' is not defined"),
    ("run", STRIDE, "share = 0.2", "share = 'x'", "the experiment stride: planning.share is 'x', not a number above 0"),
    ("run", STRIDE, "figures = (", "figures = (5, ", "the experiment stride: figures is (5, "),
    ("run", STRIDE, "counted = ", "counted = 5 #", "mine.py:29: the experiment stride: counted is 5, not a text"),
    ("run", STRIDE, '"ns", "lower"', '"ns", "less"', "Metric(unit='ns', better='less', version=1) is not a metric"),
    (
        "run",
        STRIDE,
        'strides, "size")',
        'iter(int, 1), "size")',
        "factor stride has more than 10000 values (",
        "py:42)",
    ),
    ("run", STRIDE, 'strides, "size")', '[2**70], "size")', "is not a number, a printable text or None (", "py:42)"),
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
        "mine.py:29: the experiment stride cannot be created: TypeError: ",
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
    *lines, _ = (line.partition(":")[0] for line in done.stdout.splitlines() if line[0] != " ")
    assert lines == ["stride", "other"]


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


class Ran(NamedTuple):
    """What a call measured: the folder with its modules, what it printed, and the record of each experiment's or
    application's last point.
    """

    folder: Path
    done: subprocess.CompletedProcess[str]
    records: Mapping[str, Mapping[str, Any]]


def run_all(folder: Path, command: str, texts: Mapping[str, str], *asked: str, **more: bool) -> Ran:
    """Measures classes of an example, each changed and with a name of its own, by one call."""
    for name, text in texts.items():
        for written in ('name = "stride"', '"stride.slowest"', 'name = "smooth"'):
            text = text.replace(written, written.replace("stride", name).replace("smooth", name))
        (folder / f"{name}.py").write_text(text)
    modules = [word for name in texts for word in ("--module", f"{name}.py")]
    done = call(command, *texts, *modules, *asked, "--out", "o", cwd=folder, **more)
    assert "Traceback" not in done.stderr
    records = map(json.loads, (folder / "o" / "results.jsonl").read_text().splitlines())
    return Ran(folder, done, {r["factors"]["app"] if command == "app" else r["experiment"]: r for r in records})


INVALID = {
    "nothing": ("5", "measure() returned 5, not a Measurement"),
    "odd_verdict": ("Measurement([1.0], 'yes')", "verified is 'yes', not True, False or None"),
    "too_large": ("Measurement([1e300] * 3, True)", "the measurement can't be stored: "),
}
"""By name: what measure() returns, and why it is refused."""


def measuring(returned: str) -> str:
    return changed(STRIDE, "agent, device = ", f"return {returned}\n        agent, device = ")


def test_invalid_measurements_fail_their_points(tmp_path: Path) -> None:
    texts = {name: measuring(returned) for name, (returned, _) in INVALID.items()}
    ran = run_all(tmp_path, "run", texts, "--device", "cpu", "--set", "stride=64")
    assert ran.done.returncode == 1, ran.done.stderr
    assert ran.records.keys() == INVALID.keys()
    for name, record in ran.records.items():
        assert (record["status"], record["verified"]) == ("failed", None)
        assert INVALID[name][1] in record["reason"]


QUICK = measuring("Measurement([1.0], True)")
FINDINGS = "    def findings(self, records, device):\n"
UNDERIVED, UNDIVIDED = "Nothing could be derived from these points", "These points could not be divided into sections"
FAILING = {
    "exits": (f"{FINDINGS}        raise SystemExit(0)\n", f"{UNDERIVED} (SystemExit: 0 ("),
    "raises": (f"{FINDINGS}        raise ValueError('no\\nluck')\n", f"{UNDERIVED} (ValueError: no luck ("),
    "derives": (f"    def derive(self, records):\n        return 5\n\n{FINDINGS}", f"{UNDIVIDED} (TypeError)"),
    "divides": (
        f"    def sections(self, records, device):\n        raise ValueError('none')\n\n{FINDINGS}",
        f"{UNDIVIDED} (ValueError: none (",
    ),
}
"""By name: methods that replace the head of findings(), and the sentence about them."""


def test_the_example_in_the_docs_runs_and_failing_findings_and_sections_are_one_sentence_each(tmp_path: Path) -> None:
    assert "examples/stride.py" in (EXAMPLES.parent / "extending/experiment.md").read_text()
    texts = {"stride": STRIDE, **{name: changed(QUICK, FINDINGS, new) for name, (new, _) in FAILING.items()}}
    done = run_all(tmp_path, "run", texts, "--device", "cpu", "--set", "stride=64,4KiB", drawn=True).done
    assert done.returncode == 0, done.stderr
    assert "stride on cpu: 2 ok" in done.stderr
    for _, said in FAILING.values():
        assert " ".join(done.stdout.split()).count(said) == 1
    assert "was not drawn" not in done.stderr


@pytest.mark.exhaustive
def test_findings_that_end_the_process_of_the_report(tmp_path: Path) -> None:
    text = changed(QUICK, FINDINGS, f"{FINDINGS}        import os; os._exit(0)\n")
    more = {"drawn": True, "drawn_by_process": True}
    done = run_all(tmp_path, "run", {"ends": text}, "--device", "cpu", "--set", "stride=64", **more).done
    assert done.returncode == 0, done.stderr
    assert f"{UNDERIVED} (SystemExit: os._exit(0) (" in " ".join(done.stdout.split())
    assert_states(done.stderr, "report was not drawn", "process ended")


CHECK = "    def check(self, view: View) -> str:\n"
UNDECLARED = changed(SMOOTH, "then[i] = i == 0", "then[i] = missing == 0")
STEP = changed(changed(SMOOTH, "KERNEL smooth(", "KERNEL step("), 'gpu.launch("smooth"', 'gpu.launch("step"')


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Applications that go wrong while they are measured."""
    folder = tmp_path_factory.mktemp("faulty")
    begin, rest = UNDECLARED.split('    kernel_text = """\n')
    kernels, rest = rest.split('"""\n', 1)
    (folder / "apart.c").write_text("\n" + kernels)
    texts = {
        "mistyped": changed(SMOOTH, "gpu.swap(self.now, self.then)", "gpu.swap(self.now, self.than)"),
        **{f"gives_{value}": changed(SMOOTH, CHECK, f"{CHECK}        return {value}\n") for value in (None, 0, True)},
        "undeclared": UNDECLARED,
        "apart": begin + rest,
        "built_in": STEP,
    }
    if not os.environ.get("FIRSTTOUCH_EXHAUSTIVE"):
        texts = {name: text for name, text in texts.items() if name not in ("gives_0", "gives_True", "apart")}
    asked = ("--strategy", "svm-fine", "--size", "tiny", "--repeat", "1", "--device", "opencl:0")
    ran = run_all(folder, "app", texts, *asked)
    assert ran.done.returncode == 1, ran.done.stderr
    assert {(r["status"], r["verified"]) for r in ran.records.values()} == {("failed", None)}
    return ran


@pytest.mark.slow
def test_an_error_while_measuring_names_its_line(faulty: Ran) -> None:
    file = faulty.folder / "mistyped.py"
    line = file.read_text().splitlines().index("            gpu.swap(self.now, self.than)") + 1
    assert f"has no attribute 'than' ({file}:{line})" in " ".join(faulty.done.stderr.split())


@pytest.mark.parametrize("value", matrix([None, 0, True]))
@pytest.mark.slow
def test_a_check_that_returns_no_text_is_an_error(value: object, faulty: Ran) -> None:
    said = f"check() of gives_{value} must return '' or an error message, not {value}"
    assert said in faulty.records[f"gives_{value}"]["reason"]
    assert said in " ".join(faulty.done.stderr.split())


@pytest.mark.parametrize("name", matrix(["undeclared.py", "apart.c"]))
def test_compiler_errors_have_the_line_of_the_module(name: str, faulty: Ran) -> None:
    file = faulty.folder / name
    line = next(n for n, one in enumerate(file.read_text().splitlines(), 1) if "missing == 0" in one)
    reason = faulty.records[file.stem]["reason"]
    assert f"{file}:{line}:" in reason
    assert "undeclared identifier" in reason


def test_a_kernel_with_the_name_of_a_built_in_function_of_opencl(faulty: Ran) -> None:
    assert "kernel step: 'step' is a built-in function of OpenCL C; use another name" in faulty.done.stderr
