"""Entry point: registers the commands, and turns every wrong call into one sentence and exit status 2."""

from __future__ import annotations

import copy
import gc
import os
import signal
import sys
from collections.abc import Sequence
from functools import cache
from types import FrameType
from typing import Any

import typer
from typer.core import TyperGroup

from firsttouch import __version__
from firsttouch.base.errors import Failure, Terminated, UsageError
from firsttouch.cli import (
    advise,
    claims,
    compare,
    completion,
    examples,
    fit,
    interfaces,
    machine,
    mark,
    methods,
    platforms,
    port,
    profile,
    published,
    report,
    reproduce,
    run,
    schema,
    tried,
    validate,
)
from firsttouch.cli import app as app_command
from firsttouch.cli.declaration import Command
from firsttouch.cli.output import guard_streams, lost_output, print_error, print_failure, print_stdout

WRONG_CALL = 2
_CallError: Any = typer.BadParameter.__mro__[2]
"""The base class of the parser's errors. It is found through typer, because typer may bundle its parser."""


class _Interrupted(BaseException):
    """Replaces KeyboardInterrupt inside the parser, which would turn it into exit status 130 without a message."""


class _Commands(TyperGroup):
    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            raise _Interrupted from error

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            from firsttouch.base.errors import unknown

            raise unknown("command", args[0], self.commands)
        return super().resolve_command(ctx, args)


app = typer.Typer(
    name="firsttouch",
    cls=_Commands,
    help="Measure, explain and predict CPU-GPU memory management.",
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
COMMANDS: Sequence[Command] = [
    machine.command,
    methods.command,
    run.command,
    app_command.command,
    profile.command,
    port.command,
    tried.command,
    mark.command,
    report.command,
    compare.command,
    advise.command,
    fit.command,
    interfaces.command,
    platforms.command,
    published.command,
    reproduce.command,
    claims.command,
    validate.command,
    examples.command,
    completion.command,
    schema.command,
]
"""In the order in which --help lists them."""
for _command in COMMANDS:
    app.command(_command.name, short_help=_command.about, cls=_command.kind, context_settings=_command.settings)(
        _command.callback
    )


_NAMES = {command.name for command in app.registered_commands}


def _print_version(requested: bool) -> None:
    if requested:
        print_stdout(f"firsttouch {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Print the version."),
) -> None:
    if context.invoked_subcommand is None:
        print_stdout(context.get_help())
        raise typer.Exit(WRONG_CALL)


def main() -> None:
    """The program: a call with streams and signals of a process of its own."""
    guard_streams()
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _terminate)
    if os.environ.pop(completion.VARIABLE, ""):
        completion.show(parser(), sys.argv[1:])
        status = 0
    else:
        status = call(sys.argv[1:])
    if reason := lost_output():
        print_error(f"stdout can't be written: {reason}")
        status = status or 1
    if "firsttouch.base.modules" in sys.modules and sys.modules["firsttouch.base.modules"].thread_location():
        sys.stderr.flush()
        os._exit(status)  # at its end, Python would wait for the module's thread
    gc.freeze()  # the process ends, so that what is loaded need not be searched for garbage
    sys.exit(status)


def _terminate(number: int, frame: FrameType | None) -> None:
    raise Terminated(number)


@cache
def parser(command: str = "") -> Any:
    """The parser of calls of one command, which takes far less time to make than that of all: of any other calls."""
    single = copy.copy(app)
    single.registered_commands = [c for c in app.registered_commands if c.name == command] or app.registered_commands
    return typer.main.get_command(single)


def call(arguments: Sequence[str]) -> int:
    """Carries out a call and returns its exit status. Errors are one sentence each, except bugs of this program."""
    own_arguments = arguments[: arguments.index("--")] if "--" in arguments else arguments
    command = own_arguments[0] if own_arguments and own_arguments[0] in _NAMES else ""

    def failed(text: str, status: int = WRONG_CALL) -> int:
        print_failure(text, status, "--json" in own_arguments, command)
        return status

    try:
        return parser(*arguments[:1])(list(arguments), prog_name="firsttouch", standalone_mode=False) or 0
    except UsageError as error:
        return failed(str(error))
    except Failure as error:
        return failed(str(error), 1)
    except _CallError as error:
        return failed(_sentence_of_error(error))
    except (_Interrupted, KeyboardInterrupt, typer.Abort) as error:
        ended = error if isinstance(error, Terminated) else error.__cause__ or error.__context__
        return failed("interrupted", ended.status if isinstance(ended, Terminated) else 130)
    except OSError as error:
        if error.strerror is None:
            raise
        return failed(_os_error_message(error))
    except (Exception, SystemExit) as error:
        from firsttouch.base.modules import error_location

        if not (location := error_location(error)):
            raise
        return failed(f"{type(error).__name__}: {' '.join(str(error).split())} ({location})")


def _os_error_message(error: OSError) -> str:
    try:
        os.getcwd()
    except OSError:
        return "the current directory was deleted; change to one that exists"
    return f"{f'{error.filename}: ' if error.filename else ''}{error.strerror}"


def _sentence_of_error(error: Any) -> str:
    """The message of an error of the parser, in the form of this program's messages."""
    text = error.format_message().rstrip(".")
    command = error.ctx.command_path if getattr(error, "ctx", None) is not None else "firsttouch"
    return " ".join(f"{text[:1].lower()}{text[1:]}; see {command} --help".split())


if __name__ == "__main__":
    main()
