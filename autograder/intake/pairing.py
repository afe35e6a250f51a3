"""Which cell of a student's notebook is which of the released one: by text, by ids, by place."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import replace

from autograder.intake.handed_in import Cell
from autograder.intake.likeness import likeness
from autograder.intake.own_code import added, parses
from autograder.intake.released import Released, ReleasedCell, labels, text_print

ALIKE = 0.5
VERY_ALIKE = 0.65
MIN_MERGED = 40  # characters of a released cell that is looked for inside others
MAX_WINDOW = 60  # cells


class Pairing:
    """The student's `cells`, merged ones taken apart, and what is known about each by its index.

    Attributes:
        number: the released cell that it is, for all but answers.
        copies: cells with released text that is there already; nobody misses them.
        claims: by grade id, the cells that say they are this answer.
        used: cells that went into an answer, by the answer's number.
    """

    def __init__(self, released: Released, cells: Sequence[Cell]) -> None:
        self.released = released
        self.cells = list(unmerged(released, cells))
        self.number: dict[int, int] = {}
        self.copies: set[int] = set()
        self.claims: dict[str, list[int]] = defaultdict(list)
        self.used: dict[int, int] = {}
        self._where: dict[int, int] = {}
        self._pair_by_text()
        self._pair_by_id()
        self._pair_alike("markdown", VERY_ALIKE)  # prose of an older release, or with the student's own words in it

    def _pair_by_text(self) -> None:
        waiting: dict[str, deque[ReleasedCell]] = defaultdict(deque)
        for cell in self.released.cells:
            if cell.role != "answer":
                waiting[cell.print].append(cell)
        for index, mine in enumerate(self.cells):
            same = waiting.get(text_print(mine.source))
            if same:
                self._pair(index, same.popleft())
            elif same is not None:
                self.copies.add(index)

    def _pair_by_id(self) -> None:
        of = {id: cell for cell in self.released.cells for id in (cell.id, cell.grade_id) if id}
        for index, mine in enumerate(self.cells):
            if index in self.number or index in self.copies:
                continue
            for id in filter(None, (mine.grade_id, mine.id)):
                cell = of.get(id)
                if cell is None:
                    continue
                if cell.role == "answer":
                    self.claims[cell.grade_id].append(index)
                    self._where.setdefault(cell.number, index)
                    break
                if cell.number not in self._where and (mine.grade_id or cell.kind == mine.kind):
                    self._pair(index, cell)
                    break

    def _pair(self, index: int, cell: ReleasedCell) -> None:
        self.number[index] = cell.number
        self._where[cell.number] = index

    def pair_free_cells(self) -> None:
        """Those that were edited and lost their ids, by place and likeness. After the answers."""
        self._pair_alike("code", ALIKE)

    def _pair_alike(self, kind: str, least: float) -> None:
        for cell in self.released.cells:
            if cell.role not in ("free", "setup") or cell.kind != kind or cell.number in self._where:
                continue
            window = self.window(cell.number)
            near = [i for i in window if self.is_own(i) and self.cells[i].kind == kind and not self.cells[i].grade_id]
            like = max(near, key=lambda i: likeness(cell.source, self.cells[i].source), default=None)
            if like is not None and likeness(cell.source, self.cells[like].source) >= least:
                self._pair(like, cell)

    def use(self, indexes: Iterable[int], cell: ReleasedCell) -> None:
        for index in indexes:
            self.used.setdefault(index, cell.number)
            self._where[cell.number] = index

    def where(self, number: int) -> int | None:
        """The index of the student's cell that is this released one."""
        return self._where.get(number)

    def is_own(self, index: int) -> bool:
        """A cell that is no released one and no answer."""
        return index not in self.number and index not in self.used and index not in self.copies

    def own(self) -> list[int]:
        return [index for index in range(len(self.cells)) if self.is_own(index)]

    def written(self, index: int) -> str:
        """What of the cell the student wrote."""
        number = self.number.get(index)
        if index in self.copies:
            return ""
        return self.cells[index].source if number is None else added(self.cells[index].source, self._source(number))

    def _source(self, number: int) -> str:
        return self.released.cells[number].source

    def window(self, number: int) -> range:
        """The student's cells between the nearest that are known to stand before and after this released one."""
        numbers = range(number - 1, -1, -1)
        low = next((self._where[n] for n in numbers if n in self._where), -1)
        later = (self._where[n] for n in range(number + 1, len(self.released.cells)) if n in self._where)
        high = next((index for index in later if index > low), len(self.cells))
        return range(low + 1, min(high, low + 1 + MAX_WINDOW))


def unmerged(released: Released, cells: Sequence[Cell]) -> Iterable[Cell]:
    """Take released cells out of cells that they were merged into."""
    there = {text_print(cell.source) for cell in cells}
    missing = [
        cell
        for cell in released.cells
        if cell.role != "answer" and cell.print not in there and len(cell.source) >= MIN_MERGED
    ]
    known = frozenset().union(*(each for templates in released.labels.values() for each in templates))
    for cell in cells:
        for part in _code_and_text(cell, known):
            yield from _parts(part, missing)


def _code_and_text(cell: Cell, known: frozenset[str]) -> Iterable[Cell]:
    """A text answer's labels below code that is none together with them: two cells that were merged."""
    if cell.kind == "code" and len(labels(cell.source) & known) > 1 and not parses(cell.source):
        lines = cell.source.split("\n")
        start = next((n for n, line in enumerate(lines) if line.startswith("**") and labels(line) & known), 0)
        if start and parses(code := "\n".join(lines[:start]).rstrip("\n")):
            return [replace(cell, source=code), Cell("markdown", "\n".join(lines[start:]), number=cell.number)]
    return [cell]


def _parts(cell: Cell, missing: list[ReleasedCell]) -> Iterable[Cell]:
    text = "\n".join(line.rstrip() for line in cell.source.split("\n"))
    for each in missing:
        wanted = "\n".join(line.rstrip() for line in each.source.strip().split("\n"))
        start = text.find(wanted)
        end = start + len(wanted)
        if start < 0 or text[start - 1 : start] not in ("", "\n") or text[end : end + 1] not in ("", "\n"):
            continue
        missing.remove(each)
        before, after = text[:start].strip("\n"), text[end:].strip("\n")
        mine = "" if cell.grade_id == each.grade_id else cell.grade_id
        rest = [replace(cell, source=before, grade_id=mine)] if before.strip() else []
        rest += [Cell(each.kind, each.source, each.grade_id, number=cell.number)]
        rest += [replace(cell, source=after, grade_id="" if before.strip() else mine, id="")] if after.strip() else []
        for part in rest:
            yield from _parts(part, missing)
        return
    yield cell
