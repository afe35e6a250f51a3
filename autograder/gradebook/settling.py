"""Notes that need a person: open until somebody has settled them, by name. A note with other words is open again."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from autograder.gradebook.tables import Settlement, State, now
from autograder.intake.notes import Note


@dataclass(frozen=True)
class OpenNote:
    """A note that nobody has settled. `id` names it on the command line."""

    id: str
    student: str
    note: Note

    @property
    def text(self) -> str:
        place = " ".join(filter(None, (self.note.notebook, self.note.cell)))
        return f"{place}: {self.note.text}" if place else self.note.text


def open_in(state: State, settled: Collection[str]) -> tuple[OpenNote, ...]:
    """The notes of a submission that are still open; `settled` has the keys of the others."""
    return tuple(each for each in _needing(state) if each.note.key not in settled)


def settled(session: Session, lesson: str) -> dict[str, dict[str, Settlement]]:
    """The settlements by student and the note's key."""
    found: dict[str, dict[str, Settlement]] = {}
    for each in session.scalars(select(Settlement).where(Settlement.lesson == lesson).order_by(Settlement.id)):
        found.setdefault(each.student, {})[each.note] = each
    return found


def open_notes(session: Session, lesson: str) -> list[OpenNote]:
    """Of the whole class, by student."""
    known = settled(session, lesson)
    states = session.scalars(select(State).where(State.lesson == lesson).order_by(State.student))
    return [note for state in states for note in open_in(state, known.get(state.student, ()))]


def settle(session: Session, lesson: str, notes: Collection[OpenNote], who: str, word: str) -> None:
    for each in notes:
        session.add(Settlement(at=now(), who=who, lesson=lesson, student=each.student, note=each.note.key, word=word))


def _needing(state: State) -> Iterator[OpenNote]:
    for note in dict.fromkeys(Note(**data) for data in state.notes):
        if note.needs_person:
            of = f"{state.lesson}/{state.student}/{note.key}"
            yield OpenNote(hashlib.sha256(of.encode()).hexdigest()[:8], state.student, note)
