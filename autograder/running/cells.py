"""A submission's notebook, run: the student's own cells and answers in the sandbox, the tests here at their places.

Statement by statement, as Jupyter would: one that fails, hangs or ends its process costs itself. Where points are lost
and own code stands below the tests, that runs too and the tests are asked again; the better result counts.
"""

from __future__ import annotations

import contextlib
import copy
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from nbformat import NotebookNode
from nbgrader import utils

from autograder.intake.notes import Note
from autograder.running.beside import kept
from autograder.running.pipe import NoAnswer
from autograder.running.program import Code, Exercise, Program, bound, program
from autograder.running.stopped import Stopped, is_definition, notes_of
from autograder.running.testing import HIDDEN, Namespace, failed, tested
from autograder.running.trusted import DEFINITION_SECONDS, EXERCISE_SECONDS, OWN_SECONDS, Seen, Student

__all__ = ["HIDDEN", "Executed", "Namespace", "execute"]
MAX_KILLS = 4  # statements that end the process; then definitions alone are run
RUN_SECONDS = 90.0  # of the wall clock; then definitions and tests alone are run, for a submission's time has an end
MAX_TOLD = 5  # errors of an answer's statements
NO_FILES: Mapping[str, bytes] = {}
Outputs = dict[str, list[NotebookNode]]


@dataclass
class Executed:
    """The outputs of graded and filled-in cells by grade id, and what a person should know of the run."""

    outputs: Outputs = field(default_factory=dict)
    seen: list[Seen] = field(default_factory=list)
    """What student code did to find answers."""
    faults: list[str] = field(default_factory=list)
    """Tests that stopped with an error of their own."""
    notes: list[Note] = field(default_factory=list)
    """What was not run and why, and what a person has to look at."""


def execute(master: NotebookNode, notebook: NotebookNode, files: Mapping[str, bytes] = NO_FILES) -> Executed:
    """Run the student's code in `notebook`, rebuilt from the released one, with the tests of the instructor's `master`.

    `files` are those handed in beside it.
    """
    executed = Executed()
    if not any(cell.cell_type == "code" and utils.is_grade(cell) for cell in master.cells):
        return executed
    beside, left_out = kept(files)
    with Student("__main__", OWN_SECONDS, beside) as student:
        run = _Run(student, executed, program(master, notebook))
        run.all()
        executed.seen = student.seen
    executed.notes = [*(Note("not_run", text) for text in left_out), *run.notes()]
    return executed


