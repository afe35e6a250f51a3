"""Which parts of a text are answers to which question: by what a student wrote above them, or by their labels."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from autograder.intake.released import labels

MARK = re.compile(
    r"[^\w\n]{0,12}(?:answers?\s+(?:to|for|of)\s+|我的|回答|解答)?[^\w\n]{0,4}"
    r"(?:(?:q|questions?|problem|answer|问题|题目|习题|思考题|答案|问|题|答)\s{0,3}[-_#.:：]?\s{0,3}"
    r"([1-9]|[一二三四五六七八九])(?![0-9])(?:_answer)?(?![A-Za-z])"
    r"|第\s?([1-9]|[一二三四五六七八九])\s?个?(?:小?题|问))",
    re.IGNORECASE,
)
"""A line that begins like this is about the question of this number."""
NUMERALS = "一二三四五六七八九"
MIN_LABELS = 2
MAX_SECTIONS = 100


@dataclass(frozen=True)
class Section:
    """A part of a text. `question` is the number above it, 0 if there is none; `first` begins the text."""

    text: str
    question: int
    first: bool


def sections(text: str, known: Iterable[frozenset[str]]) -> list[Section]:
    """Cut where a line names a question, and where labels of a template begin again."""
    wanted = frozenset().union(*known)
    found: list[Section] = []
    lines: list[str] = []
    question, seen = 0, set[str]()
    for line in text.split("\n"):
        mark = MARK.match(line[:200]) if len(found) < MAX_SECTIONS else None
        told = set(labels(line[:200]) & wanted) if "*" in line or "#" in line else set[str]()
        again = bool(told & seen) and MIN_LABELS <= len(seen) and len(found) < MAX_SECTIONS
        if mark or again:
            found += _section(lines, question, not found)
            lines, seen = [], set()
            question = _number(mark[1] or mark[2]) if mark else 0
        lines.append(line)
        seen |= told
    return found + _section(lines, question, not found)


def _section(lines: list[str], question: int, first: bool) -> list[Section]:
    text = "\n".join(lines).strip()
    return [Section(text, question, first)] if text or first else []


def _number(digit: str) -> int:
    return NUMERALS.index(digit) + 1 if digit in NUMERALS else int(digit)


def has_labels(text: str, templates: Iterable[frozenset[str]]) -> bool:
    """Whether most of the labels of one of the templates stand in the text."""
    mine = labels(text)
    return any(each and len(each & mine) * 2 > len(each) for each in templates)
