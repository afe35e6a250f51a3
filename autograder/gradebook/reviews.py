"""What an instructor has decided by hand survives regrading: nbgrader keeps the points, but would ask again.

nbgrader marks a cell with manual points as one that needs a person whenever it is autograded. It does need one if the
answer has changed, and only then.
"""

from __future__ import annotations

from pathlib import Path

from nbgrader.api import Gradebook, MissingEntry

from autograder.classroom.submission import read
from autograder.judging.points import PARTS

TESTED = {name: part.answer for part in PARTS for name in part.cells if name != part.answer}
"""Test cells by grade id, and the filled-in cell that each is about."""
Reviewed = dict[tuple[str, str], tuple[str, ...]]
"""The cells with manual points that no longer wait for a person, by notebook and grade id: their text and, if they are
tests, that of the answer and of the cell before it, where what it uses stands (`autograder.intake.transplant`)."""


def reviewed(gradebook: Gradebook, lesson: str, student: str, autograded: Path) -> Reviewed:
    try:
        submission = gradebook.find_submission(lesson, student)
    except MissingEntry:
        return {}
    sources = _sources(autograded)
    done = [
        (notebook.name, grade.name)
        for notebook in submission.notebooks
        for grade in notebook.grades
        if grade.manual_score is not None and not grade.needs_manual_grade
    ]
    return {place: sources[place] for place in done if place in sources}


def keep(gradebook: Gradebook, lesson: str, student: str, autograded: Path, before: Reviewed) -> None:
    sources = _sources(autograded) if before else {}
    for (notebook, grade_id), source in before.items():
        if sources.get((notebook, grade_id)) == source:
            gradebook.find_grade(grade_id, notebook, lesson, student).needs_manual_grade = False
    gradebook.db.commit()


def _sources(autograded: Path) -> Reviewed:
    found: Reviewed = {}
    for path in autograded.glob("*.ipynb"):
        cells = read(path).cells
        places = {
            grade_id: place
            for place, cell in enumerate(cells)
            if (grade_id := cell.metadata.get("nbgrader", {}).get("grade_id"))
        }
        for grade_id, place in places.items():
            answer = places.get(TESTED.get(grade_id, ""))
            tested = cells[max(0, answer - 1) : answer + 1] if answer is not None else []
            found[path.stem, grade_id] = tuple(each.source for each in (cells[place], *tested))
    return found
