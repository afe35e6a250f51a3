"""The files that came with the notebooks: what code may read of them, and a word for each that was not read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from autograder.intake.elsewhere import Found
from autograder.intake.folder import File, Folder, named
from autograder.intake.notes import Note
from autograder.intake.versions import Stranger, Version
from autograder.intake.walk import Place, ending
from autograder.intake.what_files import Kind
from autograder.paths import CLONE

if TYPE_CHECKING:
    from autograder.intake.intake import Taken

MAX_ABOVE = 8  # folders that a clone may lie in
MAX_FILE = 1 << 20
MAX_FILES = 2 << 20
READABLE = frozenset(
    (".py", ".csv", ".tsv", ".json", ".jsonl", ".txt", ".md", ".yaml", ".yml", ".toml", ".cfg", ".ini", ".npy", ".npz")
)
_MILD = re.compile(r"(?:readme|license|licence|changelog|contributing|requirements|environment|setup|__init__)\b", re.I)


def beside(best: Sequence[Version], smalls: Mapping[File, bytes]) -> dict[str, bytes]:
    """Files below the folder of the graded notebooks, by their paths from there."""
    places = Counter(version.file.entry.place for version in best)
    if not places:
        return {}
    base: Place = min(places, key=lambda place: (-places[place], len(place), place))
    found: dict[str, bytes] = {}
    size = 0
    for file, content in smalls.items():
        inner = file.entry.place[len(base) :]
        path = "/".join((*inner, file.base))
        if file.entry.place[: len(base)] != base or not path.isprintable() or "\\" in path:
            continue
        fits = len(content) <= MAX_FILE and size + len(content) <= MAX_FILES
        if fits and ending(file.base) in READABLE and not file.is_hidden:
            found[path] = content
            size += len(content)
    return found


REMEDIES = {
    Kind.ARCHIVE: "is an archive: unpack it and hand in the .ipynb files themselves",
    Kind.STUB: "only stands for a file that lies elsewhere: download the file itself and hand it in",
    Kind.DOCUMENT: "is a document, which grading does not read: write the answers into the notebooks",
    Kind.PICTURE: "is a picture beside the notebooks, which grading does not show: paste it into the answer's cell",
    Kind.TEXT: "is a text beside the notebooks: the answers belong into them",
    Kind.CODE: "is code beside the notebooks: the answers belong into them",
    Kind.UNKNOWN: "is a file of an unknown kind: hand in the .ipynb files",
}
PLURALS = {
    Kind.ARCHIVE: "archives were handed in ({}): unpack them and hand in the .ipynb files themselves",
    Kind.STUB: "placeholders of files that lie elsewhere were handed in ({}): download the files and hand those in",
    Kind.DOCUMENT: "documents were handed in, which grading does not read ({}): write the answers into the notebooks",
    Kind.PICTURE: "pictures lie beside the notebooks and are not shown ({}): paste them into the answers' cells",
    Kind.TEXT: "texts lie beside the notebooks ({}): the answers belong into them",
    Kind.CODE: "files with code lie beside the notebooks ({}): the answers belong into them",
    Kind.UNKNOWN: "files of unknown kinds were handed in ({}): hand in the .ipynb files",
}
ALWAYS = (Kind.ARCHIVE, Kind.STUB, Kind.DOCUMENT, Kind.TEXT, Kind.PICTURE)
"""They may hold work even where nothing seems to be missing."""


def of_leftovers(folder: Folder, found: Found, taken: Taken, strangers: Sequence[Stranger]) -> Iterator[Note]:
    """What is said of files that went into no notebook: refused where they may hold work, or else just named."""
    said = " ".join(cell.source for cells in taken.handed_in.values() for cell in cells)
    is_whole = bool(taken.notebooks) and not found.wanting
    has_code = bool(taken.notebooks) and not any(each.cell.kind == "code" for each in found.wanting)
    read = {each.file.entry for each in strangers if each.file.says_notebook}
    needed: dict[Kind, list[File]] = {}
    mild: list[File] = []
    for file in dict.fromkeys((*folder.others, *folder.small)):
        kind = file.kind
        if file.entry in read or (file.is_hidden and kind is not Kind.STUB) or not _is_near(file):
            continue
        shown = kind in (Kind.PICTURE, Kind.DOCUMENT) and bool(found.wanting)  # an answer that only points to it
        is_known = _MILD.match(file.base) or (_is_mentioned(file, said) and not shown) or _is_the_courses(file)
        is_needed = kind not in (Kind.LOG, Kind.DATA) and not is_known
        lacks_nothing = is_whole or (kind is Kind.CODE and has_code)
        if is_needed and file.name not in found.used and not (lacks_nothing and kind not in ALWAYS):
            needed.setdefault(kind, []).append(file)
        else:
            mild.append(file)
    for kind, files in sorted(needed.items(), key=lambda each: each[0].name):
        yield Note("refused", _told(kind, files))
    if mild:
        how = "may be read by code" if all(_is_in(file, taken.files) for file in mild) else "not read"
        yield Note("repaired", f"{_counted(mild)} beside the notebooks, {how} ({named(mild)})")
    if not taken.notebooks:
        yield from _of_nothing(folder, needed, mild)


def _is_in(file: File, paths: Mapping[str, bytes]) -> bool:
    path = "/".join((*file.place, file.base))
    return any(path == each or path.endswith(f"/{each}") for each in paths)


def _told(kind: Kind, files: list[File]) -> str:
    empty = [file for file in files if not file.entry.size]
    if len(files) == 1:
        return f"{files[0].name} {'is empty: hand in the file again' if empty else REMEDIES[kind]}"
    return f"{len(files)} {PLURALS[kind].format(named(files))}{f'; {len(empty)} of them are empty' if empty else ''}"


def _counted(files: list[File]) -> str:
    ends = Counter(ending(file.base) or "without an ending" for file in files)
    return ", ".join(f"{count} file{'s' if count > 1 else ''} {end}" for end, count in ends.most_common(5))


def _of_nothing(folder: Folder, needed: Mapping[Kind, list[File]], mild: list[File]) -> Iterator[Note]:
    """There is no notebook to be graded: never without a word of what there is."""
    handed_in = [file for files in needed.values() for file in files] + mild
    if not needed and not folder.notebooks and handed_in:
        told = f"no notebook was handed in, but {_counted(handed_in)} ({named(handed_in)}): hand in the .ipynb files"
        yield Note("refused", told)


def _is_near(file: File) -> bool:
    """It lies in the lesson's folder, in one that is named like it, or in no folder."""
    if not file.is_aside or not file.place:
        return True
    top = re.sub(r"\W", "", file.place[0]).lower()
    return top.startswith(re.sub(r"\W", "", file.lesson).lower())


def _is_the_courses(file: File) -> bool:
    """One that came with a clone of the course: the same path below some folder, and the same size."""
    parts = (*file.place, file.base)
    for start in range(min(len(parts), MAX_ABOVE)):
        try:
            if (CLONE / Path(*parts[start:])).lstat().st_size == file.entry.size > 0:
                return True
        except OSError:  # there is no such file
            continue
    return False


def _is_mentioned(file: File, said: str) -> bool:
    """Code or text of the notebooks names the file."""
    stem = file.base.rpartition(".")[0] or file.base
    if file.kind is Kind.CODE and re.search(rf"\b(?:import|from)\s+{re.escape(stem)}\b", said):
        return True
    return len(file.base) > 3 and file.base in said
