"""From the folder that a student handed in to notebooks that can be graded, and what a person should know of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nbformat import NotebookNode

from autograder.intake.beside import beside, of_leftovers
from autograder.intake.charset import decoded
from autograder.intake.elsewhere import Elsewhere, Found, wanting
from autograder.intake.folder import MAX_BYTES, File, Folder, Unreadable, look
from autograder.intake.handed_in import Cell
from autograder.intake.loose import Texts
from autograder.intake.notes import Note
from autograder.intake.released import Editions, released
from autograder.intake.versions import Stranger, Version, of_file, of_marks, of_others, versions
from autograder.intake.what_files import Kind
from autograder.paths import COURSE

__all__ = ["MAX_BYTES", "Note", "Taken", "intake"]


@dataclass
class Taken:
    """The notebooks of a submission by the name of the released one, without ``.ipynb``."""

    notebooks: dict[str, NotebookNode] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)
    handed_in: dict[str, list[Cell]] = field(default_factory=dict)
    """All cells as the student left them, by the same names."""
    files: dict[str, bytes] = field(default_factory=dict)
    """Small files that lay beside the notebooks and that their code may read, by their paths from there."""


def intake(path: Path, student: str, course: Path = COURSE) -> Taken:
    """Read what `student` handed in for the lesson of the folder `path`, and rebuild it from the released notebooks.

    Looks at the folder and what lies beside it, but for other lessons' folders. Follows no link and raises nothing,
    whatever lies there; what can't be read is told in a note.
    """
    known = released(path.name, course)
    taken = Taken()
    if not known:
        told = f"{course.name}/ holds no released notebooks to take it in with: run `python -m autograder course`"
        taken.notes = [Note("refused", told)]
        return taken
    folder = look(path, course)
    taken.notes = list(folder.notes)
    best, others, strangers = _read(folder, known, taken.notes)
    graded = {version.file.entry for of in (best.values(), *others.values()) for version in of}
    folder.small = [file for file in folder.small if file.entry not in graded]
    smalls = _small(folder)
    try:
        found = _filled(best, others, strangers, smalls, known)
    except Exception as error:  # the answers that stand where they belong are graded all the same
        told = f"could not be looked through for answers elsewhere ({type(error).__name__}): a person has to look"
        found = Found(dict(best), [Note("flagged", f"the submission {told}")])
    for name, version in sorted(found.versions.items()):
        taken.notebooks[name] = version.transplant.notebook
        taken.handed_in[name] = version.read.cells
        rest = others.get(name, ())
        taken.notes += [*of_file(version), *of_others(version, rest), *found.of_transplant(version), *of_marks(version)]
    taken.notes += found.notes
    taken.files = beside(list(best.values()), smalls)
    taken.notes += of_leftovers(folder, found, taken, strangers)
    return taken


def _read(
    folder: Folder, known: Editions, notes: list[Note]
) -> tuple[dict[str, Version], dict[str, list[Version]], list[Stranger]]:
    """The version of each notebook that is graded, the others of it, and what is no notebook of the lesson."""
    by_name: dict[str, list[Version]] = {}
    strangers = []
    for file in folder.notebooks:
        found = versions(file, known, notes)
        if isinstance(found, Stranger):
            strangers.append(found)
            continue
        for version in found:
            by_name.setdefault(version.released.name, []).append(version)
    best, others = {}, {}
    for name, of in by_name.items():
        first, *others[name] = sorted(of, key=lambda version: version.rank, reverse=True)
        if not first.file.is_aside or first.filled:
            best[name] = first
    return best, others, strangers


def _small(folder: Folder) -> dict[File, bytes]:
    contents = {}
    for file in folder.small:
        try:
            contents[file] = file.read()
        except Unreadable:
            folder.others.append(file)
    return contents


def _filled(
    best: Mapping[str, Version],
    others: Mapping[str, Sequence[Version]],
    strangers: Sequence[Stranger],
    smalls: Mapping[File, bytes],
    known: Editions,
) -> Found:
    """The best versions, with what is blank in them and stands elsewhere."""
    blank = wanting(best, known)
    if not blank:
        return Found(dict(best))
    texts = Texts(known)
    for version in best.values():
        texts.add_version(version)
    for stranger in strangers:
        texts.add_stranger(stranger)
    for file, content in smalls.items():
        if file.kind in (Kind.TEXT, Kind.CODE, Kind.UNKNOWN):
            texts.add_file(file, decoded(content).text)
    return Elsewhere(best, others, texts).fill(blank)
