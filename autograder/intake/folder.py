"""The files that a student handed in: which are read and as what, within bounds, and the digest of all of it."""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

from autograder.intake.file import MAX_BYTES, File, Unreadable
from autograder.intake.notes import Note, shown
from autograder.intake.walk import Place, Walk, ending, walk
from autograder.intake.what_files import Kind
from autograder.paths import COURSE

__all__ = ["MAX_BYTES", "File", "Folder", "Unreadable", "digest", "look", "named"]

MAX_NOTEBOOKS = 40
MAX_OTHERS = 20
"""Files that may be notebooks, but don't say so by their names."""
MAX_ALL = 256 << 20
MAX_SMALL = 1 << 20
MAX_SMALLS = 300
MAX_ALL_SMALL = 8 << 20
MAX_NAMED = 5
SPECIAL = {
    stat.S_IFLNK: "a link, which is not followed",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
}


@dataclass
class Folder:
    """What was handed in.

    Attributes:
        notebooks: files that are read as notebooks, the likeliest first.
        small: files that are read as text, or that code may read.
        others: files that are not read.
        notes: what is to be said of the rest.
    """

    notebooks: list[File] = field(default_factory=list)
    small: list[File] = field(default_factory=list)
    others: list[File] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    walk: Walk = field(default_factory=Walk)


def look(path: Path, course: Path = COURSE) -> Folder:
    """What is there for the lesson whose folder is `path`: below it, and beside it in the student's folder."""
    lessons = {each.name for each in course.glob("*/*") if each.is_dir()}
    names = {each.name for each in course.glob("*/*/*.ipynb") if each.parent.name == path.name}
    seen = walk(path.parent, _may_be_notebook, (lessons - {path.name}).__contains__)
    return _sorted_out(path.parent, path.name, seen, names)


def digest(path: Path, course: Path = COURSE) -> str:
    """Of all that `intake` sees: every name, kind and size, and the content of what it reads. The same anywhere."""
    found = look(path, course)
    total = hashlib.sha256()

    def add(*parts: object) -> None:
        total.update(repr(parts).encode("utf-8", "surrogatepass"))

    for entry in found.walk.entries:
        add(entry.place, entry.name, entry.kind, entry.size if entry.is_file else 0)
    add(found.walk.unreadable, sorted(found.walk.uncounted.items()), found.walk.is_cut)
    for file in (*found.notebooks, *found.small):
        add(file.name, file.order)
        content = hashlib.sha256()
        for chunk in file.chunks():
            content.update(chunk)
        total.update(content.digest())
    return total.hexdigest()


def _may_be_notebook(name: str) -> bool:
    return ".ipynb" in name.lower()


# --- what is read as what -------------------------------------------------------------------------------------------


def _sorted_out(root: Path, lesson: str, seen: Walk, names: set[str]) -> Folder:
    found = Folder(walk=seen, notes=_of_walk(seen, lesson))
    regular = [File(root, lesson, entry) for entry in seen.entries if entry.is_file]
    regular = [file for file in regular if file.kind is not Kind.LITTER and "__MACOSX" not in file.place]
    found.notes += _of_special(root, lesson, seen)
    may_be = [file for file in regular if file.kind is Kind.NOTEBOOK or _may_be_renamed(file)]
    may_be.sort(key=lambda file: _rank(file, names))
    said = [file for file in may_be if file.says_notebook]
    found.notebooks, left = _within(said[:MAX_NOTEBOOKS] + [f for f in may_be if not f.says_notebook][:MAX_OTHERS])
    found.notebooks = _in_order(found.notebooks, names)
    left += said[MAX_NOTEBOOKS:]
    if left := [file for file in left if file.says_notebook and not file.is_hidden]:
        told = f"{len(left)} more notebooks were handed in and not read ({named(left)})"
        found.notes.append(Note("flagged", told))
    _sort_small(found, regular)
    found.notes.sort(key=lambda note: (note.kind != "refused", note.text))
    return found


def _sort_small(found: Folder, regular: list[File]) -> None:
    taken = {file.entry for file in found.notebooks if file.says_notebook}
    size = 0
    for file in sorted(regular, key=lambda file: (file.kind is not Kind.CODE, file.is_aside, len(file.place))):
        if file.kind is Kind.NOTEBOOK or file.entry in taken or file.is_hidden:
            found.others += [file] if file.kind is not Kind.NOTEBOOK else []
            continue
        fits = file.entry.size <= MAX_SMALL and size + file.entry.size <= MAX_ALL_SMALL
        if file.kind.is_read and fits and len(found.small) < MAX_SMALLS:
            size += file.entry.size
            found.small.append(file)
        else:
            found.others.append(file)


