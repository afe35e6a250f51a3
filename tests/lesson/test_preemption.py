"""The notebook 4-preemption: its numbers are the engine's, its checks name wrong ideas, and Q3 has its evidence."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from minivllm.core.sched.scheduler import Scheduler
from minivllm.lesson import Arrival, Load, ______, check_preempt, check_select_victim, costs, record
from minivllm.lesson.common.cost import Cost, cost
from minivllm.lesson.common.run import Run
from minivllm.lesson.predictions import QUESTIONS
from minivllm.lesson.preemption import questions as preemption
from minivllm.request import Request, RequestStatus
from tests.lesson.notebooks import LANGUAGES, code_cells, execute, printed, prose, solved, source
from tests.lesson.right_answers import preempt, select_victim

NAME = "4-preemption"
UNFILLED: Any = ______
BLANK = "the blank ______ is not filled in: replace every ______ by your own expression and run the cell again"
Piece = Callable[..., Any]


# --- predictions


def test_the_answers_are_those_of_the_facts() -> None:
    answers = {question.name: dict(question.answer().actual) for question in preemption.QUESTIONS}
    assert answers == {
        "victim": {"victim": "C"},
        "pool_after_preemption": {"blocks in the pool": 8, "free blocks": 3},
        "kept_and_lost": {"num_computed_tokens": 0, "output tokens": 3, "ref count of a shared block": 1},
        "own_prefix": {"Q stops": 1, "Q goes on": 17},
        "newcomer_after_preemption": {"step 1": 0, "step 2": 0},
        "urgent_newcomer": {"batch": 1, "urgent": 0, "preempted": 0},
        "victim_already_scheduled": {"low": 0, "high": 1, "budget left": 15},
        "self_victim": {"low": 0, "high": 0},
        "gate_and_watermark": {
            "gate off: recomputed": "more",
            "watermark 0.2: recomputed": "fewer",
            "watermark 0.2: steps": "more",
        },
        "higher_cap": {"scheduled tokens": "more", "steps": "fewer"},
    }


@pytest.mark.parametrize(
    ("question", "load", "step"),
    [
        ("victim", preemption.SHORTAGE, 0),
        ("urgent_newcomer", preemption.URGENT, 1),
        ("victim_already_scheduled", preemption.ROLLBACK, 2),
    ],
)
def test_the_prose_before_a_prediction_gives_the_numbers_of_its_load(question: str, load: Load, step: int) -> None:
    cells = source(NAME).cells
    place = next(i for i, cell in enumerate(cells) if cell.source.startswith(f'predict("{question}"'))
    run = Run(load)
    for _ in range(step):
        run.step()
    given = {load.block_size, load.blocks - 1}
    given |= {r.num_prompt_tokens for r in run.scheduler.waiting} | {
        r.priority for r in run.scheduler.requests.values()
    }
    for text in (cells[place - 2].source, cells[place - 1].source):
        assert {str(number) for number in given} <= set(re.findall(r"\d+", text)) | {"0"}, given


def test_the_first_victim_holds_and_has_computed_the_most() -> None:
    run = Run(preemption.SHORTAGE)
    run.step()
    computed = {request.request_id: request.num_computed_tokens for request in run.scheduler.running}
    tables = {name: len(run.scheduler.kv_cache_manager.get_blocks(name).get_block_ids()[0]) for name in computed}
    assert (tables, max(computed, key=lambda name: computed[name])) == ({"A": 2, "B": 1, "C": 4}, "C")


def test_the_one_that_comes_back_has_forty_nine_tokens() -> None:
    for load in (preemption.STOPS, preemption.GOES_ON):
        run = Run(load)
        while not (step := run.step()).output.preempted_req_ids:
            pass
        assert step.output.preempted_req_ids == ["R"]
        assert (run.scheduler.requests["R"].num_tokens, step.before[1].computed) == (49, 48)


# --- what the runs cost


def test_a_cost_counts_the_positions_that_were_computed_twice() -> None:
    load = preemption.GOES_ON
    assert cost(record(load)) == Cost(steps=19, scheduled=102, recomputed=16, preemptions=1, most_running=2)
    least = sum(arrival.prompt + arrival.max_tokens - 1 for arrival in load.arrivals)
    assert 102 - 16 == least


@pytest.mark.parametrize("load", [*preemption.THRASH.values(), *preemption.CAPS.values()])
def test_without_recomputation_every_position_is_scheduled_once(load: Load) -> None:
    it = cost(record(load))
    assert it.scheduled - it.recomputed == sum(arrival.prompt + arrival.max_tokens - 1 for arrival in load.arrivals)


def test_the_caps_of_question_three_give_the_numbers_of_the_facts() -> None:
    found = {name: cost(record(load)) for name, load in preemption.CAPS.items()}
    assert {name: (it.scheduled, it.steps, it.recomputed) for name, it in found.items()} == {
        "max_num_seqs=2": (712, 240, 0),
        "max_num_seqs=4": (850, 164, 138),
        "max_num_seqs=8": (952, 149, 240),
    }
    config = preemption.CAPS["max_num_seqs=8"].config
    assert (config.scheduler.policy, config.scheduler.watermark, config.scheduler.scheduler_reserve_full_isl) == (
        "fcfs",
        0.0,
        True,
    )
    assert config.cache.enable_prefix_caching


def test_a_run_that_ends_before_its_requests_do_names_them() -> None:
    load = Load([Arrival("A", prompt=4, max_tokens=1), Arrival("B", prompt=40)], blocks=4)
    assert costs({"small": record(load)}).note == "small ended without B"


def test_a_run_without_steps_costs_nothing() -> None:
    assert repr(costs({"nobody": record(Load([]))})).split()[-6:] == ["nobody", "0", "0", "0", "0", "0"]


# --- the notebook


@pytest.fixture(scope="module", params=LANGUAGES)
def shown(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What each code cell of a solved edition shows, by its first line."""
    notebook = execute(solved(NAME, request.param), tmp_path_factory.mktemp(NAME))
    return {cell.source: printed(cell) for cell in code_cells(notebook)}


