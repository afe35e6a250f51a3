"""Whether an answer is a list of terms rather than sentences about them, whatever stands between the terms.

A list of the right words, in whatever order, meets many patterns of a rubric and says how nothing hangs together. It
is told by its pieces: short ones without a word that relates (a verb, a preposition, a comparison), between one and
the same mark. A student who writes notes may be taken for one: then a person reads the notes, and nothing is lost.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from autograder.judging.rubric.normalise import LONGEST, normalise

_MARKS = {
    "arrow": r"[→↑↓]",
    "comma": r",|、",
    "stop": r"[。!?]|\.(?=\s|$)",
    "semicolon": r";",
    "line": r"\n+",
    "bar": r"\|",
    "slash": r"/|(?<![\dk])\+(?![\dk=])|(?<=\s)\+(?=\s)",
    "colon": r":",
    "bracket": r"[()]",
    "equals": r"(?<![-+<>=])=(?!=)",
    "and": r"(?<![a-z])and(?![a-z])|和|与",
    "because": r"(?<![a-z])because(?![a-z])|因为|由于",
    "so": r"(?<![a-z])(?:so|then|therefore)(?![a-z])|所以|因此",
    "or": r"(?<![a-z])or(?![a-z])|或者?",
    "dash": r"\s-\s",
}
_MARK = re.compile("|".join(f"(?P<{name}>{mark})" for name, mark in _MARKS.items()))
_WORD = re.compile(r"[a-z_][\w.]*|[\u3400-\u9fff]|\d+|[-+]=|[<>=]|(?<=\w) ?- ?(?=\w)", re.ASCII)
_OPERATORS = frozenset(("<", ">", "-=", "+=", "=", "-"))
_NEVER_ALONE = frozenset(("arrow", "bar", "equals", "and", "because", "so", "or", "dash"))
"""Marks that no text of some length uses and hardly any other."""
_ARTICLES = frozenset(("the", "a", "an"))
_RELATING = re.compile(
    r"to|in|on|at|by|for|with|from|into|as|than|is|are|was|were|be|been|being|has|have|had|"
    r"does|do|did|can|could|will|would|must|may|should|not|no|nor|if|when|while|since|but|that|"
    r"this|these|those|which|who|whose|what|it|its|they|them|their|there|each|every|only|same|"
    r"more|less|most|any|all|before|after|until|up|out|over|under|again|once|just|about|between|"
    r"how|why|we|i|you|our|your|of"
)
_RELATING_CHARACTERS = frozenset(
    "的是被把会就没不只要了给在从将使让比由有够也都而但却又还为这那它们个能可得到来去后前时如果若再才并且谁他她己每哪怎什着过让于至"
)
# No sentence holds these side by side: words in an order of chance.
_CHANCE = re.compile(
    r"(?<![a-z])(?:(?:the|a|an|its|their|every|each) (?:of|in|to|and|or|is|are|was|were|with|from|by|at|the|a|an|not|it"
    r"|that|as|for|on|has|have|be|so)|(?:of|in|to|with|from|by|at|for|and) (?:of|is|are|was|were|and|or|has))(?![a-z])"
)
_SPACED = re.compile(r"(?<=[\u3400-\u9fff])[ \t]+(?=[\u3400-\u9fff])")
_MANY_SPACED = 4

_FEWEST = 6
"""Pieces; an enumeration of fewer is part of many a good answer."""
_WINDOW = 20
"""Pieces that are looked at together, so that a sentence before or after a list does not hide it."""
_LONG_ENOUGH = 12.0
"""Words, two Chinese characters for one, from which on the words alone tell."""
_FRAME = 0.55
"""Share of the pieces; a word that stands in more of them is the list's frame ("there is …") and relates nothing."""
_ENDLESS = 60
"""Words and characters between two marks."""


@dataclass(frozen=True)
class _Piece:
    words: tuple[str, ...]
    mark: str
    """What it ends with."""

    def weigh(self, frame: frozenset[str]) -> tuple[float, float]:
        """Its words, and those of them that relate."""
        words = relating = 0.0
        for word in self.words:
            if "\u3400" <= word <= "\u9fff":
                words += 0.5
                relating += 0.5 * (word in _RELATING_CHARACTERS and word not in frame)
            elif word not in _ARTICLES:
                words += word.strip() not in _OPERATORS
                related = word.strip() in _OPERATORS or _RELATING.fullmatch(word) is not None
                relating += related and word not in frame
        return words, relating


def is_list(text: str) -> bool:
    read = text[:LONGEST]
    if len(_SPACED.findall(read)) >= _MANY_SPACED:
        read = _SPACED.sub("、", read)
    read = normalise(read).read
    pieces = _pieces(read)
    if not pieces:
        return False
    if len(_CHANCE.findall(read)) >= 3 or max(len(piece.words) for piece in pieces) > _ENDLESS:
        return True
    words, relating = (sum(of) for of in zip(*(piece.weigh(frozenset()) for piece in pieces), strict=True))
    most = _LONG_ENOUGH if relating > 0.2 * words else 0.75 * _LONG_ENOUGH
    if words > 2 * _LONG_ENOUGH and words / len(pieces) > most:
        return True
    windows = [pieces[at : at + _WINDOW] for at in range(len(pieces) - _WINDOW + 1)]
    return any(_lists(window) for window in (pieces, *windows))


def _pieces(read: str) -> list[_Piece]:
    pieces, start = [], 0
    for mark in (*_MARK.finditer(read), None):
        words = tuple(_WORD.findall(read, start, mark.start() if mark else len(read)))
        if any(word[0].isalnum() or word[0] == "_" for word in words):
            pieces.append(_Piece(words, (mark.lastgroup or "") if mark else "end"))
        start = mark.end() if mark else start
    return pieces


def _lists(pieces: Sequence[_Piece]) -> bool:
    if len(pieces) < _FEWEST:
        return False
    often = Counter(word for piece in pieces for word in set(piece.words))
    frame = frozenset(word for word, count in often.items() if count > _FRAME * len(pieces))
    weights = [piece.weigh(frame) for piece in pieces]
    words = sum(weight for weight, _ in weights)
    if not words:
        return False
    relating = sum(weight for _, weight in weights) / words
    bare = sum(n for n, relates in weights if not relates or (n >= 10 and relates / n < 0.2)) / words
    mark, times = Counter(piece.mark for piece in pieces).most_common(1)[0]
    one_mark = times > 0.6 * len(pieces)
    if one_mark and (bare - relating > 0.25 or (mark in _NEVER_ALONE and times >= 8)):
        return True
    return words > _LONG_ENOUGH and (bare - relating > 0.57 or relating < 0.09)
