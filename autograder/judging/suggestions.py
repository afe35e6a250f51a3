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
from autograder.judging.rubric import findings
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
    digest: str
    """Of the text that it is about."""

    @classmethod
    def of(cls, question: str, text: str, language: str) -> Suggested:
        """`question` is Q1, Q2, Q3, or `FINDINGS`, for which points are not suggested."""
        if question == FINDINGS:
            return cls(None, 0.0, None, 0.0, "", harmless(findings.find(text).comment(language)), digest(text))
        found = score(question, text)
        sure = (UNSURE if found.abstains else SURE)[language].format(confidence=found.confidence)
        comment = harmless(f"{found.comment(language)}\n\n{sure}")
        points = None if found.abstains else found.points
        chain, veto = found.dimensions["chain"].label, found.veto or ""
        return cls(points, found.points, found.confidence, chain, veto, comment, digest(text))

    @classmethod
    def of_pictures(cls, count: int, text: str, language: str) -> Suggested:
        """Nothing is suggested for an answer with pictures."""
        return cls(None, 0.0, None, 0.0, "", PICTURES[language].format(count=count), digest(text))


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


def suggest(notebook: NotebookNode, known: dict[str, dict[str, Any]] | None = None) -> dict[str, dict[str, Any]]:
    """Suggestions for the answers in `notebook` by grade id, as JSON data; those `known` stay where the text did."""
    language, suggestions = language_of(notebook), {}
    for cell in notebook.cells:
        grade_id = cell.metadata.get("nbgrader", {}).get("grade_id")
        if not utils.is_solution(cell) or grade_id not in QUESTIONS:
            continue
        if pictures := cell.metadata.get("minivllm", {}).get("pictures"):
            suggestions[grade_id] = asdict(Suggested.of_pictures(pictures, cell.source, language))
            continue
        before = (known or {}).get(grade_id, {})
        same = before.get("digest") == digest(cell.source)
        suggestions[grade_id] = before if same else asdict(Suggested.of(QUESTIONS[grade_id], cell.source, language))
    return suggestions
