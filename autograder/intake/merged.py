"""One file that holds several of the lesson's notebooks is taken apart into them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from autograder.intake.handed_in import Cell
from autograder.intake.released import Editions, Released, edition_of, identify, names_by_print, text_print

ENOUGH = 3  # cells whose text stands in one notebook alone


def parts(file_name: str, cells: Sequence[Cell], known: Editions) -> list[tuple[Released, list[Cell]]]:
    """The notebooks in a file with their cells, that of the file first; empty if it is none of the lesson's.

    A cell that says nothing of itself belongs to the notebook of the one before it.
    """
    main = identify(file_name, cells, known)
    if main is None:
        return []
    names_of = names_by_print(known)
    of_id = {
        cell.grade_id: name
        for name, editions in known.items()
        for edition in editions.values()
        for cell in edition.cells
        if cell.grade_id
    }
    told = [_told(cell, names_of, of_id) for cell in cells]
    counts = Counter(name for name, is_text in told if is_text)
    merged = {main.name} | {name for name, count in counts.items() if count >= ENOUGH}
    if len(merged) == 1:
        return [(main, list(cells))]
    found: dict[str, list[Cell]] = defaultdict(list)
    here = next((name for name, _ in told if name in merged), main.name)
    for cell, (name, _) in zip(cells, told, strict=True):
        here = name if name in merged else here
        found[here].append(cell)
    order = sorted(found, key=lambda name: name != main.name)
    return [(edition_of(known[name], found[name]), found[name]) for name in order]


def _told(cell: Cell, names_of: dict[str, set[str]], of_id: dict[str, str]) -> tuple[str, bool]:
    """The one notebook that this cell is of, and whether its text says so. Empty if that is not known."""
    names = names_of.get(text_print(cell.source), set())
    if len(names) == 1:
        return next(iter(names)), True
    return of_id.get(cell.grade_id) or of_id.get(cell.id) or "", False
