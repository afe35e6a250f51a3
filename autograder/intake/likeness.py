"""How much two texts are alike, quickly: by the words that they share."""

from __future__ import annotations

import re
from functools import lru_cache

from autograder.intake.own_code import prose

_WORD = re.compile(r"[A-Za-z_]\w*|\d+|[\u4e00-\u9fff]")
MAX_READ = 5_000  # characters


@lru_cache(maxsize=4096)
def words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text[:MAX_READ]))


def likeness(template: str, text: str) -> float:
    """The share of the template's words that stand in the text too, from 0 to 1."""
    of = words(template)
    return len(of & words(text)) / len(of) if of else 0.0


def text_of(source: str, kind: str) -> str | None:
    """The prose in a cell of this kind; None if it is code. Prose that landed in a code cell is no Python, or all
    comment, or one string."""
    if kind != "code":
        return source
    lines = [line for line in source.splitlines() if line.strip()]
    if lines and all(line.lstrip().startswith("#") for line in lines):
        return "\n".join(line.lstrip().lstrip("#").strip() for line in lines)
    return prose(source)
