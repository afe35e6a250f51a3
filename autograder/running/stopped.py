"""What of a student's code did not run, why, and what a person and the student should know of it."""

from __future__ import annotations

import ast
import builtins
import difflib
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from autograder.intake.notes import Note, quoted, shown
from autograder.running.pipe import NoAnswer
from autograder.running.program import Code, Exercise, Program, bound, reads
from autograder.running.trusted import NO_ANSWER, Ran, Student
from minivllm.submission.cell_code import Skipped, Statement

MAX_NOTES = 20
MAX_OF_CELL = 3
MAX_WHY = 300  # characters
SHOWN = 80
_NAME = re.compile(r"name '(\w+)' is not defined")
Kind = Literal["", "command", "syntax", "error", "time"]


@dataclass(frozen=True)
class Stopped:
    """A statement that did not run to its end, or a part of a cell that is none (`statement` is None)."""

    cell: Code
    line: int
    text: str
    why: str = ""
    kind: Kind = ""
    statement: Statement | None = None

    @classmethod
    def left_out(cls, cell: Code, skipped: Skipped) -> Stopped:
        return cls(cell, skipped.line, skipped.text, skipped.why, skipped.kind)

    def of(self, ran: Ran) -> Stopped:
        if ran.error is None:
            return self
        if ran.error.is_a(NO_ANSWER):
            return self.ended("error" if ran.killed or ran.late else "time", f"was stopped: {ran.error.message}")
        return self.ended("error", f"stopped with {ran.error}")

    def ended(self, kind: Kind, why: str) -> Stopped:
        newer = self.statement.newer if self.statement else ""
        if newer:
            here = ".".join(map(str, sys.version_info[:2]))
            why = f"is Python {newer} syntax, was run as Python {here}, and {why}"
        return replace(self, kind=kind, why=" ".join(why.split())[:MAX_WHY])

    def fresh(self) -> Stopped:
        return replace(self, kind="", why="")

    def defines(self, name: str) -> bool:
        if self.statement is not None:
            return name in bound(self.statement.tree)
        return bool(re.search(rf"^\s*(?:(?:async\s+)?def|class)?\s*{re.escape(name)}\b", self.text, re.MULTILINE))

    def is_part_of(self, answer: Code) -> bool:
        return self.cell is answer and self.kind != "command"

    def gives(self, names: frozenset[str]) -> bool:
        """One of these names, had it run."""
        if self.statement is not None:
            return not bound(self.statement.tree).isdisjoint(names)
        return any(name in self.text and self.defines(name) for name in names)

    @property
    def missing_name(self) -> str:
        found = _NAME.search(self.why) if "NameError" in self.why else None
        return found[1] if found else ""

    @property
    def is_missing_name(self) -> bool:
        return bool(self.missing_name) and self.statement is not None

    def __str__(self) -> str:
        first = " ".join(self.text.split())
        return f"line {self.line} ({shown(first if len(first) <= SHOWN else first[: SHOWN - 3] + '...')}) {self.why}"


def is_definition(what: Stopped) -> bool:
    """What costs no time by itself, and what an answer has to define."""
    if what.statement is None:
        return False
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
    return isinstance(what.statement.tree, kinds) or not bound(what.statement.tree).isdisjoint(what.cell.targets)


def notes_of(
    stopped: Sequence[Stopped], program: Program, lost: Sequence[Exercise], student: Student
) -> Iterator[Note]:
    """What did not run, a note for each cell, and what may have cost points, for a person to look at."""
    cells: dict[int, list[Stopped]] = {}
    for each in stopped:
        if each.missing_name in program.released and not each.cell.grade_id and not lost:
            continue  # it shows what a practice or test cell has made
        cells.setdefault(id(each.cell), []).append(each)
    for found in list(cells.values())[:MAX_NOTES]:
        yield Note("not_run", f"{found[0].cell.name}: {_listed(found)}", cell=found[0].cell.name, line=found[0].line)
    if len(cells) > MAX_NOTES:
        yield Note("not_run", f"code of {len(cells) - MAX_NOTES} more cells did not run to its end")
    yield from _of_newer(program)
    for exercise in lost:
        if exercise.answer is not None:
            yield from _of_lost(exercise.answer, stopped, program, student)


