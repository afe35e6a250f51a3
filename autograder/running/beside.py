"""Files handed in beside a notebook, as far as its code may read and import them where it runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath

from autograder.intake.notes import shown

MAX_BYTES = 2 << 20  # all together
MAX_FILES = 200
MAX_NAME = 200  # characters


def kept(files: Mapping[str, bytes]) -> tuple[dict[str, bytes], list[str]]:
    """The files that are put beside the code, small ones first, and why others are not, a sentence each."""
    found: dict[str, bytes] = {}
    told, size = [], 0
    for name, content in sorted(files.items(), key=lambda item: (len(item[1]), item[0])):
        if not _is_plain(name):
            told.append(f"{shown(name)} was not put beside the code: it has no plain name")
        elif len(found) == MAX_FILES or size + len(content) > MAX_BYTES:
            told.append(f"{shown(name)} was not put beside the code: {MAX_FILES} files of {MAX_BYTES >> 20} MiB are")
        elif not name.endswith(".ipynb"):
            found[name] = content
            size += len(content)
    return found, told


def _is_plain(name: str) -> bool:
    path = PurePosixPath(name)
    parts = name.split("/")
    return (
        0 < len(name) <= MAX_NAME
        and name.isprintable()
        and "\\" not in name
        and not path.is_absolute()
        and not any(part in ("", ".", "..") or part.startswith(".") for part in parts)
    )
