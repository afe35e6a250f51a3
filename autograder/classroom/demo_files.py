"""What the demo's students do to their notebooks: files renamed, broken off or in odd places, cells lost or added."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from autograder.paths import CLONE

LESSON = "lesson-2"
GRADED = ("1-budget-planner", "2-prefix-match", "4-preemption", "5-on-the-gpu")
ESSAYS = {"2-prefix-match": "q2_answer", "4-preemption": "q3_answer"}
MARK = re.compile(r"^[ \t]*### (?:BEGIN|END) SOLUTION\n?", flags=re.MULTILINE)


def answered(name: str, edition: str) -> NotebookNode:
    """The released notebook with the model answers in it."""
    notebook = read("course", name, edition)
    source = {cell.id: cell.source for cell in read("build/source", name, edition).cells}
    for cell in notebook.cells:
        if cell.metadata.get("nbgrader", {}).get("solution"):
            cell.source = MARK.sub("", source[cell.id]).strip()
    return notebook


def leave_blank(notebook: NotebookNode, name: str, edition: str, grade_ids: set[str]) -> None:
    released = {cell.id: cell.source for cell in read("course", name, edition).cells}
    for cell in notebook.cells:
        if cell.metadata.get("nbgrader", {}).get("grade_id") in grade_ids:
            cell.source = released[cell.id]


def read(place: str, name: str, edition: str) -> NotebookNode:
    notebook: NotebookNode = nbformat.read(CLONE / place / edition / LESSON / f"{name}.ipynb", as_version=4)  # type: ignore[no-untyped-call]
    return notebook


def _planner(folder: Path) -> Path:
    return folder / f"{GRADED[0]}.ipynb"


def rename(folder: Path) -> None:
    _planner(folder).rename(folder / f"{GRADED[0]} (1).ipynb")


def truncate(folder: Path) -> None:
    for path in folder.glob("*.ipynb"):
        path.write_bytes(path.read_bytes()[:1000])


def link(folder: Path) -> None:
    _planner(folder).unlink()
    _planner(folder).symlink_to("/etc/passwd")


def delete_tests(folder: Path) -> None:
    _change(folder, lambda cell: [] if cell.metadata.get("nbgrader", {}).get("locked") else [cell])


def lose_metadata(folder: Path) -> None:
    def bare(cell: NotebookNode) -> list[NotebookNode]:
        cell.metadata = nbformat.from_dict({})  # type: ignore[no-untyped-call]
        return [cell]

    _change(folder, bare)


def code_in_other_cells(folder: Path) -> None:
    """The planner asks a table that is filled in a loop, in a cell of the student's own."""
    table = "order = {}\nfor place, status in enumerate(['running', 'waiting']):\n    order[status] = place"

    def spread(cell: NotebookNode) -> list[NotebookNode]:
        if _grade_id(cell) != "unified_token_plan":
            return [cell]
        first = cell.source.index("    ordered = ")
        then = cell.source.index("    plan = {}")
        ordered = "    ordered = [request for status in order for request in requests if request['status'] == status]\n"
        cell.source = cell.source[:first] + ordered + cell.source[then:]
        return [_code(table), cell]

    _change(folder, spread)


def newer_python(folder: Path) -> None:
    """An f-string with the same quotes inside, as Python 3.12 allows."""
    label = 'def label(request):\n    return f"{request["id"]}"'

    def use(cell: NotebookNode) -> list[NotebookNode]:
        if _grade_id(cell) != "unified_token_plan":
            return [cell]
        cell.source = cell.source.replace('plan[request["id"]]', "plan[label(request)]")
        return [_code(label), cell]

    _change(folder, use)


def own_module(folder: Path) -> None:
    gap = "def gap(request):\n    return request['total_with_spec'] - request['computed']\n"
    (folder / "helpers.py").write_text(gap)

    def use(cell: NotebookNode) -> list[NotebookNode]:
        if _grade_id(cell) == "unified_token_plan":
            own = 'request["total_with_spec"] - request["computed"]'
            cell.source = "from helpers import gap\n" + cell.source.replace(f"need = {own}", "need = gap(request)")
        return [cell]

    _change(folder, use)


def all_in_one_notebook(folder: Path) -> None:
    """Q2 and Q3 are answered below Q1; their own notebooks are blank."""
    texts = {grade_id: _answer(folder / f"{name}.ipynb", grade_id) for name, grade_id in ESSAYS.items()}
    for name, grade_id in ESSAYS.items():
        _leave_as_released(folder / f"{name}.ipynb", {grade_id})
    below = [nbformat.v4.new_markdown_cell(f"## {id[:2].upper()}\n{text}") for id, text in texts.items()]  # type: ignore[no-untyped-call]
    _change(folder, lambda cell: [cell, *below] if _grade_id(cell) == "q1_answer" else [cell])


