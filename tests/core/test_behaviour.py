"""What small engines get wrong: one test for each of vLLM's behaviours that is easily missed."""

import pytest

from minivllm.config import SpeculativeConfig
from minivllm.kv_cache_interface import FullAttentionSpec, SlidingWindowSpec
from minivllm.observe.toy_model import DraftRule, ToyModel
from minivllm.request import RequestStatus
from tests.core.engine import add, block_ids, free_ids, make_request, make_scheduler, ref_counts, run, step


def test_a_decode_goes_on_beside_a_long_prompt_that_comes_in_chunks() -> None:
    scheduler = make_scheduler(budget=8)
    add(scheduler, make_request("decode", 4))
    step(scheduler)
    add(scheduler, make_request("long", 20))
    assert [dict(step(scheduler).num_scheduled_tokens) for _ in range(3)] == [{"decode": 1, "long": 7}] * 2 + [
        {"decode": 1, "long": 6}
    ]


def test_a_first_chunk_smaller_than_a_block_takes_one_block_and_no_more() -> None:
    scheduler = make_scheduler(budget=3, block_size=8)
    add(scheduler, make_request("a", 20))
    step(scheduler)
    assert block_ids(scheduler, "a") == [1]


def test_tokens_that_stay_unscheduled_do_not_carry_over_to_the_next_step() -> None:
    scheduler = make_scheduler(budget=8)
    add(scheduler, make_request("a", 2))
    step(scheduler)
    add(scheduler, make_request("b", 30))
    assert sum(step(scheduler).num_scheduled_tokens.values()) == 8


def test_twins_in_one_step_share_what_nobody_has_computed_yet() -> None:
    scheduler = make_scheduler()
    prompt = range(17)
    add(scheduler, make_request("a", prompt), make_request("b", prompt))
    output = step(scheduler)
    assert output.num_scheduled_tokens == {"a": 17, "b": 1}
    assert block_ids(scheduler, "a")[:4] == block_ids(scheduler, "b")[:4]
    assert ref_counts(scheduler, "b") == [2, 2, 2, 2, 1]


@pytest.mark.parametrize(
    ("block_size", "length", "hit"),
    [
        (16, 15, 0),
        (16, 16, 0),
        (16, 17, 16),
        (16, 32, 16),
        (16, 33, 32),
        (16, 63, 48),
        (16, 64, 48),
        (16, 65, 64),
        (4, 8, 4),
        (4, 9, 8),
    ],
)
def test_a_whole_hit_is_capped_one_short_of_the_prompt_and_floored_to_blocks(
    block_size: int, length: int, hit: int
) -> None:
    scheduler = make_scheduler(budget=128, block_size=block_size)
    add(scheduler, make_request("first", range(length), max_tokens=1))
    run(scheduler)
    add(scheduler, make_request("again", range(length)))
    output = scheduler.schedule()
    assert output.scheduled_new_reqs[0].num_computed_tokens == hit
    assert output.num_scheduled_tokens == {"again": length - hit}


def test_looking_up_a_hit_changes_no_ref_count_and_no_free_queue() -> None:
    scheduler = make_scheduler()
    add(scheduler, make_request("first", range(12), max_tokens=1))
    run(scheduler)
    before = free_ids(scheduler)
    request = make_request("again", range(12))
    scheduler.add_request(request)
    blocks, hit = scheduler.kv_cache_manager.get_computed_blocks(request)
    assert hit == 8
    assert [block.ref_cnt for block in blocks.blocks[0]] == [0, 0]
    assert free_ids(scheduler) == before


def test_a_recomputed_full_block_is_a_duplicate_and_returns_to_the_pool() -> None:
    scheduler = make_scheduler(blocks=8)
    add(scheduler, make_request("a", range(8)), make_request("b", range(8)))
    step(scheduler)
    assert block_ids(scheduler, "a")[:2] == [1, 2]
    assert block_ids(scheduler, "b")[:2] == [1, 3]
    run(scheduler)
    assert sorted(free_ids(scheduler)) == list(range(1, 9))


def test_a_table_is_freed_tail_first_with_its_unhashed_block_in_front() -> None:
    scheduler = make_scheduler(blocks=8)
    add(scheduler, make_request("a", 14, max_tokens=1))
    run(scheduler)
    assert free_ids(scheduler) == [4, 5, 6, 7, 8, 3, 2, 1]


def test_without_caching_every_freed_block_is_taken_next() -> None:
    scheduler = make_scheduler(blocks=8, caching=False)
    add(scheduler, make_request("a", 14, max_tokens=1))
    run(scheduler)
    assert free_ids(scheduler) == [4, 3, 2, 1, 5, 6, 7, 8]


def test_a_salt_keeps_equal_prompts_apart() -> None:
    scheduler = make_scheduler()
    add(
        scheduler,
        make_request("a", range(12)),
        make_request("b", range(12), cache_salt="x"),
        make_request("c", range(12), cache_salt="x"),
    )
    assert step(scheduler).num_scheduled_tokens == {"a": 12, "b": 12, "c": 4}


