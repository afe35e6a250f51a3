"""Write the answer edition: every notebook with its answers, run, as .ipynb and .html in both languages.

python tools/answers.py [NAME...] [--out dist/answers]

For an instructor to hand out after the deadline. It holds the model answers and no hidden test.
"""

import argparse
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbconvert import HTMLExporter

from autograder.paths import EDITIONS
from autograder.release.course import edition_of
from minivllm.lesson.predictions import QUESTIONS

ROOT = Path(__file__).resolve().parents[1]
LESSON = "lesson-2"
SOLUTIONS = ROOT / "solutions" / LESSON
NAMES = sorted(path.stem for path in SOLUTIONS.glob("*.md"))
MARK = re.compile(r"^[ \t]*### (?:BEGIN|END) SOLUTION\n?", flags=re.MULTILINE)


def answered(name: str, edition: str) -> Any:
    """The released notebook with the model answers in its cells and the engine's in its predictions, not yet run."""
    path = ROOT / "course" / edition / LESSON / f"{name}.ipynb"
    notebook: Any = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    for cell, solved in zip(notebook.cells, edition_of(SOLUTIONS / f"{name}.md", edition).cells, strict=True):
        if solved.metadata.get("nbgrader", {}).get("solution"):
            cell.source = MARK.sub("", solved.source).strip()
        elif cell.cell_type == "code":
            cell.source = filled(cell.source)
    return notebook


def filled(code: str) -> str:
    """`code` with a right answer in each blank of a prediction or of a cell that checks."""
    asked = re.match(r'predict\("(\w+)"', code)
    if asked:
        question = QUESTIONS[asked[1]]
        actual = question.answer().actual
        guess = list(actual.values()) if question.ordered else dict(actual)
        return f"predict({question.name!r}, {guess!r})"
    return re.sub(r'("computed"|"total_with_spec"): ______', r"\1: 9", code)


def run(notebook: Any) -> float:
    """Run the notebook in a folder of its own and return the seconds it took."""
    with tempfile.TemporaryDirectory() as folder:
        started = time.monotonic()
        NotebookClient(
            notebook,
            timeout=600,
            kernel_name="python3",
            resources={"metadata": {"path": folder}},
            # A kernel that is reached over TCP warns of it; this one is reached from here alone.
            extra_arguments=["--IPKernelApp.log_level=ERROR"],
        ).execute()
        return time.monotonic() - started


def write_answers(name: str, out: Path) -> float:
    """Write the notebook's answers in every language below `out` and return the seconds of its run.

    The editions have the same code cells, so it is run once and its outputs stand in each of them.
    """
    first, *others = (answered(name, edition) for edition in EDITIONS)
    seconds = run(first)
    for other in others:
        for cell, ran in zip(other.cells, first.cells, strict=True):
            if cell.cell_type == "code":
                cell.outputs, cell.execution_count = ran.outputs, ran.execution_count
    for edition, notebook in zip(EDITIONS, (first, *others), strict=True):
        folder = out / edition / LESSON
        folder.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, folder / f"{name}.ipynb")  # type: ignore[no-untyped-call]
        exporter = HTMLExporter(language_code=edition)  # type: ignore[no-untyped-call]
        html, _ = exporter.from_notebook_node(notebook, resources={"metadata": {"name": name}})
        (folder / f"{name}.html").write_text(html, encoding="utf-8")
    return seconds


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the answer edition.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)} (default: all)")
    parser.add_argument("--out", type=Path, default=ROOT / "dist" / "answers", help="default: dist/answers")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in NAMES]
    if unknown:
        parser.error(f"no notebook {unknown[0]!r}: choose of {', '.join(NAMES)}")
    for name in options.names or NAMES:
        try:
            print(f"{name:<18} {write_answers(name, options.out):6.1f} s", flush=True)
        except CellExecutionError as error:
            print(f"answers: {name} does not run: {error.ename}: {error.evalue}", file=sys.stderr)
            return 1
    print(f"in {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
