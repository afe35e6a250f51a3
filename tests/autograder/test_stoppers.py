"""Submissions that once stopped the whole class are among the others: these are graded, by a process that stays small."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from autograder.paths import CLONE
from tests.autograder.classroom import LESSON, NOTEBOOK
from tests.autograder.room import Room

pytestmark = pytest.mark.requires_debian("bubblewrap")
DEEP = 1_500
DATA = 5 << 30
SPACES = 300_000
PARENT_MIB = 300
SECONDS = 30
"""For one submission; the class's own limit is longer, and nothing here should need it."""
SCRIPT = r"""
import json, re, sys
from pathlib import Path
from autograder import cli
from autograder.classroom import classroom, workers
from tests.autograder.room import opened

if __name__ == "__main__":
    room = opened(Path(sys.argv.pop(1)))
    classroom.clone_config = lambda: room.config
    workers.SUBMISSION_SECONDS = {seconds}
    try:
        cli.main()
    finally:
        status = Path("/proc/self/status").read_text()  # what getrusage tells includes the process that began this one
        peak = int(re.search(r"VmHWM:\s*(\d+)", status)[1]) >> 10
        print(json.dumps({{"peak": peak}}), file=sys.stderr)
"""


@dataclass(frozen=True)
class Done:
    """A command that ended: what it printed, and what its own process took."""

    code: int
    told: str
    peak: int
    seconds: float


def nested(room: Room) -> None:
    """Right notebooks, and folders in folders."""
    room.hand_in("deep", room.solved())
    place = os.open(room.folder("deep"), os.O_RDONLY)
    for _ in range(DEEP):
        os.mkdir("d", dir_fd=place)
        below = os.open("d", os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = below
    os.close(place)


def data_beside(room: Room) -> None:
    """Right notebooks, a large file, and an environment of many."""
    room.hand_in("data", room.solved())
    with (room.folder("data") / "model.bin").open("wb") as file:
        file.truncate(DATA)
    (room.folder("data") / ".venv").mkdir()
    for number in range(300):
        with (room.folder("data") / ".venv" / f"{number}.so").open("wb") as file:
            file.truncate(20 << 20)


def spaces(room: Room) -> None:
    room.hand_in("spaces", room.solved(q1_answer=f"The budget{' ' * SPACES}is one number."))


STOPPERS = ("deep", "data", "spaces")


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    room = Room(tmp_path_factory.mktemp("stoppers"))
    yield room
    remove(room)


@pytest.fixture(autouse=True)
def _emptied(room: Room) -> None:
    remove(room)
    room.empty()
    for odd in (nested, data_beside, spaces):
        odd(room)


def remove(room: Room) -> None:
    """As no recursion of Python's could."""
    subprocess.run(["rm", "-rf", room.submitted], check=True)


def run(room: Room, place: Path, *arguments: str) -> Done:
    script = place / "script.py"
    script.write_text(SCRIPT.format(seconds=SECONDS))
    environment = {**os.environ, "PYTHONPATH": str(CLONE)}
    command = [sys.executable, str(script), str(room.root), *arguments]
    started = time.monotonic()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=590)
    *_, last = done.stderr.splitlines()
    return Done(done.returncode, done.stdout + done.stderr, json.loads(last)["peak"], time.monotonic() - started)


def ordinary(room: Room, number: int) -> list[str]:
    names = [f"student-{each:03}" for each in range(number)]
    solved = room.solved()
    for name in names:
        room.hand_in(name, solved)
    return names


@pytest.mark.parametrize("number", [6, 24, pytest.param(200, marks=pytest.mark.full)])
def test_everybody_else_is_graded_and_the_class_s_own_process_reads_nothing(
    room: Room, tmp_path: Path, number: int
) -> None:
    names = ordinary(room, number)
    graded = run(room, tmp_path, "grade", "--jobs", str(os.cpu_count() or 1))
    rows = {line.split()[0]: line.split()[1] for line in graded.told.splitlines() if line.strip()}
    assert {name: rows.get(name) for name in names} == dict.fromkeys(names, "4/6"), graded.told
    assert set(STOPPERS) <= rows.keys(), "each has a row"
    assert graded.peak < PARENT_MIB, f"{graded.peak} MiB"
    assert graded.code == (0 if all(rows[name] == "4/6" for name in STOPPERS) else 1)

    out = tmp_path / "out"
    reported = run(room, tmp_path, "report", "--out", str(out))
    assert reported.code == 0 and reported.peak < PARENT_MIB, (reported.peak, reported.told)
    with (out / "grades.csv").open(encoding="utf-8-sig", newline="") as file:
        found = {row["student"]: row for row in csv.DictReader(file)}
    assert all(found[name]["reason"] == "" for name in names) and set(STOPPERS) <= found.keys()

    again = run(room, tmp_path, "grade")
    unchanged = re.search(r"(\d+) unchanged", again.told)
    assert again.code == graded.code and unchanged is not None and int(unchanged[1]) >= number, again.told
    refused = run(room, tmp_path, "report", "--final", "--out", str(out))
    assert refused.code == 2 and "student-000 (unread: q1)" in refused.told


@pytest.mark.parametrize("name", STOPPERS)
def test_each_of_them_has_the_points_of_its_notebooks(room: Room, tmp_path: Path, name: str) -> None:
    graded = run(room, tmp_path, "grade", "--student", name)
    rows = {line.split()[0]: line for line in graded.told.splitlines() if line.strip()}
    assert rows[name].split()[1] == "4/6", graded.told
    assert graded.code == 0 and graded.peak < PARENT_MIB
    assert (room.classroom.book.autograded(name) / f"{NOTEBOOK}.ipynb").is_file(), LESSON