def _rank(file: File, names: set[str]) -> tuple[object, ...]:
    is_named = any(name.removesuffix(".ipynb").lower() in file.base.lower() for name in names)
    path = os.fsencode("/".join((*file.entry.place, file.base)))
    return file.is_hidden, not file.says_notebook, not is_named, file.is_aside, len(file.place), path


def _may_be_renamed(file: File) -> bool:
    return bool(file.entry.size) and (file.kind is Kind.UNKNOWN or ending(file.base) in (".json", ".txt"))


def _within(files: list[File]) -> tuple[list[File], list[File]]:
    """Those that together are not too large to read, and the others. A file that is too large alone is named later."""
    fit: list[File] = []
    left: list[File] = []
    size = 0
    for file in files:
        size += file.entry.size if file.entry.size <= MAX_BYTES else 0
        (fit if size <= MAX_ALL else left).append(file)
    return fit, left


def _in_order(files: list[File], names: set[str]) -> list[File]:
    """With their order by time, if they do not lie under their own names in the lesson's folder."""

    def is_plain(file: File) -> bool:
        return not file.place and not file.is_aside and file.base in names

    times = sorted({file.entry.changed for file in files if not is_plain(file)})
    order = {time: number for number, time in enumerate(times, 1)}
    return [
        file if is_plain(file) else File(file.root, file.lesson, file.entry, order[file.entry.changed])
        for file in files
    ]


# --- what is said ---------------------------------------------------------------------------------------------------


def named(files: list[File]) -> str:
    """A few of their names, and how many more there are of which kind."""
    names = ", ".join(file.name for file in files[:MAX_NAMED])
    rest = files[MAX_NAMED:]
    if not rest:
        return names
    ends = sorted({ending(file.base) or "without an ending" for file in rest})
    return f"{names} and {len(rest)} more: {', '.join(ends[:MAX_NAMED])}"


def _of_walk(seen: Walk, lesson: str) -> list[Note]:
    def told(places: list[Place]) -> str:
        names = ", ".join(shown("/".join(place[place[:1] == (lesson,) :][:4])) for place in places[:MAX_NAMED])
        return f"{names} and {len(places) - MAX_NAMED} more" if len(places) > MAX_NAMED else names

    notes = []
    for place, why in seen.unreadable[:MAX_NAMED]:
        name = shown("/".join(place[place[:1] == (lesson,) :])) or "the submission's folder"
        notes.append(Note("refused", f"{name} can't be read ({why})"))
    if seen.too_deep:
        text = f"folders that lie too deep were not opened (below {told(seen.too_deep)}): hand in the notebooks alone"
        notes.append(Note("flagged", text))
    if seen.passed_over:
        notes.append(Note("repaired", f"folders that hold no work were passed over ({told(seen.passed_over)})"))
    if seen.uncounted:
        kinds = ", ".join(f"{count} {end or 'others'}" for end, count in seen.uncounted.most_common(MAX_NAMED))
        text = f"{seen.uncounted.total()} files were not looked at ({kinds}): hand in the notebooks alone"
        notes.append(Note("flagged" if set(seen.uncounted) - {".log"} else "repaired", text))
    if seen.is_cut:
        notes.append(
            Note("flagged", "too many files were handed in to look at all of them: hand in the notebooks alone")
        )
    return notes


def _of_special(root: Path, lesson: str, seen: Walk) -> list[Note]:
    notes: list[Note] = []
    links: list[File] = []
    for entry in seen.entries:
        file = File(root, lesson, entry)
        if entry.is_file or file.is_hidden or file.is_aside or file.kind is Kind.LITTER:
            continue
        if file.kind is Kind.NOTEBOOK and len(notes) < MAX_NAMED:
            what = SPECIAL.get(entry.kind, "a device")
            notes.append(Note("refused", f"{file.name} is {what}: hand in the file itself"))
        elif entry.kind == stat.S_IFLNK:
            links.append(file)
    if links:
        notes.append(Note("refused", f"links were handed in and not followed ({named(links)}): hand in the files"))
    return notes