def test_a_request_that_skips_the_cache_still_fills_it() -> None:
    scheduler = make_scheduler()
    add(scheduler, make_request("a", range(12), skip_reading_prefix_cache=True), make_request("b", range(12)))
    assert step(scheduler).num_scheduled_tokens == {"a": 12, "b": 4}


def test_a_request_can_preempt_itself_and_nobody_is_admitted_in_that_step() -> None:
    scheduler = make_scheduler(blocks=3, scheduler_reserve_full_isl=False)
    add(scheduler, make_request("a", 8, max_tokens=20))
    step(scheduler)
    step(scheduler)
    add(scheduler, make_request("b", 2))
    for _ in range(3):
        step(scheduler)
    output = step(scheduler)
    assert (output.preempted_req_ids, output.num_scheduled_tokens) == (["a"], {})
    assert [request.request_id for request in scheduler.waiting] == ["a", "b"]


def test_a_preempted_request_comes_back_with_its_outputs_and_what_is_left_of_its_prefix() -> None:
    scheduler = make_scheduler(blocks=6)
    add(scheduler, make_request("a", 9, max_tokens=8), make_request("b", 9, max_tokens=8))
    outputs = run(scheduler)
    assert [output.preempted_req_ids for output in outputs if output.preempted_req_ids] == [["b"]]
    (back,) = [data for output in outputs for data in output.scheduled_resumed_reqs]
    assert (back.req_id, back.num_computed_tokens, len(back.token_ids)) == ("b", 8, 17)


def test_nobody_vanishes_and_every_block_returns_under_pressure() -> None:
    scheduler = make_scheduler(budget=16, blocks=12, max_num_seqs=6)
    add(scheduler, *(make_request(f"r{i}", 6 + i, max_tokens=12) for i in range(12)))
    outputs = run(scheduler)
    assert sum(len(output.preempted_req_ids) for output in outputs) >= 5
    finished = set().union(scheduler.finished_req_ids, *(output.finished_req_ids for output in outputs))
    assert finished == {f"r{i}" for i in range(12)}
    assert scheduler.kv_cache_manager.usage == 0.0


def test_priority_takes_back_the_tokens_of_a_victim_that_was_scheduled_already() -> None:
    scheduler = make_scheduler(blocks=5, policy="priority")
    add(scheduler, make_request("low", 8, priority=9, arrival_time=0.0))
    step(scheduler)
    add(scheduler, make_request("high", 8, priority=1, arrival_time=1.0))
    step(scheduler)
    output = step(scheduler)
    while not output.preempted_req_ids:
        output = step(scheduler)
    assert output.preempted_req_ids == ["low"]
    assert output.num_scheduled_tokens == {"high": 1}


def test_a_waiting_request_never_preempts_a_running_one() -> None:
    scheduler = make_scheduler(blocks=4, policy="priority")
    add(scheduler, make_request("low", 12, max_tokens=4, priority=9))
    step(scheduler)
    add(scheduler, make_request("high", 12, priority=0, arrival_time=1.0))
    output = step(scheduler)
    assert (output.preempted_req_ids, output.num_scheduled_tokens) == ([], {"low": 1})


def test_a_head_that_does_not_fit_blocks_smaller_requests_behind_it() -> None:
    scheduler = make_scheduler(blocks=6)
    add(scheduler, make_request("a", 16))
    step(scheduler)
    add(scheduler, make_request("big", 16), make_request("small", 2))
    assert step(scheduler).num_scheduled_tokens == {"a": 1}


def test_rejected_drafts_roll_the_counter_back_and_keep_their_blocks() -> None:
    scheduler = make_scheduler(speculative=SpeculativeConfig("ngram", 4))
    model = ToyModel({}, DraftRule(4, "none"))
    add(scheduler, make_request("a", 7, max_tokens=20))
    step(scheduler, model)
    seen = []
    for _ in range(3):
        request = scheduler.requests["a"]
        before = request.num_computed_tokens
        output = step(scheduler, model)
        seen.append((before, output.num_scheduled_tokens["a"], block_ids(scheduler, "a"), request.num_computed_tokens))
    assert seen == [(7, 5, [1, 2, 3], 8), (8, 5, [1, 2, 3, 4], 9), (9, 5, [1, 2, 3, 4], 10)]


def test_drafts_change_the_pace_and_not_the_output() -> None:
    texts = []
    for rule in (None, DraftRule(3, "none"), DraftRule(3, "var"), DraftRule(3, "all")):
        scheduler = make_scheduler(speculative=SpeculativeConfig("ngram", 3) if rule else None)
        request = make_request("a", 9, max_tokens=15)
        add(scheduler, request)
        num_steps = len(run(scheduler, rule))
        texts.append((request.output_token_ids, num_steps))
    assert len({tuple(tokens) for tokens, _ in texts}) == 1
    assert [steps for _, steps in texts] == [15, 15, 6, 5]


