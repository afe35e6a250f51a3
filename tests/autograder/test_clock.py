"""A busy machine costs nobody a point, and no hang takes longer than it may."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autograder.paths import CLONE
from autograder.running.clock import PATIENCE, Clock, Usage
from autograder.running.trusted import CALL_SECONDS, EXERCISE_SECONDS, OWN_SECONDS, STATEMENT_SECONDS, StudentFile

SOURCE = """
    import os, time

    def work():
        while time.process_time() < 1.2:
            pass
        return "done"

    def loop():
        while True:
            pass

    def sleep():
        time.sleep(600)

    def drip():
        while True:
            for fd in range(3, 64):
                try:
                    os.write(fd, b"x")
                except OSError:
                    pass
            time.sleep(0.05)
"""
LATE = f"a call took longer than {CALL_SECONDS:g} s; look for a loop that never ends"
BUSY = 2


@pytest.fixture
def busy() -> Iterator[None]:
    """What is started from here has to share one processor with processes that never rest."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    command = [sys.executable, "-c", "while True: pass"]
    others = [subprocess.Popen(command, start_new_session=True) for _ in range(BUSY)]  # Linux shares between sessions
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)
        for other in others:
            other.kill()
            other.wait()


@pytest.fixture
def student(tmp_path: Path) -> Iterator[StudentFile]:
    path = tmp_path / "student.py"
    path.write_text(dedent(SOURCE), encoding="utf-8")
    with StudentFile(path) as student:
        assert student.load_error is None
        yield student


def test_what_has_to_wait_for_a_processor_has_its_time_all_the_same(busy: None, student: StudentFile) -> None:
    started = time.monotonic()
    assert student.call("work").value == "done"
    assert time.monotonic() - started > CALL_SECONDS, "the machine was not busy, so this showed nothing"


def test_a_loop_ends_on_a_busy_machine_too(busy: None, student: StudentFile) -> None:
    started = time.monotonic()
    error = student.call("loop").error
    assert error is not None and error.message == LATE
    assert time.monotonic() - started < PATIENCE * CALL_SECONDS + 2


@pytest.mark.parametrize("name", ["sleep", "drip"])
def test_a_hang_that_waits_for_nothing_takes_what_it_may(student: StudentFile, name: str) -> None:
    started = time.monotonic()
    error = student.call(name).error
    assert error is not None and error.message == LATE
    assert time.monotonic() - started < PATIENCE * CALL_SECONDS


@pytest.mark.parametrize(
    ("guide", "says"),
    [
        (
            "instructors.md",
            "A statement has {:g} s, a call {:g} s, an exercise {:g} s, all own cells of a notebook {:g} s",
        ),
        (
            "instructors.zh.md",
            "一条语句 {:g} 秒，一次调用 {:g} 秒，一道练习 {:g} 秒，一个 notebook 里学生自己的单元格合计 {:g} 秒",
        ),
    ],
)
def test_the_instructors_guide_tells_the_limits(guide: str, says: str) -> None:
    text = (CLONE / "docs" / guide).read_text(encoding="utf-8")
    assert says.format(STATEMENT_SECONDS, CALL_SECONDS, EXERCISE_SECONDS, OWN_SECONDS) in text


Look = tuple[float, float, bool]


@given(st.lists(st.tuples(st.floats(0.01, 5), st.floats(0, 5), st.booleans()), min_size=1))
def test_waiting_counts_a_part_and_all_else_in_full(looks: list[Look]) -> None:
    now, cpu, in_full = 1000.0, 0.0, 0.0
    with patch("autograder.running.clock.time.monotonic", lambda: now):
        clock = Clock()
        for passed, had, wants_to_run in looks:
            now, cpu = now + passed, cpu + had
            in_full += min(passed, had) if wants_to_run else passed
            seconds = clock.look(Usage(cpu=cpu, wants_to_run=wants_to_run))
        assert seconds == clock.counted
        now += 0.5
        assert clock.counted == pytest.approx(seconds + 0.5)
    wall = sum(passed for passed, _, _ in looks)
    assert max(in_full, wall / PATIENCE) - 1e-6 <= seconds <= wall + 1e-6
