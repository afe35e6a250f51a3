"""The mapping to vLLM's source: right forms are accepted, a wrong one is told what it points at."""

from __future__ import annotations

from typing import Any

import pytest

from autograder.judging.parts import Report, grade
from autograder.judging.reference import scheduler_regions
from autograder.judging.reference.source_mapping import COMMIT, PARTS
from minivllm.lesson.outcome import ______, door

PERMALINK = f"https://github.com/vllm-project/vllm/blob/{COMMIT}/vllm/v1/core/sched/scheduler.py"
RIGHT = {
    "progress_counter": "Request.num_computed_tokens",
    "running_charge": "vllm/v1/core/sched/scheduler.py#L699-L701",
    "waiting_charge": "vllm/v1/core/sched/scheduler.py#L1132-L1134",
    "other_gate": "KV blocks: allocate_slots returns None when the pool has too few free blocks",
}


def graded(mapping: Any) -> Report:
    return grade(PARTS, door({"source_mapping": mapping}))


def test_four_quarters_make_the_point() -> None:
    assert [part.points for part in PARTS] == [0.25] * 4
    assert graded(RIGHT) == Report(dict.fromkeys(RIGHT, 0.25), [])


@pytest.mark.parametrize(
    ("key", "text"),
    [
        *(
            ("progress_counter", text)
            for text in (
                "`Request.num_computed_tokens`",
                "request.num_computed_tokens",
                "vllm.v1.request.Request.num_computed_tokens",
                "vllm/v1/request.py::Request.num_computed_tokens",
                "Request::num_computed_tokens",
                "Request.num_computed_tokens (advanced by Scheduler._update_after_schedule)",
                "num_computed_tokens of the Request object",
                "Request 对象的 num_computed_tokens 字段",
                "每个请求自己的 num_computed_tokens",
                "self.requests[req_id].num_computed_tokens",
            )
        ),
        *(
            ("running_charge", text)
            for text in (
                f"{PERMALINK}#L700",
                f"{PERMALINK}#L694-L702",
                "https://github.com/vllm-project/vllm/blob/v0.28.0/vllm/v1/core/sched/scheduler.py#L699-L701",
                "https://github.com/vllm-project/vllm/blob/2cf0a69/vllm/v1/core/sched/scheduler.py#L700-L701",
                "scheduler.py#L700",
                "scheduler.py#L701",
                "sched/scheduler.py:700",
                "scheduler.py L699-701",
                "L699-L701",
                "v0.28.0 L700",
                "`scheduler.py#L700`",
                "scheduler.py 第 700 行",
                "scheduler.py#L699–L701",
            )
        ),
        *(
            ("waiting_charge", text)
            for text in (
                f"{PERMALINK}#L1133",
                "scheduler.py#L1133-L1134",
                "L1127-L1136",
                "scheduler.py:1133",
                "scheduler.py#L1134",
            )
        ),
        *(
            ("other_gate", text)
            for text in (
                "max_num_seqs",
                "len(self.running) must stay below max_num_seqs",
                "free KV blocks",
                "KV cache blocks: allocate_slots must not return None",
                "allocate_slots(request, num_new_tokens) finds blocks",
                "the watermark",
                "scheduler_reserve_full_isl: blocks for min(num_tokens, max_model_len) tokens must be free",
                "encoder compute budget / encoder cache",
                "max_loras",
                "the request's status is WAITING_FOR_REMOTE_KVS",
                "a grammar that is still compiling",
                "no request was preempted in this step (preempted_reqs is empty)",
                "the scheduler is not paused",
                "there isn't a free sequence slot",
                "besides the token budget, there must be free blocks",
                "not the token_budget but the number of running requests",
                "KV 块数：allocate_slots 失败就不准入",
                "空闲块不足",
                "显存水位线 watermark",
                "除了 token 预算，还要看 max_num_seqs",
                "即使 token 预算还有剩余，KV 块不够也不能准入",
                "运行请求数达到上限",
                "并发序列数上限",
                "LoRA 数量上限",
                "本步发生过抢占就不再准入",
                "编码器预算",
                "调度器被暂停",
                "等待语法编译（阻塞状态）",
            )
        ),
    ],
)
def test_several_right_forms_are_accepted(key: str, text: str) -> None:
    assert graded(RIGHT | {key: text}).messages == []


