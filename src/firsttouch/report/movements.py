"""What moves between whom, in words: the conditions of movements of data."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import prod

from firsttouch.records.findings import literal
from firsttouch.records.schema import NODE, PEER, RANKS, SELF, Scalar
from firsttouch.records.text import join_names, label, named

BETWEEN = "between"
"""The condition in words that says between whom data move."""
MOST_NAMED, MOST_VALUES = 3, 6
"""The most movements with the same answer that are named one by one, and the most values of a condition."""


class Between(str):
    """Between whom data move, in words. many: the words for so many of the kind, such as 'all {} pairs'. within: data
    stay in one device.
    """

    many: str
    within: bool

    def __new__(cls, text: str, many: str, *, within: bool = False) -> Between:
        made = super().__new__(cls, text)
        made.many, made.within = many, within
        return made


def shared_and_own(curves: Sequence[Mapping[str, Scalar]]) -> tuple[dict[str, str], list[dict[str, str]]]:
    """The conditions in words that all movements share, and of each movement the others."""
    words = [in_words(conditions) for conditions in curves]
    shared = {
        name: text for name, text in words[0].items() if all(of_movement.get(name) == text for of_movement in words)
    }
    return shared, [{n: text for n, text in of_movement.items() if n not in shared} for of_movement in words]


def in_words(conditions: Mapping[str, Scalar]) -> dict[str, str]:
    """The conditions in words: what moves, between whom, in which memory, and the others."""
    rest = dict(conditions)
    texts: dict[str, str] = {name: str(rest.pop(name)) for name in ("operation", "movement") if name in rest}
    texts[BETWEEN] = between_whom(rest)
    sides = list(dict.fromkeys(str(rest.pop(name)) for name in ("source", "target", "allocator") if name in rest))
    if sides:
        texts["memory"] = f"{' to '.join(sides)} memory"
    if (ranks := rest.pop(RANKS, None)) is not None:
        texts[RANKS] = "to itself" if ranks == 1 else f"{label(RANKS, ranks)} ranks"
    if (toucher := rest.pop("first_touch", None)) is not None:
        texts["first_touch"] = f"first touch by the {str(toucher).upper()}"
    return {n: text for n, text in texts.items() if text} | {n: named(n, v) for n, v in rest.items()}


def between_whom(rest: dict[str, Scalar]) -> Between:
    """Who has the data and who gets them, in words; takes these conditions out of `rest`."""
    device, node, direction = (rest.pop(name, None) for name in ("device", NODE, "direction"))
    if "from" in rest:
        source, target = str(rest.pop("from")), str(rest.pop("to", ""))
        return _within(source) if source == target else Between(f"{source} to {target}", "all {} pairs")
    if PEER not in rest:
        return Between(text := f"on {device}", literal(text))
    acting, peer = str(device if node is None else node), str(rest.pop(PEER))
    if peer in (SELF, acting):
        return _within(acting, _OWN.get(str(direction), ""))
    way, many = _WAYS.get(str(direction), ("{} to {}", "all {} pairs"))
    return Between(way.format(acting, peer), many)


def _within(device: str, direction: str = "") -> Between:
    return Between(f"within {device}{direction}", f"within all {{}} devices{direction}", within=True)


_WAYS = {"in": ("{} from {}", "all {} pairs, from the peer"), "both": ("{} and {} both ways", "all {} pairs both ways")}
_OWN = {"in": " (in)", "out": " (out)", "both": " (both ways)"}


def joined(movements: Sequence[Mapping[str, str]], pairs: Collection[str] = ()) -> str:
    """Several movements in words: each condition once where all combinations occur, otherwise one by one, but those of
    many pairs together.

    pairs: all pairs of the kind in words, of which these movements have some.
    """
    values: dict[str, dict[str, None]] = {}
    for movement in movements:
        for name, text in movement.items():
            values.setdefault(name, {})[text] = None
    if len(movements) == prod(map(len, values.values())):
        return ", ".join(alike_in_words(name, list(texts), pairs) for name, texts in values.items())
    of_pairs: dict[tuple[str, ...], list[str]] = {}
    for rest, some in _by_rest(movements).items():
        of_pairs.setdefault(tuple(some), []).append(rest)
    texts = [
        ", ".join(filter(None, [_some(list(filter(None, rests)), MOST_VALUES), alike_in_words(BETWEEN, some, pairs)]))
        for some, rests in of_pairs.items()
    ]
    return _some(texts, MOST_NAMED, "; ")


def _by_rest(movements: Sequence[Mapping[str, str]]) -> dict[str, list[str]]:
    """The pairs of movements that are the same otherwise, by the other conditions in words."""
    by_rest: dict[str, list[str]] = {}
    for movement in movements:
        rest = ", ".join(text for name, text in movement.items() if name != BETWEEN)
        by_rest.setdefault(rest, []).append(movement.get(BETWEEN, ""))
    return by_rest


def alike_in_words(name: str, texts: Sequence[str], pairs: Collection[str]) -> str:
    """The values of one condition: all pairs of one way, or all but a few, are not listed."""
    if name != BETWEEN or len(texts) <= MOST_NAMED + 1:
        return _some(texts, MOST_VALUES)
    return _some([_of_one_way(way, some, pairs) for way, some in by_way(texts).items()], MOST_VALUES)


def _of_one_way(way: str, texts: Sequence[str], pairs: Collection[str]) -> str:
    every = by_way(pairs).get(way, [])
    rest = [text for text in every if text not in texts]
    if len(texts) <= MOST_NAMED:
        return _some(texts, MOST_NAMED)
    if not rest:
        return way.format(len(texts)) if every else way.format(len(texts)).replace("all ", "")
    if len(rest) <= MOST_NAMED:
        return f"{way.format(len(texts)).removeprefix('all ')} (not {join_names(rest, 'or')})"
    return f"{len(texts)} of {way.format(len(every)).removeprefix('all ')}, such as {texts[0]}"


def by_way(texts: Iterable[str]) -> dict[str, list[str]]:
    """Pairs in words by what each has but its names: the words for how many of them."""
    ways: dict[str, list[str]] = {}
    for text in texts:
        ways.setdefault(text.many if isinstance(text, Between) else literal(text), []).append(text)
    return ways


def _some(texts: Sequence[str], most: int, comma: str = ", ") -> str:
    """The first of many texts, and how many more there are."""
    comma = "; " if any(" and " in text for text in texts) else comma
    if len(texts) > most + 1:
        return f"{comma.join(texts[:most])} and {len(texts) - most} more"
    return join_names(texts) if comma == ", " else comma.join(texts)
