"""Where the terms of a rubric stand in a text, affirmed or denied, and which patterns they make."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import NamedTuple

from autograder.judging.rubric.patterns import Atom, Pattern, Step
from autograder.judging.rubric.polarity import denied
from autograder.judging.rubric.segments import Segment, clauses

FAR = 260
"""Characters between the ends of a match; farther apart, words of one sentence say nothing together."""
_MOST = 12
"""Places of one atom in a sentence that are tried."""


class Found(NamedTuple):
    start: int
    end: int
    clause: int
    denied: bool


class Hit(NamedTuple):
    """A match: the sentence that it begins in, and a span in each sentence that it touches."""

    sentence: int
    spans: tuple[Segment, ...]


class Terms:
    """Occurrences by sentence and term."""

    def __init__(self, text: str, sentences: list[Segment], terms: Mapping[str, re.Pattern[str]]) -> None:
        self._found: list[dict[str, list[Found]]] = []
        for sentence in sentences:
            parts = clauses(text, sentence)
            reaches = [denied(text, clause) for clause in parts]
            found: dict[str, list[Found]] = {}
            for name, expression in terms.items():
                for match in expression.finditer(text, sentence.start, sentence.end):
                    at = next(i for i, clause in enumerate(parts) if match.start() < clause.end)
                    no = any(reach.start <= match.start() < reach.end for reach in reaches[at])
                    found.setdefault(name, []).append(Found(match.start(), match.end(), at, no))
            self._found.append(found)

    def __len__(self) -> int:
        return len(self._found)

    def hits(self, patterns: Iterable[Pattern]) -> list[Hit]:
        return [hit for pattern in patterns for at in range(len(self)) if (hit := self._hit(pattern, at))]

    def _hit(self, pattern: Pattern, at: int) -> Hit | None:
        if any(name in self._found[at] for name in pattern.absent):
            return None
        spots: list[list[tuple[int, Segment]]] = []
        sentence = at
        for step in pattern.steps:
            if step.link == "&&":
                sentence += 1
            if sentence >= len(self):
                return None
            spots.append([(sentence, spot) for spot in self._spots(step, sentence)][:_MOST])
            if not spots[-1]:
                return None
        for chosen in product(*spots) if len(spots) <= 4 else [tuple(spot[0] for spot in spots)]:
            start, end = min(s.start for _, s in chosen), max(s.end for _, s in chosen)
            if end - start > FAR * (1 + sentence - at):
                continue
            ordered = zip(pattern.steps[1:], chosen[1:], chosen, strict=False)
            if all(step.link != ">" or before[1].start < after[1].start for step, after, before in ordered):
                return Hit(at, tuple(_span(chosen, one) for one in range(at, sentence + 1)))
        return None

    def _spots(self, step: Step, sentence: int) -> list[Segment]:
        """Where all atoms of the step stand in one clause."""
        places = [self._places(atom, sentence) for atom in step.atoms]
        if not all(places):
            return []
        if len(places) == 1:
            return [Segment(one.start, one.end) for one in places[0]]
        common = set.intersection(*({one.clause for one in place} for place in places))
        spots = []
        for clause in sorted(common):
            here = [next(one for one in place if one.clause == clause) for place in places]
            spots.append(Segment(min(one.start for one in here), max(one.end for one in here)))
        return spots

    def _places(self, atom: Atom, sentence: int) -> list[Found]:
        places = self._found[sentence].get(atom.term, [])
        if atom.polarity == "any":
            return places
        return [one for one in places if one.denied == (atom.polarity == "no")]


def _span(chosen: Sequence[tuple[int, Segment]], sentence: int) -> Segment:
    spots = [spot for at, spot in chosen if at == sentence]
    return Segment(min(spot.start for spot in spots), max(spot.end for spot in spots))