@pytest.mark.parametrize(
    ("key", "text", "says"),
    [
        ("progress_counter", "num_computed_tokens", "the object that owns it is not named"),
        ("progress_counter", "Scheduler.num_computed_tokens", "Scheduler does not own it"),
        ("progress_counter", "KVCacheManager.num_computed_tokens", "KVCacheManager does not own it"),
        ("progress_counter", "the Scheduler's num_computed_tokens", "Scheduler does not own it"),
        ("progress_counter", "SchedulerOutput.num_scheduled_tokens", "the share of one step"),
        ("progress_counter", "Request.num_tokens_with_spec", "where a request has to get to"),
        ("progress_counter", "Scheduler.token_budget", "the budget belongs to a step"),
        ("progress_counter", "Request.num_computed", "the planner reads this number as computed"),
        ("running_charge", "scheduler.py#L1133", "L1133, which is the WAITING loop charging the budget"),
        ("running_charge", "scheduler.py#L558-L562", "the RUNNING loop's gap"),
        ("running_charge", "scheduler.py#L565", "the RUNNING loop's cuts of the gap"),
        ("running_charge", "scheduler.py#L496", "the budgets of this step being set"),
        ("running_charge", "scheduler.py#L662", "the refund"),
        ("running_charge", "scheduler.py#L730", "the encoder budget and cache, not of the token budget"),
        ("running_charge", "scheduler.py#L654", "the choice of a preemption victim"),
        ("running_charge", "scheduler.py#L694-L735", "42 lines are too many"),
        ("running_charge", "scheduler.py#L1-L3003", "a range from the imports to"),
        ("running_charge", "scheduler.py#L9999", "no line of the file, which has 3003"),
        ("running_charge", "vllm/config/scheduler.py#L700", "the file vllm/config/scheduler.py"),
        (
            "running_charge",
            "vllm/v1/core/kv_cache_manager.py#L700",
            "the budget is charged in vllm/v1/core/sched/scheduler.py",
        ),
        (
            "running_charge",
            f"{PERMALINK.replace(COMMIT, '8e958902eee56ca5158728f1dd5a32246f0246f3')}#L700",
            "those of v0.28.0",
        ),
        ("running_charge", f"{PERMALINK.replace(COMMIT, 'main')}#L700", "a link to main"),
        ("running_charge", PERMALINK, "no line is named"),
        ("running_charge", "the RUNNING loop", "no line is named"),
        ("waiting_charge", "scheduler.py#L700", "L700, which is the RUNNING loop charging the budget"),
        ("waiting_charge", "scheduler.py#L1101", "an async load, which costs no token"),
        ("waiting_charge", "scheduler.py#L1379", "advances num_computed_tokens"),
        ("waiting_charge", "scheduler.py#L1171-L1173", "final assertions"),
        ("waiting_charge", "scheduler.py#L927-L932", "read from the budget but not yet charged"),
        ("other_gate", "token_budget", "token_budget counts tokens"),
        ("other_gate", "max_num_batched_tokens", "max_num_batched_tokens counts tokens"),
        ("other_gate", "long_prefill_token_threshold", "long_prefill_token_threshold counts tokens"),
        ("other_gate", "max_model_len", "max_model_len counts tokens"),
        ("other_gate", "chunked prefill is disabled", "chunked prefill counts tokens"),
        ("other_gate", "the token budget, not the KV blocks", "token budget counts tokens"),
        ("other_gate", "a request that exceeds the token budget blocks the queue", "token budget counts tokens"),
        ("other_gate", "token 预算", "token 预算 counts tokens"),
        ("other_gate", "是 token 预算，而不是 KV 块", "token 预算 counts tokens"),
        ("other_gate", "模型长度", "模型长度 counts tokens"),
        ("other_gate", "the weather", "no gate of the WAITING loop is named"),
        ("other_gate", "it blocks everyone behind it", "no gate of the WAITING loop is named"),
    ],
)
def test_a_wrong_entry_costs_its_quarter_and_is_told_why(key: str, text: str, says: str) -> None:
    report = graded(RIGHT | {key: text})
    assert {name for name, points in report.parts.items() if points == 0} == {key}
    [message] = report.messages
    assert says in message and message.startswith(f"source_mapping[{key!r}]")
    assert "L700" not in message or "L700" in text, "the message gives the answer away"


