"""What nbgrader does in this course beyond its own: thin adapters, set up by `configure`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbgrader import utils
from nbgrader.api import Gradebook
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import Bool, List, Unicode
from traitlets.config import Config

from autograder.gradebook.shown import ShowAsText
from autograder.judging.suggestions import suggest
from autograder.paths import COURSE, EDITIONS
from autograder.running.cells import HIDDEN, execute
from autograder.running.sandbox import REMEDY, SandboxError, sandbox


def configure(c: Config) -> None:
    """What autograding and feedback need in this course, wherever the class's files are."""
    from nbgrader.converters import Autograde, GenerateFeedback

    c.Autograde.sanitize_preprocessors = [*Autograde.sanitize_preprocessors.default(), BlankInAnyEdition]
    _, *rest = Autograde.autograde_preprocessors.default()
    saved = 1 + [step.__name__ for step in rest].index("SaveAutoGrades")
    c.Autograde.autograde_preprocessors = [ExecuteTrusted, *rest[:saved], SuggestPoints, *rest[saved:], ShowAsText]
    c.GenerateFeedback.preprocessors = [HideTests, *GenerateFeedback.preprocessors.default()]
    for step in ("BlankInAnyEdition", "ShowAsText"):
        c[step].course_directory = str(COURSE)
        c[step].editions = list(EDITIONS)
    c.HTMLExporter.filters = {"markdown2html": "autograder.intake.harmless.safe_markdown"}


class BlankInAnyEdition(NbGraderPreprocessor):
    """Lets an unchanged answer of any edition count as blank (0 points, nothing to read).

    nbgrader compares an answer with the template in the gradebook, which is that of one edition. Runs after
    OverwriteCells, and needs the released notebooks of all editions.
    """

    course_directory = Unicode(help="folder of the released editions").tag(config=True)
    editions = List(Unicode(), help="folder names of the editions").tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        place = resources["nbgrader"]
        released = Path(place["assignment"]) / f"{place['notebook']}.ipynb"
        templates = {
            (cell.metadata["nbgrader"]["grade_id"], cell.source.strip())
            for edition in self.editions
            if (path := Path(self.course_directory) / edition / released).is_file()
            for cell in nbformat.read(path, as_version=4).cells  # type: ignore[no-untyped-call]
            if self._is_manual(cell)
        }
        for cell in nb.cells:
            if self._is_manual(cell) and (cell.metadata["nbgrader"]["grade_id"], cell.source.strip()) in templates:
                cell.metadata["nbgrader"]["checksum"] = utils.compute_checksum(cell)
        return nb, resources

    @staticmethod
    def _is_manual(cell: NotebookNode) -> bool:
        return bool(utils.is_grade(cell) and utils.is_solution(cell))


class ExecuteTrusted(NbGraderPreprocessor):
    """In place of nbgrader's Execute: student code runs in the sandbox, the tests here (`autograder.running.cells`)."""

    needs_sandbox = Bool(True, help="refuse where student code can't be run apart").tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        if self.needs_sandbox and not sandbox().boxed:
            raise SandboxError(f"{sandbox().lacks}: {REMEDY}")
        place = resources["nbgrader"]
        coursedir = self.parent.parent.coursedir  # of the converter
        folder = coursedir.format_path(coursedir.source_directory, ".", place["assignment"])
        master = nbformat.read(Path(folder) / f"{place['notebook']}.ipynb", as_version=4)  # type: ignore[no-untyped-call]
        outputs = execute(master, nb).outputs
        for cell in nb.cells:
            if cell.cell_type == "code" and (utils.is_grade(cell) or utils.is_solution(cell)):
                cell.outputs = outputs.get(cell.metadata["nbgrader"]["grade_id"], [])
                cell.execution_count = None
        return nb, resources


class HideTests(NbGraderPreprocessor):
    """Takes the hidden tests out of feedback. nbgrader's ClearHiddenTests stops at a student's cell with the marker."""

    def preprocess_cell(
        self, cell: NotebookNode, resources: dict[str, Any], index: int
    ) -> tuple[NotebookNode, dict[str, Any]]:
        if cell.cell_type == "code" and utils.is_grade(cell):
            cell.source = cell.source.partition(HIDDEN)[0].rstrip()
        return cell, resources


class SuggestPoints(NbGraderPreprocessor):
    """After SaveAutoGrades: suggested points become a cell's auto score and auto comment, which the formgrader shows.

    An answer left as it was released has its 0 points already.
    """

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        place = resources["nbgrader"]
        of = (place["notebook"], place["assignment"], place["student"])
        with Gradebook(place["db_url"]) as gradebook:
            for grade_id, suggestion in suggest(nb).items():
                comment = gradebook.find_comment(grade_id, *of)
                if comment.auto_comment:  # "No response."
                    continue
                grade = gradebook.find_grade(grade_id, *of)
                grade.auto_score, grade.needs_manual_grade = suggestion["points"], True
                comment.auto_comment = suggestion["comment"]
            gradebook.db.commit()
        return nb, resources
