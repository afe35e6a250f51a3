"""A student's answers in the released notebook, whatever happened to the notebook that they stood in.

Released cells stand as they were released, answers in their cells, and the student's own cells at their places. What
was added to a released cell stands in its metadata (``minivllm``, ``own``), for it is run like an own cell.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import nbformat.v4

from autograder.intake.answers import Answer, find
from autograder.intake.handed_in import Cell
from autograder.intake.likeness import likeness, text_of, words
from autograder.intake.notes import Note, quoted
from autograder.intake.own_code import broken, defines, has_code, own_names, parses, same_code
from autograder.intake.pairing import Pairing
from autograder.intake.released import Released, ReleasedCell, labels, text_print

PICTURES = "pictures"
MAX_OWN_CELLS = 300
MAX_OWN_TEXT = 1_000_000  # characters
PIECE = 0.6  # of its words stand in the released cell
MIN_UNPLACED = 20  # characters
MAX_UNPLACED = 10
MAX_LINES_SHOWN = 3


class Transplant:
    """The result is `notebook`, which nbgrader takes, and `notes`."""

    def __init__(self, released: Released, cells: Sequence[Cell]) -> None:
        self.notes: list[Note] = []
        self._released = released
        self._pairing = Pairing(released, cells)
        self.answers = {cell.number: find(cell, self._pairing) for cell in _code_first(released)}
        self._pairing.pair_free_cells()
        for cell in released.cells:
            if cell.role == "answer" and cell.graded:
                self._tell_of_answer(cell, self.answers[cell.number])
            elif cell.role in ("test", "setup"):
                self._tell_of_change(cell)
        self._tell_of_unplaced()
        self.notebook = self._built()

    @property
    def placed(self) -> frozenset[int]:
        """The numbers of the student's cells of which every part is the course's own or went into an answer."""
        own = {self._cell(index).number for index in self._pairing.own()}
        return frozenset(cell.number for cell in self._pairing.cells) - own

    # --- what is told -----------------------------------------------------------------------------------------------

    def _note(self, kind: str, cell: ReleasedCell, text: str, kept: str = "", other: str = "") -> None:
        self.notes.append(Note(kind, text, self._released.name, cell.name, kept=quoted(kept), other=quoted(other)))

    def _tell_of_answer(self, cell: ReleasedCell, answer: Answer) -> None:
        for repair in answer.repairs:
            self._note("repaired", cell, f"the cell {cell.name} {repair}")
        for other in answer.others[:MAX_UNPLACED]:
            told = f"{cell.name} was filled in twice, in different ways: one was taken, a person has to look at both"
            self._note("flagged", cell, told, answer.text, other)
        for index in self._left_over(cell):
            told = f"a part of the notebook that may belong to {cell.name} found no place: a person has to look"
            self._note("flagged", cell, told, answer.text, self._cell(index).source)
        is_lost = cell.kind == "code" and not self._released.is_blank(answer.text)
        if is_lost and not defines(answer.text, cell.targets) and (why := broken(answer.text)):
            self._note("flagged", cell, f"{cell.name} is no whole Python: {why}: a person has to look", answer.text)
        if not answer.indexes:
            what = "holds no text" if self._pairing.claims[cell.grade_id] else "is gone"
            self._note("edited", cell, f"the cell {cell.name} {what} and counts as blank", cell.source)

    def _left_over(self, cell: ReleasedCell) -> list[int]:
        """Own cells with the answer's id or labels, and pieces of its code."""
        answer = self.answers[cell.number]
        found: list[int] = []
        for read, index in enumerate(self._pairing.own()):
            text = self._cell(index).source
            if len(found) == MAX_UNPLACED:
                break
            if self._released.is_blank(text) or text.strip() in answer.text or text in answer.others:
                continue
            claims = index in self._pairing.claims[cell.grade_id] or bool(labels(text) & self._labels(cell))
            alike = cell.kind == "code" and read < MAX_OWN_CELLS and likeness(text, cell.source) >= PIECE
            if claims and cell.kind == self._cell(index).kind == "code" and parses(text):
                continue  # it runs at its place
            found += [index] if claims or (alike and len(text) >= MIN_UNPLACED and not parses(text)) else []
        return found

    def _tell_of_change(self, cell: ReleasedCell) -> None:
        index = self._pairing.where(cell.number)
        if index is None:
            self._note("edited", cell, f"the cell {cell.name} is gone; the course's own was used", cell.source)
            return
        mine = self._pairing.cells[index]
        if mine.kind != cell.kind:
            told = f"the cell {cell.name} was made a {mine.kind} cell; the course's own was used"
            self._note("edited", cell, told, cell.source, mine.source)
        elif text_print(mine.source) != cell.print:
            told = f"the cell {cell.name} was changed ({_difference(cell.source, mine.source)})"
            self._note("edited", cell, f"{told}; the course's own was used", cell.source, mine.source)

    def _tell_of_unplaced(self) -> None:
        """Where a graded answer is missing or not whole, the student's own cells could hold it."""
        for kind, what in (("code", "code"), ("markdown", "text")):
            graded = [cell for cell in self._released.cells if cell.role == "answer" and cell.graded]
            wanting = [cell for cell in graded if cell.kind == kind and self._is_wanting(cell)]
            if not wanting:
                continue
            names = frozenset().union(*(_telling_names(cell) for cell in wanting))
            is_there = not any(self._released.is_blank(self.answers[cell.number].text) for cell in wanting)
            places = [i for i in range(len(self._pairing.cells)) if self._pairing.used.get(i) not in _numbers(wanting)]
            texts = [text for i in places if (text := self._unplaced(i, kind, names, is_there))]
            if not texts:
                continue
            cell = wanting[0]
            told = f"{cell.name} is blank or not whole, and the student's own cells hold {what} that found no place"
            other = "\n\n".join(texts[:MAX_UNPLACED])
            more = len(texts) - MAX_UNPLACED
            text = self.answers[cell.number].text
            self._note("flagged", cell, told, text, f"{other}\n[{more} more]" if more > 0 else other)

    def _is_wanting(self, cell: ReleasedCell) -> bool:
        answer = self.answers[cell.number]
        if self._released.is_blank(answer.text):
            return True
        if cell.kind == "code":
            return not parses(answer.text)
        return bool(answer.repairs and self._labels(cell) and not labels(answer.text))

    def _labels(self, cell: ReleasedCell) -> frozenset[str]:
        return frozenset().union(*self._released.labels.get(cell.grade_id, ()))

    def _unplaced(self, index: int, kind: str, names: frozenset[str], is_there: bool) -> str:
        """The text in a cell that could be an answer of this kind, with these names in it if it is code.

        Where an answer `is_there`, own code that runs is no other one.
        """
        mine = self._pairing.cells[index]
        number = self._pairing.number.get(index)
        if number is not None and self._released.cells[number].kind == "markdown":
            released = set(self._released.cells[number].source.splitlines())
            text = "\n".join(line for line in mine.source.splitlines() if line not in released).strip()
            return text if len(text) >= MIN_UNPLACED else ""
        if kind == "code":
            named = any(name in mine.source for name in names) and number is None
            runs = mine.kind == "code" and parses(mine.source)
            alone = self._pairing.is_own(index) and (mine.kind == "code" or bool(own_names(mine.source)))
            could_be = (named and has_code(mine.source)) or (alone and not (runs and is_there))
        else:
            could_be = self._pairing.is_own(index) and text_of(mine.source, mine.kind) is not None
        text = mine.source.strip()
        return text if could_be and len(text) >= MIN_UNPLACED and not self._released.is_blank(text) else ""

    # --- what is built ----------------------------------------------------------------------------------------------

    def _built(self) -> Any:
        notebook = self._released.fresh()
        extra = self._own_cells()
        cells = list(extra[-1])
        for cell, target in zip(self._released.cells, notebook.cells, strict=True):
            if cell.role == "answer":
                target.source = self.answers[cell.number].text
                self._add_pictures(cell, target)
            index = self._pairing.where(cell.number)
            if cell.role == "free" and cell.kind == "code" and index is not None:
                target.source = self._cell(index).source
            if cell.role != "answer" and index is not None and (own := self._added(index)):
                target.metadata["minivllm"] = {"own": own, "cell": self._cell(index).number}
            cells += [target, *extra[cell.number]]
        notebook.cells = cells
        return notebook

    def _add_pictures(self, cell: ReleasedCell, target: Any) -> None:
        """`PICTURES` in the metadata counts those that the answer has or had: a person has to look."""
        mine = [self._cell(index) for index in self.answers[cell.number].indexes]
        pictures = {name: picture for each in mine for name, picture in each.pictures.items()}
        lost = sum(each.lost_pictures for each in mine)
        if pictures and cell.kind == "markdown":
            target.attachments = pictures
        if pictures or lost:
            target.metadata["minivllm"] = {PICTURES: len(pictures) + lost}
        if lost:
            told = f"{cell.name} has pictures that can't be shown here (SVG, a link, damaged or too large): {lost}"
            self._note("flagged", cell, f"{told}; a person has to look at the file that was handed in")

    def _added(self, index: int) -> str:
        """The student's own code in a released cell."""
        is_code = self._cell(index).kind == "code" and index not in self._pairing.used
        return self._pairing.written(index) if is_code else ""

    def _cell(self, index: int) -> Cell:
        return self._pairing.cells[index]

    def _own_cells(self) -> dict[int, list[Any]]:
        """The student's own cells by the number of the released cell that they follow."""
        after: dict[int, list[Any]] = defaultdict(list)
        last, kept, size = -1, 0, 0
        for index, mine in enumerate(self._pairing.cells):
            known = self._pairing.number.get(index, self._pairing.used.get(index))
            if known is not None:
                last = known
            if not self._pairing.is_own(index) or not mine.source.strip():
                continue
            size += len(mine.source)
            kept += 1
            if kept <= MAX_OWN_CELLS and size <= MAX_OWN_TEXT:
                after[last].append(_new_cell(mine, kept))
        if kept > MAX_OWN_CELLS or size > MAX_OWN_TEXT:
            told = f"it has {kept} cells of the student's own: the first {sum(map(len, after.values()))} are shown"
            self.notes.append(Note("repaired", told, self._released.name))
        return after


