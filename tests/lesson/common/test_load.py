"""Scripted loads on the real scheduler, the view of a step, and the reason for each share."""

from collections.abc import Callable

import pytest

from minivllm.config import CacheConfig, EngineConfig, SchedulerConfig, SpeculativeConfig
from minivllm.core.sched.scheduler import Scheduler
from minivllm.lesson import Arrival, Load, gaps, watch_load, watch_step
from minivllm.lesson.common.errors import LessonError
from minivllm.lesson.common.run import Run
from minivllm.lesson.common.watch import Step
from minivllm.lesson.common.why import explain
from minivllm.request import Request, SamplingParams


def step_of(load: Load, index: int) -> Step:
    run = Run(load)
    for _ in range(index):
        run.step()
    return run.step()


def test_the_budget_of_a_step_is_the_schedulers_own_where_it_is_smaller() -> None:
    config = EngineConfig(scheduler=SchedulerConfig(max_num_batched_tokens=16, max_num_scheduled_tokens=5))
    scheduler = Scheduler(config)
    scheduler.add_request(Request("A", range(9), SamplingParams()))
    step = watch_step(scheduler)
    assert (step.budget, step.scheduled, step.left) == (5, {"A": 5}, 0)


def test_gaps_lists_running_requests_before_waiting_ones_with_drafts_in_the_target() -> None:
    run = Run(Load([Arrival("A", prompt=6, drafts=3), Arrival("B", prompt=7, step=1)]))
    run.step()
    run.arrive()
    assert gaps(run.scheduler).rows == [("A", "running", 6, 7, 3, 10, 4), ("B", "waiting", 0, 7, 0, 7, 7)]


@pytest.mark.parametrize(("accepted", "computed", "known"), [(0, 7, 8), (1, 8, 9), (3, 10, 11)])
def test_rejected_drafts_leave_computed_one_behind_known(accepted: int, computed: int, known: int) -> None:
    run = Run(Load([Arrival("A", prompt=6, drafts=3, accepted=accepted)]))
    run.step()
    run.step()
    request = run.scheduler.requests.get("A")
    if accepted == 3:
        assert request is None  # four tokens more: max_tokens is reached
        return
    assert request is not None and (request.num_computed_tokens, request.num_tokens) == (computed, known)


def test_watch_load_tells_every_step_of_every_request() -> None:
    table = watch_load(Load([Arrival("L", prompt=20, max_tokens=2)], budget=8))
    assert [(row[0], row[-2]) for row in table.rows] == [(0, 8), (1, 8), (2, 4), (3, 1)]
    assert table.rows[1][-1] == "gap 20 - 8 = 12; min(12, budget left 8) = 8"
    assert table.note == ""


def test_watch_load_stops_where_nothing_will_move_any_more() -> None:
    table = watch_load(Load([Arrival("huge", prompt=40), Arrival("late", prompt=1, step=2)], blocks=5, budget=64))
    assert [row[:2] for row in table.rows] == [(0, "huge"), (1, "huge"), (2, "huge"), (2, "late")]
    assert table.note == (
        "Request 'huge' waits at the head of the queue for ever, and the 1 behind it wait with it: its 40 tokens need "
        "10 blocks and the pool has 4 besides the null block; abort it, or raise Load.blocks."
    )
    assert table.rows[0][-1] == (
        "64 tokens of budget are left, but allocate_slots failed: 40 tokens need 10 blocks of 4, free: 4"
    )


SELF_PREEMPTION = Load(
    [Arrival("A", prompt=7, priority=5), Arrival("B", prompt=7, step=1)], budget=16, blocks=5, policy="priority"
)


