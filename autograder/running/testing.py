"""Test cells, run here against student code that runs elsewhere: what nbgrader reads points from."""

from __future__ import annotations

import ast
import builtins
import contextlib
import io
import traceback
from collections.abc import Iterator
from typing import Any

import nbformat.v4
from nbformat import NotebookNode

from autograder.running.pipe import NoAnswer
from autograder.running.program import TEST, compiled, read_names
from autograder.running.trusted import NO_ANSWER, Student
from minivllm.lesson.outcome import Call, Raised

HIDDEN = "### BEGIN HIDDEN TESTS"
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


def tested(source: str, grade_id: str, namespace: Namespace, student: Student, faults: list[str]) -> list[NotebookNode]:
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
        outputs = [failed("; ".join(filter(None, [str(error), _visible_statement(source, error), *calls])))]
    except (StudentError, NameError, NoAnswer) as error:
        outputs = [failed(str(error))]
    except Exception as error:  # the student's data is of a kind that the test did not reckon with, or its own fault
        told = f"{type(error).__name__}: {' '.join(str(error).split())[:MAX_SHOWN]}"
        faults.append(f"{grade_id} stopped with {told}")
        outputs = [failed(f"the test could not use what it got ({told})")]
    if printed.getvalue():
        outputs.insert(0, nbformat.v4.new_output("stream", name="stdout", text=printed.getvalue()))  # type: ignore[no-untyped-call]
    return outputs


def failed(told: str) -> NotebookNode:
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
    names = read_names(compiled(source))
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
