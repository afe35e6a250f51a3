"""From the folder that a student handed in to notebooks that can be graded, and what a person should know of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nbformat import NotebookNode

from autograder.intake.folder import MAX_BYTES, File, Unreadable, files
from autograder.intake.handed_in import Cell, HandedIn, NoNotebook, read
from autograder.intake.notes import Note, quoted
from autograder.intake.released import Editions, Released, identify, released
from autograder.intake.transplant import Transplant
from autograder.paths import COURSE

__all__ = ["MAX_BYTES", "Note", "Taken", "intake"]
DIRECTION_MARKS = frozenset("\u202a\u202b\u202d\u202e\u2066\u2067\u2068")


@dataclass
class Taken:
    """The notebooks of a submission by the name of the released one, without ``.ipynb``."""

    notebooks: dict[str, NotebookNode] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)
    handed_in: dict[str, list[Cell]] = field(default_factory=dict)
    """All cells as the student left them, by the same names."""


@dataclass(frozen=True)
class _Version:
    """A file that is one of the lesson's notebooks, with its answers in place."""

    file: File
    read: HandedIn
    released: Released
    transplant: Transplant

    @property
    def has_its_name(self) -> bool:
        return not self.file.place and self.file.path.name == f"{self.released.name}.ipynb"

    @property
    def filled(self) -> list[str]:
        """The graded answers that are not blank, by grade id."""
        answers = ((cell, self.answer(cell.number)) for cell in self.released.cells if cell.graded)
        return [cell.grade_id for cell, text in answers if text and not self.released.is_blank(text)]

    @property
    def practised(self) -> int:
        return sum(not self.released.is_blank(each.text) for each in self.transplant.answers.values())

    def answer(self, number: int) -> str:
        found = self.transplant.answers.get(number)
        return found.text if found else ""

    @property
    def rank(self) -> tuple[object, ...]:
        count = len(self.filled)
        return (not self.file.is_hidden, count > 0, self.has_its_name, count, self.practised, self.file.changed)


def intake(path: Path, student: str, course: Path = COURSE) -> Taken:
    """Read the notebooks in the folder `path` of `student` and rebuild them from the released ones in `course`.

    Follows no link and raises nothing, whatever lies there; what can't be read is told in a note. The folder's name is
    the lesson's.
    """
    known = released(path.name, course)
    taken = Taken()
    if not known:
        told = f"{course.name}/ holds no released notebooks to take it in with: run `python -m autograder course`"
        taken.notes = [Note("refused", told)]
        return taken
    found, taken.notes = files(path)
    versions: dict[str, list[_Version]] = {}
    for file in found:
        version = _read(file, known, taken.notes)
        if version is not None:
            versions.setdefault(version.released.name, []).append(version)
    for name in sorted(versions):
        best, *others = sorted(versions[name], key=lambda version: version.rank, reverse=True)
        taken.notebooks[name] = best.transplant.notebook
        taken.handed_in[name] = best.read.cells
        taken.notes += [*_of_file(best), *_of_others(best, others), *best.transplant.notes, *_of_marks(best)]
    return taken


def _read(file: File, known: Editions, notes: list[Note]) -> _Version | None:
    may_be = file.says_notebook and not file.is_hidden
    try:
        handed_in = read(file.read())
        of = identify(file.path.name, handed_in.cells, known)
        if of is not None:
            return _Version(file, handed_in, of, Transplant(of, handed_in.cells))
        told = f"is none of the lesson's notebooks ({', '.join(f'{name}.ipynb' for name in known)})"
    except Unreadable as error:
        told = str(error)
    except NoNotebook as error:
        told = f"is no notebook: {error}"
    except Exception as error:  # of one file, which must not cost the student the others
        may_be, told = True, f"could not be taken in ({type(error).__name__}): a person has to look"
    if may_be:
        notes.append(Note("refused", f"{file.name} {told}", notebook=file.path.stem if file.name.isascii() else ""))
    return None


def _of_file(version: _Version) -> list[Note]:
    name, of = version.file.name, version.released.name
    notes = []
    if version.file.is_hidden:
        told = f"the only {of}.ipynb is the hidden file {name}, perhaps an older state: it was taken"
        notes.append(Note("flagged", told, of))
    elif not version.has_its_name:
        notes.append(Note("repaired", f"{name} was taken as {of}.ipynb", of))
    notes += [Note("repaired", f"{name} {told}", of) for told in version.read.repairs]
    return notes + [Note("flagged", f"{name} {told}", of) for told in version.read.doubts]


def _of_others(best: _Version, others: Sequence[_Version]) -> list[Note]:
    """Further files for the same notebook: their names, and where their answers differ."""
    notes = []
    for other in others:
        if other.file.is_hidden:
            continue
        of = best.released.name
        differ = [
            (cell, other.answer(cell.number))
            for cell in other.released.cells
            if cell.grade_id in other.filled and other.answer(cell.number).split() != best.answer(cell.number).split()
        ]
        same = "" if differ else "; its answers are the same or blank"
        told = f"{other.file.name} is a second {of}.ipynb: {best.file.name} was graded{same}"
        notes.append(Note("flagged" if differ else "repaired", told, of))
        for cell, text in differ:
            told = f"{other.file.name} has another answer than {best.file.name}, which was graded"
            kept = quoted(best.answer(cell.number))
            notes.append(Note("flagged", told, of, cell.grade_id, kept=kept, other=quoted(text)))
    return notes


def _of_marks(version: _Version) -> list[Note]:
    """Characters that make code look other than it runs."""
    return [
        Note("flagged", "holds invisible marks that turn the direction of writing", version.released.name, cell.name)
        for cell in version.released.cells
        if cell.kind == "code" and DIRECTION_MARKS & set(version.answer(cell.number))
    ]