def test_the_solved_cells_agree_with_the_engine_and_with_vllm(shown: dict[str, str]) -> None:
    agree = [text for source, text in shown.items() if source.startswith("against_vllm(")]
    assert len(agree) == 5 and all("steps as vLLM's; it was asked" in text for text in agree)
    checks = [text for source, text in shown.items() if source.startswith("check_")]
    assert checks == [
        "select_victim: ok, 9 queues as in minivllm.core\n",
        "preempt: ok, 2 situations as in minivllm.core\n",
    ]


def test_the_loads_of_the_cells_are_those_of_the_predictions(shown: dict[str, str]) -> None:
    rows = [line.rstrip() for text in shown.values() for line in text.splitlines()]
    tables = (
        costs({name: record(load) for name, load in loads.items()}) for loads in (preemption.THRASH, preemption.CAPS)
    )
    for table in tables:
        assert [line for line in repr(table).splitlines()[2:] if line not in rows] == []
    (player,) = [text for source, text in shown.items() if "play(" in source]
    assert (
        "C preempted: A needs 1 block, 0 free, C is the tail of running; its 14 computed tokens are dropped" in player
    )


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_numbers_of_the_prose_are_those_of_the_runs(language: str) -> None:
    text = " ".join(prose(NAME, language))
    thrash = {name: cost(record(load)) for name, load in preemption.THRASH.items()}
    default, gate_off, watermark = (thrash[name] for name in list(thrash)[:3])
    assert (gate_off.preemptions, default.preemptions, watermark.preemptions) == (17, 9, 1)
    assert watermark.steps - default.steps == 38 and default.scheduled - default.recomputed == 948
    caps = {name: record(load) for name, load in preemption.CAPS.items()}
    used = max(frame.num_used_blocks for frame in caps["max_num_seqs=2"].frames)
    assert (used, 240 - 149) == (12, 91)
    for number in (17, 9, 38, 948, 712, 952, 240, 149, 91, 89, 79):
        assert re.search(rf"\b{number}\b", text), number
    eight = preemption.CAPS["max_num_seqs=8"].arrivals
    roomy = [cost(record(Load(eight, budget=256, blocks=49, block_size=16, max_num_seqs=cap))) for cap in (2, 8)]
    assert [(it.scheduled, it.steps) for it in roomy] == [(712, 240), (712, 60)]


def test_every_claim_of_the_stage_is_named_by_a_cell() -> None:
    claims = [claim for cell in source(NAME).cells for claim in cell.metadata.get("minivllm", {}).get("claims", [])]
    assert sorted(claims) == [13, 20, 21, 22, 23, 24, 25]


# --- Q3


@pytest.mark.parametrize("language", LANGUAGES)
def test_question_three_stands_in_its_own_cell_before_its_answer_with_four_criteria(language: str) -> None:
    cells = [cell for cell in source(NAME).cells if cell.metadata.get("lang") == language]
    place = next(i for i, cell in enumerate(cells) if cell.metadata.get("nbgrader", {}).get("grade_id") == "q3_answer")
    question, answer = cells[place - 1].source, cells[place]
    assert question.startswith("## Q3") and len(re.findall(r"^- \*\*", question, re.MULTILINE)) == 4
    words = {"en": ["Objects", "State changes", "Chain"], "zh": ["对象", "状态变化", "因果链"]}[language]
    assert re.findall(r"\*\*([^*]+)[:：]\*\*", " ".join(answer.metadata.minivllm.stub)) == words
    assert re.findall(r"^\*\*([^*]+)[:：]\*\*", answer.source, re.MULTILINE) == words
    assert (answer.metadata.nbgrader.points, answer.metadata.nbgrader.solution) == (2, True)


@pytest.mark.parametrize(
    ("language", "needed"),
    [
        ("en", ["No.", "max_num_running_reqs", "at construction", "WAITING", "RUNNING", "PREEMPTED", "712 to 952", "240 to 149", "adds no block", "Invariant", "Performance boundary", "Needs a benchmark"]),
        ("zh", ["不合理", "max_num_running_reqs", "构造时", "WAITING", "RUNNING", "PREEMPTED", "712 增到 952", "240 减到 149", "不会增加一个块", "不变量", "性能边界", "需要 benchmark"]),
    ],
)  # fmt: skip
def test_the_model_answer_holds_what_the_facts_ask_for(language: str, needed: list[str]) -> None:
    answer = next(text for text in prose(NAME, language) if text.startswith("### BEGIN SOLUTION"))
    assert [part for part in needed if part not in answer] == []


# --- practice: right answers


def test_right_answers_take_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    check_select_victim(select_victim)
    check_preempt(preempt)
    assert capsys.readouterr().out.splitlines() == [
        "select_victim: ok, 9 queues as in minivllm.core",
        "preempt: ok, 2 situations as in minivllm.core",
    ]


# --- practice: wrong ideas

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
