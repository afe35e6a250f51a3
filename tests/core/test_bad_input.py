"""Bad input gets one sentence that names the field, and the engine goes on as if nothing had been said."""

from collections.abc import Callable
from typing import Any

import pytest

from minivllm.config import CacheConfig, SchedulerConfig, SpeculativeConfig
from minivllm.kv_cache_interface import FullAttentionSpec, SlidingWindowSpec
from minivllm.observe.recorder import Recorder
from minivllm.request import Request, RequestStatus, SamplingParams
from tests.core.engine import add, make_request, make_scheduler, run, step


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CacheConfig(num_gpu_blocks=0), "CacheConfig.num_gpu_blocks is 0"),
        (lambda: CacheConfig(num_gpu_blocks=-3), "CacheConfig.num_gpu_blocks is -3"),
        (lambda: CacheConfig(num_gpu_blocks=8.0), "CacheConfig.num_gpu_blocks is 8.0"),  # type: ignore[arg-type]
        (lambda: CacheConfig(block_size=0), "CacheConfig.block_size is 0"),
        (lambda: CacheConfig(block_size=True), "CacheConfig.block_size is True"),
        (lambda: CacheConfig(enable_prefix_caching=1), "CacheConfig.enable_prefix_caching is 1"),  # type: ignore[arg-type]
        (lambda: CacheConfig(kv_cache_groups=()), "CacheConfig.kv_cache_groups is ()"),
        (lambda: CacheConfig(kv_cache_groups=("full",)), "CacheConfig.kv_cache_groups holds 'full'"),  # type: ignore[arg-type]
        (lambda: CacheConfig(kv_cache_groups=(FullAttentionSpec(), FullAttentionSpec())), "2 groups that are all"),
        (lambda: SlidingWindowSpec(0), "SlidingWindowSpec.sliding_window is 0"),
        (lambda: SchedulerConfig(max_num_batched_tokens=-1), "SchedulerConfig.max_num_batched_tokens is -1"),
        (lambda: SchedulerConfig(max_num_batched_tokens=0), "SchedulerConfig.max_num_batched_tokens is 0"),
        (lambda: SchedulerConfig(max_num_scheduled_tokens=0), "SchedulerConfig.max_num_scheduled_tokens is 0"),
        (lambda: SchedulerConfig(max_num_seqs=0), "SchedulerConfig.max_num_seqs is 0"),
        (lambda: SchedulerConfig(max_model_len=1), "SchedulerConfig.max_model_len is 1"),
        (lambda: SchedulerConfig(long_prefill_token_threshold=-1), "long_prefill_token_threshold is -1"),
        (lambda: SchedulerConfig(policy="lifo"), "SchedulerConfig.policy is 'lifo', but must be one of 'fcfs', 'priority'"),
        (lambda: SchedulerConfig(watermark=1.0), "SchedulerConfig.watermark is 1.0"),
        (lambda: SchedulerConfig(watermark=float("nan")), "SchedulerConfig.watermark is nan"),
        (lambda: SpeculativeConfig("medusa", 2), "SpeculativeConfig.method is 'medusa'"),
        (lambda: SpeculativeConfig("ngram", 0), "SpeculativeConfig.num_speculative_tokens is 0"),
        (lambda: SamplingParams(max_tokens=0), "SamplingParams.max_tokens is 0"),
        (lambda: SamplingParams(max_tokens=4, min_tokens=5), "SamplingParams.min_tokens is 5"),
        (lambda: SamplingParams(stop_token_ids=None), "SamplingParams.stop_token_ids is None, but must be a tuple of token ids"),  # type: ignore[arg-type]
        (lambda: SamplingParams(stop_token_ids=("</s>",)), "SamplingParams.stop_token_ids has '</s>' (str) at position 0"),  # type: ignore[arg-type]
        (lambda: Request("a", [], SamplingParams()), "Request 'a': prompt_token_ids is empty"),
        (lambda: Request("", [1], SamplingParams()), "Request.request_id is ''"),
        (lambda: Request("a", "text", SamplingParams()), "Request 'a': prompt_token_ids is a str"),  # type: ignore[arg-type]
        (lambda: Request("a", [1, 2.0], SamplingParams()), "prompt_token_ids has 2.0 (float) at position 1"),  # type: ignore[list-item]
        (lambda: Request("a", [1, True], SamplingParams()), "prompt_token_ids has True (bool) at position 1"),
        (lambda: Request("a", [1, -2], SamplingParams()), "prompt_token_ids has -2 (int) at position 1"),
        (lambda: Request("a", [1 << 63], SamplingParams()), "prompt_token_ids has 9223372036854775808 (int) at position 0"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_named(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError) as error:
        make()
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def _used_request() -> Request:
    scheduler = make_scheduler()
    request = make_request("used", 5)
    add(scheduler, request)
    run(scheduler)
    return request


@pytest.mark.parametrize(
    ("misuse", "message"),
    [
        (lambda s, out: s.add_request(make_request("a", 3)), "Request 'a' is in the scheduler already"),
        (lambda s, out: s.add_request(make_request("c", 256)), "at most max_model_len - 1 = 255 leave room"),
        (lambda s, out: s.add_request(make_request("c", 300)), "Request 'c': prompt_token_ids holds 300 tokens"),
        (lambda s, out: s.add_request(_used_request()), "Request 'used' was scheduled before"),
        (lambda s, out: s.finish_requests("nobody", RequestStatus.FINISHED_ABORTED), "Request 'nobody' is not in the scheduler"),
        (lambda s, out: s.finish_requests(["a", "nobody"], RequestStatus.FINISHED_ABORTED), "Request 'nobody' is not in"),
        (lambda s, out: s.finish_requests("a", RequestStatus.WAITING), "finished_status is WAITING"),
        (lambda s, out: s.update_from_output(out, {"a": [1]}), "request 'b' has no entry"),
        (lambda s, out: s.update_from_output(out, {"a": [1], "b": [1], "z": [1]}), "request 'z' has an entry, but was not scheduled"),
        (lambda s, out: s.update_from_output(out, {"a": [1], "b": ["x"]}), "request 'b' has 'x' (str) at position 0"),
        (lambda s, out: s.update_from_output(out, {"a": [1], "b": [1, 2]}), "request 'b' has 2 tokens, but this step gives one"),
        (lambda s, out: s.update_from_output(out, {"a": [1], "b": []}), "request 'b' has 0 tokens, but this step gives one"),
        (lambda s, out: s.update_draft_token_ids({"a": [1]}), "request 'a' has 1 drafts, but at most num_speculative_tokens = 0"),
        (lambda s, out: s.kv_cache_manager.allocate_slots(s.requests["a"], 0), "allocate_slots('a'): num_new_tokens is 0"),
    ],
)  # fmt: skip
def test_misuse_is_named_and_harms_nothing(misuse: Callable[[Any, Any], Any], message: str) -> None:
    scheduler = make_scheduler()
    a, b = make_request("a", 5), make_request("b", 6)
    add(scheduler, a, b)
    output = scheduler.schedule()
    recorder = Recorder(scheduler)
    before = recorder.state()
    with pytest.raises(ValueError) as error:
        misuse(scheduler, output)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert recorder.state() == before
    assert (a.num_output_tokens, b.num_output_tokens) == (0, 0)
    scheduler.update_from_output(output, {"a": [1], "b": [2]})
    run(scheduler)
    assert (a.num_output_tokens, b.num_output_tokens) == (8, 8)


def test_a_token_for_a_chunk_amid_the_prompt_is_refused() -> None:
    scheduler = make_scheduler(budget=4)
    add(scheduler, make_request("a", 9))
    output = scheduler.schedule()
    with pytest.raises(ValueError, match=r"request 'a' has 1 tokens, but this step gives none: its last known token"):
        scheduler.update_from_output(output, {"a": [1]})


def test_a_prompt_that_never_fits_blocks_the_queue_and_is_named() -> None:
    scheduler = make_scheduler(blocks=4)
    add(scheduler, make_request("big", 20), make_request("small", 2), make_request("tiny", 1))
    assert step(scheduler).num_scheduled_tokens == {}
    assert scheduler.diagnose() == (
        "Request 'big' waits at the head of the queue for ever, and the 2 behind it wait with it: its 20 tokens need 5 blocks "
        "and the pool has 4 besides the null block; abort it, or raise CacheConfig.num_gpu_blocks."
    )
    scheduler.finish_requests("big", RequestStatus.FINISHED_ABORTED)
    assert scheduler.diagnose() is None
    assert step(scheduler).num_scheduled_tokens == {"small": 2, "tiny": 1}


def test_a_prompt_that_outgrew_the_pool_is_named_when_it_waits_behind_itself() -> None:
    scheduler = make_scheduler(blocks=3, scheduler_reserve_full_isl=False)
    add(scheduler, make_request("a", 10, max_tokens=20))
    while not step(scheduler).preempted_req_ids:
        assert scheduler.diagnose() is None
    assert "its 13 tokens need 4 blocks and the pool has 3" in str(scheduler.diagnose())


def test_a_prompt_whose_lookahead_slots_never_fit_is_named_although_it_is_admitted_again_and_again() -> None:
    scheduler = make_scheduler(budget=8, blocks=4, caching=False, speculative=SpeculativeConfig("draft_model", 3))
    add(scheduler, make_request("a", 14))
    outputs = [step(scheduler) for _ in range(12)]
    assert [output.preempted_req_ids for output in outputs].count(["a"]) >= 3
    scheduler.finish_requests("a", RequestStatus.FINISHED_ABORTED)
    add(scheduler, make_request("b", 14))
    assert "its 14 tokens and 3 lookahead slots need 5 blocks and the pool has 4" in str(scheduler.diagnose())


def test_a_prompt_over_the_budget_is_named_when_chunking_is_off() -> None:
    scheduler = make_scheduler(budget=8, enable_chunked_prefill=False)
    add(scheduler, make_request("a", 9))
    assert step(scheduler).num_scheduled_tokens == {}
    assert "its 9 tokens have to fit one step, whose budget is 8, because enable_chunked_prefill is off" in str(
        scheduler.diagnose()
    )


def test_a_request_whose_min_tokens_lie_beyond_max_model_len_is_named_and_others_go_on() -> None:
    scheduler = make_scheduler(max_model_len=9)
    stuck = Request("stuck", [1] * 8, SamplingParams(max_tokens=4, min_tokens=2))
    add(scheduler, stuck)
    step(scheduler)
    assert scheduler.diagnose() == (
        "Request 'stuck' stays in running for ever: at max_model_len = 9 it has 1 output tokens, and below min_tokens = 2 "
        "nothing ends it; abort it, or lower SamplingParams.min_tokens."
    )
    add(scheduler, make_request("other", 3))
    assert step(scheduler).num_scheduled_tokens == {"other": 3}


def test_a_queue_that_moves_has_no_diagnosis() -> None:
    scheduler = make_scheduler(blocks=4)
    assert scheduler.diagnose() is None
    add(scheduler, make_request("a", 12), make_request("b", 12))
    step(scheduler)
    assert [request.request_id for request in scheduler.waiting] == ["b"]
    assert scheduler.diagnose() is None
