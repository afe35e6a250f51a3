"""What `autograder grade` prints: a row as each submission is done, a bar below, and what a person has to look at."""

from __future__ import annotations

import sys
import time
from collections.abc import Collection
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column, Table
from rich.text import Text

from autograder.classroom.classroom import Classroom
from autograder.classroom.worker import Row
from autograder.classroom.workers import Workers
from autograder.intake.notes import Note

SHOWN_NOTES = 3


class ClassRows:
    """A context: rows are added one by one, so that an interrupted run has shown what it did."""

    def __init__(self, room: Classroom, workers: Workers, only: Collection[str] = ()) -> None:
        self._workers = workers
        self._console = Console(width=None if sys.stdout.isatty() else 160)
        students = room.folders(only)
        self._width = min(max(map(len, students), default=0) + 1, 30)
        told = TextColumn("{task.description}", markup=False)
        columns = (told, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._progress = Progress(*columns, console=self._console, disable=not self._console.is_terminal)
        self._lesson = room.lesson
        self._task = self._progress.add_task(room.lesson, total=len(students))
        self._rows: list[Row] = []
        self._started = time.monotonic()

    def __enter__(self) -> ClassRows:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()
        unchanged = sum(row.unchanged and row.points is not None for row in self._rows)
        graded = len(self._rows) - self.ungraded - unchanged
        said = [f"{graded} graded", f"{unchanged} unchanged", f"{self.ungraded} not graded"]
        seconds = time.monotonic() - self._started
        self._console.print(f"{', '.join(said)}, {seconds:.1f} s", highlight=False)
        if kind is not None and self._workers.running:
            names = ", ".join(map(_printable, self._workers.running))
            self._console.print(Text(f"interrupted while it graded {names}: run `grade` again to go on"))

    @property
    def ungraded(self) -> int:
        return sum(row.points is None for row in self._rows)

    def add(self, row: Row) -> None:
        self._rows.append(row)
        table = Table.grid(Column(width=self._width, overflow="fold"), Column(width=8), Column(), padding=(0, 2, 0, 0))
        points = "-" if row.points is None else f"{row.points:g}/{row.of:g}"
        table.add_row(Text(_printable(row.student)), points, Text(_printable("; ".join(self._told(row)))))
        self._console.print(table)
        at = ", ".join(map(_printable, self._workers.running))
        self._progress.update(self._task, advance=1, description=f"{self._lesson} {at}"[:60])

    @staticmethod
    def _told(row: Row) -> list[str]:
        told = [row.reason] if row.reason else []
        told += ["unchanged"] if row.unchanged else []
        told += ["waits for a person"] if row.unread else []
        notes = [note for note in row.notes if note.text not in row.reason]
        first = [_of(note) for kind in ("refused", "flagged", "not_run") for note in notes if note.kind == kind][
            :SHOWN_NOTES
        ]
        more = len(notes) - len(first)
        return [*told, *first, *([f"{more} more note{'s' * (more != 1)}"] if more else [])]


def _of(note: Note) -> str:
    """What it is about stands first; the text of what was refused names its file itself."""
    line = f"line {note.line}" if note.line else ""
    place = "" if note.kind == "refused" else " ".join(filter(None, (note.notebook, note.cell, line)))
    return f"{place}: {note.text}" if place else note.text


def _printable(text: str) -> str:
    """Without what a terminal would obey: it quotes students."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)
