"""A reader's allocate_slots and free in a real Scheduler, beside the engine."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from minivllm.core.block_pool import BlockPool
from minivllm.lesson import Arrival, Load, play, record_slots, run_slots
from minivllm.lesson.allocate_slots import gate_questions
from minivllm.lesson.allocate_slots.in_engine import LOADS
from minivllm.lesson.common.errors import LessonError
from tests.lesson.allocate_slots.student import WRONG_ALLOCATIONS, WRONG_FREES, Blocks, blank, freeing, slots
from tests.lesson.notebooks import BLANK


@pytest.mark.parametrize("load", ["sharing", "pressure", "drafter"])
def test_right_functions_agree_with_the_engine_to_the_end(load: str, capsys: pytest.CaptureFixture[str]) -> None:
    run_slots(slots(), freeing(), load)
    assert re.search(r"^\d+ calls, every one as the engine's\.$", capsys.readouterr().out, re.MULTILINE)


@pytest.mark.parametrize(
    ("allocate_slots", "free", "load", "sentence"),
    [
        (slots(), freeing(), "watermark", "First difference, step 1, allocate_slots(B): result: yours new 11 12 13 14, engine None"),
        (slots(), freeing(), "gate", "First difference, step 1, allocate_slots(B): result: yours new 6 7 8 9 10, engine None"),
        (slots(), freeing(forwards=True), "sharing", "First difference, step 3, free(A): free queue: yours [7, 8, 9, 3, 4], engine [7, 8, 9, 4, 3]"),
        (slots("check extend take"), freeing(), "sharing", "First difference, step 1, allocate_slots(B): ref counts: yours {1: 1,"),
        (slots("touch check take"), freeing(), "pressure", "First difference, step 3, allocate_slots(B): ref counts: yours {1: 1, 2: 1, 3: 1, 4: 1}"),
        (slots(lookahead=False), freeing(), "drafter", "First difference, step 0, allocate_slots(A): result: yours new 1 2, engine new 1 2 3"),
        (slots("touch take"), freeing(), "pressure", "Stopped in step 2, allocate_slots(A): it raised ValueError"),
        (slots(), freeing(ends=lambda u, h: ([*u, *h], h)), "sharing", "Stopped in step 3, free(A): the free queue is broken"),
        (lambda *args: blank, freeing(), "sharing", f"Stopped in step 0, allocate_slots(A): {BLANK}"),
        (lambda *args: ["x"], freeing(), "sharing", "Stopped in step 0, allocate_slots(A): it returned ['x'], not a list of blocks or None"),
        (slots(), lambda pool, table: blank + 1, "sharing", f"Stopped in step 3, free(A): {BLANK}"),
        (lambda *args: None, freeing(), "sharing", "First difference, step 0, allocate_slots(A): result: yours None, engine new 1 2 3 4"),
    ],
)  # fmt: skip
def test_the_first_difference_is_told_by_step_call_and_object(
    allocate_slots: Callable[..., Any],
    free: Callable[..., Any],
    load: str,
    sentence: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run_slots(allocate_slots, free, load)
    assert sentence in capsys.readouterr().out


def test_a_reader_may_run_a_load_of_ones_own_and_an_unknown_or_hybrid_one_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run_slots(slots(), freeing(), Load([Arrival("A", prompt=9)]))
    assert "every one as the engine's" in capsys.readouterr().out
    with pytest.raises(LessonError, match="there is no load 'shared'; the loads are sharing, pressure"):
        run_slots(slots(), freeing(), "shared")
    with pytest.raises(LessonError, match="this load has 2 KV cache groups"):
        record_slots(slots(), freeing(), gate_questions.HYBRID)


def test_a_run_of_ones_own_functions_is_recorded_step_by_step(capsys: pytest.CaptureFixture[str]) -> None:
    recording = record_slots(slots(), freeing(), "pressure")
    assert [frame.preempted for frame in recording.frames if frame.preempted] == [("B",)]
    assert not capsys.readouterr().out
    stopped = record_slots(slots(), lambda pool, table: 1 / 0, "pressure")
    assert len(stopped.frames) < len(recording.frames)
    assert "Stopped in step 2: it raised ZeroDivisionError" in capsys.readouterr().out


def shorter_table(pool: BlockPool, table: Blocks, *args: Any) -> Blocks:
    return pool.get_new_blocks(1)


def same_block_twice(pool: BlockPool, table: Blocks, *args: Any) -> Blocks:
    new_blocks = pool.get_new_blocks(1)
    table.extend([*new_blocks, *new_blocks])
    return new_blocks


def stranger(pool: BlockPool, table: Any, *args: Any) -> Blocks:
    table.append(3)
    return []


@pytest.mark.parametrize("load", LOADS)
def test_no_function_however_wrong_ends_a_run_with_an_error(load: str, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = [function for function, _ in WRONG_ALLOCATIONS.values()]
    for allocate_slots in (*wrong, shorter_table, same_block_twice, stranger):
        run_slots(allocate_slots, freeing(), load)
        play(record_slots(allocate_slots, freeing(), load))
        play(record_slots(allocate_slots, freeing(only_unowned=False), load))
    for free, _ in WRONG_FREES.values():
        run_slots(slots(), free, load)
        play(record_slots(slots(), free, load))
    told = capsys.readouterr().out
    assert "First difference, step" in told and "Stopped in step" in told
