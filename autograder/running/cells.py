"""A notebook's test cells, run here against student code that runs elsewhere: what nbgrader reads points from.

The instructor's notebook says what is run and in which order: cells with the tag ``setup``, cells that students fill
in, and test cells. Of a submission the sources of the filled-in cells count, and what these use of other cells.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import dis
import io
import itertools
import traceback
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import nbformat.v4
from nbformat import NotebookNode
from nbgrader import utils

from autograder.intake.transplant import NEEDED_BY
from autograder.running.pipe import NoAnswer
from autograder.running.trusted import EXERCISE_SECONDS, NO_ANSWER, Ran, Seen, Student
from minivllm.lesson.outcome import Call, Raised

SETUP = "setup"
HIDDEN = "### BEGIN HIDDEN TESTS"
TEST = "<test>"
MAX_SHOWN = 300  # characters


class StudentError(Exception):
    """A test called student code, and this is what that raised."""

    def __init__(self, raised: Raised) -> None:
        super().__init__(raised.message if raised.is_a(NO_ANSWER) else str(raised))


class Namespace(dict[str, Any]):
    """The globals of test cells. What they don't define themselves is looked up with the student, in every cell anew.

    `call` is what `minivllm.lesson.outcome.door` returns for it.
    """

    def __init__(self, call: Call) -> None:
        super().__init__(__name__="__main__", __builtins__=builtins)
        self.call = call


@dataclass
class Executed:
    """The outputs of graded and filled-in cells by grade id, and what student code did to find answers."""

    outputs: dict[str, list[NotebookNode]] = field(default_factory=dict)
    seen: list[Seen] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    """Tests that stopped with an error of their own."""


def needed_by(grade_id: str) -> str:
    """Where `execute` looks in the answers for what the answer of this cell uses of other cells."""
    return f"{grade_id} uses"


def execute(master: NotebookNode, answers: Mapping[str, str]) -> Executed:
    """Run the graded part of the instructor's notebook `master` with `answers`, sources by grade id."""
    executed = Executed()
    if not any(cell.cell_type == "code" and utils.is_grade(cell) for cell in master.cells):
        return executed
    graded = _graded_solutions(master)
    with Student("__main__", EXERCISE_SECONDS) as student:
        namespace = Namespace(student.call)
        for number, cell in enumerate(master.cells):
            if cell.cell_type != "code":
                continue
            grade_id = cell.metadata.get("nbgrader", {}).get("grade_id")
            if SETUP in cell.metadata.get("tags", ()):
                ran = student.run(f"setup {number}", cell.source)
                executed.faults += [f"a set-up cell stopped with {ran.error}"] if ran.error else []
            elif grade_id in graded and grade_id in answers:
                student.restart_clock()
                if needed_by(grade_id) in answers:
                    student.run(needed_by(grade_id), answers[needed_by(grade_id)])
                executed.outputs[grade_id] = _ending(student.run(grade_id, answers[grade_id]))
            elif utils.is_grade(cell):
                executed.outputs[grade_id] = _tested(cell.source, grade_id, namespace, student, executed.faults)
        executed.seen = student.seen
    return executed


def _graded_solutions(master: NotebookNode) -> set[str]:
    """The cells to fill in that a test cell needs, by names in the instructor's notebook; the others are practice."""
    wanted: set[str] = set()
    graded = set()
    for cell in reversed(master.cells):
        if cell.cell_type != "code" or not (utils.is_grade(cell) or utils.is_solution(cell)):
            continue
        code = compile(cell.source, TEST, "exec", dont_inherit=True)
        if utils.is_grade(cell) or not wanted.isdisjoint(_names(code, "STORE_NAME")):
            wanted |= _read_names(code)
            graded |= set() if utils.is_grade(cell) else {cell.metadata["nbgrader"]["grade_id"]}
    return graded


def _ending(ran: Ran) -> list[NotebookNode]:
    if ran.error is None:
        return []
    return [_error(ran.error.message if ran.error.is_a(NO_ANSWER) else str(ran.error))]


