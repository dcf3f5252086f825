"""Shells complete calls: experiments, applications, devices and values, without loading an experiment or a device."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import pytest
from tests.calls import call

from firsttouch.apps import all_apps
from firsttouch.apps.port_programs import port_programs
from firsttouch.cli import candidates, completion, main
from firsttouch.engine.choices import BUDGETS
from firsttouch.experiments import all_experiments
from firsttouch.machine import backends
from firsttouch.machine.allocators.semantics import SEMANTICS
from firsttouch.machine.tree import Tree
from firsttouch.program.strategies import STRATEGIES

ROOT = Path(__file__).parents[2]
SHELLS = Path(completion.__file__).parent / "shells"


def completed(line: str) -> list[str]:
    """The candidates for the last word of a line, which begins after the name of the program."""
    return [*completion.completed(main.parser(), line.split(" "))]


def test_every_name_of_the_package_is_a_candidate():
    commands = [command.name for command in main.app.registered_commands]
    assert completed("") == commands
    assert completed("run ") == sorted([*all_experiments(), *port_programs()])
    assert completed("app ") == sorted(all_apps())
    assert completed("run --preset ") == list(BUDGETS)
    assert completed("app --strategy ") == list(STRATEGIES)
    assert completed("run --set allocator=") == [f"allocator={name}" for name in SEMANTICS]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("re", ["report", "reproduce"]),
        ("reproduce mi300a-u", ["mi300a-upm"]),
        ("reproduce mi300a-upm 1", ["1", "10", "11"]),
        ("run laten", ["latency"]),
        ("run latency --device cpu lat", []),
        ("run --js", ["--json"]),
        ("run --preset=q", ["--preset=quick"]),
        ("run --wait latenc", ["latency"]),
        ("run --timeout 5 latenc", ["latency"]),
        ("run --resume latenc", ["latency"]),
        ("run latency --set a", ["agent=", "allocator="]),
        ("run latency --set agent=", ["agent=cpu", "agent=gpu"]),
        ("run latency --set agent=cpu,", ["agent=cpu,gpu"]),
        ("run -- latenc", ["latency"]),
        ("app --set events=", ["events=off", "events=on"]),
        ("app --set pages=base,", ["pages=base,policy", "pages=base,huge"]),
        ("app --set packing=", ["packing=gpu", "packing=cpu"]),
        (
            "app --set strategy=explicit+",
            ["strategy=explicit+pinned", "strategy=explicit+vmm", "strategy=explicit+fine-grained"],
        ),
        ("run p2p-copy --set source=pinned-w", ["source=pinned-wc"]),
        ("advise x --pattern al", ["alternate"]),
        ("advise --set k", ["kernels="]),
        ("platforms gh", ["gh200"]),
        ("app --device model:gh", ["model:gh200"]),
        ("app --what-if host.pag", ["host.page="]),
        ("run --what-if driver.counters=", ["driver.counters=on", "driver.counters=off"]),
        ("compare a published:gh", ["published:gh200"]),
        ("compare ", []),
        ("report x --format pn", ["png"]),
        ("report ", []),
        ("interfaces x --kind co", ["copy", "collective"]),
        ("completion z", ["zsh"]),
        ("profile --out x -- ./app --j", []),
        ("profile ./app --j", []),
        ("unknown --o", []),
        ("--ver", ["--version"]),
    ],
)
def test_the_last_word_is_completed(line, expected):
    assert completed(line) == expected


def test_no_experiment_and_no_device_is_loaded():
    code = (
        "import sys; from firsttouch.cli import completion, main;"
        "lines = ['run ', 'app ', 'run --device ', 'run --set allocator=', 'app --strategy ', 'run --preset '];"
        "assert all(completion.completed(main.parser(), line.split(' ')) for line in lines);"
        "rooms = ('firsttouch.experiments.', 'firsttouch.apps.'); contract = 'firsttouch.experiments.contract';"
        "loaded = [n for n in sys.modules if n.startswith(rooms) and not n.startswith(contract)];"
        "print(loaded, 'numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], text=True, capture_output=True).stdout == "[] False\n"


def test_names_of_own_modules_are_read_but_not_run(tmp_path):
    own = tmp_path / "own.py"
    own.write_text(
        'raise SystemExit\n\nclass A(Experiment):\n    name = "laterals"\nclass B(App):\n    name = "$(x)"\n'
    )
    assert completed(f"run --module {own} later") == ["laterals"]
    assert completed(f"run --module {own} $") == []
    assert "backprop" in completed(f"app --module {tmp_path}/none.py ")


def test_devices_are_those_of_the_results_that_are_named():
    assert completed(f"advise {ROOT}/results/h200-quick --device ") == ["cpu", "opencl:0", "cuda:0"]
    assert completed("advise nowhere --device c")[:1] == ["cpu"]


@pytest.mark.parametrize(
    ("files", "environment", "expected"),
    [
        (["dev/null"], {}, ["cpu"]),
        (["dev/nvidia0", "dev/nvidia1", "dev/nvidiactl", "dev/nvidia-uvm"], {}, ["cpu", "cuda:0", "cuda:1"]),
        (["dev/nvidia0", "dev/nvidia1"], {"CUDA_VISIBLE_DEVICES": "1"}, ["cpu", "cuda:0"]),
        (["dev/nvidia0"], {"CUDA_VISIBLE_DEVICES": ""}, ["cpu"]),
        (["dev/nvidia0"], {"CUDA_VISIBLE_DEVICES": "0,1"}, ["cpu", "cuda:0"]),
        (["etc/OpenCL/vendors/amd.icd"], {}, ["cpu", "opencl:0"]),
        (["sys/class/kfd/kfd/topology/nodes/1/properties"], {}, ["cpu", "hip:0"]),
        (["sys/class/kfd/kfd/topology/nodes/1/properties"], {"HIP_VISIBLE_DEVICES": ""}, ["cpu"]),
    ],
)
def test_devices_are_those_that_the_system_lists(files, environment, expected, tmp_path):
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("simd_count 304\n")
    assert backends.listed_devices(Tree(tmp_path), environment) == expected


def test_each_source_belongs_to_a_parameter():
    commands = {c.name: main.parser(c.name).commands[c.name] for c in main.app.registered_commands}
    known = {p.name for command in commands.values() for p in command.params}
    known |= {f"{name} {p.name}" for name, command in commands.items() for p in command.params}
    assert candidates.VALUES.keys() <= known


def test_a_call_of_a_script_prints_each_candidate_with_what_it_is(monkeypatch, capsys):
    monkeypatch.setenv(completion.VARIABLE, "1")
    monkeypatch.setattr(sys, "argv", ["firsttouch", "run", "lat"])
    with pytest.raises(SystemExit) as ended, patch.object(main, "guard_streams"):
        main.main()
    question = all_experiments()["latency"].question
    assert (ended.value.code, capsys.readouterr().out) == (0, f"latency\t{question}\n")


@pytest.mark.parametrize("shell", completion.SCRIPTS)
def test_the_script_of_a_shell_is_printed_and_valid(shell):
    script = call("completion", shell)
    assert (script.returncode, script.stderr) == (0, "")
    assert script.stdout == (SHELLS / completion.SCRIPTS[shell]).read_text()
    assert completion.VARIABLE in script.stdout
    if shutil.which(shell):
        subprocess.run([shell, "-n", SHELLS / completion.SCRIPTS[shell]], check=True)


def test_another_shell_is_refused():
    assert "unknown shell 'csh' (did you mean 'zsh'?); accepted: bash, zsh, fish" in call("completion", "csh").stderr


@pytest.mark.parametrize(
    ("line", "expected"),
    [("run --device cuda:", "0 1"), ("run --set agent=cpu,", "cpu,gpu"), ("report x", "")],
)
def test_bash_replaces_what_follows_a_colon_or_an_equals_sign(line, expected, tmp_path):
    program = tmp_path / "firsttouch"
    answers = "*cuda:) printf 'cuda:0\\tA\\ncuda:1\\tB\\n';; *cpu,) printf 'agent=cpu,gpu\\tC\\n';;"
    program.write_text(f"#!/bin/sh\ncase $* in {answers} esac\n")
    program.chmod(0o755)
    words = f'. {SHELLS}/firsttouch; COMP_LINE="firsttouch {line}"; COMP_POINT=${{#COMP_LINE}}; _firsttouch {program}'
    done = subprocess.run(["bash", "-c", f'{words}; echo "${{COMPREPLY[*]}}"'], text=True, capture_output=True)
    assert (done.stdout, done.stderr) == (f"{expected}\n", "")