def _code_first(released: Released) -> list[ReleasedCell]:
    return sorted((cell for cell in released.cells if cell.role == "answer"), key=lambda cell: cell.kind != "code")


def _numbers(cells: Sequence[ReleasedCell]) -> set[int]:
    return {cell.number for cell in cells}


def _telling_names(cell: ReleasedCell) -> frozenset[str]:
    """Names in a code exercise that stand for it wherever they are found."""
    return cell.targets | {
        word for word in words(cell.source) if cell.targets and len(word) > 7 and "_" in word.strip("_")
    }


def _new_cell(mine: Cell, number: int) -> Any:
    makers: dict[str, Any] = {"code": nbformat.v4.new_code_cell, "raw": nbformat.v4.new_raw_cell}
    made = makers.get(mine.kind, nbformat.v4.new_markdown_cell)(mine.source)
    made.id = f"own-{number}"
    made.metadata.tags = ["own"]
    made.metadata["minivllm"] = {"cell": mine.number}
    if mine.pictures and mine.kind == "markdown":
        made.attachments = mine.pictures
    return made


def _difference(released: str, mine: str) -> str:
    old, new = (Counter(line.strip()[:100] for line in text.splitlines() if line.strip()) for text in (released, mine))
    gone, come = list(old - new), list(new - old)
    said = [f"gone: {'; '.join(gone[:MAX_LINES_SHOWN])}"] if gone else []
    said += [f"new: {'; '.join(come[:MAX_LINES_SHOWN])}"] if come else []
    if same_code(released, mine):
        said.append("layout or comments only")
    return ", ".join(said) or "its layout"