@pytest.mark.parametrize(
    ("key", "text"),
    [
        *(
            ("progress_counter", text)
            for text in (
                "the scheduler or the block pool or the request or the KV cache manager: num_computed_tokens",
                "Request.num_computed_tokens or Scheduler.num_computed_tokens",
                "Scheduler.num_computed_tokens / Request.num_computed_tokens",
                "num_computed_tokens of the scheduler or the request",
                "Request.num_computed_tokens, Scheduler.token_budget, BlockPool.free_blocks",
                "Request.num_computed_tokens; Request.num_tokens",
                "Scheduler、BlockPool 或 Request 的 num_computed_tokens",
                "Request 和 Scheduler 的 num_computed_tokens",
                "either Request.num_computed_tokens or SchedulerOutput.num_scheduled_tokens",
            )
        ),
        *(
            (key, text)
            for key in ("running_charge", "waiting_charge")
            for text in ("L700 or L1133", "scheduler.py#L699-L701, L1132-L1134", "第 700 行或第 1133 行", "700、1133")
        ),
        *(
            ("other_gate", text)
            for text in (
                "the scheduler or the block pool or the request or the KV cache manager or the model runner",
                "KV blocks or the token budget",
                "block pool, token budget, request, engine",
                "max_num_seqs/max_num_batched_tokens/blocks",
                "blocks or max_num_seqs or watermark or encoder or LoRA",
                "blocks, max_num_seqs, watermark, encoder, LoRA, pause",
                "块池、调度器、请求",
                "KV 块或 token 预算",
                "水位线、序列数上限、token 预算",
            )
        ),
    ],
)
def test_what_is_offered_to_choose_from_earns_nothing_and_is_told_to_name_one(key: str, text: str) -> None:
    report = graded(RIGHT | {key: text})
    assert report.parts[key] == 0
    [message] = report.messages
    assert "name one" in message


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (
            "progress_counter",
            "Request.num_computed_tokens, which the Scheduler advances and update_from_output takes back",
        ),
        ("progress_counter", "Request.num_computed_tokens (not Scheduler.token_budget)"),
        ("progress_counter", "vllm/v1/request.py: Request.num_computed_tokens"),
        ("progress_counter", "Scheduler.requests[id] -> Request.num_computed_tokens"),
        ("other_gate", "max_num_seqs and free KV blocks"),
        ("other_gate", "len(self.running) < max_num_seqs and token_budget > 0"),
        ("other_gate", "allocate_slots returns None, the loop breaks, and the request stays in waiting"),
        ("other_gate", "the block pool has no free block and the request waits"),
        ("other_gate", "KV blocks: the pool may be short of them while token budget is left"),
        ("other_gate", "encoder compute budget or encoder cache"),
        ("other_gate", "空闲块不足或序列数达到上限"),
        ("other_gate", "LoRA 和序列数上限"),
    ],
)
def test_a_sentence_about_one_thing_is_no_choice(key: str, text: str) -> None:
    assert graded(RIGHT | {key: text}).messages == []


@pytest.mark.parametrize(
    ("mapping", "says"),
    [
        (dict.fromkeys(RIGHT, ______), "is not filled in"),
        (dict.fromkeys(RIGHT, ""), "is not filled in"),
        (dict.fromkeys(RIGHT, 700), "is not filled in"),
        ({}, "is missing"),
        ("scheduler.py#L700", "is missing"),
        (______, "could not be read"),
    ],
)
def test_a_mapping_without_answers_has_no_points(mapping: Any, says: str) -> None:
    report = graded(mapping)
    assert report.points == 0
    assert says in report.messages[0]


def test_no_mapping_at_all_is_said_once() -> None:
    report = grade(PARTS, door({}))
    assert report.messages == [
        "source_mapping is not defined: expected a dict of that name, found none; keep the exercise's name"
    ]


def test_every_line_of_the_file_has_a_region() -> None:
    regions = scheduler_regions.regions(1, scheduler_regions.LAST_LINE)
    assert len(regions) == len({scheduler_regions.region(line) for line in range(1, scheduler_regions.LAST_LINE + 1)})
    assert {scheduler_regions.region(line) for line in scheduler_regions.RUNNING_CHARGE} == {
        "the RUNNING loop charging the budget"
    }
    assert {scheduler_regions.region(line) for line in scheduler_regions.WAITING_CHARGE} == {
        "the WAITING loop charging the budget"
    }
