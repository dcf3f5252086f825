"""One declaration of a command: its words on the command line, its function in `import firsttouch`, and its schemas.

    @declare("claims", "Which published claims hold in your results.", {"claims": "comparison.papers.evaluate:Claims"})
    def claims(directories: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Results.")]) -> Claims:
        '''Show which claims hold: the text of --help, of the manual, and of the function's documentation.'''

    @claims.shown
    def show(found: Claims, everything: Annotated[bool, typer.Option("--all", help="Print all.")] = False) -> None:
        '''Prints the words. Its other parameters are options of the terminal alone.'''

What the declared function returns is what --json prints and what `firsttouch.claims(...)` returns, as an `Output` or as
an object whose method `output()` makes one. Parameters have typer's annotations. In Python they have the names of the
options, and values as people write them there: a path as text, one value for a list, a mapping for NAME=VALUE. A third
part of the annotation is the type there, in words, of what is text on the command line: "int | str".
"""

from __future__ import annotations

import inspect
import os
import types
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin

import typer
from typer.core import TyperCommand

from firsttouch.base.errors import UsageError
from firsttouch.cli.module_code import code_of_modules
from firsttouch.cli.options import AsJsonOption
from firsttouch.cli.output import print_json

F = TypeVar("F", bound=Callable[..., Any])
_PATHS = {"DIR", "DIR...", "FILE", "PATH", "SIDE"}
"""The words for values that may be paths."""


def declare(
    name: str,
    about: str,
    outputs: Mapping[str, str],
    *,
    function: str | None = "",
    indent: int | None = None,
    kind: type[TyperCommand] | None = None,
    settings: dict[str, Any] | None = None,
    prints: bool = False,
) -> Callable[[Callable[..., Any]], Command]:
    """Makes a Command of a function that finds what the command shows.

    Args:
        about: a line for the list of commands.
        outputs: the types of what --json prints, as module:Class, by the names of their schemas.
        function: its name in `import firsttouch`; by default that of the command; None: it has none there.
        indent: the spaces by which --json indents.
        kind, settings: of typer's command, where it reads words in a way of its own.
        prints: the function is the whole command, with typer's parameters: it prints and has no result.
    """

    python_name = name if function == "" else function

    def make(find: Callable[..., Any]) -> Command:
        command = DECLARED[name] = Command(name, about, outputs, find, python_name, indent, kind, settings)
        if prints:
            command.carried_out(find)
        return command

    return make


@dataclass(frozen=True)
class DeclaredParameter:
    """A parameter of a declared function. kind: the type of its value, or of each of several. info: typer's."""

    name: str
    kind: Any
    many: bool
    default: Any
    info: Any
    annotation: Any
    in_python: str
    """The type of its value in Python, in words; '' if it follows from `kind`."""

    @property
    def is_argument(self) -> bool:
        return isinstance(self.info, typer.models.ArgumentInfo)

    @property
    def python_name(self) -> str:
        """That of the option, such as fail_over for --fail-over, or of the argument."""
        options = [word for word in (self.info.default, *(self.info.param_decls or ())) if isinstance(word, str)]
        longest = max((word for word in options if word.startswith("--")), key=len, default="")
        return longest.strip("-").replace("-", "_") or self.name

    @property
    def takes_mapping(self) -> bool:
        return self.many and "=" in (self.info.metavar or "")

    @property
    def python_type(self) -> str:
        """Its annotation in Python, in words."""
        is_path = self.kind is Path or self.info.metavar in _PATHS
        one = "str | os.PathLike[str]" if is_path else self.kind.__name__
        if self.info.parser is not None and not is_path:
            one += " | str"
        if self.in_python:
            one = self.in_python
        if self.takes_mapping:
            return "Mapping[str, Any] | None"
        if self.many and not self.is_argument:
            one += f" | Iterable[{one}]"
        return one if self.default is not None or (self.many and self.is_argument) else f"{one} | None"

    def value_of(self, given: Any) -> Any:
        """The value that the declared function gets for one given in Python. Raises UsageError if it is none."""
        if given is None:
            return [] if self.default is inspect.Parameter.empty else self.default
        if not self.many:
            return self._parsed(given)
        if isinstance(given, Mapping):
            given = [f"{name}={','.join(_words(values))}" for name, values in given.items()]
        return [self._parsed(one) for one in ([given] if isinstance(given, (str, os.PathLike)) else given)]

    def _parsed(self, given: Any) -> Any:
        if self.kind is bool:
            return bool(given)
        text = os.fspath(given) if isinstance(given, os.PathLike) else str(given)
        try:
            return (self.info.parser or self.kind)(text)
        except ValueError:
            raise UsageError(f"{self.python_name} {given!r} is not a number") from None


