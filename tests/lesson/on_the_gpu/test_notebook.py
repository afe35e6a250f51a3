"""The findings of 5-on-the-gpu wait for a person."""

import os
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbgrader.api import Gradebook
from nbgrader.apps import NbGraderAPI
from traitlets.config import Config

from autograder.paths import CLONE
from autograder.release.course import configure, edition_of, write_notebook
from tests.lesson.notebooks import LANGUAGES
from tests.lesson.on_the_gpu.student import NAME


@pytest.mark.parametrize("edition", LANGUAGES)
def test_the_findings_wait_for_a_person_and_carry_no_points(
    edition: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With real nbgrader, and the prose and the answer cell alone: the code would run for a minute."""
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)  # nbgrader starts alembic by name
    notebook = edition_of(CLONE / "solutions" / "lesson-2" / f"{NAME}.md", edition)
    notebook.cells = [cell for cell in notebook.cells if cell.cell_type == "markdown"]
    write_notebook(notebook, tmp_path / "source" / "lesson-2" / f"{NAME}.ipynb")
    config = Config()
    configure(config)
    config.CourseDirectory.root = str(tmp_path)
    config.CourseDirectory.db_url = f"sqlite:///{tmp_path / 'gradebook.db'}"
    config.BlankInAnyEdition.course_directory = str(tmp_path / "released")
    api = NbGraderAPI(config=config)
    assert api.generate_assignment("lesson-2")["success"]
    path = tmp_path / "release" / "lesson-2" / f"{NAME}.ipynb"
    released: Any = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    for name, text in {"writer": "**A:** a finding", "blank": None}.items():
        (cell,) = [cell for cell in released.cells if "nbgrader" in cell.metadata]
        before = cell.source
        cell.source = text or before
        write_notebook(released, tmp_path / "submitted" / name / "lesson-2" / f"{NAME}.ipynb")
        cell.source = before
        assert api.autograde("lesson-2", name)["success"]
    with Gradebook(f"sqlite:///{tmp_path / 'gradebook.db'}") as gradebook:
        grades = {name: gradebook.find_grade("findings", NAME, "lesson-2", name) for name in ("writer", "blank")}
        assert {name: (g.needs_manual_grade, g.score, g.max_score) for name, g in grades.items()} == {
            "writer": (True, 0, 0),
            "blank": (False, 0, 0),
        }
