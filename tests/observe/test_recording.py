"""A recording says what the scheduler did, and why, and changes nothing."""

import time
from collections import Counter
from collections.abc import Callable

import pytest

from minivllm.config import SpeculativeConfig
from minivllm.core.sched.scheduler import Scheduler
from minivllm.kv_cache_interface import FullAttentionSpec, KVCacheSpec, SlidingWindowSpec
from minivllm.lesson import Arrival, Load, record
from minivllm.lesson.common.run import Run
from minivllm.observe.frame import Frame
from minivllm.observe.recording import Recording
from minivllm.observe.toy_model import DraftRule, ToyModel
from minivllm.request import Request, RequestStatus, SamplingParams
from tests.core.engine import add, free_ids, make_request, make_scheduler, run, step

NGRAM = SpeculativeConfig("ngram", 3)
HYBRID: tuple[KVCacheSpec, ...] = (FullAttentionSpec(), SlidingWindowSpec(8))


def said(recording: Recording, text: str) -> str:
    """The one sentence of the recording that holds `text`."""
    (sentence,) = [sentence for frame in recording.frames for sentence in frame.why if text in sentence]
    return sentence


def crowd(scheduler: Scheduler) -> None:
    """Requests that share a prefix, outgrow the pool and preempt one another."""
    for i in range(8):
        prompt = [*range(12), *range(100 * i + 100, 100 * i + 107 + 3 * i)]
        add(scheduler, make_request(f"r{i}", prompt, 14, arrival_time=float(i), priority=i % 3))


SCHEDULERS: dict[str, Callable[[], Scheduler]] = {
    "fcfs": lambda: make_scheduler(budget=24, blocks=24),
    "priority": lambda: make_scheduler(budget=24, blocks=24, policy="priority"),
    "drafts": lambda: make_scheduler(budget=24, blocks=24, speculative=NGRAM),
    "no cache": lambda: make_scheduler(budget=24, blocks=24, caching=False),
    "hybrid": lambda: make_scheduler(budget=24, blocks=36, groups=HYBRID),
}


@pytest.mark.parametrize("name", SCHEDULERS)
def test_every_frame_is_the_schedulers_state(name: str) -> None:
    scheduler = SCHEDULERS[name]()
    recording = Recording(scheduler)
    crowd(scheduler)
    model = ToyModel({}, DraftRule(3) if name == "drafts" else None)
    preempted = 0
    while scheduler.has_unfinished_requests():
        before = {r.request_id: r.num_computed_tokens for r in scheduler.running}
        output = scheduler.schedule()
        frame = recording.frames[-1]
        assert frame.output is output and frame.index == len(recording.frames) - 1
        assert dict(frame.handed_out) == output.num_scheduled_tokens and 0 <= frame.left < frame.budget
        assert list(frame.running) == [r.request_id for r in scheduler.running]
        assert list(frame.waiting) == [r.request_id for r in scheduler.waiting]
        assert list(frame.free_queue) == free_ids(scheduler)
        pool = scheduler.kv_cache_manager.block_pool
        assert frame.num_used_blocks == pool.num_gpu_blocks - 1 - pool.get_num_free_blocks()
        for view, block in zip(frame.blocks, pool.blocks, strict=True):
            assert view.is_null or view.ref_count == block.ref_cnt == len(view.owners)
            assert (view.hash_number is None) == (block.block_hash is None)
            assert (view.state == "used") == (block.ref_cnt > 0 and not block.is_null)
        for request in frame.requests:
            live = scheduler.requests[request.request_id]
            assert request.status == live.status.name.lower()
            assert request.computed + request.scheduled + request.drafts == live.num_computed_tokens
            assert request.scheduled + request.drafts == output.num_scheduled_tokens.get(request.request_id, 0)
            assert request.remaining >= 0 and request.lost == (
                before[request.request_id] if request.request_id in frame.preempted else 0
            )
            ids = scheduler.kv_cache_manager.get_blocks(request.request_id).get_block_ids()
            assert list(map(list, frame.block_tables.get(request.request_id, [()] * len(ids)))) == list(ids)
        assert list(frame.preempted) == output.preempted_req_ids
        assert all(f"{request_id} preempt" in " ".join(frame.why) for request_id in frame.preempted)
        preempted += len(frame.preempted)
        sampled = model.sample(scheduler, output)
        scheduler.update_from_output(output, sampled)
        assert list(frame.free_queue_after) == free_ids(scheduler)
        for request_id, tokens in sampled.items():
            drafts = len(output.scheduled_spec_decode_tokens.get(request_id, ()))
            if tokens and request_id not in frame.finished:
                assert frame.sampled[request_id] == len(tokens)
                assert frame.rejected.get(request_id, 0) == drafts + 1 - len(tokens)
        if model.draft_rule:
            scheduler.update_draft_token_ids(model.draft(scheduler, sampled))
    assert preempted > 0
    finished = Counter(request_id for frame in recording.frames for request_id in frame.finished)
    assert finished == {f"r{i}": 1 for i in range(8)}


