"""The answers that the tests score: which are for development, and which were locked away."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from autograder.judging.rubric.answers import Answer, read_answers

ROOT = Path(__file__).resolve().parents[3]
PUBLIC = ROOT / "tests" / "data" / "answers" / "public.jsonl"
PARAPHRASES = PUBLIC.with_name("paraphrases.jsonl")
SECOND = PUBLIC.with_name("second-set.jsonl")
NOTEBOOKS = {"Q1": "1-budget-planner", "Q2": "2-prefix-match", "Q3": "4-preemption"}
LOCKED = 60
LANGUAGES = ("en", "zh")


def public(*, locked: bool) -> list[Answer]:
    """The 60 answers with the smallest SHA-256 of their id, or all the others."""
    answers = read_answers(PUBLIC)
    by_hash = sorted(answers, key=lambda answer: hashlib.sha256(answer.id.encode()).hexdigest())
    kept = {answer.id for answer in by_hash[:LOCKED]}
    return [answer for answer in answers if (answer.id in kept) == locked]


def model_answer(notebook: str, grade_id: str, language: str) -> str:
    source = (ROOT / "solutions" / "lesson-2" / f"{notebook}.md").read_text(encoding="utf-8")
    cell = next(
        block
        for block in source.split("\n+++ ")
        if f'"grade_id": "{grade_id}"' in block.split("\n")[0] and f'"lang": "{language}"' in block.split("\n")[0]
    )
    return cell.partition("### BEGIN SOLUTION\n")[2].partition("### END SOLUTION")[0]


def template(notebook: str, grade_id: str, language: str) -> str:
    """What the released notebook holds before a student writes."""
    source = (ROOT / "solutions" / "lesson-2" / f"{notebook}.md").read_text(encoding="utf-8")
    head = next(
        line for line in source.splitlines() if f'"grade_id": "{grade_id}"' in line and f'"lang": "{language}"' in line
    )
    stub = re.findall(r'"stub": \[(.*?)\]', head)[0]
    return "\n".join(re.findall(r'"((?:[^"\\]|\\.)*)"', stub))
