"""What says nothing about the question: words to the grader, praise, the question and the rubric repeated, bare lists.

Such a sentence is taken out before anything is looked for, so an answer scores the same with it and without it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from autograder.judging.rubric.cues import ARTICLE, COURTESY, FREQUENT, LIST_MARK, LISTING, NAME, STATEMENT, TO_GRADER
from autograder.judging.rubric.segments import Segment, clauses, sentences

_MOST_NEW = 0.28
"""Share of words that are not the question's, in a sentence that repeats it."""
_MANY_NAMES = 4
_MANY_WORDS = 9
_BRACKETED = re.compile(r"\([^()\n]{1,300}\)|\[[^\[\]\n]{1,300}\]|\{[^{}]{1,300}\}|【[^【】\n]{1,300}】")
_PART_END = re.compile(r"[,;:]")


_LATIN = re.compile(r"\w{3,}", re.ASCII)
_WORD_OR_HALF = re.compile(r"[A-Za-z_][\w.]*|[\u3400-\u9fff]{1,2}", re.ASCII)
_NAMES_SHARE = 0.25


class Reading(NamedTuple):
    """Kept sentences of `text`, which is as long as the text that came in; what went is blank."""

    text: str
    sentences: list[Segment]
    listed: int
    """Bare names that stood in lists."""
    said: list[Segment]
    """Sentences, or their beginnings, without a word to the grader; also those that were not kept."""


def neutral(text: str, question: tuple[str, ...]) -> Reading:
    asked = {word for one in question for word in _words(one.lower())}
    kept: list[Segment] = []
    said: list[Segment] = []
    characters = list(_without_asides(text))
    listed = 0
    for whole in sentences("".join(characters)):
        sentence = _before_instruction("".join(characters), whole)
        if sentence is None:
            continue
        if COURTESY.search(text, sentence.start, sentence.end):
            _without_courtesy(text, sentence, characters)
        else:
            said.append(sentence)
        listed += _bare_names("".join(characters), sentence, characters)
        written = "".join(characters[sentence.start : sentence.end])
        if _repeats(written, asked) or not any(character.isalnum() for character in written):
            continue
        kept.append(sentence)
    return Reading("".join(characters), kept, listed, said)


def _is_identifier(word: str) -> bool:
    return "_" in word.strip("_") or (any(c.islower() for c in word) and any(c.isupper() for c in word[1:]))


def mostly_names(written: str, share: float = _NAMES_SHARE) -> bool:
    """Whether every fourth word (or `share`) is the name of a class, a field or a function, and several stand there."""
    names = [word for word in _LATIN.findall(written) if _is_identifier(word)]
    return len(set(names)) >= _MANY_NAMES and len(names) >= share * len(_WORD_OR_HALF.findall(written))


def _without_asides(text: str) -> str:
    """Brackets that speak to the grader end a sentence and say nothing."""

    def blank(match: re.Match[str]) -> str:
        return "\n" * len(match.group()) if TO_GRADER.search(match.group()) else match.group()

    return _BRACKETED.sub(blank, text)


def _before_instruction(text: str, sentence: Segment) -> Segment | None:
    """What stands in the sentence before it turns to the grader: all of it, a part, or nothing."""
    match = TO_GRADER.search(text, sentence.start, sentence.end)
    if match is None:
        return sentence
    ends = [mark.end() for mark in _PART_END.finditer(text, sentence.start, match.start())]
    return Segment(sentence.start, ends[-1]) if ends else None


def _without_courtesy(text: str, sentence: Segment, characters: list[str]) -> None:
    for clause in clauses(text, sentence):
        if COURTESY.search(text, clause.start, clause.end):
            characters[clause.start : clause.end] = " " * (clause.end - clause.start)


def _words(text: str) -> list[str]:
    """English words, and every two neighbouring Chinese characters."""
    words = [match for match in re.findall(r"[a-z_][a-z0-9_]+", text) if match not in FREQUENT]
    chinese = re.findall(r"(?=([\u3400-\u9fff]{2}))", text)
    return words + chinese


def _repeats(written: str, asked: set[str]) -> bool:
    words = _words(written)
    return len(words) >= 4 and sum(word in asked for word in words) >= (1 - _MOST_NEW) * len(words)


def _bare_names(text: str, sentence: Segment, characters: list[str]) -> int:
    """Blanks runs of names between commas and arrows, and word salad; how many names that were."""
    run: list[Segment] = []
    count = 0
    start = sentence.start
    for end in [*(m.start() for m in LIST_MARK.finditer(text, sentence.start, sentence.end)), sentence.end]:
        if NAME.fullmatch(ARTICLE.sub("", text[start:end].strip(" .。:'\"()"))):
            run.append(Segment(start, end))
        elif text[start:end].strip():
            count += _blank(run, characters)
            run = []
        start = next((m.end() for m in [LIST_MARK.match(text, end)] if m), end)
    count += _blank(run, characters)
    if count and LISTING.search(text, sentence.start, sentence.end):
        return count + _blank([sentence] * _MANY_NAMES, characters)
    words = re.findall(r"[a-z_][\w.]*|[\u3400-\u9fff]+", text[sentence.start : sentence.end])
    if len(words) >= _MANY_WORDS and not STATEMENT.search(text, sentence.start, sentence.end):
        count += _blank([sentence] * len(words), characters)
    return count


def _blank(run: list[Segment], characters: list[str]) -> int:
    if len(run) < _MANY_NAMES:
        return 0
    for one in run:
        characters[one.start : one.end] = " " * (one.end - one.start)
    return len(run)