@pytest.mark.parametrize("name", SCHEDULERS)
def test_a_recording_changes_no_decision(name: str) -> None:
    plain, watched = SCHEDULERS[name](), SCHEDULERS[name]()
    recordings = [Recording(watched), Recording(watched)]
    rule = DraftRule(3) if name == "drafts" else None
    for scheduler in (plain, watched):
        crowd(scheduler)
    assert run(plain, rule) == run(watched, rule)
    first, second = ([(f.requests, f.blocks, f.why, f.hits, f.evicted) for f in r.frames] for r in recordings)
    assert first == second


def test_the_tail_of_running_pays_for_the_first() -> None:
    scheduler = make_scheduler(budget=16, blocks=4)
    recording = Recording(scheduler)
    add(scheduler, make_request("A", 8, 5), make_request("B", 8, 5))
    run(scheduler)
    frame = next(frame for frame in recording.frames if frame.preempted)
    assert frame.preempted == ("B",) and frame.requests[1].lost == 8 and frame.requests[1].status == "preempted"
    assert frame.why[0] == (
        "B preempted: A needs 1 block, 0 free, B is the tail of running; its 8 computed tokens are dropped"
    )
    assert "nobody is admitted, 1 waiting: a step that preempts admits nobody" in frame.why
    assert said(recording, "B resumed").startswith("B resumed: ")


def test_the_largest_priority_pays_under_the_priority_policy() -> None:
    scheduler = make_scheduler(budget=16, blocks=4, policy="priority")
    recording = Recording(scheduler)
    add(scheduler, make_request("A", 8, 5, priority=7), make_request("B", 8, 5, priority=1))
    run(scheduler)
    assert "A has the largest priority, 7" in said(recording, "A preempted: B needs 1 block, 0 free")


def test_among_equals_the_last_to_arrive_pays() -> None:
    scheduler = make_scheduler(budget=16, blocks=4, policy="priority")
    recording = Recording(scheduler)
    add(scheduler, make_request("A", 8, 5, arrival_time=2.0), make_request("B", 8, 5, arrival_time=1.0))
    run(scheduler)
    assert "A arrived last of those with the largest priority, 0" in said(recording, "A preempted: B needs")


def test_a_request_preempts_itself_when_it_is_the_tail() -> None:
    scheduler = make_scheduler(budget=16, blocks=5)
    recording = Recording(scheduler)
    add(scheduler, make_request("A", 8, 8), make_request("B", 8, 8))
    run(scheduler)
    assert said(recording, "preempts itself").startswith("B preempts itself: it needs 1 block, 0 free, and B is the")


def test_a_victim_of_a_rule_of_ones_own_is_not_explained_by_vllms() -> None:
    class OldestFirst(Scheduler):
        def _select_victim(self) -> int:
            return 0

    model = make_scheduler(budget=16, blocks=4)
    scheduler = OldestFirst(model.config)
    recording = Recording(scheduler)
    add(scheduler, make_request("A", 8, 5), make_request("B", 8, 5))
    for _ in range(2):
        step(scheduler)
    assert "A was chosen" in said(recording, "A preempts itself")


def test_a_hit_says_how_much_of_the_request_it_is() -> None:
    scheduler = make_scheduler(budget=128, blocks=32, block_size=16)
    recording = Recording(scheduler)
    add(scheduler, make_request("A", range(64), 1))
    step(scheduler)
    add(scheduler, make_request("B", range(65), 1))
    step(scheduler)
    frame = recording.frames[-1]
    assert frame.why[0] == "B admitted: 64 of 65 tokens hit, 1 to compute"
    assert frame.hits == {"B": 64} and frame.requests[0].hit == 64 and frame.requests[0].computed == 64


