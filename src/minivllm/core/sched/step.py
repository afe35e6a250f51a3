"""The books of one step: what is decided so far, and what is left of the budget.

In vLLM these are the local variables of Scheduler.schedule (vllm/v1/core/sched/scheduler.py).
"""

from dataclasses import dataclass, field

from minivllm.core.kv_cache_manager import KVCacheBlocks
from minivllm.request import Request


@dataclass(slots=True)
class Step:
    """What one call of schedule() has decided so far.

    Attributes:
        token_budget: tokens that may still be scheduled.
        input_budget: tokens that the model's input has room for, the next request's draft slots already taken off.
        draft_slots: input slots that the drafter adds to each request.
    """

    token_budget: int
    input_budget: int
    draft_slots: int
    running_reqs: list[Request] = field(default_factory=list)
    new_reqs: list[Request] = field(default_factory=list)
    resumed_reqs: list[Request] = field(default_factory=list)
    preempted_req_ids: list[str] = field(default_factory=list)
    num_scheduled_tokens: dict[str, int] = field(default_factory=dict)
    spec_decode_tokens: dict[str, list[int]] = field(default_factory=dict)
    new_blocks: dict[str, KVCacheBlocks] = field(default_factory=dict)
    uncomputed_block_ids: list[int] = field(default_factory=list)

    @property
    def max_num_new_tokens(self) -> int:
        """The most tokens that the next request can get; 0 or less ends the step."""
        token_budget, input_budget = self.token_budget, self.input_budget
        return token_budget if token_budget < input_budget else input_budget

    def charge(self, request_id: str, num_tokens: int) -> None:
        self.num_scheduled_tokens[request_id] = num_tokens
        self.token_budget -= num_tokens
        self.input_budget -= num_tokens + self.draft_slots

    def refund(self, request: Request) -> None:
        """Takes a running request out of the step again."""
        self.running_reqs.remove(request)
        num_tokens = self.num_scheduled_tokens.pop(request.request_id)
        self.token_budget += num_tokens
        self.input_budget += num_tokens + self.draft_slots
        self.new_blocks.pop(request.request_id, None)
        self.spec_decode_tokens.pop(request.request_id, None)
