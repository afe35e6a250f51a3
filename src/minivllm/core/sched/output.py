"""What a step was decided to be, and what came out of it.

Mirrors vllm/v1/core/sched/output.py (NewRequestData, CachedRequestData, SchedulerOutput) and EngineCoreOutput of
vllm/v1/engine/__init__.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from minivllm.request import SamplingParams


@dataclass(slots=True)
class NewRequestData:
    """A request that the model runner has not seen, or has forgotten.

    Attributes:
        token_ids: prompt and, after a preemption, the output so far.
        num_prompt_tokens: how many of them are the prompt.
        block_ids: the whole block table of each group.
        num_computed_tokens: the prefix hit in tokens.
    """

    req_id: str
    token_ids: Sequence[int]
    num_prompt_tokens: int
    sampling_params: SamplingParams
    block_ids: tuple[list[int], ...]
    num_computed_tokens: int


@dataclass(slots=True)
class CachedRequestData:
    """The requests that ran before: three lists, one entry a request.

    Attributes:
        new_block_ids: block ids to append in each group; None for none.
        num_computed_tokens: tokens computed before this step.
    """

    req_ids: list[str]
    new_block_ids: list[tuple[list[int], ...] | None]
    num_computed_tokens: list[int]


@dataclass(slots=True)
class SchedulerOutput:
    """One step: who computes how many tokens, and into which blocks.

    Attributes:
        scheduled_new_reqs: requests admitted for the first time in this step.
        scheduled_resumed_reqs: requests admitted again after a preemption (in vLLM a part of scheduled_cached_reqs).
        scheduled_cached_reqs: requests that were RUNNING before this step.
        num_scheduled_tokens: tokens to compute, draft tokens included, in schedule order.
        total_num_scheduled_tokens: their sum; at most the token budget.
        scheduled_spec_decode_tokens: draft tokens to verify; -1 pads a newcomer to the length of the others.
        preempted_req_ids: in the order of preemption.
        finished_req_ids: finished or aborted since the step before; reported once.
        uncomputed_block_ids: blocks of victims that this step had scheduled before it preempted them. Their hashes may
            be filed, but nobody computes them; vLLM leaves it at that, the engine here takes them out of the cache.
    """

    scheduled_new_reqs: list[NewRequestData]
    scheduled_resumed_reqs: list[NewRequestData]
    scheduled_cached_reqs: CachedRequestData
    num_scheduled_tokens: dict[str, int]
    total_num_scheduled_tokens: int
    scheduled_spec_decode_tokens: dict[str, list[int]]
    preempted_req_ids: list[str]
    finished_req_ids: set[str]
    uncomputed_block_ids: list[int]


@dataclass(slots=True)
class EngineCoreOutput:
    """What one request got out of one step.

    Attributes:
        new_token_ids: tokens that now belong to the output.
        finish_reason: "stop" or "length" if the last of them ended the request.
    """

    request_id: str
    new_token_ids: list[int]
    finish_reason: str | None = None
