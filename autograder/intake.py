"""From the folder that a student handed in to notebooks that can be graded, and what a person should know of it."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
from nbformat import NotebookNode

MAX_BYTES = 20 << 20
"""A notebook of the course filled in takes well under 1 MiB."""


@dataclass(frozen=True)
class Note:
    """One sentence for a person. `kind` is "refused", "repaired", "edited" or "flagged"."""

    kind: str
    text: str
    notebook: str = ""
    cell: str = ""
    line: int = 0


@dataclass
class Taken:
    """The notebooks of a submission by the name of the released one, without ``.ipynb``."""

    notebooks: dict[str, NotebookNode] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)


def intake(path: Path, student: str) -> Taken:
    """Read the notebooks in the folder `path`. What can't be read is told in a note and raises nothing."""
    taken = Taken()
    for file in sorted(path.glob("*.ipynb")):
        try:
            taken.notebooks[file.stem] = _read(file)
        except (OSError, ValueError) as error:
            taken.notes.append(Note("refused", f"{file.name} {error}", notebook=file.stem))
    return taken


def _read(path: Path) -> NotebookNode:
    """Without following a link, and never more than MAX_BYTES. Raises OSError, or ValueError with what is wrong."""
    if not stat.S_ISREG(path.lstat().st_mode):
        raise ValueError("is no file of its own (a link, a folder, a pipe or a socket)")
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ValueError(f"is larger than {MAX_BYTES >> 20} MiB: clear its outputs and hand it in again")
    try:
        notebook: NotebookNode = nbformat.reads(data.decode("utf-8-sig"), as_version=4)  # type: ignore[no-untyped-call]
        nbformat.validate(notebook)
    except Exception as error:
        raise ValueError(f"is no notebook ({type(error).__name__})") from None
    return notebook
