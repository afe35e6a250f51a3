"""Labelled answers in a file, one JSON object a line, and how far the scorer agrees with them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder.judging.rubric.agreement import Agreement, Judgement, agreement
from autograder.judging.rubric.points import DIMENSIONS, MAXIMUM, QUESTIONS
from autograder.judging.rubric.scorer import Suggestion, score

_FIELDS = ("id", "question", "text", *DIMENSIONS, "points")


class AnswersError(Exception):
    """The file can't be scored; the message says where and what to do."""


@dataclass(frozen=True)
class Answer:
    """`kind` is how the answer was meant; the scorer never sees it."""

    id: str
    question: str
    text: str
    points: float
    kind: str


@dataclass(frozen=True)
class Scored:
    answer: Answer
    suggestion: Suggestion

    @property
    def off(self) -> float:
        """Points suggested beyond the label."""
        return self.suggestion.points - self.answer.points


def read_answers(path: Path) -> list[Answer]:
    """Raises AnswersError. Kinds come from NAME.categories.jsonl beside NAME.jsonl, else from veto and error."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise AnswersError(f"{path} can't be read ({error}); name a UTF-8 file with one JSON object a line") from None
    kinds = _kinds(path.with_name(f"{path.stem}.categories.jsonl"))
    answers = [_answer(line, f"{path}:{at}", kinds) for at, line in enumerate(lines, 1) if line.strip()]
    if not answers:
        raise AnswersError(f"{path} holds no answer; write one JSON object a line")
    return answers


def score_answers(answers: list[Answer]) -> list[Scored]:
    return [Scored(answer, score(answer.question, answer.text)) for answer in answers]


def agreements(scored: list[Scored]) -> dict[str, Agreement]:
    """For "all" and each question."""

    def of(wanted: Callable[[Scored], bool]) -> Agreement:
        return agreement(
            [
                Judgement(one.suggestion.points, one.answer.points, one.suggestion.abstains)
                for one in scored
                if wanted(one)
            ]
        )

    return {
        "all": of(lambda _: True),
        **{question: of(lambda one, q=question: one.answer.question == q) for question in QUESTIONS},  # type: ignore[misc]
    }


def _kinds(path: Path) -> dict[str, str]:
    if not path.is_file():
        return {}
    kinds = {}
    for line in filter(str.strip, path.read_text(encoding="utf-8").splitlines()):
        try:
            record = json.loads(line)
            kinds[str(record["id"])] = str(record["category"])
        except (ValueError, KeyError, TypeError):
            raise AnswersError(
                f"{path} has a line without id and category: {line[:60]!r}; correct or remove it"
            ) from None
    return kinds


def _answer(line: str, where: str, kinds: dict[str, str]) -> Answer:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        raise AnswersError(f"{where} is no JSON; write one object a line") from None
    if not isinstance(record, dict):
        raise AnswersError(f"{where} is no JSON object; write one object a line")
    if missing := [field for field in _FIELDS if field not in record]:
        raise AnswersError(f"{where} has no {missing[0]!r}; an answer needs {', '.join(_FIELDS)}")
    if record["question"] not in QUESTIONS:
        raise AnswersError(
            f"{where}: unknown question {record['question']!r:.40}; choose one of {', '.join(QUESTIONS)}"
        )
    if not isinstance(record["text"], str):
        raise AnswersError(f"{where}: text is {record['text']!r:.40}; write a string")
    points = record["points"]
    if isinstance(points, bool) or points not in [half / 2 for half in range(int(2 * MAXIMUM) + 1)]:
        raise AnswersError(f"{where}: points is {points!r:.40}; a label is 0, 0.5, 1, 1.5 or 2")
    id = str(record["id"])
    return Answer(id, record["question"], record["text"], float(points), kinds.get(id) or _kind(record))


def _kind(record: dict[str, Any]) -> str:
    return str(
        record.get("kind") or record.get("veto") or ("factual_error" if record.get("factual_error") else "no flag")
    )