@pytest.mark.parametrize(
    ("load", "index", "request_id", "reason"),
    [
        (Load([Arrival("A", prompt=8), Arrival("B", prompt=3)]), 0, "B", "the budget was used up before its turn"),
        (
            Load([Arrival("A", prompt=20), Arrival("B", prompt=20)], budget=30, long_prefill_token_threshold=4),
            1,
            "A",
            "gap 20 - 4 = 16, cut to long_prefill_token_threshold 4; min(4, budget left 30) = 4",
        ),
        (
            Load([Arrival("A", prompt=5), Arrival("B", prompt=6)], enable_chunked_prefill=False),
            0,
            "B",
            "chunked prefill is off and its 6 tokens exceed the 3 tokens of budget left",
        ),
        (SELF_PREEMPTION, 2, "B", "a running request before it preempted itself, which ends the running pass"),
        (
            SELF_PREEMPTION,
            2,
            "A",
            "preempted: 0 free blocks were too few, so its own went back and its computed is 0 again",
        ),
        (
            Load([Arrival("A", prompt=7), Arrival("B", prompt=7), Arrival("C", prompt=1, step=2)], budget=16, blocks=5),
            2,
            "C",
            "a step that preempts admits nobody from the waiting queue",
        ),
        (
            Load(
                [Arrival("A", prompt=6, drafts=3, shared=4), Arrival("B", prompt=5, drafts=3, shared=4, step=1)],
                budget=6,
            ),
            1,
            "B",
            "padded to 4 tokens, the size of this step's decodes, it exceeds the 2 tokens of budget left",
        ),
        (
            Load([Arrival("A", prompt=7), Arrival("B", prompt=7)], budget=16, blocks=5),
            4,
            "B",
            "gap 9 - 4 (4 tokens from the prefix cache) = 5; min(5, budget left 16) = 5",
        ),
    ],
    ids=[
        "no-budget",
        "threshold",
        "no-chunks",
        "pass-ended",
        "self",
        "preempting-step",
        "padding-too-large",
        "resumed",
    ],
)
def test_the_reason_names_the_rule_that_decided(load: Load, index: int, request_id: str, reason: str) -> None:
    assert explain(step_of(load, index), request_id) == reason


def test_the_reason_names_max_model_len() -> None:
    config = EngineConfig(
        scheduler=SchedulerConfig(max_num_batched_tokens=16, max_model_len=10),
        cache=CacheConfig(block_size=4, num_gpu_blocks=8),
        speculative=SpeculativeConfig(method="ngram", num_speculative_tokens=3),
    )
    scheduler = Scheduler(config)
    scheduler.add_request(Request("A", range(7), SamplingParams()))
    scheduler.update_from_output(scheduler.schedule(), {"A": [7]})
    scheduler.update_draft_token_ids({"A": [8, 9, 10]})
    step = watch_step(scheduler)
    assert step.scheduled == {"A": 2}
    assert explain(step, "A") == "gap 11 - 7 = 4, cut to 2: max_model_len 10 - computed 7 - 1"


def test_an_unknown_request_is_told_who_was_there() -> None:
    with pytest.raises(KeyError, match=r"'Z' was neither running nor waiting in this step; it had \['A'\]"):
        explain(step_of(Load([Arrival("A", prompt=3)]), 0), "Z")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Arrival("A", prompt=4, drafts=1, accepted=2),
            "Arrival 'A': accepted is 2, but only 1 drafts are proposed",
        ),
        (lambda: Arrival("A", prompt=4, shared=5), "Arrival 'A': shared is 5, but its prompt has only 4 tokens"),
        (lambda: Load(Arrival("A", prompt=4)), "a Load takes a list of arrivals: Load"),  # type: ignore[arg-type]
        (lambda: Load(["A"]), "a Load takes a list of arrivals: Load"),  # type: ignore[list-item]
        (lambda: Load([Arrival("A", prompt=4)], budget=0), "Load.budget is 0, but must be an int of at least 1"),
        (lambda: Load([Arrival("A", prompt=4)], blocks=-1), "Load.blocks is -1, but must be an int of at least 1"),
        (lambda: Load([Arrival("A", prompt=4)], watermark=2), "Load.watermark is 2, but must be a fraction"),
        (lambda: Load([Arrival("A", prompt=4)] * 2), "two arrivals of this load are called 'A'"),
        (lambda: Arrival("A", prompt=0), "Arrival 'A': prompt is 0, but must be a whole number of at least 1"),
        (
            lambda: Arrival("A", prompt=300),
            "Arrival 'A': prompt is 300, but a load's sequences hold at most 256 tokens",
        ),
        (lambda: Arrival("A", prompt=4, step=-1), "Arrival 'A': step is -1, but must be a whole number of at least 0"),
        (lambda: Arrival("A", prompt=4, max_tokens=0), "Arrival 'A': max_tokens is 0"),
    ],
)
def test_a_load_that_makes_no_sense_is_refused_with_its_name(make: Callable[[], object], message: str) -> None:
    with pytest.raises(LessonError, match=message):
        make()