def q1_in_comments(folder: Path) -> None:
    text = _answer(_planner(folder), "q1_answer")
    _leave_as_released(_planner(folder), {"q1_answer"})
    comment = _code("\n".join(f"# {line}" for line in ["Q1", *text.splitlines()]))
    _change(folder, lambda cell: [cell, comment] if _grade_id(cell) == "unified_token_plan" else [cell])


def blank_above_filled(folder: Path) -> None:
    """The filled notebooks lie in `lesson-2 (1)`, and blank ones where they belong."""
    folder.rename(folder.with_name(f"{folder.name} (1)"))
    folder.mkdir()
    for name in GRADED:
        (folder / f"{name}.ipynb").write_bytes((CLONE / "course" / "en" / LESSON / f"{name}.ipynb").read_bytes())


def two_versions(folder: Path) -> None:
    data = _planner(folder).read_text(encoding="utf-8")
    (folder / f"{GRADED[0]}-copy.ipynb").write_text(data.replace("min(need, token_budget)", "need"), encoding="utf-8")


def only_a_script(folder: Path) -> None:
    code = _answer(_planner(folder), "unified_token_plan")
    for path in folder.glob("*.ipynb"):
        path.unlink()
    (folder / "planner.py").write_text(code, encoding="utf-8")


def photo_of_an_answer(folder: Path) -> None:
    import base64
    import io

    from PIL import Image

    file = io.BytesIO()
    Image.effect_noise((1600, 1200), 60).convert("RGB").save(file, "PNG")
    photo = base64.b64encode(file.getvalue()).decode("ascii")

    def put(cell: NotebookNode) -> list[NotebookNode]:
        if _grade_id(cell) == "q1_answer":
            cell.source = "![my answer](attachment:photo.png)"
            cell.attachments = nbformat.from_dict({"photo.png": {"image/png": photo}})  # type: ignore[no-untyped-call]
        return [cell]

    _change(folder, put)


def lessons_own_words(folder: Path) -> None:
    """The longest paragraphs of the notebook, pasted as the answer."""
    prose = [cell.source for cell in read("course", GRADED[0], "en").cells if cell.cell_type == "markdown"]
    longest = sorted((part for text in prose for part in text.split("\n\n")), key=len, reverse=True)[:3]

    def paste(cell: NotebookNode) -> list[NotebookNode]:
        if _grade_id(cell) == "q1_answer":
            cell.source = "\n\n".join(longest)
        return [cell]

    _change(folder, paste)


def deep_folders(folder: Path) -> None:
    """1,500 levels; made one by one, as no path may be that long."""
    here = os.open(folder, os.O_RDONLY)
    for _ in range(1_500):
        os.mkdir("d", dir_fd=here)
        there = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = there
    os.close(here)


def data_beside(folder: Path) -> None:
    """4 GiB beside the notebooks (that take no room on the disk), and a virtual environment."""
    with (folder / "model.bin").open("wb") as file:
        file.truncate(4 << 30)
    packages = folder / ".venv" / "lib"
    packages.mkdir(parents=True)
    for number in range(3_000):
        (packages / f"module_{number}.py").touch()


def spaces_in_an_answer(folder: Path) -> None:
    def fill(cell: NotebookNode) -> list[NotebookNode]:
        if _grade_id(cell) == "q1_answer":
            cell.source += " " * 300_000 + "end"
        return [cell]

    _change(folder, fill)


def _grade_id(cell: NotebookNode) -> str:
    return str(cell.metadata.get("nbgrader", {}).get("grade_id", ""))


def _code(source: str) -> NotebookNode:
    cell: NotebookNode = nbformat.v4.new_code_cell(source)  # type: ignore[no-untyped-call]
    return cell


def _answer(path: Path, grade_id: str) -> str:
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    return next(str(cell.source) for cell in notebook.cells if _grade_id(cell) == grade_id)


def _leave_as_released(path: Path, grade_ids: set[str]) -> None:
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    leave_blank(notebook, path.stem, "en", grade_ids)
    nbformat.write(notebook, path)  # type: ignore[no-untyped-call]


def _change(folder: Path, change: Callable[[NotebookNode], list[NotebookNode]]) -> None:
    notebook = nbformat.read(_planner(folder), as_version=4)  # type: ignore[no-untyped-call]
    notebook.cells = [cell for old in notebook.cells for cell in change(old)]
    nbformat.write(notebook, _planner(folder))  # type: ignore[no-untyped-call]


DAMAGES: dict[str, Callable[[Path], None]] = {
    each.__name__: each
    for each in (
        *(rename, truncate, link, delete_tests, lose_metadata),
        *(code_in_other_cells, newer_python, own_module),
        *(all_in_one_notebook, q1_in_comments, blank_above_filled, two_versions, only_a_script, photo_of_an_answer),
        lessons_own_words,
        *(deep_folders, data_beside, spaces_in_an_answer),
    )
}
