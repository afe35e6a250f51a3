"""A whole submission to be handed in: the lesson's notebooks with or without answers, in their folders."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from autograder.intake.intake import Taken, intake
from autograder.intake.notes import Note
from tests.autograder.classroom import LESSON
from tests.autograder.intake.solved import Notebook, of, released, solved, source

ONE, TWO, FOUR = "1-budget-planner", "2-prefix-match", "4-preemption"
FINDINGS = "5-on-the-gpu"
QUESTIONS = {"q1_answer": ONE, "q2_answer": TWO, "q3_answer": FOUR}


def essay(topic: str) -> str:
    return (
        f"**Objects:** the {topic} is held by `Request`.\n\n**State changes:** a step adds to the {topic}.\n\n"
        f"**Chain:** the scheduler reads the {topic} and decides."
    )


TEXTS = {"q1_answer": essay("gap"), "q2_answer": essay("hit"), "q3_answer": essay("victim")}
FOUND = "**Correctness invariant:** same tokens.\n\n**Performance boundary:** memory.\n\n**Needs a benchmark:** TTFT."


def lesson(edition: str = "en", blank: tuple[str, ...] = ()) -> dict[str, Notebook]:
    """The graded notebooks with their answers, but for the `blank` ones."""
    found = {ONE: solved(edition), TWO: released(edition, TWO), FOUR: released(edition, FOUR)}
    found[FINDINGS] = released(edition, FINDINGS)
    of(found[FINDINGS], "findings")["source"] = FOUND
    for grade_id, name in QUESTIONS.items():
        of(found[name], grade_id)["source"] = TEXTS[grade_id]
    for name, notebook in found.items():
        fresh = released(edition, name)
        for cell in notebook["cells"]:
            grade_id = cell["metadata"].get("nbgrader", {}).get("grade_id")
            if grade_id in blank:
                cell["source"] = of(fresh, grade_id)["source"]
    return found


def write(folder: Path, files: Mapping[str, Notebook | bytes | str]) -> Path:
    """Files by their paths below the lesson's folder, notebooks without their ending. Gives that folder."""
    place = folder / LESSON
    place.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        path = place / (f"{name}.ipynb" if isinstance(content, dict) else name)
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(content) if isinstance(content, dict) else content
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return place


def take(folder: Path, files: Mapping[str, Any]) -> Taken:
    return intake(write(folder, files), "student")


def answer(taken: Taken, grade_id: str) -> str:
    name = QUESTIONS.get(grade_id) or (FINDINGS if grade_id == "findings" else ONE)
    return source(taken.notebooks[name], grade_id)


def needs(taken: Taken) -> list[Note]:
    return [note for note in taken.notes if note.needs_person]


def of_cell(taken: Taken, grade_id: str) -> list[Note]:
    return [note for note in needs(taken) if note.cell == grade_id]
