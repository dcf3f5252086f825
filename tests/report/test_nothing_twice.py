"""What every kind of page shows at once has no sentence and no figure twice; what repeats is said once or folded."""

from __future__ import annotations

import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

VOID = {"meta", "link", "br", "wbr", "input", "img"}
BLOCKS = {"p", "li", "dd", "dt", "td", "th", "h1", "h2", "h3", "figcaption", "summary", "div", "section", "figure"}
TEXTS = {"p", "li", "dd", "h1", "h2", "h3", "figcaption"}
"""What holds sentences. Others hold data and labels."""
LEAST_WORDS = 5
"""A text with fewer words is a label."""
OF_ONE_FIGURE = ("Held constant:",)
"""How sentences begin that tell what one figure shows, which another one may share."""


class Shown(HTMLParser):
    """The sentences and the figures that are seen before anything is opened, without scripts, on a desktop."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.sentences: list[str] = []
        self.figures: list[str] = []
        self._open: list[tuple[str, bool]] = []
        self._text = ""
        self._image: list[str] | None = None
        self.feed(page)
        self._end()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in VOID:
            return
        if tag in BLOCKS:
            self._end()
        attributes = dict(attrs)
        names = (attributes.get("class") or "").split()
        hidden = tag in ("script", "style", "head", "nav") or {"hidden-text", "on-phone"} & {*names}
        hidden = hidden or (tag != "summary" and bool(self._open) and self._open[-1] == ("details", False))
        if tag == "svg" and not self._is_hidden and not hidden:
            self._image = []
        if self._image is not None and tag != "svg":
            drawn = {name: text for name, text in attrs if name[:5] != "data-" and name not in ("id", "clip-path")}
            self._image.append(f"{tag} {drawn}")
        self._open.append(("hidden" if hidden else tag, tag != "details" or "open" in attributes))

    def handle_endtag(self, tag: str) -> None:
        if tag in BLOCKS:
            self._end()
        if tag == "svg" and self._image is not None:
            self.figures.append("\n".join(self._image))
            self._image = None
        if self._open:
            self._open.pop()

    @property
    def _is_hidden(self) -> bool:
        return any(name == "hidden" for name, _ in self._open)

    def handle_data(self, data: str) -> None:
        if self._image is not None:
            self._image.append(data)
        elif not self._is_hidden and TEXTS & {name for name, _ in self._open}:
            self._text += data

    def _end(self) -> None:
        text, self._text = " ".join(self._text.split()), ""
        for sentence in re.split(r"(?<=[a-z%)][.?]) (?=[A-Z0-9])", text):
            if len(sentence.split()) >= LEAST_WORDS and not sentence.startswith(OF_ONE_FIGURE):
                self.sentences.append(sentence.rstrip(".").casefold())


def test_the_check_sees_what_is_open_and_not_what_is_folded() -> None:
    said = "<p>It is the fastest of all.</p>"
    unseen = "<p class='hidden-text'>It is not seen by anyone.</p>"
    page = f"<body>{said}<details><summary>More</summary><details>{said}</details>{said}</details>{unseen}"
    assert Shown(page).sentences == ["it is the fastest of all"]
    assert Shown(page.replace("<details>", "<details open>")).sentences == ["it is the fastest of all"] * 3
    figure = "<figure><svg><path d='M0,0h1' fill='red'/></svg></figure>"
    assert len({*Shown(figure + figure.replace("red", "blue")).figures}) == 2
    assert len({*Shown(figure * 2).figures}) == 1
    assert len(Shown(figure * 2).figures) == 2


def test_no_sentence_is_seen_twice(any_page: Path) -> None:
    sentences = Shown(any_page.read_text(encoding="utf-8")).sentences
    assert len(sentences) > 1
    assert {sentence: n for sentence, n in Counter(sentences).items() if n > 1} == {}


def test_no_figure_is_seen_twice(any_page: Path) -> None:
    figures = Shown(any_page.read_text(encoding="utf-8")).figures
    assert max(Counter(figures).values(), default=0) <= 1
