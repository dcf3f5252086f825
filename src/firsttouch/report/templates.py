"""Fills in the templates of pages, with the style and the script that each page contains."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from firsttouch.records.text import caption, count, fact_title, label
from firsttouch.report.said_once import is_said, unmarked

if TYPE_CHECKING:
    from jinja2 import Template
    from markupsafe import Markup

    from firsttouch.records.schema import Scalar


_AMOUNT = re.compile(r"[-\N{MINUS SIGN}+]?[0-9][0-9.,e+-]*( [^ ,;:]+)?|\N{EN DASH}|")
SHARED = "shared.html.j2"
LONG_WORD = 25
"""The characters of a word that may be broken."""
_SEPARATOR = re.compile(r"(?<=[/:,_<(&.-])(?=[^/:,_<(&.-])")
_CODE = re.compile("`([^`]+)`")
HEADLINES: Mapping[str, Sequence[str]] = {
    "cpu": ["cores_usable", "sockets", "l1_bytes", "l2_bytes", "l3_bytes", "infinity_cache_bytes"],
    "memory": ["total_bytes", "cgroup_limit_bytes", "swap_total_bytes"],
    "numa": ["nodes", "balancing"],
    "huge_pages": ["thp_enabled"],
    "kernel": ["release", "virtualisation"],
    "nvidia": ["driver", "cuda"],
    "links": ["gpu0_pcie_generation", "gpu0_pcie_width", "gpu0_nvlinks_active"],
}
"""The most important facts about a machine, by topic."""


def numeric(rows: Sequence[Sequence[str]]) -> list[bool]:
    """For each column of a table, whether it holds only amounts, such as '1.5 ms', '12' or a dash."""
    return [any(column) and all(map(_AMOUNT.fullmatch, column)) for column in zip(*rows, strict=True)]


def sentences(text: str) -> list[str]:
    """The sentences of a text."""
    return re.split(r"(?<=[.]) (?=[A-Z])", text)


def coded(text: object) -> Markup:
    """A text, escaped, in which what stands between backticks is code."""
    return _marked(str(text), lambda part: part)


def breakable(text: object) -> Markup:
    """As `coded`, and it may be broken within long words: after what separates parts of paths and of names."""
    return _marked(str(text), _broken)


def _marked(text: str, shown: Callable[[str], str]) -> Markup:
    from markupsafe import Markup, escape

    parts = _CODE.split(text)  # every other one is code
    return Markup("").join(
        Markup("<code>{}</code>").format(shown(part)) if number % 2 else escape(shown(part))
        for number, part in enumerate(parts)
    )


def _broken(text: str) -> Markup:
    from markupsafe import Markup, escape

    parts = [_SEPARATOR.split(part) if len(part) >= LONG_WORD else [part] for part in re.split(r"(\s+)", text)]
    return Markup("").join(Markup("<wbr>").join(map(escape, part)) for part in parts)


def spelled_facts(facts: Mapping[str, Scalar]) -> list[tuple[str, str]]:
    """Facts about a machine as the rows of a table."""
    return [(fact_title(name), label(name, value)) for name, value in facts.items()]


def image(svg: str, name: str) -> Markup:
    """The sanitised SVG of a figure as an image with a name, for those who do not see it."""
    from markupsafe import Markup, escape

    return Markup(svg.replace("<svg ", f'<svg role="img" aria-label="{escape(name)}" ', 1))


def filled_in(name: str, **values: Any) -> str:
    """The text of a template of this package: every value is escaped, and a name without a value is an error."""
    return template(name).render(**assets(), **values)


@cache
def template(name: str) -> Template:
    """A template of this package, compiled once with the macros that all share."""
    import jinja2

    env = jinja2.Environment(
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        loader=jinja2.FunctionLoader(packaged),
    )
    env.filters.update(breakable=breakable, coded=coded, image=image, caption=caption, sentences=sentences)
    env.globals.update(label=label, count=count, spelled=fact_title, numeric=numeric, headlines=HEADLINES)
    env.globals.update(spelled_facts=spelled_facts, is_said=is_said, unmarked=unmarked)
    env.get_template(SHARED)
    return env.get_template(name)


def packaged(name: str) -> str:
    return files("firsttouch.report").joinpath(name).read_text(encoding="utf-8")


def assets() -> dict[str, str]:
    """The style and the script that the page contains, and the hash by which its policy allows this script alone."""
    script = packaged("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return {"style": packaged("page.css"), "script": script, "script_hash": f"sha256-{digest}"}
