"""The rubric of a question, read from YAML and checked."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from autograder.judging.rubric.patterns import Pattern, RubricError, pattern, phrases
from autograder.judging.rubric.points import DIMENSIONS, QUESTIONS

FOLDER = Path(__file__).parent
Says = dict[str, str]
"""A sentence by language, en and zh."""


@dataclass(frozen=True)
class Concept:
    name: str
    says: Says
    any: tuple[Pattern, ...]
    unless: tuple[Pattern, ...] = ()
    near: tuple[Pattern, ...] = ()
    takes: dict[str, float] = field(default_factory=dict)
    spoils: frozenset[str] = frozenset()
    contradicts: frozenset[str] = frozenset()
    slip: bool = False
    """Of an error: it is not central, and only lowers what it takes."""


@dataclass(frozen=True)
class Need:
    """Met when every one of `all` is there, and `count` of `of`."""

    all: tuple[str, ...]
    count: int
    of: tuple[str, ...]

    def met(self, present: set[str]) -> bool:
        return present.issuperset(self.all) and len(present.intersection(self.of)) >= self.count


@dataclass(frozen=True)
class Dimension:
    parts: dict[str, Concept]
    full: tuple[Need, ...]
    half: tuple[Need, ...]

    def label(self, present: set[str]) -> float:
        if any(need.met(present) for need in self.full):
            return 1.0
        return 0.5 if any(need.met(present) for need in self.half) else 0.0


@dataclass(frozen=True)
class Rubric:
    question: str
    texts: tuple[str, ...]
    terms: dict[str, re.Pattern[str]]
    dimensions: dict[str, Dimension]
    errors: tuple[Concept, ...]
    vetoes: tuple[Concept, ...]
    reasons: tuple[Pattern, ...]
    words: frozenset[str]


def load(question: str) -> Rubric:
    """Raises ValueError for an unknown question, RubricError for a file that can't be read."""
    if question not in QUESTIONS:
        raise ValueError(f"unknown question {question!r}: choose one of {', '.join(QUESTIONS)}")
    return _load(question)


@cache
def _load(question: str) -> Rubric:
    name = f"{question.lower()}.yaml"
    data, common, claims = read(FOLDER / name), read(FOLDER / "common.yaml"), read(FOLDER / "claims.yaml")
    all_terms = {**claims["terms"], **common["terms"], **data["terms"]}
    written = {term: commas(of, f"{name}: term {term}") for term, of in all_terms.items()}
    terms = {term: phrases(of, f"{name}: term {term}") for term, of in written.items()}
    names = frozenset(terms)
    try:
        return Rubric(
            question,
            tuple(data["question"].values()),
            terms,
            {one: dimension(data[one], names, f"{name}: {one}") for one in DIMENSIONS},
            (
                *_concepts(data["errors"], names, f"{name}: errors").values(),
                *_concepts(claims[question], names, f"claims.yaml: {question}").values(),
            ),
            tuple(_concepts({**common["vetoes"], **data.get("vetoes", {})}, names, f"{name}: vetoes").values()),
            _patterns(data.get("reasons") or common["reasons"], names, f"{name}: reasons"),
            frozenset(re.findall(r"[a-z_]{3,}[a-z]", " ".join(one for of in written.values() for one in of))),
        )
    except KeyError as error:
        raise RubricError(f"{name} has no {error}; see the comment at its head") from None


def read(path: Path) -> dict[str, Any]:
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise RubricError(f"{path.name} can't be read: {' '.join(str(error).split())}") from None
    if not isinstance(data, dict):
        raise RubricError(f"{path.name} holds no mapping; see the comment at its head")
    return data


def commas(of: Any, where: str) -> list[str]:
    if not isinstance(of, str):
        raise RubricError(f"{where} is {of!r}: write phrases with commas between them")
    return [phrase.strip() for phrase in of.split(",")]


def dimension(data: dict[str, Any], terms: frozenset[str], where: str) -> Dimension:
    parts = _concepts(data["parts"], terms, where)
    return Dimension(parts, _needs(data["full"], parts, where), _needs(data["half"], parts, where))


def _needs(data: list[dict[str, Any]], parts: dict[str, Concept], where: str) -> tuple[Need, ...]:
    needs = []
    for one in data:
        need = Need(tuple(one.get("all", ())), one.get("count", 0), tuple(one.get("of", parts)))
        if unknown := (set(need.all) | set(need.of)) - set(parts):
            raise RubricError(f"{where}: no part is called {min(unknown)!r}; the parts are {', '.join(parts)}")
        needs.append(need)
    return tuple(needs)


def _concepts(data: dict[str, Any], terms: frozenset[str], where: str) -> dict[str, Concept]:
    return {
        name: Concept(
            name,
            one["says"],
            _patterns(one["any"], terms, f"{where}.{name}"),
            _patterns(one.get("unless", []), terms, f"{where}.{name}"),
            _patterns(one.get("near", []), terms, f"{where}.{name}"),
            one.get("takes", {}),
            frozenset(one.get("spoils", ())),
            frozenset(one.get("contradicts", ())),
            one.get("slip", False),
        )
        for name, one in data.items()
    }


def _patterns(data: list[str], terms: frozenset[str], where: str) -> tuple[Pattern, ...]:
    return tuple(pattern(source, terms, where) for source in data)