def _words(values: Any) -> list[str]:
    """The values of NAME=V1,V2."""
    return [str(v) for v in values] if isinstance(values, Iterable) and not isinstance(values, str) else [str(values)]


def parameters_of(function: Callable[..., Any], skip: int = 0, known: Collection[str] = ()) -> list[DeclaredParameter]:
    """The parameters of a function with typer's annotations, without the first `skip` and those `known`."""
    scope = inspect.unwrap(function).__globals__
    parameters = [*inspect.signature(function).parameters.values()][skip:]
    return [_parameter(each, scope) for each in parameters if each.name not in known]


def _parameter(each: inspect.Parameter, scope: dict[str, Any]) -> DeclaredParameter:
    annotation = eval(each.annotation, scope) if isinstance(each.annotation, str) else each.annotation
    kind, info, *words = get_args(annotation)
    if get_origin(kind) in (Union, types.UnionType):
        (kind,) = [part for part in get_args(kind) if part is not type(None)]
    many = get_origin(kind) is list
    return DeclaredParameter(
        each.name, get_args(kind)[0] if many else kind, many, each.default, info, annotation, "".join(words)
    )


@dataclass
class Command:
    """A command, as `declare` has it."""

    name: str
    about: str
    outputs: Mapping[str, str]
    find: Callable[..., Any]
    python_name: str | None
    indent: int | None
    kind: type[TyperCommand] | None = None
    settings: dict[str, Any] | None = None
    _show: Callable[..., None] | None = None
    _callback: Callable[..., None] | None = None
    _in_terminal: Callable[..., int] | None = None
    _in_python: Callable[..., Any] | None = None
    _finish: Callable[[Any], int] = field(default=lambda found: 0)

    def shown(self, show: F) -> F:
        """The function that prints what was found. Of its further parameters, those that the declared function has too
        get the same value, and others are options of the terminal alone.
        """
        self._show = show
        return show

    def finished(self, finish: F) -> F:
        """The function that is called at last, with --json too, prints errors and returns the exit status."""
        self._finish = finish
        return finish

    def carried_out(self, callback: F) -> F:
        """The function that is the whole command on the command line, with typer's parameters."""
        self._callback = callback
        return callback

    def in_terminal(self, carry_out: F) -> F:
        """The function that carries out what the declared function returned, prints, and returns the exit status. It
        gets `as_json`, and further parameters as the function of `shown` does.
        """
        self._in_terminal = carry_out
        return carry_out

    def in_python(self, carry_out: F) -> F:
        """The function that carries out what the declared function returned, for `import firsttouch`. Its further
        parameters are some of the declared function's.
        """
        self._in_python = carry_out
        return carry_out

    @cached_property
    def parameters(self) -> list[DeclaredParameter]:
        return parameters_of(self.find)

    @property
    def callback(self) -> Callable[..., None]:
        """The function that typer makes the command of."""
        if self._callback is not None:
            return self._callback
        names, last = [p.name for p in self.parameters], self._in_terminal or self._show
        assert last is not None, f"nothing shows what {self.name} finds"
        shown = parameters_of(last, 1, {*names, "as_json"})
        for_last = [name for name in [*inspect.signature(last).parameters][1:] if name != "as_json"]

        def call(*, as_json: bool, **values: Any) -> None:
            with code_of_modules(values["module"] or ()) if "module" in values else nullcontext():
                found = self.find(**{name: values[name] for name in names})
            carry_out = self._in_terminal or self._print
            if status := carry_out(found, as_json=as_json, **{name: values[name] for name in for_last}):
                raise typer.Exit(status)

        parameters = [
            inspect.Parameter(p.name, inspect.Parameter.KEYWORD_ONLY, default=p.default, annotation=p.annotation)
            for p in [*self.parameters, *shown]
        ]
        as_json = inspect.Parameter("as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=AsJsonOption)
        call.__signature__ = inspect.Signature([*parameters, as_json])  # type: ignore[attr-defined]
        call.__doc__ = self.find.__doc__
        return call

    def _print(self, found: Any, as_json: bool, **options: Any) -> int:
        """Prints what was found, as JSON or as words. Returns the exit status."""
        if as_json:
            print_json(output_of(found), indent=self.indent)
        elif self._show is not None:
            self._show(found, **options)
        return self._finish(found)

    @cached_property
    def function(self) -> Callable[..., dict[str, Any]]:
        """The function of `import firsttouch`."""
        signature = self.signature

        def call(*arguments: Any, **options: Any) -> dict[str, Any]:
            given = signature.bind(*arguments, **options).arguments
            values = {p.name: p.value_of(given.get(p.python_name)) for p in self.parameters}
            found = self.find(**values)
            if self._in_python is not None:
                shared = [*inspect.signature(self._in_python).parameters][1:]
                found = self._in_python(found, **{name: values[name] for name in shared})
            return builtins_of(found)

        call.__name__ = call.__qualname__ = self.python_name or self.name
        call.__module__ = "firsttouch"
        call.__signature__ = signature  # type: ignore[attr-defined]
        call.__annotations__ = {p.name: p.annotation for p in signature.parameters.values()} | {
            "return": signature.return_annotation
        }
        call.__doc__ = self.documentation
        return call

    @property
    def signature(self) -> inspect.Signature:
        """That of the function of `import firsttouch`. A list of arguments is `*names`, after which all is named."""
        kind: Any = inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters = []
        for p in self.parameters:
            if p.many and p.is_argument:
                several, kind = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.KEYWORD_ONLY
                parameters.append(inspect.Parameter(p.python_name, several, annotation=p.python_type))
            else:
                parameters.append(inspect.Parameter(p.python_name, kind, default=p.default, annotation=p.python_type))
        return inspect.Signature(parameters, return_annotation="dict[str, Any]")

    @property
    def documentation(self) -> str:
        """The text of --help, and of each parameter."""
        paragraphs = inspect.cleandoc(self.find.__doc__ or "").split("\n\n")
        options = "\n".join(f"    {p.python_name}: {p.info.help}" for p in self.parameters)
        parts = [
            *(text for text in paragraphs if not text.startswith(("Example", "Exit status"))),
            f"Returns what `firsttouch {self.name} --json` prints.",
            *([f"Args:\n{options}"] if options else []),
            "Raises:\n    UsageError: the call was wrong.",
        ]
        return "\n\n".join(parts)


DECLARED: dict[str, Command] = {}
"""Commands by name: those whose modules are imported, which main.py imports all."""


def output_of(found: Any) -> Any:
    """What --json prints of what a declared function returned."""
    from firsttouch.base.outputs import Output

    return found if isinstance(found, (Output, dict)) else found.output()


def builtins_of(found: Any) -> dict[str, Any]:
    """What --json prints, as Python's own types."""
    import msgspec

    from firsttouch.base.encoding import encode_json

    return msgspec.json.decode(encode_json(output_of(found)), type=dict[str, Any])