def _tested(
    source: str, grade_id: str, namespace: Namespace, student: Student, faults: list[str]
) -> list[NotebookNode]:
    """As a kernel would answer: what was printed, the last expression's value or the error, without a traceback."""
    calls: list[str] = []
    printed = io.StringIO()
    outputs = []
    try:
        with contextlib.redirect_stdout(printed), _stand_ins(source, namespace, student, calls):
            value = _run(source, namespace)
        if value is not None:
            outputs = [nbformat.v4.new_output("execute_result", {"text/plain": repr(value)}, execution_count=1)]  # type: ignore[no-untyped-call]
    except AssertionError as error:
        outputs = [_error("; ".join(filter(None, [str(error), _visible_statement(source, error), *calls])))]
    except (StudentError, NameError, NoAnswer) as error:
        outputs = [_error(str(error))]
    except Exception as error:  # the student's data is of a kind that the test did not reckon with, or its own fault
        told = f"{type(error).__name__}: {' '.join(str(error).split())[:MAX_SHOWN]}"
        faults.append(f"{grade_id} stopped with {told}")
        outputs = [_error(f"the test could not use what it got ({told})")]
    if printed.getvalue():
        outputs.insert(0, nbformat.v4.new_output("stream", name="stdout", text=printed.getvalue()))  # type: ignore[no-untyped-call]
    return outputs


def _error(told: str) -> NotebookNode:
    line = " ".join(told.split()).encode("utf-8", "backslashreplace").decode("utf-8")  # it quotes student code
    output: NotebookNode = nbformat.v4.new_output("error", ename="Failed", evalue=line, traceback=[line])  # type: ignore[no-untyped-call]
    return output


def _visible_statement(source: str, error: AssertionError) -> str:
    """The statement of the test cell that failed, unless students may not see it."""
    lines = [line for _, line in traceback.walk_tb(error.__traceback__) if _.f_code.co_filename == TEST]
    visible = source.partition(HIDDEN)[0]
    for statement in ast.parse(source).body:
        if lines and statement.lineno <= lines[-1] <= (statement.end_lineno or 0) <= len(visible.splitlines()):
            if isinstance(statement, ast.Assert):
                statement.msg = None  # the error says it
            return f"not so: {ast.unparse(statement)[:MAX_SHOWN]}"
    return ""


def _run(source: str, namespace: Namespace) -> Any:
    tree = ast.parse(source)
    last = tree.body[-1] if tree.body else None
    shown = last.value if isinstance(last, ast.Expr) else None
    if shown is not None:
        tree.body.pop()
    exec(compile(tree, TEST, "exec", dont_inherit=True), namespace)
    if shown is None:
        return None
    return eval(compile(ast.Expression(shown), TEST, "eval", dont_inherit=True), namespace)


@contextlib.contextmanager
def _stand_ins(source: str, namespace: Namespace, student: Student, calls: list[str]) -> Iterator[None]:
    """For this cell, the student's names stand in `namespace`: functions that call theirs, and copies of data."""
    names = _read_names(compile(source, TEST, "exec", dont_inherit=True))
    added = []
    for name in sorted(names - namespace.keys() - vars(builtins).keys()):
        kind, value = student.look(name)
        if kind != "missing":
            namespace[name] = _function(name, student.call, calls) if kind == "function" else value
            added.append(name)
    try:
        yield
    finally:
        for name in added:
            namespace.pop(name, None)


def _read_names(code: types.CodeType) -> set[str]:
    nested = (const for const in code.co_consts if isinstance(const, types.CodeType))
    return set(itertools.chain(_names(code, "LOAD_NAME", "LOAD_GLOBAL"), *map(_read_names, nested)))


def _names(code: types.CodeType, *instructions: str) -> set[str]:
    return {i.argval for i in dis.get_instructions(code) if i.opname in instructions}


def _function(name: str, call: Call, calls: list[str]) -> Any:
    def stand_in(*args: Any) -> Any:
        outcome = call(name, *args)
        if outcome.error is not None:
            raise StudentError(outcome.error)
        shown = repr(outcome.value)
        calls[:] = [f"{name} returned {shown if len(shown) <= MAX_SHOWN else shown[:MAX_SHOWN] + '...'}"]
        return outcome.value

    stand_in.__name__ = name
    return stand_in


def execute_notebook(master: NotebookNode, notebook: NotebookNode) -> Executed:
    """`execute` with the filled-in code cells of `notebook`, and what they use of others."""
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    used = {cell.metadata.get("minivllm", {}).get(NEEDED_BY): cell.source for cell in code}
    found = {needed_by(grade_id): source for grade_id, source in used.items() if grade_id}
    own = {cell.metadata["nbgrader"]["grade_id"]: cell.source for cell in code if utils.is_solution(cell)}
    return execute(master, found | own)
