"""An answer that is blank where it belongs, and stands elsewhere in the submission: taken over where it is certain
whose it is, and shown to a person where not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from autograder.intake.handed_in import Cell, HandedIn
from autograder.intake.loose import MIN_COMMENT, QUESTION, Loose, Texts, cut_out
from autograder.intake.notes import Note, quoted
from autograder.intake.own_code import defines, plain, without
from autograder.intake.released import Editions, Released, ReleasedCell, labels
from autograder.intake.transplant import PICTURES, Transplant
from autograder.intake.versions import Version

MAX_SHOWN = 10
MUCH_MORE = 1.5
MIN_WEAK = 80  # characters of a text without any sign that it is an answer


@dataclass(frozen=True)
class Wanting:
    """A graded answer that is blank, or whose notebook is not there."""

    released: Released
    cell: ReleasedCell

    @property
    def question(self) -> int:
        found = QUESTION.fullmatch(self.cell.grade_id)
        return int(found[1]) if found else -1

    def is_labelled(self, text: str) -> bool:
        templates = self.released.labels.get(self.cell.grade_id, ())
        return any(each and len(each & labels(text)) * 2 > len(each) for each in templates)


@dataclass
class Found:
    """Changed versions by name, and what is said. `taken` are the texts that found their place."""

    versions: dict[str, Version]
    notes: list[Note] = field(default_factory=list)
    wanting: list[Wanting] = field(default_factory=list)
    """Answers that stay blank."""
    taken: list[str] = field(default_factory=list)
    used: set[str] = field(default_factory=set)
    """Names of files out of which something was taken or shown."""

    def of_transplant(self, version: Version) -> list[Note]:
        """Its notes, but for those on a text that was taken over."""
        return [note for note in version.transplant.notes if note.kind != "flagged" or not self._is_taken(note.other)]

    def _is_taken(self, text: str) -> bool:
        mine = _squeezed(text)
        return any(mine in text or (text in mine and len(mine) < MUCH_MORE * len(text)) for text in self.taken if mine)


def _squeezed(text: str) -> str:
    return re.sub(r"[#\s]+", "", text)


def wanting(best: Mapping[str, Version], known: Editions) -> list[Wanting]:
    editions = [version.released.edition for version in best.values()]
    edition = max(set(editions), key=editions.count, default="")
    found = []
    for name, released in known.items():
        if name in best:
            filled, of = best[name].filled, best[name].released
        else:
            filled, of = [], released.get(edition) or next(iter(released.values()))
        found += [
            Wanting(of, cell)
            for cell in of.cells
            if cell.role == "answer" and cell.graded and cell.grade_id not in filled
        ]
    return found


class Elsewhere:
    """Fills what is `wanting` in the `best` versions from the others and from `texts`."""

    def __init__(self, best: Mapping[str, Version], others: Mapping[str, Sequence[Version]], texts: Texts) -> None:
        self.found = Found(dict(best))
        self._others = others
        self._texts = texts
        self._cells: dict[str, list[Cell]] = {name: list(version.cells) for name, version in best.items()}
        self._changed: set[str] = set()
        self._code_names = {n for version in best.values() for cell in version.released.cells for n in cell.targets}

    def fill(self, blank: Sequence[Wanting]) -> Found:
        for each in blank:
            if not (self._from_other_version(each) or self._from_texts(each, blank)):
                self.found.wanting.append(each)
        for name in self._changed:
            if name in self.found.versions:
                self.found.versions[name] = self.found.versions[name].with_cells(self._cells[name])
        return self.found

    # --- where it can be --------------------------------------------------------------------------------------------

    def _from_other_version(self, each: Wanting) -> bool:
        filled = [other for other in self._others.get(each.released.name, ()) if each.cell.grade_id in other.filled]
        found = [_loose(other, each.cell) for other in filled]
        seen = [text for text in found if not text.file.is_hidden]
        if len({text.text.strip() for text in seen}) == 1:
            return self._take(each, seen[0])
        return self._flag(each, found) if found else False

    def _from_texts(self, each: Wanting, blank: Sequence[Wanting]) -> bool:
        return self._from_code(each) if each.cell.kind == "code" else self._from_text(each, blank)

    def _from_code(self, each: Wanting) -> bool:
        names = each.cell.targets
        here = [code for code in self._texts.code if any(name in code.text for name in names)]
        elsewhere = [code for code in here if code.name != each.released.name]
        whole = [code for code in elsewhere if defines(code.text, names)]
        others = [cell.targets for cell in each.released.cells if cell.targets and cell.targets != names]
        texts = list(dict.fromkeys(without(code.text, others) for code in whole))
        if len(texts) == 1:
            return self._take(each, replace(whole[0], text=texts[0]))
        if not elsewhere:
            elsewhere = [text for text in self._texts.text if any(name in text.text for name in names)]
        if elsewhere:
            self._flag(each, [replace(code, text=plain(code.text)) for code in elsewhere])
        return False

    def _from_text(self, each: Wanting, blank: Sequence[Wanting]) -> bool:
        others = [other for other in blank if other.cell.kind != "code" and other is not each]
        free = [text for text in self._texts.text if text.question == each.question]
        unnamed = [text for text in self._texts.text if not text.question]
        labelled = [text for text in unnamed if each.is_labelled(text.text)]
        if not free and not any(other.is_labelled(text.text) for other in others for text in labelled):
            free = labelled
        texts = {" ".join(text.text.split()) for text in free}
        if len(texts) == 1 and all(text.is_certain for text in free):
            return self._take(each, free[0])
        weak = [text for text in unnamed if self._may_be(text, each)]
        if shown := free or labelled or weak:
            self._flag(each, shown)
        return False

    def _may_be(self, text: Loose, each: Wanting) -> bool:
        if any(name in text.text for name in self._code_names):
            return False  # it is about an exercise in code
        if text.is_comment:
            return len(text.text) >= MIN_COMMENT
        return text.name != each.released.name and len(text.text) >= MIN_WEAK and not text.is_extra

    # --- what is done -----------------------------------------------------------------------------------------------

    def _take(self, each: Wanting, found: Loose) -> bool:
        name, grade_id = each.released.name, each.cell.grade_id
        if name not in self._cells:
            self._add_notebook(each.released, found)
        mine = Cell(each.cell.kind, found.text, grade_id, grade_id, pictures=dict(found.pictures))
        mine.lost_pictures = found.lost_pictures
        if found.is_extra:
            self._cells[found.name] = cut_out(self._cells[found.name], found.text)
            self._changed.add(found.name)
        cells = self._cells[name]
        place = next((n for n, cell in enumerate(cells) if grade_id in (cell.grade_id, cell.id)), len(cells))
        cells[place : place + 1] = [replace(mine, number=cells[place].number if place < len(cells) else 0)]
        self._changed.add(name)
        is_guess = found.is_extra and not found.question
        told = f"{grade_id} was blank, and its answer was taken from {found.where}"
        told += ", where labels begin again: a person has to look whether it is" if is_guess else ""
        kind = "flagged" if is_guess else "repaired"
        self.found.notes.append(Note(kind, told, name, grade_id, kept=quoted(found.text)))
        self.found.used.add(found.file.name)
        self.found.taken.append(_squeezed(found.text))
        return True

    def _add_notebook(self, released: Released, found: Loose) -> None:
        """One that was not handed in, as it was released."""
        cells = [Cell(each.kind, each.source, each.grade_id, each.id, each.number + 1) for each in released.cells]
        read = HandedIn(cells)
        self._cells[released.name] = cells
        version = Version(found.file, read, released, cells, Transplant(released, cells), is_part=True)
        self.found.versions[released.name] = version

    def _flag(self, each: Wanting, found: Sequence[Loose]) -> bool:
        wheres = list(dict.fromkeys(text.where for text in found))
        more = f" and {len(wheres) - 3} more" if len(wheres) > 3 else ""
        what = "code" if each.cell.kind == "code" else "text"
        grade_id = each.cell.grade_id
        told = f"{grade_id} is blank, and {what} that could be its answer stands in {', '.join(wheres[:3])}{more}"
        other = "\n\n".join(text.text for text in found[:MAX_SHOWN])
        note = Note("flagged", told, each.released.name, grade_id, kept=quoted(each.cell.source), other=quoted(other))
        self.found.notes.append(note)
        self.found.used.update(text.file.name for text in found)
        return False


def _loose(version: Version, cell: ReleasedCell) -> Loose:
    """The answer in another version of the notebook."""
    name = version.released.name
    target = next(each for each in version.transplant.notebook.cells if each.get("id") == cell.id)
    pictures = dict(target.get("attachments", {}))
    lost = target.metadata.get("minivllm", {}).get(PICTURES, 0) - len(pictures)
    text = version.answer(cell.number)
    return Loose(text, version.file, name=name, pictures=pictures, lost_pictures=max(lost, 0))
