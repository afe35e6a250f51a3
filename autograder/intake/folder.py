"""The files that a student handed in: found without following links, within bounds, and named so that a report may."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from autograder.intake.notes import Note, shown

MAX_BYTES = 32 << 20
"""A notebook of the course filled in takes well under 1 MiB; pictures and long outputs make it larger."""
MAX_FOUND = 2_000
MAX_NOTEBOOKS = 40
MAX_DEPTH = 4
ARCHIVES = (".zip", ".rar", ".7z", ".tar", ".gz", ".tgz")
SPECIAL = {
    stat.S_IFLNK: "a link, which is not followed",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
}


class Unreadable(Exception):
    """The text says what the file is or lacks."""


@dataclass(frozen=True)
class File:
    """A file that may be a notebook. `name` is fit to print; `place` are the folders above it inside the submission."""

    path: Path
    name: str
    place: tuple[str, ...] = ()
    changed: float = 0.0

    @property
    def is_hidden(self) -> bool:
        return any(part.startswith(".") or part == "__MACOSX" for part in (*self.place, self.path.name))

    @property
    def says_notebook(self) -> bool:
        return ".ipynb" in self.path.name.lower()

    def read(self) -> bytes:
        """Raises Unreadable."""
        try:
            with open(os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    raise Unreadable("is no regular file")
                data = file.read(MAX_BYTES + 1)
        except OSError as error:
            raise Unreadable(f"can't be read ({error.strerror})") from None
        except MemoryError:
            raise Unreadable("takes too much memory to read") from None
        if len(data) > MAX_BYTES:
            raise Unreadable(f"is larger than {MAX_BYTES >> 20} MiB: clear its outputs and hand it in again")
        return data


def files(root: Path) -> tuple[list[File], list[Note]]:
    """The files that may be notebooks, and what is to be said of the others."""
    found: list[File] = []
    notes: list[Note] = []
    waiting: list[tuple[Path, tuple[str, ...]]] = [(root, ())]
    seen = 0
    while waiting:
        folder, place = waiting.pop(0)
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    seen += 1
                    if seen > MAX_FOUND:
                        notes.append(Note("flagged", f"more than {MAX_FOUND} files were handed in: not all were read"))
                        return _sorted(found, notes)
                    file, note = _look(entry, place)
                    found += [file] if file else []
                    notes += [note] if note else []
                    if entry.is_dir(follow_symlinks=False) and len(place) < MAX_DEPTH:
                        waiting.append((Path(entry.path), (*place, entry.name)))
        except OSError as error:
            name = shown("/".join(place)) or "the submission's folder"
            notes.append(Note("refused", f"{name} can't be read ({error.strerror})"))
    return _sorted(found, notes)


def _sorted(found: list[File], notes: list[Note]) -> tuple[list[File], list[Note]]:
    found.sort(key=lambda file: (file.is_hidden, len(file.place), not file.says_notebook, os.fsencode(file.path)))
    if len(found) > MAX_NOTEBOOKS:
        left = sum(file.says_notebook for file in found[MAX_NOTEBOOKS:])
        notes += [Note("flagged", f"{left} more notebooks were handed in and not read")] if left else []
    return found[:MAX_NOTEBOOKS], sorted(notes, key=lambda note: (note.kind != "refused", note.text))


def _look(entry: os.DirEntry[str], place: tuple[str, ...]) -> tuple[File | None, Note | None]:
    name = shown("/".join((*place, entry.name)))
    notebook = ".ipynb" in entry.name.lower() and not entry.name.startswith(".")
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError as error:
        return None, Note("refused", f"{name} can't be read ({error.strerror})")
    kind = stat.S_IFMT(status.st_mode)
    if kind != stat.S_IFREG:
        what = SPECIAL.get(kind, "a device")
        return None, Note("refused", f"{name} is {what}: hand in the file itself") if notebook else None
    file = File(Path(entry.path), name, place, status.st_mtime)
    suffix = os.path.splitext(entry.name)[1].lower()
    if suffix in ARCHIVES and not file.is_hidden:
        return None, Note("refused", f"{name} is an archive: unpack it and hand in the .ipynb files themselves")
    if file.says_notebook or suffix in ("", ".json", ".txt"):
        return file, None
    return None, None