def test_the_budget_cuts_a_prompt() -> None:
    scheduler = make_scheduler(budget=16, blocks=32)
    recording = Recording(scheduler)
    add(scheduler, make_request("A", 40, 1), make_request("B", 4, 1))
    run(scheduler)
    assert recording.frames[0].why == [
        "A admitted: no hit, 40 to compute; gets 16: that is all that was left of the budget",
        "B stays: the budget is used up",
    ]
    assert recording.frames[1].why[0] == "A gets 16 of its gap of 24: that is all that was left of the budget"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"long_prefill_token_threshold": 6}, "A admitted: no hit, 12 to compute; gets 6: long_prefill_token_threshold is 6"),
        ({"max_num_seqs": 1}, "B stays: max_num_seqs is 1, and as many run"),
        ({"blocks": 4}, "B stays: needs 3 blocks for all its 12 known tokens (full-sequence gate), 1 free"),
        ({"blocks": 4, "scheduler_reserve_full_isl": False}, "B stays: needs 3 blocks, 1 free"),
        ({"blocks": 7, "watermark": 0.5}, "B stays: needs 3 blocks for all its 12 known tokens (full-sequence gate), 4 free, and the watermark keeps 4 back"),
        ({"budget": 20, "enable_chunked_prefill": False}, "B stays: its gap exceeds the 8 tokens of budget left, and chunked prefill is off"),
    ],
)  # fmt: skip
def test_who_stays_and_who_is_cut_is_told_with_the_rule(options: dict[str, int | float | bool], expected: str) -> None:
    scheduler = make_scheduler(**{"budget": 64, "blocks": 32} | options)  # type: ignore[arg-type]
    recording = Recording(scheduler)
    add(scheduler, make_request("A", 12, 2), make_request("B", 12, 2))
    step(scheduler)
    assert expected in recording.frames[0].why


def test_rejected_drafts_are_rolled_back() -> None:
    scheduler = make_scheduler(speculative=NGRAM)
    recording = Recording(scheduler)
    add(scheduler, make_request("A", 8, 20))
    run(scheduler, DraftRule(3, "none"))
    frame = recording.frames[1]
    assert frame.requests[0].drafts == 3 and frame.rejected == {"A": 3}
    assert frame.why[1:] == ["A: 0 of 3 drafts accepted, computed goes back from 12 to 9"]


def test_an_eviction_names_who_took_the_block() -> None:
    scheduler = make_scheduler(blocks=4)
    recording = Recording(scheduler)
    add(scheduler, make_request("A", 12, 1))
    step(scheduler)
    add(scheduler, make_request("B", 13, 1))
    step(scheduler)
    frame = recording.frames[-1]
    assert frame.evicted == ((3, 2), (2, 1), (1, 0))
    assert "evicted: #2 (block 3), #1 (block 2), #0 (block 1), because B takes the front of the free queue" in frame.why


def test_a_finished_request_frees_tail_first() -> None:
    scheduler = make_scheduler(blocks=6)
    recording = Recording(scheduler)
    add(scheduler, make_request("A", 12, 1))
    step(scheduler)
    frame = recording.frames[0]
    assert frame.why[-1] == "A finished (length): its blocks go back, tail first: 3, 2, 1"
    assert frame.free_queue == (4, 5, 6) and frame.free_queue_after == (4, 5, 6, 3, 2, 1)


def test_a_sliding_window_leaves_blocks_behind() -> None:
    scheduler = make_scheduler(budget=64, blocks=32, groups=HYBRID)
    recording = Recording(scheduler)
    add(scheduler, make_request("A", 20, 12))
    run(scheduler)
    assert said(recording, "3 blocks behind") == "A: its sliding window left 3 blocks behind, free now"
    full, window = recording.frames[-1].block_tables["A"]
    assert 0 not in full and window[:3] == (0, 0, 0)
    groups = {block.group for block in recording.frames[-1].blocks if block.state == "used"}
    assert groups == {0, 1}


def test_what_happens_between_two_steps_is_told_in_the_next() -> None:
    scheduler = make_scheduler()
    recording = Recording(scheduler)
    add(scheduler, make_request("A", 8), make_request("B", 8), make_request("C", 8))
    step(scheduler)
    scheduler.finish_requests("B", RequestStatus.FINISHED_ABORTED)
    scheduler.reset_prefix_cache(reset_running_requests=True)
    step(scheduler)
    why = recording.frames[1].why
    assert "B was aborted before this step" in why
    assert "C preempted between two steps; its 8 computed tokens are dropped" in why


