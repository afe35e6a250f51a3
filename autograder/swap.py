"""What was built aside takes its place by rename, all of it or nothing.

A rename can't fill up a disk or be half done. Between two of them a kill leaves a mixture. Of a release, no gradebook
has it (`autograder.gradebook.lesson.fault_of_release`), so nothing is graded with it; a submission is graded again.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

PREFIX = ".release-"
LEFT_SECONDS = 3600.0
"""What is older was left by a build that was killed."""


@contextmanager
def aside(target: Path, build: Path) -> Iterator[Path]:
    """A new folder in `build`, or on the disk of `target`, from where a rename to `target` works."""
    target.parent.mkdir(parents=True, exist_ok=True)
    build.mkdir(parents=True, exist_ok=True)
    place = build if build.stat().st_dev == target.parent.stat().st_dev else target.parent
    for left in place.glob(f"{PREFIX}*"):
        if left.stat().st_mtime < time.time() - LEFT_SECONDS:
            shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=PREFIX, dir=place, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@contextmanager
def in_force(places: Sequence[tuple[Path, Path]]) -> Iterator[None]:
    """Every new in the place of its old. Where that or the block fails, the old are back."""
    done: list[tuple[Path, Path]] = []
    try:
        for new, target in places:
            if os.path.lexists(target):
                _move(target, new.with_name(f"{new.name}.old"), done)
            _move(new, target, done)
        yield
    except BaseException:
        for before, now in reversed(done):
            now.rename(before)
        raise


def _move(before: Path, now: Path, done: list[tuple[Path, Path]]) -> None:
    now.parent.mkdir(parents=True, exist_ok=True)
    before.rename(now)
    done.append((before, now))
