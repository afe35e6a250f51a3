"""Suggested points of an answer to Q1, Q2 or Q3, with what they rest on. A person has the last word.

    score("Q2", text).points

The text is data: nothing in it is run, followed or trusted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache

from autograder.rubric.comments import comment
from autograder.rubric.confidence import confidence
from autograder.rubric.matching import Hit, Terms
from autograder.rubric.neutral import neutral
from autograder.rubric.normalise import LONGEST, Text, normalise
from autograder.rubric.points import DIMENSIONS, points
from autograder.rubric.rubric import FOLDER, Concept, Rubric, Says, load, read
from autograder.rubric.typos import correct

SURE = 0.5
"""Below this confidence the suggestion abstains: a person should read the answer before the others."""


@dataclass(frozen=True)
class Judged:
    """One dimension: its label, the student's own words that earn it, and what is missing for more."""

    label: float
    evidence: tuple[str, ...] = ()
    missing: tuple[Says, ...] = ()
    present: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Suggestion:
    question: str
    points: float
    confidence: float
    dimensions: dict[str, Judged]
    veto: str | None = None
    factual_error: bool = False
    faults: tuple[Says, ...] = ()
    """What the veto and the errors say is wrong."""
    fault_evidence: tuple[str, ...] = ()
    signals: dict[str, float] = field(default_factory=dict)

    @property
    def abstains(self) -> bool:
        return self.confidence < SURE

    def comment(self, language: str) -> str:
        """A short text for the student and the formgrader's comment box, language en or zh."""
        return comment(self, language)


def score(question: str, text: str) -> Suggestion:
    """Raises ValueError for an unknown question. Any text is taken; its first 8,000 characters are read."""
    rubric = load(question)
    written = _spelt(correct(normalise(text), rubric.words))
    reading = neutral(written.read, tuple(_spelt(normalise(one)).read for one in rubric.texts))
    terms = Terms(reading.text, reading.sentences, rubric.terms)

    dimensions: dict[str, Judged] = {}
    for name in DIMENSIONS:
        dimension = rubric.dimensions[name]
        hits = {part: _hits(concept, terms) for part, concept in dimension.parts.items()}
        present = {part for part, of in hits.items() if of}
        quotes = [_quote(written, of[0]) for of in hits.values() if of]
        missing = tuple(c.says for part, c in dimension.parts.items() if part not in present)
        dimensions[name] = Judged(dimension.label(present), tuple(dict.fromkeys(quotes)), missing, frozenset(present))

    errors = [(concept, hits[0]) for concept in rubric.errors if (hits := _hits(concept, terms))]
    vetoes = [(concept, hits[0]) for concept in rubric.vetoes if (hits := _hits(concept, terms, near=True))]
    labels = {name: judged.label for name, judged in dimensions.items()}
    for concept, _ in errors:
        for name, most in concept.takes.items():
            labels[name] = min(labels[name], most)
    wrong_reason = labels["chain"] == 0 and not errors and bool(terms.hits(rubric.reasons))
    veto = vetoes[0][0].name if vetoes else None
    if veto is None and reading.listed >= 4 and labels["chain"] == 0 and sum(labels.values()) <= 0.5:
        veto = "names_without_ownership"
        labels = dict.fromkeys(labels, 0.0)
    dimensions = {n: Judged(labels[n], j.evidence if labels[n] else (), j.missing, j.present) for n, j in dimensions.items()}
    false = bool(errors) or wrong_reason
    faults = [(concept, hit) for concept, hit in [*vetoes, *errors]]
    signals = {
        "words": float(sum(s.end - s.start for s in reading.sentences)),
        "errors": float(len(errors)),
        "vetoes": float(len(vetoes)),
        "wrong_reason": float(wrong_reason),
        "unread": float(len(text) > LONGEST),
        "listed": float(reading.listed),
    }
    suggested = points(*(labels[name] for name in DIMENSIONS), veto=veto, factual_error=false)
    return Suggestion(
        question,
        suggested,
        confidence(suggested, labels, signals, {n: j.present for n, j in dimensions.items()}),
        dimensions,
        veto,
        false,
        tuple(concept.says for concept, _ in faults),
        tuple(dict.fromkeys(_quote(written, hit) for _, hit in faults)),
        signals,
    )


def _hits(concept: Concept, terms: Terms, *, near: bool = False) -> list[Hit]:
    hits = terms.hits(concept.any)
    undone = {hit.sentence for hit in terms.hits(concept.unless)}
    beside = {hit.sentence + step for hit in terms.hits(concept.near) for step in (-1, 0, 1)}
    return [hit for hit in hits if hit.sentence not in undone and hit.sentence not in beside]


def _quote(text: Text, hit: Hit) -> str:
    return " ".join(text.quote(hit.start, hit.end).split())


@cache
def _spelling() -> tuple[re.Pattern[str], dict[str, str]]:
    words: dict[str, str] = read(FOLDER / "common.yaml")["spelling"]
    return re.compile("|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))), words


def _spelt(text: Text) -> Text:
    return text.replace(*_spelling())
