"""One submission, from its folder to a record: what its tests say, and what a person should know. No gradebook here."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import shutil
import stat
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbgrader import utils

from autograder.judging import honesty
from autograder.running.cells import NO_FILES, Executed, execute
from autograder.intake.intake import MAX_BYTES, Note, intake
from autograder.judging.suggestions import edition_of, suggest
from autograder.paths import CLONE
from minivllm import cell_code, magics, newer_syntax
from minivllm.lesson import encoding, outcome

TIMESTAMP = "timestamp.txt"
GRADER = (
    CLONE / "autograder",
    *(Path(str(each.__file__)) for each in (outcome, encoding, cell_code, magics, newer_syntax)),
)


@dataclass
class Record:
    """What came of a submission. Kept as JSON in records/STUDENT/LESSON.json of the class."""

    fingerprint: str
    seconds: float = 0.0
    notes: list[Note] = field(default_factory=list)
    notebooks: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By name: ``key`` of what was executed, ``outputs`` and ``suggestions`` by grade id."""
    edition: str = "en"
    failed: str = ""
    """Why nothing could be graded, in one sentence."""
    entered: bool = False
    """nbgrader has it in the gradebook."""

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(".draft")
        draft.write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False, default=dict), encoding="utf-8")
        draft.replace(path)

    @classmethod
    def read(cls, path: Path) -> Record | None:
        """None where there is none, or none that can be read."""
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            return cls(**{**data, "notes": [Note(**note) for note in data["notes"]]})
        except (OSError, ValueError, TypeError, KeyError):
            return None


def grade_submission(folder: Path, student: str, sources: Path, staged: Path) -> Record:
    """Take `folder` in, run its answers against the instructor's notebooks in `sources`, and write it to `staged`."""
    started = time.monotonic()
    record = Record(fingerprint(folder, sources))
    taken = intake(folder, student)
    record.edition = edition_of(taken.notebooks.values())
    record.notes = [*taken.notes, *honesty.in_files(folder), *honesty.in_text(taken.handed_in)]
    shutil.rmtree(staged, ignore_errors=True)
    staged.mkdir(parents=True)
    known = {path.stem: path for path in sources.glob("*.ipynb")}
    for name, notebook in taken.notebooks.items():
        if name not in known:
            record.notes.append(Note("refused", f"{name}.ipynb is no notebook of this lesson", notebook=name))
            continue
        nbformat.write(notebook, staged / f"{name}.ipynb")  # type: ignore[no-untyped-call]
        executed, key = executed_with(read(known[name]), notebook)
        record.notebooks[name] = {"key": key, "outputs": executed.outputs, "suggestions": suggest(notebook)}
        record.notes += honesty.in_run(name, executed.seen)
        record.notes += [replace(note, notebook=name) for note in executed.notes]
        record.notes += [Note("flagged", f"a test failed, not the answer: {fault}", name) for fault in executed.faults]
    record.notes += _take_timestamp(folder / TIMESTAMP, staged / TIMESTAMP)
    if not record.notebooks:
        reasons = [note.text for note in record.notes if note.kind == "refused"]
        record.failed = "; ".join(reasons[:3]) or "no notebook was handed in"
    record.seconds = round(time.monotonic() - started, 2)
    return record


def _take_timestamp(path: Path, staged: Path) -> list[Note]:
    """When it was handed in, as `nbgrader collect` has written it down."""
    if not os.path.lexists(path):
        return []
    try:
        text = _content(path)[:100].decode("ascii").strip()
        utils.parse_utc(text)
    except (ValueError, OverflowError):
        return [Note("flagged", f"{TIMESTAMP} says no time: whether it was late is not known")]
    staged.write_text(f"{text}\n", encoding="ascii")
    return []


def executed_with(
    master: NotebookNode, notebook: NotebookNode, files: Mapping[str, bytes] = NO_FILES
) -> tuple[Executed, str]:
    """The tests of `master` on the code in `notebook`, with the files beside it, and the key of what was run."""
    return execute(master, notebook, files), key_of(master, notebook)


def key_of(master: NotebookNode, notebook: NotebookNode) -> str:
    """Changes with the tests, the student's code and the grader."""
    cells = [[cell.cell_type, cell.source, cell.metadata.get("tags", ())] for cell in master.cells]
    own = [
        [cell.source, cell.metadata.get("tags", ()), cell.metadata.get("minivllm", {})]
        for cell in notebook.cells
        if "minivllm" in cell.metadata or utils.is_solution(cell)
    ]
    return _digest([json.dumps([grader(), cells, own], default=list).encode()])


def read(path: Path) -> NotebookNode:
    notebook: NotebookNode = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    return notebook


def fingerprint(folder: Path, sources: Path) -> str:
    """Changes with what was handed in, the instructor's notebooks and the grader."""
    parts = [grader().encode()]
    for path in [*sorted(sources.glob("*.ipynb")), *sorted(_below(folder))]:
        parts += [path.name.encode("utf-8", "surrogateescape"), _content(path)]
    return _digest(parts)


def _below(folder: Path) -> Iterable[Path]:
    for place, _, names in os.walk(folder):
        yield from (Path(place) / name for name in names[:1000])


def _content(path: Path) -> bytes:
    try:
        status = path.lstat()
        if stat.S_ISLNK(status.st_mode):
            return os.readlink(os.fsencode(path))
        if not stat.S_ISREG(status.st_mode):
            return b"special"
        if status.st_size > MAX_BYTES:
            return f"{status.st_size} {status.st_mtime_ns}".encode()
        return path.read_bytes()
    except OSError as error:  # intake tells it; it must not stop the class
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
