"""A file that a student handed in: its place, its name as it may be printed, and its content within bounds."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from autograder.intake.notes import shown
from autograder.intake.walk import Entry, Place, chunks, opened_file
from autograder.intake.what_files import Kind, kind_of

MAX_BYTES = 32 << 20
"""A notebook of the course filled in takes well under 1 MiB; pictures and long outputs make it larger."""
TOO_LARGE = f"is larger than {MAX_BYTES >> 20} MiB: clear its outputs and hand it in again"


class Unreadable(Exception):
    """The text says what the file is or lacks."""


@dataclass(frozen=True)
class File:
    """A regular file at `entry` below `root`, the student's folder; `lesson` is the folder that is graded there."""

    root: Path
    lesson: str
    entry: Entry
    order: int = 0
    """Of files whose place says little: how new it is among them, from 1."""

    @property
    def base(self) -> str:
        return self.entry.name

    @property
    def is_aside(self) -> bool:
        """It lies in the student's folder, but not in the lesson's."""
        return bool(self.lesson) and self.entry.place[:1] != (self.lesson,)

    @property
    def place(self) -> Place:
        """The folders above it inside the lesson's, or inside the student's."""
        return self.entry.place if self.is_aside or not self.lesson else self.entry.place[1:]

    @property
    def name(self) -> str:
        """Fit to print."""
        return shown("/".join((*(("..",) if self.is_aside else ()), *self.place, self.base)))

    @property
    def is_hidden(self) -> bool:
        return any(part.startswith(".") or part == "__MACOSX" for part in (*self.place, self.base))

    @property
    def says_notebook(self) -> bool:
        return ".ipynb" in self.base.lower()

    @cached_property
    def kind(self) -> Kind:
        return kind_of(self.base)

    def read(self) -> bytes:
        """Raises Unreadable."""
        try:
            with open(self._opened(), "rb") as file:
                data = file.read(MAX_BYTES + 1)
        except OSError as error:
            raise Unreadable(f"can't be read ({error.strerror})") from None
        except MemoryError:
            raise Unreadable("takes too much memory to read") from None
        if len(data) > MAX_BYTES:
            raise Unreadable(TOO_LARGE)
        return data

    def _opened(self) -> int:
        descriptor = opened_file(self.root, self.entry.place, self.base)
        status = os.fstat(descriptor)
        if stat.S_ISREG(status.st_mode) and status.st_size <= MAX_BYTES:
            return descriptor
        os.close(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise Unreadable("is no regular file")
        raise Unreadable(TOO_LARGE)

    def chunks(self) -> Iterator[bytes]:
        try:
            yield from chunks(self._opened(), MAX_BYTES + 1)
        except OSError as error:
            yield f"can't be read ({error.strerror})".encode()
        except Unreadable as error:
            yield str(error).encode()
