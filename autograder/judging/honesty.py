"""Where a submission looks for the answers: for a person to read, never a deduction."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from autograder.intake.handed_in import Cell
from autograder.intake.notes import Note
from autograder.running.trusted import Seen

SOURCES = (
    (r"\bautograder\b", "the autograder"),
    (r"(?:import|from)\s+(?:solutions|nbgrader|reference)\b", "the answers"),
    (r"\bsolutions/|/reference/|\bsource/lesson", "the folder of the answers"),
    (r"gradebook", "the gradebook"),
    (r"(?:BEGIN|END) (?:HIDDEN TESTS|SOLUTION)", "the instructor's notebook"),
    (r"\bgrade_(?:examples|main_path|boundaries|source_mapping)\b|\bplan_(?:requests|tests)\b", "the hidden tests"),
    (r"site-packages|/packages\b|dist-packages", "the installed packages"),
    (r"/proc/|sys\._current_frames|gc\.get_objects|sys\.settrace|inspect\.stack", "the process that runs it"),
)
PATTERNS = [(re.compile(pattern), what) for pattern, what in SOURCES]
VENDORED = ("autograder", "solutions", "reference", "gradebook.db", "plan_tests.py", "unified_token_plan.py")
MAX_NOTES = 20


def in_text(handed_in: Mapping[str, Sequence[Cell]]) -> list[Note]:
    """Lines of code cells, also of those that grading does not run, that name a place where answers or tests lie."""
    notes = []
    for name, cells in handed_in.items():
        for cell in cells:
            place = cell.grade_id or f"cell {cell.number}"
            for number, line in enumerate(cell.source.splitlines() if cell.kind == "code" else (), 1):
                what = next((what for pattern, what in PATTERNS if pattern.search(line)), None)
                if what is not None:
                    notes.append(Note("flagged", f"names {what}: {line.strip()[:200]}", name, place, number))
    return notes[:MAX_NOTES]


def in_files(folder: Path) -> list[Note]:
    """Files handed in beside the notebooks that carry the names of the answers."""
    found = sorted(path.name for path in folder.glob("*") if path.name in VENDORED)
    return [Note("flagged", f"a copy of {name} was handed in") for name in found]


def in_run(notebook: str, seen: Iterable[Seen]) -> list[Note]:
    """What the code did while it ran, whatever its text looks like."""
    unique = dict.fromkeys((look.what, look.cell, look.line) for look in seen)
    return [Note("flagged", f"tried while it ran: {what}", notebook, cell, line) for what, cell, line in unique]