def test_a_request_amid_its_prompt_takes_no_drafts() -> None:
    scheduler = make_scheduler(budget=4, speculative=SpeculativeConfig("ngram", 2))
    add(scheduler, make_request("a", 10))
    step(scheduler)
    scheduler.update_draft_token_ids({"a": [1, 2], "unknown": [3]})
    assert scheduler.requests["a"].spec_token_ids == []


def test_a_running_request_with_nothing_to_compute_is_skipped_not_fatal() -> None:
    scheduler = make_scheduler(budget=8)
    add(scheduler, make_request("a", 4), make_request("b", 20))
    scheduler.schedule()
    # The first step's output is still out, so "a" has no known token left, while "b" has.
    assert scheduler.schedule().num_scheduled_tokens == {"b": 8}


def test_an_admission_under_the_watermark_waits_unless_nobody_runs() -> None:
    scheduler = make_scheduler(blocks=19, watermark=0.3)
    add(scheduler, make_request("a", 52))
    assert step(scheduler).num_scheduled_tokens == {"a": 52}
    add(scheduler, make_request("b", 4))
    assert step(scheduler).num_scheduled_tokens == {"a": 1}


def test_the_full_sequence_gate_looks_at_all_known_tokens_and_reserves_nothing() -> None:
    for gate, expected in ((True, {"a": 1}), (False, {"a": 1, "b": 7})):
        scheduler = make_scheduler(budget=8, blocks=5, scheduler_reserve_full_isl=gate)
        add(scheduler, make_request("a", 8))
        step(scheduler)
        add(scheduler, make_request("b", 16))
        assert step(scheduler).num_scheduled_tokens == expected
        assert scheduler.kv_cache_manager.block_pool.get_num_free_blocks() == (2 if gate else 0)


def test_a_window_gives_back_what_it_has_left_behind() -> None:
    scheduler = make_scheduler(groups=(SlidingWindowSpec(8),))
    add(scheduler, make_request("a", 20))
    step(scheduler)
    assert block_ids(scheduler, "a") == [1, 2, 3, 4, 5]
    step(scheduler)
    assert block_ids(scheduler, "a") == [0, 0, 0, 4, 5, 6]


def test_groups_of_a_hybrid_agree_on_one_hit() -> None:
    scheduler = make_scheduler(groups=(FullAttentionSpec(), SlidingWindowSpec(8)))
    add(scheduler, make_request("a", range(21), max_tokens=1))
    run(scheduler)
    add(scheduler, make_request("b", range(21)))
    output = step(scheduler)
    assert output.scheduled_new_reqs[0].num_computed_tokens == 20
    full, window = output.scheduled_new_reqs[0].block_ids
    assert full[:5] == [1, 2, 3, 4, 5]
    assert window[:3] == [0, 0, 0]
    assert window[3:5] == [10, 11]


def test_a_step_hands_out_max_num_scheduled_tokens_where_that_is_less() -> None:
    scheduler = make_scheduler(budget=16, max_num_scheduled_tokens=6)
    add(scheduler, make_request("a", 20))
    assert [step(scheduler).total_num_scheduled_tokens for _ in range(4)] == [6, 6, 6, 2]


def test_an_abort_between_schedule_and_update_frees_at_once_and_drops_the_output() -> None:
    scheduler = make_scheduler(blocks=8)
    add(scheduler, make_request("a", 4), make_request("b", 4))
    output = scheduler.schedule()
    scheduler.finish_requests("a", RequestStatus.FINISHED_ABORTED)
    add(scheduler, make_request("a", 6))
    outputs = scheduler.update_from_output(output, {"a": [1], "b": [2]})
    assert [out.request_id for out in outputs] == ["b"]
    assert scheduler.requests["a"].num_output_tokens == 0
    assert scheduler.schedule().finished_req_ids == {"a"}


def test_the_prefix_cache_is_reset_only_when_nobody_holds_a_block() -> None:
    scheduler = make_scheduler()
    add(scheduler, make_request("a", range(9)))
    step(scheduler)
    assert not scheduler.reset_prefix_cache()
    assert scheduler.reset_prefix_cache(reset_running_requests=True)
    assert step(scheduler).num_scheduled_tokens == {"a": 10}


def test_evicted_blocks_are_found_no_more_and_stay_where_they_are() -> None:
    scheduler = make_scheduler()
    add(scheduler, make_request("a", range(17)))
    step(scheduler)
    scheduler.kv_cache_manager.evict_blocks([2, 3])
    assert ref_counts(scheduler, "a") == [1, 1, 1, 1, 1]
    add(scheduler, make_request("b", range(17)))
    assert step(scheduler).num_scheduled_tokens == {"a": 1, "b": 13}
    run(scheduler)
