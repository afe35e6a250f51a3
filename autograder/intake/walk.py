"""What lies below a folder, within bounds: no link is followed, no path grows, and the order is always the same."""

from __future__ import annotations

import os
import re
import stat
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from autograder.intake.notes import shown


def names_in(text: str) -> frozenset[str]:
    return frozenset(text.split())


MAX_DEPTH = 16
MAX_NAMES = 300_000
MAX_LOOKED_AT = 20_000
"""Files that may be anything. Those that may be notebooks are looked at whatever their number of others."""
PASSED_OVER = names_in(
    "__pycache__ node_modules site-packages dist-packages .git .hg .svn .venv .tox .nox .cache .local .conda .npm"
    " .mypy_cache .pytest_cache .ruff_cache .idea .vscode .vs .Trash .Trashes .Spotlight-V100 .fseventsd $RECYCLE.BIN"
    " .config .jupyter .ipython .nuget .cargo .rustup .vscode-server .triton"
)
ENVIRONMENTS = names_in("env venv virtualenv miniconda3 anaconda3 miniforge3")
OF_ENVIRONMENTS = names_in("pyvenv.cfg conda-meta bin lib Scripts Lib site-packages")
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
Place = tuple[str, ...]


@dataclass(frozen=True)
class Entry:
    """Something with a name in the folder `place`, relative to where the walk began. `kind` is as in a file's mode."""

    place: Place
    name: str
    kind: int
    size: int = 0
    changed: int = 0

    @property
    def is_file(self) -> bool:
        return self.kind == stat.S_IFREG


@dataclass
class Walk:
    """What was found: `entries` in a fixed order, and what was not opened or looked at."""

    entries: list[Entry] = field(default_factory=list)
    passed_over: list[Place] = field(default_factory=list)
    too_deep: list[Place] = field(default_factory=list)
    unreadable: list[tuple[Place, str]] = field(default_factory=list)
    uncounted: Counter[str] = field(default_factory=Counter)
    """Files that were not looked at, by the end of their names."""
    is_cut: bool = False


def opened(root: Path, place: Place) -> int:
    """A descriptor of the folder `place` below `root`, step by step. Raises OSError, also for links on the way."""
    here = os.open(root, _OPEN | os.O_DIRECTORY)
    for name in place:
        try:
            inner = os.open(name, _OPEN | os.O_DIRECTORY, dir_fd=here)
        finally:
            os.close(here)
        here = inner
    return here


def opened_file(root: Path, place: Place, name: str) -> int:
    folder = opened(root, place)
    try:
        return os.open(name, _OPEN | os.O_NONBLOCK, dir_fd=folder)
    finally:
        os.close(folder)


def walk(root: Path, is_of_interest: Callable[[str], bool], is_left_out: Callable[[str], bool]) -> Walk:
    """Breadth first. Folders in `root` itself may be left out by their names."""
    found = Walk()
    waiting: deque[Place] = deque([()])
    names_left, looks_left = MAX_NAMES, MAX_LOOKED_AT
    while waiting:
        place = waiting.popleft()
        try:
            folder = opened(root, place)
        except OSError as error:
            found.unreadable.append((place, error.strerror or "unknown"))
            continue
        try:
            listed, cut = _listed(folder, names_left)
            found.is_cut = found.is_cut or cut
            names_left -= len(listed)
            if place and place[-1] in ENVIRONMENTS and OF_ENVIRONMENTS & {name for name, _ in listed}:
                found.passed_over.append(place)
                continue
            for name, is_folder in listed:
                if is_folder:
                    if not (not place and is_left_out(name)):
                        _step_down(found, waiting, place, name)
                    continue
                looks_left -= not is_of_interest(name)
                if looks_left < 0 and not is_of_interest(name):
                    found.uncounted[ending(name)] += 1
                else:
                    found.entries.append(_entry(folder, place, name))
        except OSError as error:
            found.unreadable.append((place, error.strerror or "unknown"))
        finally:
            os.close(folder)
    return found


def _step_down(found: Walk, waiting: deque[Place], place: Place, name: str) -> None:
    inner = (*place, name)
    found.entries.append(Entry(place, name, stat.S_IFDIR))
    if name in PASSED_OVER:
        found.passed_over.append(inner)
    elif len(inner) > MAX_DEPTH:
        found.too_deep.append(inner)
    else:
        waiting.append(inner)


def _listed(folder: int, most: int) -> tuple[list[tuple[str, bool]], bool]:
    listed: list[tuple[str, bool]] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if len(listed) >= most:
                return sorted(listed), True
            listed.append((entry.name, entry.is_dir(follow_symlinks=False)))
    return sorted(listed, key=lambda each: os.fsencode(each[0])), False


def _entry(folder: int, place: Place, name: str) -> Entry:
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:  # gone meanwhile, or not ours to see; reading it says so
        return Entry(place, name, stat.S_IFREG)
    return Entry(place, name, stat.S_IFMT(status.st_mode), status.st_size, status.st_mtime_ns)


def ending(name: str) -> str:
    """The end of a file's name in small letters, as ``.tar.xz``; numbers of rotated logs do not count."""
    found = re.search(r"(?:\.tar)?\.[A-Za-z0-9]{1,12}$", re.sub(r"(?:\.\d{1,6})+$", "", name))
    return shown(found[0].lower()) if found and found.start() else ""


def chunks(descriptor: int, most: int) -> Iterator[bytes]:
    """The content of an open file, `most` bytes at most; the file is closed."""
    with open(descriptor, "rb", buffering=0) as file:
        while most > 0 and (data := file.read(min(most, 1 << 20))):
            most -= len(data)
            yield data
