"""A model whose every token is known beforehand, so that a schedule can be watched and repeated without weights.

The formulas are those of the recorded traces; see ``docs/traces.md``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from minivllm.core.sched.output import SchedulerOutput
from minivllm.core.sched.scheduler import Scheduler


def sample_token(seed: int, position: int) -> int:
    """The token at a 0-based position of a sequence."""
    return 1000 + (seed * 31 + position * 7) % 997


@dataclass(frozen=True)
class DraftRule:
    """How many drafts the toy proposes and how many of them are right.

    Attributes:
        k: drafts at most.
        accept: "all" are right, "none" is, or as many as the request's seed and length say ("var").
        draft_len: always ``k`` drafts ("k"), or as many as the seed and length say ("var").
    """

    k: int
    accept: Literal["all", "none", "var"] = "var"
    draft_len: Literal["k", "var"] = "k"

    def propose(self, seed: int, num_tokens: int) -> list[int]:
        """Drafts for a request that holds ``num_tokens`` tokens."""
        length = self.k if self.draft_len == "k" else (seed + num_tokens) % (self.k + 1)
        num_right = {"all": self.k, "none": 0}.get(self.accept, (seed * 13 + num_tokens * 5) % (self.k + 1))
        return [sample_token(seed, num_tokens + i) + (i >= num_right) for i in range(length)]


@dataclass
class ToyModel:
    """Samples and drafts for every scheduled request.

    Args:
        seeds: a number for each request id; requests with equal seeds write equal outputs. An id that is missing has 0.
        draft_rule: how drafts are proposed; None for none.
    """

    seeds: dict[str, int]
    draft_rule: DraftRule | None = None

    def sample(self, scheduler: Scheduler, output: SchedulerOutput) -> dict[str, list[int]]:
        """What ``Scheduler.update_from_output`` takes: accepted drafts and one more token, or none amid a prompt."""
        sampled: dict[str, list[int]] = {}
        for request_id in output.num_scheduled_tokens:
            request = scheduler.requests.get(request_id)
            if request is None or request.num_computed_tokens < request.num_tokens:
                sampled[request_id] = []
                continue
            drafts = output.scheduled_spec_decode_tokens.get(request_id, [])
            sampled[request_id] = self._verify(self.seeds.get(request_id, 0), request.num_tokens, drafts)
        return sampled

    @staticmethod
    def _verify(seed: int, num_tokens: int, drafts: Sequence[int]) -> list[int]:
        tokens = []
        for i, draft in enumerate(drafts):
            tokens.append(sample_token(seed, num_tokens + i))
            if draft != tokens[-1]:
                return tokens
        return [*tokens, sample_token(seed, num_tokens + len(drafts))]

    def draft(self, scheduler: Scheduler, sampled: dict[str, list[int]]) -> dict[str, list[int]]:
        """What ``Scheduler.update_draft_token_ids`` takes: drafts for those that got a token and still run."""
        if self.draft_rule is None:
            return {}
        return {
            request_id: self.draft_rule.propose(
                self.seeds.get(request_id, 0), scheduler.requests[request_id].num_tokens
            )
            for request_id, token_ids in sampled.items()
            if token_ids and request_id in scheduler.requests
        }
