"""What a student finds in the place of a solution."""

from __future__ import annotations

from typing import Any

from nbformat import NotebookNode
from nbgrader.preprocessors import ClearSolutions


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
