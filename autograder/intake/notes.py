"""What a person should know of a submission, one sentence each."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

NEEDS_PERSON = ("refused", "flagged")
"""The kinds of notes that somebody has to settle before the points are final."""
MAX_TEXT = 20_000  # characters of a student's text that a note quotes
MAX_NAME = 120


@dataclass(frozen=True)
class Note:
    """One sentence for a person.

    Attributes:
        kind: "refused" (not graded), "repaired" (made up for), "edited" (changed outside the answers; the course's own
            cell was used), "not_run" (code of the student that was left out or failed; where points hang on it, a
            "flagged" one says so) or "flagged" (a person has to look).
        cell: a grade id, or what else names the cell.
        kept: the text that stands in the graded notebook, where the note is about two texts.
        other: the text that does not.
    """

    kind: str
    text: str
    notebook: str = ""
    cell: str = ""
    line: int = 0
    kept: str = ""
    other: str = ""

    @property
    def needs_person(self) -> bool:
        return self.kind in NEEDS_PERSON

    @property
    def key(self) -> str:
        """The same for the same words about the same cell, and no others: what a settled note is known by."""
        parts = [self.kind, self.notebook, self.cell, self.text, self.kept, self.other]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def shown(name: str) -> str:
    """A file's name as a report may print it: without what is invisible or turns the writing round."""
    text = "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in name)
    return text if len(text) <= MAX_NAME else f"{text[: MAX_NAME - 3]}..."


def quoted(text: str) -> str:
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}\n[{len(text) - MAX_TEXT} more characters]"