class _Run:
    def __init__(self, student: Student, executed: Executed, program: Program) -> None:
        self._student, self._executed, self._program = student, executed, program
        self._namespace = Namespace(student.call)
        self._used: dict[str, float] = {}
        self._kills = 0
        self._began = time.monotonic()
        self._done: set[int] = set()
        self._stopped: list[Stopped] = []
        self._notes: list[Note] = []
        self._lost: list[Exercise] = []

    def all(self) -> None:
        for name, source in self._program.setup:
            ran = self._student.run(name, source)
            self._executed.faults += [f"a set-up cell stopped with {ran.error}"] if ran.error else []
        for number, exercise in enumerate(self._program.exercises):
            self._exercise(exercise, self._program.exercises[number + 1 :])

    def notes(self) -> list[Note]:
        return [*self._notes, *notes_of(self._stopped, self._program, self._lost, self._student)]

    # --- the student's code -----------------------------------------------------------------------------------------

    def _own(self, cells: list[Code]) -> None:
        for cell in cells:
            if id(cell) not in self._done:
                self._done.add(id(cell))
                self._cell(cell, "own cells", OWN_SECONDS)

    def _cell(self, cell: Code, clock: str, seconds: float) -> None:
        self._stopped += [Stopped.left_out(cell, each) for each in cell.code.skipped]
        for statement in cell.code.statements:
            self._statement(Stopped(cell, statement.line, statement.text, statement=statement), clock, seconds)

    def _statement(self, what: Stopped, clock: str, seconds: float) -> None:
        """When the time is over, definitions are still run."""
        if why := self._is_over(clock, seconds):
            if not is_definition(what):
                self._stopped.append(what.ended("time", f"was not run: {why}"))
                return
            clock, seconds = "definitions", DEFINITION_SECONDS
        with self._time(clock, seconds):
            ran = self._student.step(what.cell.name, what.text, what.line)
        if ran.error is not None:
            self._kills += ran.killed
            self._stopped.append(what.of(ran))

    def _is_over(self, clock: str, seconds: float) -> str:
        """Why only definitions are still run, or nothing."""
        if self._kills >= MAX_KILLS:
            return f"{MAX_KILLS} statements before it ended the process"
        if self._used.get(clock, 0.0) >= seconds:
            return f"the code before it used up its {seconds:g} s"
        late = time.monotonic() - self._began > RUN_SECONDS
        return f"the notebook's code used up its {RUN_SECONDS:g} s" if late else ""

    @contextlib.contextmanager
    def _time(self, clock: str, seconds: float) -> Iterator[None]:
        self._student.restart_clock(seconds, self._used.get(clock, 0.0))
        yield
        self._used[clock] = self._student.used

    # --- an exercise ------------------------------------------------------------------------------------------------

    def _exercise(self, exercise: Exercise, later: list[Exercise]) -> None:
        self._own(exercise.own)
        if exercise.answer is not None:
            self._cell(exercise.answer, exercise.answer.grade_id, EXERCISE_SECONDS)
        clock = f"tests {exercise.tests[0][1].grade_id}" if exercise.tests else ""
        cut_off = len(self._student.cut_off)
        outputs, faults = self._tests(exercise, clock)
        for more in (self._answer_again, self._below):
            is_slow = self._used[clock] > EXERCISE_SECONDS / 2 or self._is_over(clock, EXERCISE_SECONDS)
            if is_slow or _points(exercise, outputs) >= _most(exercise):
                break
            outputs, faults = self._once_more(exercise, more(exercise, later), outputs, faults)
        if _points(exercise, outputs) < _most(exercise):
            self._lost.append(exercise)
            self._tell_of_cut_off(exercise, self._student.cut_off[cut_off:])
        self._executed.outputs |= self._of_answer(exercise.answer) | outputs
        self._executed.faults += faults

    def _tell_of_cut_off(self, exercise: Exercise, why: list[str]) -> None:
        """Right code that is slow, or large, loses points as wrong code does: only a person can tell."""
        if why and exercise.answer is not None:
            cell = exercise.answer.grade_id
            told = f"{cell} lost points where a call gave no answer ({why[0]}): a person has to look"
            self._notes.append(Note("flagged", told, cell=cell))

    def _of_answer(self, answer: Code | None) -> Outputs:
        if answer is None:
            return {}
        stopped = [each for each in self._stopped if each.cell is answer and each.kind != "command"]
        return {answer.grade_id: [failed(str(each)) for each in stopped[:MAX_TOLD]]}

    def _tests(self, exercise: Exercise, clock: str) -> tuple[Outputs, list[str]]:
        outputs: Outputs = {}
        faults: list[str] = []
        for own, test in exercise.tests:
            self._own(own)
            self._retry_missing(exercise.answer)
            with self._time(clock, EXERCISE_SECONDS):
                lacks = self._lacks(exercise.answer)
                if lacks:
                    outputs[test.grade_id] = [failed(lacks)]
                    continue
                source = test.cell.source
                outputs[test.grade_id] = tested(source, test.grade_id, self._namespace, self._student, faults)
        return outputs, faults

    def _lacks(self, answer: Code | None) -> str:
        """What of the answer is not there, and why: nothing else can be said of it then."""
        for name in sorted(answer.targets) if answer else ():
            try:
                missing = self._student.look(name)[0] == "missing"
            except NoAnswer as error:
                return str(error)
            if missing and answer:
                return f"{name} is not there: {self._why_missing(name, answer)}"
        return ""

    def _why_missing(self, name: str, answer: Code) -> str:
        stopped = [each for each in self._stopped if each.cell is answer]
        defining = [each for each in stopped if each.defines(name)]
        if defining:
            return f"its definition did not run ({defining[-1]})"
        others = [each for each in stopped if each.kind != "command"]
        if others:
            return f"the cell does not define it, and of the cell this did not run: {others[0]}"
        return "the cell does not define it"

    def _once_more(
        self, exercise: Exercise, after: str, outputs: Outputs, faults: list[str]
    ) -> tuple[Outputs, list[str]]:
        """The better of what was and what the tests say `after` more code has run; nothing has where that is empty."""
        if not after:
            return outputs, faults
        first = exercise.tests[0][1].grade_id
        again = self._tests(exercise, f"{first} {after}")
        if _points(exercise, again[0]) <= _points(exercise, outputs):
            return outputs, faults
        self._notes.append(Note("repaired", f"the points are those of the tests after {after} had run", cell=first))
        return again

    def _answer_again(self, exercise: Exercise, later: list[Exercise]) -> str:
        """Where own code between the answer and its tests defines the same name."""
        answer = exercise.answer
        between = [cell for own, _ in exercise.tests for cell in own]
        if answer is None or not any(bound(s.tree) & answer.targets for c in between for s in c.code.statements):
            return ""
        for statement in answer.code.statements:
            self._statement(Stopped(answer, statement.line, statement.text, statement=statement), "again", OWN_SECONDS)
        return "the answer's cell once more, as own code below it defines the same name,"

    def _below(self, exercise: Exercise, later: list[Exercise]) -> str:
        """The student's own code below the tests, and then what lacked a name before."""
        below = [cell for each in later for cell in (*each.own, *(c for own, _ in each.tests for c in own))]
        below = [cell for cell in (*below, *self._program.below) if id(cell) not in self._done]
        if not below:
            return ""
        self._own(below)
        self._retry_missing()
        return "the student's own code below them"

    def _retry_missing(self, only: Code | None = None) -> None:
        """What lacked a name before, now that more has run: all of it, or what stands in this cell."""
        before, self._stopped = self._stopped, []
        for each in before:
            if each.is_missing_name and only in (None, each.cell):
                self._statement(each.fresh(), "again", OWN_SECONDS)
            else:
                self._stopped.append(each)


def _points(exercise: Exercise, outputs: Outputs) -> float:
    return sum(_points_of(test.cell, outputs.get(test.grade_id, [])) for _, test in exercise.tests)


def _points_of(test: NotebookNode, outputs: list[NotebookNode]) -> float:
    cell = copy.copy(test)
    cell.outputs = outputs
    try:
        return float(utils.determine_grade(cell)[0] or 0.0)
    except ValueError:  # more than there are, which nbgrader refuses when it reads them
        return float(cell.metadata["nbgrader"]["points"])


def _most(exercise: Exercise) -> float:
    return sum(float(test.cell.metadata["nbgrader"]["points"]) for _, test in exercise.tests)
