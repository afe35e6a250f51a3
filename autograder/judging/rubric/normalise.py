"""An answer in one spelling, each character tied to its place in the student's text.

Lower case, NFKC (full-width to ASCII), Simplified characters, one dash, one arrow; HTML tags, Markdown marks and emoji
gone; no space beside a Chinese character; the field's words from Taiwan and frequent typing errors put right.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from autograder.judging.rubric.characters import SIMPLIFIED

LONGEST = 8000
"""Characters that are read; an answer has a few hundred. What stands behind them is for a person."""

_TAG = re.compile(r"<(script|style)\b[^<>]{0,200}>[^<]{0,4000}</\1\s*>|</?[a-zA-Z!][^<>\n]{0,200}>", re.IGNORECASE)
_SAME = str.maketrans("−–—‐‑’‘“”「」…⇒➜➔×÷≤≥·", '--，--\'\'"""".→→→x/<> ', "`")
_CJK = "\u3400-\u9fff"
_MARKDOWN = re.compile(r"\*\*|^[ \t]*(?:[-*+•>]|#{1,6}|\d{1,2}[.)])(?=[ \t])|\\[()\[\]]", re.MULTILINE)
_SPACE = re.compile(rf"[ \t]+(?=[ \t\n{_CJK}。、→])|(?<=[{_CJK}\n。、→])[ \t]+")
_ARROW = re.compile(r"[-=]{1,3}>|={2,3}>")


@dataclass(frozen=True)
class Text:
    """`read`, the normalised text, and for each of its characters the place in `written`, the student's."""

    written: str
    read: str
    place: tuple[int, ...]

    def quote(self, start: int, end: int) -> str:
        """What the student wrote for read[start:end]."""
        if start >= end:
            return ""
        return self.written[self.place[start] : self.place[end - 1] + 1]

    def replace(self, pattern: re.Pattern[str], by: dict[str, str] | str) -> Text:
        """Every match replaced; the new characters stand where the match did."""
        read: list[str] = []
        place: list[int] = []
        end = 0
        for match in pattern.finditer(self.read):
            new = by if isinstance(by, str) else by.get(match.group(), match.group())
            read.append(self.read[end : match.start()] + new)
            place.extend(self.place[end : match.start()])
            first, last = match.start(), match.end() - 1
            place.extend(self.place[min(first + i, last)] for i in range(len(new)))
            if new and len(new) < len(match.group()):
                place[-1] = self.place[last]
            end = match.end()
        return Text(self.written, "".join(read) + self.read[end:], (*place, *self.place[end:]))


def normalise(written: str) -> Text:
    read: list[str] = []
    place: list[int] = []
    hidden = [match.span() for match in _TAG.finditer(written, 0, LONGEST)]
    for at, character in enumerate(written[:LONGEST]):
        if any(start <= at < end for start, end in hidden):
            continue
        for one in unicodedata.normalize("NFKC", character.translate(_SAME)).lower().translate(SIMPLIFIED):
            read.append(_plain(one))
            place.append(at)
    text = Text(written, "".join(read), tuple(place))
    text = text.replace(_MARKDOWN, "").replace(_ARROW, "→")
    return text.replace(_SPACE, "")


def _plain(character: str) -> str:
    if character == "\n":
        return "\n"
    return " " if unicodedata.category(character)[0] in "CZM" or unicodedata.category(character) == "So" else character
