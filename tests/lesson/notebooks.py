"""The notebooks of the course as the tests run them: solved ones from solutions/, blank ones from course/."""

from pathlib import Path
from typing import Any

import jupytext
import nbformat
from nbclient import NotebookClient

from tools.answers import filled

ROOT = Path(__file__).resolve().parents[2]
LANGUAGES = ("en", "zh")
NAMES = sorted(path.stem for path in (ROOT / "solutions" / "lesson-2").glob("*.md"))
BLANK = "the blank ______ is not filled in: replace every ______ by your own expression and run the cell again"
"""What a check says to a cell that is as it was released."""
Notebook = Any


def source(name: str) -> Notebook:
    """Both languages side by side, with the solutions."""
    return jupytext.read(ROOT / "solutions" / "lesson-2" / f"{name}.md", fmt="md:myst")


def released(name: str, language: str) -> Notebook:
    return nbformat.read(ROOT / "course" / language / "lesson-2" / f"{name}.ipynb", as_version=4)  # type: ignore[no-untyped-call]


def prose(name: str, language: str) -> list[str]:
    """The markdown cells of one language, answers to a question included."""
    return [cell.source for cell in source(name).cells if cell.metadata.get("lang") == language]


def code_cells(notebook: Notebook) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def solved(name: str, language: str) -> Notebook:
    """One edition with every blank filled: predictions by the engine's own answers."""
    notebook = source(name)
    notebook.cells = [cell for cell in notebook.cells if cell.metadata.get("lang", language) == language]
    for cell in code_cells(notebook):
        cell.source = filled(cell.source)
    return notebook


def execute(notebook: Notebook, folder: Path, *, allow_errors: bool = False) -> Notebook:
    client = NotebookClient(
        notebook,
        timeout=180,
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
