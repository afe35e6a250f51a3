"""One submission, from its folder to what the gradebook keeps of it. No gradebook here."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbgrader import utils

from autograder.gradebook.graded import Digests, Graded, GradedCell, GradedNotebook
from autograder.gradebook.shown import as_text_alone
from autograder.intake.handing_in import TIMESTAMP, carried, for_nbgrader
from autograder.intake.intake import intake
from autograder.intake.notes import Note
from autograder.intake.released import Released, released
from autograder.judging import honesty
from autograder.judging.points import TESTED
from autograder.judging.suggestions import digest, edition_of, suggest
from autograder.paths import CLONE, COURSE
from autograder.running.cells import execute
from minivllm.lesson import encoding, outcome
from minivllm.submission import cell_code, magics, newer_syntax

GRADER = (
    CLONE / "autograder",
    *(Path(str(each.__file__)) for each in (outcome, encoding, cell_code, magics, newer_syntax)),
)
MAX_NOTES = 60
MAX_TOLD = 40  # sentences of one cell
MAX_SENTENCE = 2_000  # characters


def grade_submission(folder: Path, student: str, sources: Path, digests: Digests, course: Path = COURSE) -> Graded:
    """Take `folder` in and judge its answers with the instructor's notebooks in `sources`."""
    started = time.monotonic()
    graded = Graded(digests)
    taken = intake(folder, student, course)
    graded.edition = edition_of(taken.notebooks.values())
    names = sorted(os.listdir(folder))[:1000] if folder.is_dir() else []
    graded.notes = [*taken.notes, *honesty.in_files(names), *honesty.in_text(taken.handed_in)]
    known = {path.stem: path for path in sources.glob("*.ipynb")}
    templates = released(folder.name, course)
    for name, notebook in taken.notebooks.items():
        if name not in known:
            graded.notes.append(Note("refused", f"{name}.ipynb is no notebook of this lesson", notebook=name))
            continue
        judged, more = _judged(name, read(known[name]), notebook, templates[name], taken.files)
        graded.notebooks[name] = judged
        graded.notes += more
    written, more = carried(folder)
    graded.notes += more
    graded.handed_in_at = written.get(TIMESTAMP, b"").decode("ascii").strip()
    graded.beside = for_nbgrader(written)
    if not graded.notebooks:
        reasons = [note.text for note in graded.notes if note.kind == "refused"]
        graded.failed = "; ".join(reasons[:3]) or "no notebook was handed in"
        graded.notes += [] if reasons else [Note("refused", graded.failed)]
    graded.notes = _bounded(graded.notes)
    graded.seconds = round(time.monotonic() - started, 2)
    return graded


def _judged(
    name: str, master: NotebookNode, notebook: NotebookNode, editions: dict[str, Released], files: Mapping[str, bytes]
) -> tuple[GradedNotebook, list[Note]]:
    executed = execute(master, notebook, files)
    notes = [*honesty.in_run(name, executed.seen), *(replace(note, notebook=name) for note in executed.notes)]
    notes += [Note("flagged", f"a test failed, not the answer: {fault}", name) for fault in executed.faults]
    own = {cell.source for each in editions.values() for cell in each.notebook.cells}
    released = next(iter(editions.values()))
    masters = {cell.metadata["nbgrader"]["grade_id"]: cell for cell in master.cells if "nbgrader" in cell.metadata}
    cells = {}
    for cell in notebook.cells:
        if not (utils.is_grade(cell) or utils.is_solution(cell)):
            continue
        grade_id = cell.metadata["nbgrader"]["grade_id"]
        text = _text_of(notebook, grade_id, cell, files)
        if cell.cell_type == "code":
            cell.outputs = [nbformat.from_dict(output) for output in executed.outputs.get(grade_id, [])]  # type: ignore[no-untyped-call]
        pictures = cell.get("attachments") or cell.metadata.get("minivllm", {}).get("pictures")
        blank = utils.is_solution(cell) and released.is_blank(cell.source) and not pictures
        if utils.is_grade(cell) and not utils.is_solution(cell):
            cell.source = masters[grade_id].source  # with the hidden tests, for who reads it
            cell.metadata["nbgrader"]["checksum"] = utils.compute_checksum(cell)
        cells[grade_id] = GradedCell(*_points(cell, blank), text, blank, _told(cell))
    suggestions = {name: each for name, each in suggest(notebook).items() if not cells[name].blank}
    return GradedNotebook(as_text_alone(notebook, own), cells, suggestions), notes


def _points(cell: NotebookNode, blank: bool) -> tuple[float | None, float | None]:
    """What the tests give, and of how many."""
    if not utils.is_grade(cell):
        return None, None
    if utils.is_solution(cell):
        return (0.0 if blank else None), float(cell.metadata["nbgrader"]["points"])
    points, of = utils.determine_grade(cell)
    return float(points), of


def _text_of(notebook: NotebookNode, grade_id: str, cell: NotebookNode, files: Mapping[str, bytes]) -> str:
    """The digest of what points for this cell are about: the text, or all code that the tests ran with."""
    if grade_id not in TESTED:
        pictures = cell.get("attachments", {}), cell.metadata.get("minivllm", {}).get("pictures", 0)
        return digest(json.dumps([cell.source, *pictures]) if any(pictures) else cell.source)
    code = [_run_of(each, TESTED[grade_id]) for each in notebook.cells if each.cell_type == "code"]
    beside = {name: digest(data.decode("latin-1")) for name, data in files.items()}
    return digest(json.dumps([[each for each in code if any(each)], beside], sort_keys=True))


def _run_of(cell: NotebookNode, answer: str) -> tuple[str, str]:
    """What of a cell runs with the tests: a cell of the student's own or the answer whole, of others what was added."""
    mine = cell.metadata.get("minivllm", {})
    return cell.source if "cell" in mine or _grade_id(cell) == answer else "", mine.get("own", "")


def _grade_id(cell: NotebookNode) -> str:
    return str(cell.metadata.get("nbgrader", {}).get("grade_id", ""))


def _told(cell: NotebookNode) -> tuple[str, ...]:
    """What was printed for the student, one sentence a line, or the error."""
    if cell.cell_type != "code":
        return ()
    texts = (output.get("text") or output.get("evalue") or "" for output in cell.outputs)
    lines = (line.removeprefix("- ").strip()[:MAX_SENTENCE] for text in texts for line in text.splitlines())
    return tuple(line for line in lines if line)[:MAX_TOLD]


def _bounded(notes: list[Note]) -> list[Note]:
    if len(notes) <= MAX_NOTES:
        return notes
    ranked = sorted(notes, key=lambda note: not note.needs_person)
    return [*ranked[:MAX_NOTES], Note("flagged", f"{len(notes) - MAX_NOTES} more notes were left out")]


def read(path: Path) -> NotebookNode:
    notebook: NotebookNode = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    return notebook


@functools.cache
def grader() -> str:
    """The version of everything that decides about points."""
    below = [file for place in GRADER for file in (place, *sorted(place.rglob("*")))]
    files = [file for file in below if file.suffix in (".py", ".yaml")]
    return _digest(file.read_bytes() for file in files)


def _digest(parts: Iterable[bytes]) -> str:
    total = hashlib.sha256()
    for part in parts:
        total.update(len(part).to_bytes(8, "big") + part)
    return total.hexdigest()