def test_a_recording_begins_when_it_is_made() -> None:
    scheduler = make_scheduler(blocks=8)
    add(scheduler, make_request("A", range(16), 1), make_request("B", 40, 30))
    step(scheduler)  # A has finished: nobody knows any more what its hashes stand for
    recording = Recording(scheduler)
    add(scheduler, make_request("C", range(17), 1))
    run_one = step(scheduler)
    assert len(recording.frames) == 1 and recording.frames[0].output is run_one
    for number in (block.hash_number for block in recording.frames[0].blocks):
        assert number is None or number < len(recording.hashes.rows)


def test_an_answer_to_a_step_before_the_recording_is_let_through() -> None:
    scheduler = make_scheduler()
    add(scheduler, make_request("A", 8))
    output = scheduler.schedule()
    recording = Recording(scheduler)
    assert scheduler.update_from_output(output, {"A": [5]})[0].new_token_ids == [5]
    assert recording.frames == []


def test_an_answer_that_is_refused_leaves_the_frame_alone() -> None:
    scheduler = make_scheduler()
    recording = Recording(scheduler)
    add(scheduler, make_request("A", 8))
    output = scheduler.schedule()
    with pytest.raises(ValueError, match="sampled_token_ids"):
        scheduler.update_from_output(output, {"A": []})
    assert recording.frames[0].sampled == {}
    scheduler.update_from_output(output, {"A": [5]})
    assert recording.frames[0].sampled == {"A": 1}


def test_blocks_that_did_not_change_are_kept_once() -> None:
    recording = record(Load([Arrival("A", 9, max_tokens=3)]))
    assert recording.frames[1].blocks[60] is recording.frames[0].blocks[60]


def test_a_load_is_recorded_to_its_end() -> None:
    recording = record(Load([Arrival("A", 20), Arrival("B", 9, step=40)]))
    assert {request_id for frame in recording.frames for request_id in frame.finished} == {"A", "B"}
    assert recording.frames[20].why == ["there is nobody to schedule"]


def test_a_load_that_stands_still_ends_with_its_diagnosis() -> None:
    recording = record(Load([Arrival("A", 60)], blocks=8))
    assert len(recording.frames) == 1
    assert (
        "for ever" in recording.frames[0].why[-1] and "raise CacheConfig.num_gpu_blocks" in recording.frames[0].why[-1]
    )


def test_recording_costs_a_few_milliseconds_a_step() -> None:
    arrivals = [Arrival(f"r{i}", 60 + i % 17, max_tokens=120, drafts=2, accepted=i % 3) for i in range(40)]
    seconds = []
    for recorded in (False, True):
        scheduler = Run(Load(arrivals, blocks=256, block_size=16, budget=256, max_num_seqs=40))
        recording = Recording(scheduler.scheduler) if recorded else None
        start = time.process_time()
        for _ in range(100):
            scheduler.step()
        seconds.append(time.process_time() - start)
    assert recording is not None and len(recording.frames) == 100
    assert (seconds[1] - seconds[0]) / 100 < 0.010


def test_a_frame_of_a_request_counts_its_preemptions_and_keeps_its_priority() -> None:
    scheduler = make_scheduler(budget=16, blocks=4)
    recording = Recording(scheduler)
    params = SamplingParams(max_tokens=5)
    add(scheduler, Request("A", [1] * 8, params, priority=3), Request("B", [2] * 8, params, priority=4))
    run(scheduler)
    last: Frame = next(frame for frame in reversed(recording.frames) if "B" in frame.running)
    assert [(r.request_id, r.preemptions, r.priority) for r in last.requests if r.request_id == "B"] == [("B", 1, 4)]


def test_an_allocate_slots_of_ones_own_that_refuses_is_not_said_to_have_counted_blocks() -> None:
    scheduler = make_scheduler(budget=16, blocks=4)
    theirs = scheduler.kv_cache_manager.allocate_slots
    scheduler.kv_cache_manager.allocate_slots = (  # type: ignore[method-assign]
        lambda request, *args, **more: None if request.request_id == "B" else theirs(request, *args, **more)
    )
    recording = Recording(scheduler)
    add(scheduler, make_request("A", 8, 1), make_request("B", 4, 1))
    scheduler.schedule()
    assert recording.frames[0].why[-1] == "B stays: gets None from allocate_slots, 2 free"
