"""Ctrl-C at any moment, and a gradebook that somebody else holds: told by name, nothing lost, the next run goes on."""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import psutil  # type: ignore[import-untyped]
import pytest
import typer

from autograder import cli
from autograder.classroom import classroom
from autograder.classroom.worker import Row, Task, row_of
from autograder.classroom.workers import Workers
from autograder.gradebook import tables
from autograder.paths import CLONE
from tests.autograder.classroom import LESSON
from tests.autograder.room import Room
from tests.autograder.test_killed import WRONG, points

pytestmark = pytest.mark.requires_debian("bubblewrap")
STUDENTS = tuple(f"student-{number}" for number in range(6))
ENDS_WITHIN = 2.0  # seconds, on a machine with nothing else to do
MOMENTS = 5


@dataclass
class Run:
    """`python -m autograder grade` for a class, in a process group of its own."""

    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)
    reader: threading.Thread | None = None

    @classmethod
    def start(cls, room: Room, script: Path) -> Run:
        script.write_text(
            "import sys\nfrom pathlib import Path\nfrom autograder import cli\nfrom autograder.classroom import classroom\n"
            f"from tests.autograder.room import opened\n"
            f"if __name__ == '__main__':\n    room = opened(Path({str(room.root)!r}))\n"
            "    classroom.clone_config = lambda: room.config\n"
            "    sys.argv = ['autograder', 'grade', '--jobs', '2']\n    cli.main()\n"
        )
        run = cls(
            subprocess.Popen(
                [sys.executable, "-u", str(script)],
                env={**os.environ, "PYTHONPATH": str(CLONE)},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
        )
        run.reader = threading.Thread(target=run._read, args=(run.process.stdout,))
        run.reader.start()
        return run

    def _read(self, output: IO[str]) -> None:
        self.lines.extend(iter(output.readline, ""))

    def interrupt(self) -> tuple[float, list[psutil.Process]]:
        """How long it took to end, and the processes that it had."""
        had = psutil.Process(self.process.pid).children(recursive=True)
        started = time.monotonic()
        os.killpg(self.process.pid, signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=60)
        seconds = time.monotonic() - started
        assert self.reader is not None
        self.reader.join(timeout=10)
        return seconds, had


def alive(processes: list[psutil.Process], session: int) -> list[psutil.Process]:
    """Which of them are there after a moment, and what else is of the session."""
    _, there = psutil.wait_procs(processes, timeout=3)
    of_session = []
    for each in psutil.process_iter():
        with contextlib.suppress(ProcessLookupError):
            of_session += [each] if os.getsid(each.pid) == session and each.status() != psutil.STATUS_ZOMBIE else []
    return [*there, *of_session]


def test_ctrl_c_at_any_moment_ends_within_two_seconds_names_the_students_and_leaves_no_process(
    room: Room, tmp_path: Path
) -> None:
    slow = "import time\ntime.sleep(1)\n" + room.answers()["unified_token_plan"]
    for student in STUDENTS:
        room.hand_in(student, room.solved(unified_token_plan=slow))
    seed = random.randrange(1 << 30)
    chosen = random.Random(seed)
    named = 0
    for number in range(MOMENTS):
        run = Run.start(room, tmp_path / "script.py")
        try:
            _until(lambda run=run: any(process_is_worker(each) for each in children(run)))
            wait = chosen.uniform(0, 3)
            time.sleep(wait)
            rows = len(run.lines)
            seconds, had = run.interrupt()
            told = "".join(run.lines)
            about = f"seed {seed}, moment {number}: {wait:.2f} s after {rows} rows\n{told}"
            busy = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
            assert seconds < ENDS_WITHIN * busy, f"{seconds:.1f} s, {busy:.1f} times as busy as it can be; {about}"
            assert "Traceback" not in told, about
            assert alive(had, run.process.pid) == [], about
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(run.process.pid, signal.SIGKILL)
        if run.process.returncode == 0:
            continue  # all had been graded by then
        assert run.process.returncode == 130, about
        at = re.search(r"interrupted while it graded (.+): run `grade` again to go on", told)
        named += at is not None
        if at:
            assert set(at[1].split(", ")) <= set(STUDENTS), about
        for found in room.classroom.verdicts():
            assert found.fault or found.total == 4, about
    assert named, "no run was interrupted in its work"
    assert {name: row.points for name, row in room.grade().items()} == dict.fromkeys(STUDENTS, 4)


def children(run: Run) -> list[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        return list(psutil.Process(run.process.pid).children(recursive=True))
    return []


def process_is_worker(process: psutil.Process) -> bool:
    """A child of the fork server."""
    with contextlib.suppress(psutil.NoSuchProcess):
        parent = process.parent()
        return parent is not None and "forkserver" in " ".join(parent.cmdline())
    return False


def _until(holds: object, seconds: float = 60) -> None:
    assert callable(holds)
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not begin"
        time.sleep(0.05)


@contextlib.contextmanager
def held(room: Room) -> Iterator[None]:
    """Another program has the gradebook."""
    database = sqlite3.connect(room.root / "class" / "gradebook.db")
    database.execute("begin exclusive")
    try:
        yield
    finally:
        database.close()


@pytest.mark.parametrize("when", ["while it is looked at", "while it is entered"])
def test_a_gradebook_that_is_held_while_one_is_graded_costs_that_one_alone_and_the_next_run_mends_it(
    room: Room, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], when: str
) -> None:
    monkeypatch.setattr(classroom, "clone_config", lambda: room.config)
    monkeypatch.setattr(tables, "LOCKED_SECONDS", 0.2)
    for student in ("a", "b", "c"):
        room.hand_in(student, room.solved())
    room.grade()
    before = {each.student: points(each) for each in room.classroom.verdicts()}
    for student in ("a", "b", "c"):
        room.hand_in(student, room.solved(unified_token_plan=WRONG))

    holds = [when]

    def run(workers: Workers, tasks: Iterable[Task]) -> Iterator[tuple[Task, Row]]:
        """As a class runs, but the first time for b another program has the gradebook, and lets it go afterwards."""
        for task in tasks:
            if task.student != "b" or not holds:
                yield task, row_of(task)
            elif holds.pop() == "while it is looked at":
                with held(room):
                    yield task, row_of(task)
            else:
                with monkeypatch.context() as patch:
                    at_entering(patch, room)
                    yield task, row_of(task)

    monkeypatch.setattr(Workers, "run", run)
    with pytest.raises(typer.Exit) as ended:
        cli.grade(LESSON)
    told = capsys.readouterr().out
    assert ended.value.exit_code == 1
    assert re.search(r"^b +- +.*gradebook can't be used \(.*locked\)", told, flags=re.MULTILINE), told
    assert "2 graded, 0 unchanged, 1 not graded" in told
    found = {each.student: each for each in room.classroom.verdicts()}
    assert (found["a"].total, found["c"].total) == (1, 1)
    assert found["b"].fault and not found["b"].final
    assert found["b"].cells and points(found["b"])["total"] == before["b"]["total"]
    cli.grade(LESSON)
    assert [each.total for each in room.classroom.verdicts()] == [1, 1, 1]


def at_entering(patch: pytest.MonkeyPatch, room: Room) -> None:
    from autograder.classroom import worker
    from autograder.gradebook.entry import enter

    def entered(*arguments: object) -> None:
        with held(room):
            enter(*arguments)  # type: ignore[arg-type]

    patch.setattr(worker, "enter", entered)
