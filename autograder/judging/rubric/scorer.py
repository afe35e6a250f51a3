"""Suggested points of an answer to Q1, Q2 or Q3, with what they rest on. A person has the last word.

    score("Q2", text).points

The text is data: nothing in it is run, followed or trusted.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import cache

from autograder.judging.rubric import copied
from autograder.judging.rubric.comments import comment
from autograder.judging.rubric.confidence import SURE, Signals, confidence
from autograder.judging.rubric.listing import is_list
from autograder.judging.rubric.matching import Hit, Terms
from autograder.judging.rubric.neutral import Reading, mostly_names, neutral
from autograder.judging.rubric.normalise import LONGEST, Text, normalise
from autograder.judging.rubric.points import DIMENSIONS, points
from autograder.judging.rubric.rubric import FOLDER, Concept, Rubric, Says, load, read
from autograder.judging.rubric.segments import clauses
from autograder.judging.rubric.typos import correct

NAMES_ONLY = "names_without_ownership"
_NAMES_ONLY_SAYS = {
    "en": "names are listed without who holds what or what changes",
    "zh": "只列出名字，没有说清谁持有什么、什么在变",
}
_LISTED_SAYS = {
    "en": "This reads as a list of terms, without who does what to which and why: a person decides.",
    "zh": "这读起来像一串术语，没有说清谁对什么做了什么、为什么：由人决定。",
}
_DOUBTFUL = 0.1
"""The confidence in an answer that may not be the student's own account."""
_COPIED = 0.5
"""The most that is suggested for the course's own sentences."""
_MANY_NAMES = 4
_MANY_NAMES_SHARE = 0.15
"""Of the words of an answer in which nothing changes."""


@dataclass(frozen=True)
class Judged:
    """One dimension: its label, the student's own words that earn it, and what is missing for more."""

    label: float
    evidence: tuple[str, ...]
    missing: tuple[Says, ...]
    present: frozenset[str]
    """Names of the rubric's parts that were found."""


@dataclass(frozen=True)
class Suggestion:
    question: str
    points: float
    confidence: float
    dimensions: dict[str, Judged]
    """By name: objects, state, chain."""
    veto: str | None
    factual_error: bool
    faults: tuple[Says, ...]
    """What the vetoes and the errors say is wrong."""
    fault_evidence: tuple[str, ...]
    """The student's words that they rest on."""
    doubts: tuple[Says, ...] = ()
    """Why a person should decide whose account this is."""

    @property
    def abstains(self) -> bool:
        return self.confidence < SURE

    def comment(self, language: str) -> str:
        """A short text for the student and the formgrader's comment box; `language` is en or zh."""
        missing = {name: judged.missing for name, judged in self.dimensions.items()}
        told = comment(language, self.points, missing, self.faults)
        return "\n".join([told, *(doubt[language] for doubt in self.doubts)])


def score(question: str, text: str) -> Suggestion:
    """Raises ValueError for an unknown question. Any text is taken; its first 8,000 characters are read.

    It abstains where the text may be no account of the student's own: a list of terms, sentences of the course.
    """
    found = judge(question, text)
    if found.points and is_list(text):
        found = replace(found, confidence=min(found.confidence, _DOUBTFUL), doubts=(_LISTED_SAYS,))
    if source := copied.find(text):
        chain = replace(found.dimensions["chain"], label=0.0)
        found = replace(
            found,
            points=min(found.points, _COPIED),
            confidence=min(found.confidence, _DOUBTFUL),
            dimensions={**found.dimensions, "chain": chain},
            doubts=(*found.doubts, source.says),
        )
    return found


def judge(question: str, text: str) -> Suggestion:
    """What the text says, whoever wrote it."""
    rubric = load(question)
    written = _spelt(correct(normalise(text), rubric.words))
    reading = neutral(written.read, _asked(rubric))
    terms = Terms(reading.text, reading.sentences, rubric.terms)

    asks = {at for at, one in enumerate(reading.sentences) if reading.text[one.start : one.end].rstrip().endswith("?")}
    errors = [(concept, hits) for concept in rubric.errors if (hits := _hits(concept, terms, asks))]
    vetoes = [(concept, hits) for concept in rubric.vetoes if (hits := _hits(concept, terms, asks))]
    found = _found(rubric, terms, {part for concept, _ in errors for part in concept.spoils})
    keeps = _right_half(rubric, _found(rubric, terms, ()), [hits for concept, hits in errors if not concept.slip])
    dimensions = _judged(rubric, written, found, [concept for concept, _ in errors], keeps)
    labels = {name: judged.label for name, judged in dimensions.items()}
    wrong_reason = labels["chain"] == 0 and not errors and bool(terms.hits(rubric.reasons))
    faults = [concept.says for concept, _ in (*vetoes, *errors)]
    veto = vetoes[0][0].name.split(".")[0] if vetoes else None
    listed = reading.listed >= _MANY_NAMES and labels["state"] == 0 and sum(labels.values()) <= 1
    said = " ".join(written.quote(*one) for one in reading.said)
    named = (labels["chain"] == 0 and labels["state"] <= 0.5 and mostly_names(said)) or (
        labels["chain"] <= 0.5 and labels["state"] == 0 and mostly_names(said, _MANY_NAMES_SHARE)
    )
    if veto is None and (listed or named):
        veto, faults = NAMES_ONLY, [_NAMES_ONLY_SAYS, *faults]
        dimensions = {n: Judged(0.0, (), j.missing, j.present) for n, j in dimensions.items()}
    false = any(not concept.slip for concept, _ in errors) or wrong_reason
    suggested = points(*(dimensions[name].label for name in DIMENSIONS), veto=veto, factual_error=false)
    length, understood = _understood(
        reading, [*(hits for of in found.values() for hits in of.values()), *(hits for _, hits in (*errors, *vetoes))]
    )
    signals = Signals(
        length,
        understood,
        sum(map(len, found.values())),
        len(errors),
        int(veto is not None),
        wrong_reason,
        len(text) > LONGEST,
    )
    return Suggestion(
        question,
        suggested,
        confidence(suggested, labels["chain"], signals),
        dimensions,
        veto,
        false,
        tuple(faults),
        _quotes(written, (hits for _, hits in (*vetoes, *errors))),
    )


