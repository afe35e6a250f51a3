"""The exercises by name, and how a student's file is graded on one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from autograder.judging.parts import Part, Report, grade
from autograder.judging.reference import plan_tests, source_mapping
from autograder.running.trusted import NO_ANSWER, StudentFile

EXERCISES: dict[str, Sequence[Part]] = {
    "unified_token_plan": plan_tests.PARTS,
    "source_mapping": source_mapping.PARTS,
}


def total(parts: Sequence[Part]) -> float:
    return sum(part.points for part in parts)


def grade_file(exercise: str, path: Path) -> Report:
    """Grade the file in a process of its own. Whatever goes wrong with it is one sentence and costs it alone."""
    parts = EXERCISES[exercise]
    try:
        return _graded(parts, path)
    except OSError as error:
        told = f"the file could not be read or run: {error}"
    except Exception as error:  # a fault of the tests must not take the other files' points along
        told = f"the tests stopped with {type(error).__name__}: {error}; that is their fault, whatever the file does"
    report = Report({part.name: 0.0 for part in parts})
    report.add_message(told)
    return report


def _graded(parts: Sequence[Part], path: Path) -> Report:
    """An error of the file's top-level code is told last, if points are left."""
    with StudentFile(path) as file:
        report = grade(parts, file.call)
        if file.load_error is None:
            return report
        if file.load_error.is_a(NO_ANSWER):
            report.add_message(file.load_error.message)
        else:
            then = "what it defined before was graded" if file.ran else "nothing of it ran"
            report.add_message(f"running the file stopped with {file.load_error}; {then}")
        if not report.points:
            report.messages.insert(0, report.messages.pop())
        return report
