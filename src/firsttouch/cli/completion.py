"""firsttouch completion: prints the script by which a shell completes the words of a call; and completes them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from firsttouch.base.errors import unknown
from firsttouch.cli.declaration import declare
from firsttouch.cli.output import print_stdout
from firsttouch.cli.shells import SCRIPTS

VARIABLE = "_FIRSTTOUCH_COMPLETE"
"""The environment variable with which the scripts call: the last word of the call is the one to complete."""
_FOLDER = Path(__file__).parent / "shells"
_LONGEST = 70
"""The characters of what is said about a candidate."""


@declare("completion", "Print the completion script of a shell.", {}, function=None, prints=True)
def command(
    shell: Annotated[str, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")],
) -> None:
    """Print a script with which a shell completes commands, options, experiments, devices and values.

    A wheel installs the scripts too, into share/ of its environment, where the shells of a system look for them. Else,
    in ~/.bashrc, eval "$(firsttouch completion bash)"; in ~/.zshrc, after compinit, eval "$(firsttouch completion
    zsh)"; firsttouch completion fish > ~/.config/fish/completions/firsttouch.fish.

    Example: firsttouch completion bash
    """
    if shell not in SCRIPTS:
        raise unknown("shell", shell, SCRIPTS)
    print_stdout((_FOLDER / SCRIPTS[shell]).read_text(encoding="utf-8").rstrip("\n"))


def show(parser: Any, words: Sequence[str]) -> None:
    """Prints the candidates for the last word, one a line, each with a tab and what it is."""
    for candidate, about in completed(parser, words).items():
        print_stdout(f"{candidate}\t{_shortened(about)}")


def _shortened(about: str) -> str:
    line = " ".join(about.split())
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST].rsplit(' ', 1)[0]} ..."


def completed(parser: Any, words: Sequence[str]) -> dict[str, str]:
    """The words that may stand instead of the last one, which begin as it does. None if the shell should offer files.

    parser: of all commands. words: those of a call after the name of the program.
    """
    *before, current = words or [""]
    names = [word for word in before if not word.startswith("-")]
    if not names:
        commands = {name: command.short_help or "" for name, command in parser.commands.items()}
        return _matching_candidates(current, _options(parser) if current.startswith("-") else commands)
    chosen = parser.commands.get(names[0])
    if chosen is None:
        return {}
    call = _Call(names[0], chosen)
    for word in before[before.index(names[0]) + 1 :]:
        call.take(word)
    return _matching_candidates(current, call.candidates(current))


def _matching_candidates(current: str, candidates: dict[str, str]) -> dict[str, str]:
    """Without names that a shell would not take as they are, which results and modules of others may have."""
    return {w: about for w, about in candidates.items() if w.startswith(current) and re.fullmatch(r"[\w.:=,+-]+", w)}


def _options(command: Any) -> dict[str, str]:
    shown = [p for p in command.params if p.param_type_name == "option" and not p.hidden]
    return {"--help": "Show the help.", **{name: p.help or "" for p in shown for name in p.opts if name[:2] == "--"}}


class _Call:
    """The words of a call of one command, taken one by one."""

    def __init__(self, name: str, command: Any) -> None:
        self.name = name
        self.command = command
        self.given: dict[str, list[str]] = {}
        self._options = {name: p for p in command.params if p.param_type_name == "option" for name in p.opts}
        self._arguments = [p for p in command.params if p.param_type_name == "argument"]
        self._awaited: Any = None
        """The option whose value comes next."""
        self._of_program = not command.context_settings.get("allow_interspersed_args", True)
        """Whether everything from the first argument on is of another program."""
        self._rest = False
        """Whether all further words are arguments."""

    def take(self, word: str) -> None:
        if self._awaited is not None:
            self._keep_value(self._awaited, word)
            self._awaited = None
        elif self._rest or not word.startswith("-"):
            self._keep_value(self._current_argument(), word)
            self._rest = self._rest or self._of_program
        elif word == "--":
            self._rest = True
        else:
            name, equals, value = word.partition("=")
            option = self._options.get(name)
            if equals:
                self._keep_value(option, value)
            elif option is not None and not option.is_flag and not (option.metavar or "").startswith("[="):
                self._awaited = option

    def _current_argument(self) -> Any:
        """The argument that a word would be now; the last one may be repeated."""
        taken = (argument for argument in self._arguments if argument.nargs != 1 or argument.name not in self.given)
        return next(taken, None)

    def _keep_value(self, parameter: Any, value: str) -> None:
        if parameter is not None:
            self.given.setdefault(parameter.name, []).append(value)

    def candidates(self, current: str) -> dict[str, str]:
        if self._awaited is not None:
            return self._candidate_values(self._awaited, current)
        if self._rest and self._of_program:
            return {}
        if current.startswith("-") and not self._rest:
            name, equals, value = current.partition("=")
            if not equals:
                return _options(self.command)
            values = self._candidate_values(self._options.get(name), value)
            return {f"{name}={candidate}": about for candidate, about in values.items()}
        return self._candidate_values(self._current_argument(), current)

    def _candidate_values(self, parameter: Any, text: str) -> dict[str, str]:
        from firsttouch.cli.candidates import VALUES

        if parameter is None:
            return {}
        source = VALUES.get(f"{self.name} {parameter.name}") or VALUES.get(parameter.name)
        candidates = dict(source(self.given, text)) if source else {}
        repeated = parameter.nargs != 1 or getattr(parameter, "multiple", False)
        taken = self.given.get(parameter.name, []) if repeated else []
        return {word: about for word, about in candidates.items() if word not in taken}
