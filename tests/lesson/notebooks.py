"""The notebooks of the course as the tests run them: solved ones from solutions/, blank ones from course/."""

import re
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from nbclient import NotebookClient

from minivllm.lesson.questions import QUESTIONS

ROOT = Path(__file__).resolve().parents[2]
LANGUAGES = ("en", "zh")
Notebook = Any


def source(name: str) -> Notebook:
    """Both languages side by side, with the solutions."""
    return jupytext.read(ROOT / "solutions" / "lesson-2" / f"{name}.md", fmt="md:myst")


def released(name: str, language: str) -> Notebook:
    return nbformat.read(ROOT / "course" / language / "lesson-2" / f"{name}.ipynb", as_version=4)  # type: ignore[no-untyped-call]


def solved(name: str, language: str) -> Notebook:
    """One edition with every blank filled: predictions by the engine's own answers."""
    notebook = source(name)
    notebook.cells = [cell for cell in notebook.cells if cell.metadata.get("lang", language) == language]
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.source = filled(cell.source)
    return notebook


def filled(code: str) -> str:
    """`code` with a right answer in each blank of a prediction or a practice cell."""
    asked = re.match(r'predict\("(\w+)"', code)
    if asked:
        question = QUESTIONS[asked[1]]
        actual = question.answer().actual
        guess = list(actual.values()) if question.ordered else dict(actual)
        return f"predict({question.name!r}, {guess!r})"
    return re.sub(r'("computed"|"total_with_spec"): ______', r"\1: 9", code)


def execute(notebook: Notebook, folder: Path, *, allow_errors: bool = False) -> Notebook:
    client = NotebookClient(
        notebook,
        timeout=60,
        kernel_name="python3",
        allow_errors=allow_errors,
        resources={"metadata": {"path": str(folder)}},
    )
    return client.execute()


def printed(cell: Any) -> str:
    """What `cell` shows as text: streams, results and errors."""
    parts = []
    for output in cell.get("outputs", []):
        if output.output_type == "stream":
            parts.append(output.text)
        elif output.output_type == "error":
            parts.append(f"{output.ename}: {output.evalue}")
        else:
            parts.append(output.data.get("text/plain", ""))
    return "\n".join(parts)
