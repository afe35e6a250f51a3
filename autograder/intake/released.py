"""The released notebooks of a lesson in every edition: what a submission is held against and rebuilt from."""

from __future__ import annotations

import copy
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import nbformat
from nbgrader import utils

from autograder.intake.handed_in import Cell
from autograder.intake.own_code import defines, own_names
from autograder.paths import COURSE
from minivllm.submission.check import fingerprint

NAMED = 2
MAX_NAMING = 100  # cells with the names of an exercise that are read as code
OWN_ADDRESS = re.compile(r"^MINIVLLM_WHEEL = .*$", re.MULTILINE)
"""The one line of a set-up cell that is the student's to change."""
Role = Literal["answer", "test", "setup", "free"]


@dataclass(frozen=True)
class ReleasedCell:
    """A cell of a released notebook.

    Attributes:
        role: "answer" is the student's to write, "test" and "setup" must stay, "free" is there to play with.
        id: of the cell in the file; for a cell with a grade id it is the same.
        graded: points depend on it.
        targets: the names that a code answer has to define.
    """

    number: int
    kind: str
    source: str
    role: Role
    grade_id: str
    id: str
    graded: bool
    targets: frozenset[str]

    @cached_property
    def print(self) -> str:
        return text_print(self.source)

    @property
    def name(self) -> str:
        return self.grade_id or f"cell {self.number + 1}"


@dataclass(frozen=True)
class Released:
    """One released notebook.

    Attributes:
        blanks: the fingerprints of every answer's template, of all editions.
        labels: by grade id, the labels in the template of a text answer in each edition.
    """

    name: str
    edition: str
    notebook: Any
    cells: tuple[ReleasedCell, ...]
    blanks: frozenset[str] = frozenset()
    labels: Mapping[str, tuple[frozenset[str], ...]] = field(default_factory=dict)

    def fresh(self) -> Any:
        return copy.deepcopy(self.notebook)

    def is_blank(self, source: str) -> bool:
        return not source.strip() or text_print(source) in self.blanks


Editions = Mapping[str, Mapping[str, Released]]
"""By name, without ``.ipynb``, and edition."""


def text_print(source: str) -> str:
    return fingerprint(OWN_ADDRESS.sub("MINIVLLM_WHEEL =", source))


def labels(source: str) -> frozenset[str]:
    """The labels in bold or headings of a text, as ``**Chain:**`` in an answer's template."""
    found = re.findall(r"\*\*([^*\n]{1,40})\*\*|^#+ (.{1,40})$", source, re.MULTILINE)
    return frozenset("".join(pair).strip(" :：").lower() for pair in found)


def released(lesson: str, course: Path = COURSE) -> dict[str, dict[str, Released]]:
    """The notebooks of this lesson, or of all lessons if there is none of that name."""
    paths = sorted(course.glob(f"*/{lesson}/*.ipynb")) if re.fullmatch(r"[\w-]+", lesson) else []
    paths = paths or sorted(course.glob("*/*/*.ipynb"))
    found: dict[str, dict[str, Released]] = {}
    for path in paths:
        edition = path.relative_to(course).parts[0]
        found.setdefault(path.stem, {})[edition] = _read(path, edition)
    return {name: _with_blanks(editions) for name, editions in found.items()}


def _read(path: Path, edition: str) -> Released:
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    cells = [_cell(number, cell, notebook.cells) for number, cell in enumerate(notebook.cells)]
    return Released(path.stem, edition, notebook, tuple(cells))


def _cell(number: int, cell: Any, cells: Sequence[Any]) -> ReleasedCell:
    role: Role = "free"
    graded = bool(utils.is_grade(cell))
    if utils.is_solution(cell):
        role = "answer"
        following = cells[number + 1 : number + 2]
        graded = graded or any(utils.is_grade(each) and not utils.is_solution(each) for each in following)
    elif graded or utils.is_locked(cell):
        role = "test"
    elif "setup" in cell.metadata.get("tags", ()):
        role = "setup"
    targets = own_names(cell.source) if role == "answer" and cell.cell_type == "code" else frozenset()
    grade_id = cell.metadata.get("nbgrader", {}).get("grade_id", "")
    return ReleasedCell(number, cell.cell_type, cell.source, role, grade_id, cell.get("id", ""), graded, targets)


def _with_blanks(editions: Mapping[str, Released]) -> dict[str, Released]:
    answers = [cell for each in editions.values() for cell in each.cells if cell.role == "answer"]
    blanks = frozenset(cell.print for cell in answers)
    told: dict[str, list[frozenset[str]]] = {}
    for cell in answers:
        told.setdefault(cell.grade_id, []).append(labels(cell.source))
    fixed = {grade_id: tuple(dict.fromkeys(each)) for grade_id, each in told.items()}
    return {
        edition: Released(each.name, each.edition, each.notebook, each.cells, blanks, fixed)
        for edition, each in editions.items()
    }


def identify(file_name: str, cells: Sequence[Cell], known: Editions) -> Released | None:
    """Which released notebook in which edition this is: by its content, and by its name where that says little."""
    prints = Counter(text_print(cell.source) for cell in cells)
    names_of = names_by_print(known)
    scores = {name: _score(name, editions, cells, prints, names_of) for name, editions in known.items()}
    named = _named(file_name, known)
    if named:
        scores[named] += NAMED
    best = max(scores, key=lambda name: scores[name], default="")
    if not best or not scores[best]:
        return None
    return edition_of(known[best], cells)


def names_by_print(known: Editions) -> dict[str, set[str]]:
    """The notebooks in which a cell's text stands."""
    names_of: dict[str, set[str]] = {}
    for name, editions in known.items():
        for cell in _all(editions):
            names_of.setdefault(cell.print, set()).add(name)
    return names_of


def _named(file_name: str, known: Editions) -> str:
    return next((name for name in known if name.lower() in file_name.lower()), "")


def _all(editions: Mapping[str, Released]) -> Iterable[ReleasedCell]:
    return (cell for each in editions.values() for cell in each.cells)


def _score(
    name: str, editions: Mapping[str, Released], cells: Sequence[Cell], prints: Counter[str], names_of: Any
) -> int:
    own = {cell.print for cell in _all(editions) if names_of[cell.print] == {name}}
    ids = {cell.grade_id for cell in _all(editions) if cell.grade_id}
    targets = {cell.targets for cell in _all(editions) if cell.targets}
    score = len(own & prints.keys()) + 3 * len(ids & {cell.grade_id or cell.id for cell in cells})
    return score + 3 * sum(any(defines(source, names) for source in _naming(cells, names)) for names in targets)


def _naming(cells: Sequence[Cell], names: frozenset[str]) -> list[str]:
    found = (cell.source for cell in cells if cell.kind == "code" and all(name in cell.source for name in names))
    return list(islice(found, MAX_NAMING))


def edition_of(editions: Mapping[str, Released], cells: Sequence[Cell]) -> Released:
    """The edition that the cells were written in."""
    prints = {text_print(cell.source) for cell in cells}
    text = "".join(cell.source for cell in cells if cell.kind == "markdown")
    chinese = sum("\u4e00" <= character <= "\u9fff" for character in text) * 5 > len(text)

    def likely(edition: str) -> tuple[int, int, bool]:
        same = sum(cell.kind == "markdown" and cell.print in prints for cell in editions[edition].cells)
        told = sum(cell.lang == edition for cell in cells)
        return same, told, (edition == "zh") == chinese

    return editions[max(editions, key=likely)]
