"""What an instructor has decided by hand survives regrading: nbgrader keeps the points, but would ask again.

nbgrader marks a cell with manual points as one that needs a person whenever it is autograded. It does need one if the
answer has changed, and only then.
"""

from __future__ import annotations

from pathlib import Path

from nbgrader.api import Gradebook, MissingEntry

from autograder.submission import read

Reviewed = dict[tuple[str, str], str]
"""The answers with manual points that no longer wait for a person: their text by notebook and grade id."""


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
    return {
        (path.stem, cell.metadata["nbgrader"]["grade_id"]): cell.source
        for path in autograded.glob("*.ipynb")
        for cell in read(path).cells
        if cell.metadata.get("nbgrader", {}).get("grade_id")
    }
