"""What nbgrader keeps in autograded/ is made harmless on disk, so that it does not matter which tool shows it."""

from __future__ import annotations

from collections.abc import Set
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbgrader import utils
from nbgrader.preprocessors import NbGraderPreprocessor
from traitlets import List, Unicode

from autograder.intake.harmless import as_text, harmless, pictures

KERNELSPEC = {"name": "python3", "display_name": "Python 3", "language": "python"}


class ShowAsText(NbGraderPreprocessor):
    """For nbgrader's own autograde: see `as_text_alone`."""

    course_directory = Unicode(help="folder of the released editions").tag(config=True)
    editions = List(Unicode(), help="folder names of the editions").tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: dict[str, Any]) -> tuple[NotebookNode, dict[str, Any]]:
        place = resources["nbgrader"]
        return as_text_alone(nb, self._own(Path(place["assignment"]) / f"{place['notebook']}.ipynb")), resources

    def _own(self, released: Path) -> set[str]:
        paths = [Path(self.course_directory) / edition / released for edition in self.editions]
        notebooks = [nbformat.read(path, as_version=4) for path in paths if path.is_file()]  # type: ignore[no-untyped-call]
        return {cell.source for notebook in notebooks for cell in notebook.cells}


def as_text_alone(nb: NotebookNode, own: Set[str]) -> NotebookNode:
    """Leaves of a graded notebook the course's `own` cells, the students' answers as text, and what the tests said.

    Widget state, attachments, metadata and outputs of any other run go. Changes `nb` and returns it.
    """
    nb.metadata = nbformat.from_dict({"kernelspec": KERNELSPEC})  # type: ignore[no-untyped-call]
    for cell in nb.cells:
        cell.metadata = nbformat.from_dict({"nbgrader": cell.metadata.nbgrader} if _is_known(cell) else {})  # type: ignore[no-untyped-call]
        attachments = pictures(cell.pop("attachments", {}))
        if attachments:
            cell.attachments = attachments
        if cell.cell_type == "code":
            cell.outputs = [_text_of(output) for output in cell.outputs] if _is_known(cell) else []
        elif cell.cell_type == "raw":
            cell.cell_type, cell.source = "markdown", as_text(cell.source)
        elif cell.source not in own:
            cell.source = harmless(cell.source, attachments)
    return nb


def _is_known(cell: NotebookNode) -> bool:
    return bool(utils.is_grade(cell) or utils.is_solution(cell))


def _text_of(output: NotebookNode) -> NotebookNode:
    if "data" in output:
        output.data = {"text/plain": str(output.data.get("text/plain", ""))}
        output.metadata = {}
    return output
