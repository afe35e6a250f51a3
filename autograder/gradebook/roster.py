"""Who takes part, from a table as registrars and Excel write it, into the gradebook's students."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from nbgrader.api import Student
from sqlalchemy.orm import Session

from autograder.intake.notes import shown

COLUMNS = ("id", "first_name", "last_name", "email")
SEPARATORS = ",;\t"
LONGEST = 128  # characters, of the gradebook's columns
MAX_BYTES = 8 << 20
SHOWN_FAULTS = 10
NO_FOLDER = re.compile(r"[\x00-\x1f*?\[\]<>/\\]|^\.|^\s|\s$")
"""A student's id is the name of a folder in submitted/."""


class RosterError(Exception):
    """The table can't be entered; the text says where it is wrong."""


@dataclass(frozen=True)
class Listed:
    """A row of the table. What is empty is not known."""

    id: str
    first_name: str = ""
    last_name: str = ""
    email: str = ""

    @property
    def fault(self) -> str:
        if not self.id:
            return "has no id"
        if NO_FOLDER.search(self.id) or self.id == "__MACOSX":
            return f"has the id {shown(self.id)!r}, which can't be a folder's name in submitted/"
        for column in COLUMNS:
            if len(getattr(self, column)) > LONGEST:
                return f"has more than {LONGEST} characters in {column}"
        if self.email and not re.fullmatch(r"[^@\s]+@[^@\s]+", self.email):
            return f"has the email {shown(self.email)!r}, which is none"
        return ""


def read(path: Path) -> tuple[list[Listed], list[str]]:
    """The students, and the columns that are not used. Raises RosterError, which names the lines that are wrong."""
    text = _text(path)
    first = text.splitlines()[0] if text.strip() else ""
    marked = re.fullmatch(r'"?sep=(.)"?', first.strip(), flags=re.IGNORECASE)
    separator = marked[1] if marked else max(SEPARATORS, key=first.count)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    try:
        numbered = [(rows.line_num, [field.strip() for field in row]) for row in rows]
    except csv.Error as error:
        raise RosterError(f"{path} line {rows.line_num}: {error}: save it as CSV again") from None
    numbered = [(line, row) for line, row in numbered[1 if marked else 0 :] if any(row)]
    if not numbered:
        raise RosterError(f"{path} is empty: its first line names the columns {', '.join(COLUMNS)}")
    head = [name.lower().replace(" ", "_") for name in numbered[0][1]]
    if "id" not in head or len({*head}) < len(head):
        raise RosterError(
            f"{path} has the columns {', '.join(map(shown, head))}: its first line names id, and no column twice; "
            f"used are {', '.join(COLUMNS)}"
        )
    students, faults = list[Listed](), list[str]()
    for student, fault in _students(head, numbered[1:]):
        students.append(student)
        faults += [fault] if fault else []
    if not students:
        raise RosterError(f"{path} names no student: one line each, below the names of the columns")
    if faults:
        more = f"; and {len(faults) - SHOWN_FAULTS} more" if len(faults) > SHOWN_FAULTS else ""
        told = "; ".join(faults[:SHOWN_FAULTS])
        raise RosterError(f"{path}: {told}{more}: nobody was entered; correct that and run this again")
    return students, [name for name in head if name not in COLUMNS]


def _students(head: list[str], rows: Sequence[tuple[int, list[str]]]) -> Iterator[tuple[Listed, str]]:
    lines: dict[str, int] = {}
    for line, row in rows:
        known = {name: value for name, value in zip(head, row, strict=False) if name in COLUMNS}
        student = Listed(**{"id": "", **known})
        fault = student.fault
        if len(row) != len(head):
            fault = f"has {len(row)} fields, and the first line {len(head)}"
        elif student.id and lines.setdefault(student.id, line) != line:
            fault = f"has the id {shown(student.id)!r} of line {lines[student.id]} again"
        yield student, f"line {line} {fault}" if fault else ""


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise RosterError(f"{path} can't be read ({error.strerror}): name a CSV file") from None
    if len(data) > MAX_BYTES:
        raise RosterError(f"{path} is larger than {MAX_BYTES >> 20} MiB: name a CSV file with one line a student")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise RosterError(f"{path} is not UTF-8: in Excel, save it as `CSV UTF-8`")
    return text


def enter(session: Session, students: Sequence[Listed]) -> tuple[int, int]:
    """All or none. How many were new, and how many got another name or address; what the table leaves empty stays."""
    known = {student.id: student for student in session.query(Student)}
    new = changed = 0
    for listed in students:
        values = {name: value for name in COLUMNS[1:] if (value := getattr(listed, name))}
        student = known.get(listed.id)
        if student is None:
            session.add(Student(id=listed.id, **values))
            new += 1
        elif differing := {name: value for name, value in values.items() if getattr(student, name) != value}:
            for name, value in differing.items():
                setattr(student, name, value)
            changed += 1
    session.commit()
    return new, changed
