"""Suggested points for the answers that a person reads, from `autograder.judging.rubric` into the gradebook.

A suggestion never takes an answer out of the queue: ``needs_manual_grade`` stays set until a person has given points.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from nbformat import NotebookNode
from nbgrader import utils

from autograder.intake.harmless import harmless
from autograder.judging.rubric import copied, findings
from autograder.judging.rubric.scorer import score

FINDINGS = "findings"
"""The grade id of the three findings: no points, and a person confirms them."""
QUESTIONS = {"q1_answer": "Q1", "q2_answer": "Q2", "q3_answer": "Q3", FINDINGS: FINDINGS}
"""The rubric of a cell, by grade id."""
HAN = re.compile("[\u4e00-\u9fff]")
SURE = {"en": "Confidence {confidence:.0%}.", "zh": "置信度 {confidence:.0%}。"}
UNSURE = {
    "en": "Confidence {confidence:.0%}: too unsure to fill in points. A person has to read this answer closely.",
    "zh": "置信度 {confidence:.0%}：把握不足，不填分。这份答案需要由人细读。",
}
PICTURES = {
    "en": "The answer has pictures ({count}), which no scorer reads: a person has to look at them.",
    "zh": "这份答案带有图片（{count} 张），评分程序看不懂图片：需要由人来看。",
}


@dataclass(frozen=True)
class Suggested:
    """What is suggested for one answer. Without `points` the scorer abstains."""

    points: float | None
    guess: float
    confidence: float | None
    chain: float
    veto: str
    comment: str
    """For the person who reads the answer."""
    why: str
    """The same for the student, once a person has given these points."""

    @classmethod
    def of(cls, question: str, text: str, language: str) -> Suggested:
        """`question` is Q1, Q2, Q3, or `FINDINGS`, for which points are not suggested."""
        if question == FINDINGS:
            source = copied.find(text)
            told = "\n".join([findings.find(text).comment(language), *([source.says[language]] if source else [])])
            return cls(None, 0.0, None, 0.0, "", harmless(told), _why(told))
        found = score(question, text)
        told = found.comment(language)
        sure = (UNSURE if found.abstains else SURE)[language].format(confidence=found.confidence)
        points = None if found.abstains else found.points
        chain, veto = found.dimensions["chain"].label, found.veto or ""
        return cls(points, found.points, found.confidence, chain, veto, harmless(f"{told}\n\n{sure}"), _why(told))

    @classmethod
    def of_pictures(cls, count: int, language: str) -> Suggested:
        """Nothing is suggested for an answer with pictures."""
        return cls(None, 0.0, None, 0.0, "", PICTURES[language].format(count=count), "")


def _why(told: str) -> str:
    """Without the first line, which says that it is a suggestion."""
    return harmless(told.partition("\n")[2])


def digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def language_of(notebook: NotebookNode) -> str:
    """The edition that a notebook is of: "zh" if most of the cells that no student writes in are Chinese."""
    prose = [cell.source for cell in notebook.cells if cell.cell_type == "markdown" and not utils.is_solution(cell)]
    chinese = sum(bool(HAN.search(source)) for source in prose)
    return "zh" if chinese > len(prose) / 2 else "en"


def edition_of(notebooks: Iterable[NotebookNode]) -> str:
    """The one that most of a submission's notebooks are of."""
    languages = [language_of(notebook) for notebook in notebooks]
    return max(set(languages), key=languages.count, default="en")


def suggest(notebook: NotebookNode) -> dict[str, dict[str, Any]]:
    """Suggestions for the answers in `notebook` by grade id, as JSON data."""
    language = language_of(notebook)
    answers = {cell.metadata["nbgrader"]["grade_id"]: cell for cell in notebook.cells if utils.is_solution(cell)}
    return {
        grade_id: asdict(_of_cell(question, answers[grade_id], language))
        for grade_id, question in QUESTIONS.items()
        if grade_id in answers
    }


def _of_cell(question: str, cell: NotebookNode, language: str) -> Suggested:
    pictures = cell.metadata.get("minivllm", {}).get("pictures")
    if pictures:
        return Suggested.of_pictures(pictures, language)
    return Suggested.of(question, cell.source, language)