def _found(rubric: Rubric, terms: Terms, spoilt: Collection[str]) -> dict[str, dict[str, list[Hit]]]:
    """Hits by dimension and part."""
    return {
        name: {
            part: hits
            for part, concept in rubric.dimensions[name].parts.items()
            if f"{name}.{part}" not in spoilt and (hits := _hits(concept, terms))
        }
        for name in DIMENSIONS
    }


def _right_half(rubric: Rubric, found: dict[str, dict[str, list[Hit]]], false: list[list[Hit]]) -> float:
    """What each label keeps, whatever is said after: 0.5 if all three were earned before the first false sentence."""
    if not false:
        return 0.0
    first = min(hit.sentence for hits in false for hit in hits)
    return min(
        0.5,
        *(
            rubric.dimensions[name].label(
                {part for part, hits in of.items() if any(hit.sentence + len(hit.spans) <= first for hit in hits)}
            )
            for name, of in found.items()
        ),
    )


def _judged(
    rubric: Rubric, written: Text, found: dict[str, dict[str, list[Hit]]], errors: Iterable[Concept], keeps: float
) -> dict[str, Judged]:
    present = {f"{name}.{part}" for name, of in found.items() for part in of}
    most = dict.fromkeys(DIMENSIONS, 1.0)
    for error in errors:
        for name, label in error.takes.items():
            contradiction = bool(error.contradicts & present)
            most[name] = min(most[name], max(label, 0.5) if contradiction else label)
    judged = {}
    for name, of in found.items():
        label = max(min(rubric.dimensions[name].label(set(of)), most[name]), keeps)
        parts = rubric.dimensions[name].parts
        missing = tuple(concept.says for part, concept in parts.items() if part not in of) if label < 1 else ()
        judged[name] = Judged(label, _quotes(written, of.values()) if label else (), missing, frozenset(of))
    return judged


def _hits(concept: Concept, terms: Terms, but: Collection[int] = ()) -> list[Hit]:
    """Where the concept stands, save in the sentences `but`."""
    hits = terms.hits(concept.any)
    if not hits:
        return []
    undone = set(but) | {hit.sentence for hit in terms.hits(concept.unless)}
    undone |= {hit.sentence + step for hit in terms.hits(concept.near) for step in (-1, 0, 1)}
    return [hit for hit in hits if hit.sentence not in undone]


def _understood(reading: Reading, hits_of: Iterable[list[Hit]]) -> tuple[int, float]:
    spans = [span for hits in hits_of for hit in hits for span in hit.spans]
    length = within = 0
    for sentence in reading.sentences:
        for clause in clauses(reading.text, sentence):
            size = sum(character.isalnum() for character in reading.text[clause.start : clause.end])
            length += size
            if any(span.start < clause.end and clause.start < span.end for span in spans):
                within += size
    return length, within / length if length else 0.0


def _quotes(text: Text, hits_of: Iterable[list[Hit]]) -> tuple[str, ...]:
    """The student's words of the first hit of each, none twice."""
    quotes = (" ".join(text.quote(*span).split()) for hits in hits_of for span in hits[0].spans)
    return tuple(dict.fromkeys(quotes))


@cache
def _spelling() -> tuple[re.Pattern[str], dict[str, str]]:
    words: dict[str, str] = read(FOLDER / "common.yaml")["spelling"]
    return re.compile("|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))), words


def _spelt(text: Text) -> Text:
    return text.replace(*_spelling())


@cache
def _asked_of(question: str, texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(_spelt(normalise(one)).read for one in texts)


def _asked(rubric: Rubric) -> tuple[str, ...]:
    return _asked_of(rubric.question, rubric.texts)
