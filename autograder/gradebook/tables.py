"""The course's own tables, in the database of nbgrader's gradebook: what was graded, and what people decided.

A `State` changes in the transaction that changes nbgrader's points. Decisions and settlements are only ever added.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from nbgrader.api import Gradebook
from sqlalchemy import JSON, Connection, Engine, Index, create_engine, event, inspect, make_url
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

LOCKED_SECONDS = 20.0
"""How long a writer waits for another to be done. It can be interrupted meanwhile."""
BUSY_SECONDS = 1.5
"""How long SQLite itself waits, which nothing interrupts: for readers, and for whoever locks out readers too."""


class Base(DeclarativeBase):
    type_annotation_map = {dict[str, Any]: JSON, list[dict[str, Any]]: JSON}  # noqa: RUF012


class State(Base):
    """What is known of a student's submission of a lesson: of which files the points are, and what came of them.

    Attributes:
        files, release, grader: digests of what was handed in, of the released lesson and of the grader.
        failed: why there are no points, in one sentence; empty if it was graded.
        notebooks: by name, ``cells`` by grade id (points, of, text, blank, told) and ``suggestions`` by grade id.
        notes: what a person should know, as `autograder.intake.notes.Note`.
    """

    __tablename__ = "minivllm_state"

    lesson: Mapped[str] = mapped_column(primary_key=True)
    student: Mapped[str] = mapped_column(primary_key=True)
    files: Mapped[str]
    release: Mapped[str]
    grader: Mapped[str]
    edition: Mapped[str] = mapped_column(default="en")
    failed: Mapped[str] = mapped_column(default="")
    seconds: Mapped[float] = mapped_column(default=0.0)
    at: Mapped[datetime.datetime]
    notebooks: Mapped[dict[str, Any]] = mapped_column(default=dict)
    notes: Mapped[list[dict[str, Any]]] = mapped_column(default=list)

    def cell(self, notebook: str, grade_id: str) -> dict[str, Any]:
        """What is known of a cell, or nothing."""
        known: dict[str, Any] = self.notebooks.get(notebook, {}).get("cells", {}).get(grade_id, {})
        return known

    def suggestion(self, notebook: str, grade_id: str) -> dict[str, Any] | None:
        found: dict[str, Any] | None = self.notebooks.get(notebook, {}).get("suggestions", {}).get(grade_id)
        return found


def state_of(session: Session, lesson: str, student: str) -> State | None:
    return session.get(State, (lesson, student))


class Decision(Base):
    """What a person said of one cell: the whole of it, whatever part they changed.

    Attributes:
        text: the digest of the answer that it is about.
        points: None if they gave none, or took theirs back.
        chain, veto, confirmed: what follows from it for the verdict, as it was when they decided.
        why: what the student is told where they wrote no comment: the reasons of points that they confirmed.
    """

    __tablename__ = "minivllm_decision"
    __table_args__ = (Index("minivllm_decision_about", "lesson", "student", "notebook", "cell"),)

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    at: Mapped[datetime.datetime]
    who: Mapped[str]
    lesson: Mapped[str]
    student: Mapped[str]
    notebook: Mapped[str]
    cell: Mapped[str]
    text: Mapped[str]
    points: Mapped[float | None]
    chain: Mapped[float | None]
    veto: Mapped[str] = mapped_column(default="")
    confirmed: Mapped[bool | None]
    comment: Mapped[str] = mapped_column(default="")
    why: Mapped[str] = mapped_column(default="")


class Settlement(Base):
    """A note that a person has looked at, and what they said."""

    __tablename__ = "minivllm_settlement"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    at: Mapped[datetime.datetime]
    who: Mapped[str]
    lesson: Mapped[str]
    student: Mapped[str]
    note: Mapped[str]
    word: Mapped[str] = mapped_column(default="")


def now() -> datetime.datetime:
    """In UTC, without saying so, as nbgrader's own times."""
    return datetime.datetime.now(datetime.UTC).replace(tzinfo=None)


@contextmanager
def transaction(db_url: str, course_id: str = "") -> Iterator[Session]:
    """All that is done with the session comes into the gradebook together, or nothing does.

    Nobody else writes meanwhile. Changes made here are the grader's, not decisions of a person. Raises sqlalchemy's
    DatabaseError.
    """
    engine = _engine(db_url, course_id)
    try:
        with Session(engine, info={"grader": True}) as session, session.begin():
            yield session
    finally:
        engine.dispose()


@contextmanager
def reading(db_url: str, course_id: str = "") -> Iterator[Session]:
    """A session in which nothing is changed."""
    engine = _engine(db_url, course_id, locks=False)
    try:
        with Session(engine, info={"grader": True}) as session:
            yield session
    finally:
        engine.dispose()


def _engine(db_url: str, course_id: str, locks: bool = True) -> Engine:
    """Of a gradebook in which all tables are there."""
    is_sqlite = make_url(db_url).get_backend_name() == "sqlite"
    engine = create_engine(db_url, connect_args={"timeout": BUSY_SECONDS} if is_sqlite else {})
    if is_sqlite and locks:

        @event.listens_for(engine, "connect")
        def _begin_ourselves(connection: Any, record: Any) -> None:
            connection.isolation_level = None  # Python's driver would begin at the first change, after what was read

        event.listen(engine, "begin", _lock)
    if not inspect(engine).has_table(Settlement.__tablename__):
        with Gradebook(db_url, course_id):  # makes nbgrader's own tables
            pass
        Base.metadata.create_all(engine)
    return engine


def _lock(connection: Connection) -> None:
    until = time.monotonic() + LOCKED_SECONDS
    while True:
        try:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            return
        except OperationalError as error:
            if time.monotonic() > until or "locked" not in str(error.orig):
                raise
            time.sleep(0.05)
