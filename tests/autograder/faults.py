"""A process that is killed between two of its writes. Where it writes is counted, not listed."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, event
from sqlalchemy.orm import Session

CHANGES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod")


def killed_at(number: int | None, place: Path, does: Callable[[], None]) -> list[str]:
    """Do it in a process of its own, which ends with SIGKILL just before its write with this number, from 0.

    Without a number nothing is killed. Returns what was written, in order: changes of files below `place`, statements of
    SQL, what SQLAlchemy does around them, and what `does` says with `write`.
    """
    told, tell = os.pipe()
    process = os.fork()
    if not process:
        try:
            os.close(told)
            _count(number, place, tell)
            does()
            os._exit(0)
        finally:
            os._exit(77)
    os.close(tell)
    with open(told, "rb") as file:
        lines = file.read().decode().splitlines()
    _, status = os.waitpid(process, 0)
    ended = os.waitstatus_to_exitcode(status)
    if number is not None and number < len(lines):
        assert ended == -signal.SIGKILL, (number, ended)
    else:
        assert ended == 0, (number, ended, lines)
    return lines


class Telling:
    """In place of the connection on which a worker sends its row."""

    def send_bytes(self, data: bytes) -> None:
        write("send the row")
        self.sent = data


_writes: list[Callable[[str], None]] = []


def write(what: str) -> None:
    """Something that lasts is about to happen, or has just happened."""
    for each in _writes:
        each(what)


def _count(number: int | None, place: Path, tell: int) -> None:
    done = 0

    def at(what: str) -> None:
        nonlocal done
        os.write(tell, f"{what}\n".encode())
        if done == number:
            os.kill(os.getpid(), signal.SIGKILL)
        done += 1

    _writes.append(at)
    sys.addaudithook(lambda name, arguments: _hear(name, arguments, str(place)))
    event.listen(Engine, "before_cursor_execute", _statement, named=True)
    for what in ("after_flush", "before_commit", "after_commit"):
        event.listen(Session, what, lambda *_, what=what: write(f"session: {what}"))


def _statement(**about: Any) -> None:
    verb = about["statement"].split()[0].upper()
    if verb not in ("SELECT", "PRAGMA"):
        write(f"sql: {' '.join(about['statement'].split()[:3])}")


def _hear(name: str, arguments: tuple[Any, ...], place: str) -> None:
    path = arguments[0] if arguments else None
    if not isinstance(path, str | bytes | os.PathLike) or not os.fsdecode(path).startswith(place):
        return
    if name in CHANGES:
        write(f"{name} {os.path.basename(os.fsdecode(path))}")
    elif name == "open" and len(arguments) > 2 and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        write(f"open {os.path.basename(os.fsdecode(path))}")
