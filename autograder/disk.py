"""A full disk, told in one sentence: which folder, and what to do."""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from autograder.paths import CLONE

FULL = (errno.ENOSPC, errno.EDQUOT)
_NUMBERS = "|".join(map(str, FULL))
_TOLD = re.compile(rf"\[Errno (?:{_NUMBERS})\][^:]*(?:: '([^']+)')?|No usable temporary directory")
"""As Python words it, in nbgrader's answers too."""
ENOUGH = 1 << 30
"""Bytes free for a class: submissions, graded notebooks, reports."""


def classroom() -> Path:
    """The class's folder."""
    return Path(os.environ.get("MINIVLLM_CLASSROOM") or CLONE / "classroom").absolute()


def places() -> list[Path]:
    """The folders that grading writes to."""
    return [classroom(), CLONE, Path(os.environ.get("TMPDIR") or tempfile.gettempdir())]


def is_full(error: BaseException) -> bool:
    return (isinstance(error, OSError) and error.errno in FULL) or bool(_TOLD.search(str(error)))


def full(error: BaseException, among: Sequence[Path] = ()) -> str:
    """The sentence. Where the error names no file, it is about the fullest of `among`, or of the folders written to."""
    found = _TOLD.search(str(error))
    name = getattr(error, "filename", None) or (found and found[1])
    if name:
        folder = Path(os.fsdecode(name)).parent
    elif among or "temporary directory" not in str(error):
        folder = min(among or places(), key=free)
    else:
        folder = Path(os.environ.get("TMPDIR") or "/tmp")
    return (
        f"the disk of {folder} is full ({free(folder) >> 20} MiB free, or your quota is used up): delete something "
        "there or enlarge it, and run this again; what was there before is as it was"
    )


def free(folder: Path) -> int:
    """Bytes, of the disk that holds `folder` or will."""
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free
