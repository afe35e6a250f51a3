"""Why a request stands still for ever: said aloud here, while vLLM just waits."""

from minivllm.config import EngineConfig
from minivllm.core.kv_cache_manager import KVCacheManager
from minivllm.request import Request


def diagnose_running(request: Request, max_model_len: int) -> str | None:
    """Why a running request will get no more tokens though it has not finished; None if it will."""
    min_tokens = request.sampling_params.min_tokens
    if request.num_tokens < max_model_len or request.num_output_tokens >= min_tokens:
        return None
    return (
        f"Request {request.request_id!r} stays in running for ever: at max_model_len = {max_model_len} it has "
        f"{request.num_output_tokens} output tokens, and below min_tokens = {min_tokens} nothing ends it; abort it, or "
        "lower SamplingParams.min_tokens."
    )


def diagnose_waiting(
    request: Request, num_behind: int, config: EngineConfig, kv_cache_manager: KVCacheManager
) -> str | None:
    """Why the head of ``waiting``, with ``num_behind`` others behind it, can never be admitted; None if it can."""
    num_lookahead_tokens = config.speculative.num_lookahead_tokens if config.speculative else 0
    num_blocks = kv_cache_manager.get_num_blocks_needed_at_once(request, num_lookahead_tokens)
    usable = config.cache.num_gpu_blocks - 1
    num_new_tokens = request.num_tokens - kv_cache_manager.get_computed_blocks(request)[1]
    budget = config.max_num_scheduled_tokens
    if num_blocks > usable:
        lookahead = f" and {num_lookahead_tokens} lookahead slots" if num_lookahead_tokens else ""
        cause = (
            f"its {request.num_tokens} tokens{lookahead} need {num_blocks} blocks and the pool has {usable} besides "
            "the null block; abort it, or raise CacheConfig.num_gpu_blocks"
        )
    elif num_new_tokens > budget and not config.scheduler.enable_chunked_prefill:
        cause = (
            f"its {num_new_tokens} tokens have to fit one step, whose budget is {budget}, because "
            "enable_chunked_prefill is off; abort it, turn chunking on, or raise SchedulerConfig.max_num_batched_tokens"
        )
    else:
        return None
    others = f", and the {num_behind} behind it wait with it" if num_behind else ""
    return f"Request {request.request_id!r} waits at the head of the queue for ever{others}: {cause}."
