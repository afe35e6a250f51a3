"""Where a submission looks for answers, for others' work or outside: for a person to read, never a deduction."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache

import nbformat

from autograder.intake.handed_in import Cell
from autograder.intake.notes import Note
from autograder.paths import COURSE
from autograder.running.trusted import Seen

SOURCES = (
    (r"\bautograder\b", "the autograder"),
    (r"(?:import|from)\s+(?:solutions|nbgrader|reference)\b", "the answers"),
    (r"\bsolutions/|/reference/|\bsource/lesson", "the folder of the answers"),
    (r"gradebook", "the gradebook"),
    (r"(?:BEGIN|END) (?:HIDDEN TESTS|SOLUTION)", "the instructor's notebook"),
    (
        r"\bgrade_(?:examples|main_path|boundaries|source_mapping)\b|\bplan_(?:requests|tests|sizes)\b",
        "the hidden tests",
    ),
    (r"site-packages|/packages\b|dist-packages", "the installed packages"),
    (r"/proc/|sys\._current_frames|gc\.get_objects|sys\.settrace|inspect\.stack", "the process that runs it"),
)
OUTSIDE = (
    (r"/etc/(?:passwd|shadow|group)\b|\.ssh\b|\bid_rsa\b|\.netrc\b|\.aws/", "accounts and keys of the machine"),
    (
        r"os\.environ\.(?:items|values|copy)\b|(?:print|dict|list|str|repr|sorted|dumps|pprint|f?\"[^\"]*\{)\(?\s*os\.environ"
        r"\s*[),}]|^\s*(?:\w+\s*=\s*)?os\.environ\s*$|^\s*!\s*(?:env|printenv|set)\s*$|^\s*%env\s*$",
        "all environment variables",
    ),
    (
        r"\b(?:import|from)\s+(?:requests|httpx|aiohttp|openai|anthropic|ftplib|smtplib|paramiko|telnetlib)\b"
        r"|\burlopen\(|\burlretrieve\(|\bhttp\.client\b|\bsocket\.(?:socket|create_connection)\b"
        r"|\brequests\.(?:get|post|put|request)\(\s*[frb]*[\"']https?:|^\s*[!%].*\b(?:curl|wget|nc|scp|rsync|ssh)\b",
        "the network",
    ),
)
PATTERNS = [(re.compile(pattern), what) for pattern, what in SOURCES]
OUTSIDE_PATTERNS = [(re.compile(pattern), what) for pattern, what in OUTSIDE]
SEARCH = re.compile(r"\b(?:i?glob|rglob|walk|fwalk|listdir|scandir|iterdir|copytree)\s*\(|\bglob\.i?glob\b")
CALL = re.compile(r"\b(?:system|popen|run|Popen|call|check_output|getoutput)\(")
SHELL = re.compile(r"^\s*[!%]+\s*(?:ls|find|cat|tree|cp|grep|dir|locate|head|tail|less|du|cd)\b")
_PLACE = r"/(?!content\b|kaggle\b|tmp\b|usr\b|dev/null|opt\b)[a-zA-Z]\w*"
ELSEWHERE = re.compile(
    rf"[\"'](?:[^\"']*[\s/])?\.\.(?:[\s/][^\"']*)?[\"']|[\"'](?:[^\"']*\s)?(?:~[\w/.*]*|/[*.]*(?:\s[^\"']*)?|{_PLACE}[^\"']*)[\"']"
    r"|\bPath\.home\(\)|\bexpanduser\(|\.parents?\b|\bpardir\b|\.ipynb\b|\bsubmitted\b|\bos\.sep\b|[\"']HOME[\"']"
)
SHELL_ELSEWHERE = re.compile(rf"\s\.\.(?:/|\s|$)|\s~|\s/(?:\s|[*]|$)|\s{_PLACE}|/\.\.|\.ipynb\b|\bsubmitted\b|\$HOME")
COMMENT = re.compile(r"^\s*#.*$|\s#[^\"']*$")
VENDORED = ("autograder", "solutions", "reference", "gradebook.db", "plan_tests.py", "unified_token_plan.py")
MAX_NOTES = 20


def in_text(handed_in: Mapping[str, Sequence[Cell]]) -> list[Note]:
    """Lines of code cells, also of those that grading does not run, that name a place where answers or tests lie."""
    notes = []
    for name, cells in handed_in.items():
        for cell in cells:
            if cell.kind != "code":
                continue
            place = cell.grade_id or f"cell {cell.number}"
            for number, line, what in _looks(cell.source.splitlines()):
                notes.append(Note("flagged", f"names {what}: {line.strip()[:200]}", name, place, number))
    return notes[:MAX_NOTES]


def _looks(lines: Sequence[str]) -> Iterator[tuple[int, str, str]]:
    """Number (1-based), line, and what it looks for. The course's own lines look for nothing."""
    own = ["" if line.strip() in _released() else line for line in lines]
    code = [COMMENT.sub("", line) for line in own]
    away = next((line for line in code if ELSEWHERE.search(line)), None)
    for number, (line, plain) in enumerate(zip(own, code, strict=True), 1):
        what = next((what for pattern, what in PATTERNS if pattern.search(line)), None)
        what = what or next((what for pattern, what in OUTSIDE_PATTERNS if pattern.search(plain)), None)
        if what is None and away is not None and SEARCH.search(plain):
            what = "other folders or notebooks" + ("" if ELSEWHERE.search(plain) else f" ({away.strip()[:80]})")
        shell = SHELL.search(plain) and SHELL_ELSEWHERE.search(plain)
        if what is None and (shell or (CALL.search(plain) and ELSEWHERE.search(plain))):
            what = "other folders or notebooks"
        if what is not None:
            yield number, line, what


@cache
def _released() -> frozenset[str]:
    """Lines of the released code cells, the set-up cells' among them."""
    lines: set[str] = set()
    for path in sorted(COURSE.glob("*/*/*.ipynb")):
        for cell in nbformat.read(path, as_version=4).cells:  # type: ignore[no-untyped-call]
            if cell.cell_type == "code":
                lines |= {line.strip() for line in cell.source.splitlines()}
    return frozenset(lines)


def in_files(names: Iterable[str]) -> list[Note]:
    """Files handed in beside the notebooks that carry the names of the answers. `names` are POSIX paths below it."""
    found = sorted({part for name in names for part in name.split("/") if part in VENDORED})
    return [Note("flagged", f"a copy of {name} was handed in") for name in found]


def in_run(notebook: str, seen: Iterable[Seen]) -> list[Note]:
    """What the code did while it ran, whatever its text looks like."""
    unique = dict.fromkeys((look.what, look.cell, look.line) for look in seen)
    return [Note("flagged", f"tried while it ran: {what}", notebook, cell, line) for what, cell, line in unique]
