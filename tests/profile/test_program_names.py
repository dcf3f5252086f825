import pytest

from firsttouch.profile.program_names import process_name, program_command, program_name


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("./app 3", "./app 3"),
        ("python3 train.py --fast", "train.py --fast"),
        ("/opt/venv/bin/python3.12 -u -X dev -Wignore src/train.py -m 2", "src/train.py -m 2"),
        ("python -um pkg.train 3", "pkg.train 3"),
        ("python -mpkg.train", "pkg.train"),
        ("python -W error --check-hash-based-pycs always -- -odd.py", "-odd.py"),
        ("env python3 train.py", "train.py"),
        ("python3.13t train.py", "train.py"),
        ("python3 -c print()", "python3 -c print()"),
        ("python3 -", "python3 -"),
        ("python3", "python3"),
        ("python-train train.py", "python-train train.py"),
        ("", ""),
    ],
)
def test_a_program_is_its_script(command: str, words: str) -> None:
    assert " ".join(program_command(command.split())) == words


def test_names() -> None:
    assert program_name(["/usr/bin/python3", "/home/me/train.py"]) == "train.py"
    assert process_name("python3", ["python3", "train.py"]) == "train.py"
    assert process_name("pt_data_worker", ["python3", "train.py"]) == "pt_data_worker"
    assert process_name("python3", []) == "python3"
