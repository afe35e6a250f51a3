"""What of a submission runs, and in which order: the student's own cells and graded answers, with the tests between.

The instructor's notebook says which cells are answers and tests, and holds the tests; the rebuilt notebook
(`autograder.intake.transplant`) says where the student's own code stands. Released practice, GPU and benchmark cells
never run; what a student added to one is the student's own.
"""

from __future__ import annotations

import ast
import dis
import itertools
import re
import types
from collections.abc import Iterator
from dataclasses import dataclass, field

from nbformat import NotebookNode
from nbgrader import utils

from minivllm.submission import cell_code
from minivllm.submission.cell_code import CellCode

SETUP, OWN = "setup", "own"
TEST = "<test>"


@dataclass(frozen=True)
class Code:
    """A cell of the student's; `grade_id` is empty for one of their own, `targets` what an answer has to define."""

    name: str
    source: str
    grade_id: str = ""
    targets: frozenset[str] = frozenset()

    @property
    def code(self) -> CellCode:
        return cell_code.read(self.source)


@dataclass(frozen=True)
class Test:
    """A test cell of the instructor's notebook."""

    grade_id: str
    cell: NotebookNode
    __test__ = False


@dataclass
class Exercise:
    """An answer (None for tests above all answers) and its tests, each after the student's own cells above it."""

    own: list[Code]
    answer: Code | None
    tests: list[tuple[list[Code], Test]] = field(default_factory=list)


@dataclass
class Program:
    """`below` is what stands below the last test, `text` what other cells hold, by name."""

    setup: list[tuple[str, str]] = field(default_factory=list)
    exercises: list[Exercise] = field(default_factory=list)
    below: list[Code] = field(default_factory=list)
    text: dict[str, str] = field(default_factory=dict)
    released: frozenset[str] = frozenset()
    """Names that released cells define which do not run."""


def program(master: NotebookNode, notebook: NotebookNode) -> Program:
    found = Program()
    found.setup = [
        (f"setup {number}", cell.source) for number, cell in enumerate(master.cells) if _is_code(cell, SETUP)
    ]
    sources = {_grade_id(cell): cell.source for cell in notebook.cells if utils.is_solution(cell)}
    before, below = _own(notebook)
    graded = graded_solutions(master)
    own: list[Code] = _given(master, [*sources.values(), *(c.source for cells in before.values() for c in cells)])
    for cell in master.cells:
        grade_id = _grade_id(cell)
        own += before.pop(grade_id, []) if grade_id else []
        if cell.cell_type != "code":
            continue
        if grade_id in graded and grade_id in sources:
            answer = Code(grade_id, sources[grade_id], grade_id, stored_names(compiled(cell.source)))
            found.exercises.append(Exercise(own, answer))
            own = []
        elif utils.is_grade(cell):
            if not found.exercises:
                found.exercises.append(Exercise([], None))
            found.exercises[-1].tests.append((own, Test(grade_id, cell)))
            own = []
    found.below = [*own, *itertools.chain(*before.values()), *below]
    found.text = dict(_other_text(notebook))
    found.released = frozenset().union(*(_bound(cell) for cell in master.cells if not _is_code(cell, SETUP)))
    return found


def _is_code(cell: NotebookNode, tag: str) -> bool:
    return cell.cell_type == "code" and tag in cell.metadata.get("tags", ())


def _grade_id(cell: NotebookNode) -> str:
    return str(cell.metadata.get("nbgrader", {}).get("grade_id", ""))


def _own(notebook: NotebookNode) -> tuple[dict[str, list[Code]], list[Code]]:
    """The student's own code by the grade id of the next cell that has one, and what stands below the last."""
    before: dict[str, list[Code]] = {}
    own: list[Code] = []
    for number, cell in enumerate(notebook.cells, 1):
        told = cell.metadata.get("minivllm", {})
        source = cell.source if _is_code(cell, OWN) else str(told.get(OWN, ""))
        if source.strip():
            own.append(Code(f"cell {told.get('cell', number)}", source))
        if grade_id := _grade_id(cell):
            before.setdefault(grade_id, []).extend(own)
            own = []
    return before, own


def _given(master: NotebookNode, sources: list[str]) -> list[Code]:
    """Imports of released cells that do not run, as far as the student's code names what they import."""
    words = set(re.findall(r"\w+", "\n".join(sources)))
    found = []
    for number, cell in enumerate(master.cells, 1):
        if cell.cell_type != "code" or _grade_id(cell) or _is_code(cell, SETUP):
            continue
        for each in cell_code.read(cell.source).statements:
            if isinstance(each.tree, ast.Import | ast.ImportFrom):
                names = {(alias.asname or alias.name).partition(".")[0] for alias in each.tree.names}
                found += [Code(f"released cell {number}", each.text)] if names & words else []
    return found


def _other_text(notebook: NotebookNode) -> Iterator[tuple[str, str]]:
    """Text and raw cells of the student's own: code may stand there."""
    for number, cell in enumerate(notebook.cells, 1):
        if cell.cell_type != "code" and OWN in cell.metadata.get("tags", ()):
            yield f"cell {cell.metadata.get('minivllm', {}).get('cell', number)}", cell.source


def _bound(cell: NotebookNode) -> frozenset[str]:
    if cell.cell_type != "code":
        return frozenset()
    return frozenset().union(*(bound(each.tree) for each in cell_code.read(cell.source).statements))


def graded_solutions(master: NotebookNode) -> set[str]:
    """The cells to fill in that a test cell needs, by names in the instructor's notebook; the others are practice."""
    wanted: set[str] = set()
    graded = set()
    for cell in reversed(master.cells):
        if cell.cell_type != "code" or not (utils.is_grade(cell) or utils.is_solution(cell)):
            continue
        code = compiled(cell.source)
        if utils.is_grade(cell) or not wanted.isdisjoint(stored_names(code)):
            wanted |= read_names(code)
            graded |= set() if utils.is_grade(cell) else {_grade_id(cell)}
    return graded


def compiled(source: str) -> types.CodeType:
    return compile(source, TEST, "exec", dont_inherit=True)


def bound(tree: ast.stmt) -> frozenset[str]:
    """The names that a statement binds where it stands."""
    code = _statement_code(tree)
    return stored_names(code) if code else frozenset()


def reads(tree: ast.stmt) -> frozenset[str]:
    """The global names that a statement reads, in functions that it defines too."""
    code = _statement_code(tree)
    return frozenset(read_names(code)) if code else frozenset()


def _statement_code(tree: ast.stmt) -> types.CodeType | None:
    try:
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        code: types.CodeType = compile(ast.Module([tree], []), TEST, "exec", flags, dont_inherit=True)
        return code
    except (SyntaxError, ValueError, RecursionError, MemoryError, TypeError):
        return None


def stored_names(code: types.CodeType) -> frozenset[str]:
    return frozenset(_names(code, "STORE_NAME", "STORE_GLOBAL"))


def read_names(code: types.CodeType) -> set[str]:
    nested = (const for const in code.co_consts if isinstance(const, types.CodeType))
    return set(itertools.chain(_names(code, "LOAD_NAME", "LOAD_GLOBAL"), *map(read_names, nested)))


def _names(code: types.CodeType, *instructions: str) -> set[str]:
    return {i.argval for i in dis.get_instructions(code) if i.opname in instructions}
