"""Charts that a notebook shows, and that are saved as a page, without a network.

By default, altair makes a page that loads Vega from the network.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from firsttouch.base.errors import UsageError
from firsttouch.report.svg import to_svg


def offline(chart: Any) -> Any:
    """The same altair chart, which a notebook shows as SVG unless altair.renderers.enable() has chosen otherwise. A
    page that it is saved as has Vega in it. Copies with other properties are alike.
    """
    kind: Any = type(chart)
    object.__setattr__(chart, "__class__", _offline_class(kind))  # which altair would take as part of the figure
    return chart


@cache
def _offline_class(kind: Any) -> Any:
    def shown(self: Any, *include: Any, **exclude: Any) -> Any:
        import altair

        if altair.renderers.active != "default":
            return kind._repr_mimebundle_(self, *include, **exclude)
        return {"image/svg+xml": to_svg(self.to_dict())}

    def save(self: Any, *args: Any, inline: bool = True, **options: Any) -> Any:
        return kind.save(self, *args, inline=inline, **options)

    def to_html(self: Any, *args: Any, inline: bool = True, **options: Any) -> Any:
        return kind.to_html(self, *args, inline=inline, **options)

    methods = {"_repr_mimebundle_": shown, "save": save, "to_html": to_html, "__reduce__": _reduce}
    return type(kind.__name__, (kind,), methods | {"__module__": kind.__module__})


def _reduce(chart: Any) -> Any:
    """For pickle, which finds no class that is made at run time."""
    return from_specification, (chart.to_dict(),)


def from_specification(spec: dict[str, Any]) -> Any:
    """Raises UsageError if altair is not installed."""
    try:
        import altair
    except ImportError:
        raise UsageError("plot() needs altair; install it with `pip install altair`") from None
    return offline(altair.Chart.from_dict(spec))