def _listed(found: Sequence[Stopped]) -> str:
    more = [f"{len(found) - MAX_OF_CELL} more"] if len(found) > MAX_OF_CELL else []
    return "; ".join([*map(str, found[:MAX_OF_CELL]), *more])


def _cells(program: Program) -> Iterator[Code]:
    for exercise in program.exercises:
        yield from exercise.own
        if exercise.answer is not None:
            yield exercise.answer
        for own, _ in exercise.tests:
            yield from own
    yield from program.below


def _of_newer(program: Program) -> Iterator[Note]:
    here = ".".join(map(str, sys.version_info[:2]))
    for cell in _cells(program):
        newer = [each for each in cell.code.statements if each.newer]
        if newer:
            told = f"line {newer[0].line} is Python {newer[0].newer} syntax, and grading ran it as Python {here}"
            more = f"if points were lost by it, run grade with python{newer[0].newer}"
            yield Note("repaired", f"{cell.name}: {told}; {more}", cell=cell.name, line=newer[0].line)


def _of_lost(answer: Code, stopped: Sequence[Stopped], program: Program, student: Student) -> Iterator[Note]:
    """Points were lost: what the answer uses or is, and did not run or is not there."""
    used = frozenset().union(*(reads(each.tree) for each in answer.code.statements))
    missing = [name for name in sorted(answer.targets) if _is_missing(name, student)]
    culprits = [each for each in stopped if each.is_part_of(answer) or each.gives(used)]
    listed = f": {_listed(culprits)}" if culprits else ""
    if missing:
        told = f"{missing[0]} is not there after all code has run{_instead(missing[0], program)}{listed}"
        yield Note("flagged", told, cell=answer.name, kept=quoted(answer.source))
    elif culprits:
        told = f"points were lost, and code of {answer.name} or that it uses did not run{listed}"
        yield Note("flagged", told, cell=answer.name, line=culprits[0].line, kept=quoted(answer.source))
    for name in sorted(used - answer.targets)[:MAX_NOTES]:
        where = _where(name, answer, program)
        if where and not hasattr(builtins, name) and _is_missing(name, student):
            told = f"{answer.name} uses {name}, which is not there when it runs and stands in {where}"
            yield Note("flagged", f"{told}: a person has to look", cell=answer.name, kept=quoted(answer.source))


def _is_missing(name: str, student: Student) -> bool:
    try:
        return student.look(name)[0] == "missing"
    except NoAnswer:
        return False


def _instead(name: str, program: Program) -> str:
    """A name in its place, or a text that holds it."""
    where = _where(name, None, program)
    if where:
        return f", and stands in {where}"
    names = {each: cell.name for cell in _cells(program) for s in cell.code.statements for each in bound(s.tree)}
    alike = difflib.get_close_matches(name, list(names), 1, 0.6)
    if not alike:
        alike = [each for each, cell in names.items() if cell == _answer_of(name, program)][:1]
    return f"; {names[alike[0]]} defines {shown(alike[0])}" if alike else ""


def _answer_of(name: str, program: Program) -> str:
    found = (exercise.answer for exercise in program.exercises)
    return next((answer.name for answer in found if answer and name in answer.targets), "")


def _where(name: str, answer: Code | None, program: Program) -> str:
    """The cells whose text defines the name, whatever kind of cell they are."""
    places = [*program.text.items(), *((cell.name, cell.source) for cell in _cells(program) if cell is not answer)]
    pattern = re.compile(rf"^\s*(?:(?:async\s+)?def|class)\s+{re.escape(name)}\b|^\s*{re.escape(name)}\s*=", re.M)
    return _and(place for place, text in places if name in text and pattern.search(text))


def _and(names: Iterable[str]) -> str:
    return " and ".join(list(dict.fromkeys(names))[:3])
