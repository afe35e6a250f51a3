"""A text cut into sentences and clauses, in Chinese, English and both at once."""

from __future__ import annotations

import re
from typing import NamedTuple

_SENTENCE_END = re.compile(r"[。!?]+|\n+|(?<!\.)\.(?=[\s\"')\u3400-\u9fff]|$)|\.{2,}")
_ABBREVIATION = re.compile(r"(?:\b(?:e\.g|i\.e|etc|vs|resp|approx|cf|no)|^\s*\d{1,2})$")
_CLAUSE_END = re.compile(
    r"[,;:()→]|、(?=[^、]{14,})"
    r"|(?<![a-z])(?:because|since|so|therefore|hence|thus|but|while|whereas|although|though|however|instead|then|which"
    r"|otherwise|unless|until|if|when)(?![a-z])"
    r"|而是|但是|但|所以|因为|因此|于是|否则|不然|然后|如果|只要|导致|从而"
)


class Segment(NamedTuple):
    start: int
    end: int


def sentences(text: str) -> list[Segment]:
    """Never empty ones; the ending mark belongs to the sentence."""
    found: list[Segment] = []
    start = 0
    for match in _SENTENCE_END.finditer(text):
        if match.group() == "." and _ABBREVIATION.search(text, max(start, match.start() - 8), match.start()):
            continue
        found.append(Segment(start, match.end()))
        start = match.end()
    found.append(Segment(start, len(text)))
    return [segment for segment in found if any(c.isalnum() for c in text[segment.start : segment.end])]


def clauses(text: str, sentence: Segment) -> list[Segment]:
    """The parts of a sentence between commas, arrows and connectives; a connective opens its clause."""
    cuts = [sentence.start]
    for match in _CLAUSE_END.finditer(text, sentence.start, sentence.end):
        at = match.start() if match.group()[0].isalpha() else match.end()
        if at > cuts[-1]:
            cuts.append(at)
    return [Segment(a, b) for a, b in zip(cuts, [*cuts[1:], sentence.end], strict=True) if a < b]
