"""Short ways to build requests and schedulers for tests."""

from collections.abc import Iterable

from minivllm.config import CacheConfig, EngineConfig, SchedulerConfig, SpeculativeConfig
from minivllm.core.sched.output import SchedulerOutput
from minivllm.core.sched.scheduler import Scheduler
from minivllm.kv_cache_interface import FullAttentionSpec, KVCacheSpec
from minivllm.observe.invariants import watch
from minivllm.observe.toy_model import DraftRule, ToyModel
from minivllm.request import Request, SamplingParams


def make_scheduler(
    budget: int = 64,
    blocks: int = 32,
    block_size: int = 4,
    *,
    caching: bool = True,
    groups: tuple[KVCacheSpec, ...] = (FullAttentionSpec(),),
    speculative: SpeculativeConfig | None = None,
    **scheduler: int | float | bool | str,
) -> Scheduler:
    """A scheduler whose invariants are watched; ``blocks`` are usable ones, the null block comes on top."""
    config = EngineConfig(
        SchedulerConfig(**{"max_num_batched_tokens": budget, "max_num_seqs": 8, "max_model_len": 256} | scheduler),  # type: ignore[arg-type]
        CacheConfig(block_size, blocks + 1, caching, groups),
        speculative,
    )
    result = Scheduler(config)
    watch(result)
    return result


def make_request(
    request_id: str,
    prompt: int | Iterable[int],
    max_tokens: int = 8,
    *,
    arrival_time: float = 0.0,
    priority: int = 0,
    cache_salt: str | None = None,
    skip_reading_prefix_cache: bool = False,
) -> Request:
    """A request; an int stands for a prompt of that length which no other request shares."""
    tokens = [hash((request_id, i)) % 100_000 for i in range(prompt)] if isinstance(prompt, int) else list(prompt)
    params = SamplingParams(max_tokens=max_tokens, skip_reading_prefix_cache=skip_reading_prefix_cache)
    return Request(request_id, tokens, params, arrival_time=arrival_time, priority=priority, cache_salt=cache_salt)


def add(scheduler: Scheduler, *requests: Request) -> None:
    for request in requests:
        scheduler.add_request(request)


def step(scheduler: Scheduler, model: ToyModel | None = None) -> SchedulerOutput:
    """One whole step: schedule, sample, update, draft."""
    model = model or ToyModel({})
    output = scheduler.schedule()
    sampled = model.sample(scheduler, output)
    scheduler.update_from_output(output, sampled)
    if model.draft_rule is not None:
        scheduler.update_draft_token_ids(model.draft(scheduler, sampled))
    return output


def run(scheduler: Scheduler, draft_rule: DraftRule | None = None, max_steps: int = 500) -> list[SchedulerOutput]:
    """Steps until every request has finished."""
    outputs = []
    while scheduler.has_unfinished_requests():
        outputs.append(step(scheduler, ToyModel({}, draft_rule)))
        assert len(outputs) < max_steps, f"still unfinished after {max_steps} steps: {scheduler.diagnose()}"
    return outputs


def block_ids(scheduler: Scheduler, request_id: str) -> list[int]:
    return scheduler.kv_cache_manager.get_blocks(request_id).get_block_ids()[0]


def ref_counts(scheduler: Scheduler, request_id: str) -> list[int]:
    return [block.ref_cnt for block in scheduler.kv_cache_manager.get_blocks(request_id).blocks[0]]


def free_ids(scheduler: Scheduler) -> list[int]:
    return [block.block_id for block in scheduler.kv_cache_manager.block_pool.free_block_queue.get_all_free_blocks()]
