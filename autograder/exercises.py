"""The exercises by name, and how a student's file is graded on one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from autograder.parts import Part, Report, grade
from autograder.reference import plan_tests, source_mapping
from autograder.trusted import StudentFile

EXERCISES: dict[str, Sequence[Part]] = {
    "unified_token_plan": plan_tests.PARTS,
    "source_mapping": source_mapping.PARTS,
}


def total(parts: Sequence[Part]) -> float:
    return sum(part.points for part in parts)


def grade_file(exercise: str, path: Path) -> Report:
    """Grade the file in a process of its own. An error of its top-level code is told last, if points are left."""
    with StudentFile(path) as file:
        report = grade(EXERCISES[exercise], file.call)
        if file.load_error is None:
            return report
        told = f"running the file stopped with {file.load_error}"
        report.add_message(f"{told}; what it defined before was graded")
        if not report.points:
            report.messages.insert(0, report.messages.pop())
        return report
