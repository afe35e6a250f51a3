"""Code of a reader's own against vLLM's traces: right pieces agree to the end, wrong ones are told where and why."""

import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from minivllm.core.kv_cache_manager import KVCacheBlocks, KVCacheManager
from minivllm.core.sched.scheduler import Scheduler
from minivllm.core.single_type_kv_cache_manager import cdiv
from minivllm.lesson import Arrival, Load, ______, against_vllm, record, record_with
from minivllm.lesson.against.compare import TRACES, Verdict, compare
from minivllm.lesson.common.cost import cost
from minivllm.lesson.common.errors import LessonError
from minivllm.observe.replay import TraceError, find_traces, load_trace, replay_trace
from minivllm.request import Request
from tests.lesson.notebooks import BLANK, ROOT
from tests.lesson.right_answers import preempt, select_victim

DATA = ROOT / "tests" / "data" / "traces"
PACKAGED = Path(compare.__code__.co_filename).with_name("traces")
Piece = Callable[..., Any]


def unified_token_plan(requests: list[dict[str, Any]], token_budget: int) -> tuple[dict[str, int], int]:
    plan = {}
    for status in ("running", "waiting"):
        for request in requests:
            take = min(request["total_with_spec"] - request["computed"], token_budget)
            if request["status"] == status and take:
                plan[request["id"]] = take
                token_budget -= take
    return plan, token_budget


def get_num_blocks_to_allocate(num_tokens: int, table: list[Any], hit_blocks: list[Any], block_size: int) -> int:
    num_new: int = max(cdiv(num_tokens, block_size) - len(table) - len(hit_blocks), 0)
    return num_new + len([block for block in hit_blocks if block.ref_cnt == 0])


def allocate_slots(
    pool: Any, table: list[Any], computed: int, new: int, lookahead: int, hit_blocks: list[Any], block_size: int
) -> list[Any] | None:
    num_tokens = computed + new + lookahead
    if get_num_blocks_to_allocate(num_tokens, table, hit_blocks, block_size) > pool.get_num_free_blocks():
        return None
    pool.touch(hit_blocks)
    table.extend(hit_blocks)
    new_blocks: list[Any] = pool.get_new_blocks(max(cdiv(num_tokens, block_size) - len(table), 0))
    table.extend(new_blocks)
    return new_blocks


def free(pool: Any, table: list[Any]) -> None:
    pool.free_blocks(reversed(table))


class SameScheduler(Scheduler):
    pass


class SameManager(KVCacheManager):
    pass


def named(name: str, piece: Piece) -> Piece:
    piece.__name__ = name
    return piece


def text(verdict: Verdict) -> str:
    """Without the table's alignment."""
    return " ".join(repr(verdict).split())


# --- the traces that travel in the wheel


def test_each_packaged_trace_is_a_trace_of_the_tests_byte_for_byte() -> None:
    assert TRACES and sorted(TRACES) == list(TRACES)
    for name in TRACES:
        packaged = (PACKAGED / f"{name}.json.gz").read_bytes()
        assert packaged == (DATA / f"{name}.json.gz").read_bytes(), name
    assert {path.name for path in PACKAGED.iterdir()} == {f"{name}.json.gz" for name in TRACES}


