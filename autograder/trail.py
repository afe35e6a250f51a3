"""The commands about what people decided: the decisions themselves, and notes that wait for somebody."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Annotated, Any

import nbgrader.api as nbgrader
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text
from sqlalchemy.orm import Session

from autograder.classroom.classroom import Classroom
from autograder.commands import Lesson, plainly
from autograder.gradebook.tables import state_of
from minivllm.cli import UsageError

Student = Annotated[str, typer.Option("--student", metavar="NAME", help="only this one")]
COLUMNS = ("at", "who", "student", "notebook", "cell", "points", "chain", "confirmed", "veto", "comment", "text")


def decisions(
    lesson: Lesson = "lesson-2",
    student: Student = "",
    to: Annotated[Path | None, typer.Option("--csv", help="write them all into this file instead")] = None,
) -> None:
    """Show who decided what about which answer, and when (UTC), oldest first: what an appeal is answered from."""
    from autograder.classroom.classroom import Classroom
    from autograder.gradebook.decisions import by_student
    from autograder.gradebook.tables import reading

    room = Classroom(lesson)
    with plainly(room), reading(room.book.db_url, room.book.course_id) as session:
        _check(room, session, student)
        made = [each for name, of in by_student(session, lesson).items() if student in ("", name) for each in of]
    made.sort(key=lambda each: each.id)
    rows = [[_text(getattr(each, column)) for column in COLUMNS] for each in made]
    if to is None:
        _print(COLUMNS[:-1], [row[:-1] for row in rows])
        return
    from autograder.reports.registrar import inert

    try:
        with to.open("w", encoding="utf-8-sig", newline="") as file:
            writer = csv.writer(file, quoting=csv.QUOTE_ALL)
            writer.writerows([COLUMNS, *([inert(cell) for cell in row] for row in rows)])
    except OSError as error:
        raise UsageError(f"{to} can't be written ({error.strerror}): name another file") from None
    print(f"{len(rows)} decisions: {to}")


def notes(lesson: Lesson = "lesson-2", student: Student = "") -> None:
    """List what a person still has to look at, with the id that `settle` takes."""
    from autograder.classroom.classroom import Classroom
    from autograder.gradebook.settling import open_notes
    from autograder.gradebook.tables import reading

    room = Classroom(lesson)
    with plainly(room), reading(room.book.db_url, room.book.course_id) as session:
        _check(room, session, student)
        found = [each for each in open_notes(session, lesson) if student in ("", each.student)]
    _print(("id", "student", "kind", "what"), [[each.id, each.student, each.note.kind, each.text] for each in found])
    print(f"{len(found)} open note{'s' * (len(found) != 1)}")


def settle(
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="as `notes` and the report show them")],
    because: Annotated[str, typer.Option("--because", help="what you found, for whoever reads it later")],
    lesson: Annotated[str, typer.Option("--lesson", help="which assignment")] = "lesson-2",
) -> None:
    """Say that you have looked at these notes. It is kept with your name; a note that changes is open again."""
    from autograder.classroom.classroom import Classroom
    from autograder.gradebook import settling
    from autograder.gradebook.decisions import me
    from autograder.gradebook.tables import transaction

    if not because.strip():
        raise UsageError("--because is empty: say in a few words what you found")
    room = Classroom(lesson)
    with plainly(room), transaction(room.book.db_url, room.book.course_id) as session:
        there = {each.id: each for each in settling.open_notes(session, lesson)}
        unknown = [id for id in ids if id not in there]
        if unknown:
            raise UsageError(f"{unknown[0]} is no open note of {lesson}: `python -m autograder notes` lists them")
        chosen = [there[id] for id in dict.fromkeys(ids)]
        settling.settle(session, lesson, chosen, me(), because.strip())
    for each in chosen:
        print(f"settled: {each.student}: {each.text}".encode("utf-8", "replace").decode())


def _check(room: Classroom, session: Session, student: str) -> None:
    """Raises ClassroomError or UsageError where lesson or student are not known."""
    room.check_lesson(session)
    known = state_of(session, room.lesson, student) or session.get(nbgrader.Student, student)
    if student and known is None:
        raise UsageError(f"--student {student}: the gradebook knows nobody of that name; check it")


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _print(columns: tuple[str, ...], rows: list[list[str]]) -> None:
    table = Table(*columns, box=None, pad_edge=False, header_style="dim")
    for row in rows:
        table.add_row(*(Text("".join(c if c.isprintable() else " " for c in cell)) for cell in row))
    Console(width=None if sys.stdout.isatty() else 200).print(table)


COMMANDS = (decisions, notes, settle)
