"""One command at a time changes a class, or the course in the clone."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NAME = ".grade.lock"
UNFINISHED = ".unfinished"
"""Ends the name of an archive that is being filled (`autograder.classroom.term`)."""


class BusyError(Exception):
    """Something else is at work on the folder; the text says what."""


@contextmanager
def alone(root: Path, what: str) -> Iterator[None]:
    """Nobody else is at work in `root` meanwhile. `what` is the command that is. Raises BusyError if somebody is."""
    root.mkdir(parents=True, exist_ok=True)
    with (root / NAME).open("a+", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            told = lock.read(100) or "grade"
            raise BusyError(f"another {told} is running in {root}: wait for its end, or end it") from None
        lock.truncate(0)
        lock.write(what)
        lock.flush()
        try:
            left = next(root.glob(f"archive/*{UNFINISHED}"), None)
            if left and what != "term":
                name = left.name.removesuffix(UNFINISHED)
                raise BusyError(
                    f"a new term was begun in {root} and interrupted: run `python -m autograder term {name}`"
                )
            yield
        finally:
            lock.truncate(0)
