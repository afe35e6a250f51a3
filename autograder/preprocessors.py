"""What nbgrader does in this course beyond its own: thin adapters that nbgrader_config.py names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbgrader import utils
from nbgrader.preprocessors import ClearSolutions, NbGraderPreprocessor
from traitlets import List, Unicode


class ClearSolutionsWithStubs(ClearSolutions):
    """nbgrader's ClearSolutions, except that a cell may bring its own stub: the lines of metadata ``minivllm.stub``.

    nbgrader knows one stub a language. A fill-in exercise has its blanks (``need = ______``), and a manually graded
    answer has a template in the language of its edition.
    """

    def preprocess_cell(
        self, cell: NotebookNode, resources: dict[str, Any], index: int
    ) -> tuple[NotebookNode, dict[str, Any]]:
        own = cell.metadata.pop("minivllm", {}).get("stub")
        if own is None:
            super().preprocess_cell(cell, resources, index)
            return cell, resources
        usual = {name: getattr(self, name) for name in ("code_stub", "text_stub")}
        stub = "\n".join(own)
        self.code_stub, self.text_stub = {resources["language"]: stub}, stub
        try:
            super().preprocess_cell(cell, resources, index)
        finally:
            self.code_stub, self.text_stub = usual["code_stub"], usual["text_stub"]
        return cell, resources


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


class StderrIsNoFailure(NbGraderPreprocessor):
    """Lets a right answer warn or log: nbgrader takes any output on stderr for a failed test. Comes after Execute."""

    def preprocess_cell(
        self, cell: NotebookNode, resources: dict[str, Any], index: int
    ) -> tuple[NotebookNode, dict[str, Any]]:
        if cell.cell_type == "code" and utils.is_grade(cell):
            for output in cell.outputs:
                if output.output_type == "stream":
                    output.name = "stdout"
        return cell, resources
