"""The practice of 4-preemption: right answers take one line, wrong ideas are named."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from minivllm.core.sched.scheduler import Scheduler
from minivllm.lesson import ______, check_preempt, check_select_victim
from minivllm.lesson.predictions import QUESTIONS
from minivllm.lesson.preemption import questions as preemption
from minivllm.request import Request, RequestStatus
from tests.lesson.notebooks import BLANK, source
from tests.lesson.right_answers import preempt, select_victim

NAME = "4-preemption"

UNFILLED: Any = ______


Piece = Callable[..., Any]


def test_right_answers_take_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    check_select_victim(select_victim)
    check_preempt(preempt)
    assert capsys.readouterr().out.splitlines() == [
        "select_victim: ok, 9 queues as in minivllm.core",
        "preempt: ok, 2 situations as in minivllm.core",
    ]


PRIORITY_ONLY: dict[str, Piece] = {
    "lowest number": lambda running: min(running, key=lambda r: (r.priority, r.arrival_time)),
    "tail": lambda running: running[-1],
    "no arrival": lambda running: max(running, key=lambda r: r.priority),
    "arrival first": lambda running: max(running, key=lambda r: (r.arrival_time, r.priority)),
    "last of ties": lambda running: max(reversed(running), key=lambda r: (r.priority, r.arrival_time)),
}


@pytest.mark.parametrize(
    ("idea", "told"),
    [
        ("lowest number", "B C this is the lowest number: under the priority policy a smaller number is served first"),
        ("tail", "B D this is the tail: the priority policy looks at priorities"),
        ("no arrival", "B A the priorities are equal: then the later arrival goes"),
        ("arrival first", "B D "),
        ("last of ties", "B A priority and arrival are equal: the first of them in running goes"),
    ],
)
def test_a_wrong_idea_of_the_priority_policy_is_named(idea: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    check_select_victim(lambda running, policy: running[-1] if policy == "fcfs" else PRIORITY_ONLY[idea](running))
    assert f"'priority') {told}" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("piece", "told"),
    [
        (lambda running, policy: running[0], "C A this is the head, the one admitted first; fcfs takes the tail of running"),
        (lambda running, policy: max(running, key=lambda r: r.arrival_time), "B C this is the latest arrival: fcfs takes the tail"),
        (lambda running, policy: max(running, key=lambda r: (r.priority, r.arrival_time)), "B C this is the latest arrival: fcfs takes the tail"),
        (lambda running, policy: len(running) - 1, "C 2 the victim is a request of running, not its index"),
        (lambda running, policy: running[-1].request_id, "C 'C' the victim is a request of running, not its id"),
        (lambda running, policy: None, "C None the victim is a request of running, not anything else"),
        (lambda running, policy: running.pop(), "running as it was [A, B] it only chooses: the scheduler takes the victim out"),
        (lambda running, policy: running[7], "a call that ends IndexError: list index out of range it takes (running, policy)"),
        (lambda running: running[-1], "a call that ends TypeError: "),
    ],
)  # fmt: skip
def test_a_wrong_choice_is_told_with_the_queue_and_both_names(
    piece: Piece, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    check_select_victim(piece)
    header, _, row = capsys.readouterr().out.splitlines()
    assert header.split() == ["object", "expected", "actual", "why"]
    assert row.startswith("select_victim([A, ") and f"'fcfs') {told}" in " ".join(row.split())


def then(change: Callable[[Scheduler, Request], Any]) -> Piece:
    def wrong(scheduler: Scheduler, request: Request) -> None:
        preempt(scheduler, request)
        change(scheduler, request)

    return wrong


def keeps_computed(scheduler: Scheduler, request: Request) -> None:
    computed = request.num_computed_tokens
    preempt(scheduler, request)
    request.num_computed_tokens = computed


def forgets_the_blocks(scheduler: Scheduler, request: Request) -> None:
    request.status = RequestStatus.PREEMPTED
    scheduler.waiting.prepend_request(request)


def clears_hashes(scheduler: Scheduler, request: Request) -> None:
    (table,) = scheduler.kv_cache_manager.get_blocks(request.request_id).get_block_ids()
    preempt(scheduler, request)
    scheduler.kv_cache_manager.evict_blocks(table)


def frees_shared_blocks_entirely(scheduler: Scheduler, request: Request) -> None:
    for block in scheduler.kv_cache_manager.get_blocks(request.request_id).blocks[0]:
        block.ref_cnt = 1
    preempt(scheduler, request)


def to_the_end(scheduler: Scheduler, request: Request) -> None:
    scheduler.waiting.remove_requests([request])
    scheduler.waiting.add_request(request)


@pytest.mark.parametrize(
    ("piece", "told"),
    [
        (then(lambda s, r: r._all_token_ids.__delitem__(slice(10, None))), "known tokens * this drops the outputs; prompt and outputs belong to the Request"),
        (forgets_the_blocks, "blocks in its table [] [1, 2, 4] this forgets to give the blocks back; a preempted request holds no block"),
        (frees_shared_blocks_entirely, "ref counts of A's blocks [1, 1, 1] [0, 0, 1] this frees shared blocks entirely; B drops its own references"),
        (clears_hashes, "findable blocks [1, 2, 3, 4] [3] this clears hashes; a freed block keeps its hash"),
        (keeps_computed, "num_computed_tokens 0 12 this forgets to reset the progress, though the blocks are gone"),
        (then(to_the_end), "waiting ['B', 'W'] ['W', 'B'] this appends it to the end of waiting; fcfs puts it in front"),
        (then(lambda s, r: s.waiting.remove_requests([r])), "waiting ['B', 'W'] ['W'] this loses the request: no queue holds it"),
        (then(lambda s, r: s.waiting.add_request(r)), "waiting ['B', 'W'] ['B', 'W', 'B'] this queues it twice"),
        (then(lambda s, r: setattr(r, "status", RequestStatus.WAITING)), "status PREEMPTED WAITING this makes it look like a new request"),
        (lambda s, r: s.finish_requests(r.request_id, RequestStatus.FINISHED_ABORTED), "status PREEMPTED FINISHED_ABORTED this ends the request"),
        (then(lambda s, r: setattr(r, "spec_token_ids", [53, 54])), "spec_token_ids [] [53, 54] drafts are dropped"),
        (then(lambda s, r: s.running.append(r)), "running ['A'] ['A', 'B'] the engine took it out of running already"),
        (then(lambda s, r: setattr(r, "num_preemptions", 0)), "num_preemptions 1 0 each preemption counts once"),
    ],
)  # fmt: skip
def test_a_wrong_preemption_is_named(piece: Piece, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    check_preempt(piece)
    out = " ".join(capsys.readouterr().out.split())
    for part in told.split(" * "):
        assert part in out


def test_the_priority_heap_is_tried_too(capsys: pytest.CaptureFixture[str]) -> None:
    def in_front(scheduler: Scheduler, request: Request) -> None:
        preempt(scheduler, request)
        if scheduler.scheduler_config.policy == "priority":
            scheduler.waiting._heap.sort(key=lambda r: r is not request)  # type: ignore[attr-defined]
            request.priority = -1

    check_preempt(in_front)
    assert "priority: waiting ['W', 'B'] ['B', 'W']" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("check", "piece", "told"),
    [
        (check_select_victim, lambda running, policy: ______, f"select_victim: {BLANK}"),
        (check_select_victim, lambda running, policy: running[UNFILLED], f"select_victim: {BLANK}"),
        (check_select_victim, ______, f"select_victim: {BLANK}"),
        (check_preempt, lambda scheduler, request: UNFILLED(request), f"preempt: {BLANK}"),
        (check_preempt, then(lambda s, r: setattr(r, "status", ______)), f"preempt: {BLANK}"),
        (check_preempt, then(lambda s, r: setattr(r, "num_computed_tokens", ______)), f"preempt: {BLANK}"),
    ],
)
def test_a_blank_is_told_in_one_line(check: Piece, piece: Any, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    check(piece)
    assert capsys.readouterr().out == f"{told}\n"


@pytest.mark.parametrize(
    "piece",
    [
        lambda scheduler, request: scheduler.running.remove(request),
        lambda scheduler: None,
        then(lambda s, r: setattr(s, "running", None)),
        3,
    ],
)
def test_code_that_breaks_is_told_in_one_row(piece: Any, capsys: pytest.CaptureFixture[str]) -> None:
    check_preempt(piece)
    (row,) = capsys.readouterr().out.splitlines()[2:]
    assert row.startswith("preempt, fcfs  a call that ends  ") and "Error: " in row


def test_the_questions_of_the_notebook_are_the_courses() -> None:
    assert [QUESTIONS[question.name] for question in preemption.QUESTIONS] == list(preemption.QUESTIONS)


@pytest.mark.parametrize("grade_id", ["select_victim", "preempt"])
def test_a_practice_cell_leaves_blanks_and_no_answer(grade_id: str, tmp_path: Path) -> None:
    cell = next(c for c in source(NAME).cells if c.metadata.get("nbgrader", {}).get("grade_id") == grade_id)
    stub = "\n".join(cell.metadata.minivllm.stub)
    assert "______" in stub and not re.search(r"max\(|free\(|prepend|PREEMPTED|running\[", stub)
