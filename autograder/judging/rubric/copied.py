"""How much of an answer stands word for word in the course: its prose, its model answers, its glossary.

A sentence of the course shows that it was read, not that it was understood; a person decides what it is worth.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from autograder.judging.rubric.normalise import normalise
from autograder.judging.rubric.patterns import RubricError
from autograder.judging.rubric.points import QUESTIONS
from autograder.judging.rubric.rubric import load
from autograder.paths import CLONE, SOLUTIONS

MOST, NEARLY_ALL = 0.5, 0.8
"""Share of an answer; from here on it is the course's. Of a short one it has to be nearly all."""
SHORTEST, SHORT = 12, 25
"""Words and Chinese characters; what is shorter may agree by chance."""
MANY_PHRASES = 4
"""Of the comments on answers; an answer of the student's own meets one or two of them by chance."""
WORDS, CHARACTERS = 4, 7
"""Of a shingle: of English words alone, and of words and Chinese characters."""
_TOKEN = re.compile(r"[a-z0-9_]+|[\u3400-\u9fff]")
_CELL = re.compile(r"^(?:\+\+\+.*|```\{code-cell\}.*)$", re.MULTILINE)
_HEADING = re.compile(r"^#{1,6} +(.+)$", re.MULTILINE)
_GRADE_ID = re.compile(r'"grade_id": "(\w+)"')


@dataclass(frozen=True)
class Copied:
    """`share` of the answer stands in the course, the most of it in `where`."""

    share: float
    where: str

    @property
    def says(self) -> dict[str, str]:
        return {language: text.format(share=self.share, where=self.where) for language, text in _SAYS.items()}


_SAYS = {
    "en": "{share:.0%} of this answer stands word for word in the course (the most in {where}): a person decides what "
    "of it is the student's own.",
    "zh": "这份答案有 {share:.0%} 与课程文字逐字相同（主要在 {where}）：哪些算学生自己的，由人决定。",
}


def find(text: str) -> Copied | None:
    """None for an answer in the student's own words."""
    tokens = _tokens(text)
    if len(tokens) < SHORTEST:
        return None
    index = _index()
    covered = [False] * len(tokens)
    places: Counter[str] = Counter()
    for start, shingle in _shingles(tokens):
        where = index.get(shingle)
        if where is not None:
            covered[start : start + len(shingle)] = [True] * len(shingle)
            places[where] += 1
    share = sum(covered) / len(tokens)
    if share >= (MOST if len(tokens) >= SHORT else NEARLY_ALL):
        return Copied(share, places.most_common(1)[0][0])
    return _of_comments(tokens)


def _of_comments(tokens: Sequence[str]) -> Copied | None:
    """What comments on answers say is missing, one after the other."""
    text = f" {' '.join(tokens)} "
    told = [phrase for phrase in _phrases() if f" {' '.join(phrase)} " in text]
    if len(told) < MANY_PHRASES:
        return None
    return Copied(min(1.0, sum(map(len, told)) / len(tokens)), "the comments on answers")


def _tokens(text: str) -> list[str]:
    return _TOKEN.findall(normalise(text).read)


def _shingles(tokens: Sequence[str]) -> Iterator[tuple[int, tuple[str, ...]]]:
    for start in range(len(tokens)):
        shingle = tuple(tokens[start : start + WORDS])
        if any(token >= "\u3400" for token in shingle):
            shingle = tuple(tokens[start : start + CHARACTERS])
            if len(shingle) == CHARACTERS:
                yield start, shingle
        elif len(shingle) == WORDS:
            yield start, shingle


@cache
def _index() -> dict[tuple[str, ...], str]:
    """The place of every shingle of the course. A model answer comes after the prose that it repeats."""
    glossary = (CLONE / "docs" / "glossary.md").read_text(encoding="utf-8")
    texts = [*_lessons(), *_quotes(), ("the glossary", glossary)]
    index: dict[tuple[str, ...], str] = {}
    for where, text in texts:
        for line in text.splitlines():
            for _, shingle in _shingles(_tokens(line)):
                index.setdefault(shingle, where)
    for text in (text for question in QUESTIONS for text in load(question).texts):  # the scorer knows it repeated
        for _, shingle in _shingles(_tokens(text)):
            index.pop(shingle, None)
    return index


@cache
def _phrases() -> frozenset[tuple[str, ...]]:
    parts = [part for question in QUESTIONS for of in load(question).dimensions.values() for part in of.parts.values()]
    phrases = {tuple(_tokens(say)) for part in parts for say in part.says.values()}
    return frozenset(phrase for phrase in phrases if len(phrase) >= 3)


def _lessons() -> Iterator[tuple[str, str]]:
    lessons = sorted(SOLUTIONS.glob("*/*.md"))
    if not lessons:
        raise RubricError(f"no lesson lies under {SOLUTIONS}, so copied answers can't be told: restore the folder")
    answers = []
    for path in lessons:
        source = path.read_text(encoding="utf-8")
        heading = ""
        starts = [0, *(match.start() for match in _CELL.finditer(source)), len(source)]
        for start, end in pairwise(starts):
            head, _, body = source[start:end].partition("\n")
            if "code-cell" in head:
                continue
            heading = (_HEADING.findall(body) or [heading])[0]
            if "BEGIN SOLUTION" in body:
                grade_id = _GRADE_ID.search(head)
                answers.append((f"the model answer {grade_id[1] if grade_id else ''} of {path.stem}", body))
            else:
                yield f"{path.stem}, “{heading}”" if heading else path.stem, body
    yield from answers


def _quotes() -> Iterator[tuple[str, str]]:
    """What the course quotes of the lesson text."""
    for path in sorted(SOLUTIONS.glob("*/claims.json")):
        for claim in json.loads(path.read_text(encoding="utf-8")):
            yield f"the lesson text, claim {claim['number']}", f"{claim['quote']}\n{claim['gloss']}"