def test_they_travel_in_the_wheel(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert [name for name in TRACES if f"minivllm/lesson/against/traces/{name}.json.gz" not in names] == []


def test_they_are_small_and_were_made_by_the_version_that_the_course_teaches() -> None:
    assert sum(path.stat().st_size for path in PACKAGED.iterdir()) < 40_000
    assert {load_trace(path)["vllm"] for path in find_traces(PACKAGED)} == {"0.28.0"}


def test_the_engine_itself_agrees_with_each_of_them() -> None:
    assert [path.name for path in find_traces(PACKAGED) if replay_trace(load_trace(path), with_events=True)] == []


def test_they_hold_what_the_notebooks_need() -> None:
    """Both policies, ties, several victims in a step, a victim scheduled before, shared blocks, gates that bind."""
    traces = {name: load_trace(DATA / f"{name}.json.gz") for name in TRACES}
    preempting = {name for name, trace in traces.items() if any(step["preempted"] for step in trace["steps"])}
    assert {traces[name]["config"]["policy"] for name in preempting} == {"fcfs", "priority"}
    assert any(len(step["preempted"]) > 1 for name in preempting for step in traces[name]["steps"])
    assert {trace["config"]["scheduler_reserve_full_isl"] for trace in traces.values()} == {True, False}
    assert any(trace["config"]["watermark"] for trace in traces.values())
    for wrong in (last_of_ties, frees_shared_blocks_entirely):
        assert [name for name in preempting if compare(wrong(), name).finding], wrong.__name__


# --- right pieces


@pytest.mark.parametrize("trace", TRACES)
@pytest.mark.parametrize(
    "piece", [select_victim, preempt, get_num_blocks_to_allocate, free, SameScheduler, SameManager]
)
def test_a_right_piece_agrees_with_vllm_to_the_end(piece: Any, trace: str) -> None:
    verdict = compare(piece, trace)
    assert verdict.finding is None, verdict
    assert verdict.steps == len(load_trace(DATA / f"{trace}.json.gz")["steps"])


def test_a_right_planner_agrees_where_tokens_are_all_that_counts() -> None:
    assert [trace for trace in TRACES if compare(unified_token_plan, trace).finding is None] == [
        "budget_edge-005",
        "chunked_mix-007",
    ]


@pytest.mark.parametrize(
    ("trace", "step", "why"),
    [
        ("max_num_seqs-003", 2, "but max_num_seqs = 2 requests are running: no sequence slot"),
        ("long_prefill-008", 0, "cut to long_prefill_token_threshold 10"),
        ("multi_turn-005", 8, "(8 tokens from the prefix cache)"),
        ("alloc_fail_waiting-001", 2, "but allocate_slots failed: 5 tokens need 2 blocks of 4, free: 0"),
        ("preempt_fcfs-000", 4, "preempted: 1 free blocks were too few"),
    ],
)
def test_a_right_planner_meets_what_else_vllm_looks_at(trace: str, step: int, why: str) -> None:
    verdict = compare(unified_token_plan, trace)
    assert verdict.finding is not None
    assert (verdict.steps, why in verdict.finding.why) == (step, True), verdict


@pytest.mark.parametrize("trace", ["watermark-007", "full_isl_on-006"])
def test_allocate_slots_of_notebook_three_leaves_vllm_where_watermark_or_gate_bind(trace: str) -> None:
    finding = compare(allocate_slots, trace).finding
    assert finding is not None and finding.object == "scheduled requests"
    assert len(finding.actual) > len(finding.expected)  # somebody was let in


def test_allocate_slots_of_notebook_three_agrees_elsewhere() -> None:
    agree = [name for name in TRACES if name not in ("watermark-007", "full_isl_on-006", "edge_priority_tie-002")]
    assert [name for name in agree if compare(allocate_slots, name).finding] == []


def test_the_sentence_says_how_often_the_piece_was_asked() -> None:
    start = "your select_victim against vLLM's trace "
    assert repr(compare(select_victim, "preempt_fcfs-000")) == (
        f"{start}preempt_fcfs-000: all 11 steps as vLLM's; it was asked 2 times."
    )
    assert repr(compare(select_victim, "full_isl_off-001")).endswith("; it was asked 1 time.")
    assert repr(compare(select_victim, "budget_edge-005")).endswith(
        "; it was never asked, so this trace says nothing about it."
    )
    assert repr(compare(SameScheduler, "budget_edge-005")).endswith(": all 7 steps as vLLM's.")


def test_a_trace_of_the_readers_own_is_taken_by_its_path() -> None:
    verdict = compare(select_victim, DATA / "preempt_priority-004.json.gz")
    assert (verdict.finding, verdict.trace) == (None, "preempt_priority-004")


# --- wrong pieces


def oldest() -> Piece:
    return named("select_victim", lambda running, policy: running[0])


def last_of_ties() -> Piece:
    return named("select_victim", lambda running, policy: max(reversed(running), key=lambda r: r.priority))


def lowest_number() -> Piece:
    return named("select_victim", lambda running, policy: min(running, key=lambda r: (r.priority, r.arrival_time)))


def then(change: Callable[[Scheduler, Request], None]) -> Piece:
    def wrong(scheduler: Scheduler, request: Request) -> None:
        preempt(scheduler, request)
        change(scheduler, request)

    return named("preempt", wrong)


def keeps_computed() -> Piece:
    def wrong(scheduler: Scheduler, request: Request) -> None:
        computed = request.num_computed_tokens
        preempt(scheduler, request)
        request.num_computed_tokens = computed

    return named("preempt", wrong)


def to_the_end() -> Piece:
    def move(scheduler: Scheduler, request: Request) -> None:
        scheduler.waiting.remove_requests([request])
        scheduler.waiting.add_request(request)

    return then(move)


def clears_hashes() -> Piece:
    def wrong(scheduler: Scheduler, request: Request) -> None:
        (table,) = scheduler.kv_cache_manager.get_blocks(request.request_id).get_block_ids()
        preempt(scheduler, request)
        scheduler.kv_cache_manager.evict_blocks(table)

    return named("preempt", wrong)


def frees_shared_blocks_entirely() -> Piece:
    def wrong(scheduler: Scheduler, request: Request) -> None:
        for block in scheduler.kv_cache_manager.get_blocks(request.request_id).blocks[0]:
            block.ref_cnt = 1
        preempt(scheduler, request)

    return named("preempt", wrong)


def loses_it() -> Piece:
    return then(lambda scheduler, request: scheduler.waiting.remove_requests([request]))


@pytest.mark.parametrize(
    ("piece", "trace", "told"),
    [
        (
            oldest,
            "preempt_fcfs-000",
            "step 4 object expected (vLLM) actual (yours) why --------- --------------- --------------- * preempted ['r01'] ['r00'] running was ['r00', 'r02', 'r01']: fcfs preempts its tail, the last one admitted",
        ),
        (
            lowest_number,
            "preempt_priority-003",
            "step 4 * preempted ['r02'] ['r00'] running with (priority, arrival) was r02 (1, 0), r00 (-1, 1): the largest pair is preempted, the first of equal ones",
        ),
        (last_of_ties, "edge_priority_tie-002", "step 12 * preempted ['r01'] ['r04'] running with (priority, arrival) was r01 (1, 0), r04 (1, 0):"),
        (keeps_computed, "preempt_fcfs-000", "step 4 * num_computed_tokens of r01 0 2 computed moves by the scheduled tokens, and a preemption sets it to 0"),
        (to_the_end, "preempt_multi-001", "step 4 * waiting after schedule() ['r05', 'r01', 'r03'] ['r03', 'r01', 'r05'] fcfs puts a preempted request in front of waiting"),
        (clears_hashes, "preempt_fcfs-000", "step 4 * blocks with hash 5 after schedule() [7] [] a freed block keeps its hash until somebody takes the block"),
        (frees_shared_blocks_entirely, "preempt_resume_prefix-013", "step 4 * ref count of block 1 after schedule() 1 0 one reference for each table"),
        (loses_it, "preempt_fcfs-000", "step 4 * waiting after schedule() ['r01'] [] fcfs puts a preempted request in front of waiting"),
    ],
)  # fmt: skip
def test_the_first_difference_is_told_with_both_values_and_the_rule(piece: Any, trace: str, told: str) -> None:
    verdict = compare(piece(), trace)
    step, _, row = told.partition(" * ")
    assert (
        verdict.sentence
        == f"your {verdict.yours} against vLLM's trace {trace}: first difference at {' '.join(step.split()[:2])}"
    )
    assert row in text(verdict)


def test_lost_outputs_are_told_at_once() -> None:
    def cut(scheduler: Scheduler, request: Request) -> None:
        del request._all_token_ids[request.num_prompt_tokens :]

    assert repr(compare(then(cut), "preempt_fcfs-000")).endswith(
        "it left 2 of 3 tokens of r01, but prompt and outputs survive a preemption (step 4)."
    )


UNFILLED: Any = ______


@pytest.mark.parametrize(
    ("name", "piece", "told"),
    [
        ("select_victim", lambda running, policy: ______, BLANK),
        ("select_victim", lambda running, policy: running[UNFILLED], BLANK),
        ("select_victim", lambda running, policy: len(running) - 1, "it returned 2, but the victim is one of the requests in running"),
        ("select_victim", lambda running, policy: None, "it returned None, but the victim is one of the requests in running"),
        ("select_victim", lambda running, policy: running[-1].id, "it raised AttributeError: 'Request' object has no attribute 'id'"),
        ("select_victim", lambda running: running[-1], "it raised TypeError: "),
        ("preempt", lambda scheduler, request: UNFILLED(request), BLANK),
        ("preempt", lambda scheduler, request: scheduler.running.remove(request), "it raised ValueError: list.remove(x): x not in list"),
        ("preempt", lambda scheduler, request: setattr(scheduler, "waiting", None), "the engine stopped with "),
        ("unified_token_plan", lambda requests, budget: None, "it returned None, not a tuple of a plan and the budget left"),
        ("unified_token_plan", lambda requests, budget: [{}, budget], "it returned [{}, 64], not a tuple of a plan and the budget left"),
        ("unified_token_plan", lambda requests, budget: ({"A": UNFILLED + 1}, budget), BLANK),
        ("unified_token_plan", lambda requests, budget: requests["id"], "it raised TypeError: list indices must be integers"),
        ("get_num_blocks_to_allocate", lambda num_tokens, *rest: 1.0, "it returned 1.0, not a whole number of blocks"),
        ("allocate_slots", lambda pool, *rest: 5, "it returned 5, not a list of blocks or None"),
        ("allocate_slots", lambda pool, *rest: ______, BLANK),
        ("free", lambda pool, table: table[99], "it raised IndexError: list index out of range"),
    ],
)  # fmt: skip
def test_a_piece_that_is_no_answer_is_told_in_one_sentence(name: str, piece: Piece, told: str) -> None:
    verdict = compare(named(name, piece), "preempt_fcfs-000")
    assert verdict.table is None
    assert repr(verdict).startswith(f"your {name} against vLLM's trace preempt_fcfs-000: {told}")
    assert "\n" not in repr(verdict) and repr(verdict).endswith(f"(step {verdict.steps}).")


@pytest.mark.parametrize(
    ("piece", "object", "expected", "actual"),
    [
        (lambda requests, budget: ({"Z": 1}, budget - 1), "tokens of Z", 0, 1),
        (lambda requests, budget: ({r["id"]: True for r in requests}, budget), "tokens of r01", 12, True),
        (lambda requests, budget: (unified_token_plan(requests, budget)[0], budget), "budget left", 8, 20),
        (lambda requests, budget: (dict(reversed(unified_token_plan(requests, budget)[0].items())), unified_token_plan(requests, budget)[1]), "order of the plan", ["r01", "r02"], ["r02", "r01"]),
    ],
)  # fmt: skip
def test_a_wrong_plan_is_told_by_its_first_wrong_part(piece: Piece, object: str, expected: Any, actual: Any) -> None:
    finding = compare(named("unified_token_plan", piece), "chunked_mix-007").finding
    assert finding is not None
    assert (finding.object, finding.expected, finding.actual) == (object, expected, actual)


def test_a_method_written_as_a_function_takes_its_place() -> None:
    def get_computed_blocks(self: KVCacheManager, request: Request) -> tuple[KVCacheBlocks, int]:
        blocks, num_tokens = self.coordinator.find_longest_cache_hit(request.block_hashes, request.num_tokens)
        return KVCacheBlocks(blocks), num_tokens

    verdict = compare(get_computed_blocks, "evict_lru-001")
    assert "the engine stopped with ValueError: allocate_slots('r02'): num_new_tokens is 0" in repr(verdict)


def test_a_subclass_takes_the_place_of_the_scheduler() -> None:
    class Impatient(Scheduler):
        def _select_victim(self) -> int:
            return 0

    verdict = compare(Impatient, "preempt_fcfs-000")
    assert verdict.sentence == "your Impatient against vLLM's trace preempt_fcfs-000: first difference at step 4"


def test_the_core_is_as_before_when_a_piece_has_been_watched() -> None:
    compare(oldest(), "preempt_fcfs-000")
    assert replay_trace(load_trace(DATA / "preempt_fcfs-000.json.gz"), with_events=True) is None


def test_names_that_fit_nothing_are_told_what_does(tmp_path: Path) -> None:
    with pytest.raises(
        LessonError, match=r"there is no trace 'preempt'; the traces are alloc_fail_waiting-001, .*path"
    ):
        against_vllm(select_victim, "preempt")
    with pytest.raises(
        LessonError, match="no piece of the engine is called 'victim': against_vllm knows unified_token"
    ):
        against_vllm(named("victim", lambda running, policy: running[-1]))
    with pytest.raises(LessonError, match="wants a function, or a subclass of Scheduler or KVCacheManager, not 3"):
        against_vllm(3)
    with pytest.raises(LessonError, match=r"wants a function, .* not ______"):
        against_vllm(______)
    with pytest.raises(LessonError, match="this trace was recorded with caching off"):
        against_vllm(allocate_slots, "edge_priority_tie-002")
    with pytest.raises(LessonError, match="fills one block table, but this trace has 2 KV cache groups"):
        against_vllm(free, DATA / "hybrid_swa-000.json.gz")
    (tmp_path / "no.json").write_text("{}")
    with pytest.raises(TraceError, match=r"is no trace of schema 1"):
        against_vllm(select_victim, tmp_path / "no.json")


def test_a_subclass_that_can_not_be_made_is_told_in_one_sentence() -> None:
    class Broken(Scheduler):
        def __init__(self) -> None:
            raise AssertionError

    with pytest.raises(LessonError, match=r"your Broken\(config\) raised TypeError: "):
        against_vllm(Broken)


def test_against_vllm_shows_the_table_or_the_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    against_vllm(select_victim)
    against_vllm(oldest())
    sentence, title, head, *_ = capsys.readouterr().out.splitlines()
    assert sentence.endswith("all 11 steps as vLLM's; it was asked 2 times.")
    assert title.endswith("first difference at step 4")
    assert head.split() == ["object", "expected", "(vLLM)", "actual", "(yours)", "why"]


# --- a load of the reader's own, watched

SHORTAGE = Load([Arrival("A", prompt=8), Arrival("B", prompt=2), Arrival("C", prompt=14)], budget=32, blocks=8)


@pytest.mark.parametrize("piece", [select_victim, preempt, get_num_blocks_to_allocate, free, SameScheduler])
def test_a_right_piece_is_recorded_as_the_engine_is(piece: Any) -> None:
    own, engines = record_with(piece, SHORTAGE), record(SHORTAGE)
    assert [frame.why for frame in own.frames] == [frame.why for frame in engines.frames]
    assert [frame.blocks for frame in own.frames] == [frame.blocks for frame in engines.frames]


def test_allocate_slots_of_notebook_three_hands_out_the_same_blocks() -> None:
    own, engines = record_with(allocate_slots, SHORTAGE), record(SHORTAGE)
    assert [frame.blocks for frame in own.frames] == [frame.blocks for frame in engines.frames]


def test_another_victim_is_seen_in_the_recording_and_in_its_cost() -> None:
    own = record_with(oldest(), SHORTAGE)
    assert next(frame.preempted for frame in own.frames if frame.preempted) == ("A",)
    assert (cost(own).recomputed, cost(record(SHORTAGE)).recomputed) == (8, 6)


@pytest.mark.parametrize(
    ("piece", "told"),
    [
        (lambda running, policy: 3, "it returned 3, but the victim is one of the requests in running"),
        (lambda running, policy: UNFILLED, BLANK),
    ],
)
def test_a_piece_that_fails_ends_the_recording_with_one_sentence(
    piece: Piece, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    recording = record_with(named("select_victim", piece), SHORTAGE)
    assert capsys.readouterr().out == f"your select_victim stopped the run in step 1: {told}\n"
    assert [frame.index for frame in recording.frames] == [0]


def test_a_load_that_stands_still_ends_the_recording() -> None:
    stuck = Load([Arrival("A", prompt=40)], budget=64, blocks=5)
    assert len(record_with(select_victim, stuck).frames) == 1


def test_a_planner_is_sent_to_run_planner() -> None:
    with pytest.raises(LessonError, match=r"plans beside the engine: run_planner\(unified_token_plan, load\)"):
        record_with(unified_token_plan, SHORTAGE)
