"""One submission, from its folder to what the gradebook keeps of it. No gradebook here."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import stat
import time
from collections.abc import Iterable
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbgrader import utils

from autograder.gradebook.entry import Digests, Graded, GradedCell, GradedNotebook
from autograder.gradebook.shown import as_text_alone
from autograder.intake.folder import files
from autograder.intake.intake import intake
from autograder.intake.notes import Note, shown
from autograder.intake.released import Released, released
from autograder.judging import honesty
from autograder.judging.points import TESTED
from autograder.judging.suggestions import digest, edition_of, suggest
from autograder.paths import CLONE, COURSE
from autograder.running.cells import execute_notebook
from minivllm.lesson import encoding, outcome

TIMESTAMP = "timestamp.txt"
GRADER = (CLONE / "autograder", Path(outcome.__file__), Path(encoding.__file__))
MAX_NOTES = 60
MAX_TOLD = 40  # sentences of one cell
MAX_SENTENCE = 2_000  # characters


def grade_submission(folder: Path, student: str, sources: Path, digests: Digests, course: Path = COURSE) -> Graded:
    """Take `folder` in and judge its answers with the instructor's notebooks in `sources`."""
    started = time.monotonic()
    graded = Graded(digests)
    if not folder.is_dir():
        graded.failed = _misplaced(student, folder)
        return graded
    taken = intake(folder, student, course)
    graded.edition = edition_of(taken.notebooks.values())
    graded.notes = [*taken.notes, *honesty.in_files(folder), *honesty.in_text(taken.handed_in)]
    known = {path.stem: path for path in sources.glob("*.ipynb")}
    templates = released(folder.name, course)
    for name, notebook in taken.notebooks.items():
        if name not in known:
            graded.notes.append(Note("refused", f"{name}.ipynb is no notebook of this lesson", notebook=name))
            continue
        graded.notebooks[name] = _judged(name, read(known[name]), notebook, templates[name], graded.notes)
    graded.handed_in_at, more = _timestamp(folder / TIMESTAMP)
    graded.notes += more
    if graded.handed_in_at:
        graded.beside[TIMESTAMP] = f"{graded.handed_in_at}\n".encode("ascii")
    if not graded.notebooks:
        reasons = [note.text for note in graded.notes if note.kind == "refused"]
        graded.failed = "; ".join(reasons[:3]) or "no notebook was handed in"
        graded.notes += [] if reasons else [Note("refused", graded.failed)]
    graded.notes = _bounded(graded.notes)
    graded.seconds = round(time.monotonic() - started, 2)
    return graded


def _misplaced(student: str, folder: Path) -> str:
    """There is no folder of the lesson: where else the student's notebooks lie."""
    place = f"submitted/{shown(student)}"
    found, notes = files(folder.parent)
    places = [file.place for file in found if file.says_notebook and not file.is_hidden]
    told = f"no {folder.name}/ in {place}"
    if places:
        lie = "/".join((place, *map(shown, places[0])))
        return f"{told}; notebooks lie in {lie}: move them to {place}/{folder.name}"
    return f"{told}; {notes[0].text if notes else 'no notebook was handed in'}"


def _judged(
    name: str, master: NotebookNode, notebook: NotebookNode, editions: dict[str, Released], notes: list[Note]
) -> GradedNotebook:
    executed = execute_notebook(master, notebook)
    notes += honesty.in_run(name, executed.seen)
    notes += [Note("flagged", f"a test failed, not the answer: {fault}", name) for fault in executed.faults]
    own = {cell.source for each in editions.values() for cell in each.notebook.cells}
    released = next(iter(editions.values()))
    masters = {cell.metadata["nbgrader"]["grade_id"]: cell for cell in master.cells if "nbgrader" in cell.metadata}
    cells = {}
    for cell in notebook.cells:
        if not (utils.is_grade(cell) or utils.is_solution(cell)):
            continue
        grade_id = cell.metadata["nbgrader"]["grade_id"]
        text = _text_of(notebook, grade_id, cell)
        if cell.cell_type == "code":
            cell.outputs = [nbformat.from_dict(output) for output in executed.outputs.get(grade_id, [])]  # type: ignore[no-untyped-call]
        blank = utils.is_solution(cell) and released.is_blank(cell.source) and not cell.get("attachments")
        if utils.is_grade(cell) and not utils.is_solution(cell):
            cell.source = masters[grade_id].source  # with the hidden tests, for who reads it
            cell.metadata["nbgrader"]["checksum"] = utils.compute_checksum(cell)
        cells[grade_id] = GradedCell(*_points(cell, blank), text, blank, _told(cell))
    suggestions = {name: each for name, each in suggest(notebook).items() if not cells[name].blank}
    return GradedNotebook(as_text_alone(notebook, own), cells, suggestions)


def _points(cell: NotebookNode, blank: bool) -> tuple[float | None, float | None]:
    """What the tests give, and of how many."""
    if not utils.is_grade(cell):
        return None, None
    if utils.is_solution(cell):
        return (0.0 if blank else None), float(cell.metadata["nbgrader"]["points"])
    points, of = utils.determine_grade(cell)
    return float(points), of


def _text_of(notebook: NotebookNode, grade_id: str, cell: NotebookNode) -> str:
    """The digest of what points for this cell are about: the text, or all code that the tests ran with."""
    if grade_id not in TESTED:
        return digest(json.dumps([cell.source, cell.get("attachments", {})]) if "attachments" in cell else cell.source)
    code = [
        each.source
        for each in notebook.cells
        if each.cell_type == "code"
        and (not each.metadata.get("nbgrader") or each.metadata["nbgrader"]["grade_id"] == TESTED[grade_id])
    ]
    return digest(json.dumps(code))


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


def _timestamp(path: Path) -> tuple[str, list[Note]]:
    """When it was handed in, as `nbgrader collect` has written it down."""
    if not os.path.lexists(path):
        return "", []
    try:
        text = _content(path)[:100].decode("ascii").strip()
        utils.parse_utc(text)
    except (ValueError, OverflowError):
        return "", [Note("flagged", f"{TIMESTAMP} says no time: whether it was late is not known")]
    return text, []


def read(path: Path) -> NotebookNode:
    notebook: NotebookNode = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    return notebook


def files_digest(folder: Path) -> str:
    parts = []
    for place, _, names in os.walk(folder):
        for path in sorted(Path(place) / name for name in names[:1000]):
            parts += [os.fsencode(path.relative_to(folder)), _content(path)]
    return _digest(parts)


def _content(path: Path) -> bytes:
    try:
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode):
            return os.readlink(os.fsencode(path))
        if not stat.S_ISREG(status.st_mode):
            return b"special"
        if status.st_size > 32 << 20:
            return f"{status.st_size} {status.st_mtime_ns}".encode()
        return path.read_bytes()
    except OSError as error:  # intake tells it
        return f"can't be read ({error.strerror})".encode()


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
