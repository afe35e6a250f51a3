"""The code of a notebook that grading will run, and what of it will be left out, fail or be missed there."""

from __future__ import annotations

import ast
import builtins
import difflib
import dis
import importlib.metadata
import re
import types
import warnings
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from minivllm.submission import cell_code, newer_syntax
from minivllm.submission.cell_code import CellCode, Statement
from minivllm.submission.rehearsal import Rehearsed, rehearsed

PACKAGES = ("minivllm", "ipykernel")
"""Grading has these and what they require."""
OLDEST = "3.11"
"""The Python that grading may run."""
CORRECT = "correct it, run the cell and save"
Told = tuple[str, str, str]
"""The cell, what is wrong and the remedy."""


@dataclass(frozen=True)
class OwnCell:
    """A cell of the student's own (`targets` is None) or a graded answer that has to define `targets`."""

    name: str
    source: str
    targets: frozenset[str] | None
    definitions_only: bool = False
    """It is a released cell that was changed: of it, imports and definitions are run."""

    @property
    def code(self) -> CellCode:
        return cell_code.read(self.source)

    @property
    def statements(self) -> list[Statement]:
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
        return [s for s in self.code.statements if not self.definitions_only or isinstance(s.tree, kinds)]


def check(cells: Sequence[OwnCell], folder: Path) -> Iterator[Told]:
    """What grading could not run or would not find. `folder` holds the notebook and the files beside it."""
    told = [each for cell in cells for each in _unread(cell)]
    yield from told
    if any(cell.targets for cell in cells):
        broken = {name for name, _, remedy in told if remedy == CORRECT}
        yield from _missed(cells, folder, broken)


def _unread(cell: OwnCell) -> Iterator[Told]:
    graded = cell.targets is not None
    for each in cell.code.skipped if not cell.definitions_only else ():
        if each.kind == "syntax":
            yield cell.name, f"line {each.line} {each.why}", CORRECT
        elif each.text.startswith("%%"):
            yield cell.name, f"it {each.why}", "write in Python what your answer needs of it"
        elif graded or "empty list" in each.why:
            yield cell.name, str(each), "take the line out, or see that the answer works without it"
    for statement in cell.statements:
        version = statement.newer or newer_syntax.rewritten(statement.text)[1]
        if version:
            what = f"line {statement.line} is Python {version} syntax, and grading may run Python {OLDEST}"
            yield cell.name, what, f"write it as Python {OLDEST} reads it"
        if error := _uncompiled(statement):
            yield cell.name, f"line {statement.line} is no Python (SyntaxError: {error})", CORRECT


def _uncompiled(statement: Statement) -> str:
    try:
        _compiled(statement)
    except SyntaxError as error:
        return error.msg
    except (ValueError, RecursionError, MemoryError, TypeError) as error:
        return str(error)
    return ""


@dataclass(frozen=True)
class _Piece:
    cell: OwnCell
    statement: Statement


def _missed(cells: Sequence[OwnCell], folder: Path, broken: Set[str]) -> Iterator[Told]:
    """What fails when it is run, as far as an answer needs it, and names that are not there afterwards.

    Of cells that are `broken` anyway, nothing more is told.
    """
    pieces = [_Piece(cell, each) for cell in cells for each in cell.statements]
    found = rehearsed([each.statement.text for each in pieces], sorted(course_packages()), folder)
    needed = _needed(pieces)
    for failed in found.failed:
        piece = pieces[failed.number]
        is_needed = piece.cell.targets is not None or not _stored(piece.statement).isdisjoint(needed)
        if is_needed and piece.cell.name not in broken:
            broken = broken | {piece.cell.name}
            yield _failure(piece, failed.error)
    if found.ran < len(pieces) or not found.names:
        piece = pieces[min(max(found.ran - 1, 0), len(pieces) - 1)]
        what = f"line {piece.statement.line} ended the process or took more than all the time that there is"
        yield piece.cell.name, what, "take it out of the notebook, and check it again"
        return
    yield from _undefined([cell for cell in cells if cell.name not in broken], pieces, found)


def _failure(piece: _Piece, error: str) -> Told:
    lacks = re.match(r"ModuleNotFoundError: No module named '([\w.]+)'", error)
    if lacks:
        package = lacks[1].partition(".")[0]
        return piece.cell.name, f"it imports {package}, which grading lacks", "write it without that package"
    first = " ".join(piece.statement.text.split())[:60]
    return piece.cell.name, f"line {piece.statement.line} ({first}) fails when it is graded: {error}", CORRECT


def _undefined(cells: Sequence[OwnCell], pieces: Sequence[_Piece], found: Rehearsed) -> Iterator[Told]:
    stored = {name: each.cell for each in pieces for name in _stored(each.statement)}
    for cell in cells:
        for name in sorted((cell.targets or frozenset()) - found.names):
            mine = [other for other, of in stored.items() if of is cell]
            alike = difflib.get_close_matches(name, list(stored), 1, 0.6) or mine[-1:]
            instead = f": {stored[alike[0]].name} defines {alike[0]}" if alike else ""
            yield cell.name, f"{name} is not defined{instead}", f"define {name} in this cell"
        if cell.targets is None:
            continue
        used = frozenset().union(*(_read(each) for each in cell.statements))
        for name in sorted(used - found.names - vars(builtins).keys() - cell.targets - {"______", "get_ipython"}):
            yield cell.name, f"it uses {name}, which no cell defines when it is graded", f"define {name} in a cell"


def _needed(pieces: Sequence[_Piece]) -> frozenset[str]:
    """The names that answers read, and those that these need in turn."""
    needed = {name for each in pieces if each.cell.targets is not None for name in _read(each.statement)}
    for _ in range(20):
        more = {name for each in pieces if _stored(each.statement) & needed for name in _read(each.statement)}
        if more <= needed:
            break
        needed |= more
    return frozenset(needed)


def _compiled(statement: Statement) -> types.CodeType:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        code: types.CodeType = compile(ast.Module([statement.tree], []), "cell", "exec", flags, dont_inherit=True)
        return code


def _stored(statement: Statement) -> frozenset[str]:
    return _names(statement, ("STORE_NAME", "STORE_GLOBAL"), nested=False)


def _read(statement: Statement) -> frozenset[str]:
    return _names(statement, ("LOAD_NAME", "LOAD_GLOBAL"), nested=True)


def _names(statement: Statement, instructions: Sequence[str], nested: bool) -> frozenset[str]:
    try:
        waiting = [_compiled(statement)]
    except (SyntaxError, ValueError, RecursionError, MemoryError, TypeError):
        return frozenset()
    found = set()
    while waiting:
        code = waiting.pop()
        found |= {i.argval for i in dis.get_instructions(code) if i.opname in instructions}
        waiting += [const for const in code.co_consts if nested and isinstance(const, types.CodeType)]
    return frozenset(found)


@cache
def course_packages() -> frozenset[str]:
    """What PACKAGES and what they require can be imported as."""
    wanted, seen = list(PACKAGES), set[str]()
    while wanted:
        name = _normal(wanted.pop())
        if name in seen:
            continue
        seen.add(name)
        try:
            requirements = importlib.metadata.requires(name) or ()
        except importlib.metadata.PackageNotFoundError:
            continue
        wanted += [text for text in requirements if "extra ==" not in text]
    provided: Mapping[str, Any] = importlib.metadata.packages_distributions()
    return frozenset(PACKAGES) | {top for top, names in provided.items() if seen & set(map(_normal, names))}


def _normal(requirement: str) -> str:
    name = re.match(r"[\w.-]+", requirement)
    return re.sub(r"[-_.]+", "-", name[0]).lower() if name else ""
