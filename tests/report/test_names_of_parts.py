"""Every image, figure and table of every kind of page has a name in the HTML itself, without scripts."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

NAMED_BY = {"figure": "figcaption", "table": "caption"}


class Parts(HTMLParser):
    """The images, figures and tables of a page with their names, innermost first."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None], str]] = []
        self._open: list[tuple[str, dict[str, str | None], list[str]]] = []
        self._naming = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("svg", "figure", "table"):
            self._open.append((tag, dict(attrs), []))
        if self._open and tag == NAMED_BY.get(self._open[-1][0]):
            self._naming = tag

    def handle_endtag(self, tag: str) -> None:
        if tag == self._naming:
            self._naming = ""
        if self._open and tag == self._open[-1][0]:
            name, attributes, texts = self._open.pop()
            label = (attributes.get("aria-label") or "").strip() or " ".join("".join(texts).split())
            self.found.append((name, attributes, label))

    def handle_data(self, data: str) -> None:
        if self._naming and self._open:
            self._open[-1][2].append(data)


def test_the_check_finds_what_has_no_name() -> None:
    page = "<table><tr><td>1</td></tr></table><table><caption>A</caption></table><svg aria-label=' '></svg>"
    page += "<figure><table></table><figcaption>B</figcaption></figure>"
    assert [(tag, name) for tag, _, name in Parts(page).found] == [
        ("table", ""), ("table", "A"), ("svg", ""), ("table", ""), ("figure", "B")
    ]  # fmt: skip


def test_every_part_has_a_name(any_page: Path) -> None:
    found = Parts(any_page.read_text(encoding="utf-8")).found
    assert {tag for tag, *_ in found} & {"svg", "table"}
    assert [(tag, attributes) for tag, attributes, name in found if not name] == []
    assert all(attributes.get("role") == "img" for tag, attributes, _ in found if tag == "svg")
