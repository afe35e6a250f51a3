"""Each invariant notices the damage that it is there for, and says object, expected, actual and why."""

from collections.abc import Callable

import pytest

from minivllm.core.sched.scheduler import Scheduler
from minivllm.observe.invariants import check_progress, check_state, check_step, watch
from minivllm.observe.violation import InvariantError
from minivllm.request import RequestStatus
from tests.core.engine import add, make_request, make_scheduler, step


def busy_scheduler() -> Scheduler:
    scheduler = make_scheduler(blocks=12, max_num_seqs=2)
    add(scheduler, make_request("a", range(10)), make_request("b", range(10)), make_request("c", 6))
    step(scheduler)
    return scheduler


def pool(scheduler: Scheduler):  # type: ignore[no-untyped-def]
    return scheduler.kv_cache_manager.block_pool


def tables(scheduler: Scheduler):  # type: ignore[no-untyped-def]
    return scheduler.kv_cache_manager.coordinator.single_type_managers[0].req_to_blocks


def leak_a_block(scheduler: Scheduler) -> None:
    pool(scheduler).free_block_queue.popleft_n(1)


def free_a_held_block(scheduler: Scheduler) -> None:
    pool(scheduler).free_block_queue.append_n([tables(scheduler)["a"][-1]])


def count_wrong(scheduler: Scheduler) -> None:
    tables(scheduler)["a"][0].ref_cnt += 1


def miscount_the_queue(scheduler: Scheduler) -> None:
    pool(scheduler).free_block_queue.num_free_blocks += 1


def break_a_link(scheduler: Scheduler) -> None:
    pool(scheduler).free_block_queue.get_all_free_blocks()[2].prev_free_block = None


def cut_a_table(scheduler: Scheduler) -> None:
    pool(scheduler).free_blocks([tables(scheduler)["a"].pop()])


def put_null_into_a_table(scheduler: Scheduler) -> None:
    pool(scheduler).free_blocks([tables(scheduler)["a"][1]])
    tables(scheduler)["a"][1] = pool(scheduler).null_block


def forget_a_hash(scheduler: Scheduler) -> None:
    tables(scheduler)["a"][0].block_hash = None


def file_a_wrong_hash(scheduler: Scheduler) -> None:
    block = tables(scheduler)["a"][2]
    pool(scheduler).cache_full_blocks([block], [scheduler.requests["a"].block_hashes[0]], 0)


def hash_out_of_step(scheduler: Scheduler) -> None:
    scheduler.requests["a"].block_hashes.pop()


def queue_twice(scheduler: Scheduler) -> None:
    scheduler.waiting.add_request(scheduler.requests["a"])


def lose_a_request(scheduler: Scheduler) -> None:
    scheduler.waiting.pop_request()


def keep_a_finished_request(scheduler: Scheduler) -> None:
    del scheduler.requests["c"]


def mark_wrong(scheduler: Scheduler) -> None:
    scheduler.running[0].status = RequestStatus.WAITING


def waiting_with_progress(scheduler: Scheduler) -> None:
    scheduler.waiting.peek_request().num_computed_tokens = 4


def too_many_running(scheduler: Scheduler) -> None:
    request = scheduler.waiting.pop_request()
    request.status = RequestStatus.RUNNING
    scheduler.running.append(request)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            leak_a_block,
            "expected either once in the free queue or in tables, actual in the free queue 0 times and in 0 tables",
        ),
        (free_a_held_block, "actual in the free queue 1 times and in 1 tables"),
        (count_wrong, "ref_cnt: expected 2, the tables that hold it, actual 3"),
        (miscount_the_queue, "free queue: expected 9 blocks, as counted, actual 8"),
        (break_a_link, "its predecessor in the free queue"),
        (cut_a_table, "block table of 'a': expected slots for 10 computed tokens, actual 8 slots"),
        (put_null_into_a_table, "block table of 'a': expected no null block in reach"),
        (forget_a_hash, "expected filed under the hash it holds, actual another"),
        (file_a_wrong_hash, "hash: expected none, actual one; only a block that known tokens fill"),
        (hash_out_of_step, "block_hashes: expected 2, one a full block, actual 1"),
        (queue_twice, "request 'a': queues that hold it: expected exactly 1, actual 2"),
        (lose_a_request, "request 'c': queues that hold it: expected exactly 1, actual 0"),
        (keep_a_finished_request, "request 'c': queues that hold it: expected none: it has finished, actual 1"),
        (mark_wrong, "in running: expected RUNNING, actual WAITING"),
        (waiting_with_progress, "in waiting: expected 0 computed tokens, actual 4"),
        (too_many_running, "running: expected at most max_num_seqs = 2, actual 3"),
    ],
)
def test_damage_is_noticed_and_named(damage: Callable[[Scheduler], None], message: str) -> None:
    scheduler = busy_scheduler()
    assert not check_state(scheduler)
    damage(scheduler)
    violations = check_state(scheduler)
    assert any(message in str(violation) for violation in violations), "\n".join(map(str, violations))
    assert all(violation.why for violation in violations)


def test_a_rejected_draft_that_stays_computed_is_noticed() -> None:
    scheduler = busy_scheduler()
    scheduler.requests["a"].num_computed_tokens += 2
    (violation,) = check_progress(scheduler)
    assert str(violation) == (
        "request 'a': num_computed_tokens: expected at most num_tokens = 11, actual 12; a rejected draft token must not stay computed"
    )


def test_a_step_that_breaks_its_promises_is_noticed() -> None:
    scheduler = busy_scheduler()
    output = scheduler.schedule()
    assert not check_step(scheduler, output)
    output.num_scheduled_tokens |= {"a": 0, "b": 99}
    output.preempted_req_ids.append("b")
    output.scheduled_spec_decode_tokens["z"] = [1]
    texts = "\n".join(map(str, check_step(scheduler, output)))
    assert "the step's scheduled tokens: expected at most 64, actual 99; the budget is per step" in texts
    assert "request 'a': scheduled tokens: expected at least 1, actual 0" in texts
    assert "request 'b': expected not scheduled, actual scheduled; it was preempted in this step" in texts
    assert "request 'z': drafts to verify: expected none, actual some" in texts
    assert "total_num_scheduled_tokens: expected 99, actual 2" in texts


def test_a_watched_scheduler_raises_at_the_step_that_breaks_an_invariant() -> None:
    scheduler = busy_scheduler()
    watch(scheduler)
    step(scheduler)
    count_wrong(scheduler)
    with pytest.raises(
        InvariantError, match="ref_cnt: expected 2, the tables that hold it, actual 3; a wrong count leaks"
    ):
        scheduler.schedule()
