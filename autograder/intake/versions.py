"""The files of a submission as the lesson's notebooks, and which of several for one notebook is graded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from autograder.intake.folder import File, Unreadable
from autograder.intake.handed_in import Cell, HandedIn, NoNotebook, read
from autograder.intake.merged import parts
from autograder.intake.notes import Note, quoted
from autograder.intake.released import Editions, Released
from autograder.intake.transplant import Transplant

DIRECTION_MARKS = frozenset("\u202a\u202b\u202d\u202e\u2066\u2067\u2068")


@dataclass(frozen=True)
class Version:
    """A file, or a part of one, that is one of the lesson's notebooks, with its answers in place."""

    file: File
    read: HandedIn
    released: Released
    cells: Sequence[Cell]
    transplant: Transplant
    is_part: bool = False

    @property
    def has_its_name(self) -> bool:
        return not self.file.is_aside and not self.file.place and self.file.base == f"{self.released.name}.ipynb"

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
        count, file = len(self.filled), self.file
        return not file.is_hidden, count > 0, self.has_its_name, not file.is_aside, count, self.practised, file.order

    def with_cells(self, cells: Sequence[Cell]) -> Version:
        return replace(self, cells=cells, transplant=Transplant(self.released, cells))


@dataclass(frozen=True)
class Stranger:
    """A notebook that is none of the lesson's."""

    file: File
    cells: Sequence[Cell]


def versions(file: File, known: Editions, notes: list[Note]) -> list[Version] | Stranger:
    """What this file is. What can't be read is told in `notes`."""
    may_be = file.says_notebook and not file.is_hidden and not file.is_aside
    stranger = Stranger(file, ())
    try:
        handed_in = read(file.read())
        found = [
            Version(file, handed_in, of, cells, Transplant(of, cells), is_part=number > 0)
            for number, (of, cells) in enumerate(parts(file.base, handed_in.cells, known))
        ]
        if found:
            return found
        stranger = Stranger(file, handed_in.cells)
        told = f"is none of the lesson's notebooks ({', '.join(f'{name}.ipynb' for name in known)})"
    except Unreadable as error:
        told = str(error)
    except NoNotebook as error:
        told = f"is no notebook: {error}"
    except Exception as error:  # of one file, which must not cost the student the others
        may_be, told = True, f"could not be taken in ({type(error).__name__}): a person has to look"
    if may_be:
        stem = file.base.removesuffix(".ipynb")
        notes.append(Note("refused", f"{file.name} {told}", notebook=stem if file.name.isascii() else ""))
    return stranger


def of_file(version: Version) -> Iterator[Note]:
    name, of = version.file.name, version.released.name
    if version.file.is_hidden:
        told = f"the only {of}.ipynb is the hidden file {name}, perhaps an older state: it was taken"
        yield Note("flagged", told, of)
    elif version.is_part:
        yield Note("repaired", f"{name} holds {of}.ipynb too, which was taken out of it", of)
    elif not version.has_its_name:
        yield Note("repaired", f"{name} was taken as {of}.ipynb", of)
    if not version.is_part:
        yield from (Note("repaired", f"{name} {told}", of) for told in version.read.repairs)
        yield from (Note("flagged", f"{name} {told}", of) for told in version.read.doubts)


def of_others(best: Version, others: Sequence[Version]) -> list[Note]:
    """Further files for the same notebook: their names, and where their answers differ."""
    notes = []
    for other in others:
        if other.file.is_hidden or (other.file.is_aside and not other.filled):
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


def of_marks(version: Version) -> list[Note]:
    """Characters that make code look other than it runs."""
    return [
        Note("flagged", "holds invisible marks that turn the direction of writing", version.released.name, cell.name)
        for cell in version.released.cells
        if cell.kind == "code" and DIRECTION_MARKS & set(version.answer(cell.number))
    ]
