"""What nbgrader writes beside a student's notebooks when they are handed in: when it was, and a secret for feedback.

Its later commands look for both below autograded/. With the secret `nbgrader release_feedback` names a page so that
only who handed in finds it; one student without the files ends that command for the class.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
from pathlib import Path

from nbgrader import utils

from autograder.intake.notes import Note

TIMESTAMP = "timestamp.txt"
SECRET = "submission_secret.txt"
LONGEST = {TIMESTAMP: 100, SECRET: 512}  # bytes


def carried(folder: Path) -> tuple[dict[str, bytes], list[Note]]:
    """The files that are what they should be, by name, and what is to be said of the others."""
    found: dict[str, bytes] = {}
    notes: list[Note] = []
    for name in LONGEST:
        if not os.path.lexists(folder / name):
            continue
        text = _text(folder / name)
        if name == TIMESTAMP and not _is_time(text):
            notes.append(Note("flagged", f"{name} says no time: whether it was late is not known"))
        elif name == SECRET and not re.fullmatch(r"[!-~]{16,}", text):
            notes.append(Note("flagged", f"{name} is not nbgrader's: `nbgrader fetch_feedback` will find no feedback"))
        else:
            found[name] = f"{text}\n".encode() if name == TIMESTAMP else text.encode()
    return found, notes


def for_nbgrader(files: dict[str, bytes]) -> dict[str, bytes]:
    """What has to lie below autograded/: where a file is lacking, one with which nothing can be found."""
    return {TIMESTAMP: b"", SECRET: secrets.token_hex(64).encode(), **files}


def _text(path: Path) -> str:
    """Of a regular file that is short; of anything else nothing."""
    longest = LONGEST[path.name]
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            is_file = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            data = file.read(longest + 1) if is_file else b""
        return data.decode("ascii").strip() if len(data) <= longest else ""
    except (OSError, ValueError):
        return ""


def _is_time(text: str) -> bool:
    try:
        return bool(text and text.isprintable() and utils.parse_utc(text))
    except (ValueError, OverflowError):
        return False
