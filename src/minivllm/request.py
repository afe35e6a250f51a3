"""A request and its counters.

Mirrors vllm/v1/request.py (Request, RequestStatus) and vllm/sampling_params.py (SamplingParams).
"""

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NewType, Protocol

BlockHash = NewType("BlockHash", bytes)
"""The hash of a full block and of everything before it (vllm/v1/core/kv_cache_utils.py, BlockHash)."""


class RequestStatus(enum.IntEnum):
    """Where a request stands; everything after PREEMPTED is finished."""

    WAITING = enum.auto()
    RUNNING = enum.auto()
    PREEMPTED = enum.auto()
    FINISHED_STOPPED = enum.auto()
    FINISHED_LENGTH_CAPPED = enum.auto()
    FINISHED_ABORTED = enum.auto()

    @property
    def is_finished(self) -> bool:
        return self > RequestStatus.PREEMPTED

    @property
    def finish_reason(self) -> str | None:
        """Why it ended ("stop", "length", "abort"); None while it has not."""
        return _FINISH_REASONS.get(self)


_FINISH_REASONS = {
    RequestStatus.FINISHED_STOPPED: "stop",
    RequestStatus.FINISHED_LENGTH_CAPPED: "length",
    RequestStatus.FINISHED_ABORTED: "abort",
}


def check_token_ids(owner: str, token_ids: Sequence[int]) -> None:
    """Raises ValueError, with ``owner`` as its subject, unless every token id is an int from 0 to 2**63 - 1."""
    if not token_ids or (set(map(type, token_ids)) == {int} and 0 <= min(token_ids) and max(token_ids) < 1 << 63):
        return
    for position, token_id in enumerate(token_ids):
        if type(token_id) is not int or not 0 <= token_id < 1 << 63:
            raise ValueError(
                f"{owner} has {token_id!r} ({type(token_id).__name__}) at position {position}, but a token id is an "
                "int of at least 0: encode the text with a tokenizer, and convert array elements with int()."
            )


@dataclass(frozen=True)
class SamplingParams:
    """How tokens are chosen and when an answer ends (vllm/sampling_params.py, SamplingParams).

    The scheduler reads when it ends and whether the cache may be read, the sampler reads the rest.

    Attributes:
        max_tokens: output tokens at most.
        min_tokens: output tokens before which nothing ends the request.
        stop_token_ids: tokens that end the request; the token itself is part of the output.
        ignore_eos: go on behind the model's own end-of-sequence token.
        skip_reading_prefix_cache: True recomputes the whole prompt (its blocks still enter the cache).
        temperature: 0.0 takes the likeliest token (greedy); 1.0 samples from the model's own distribution.
        top_k: only the k likeliest tokens may be chosen; 0 is all.
        top_p: only the likeliest tokens that together have this probability may be chosen.
        min_p: only tokens with this share of the likeliest token's probability may be chosen.
        seed: makes the choice repeatable, whatever else is in the batch; None draws one.
        logprobs: how many of the likeliest tokens are reported with their log-probabilities; None for none.

    Raises:
        ValueError: a field has a wrong type or lies outside its range; the message names it.
    """

    max_tokens: int = 16
    min_tokens: int = 0
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    skip_reading_prefix_cache: bool = False
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int | None = None
    logprobs: int | None = None

    def __post_init__(self) -> None:
        self._check("max_tokens", _is_int(self.max_tokens, 1), "must be an int of at least 1: there has to be a token")
        limit = f"must be an int from 0 to max_tokens ({self.max_tokens})"
        self._check("min_tokens", _is_int(self.min_tokens, 0) and self.min_tokens <= self.max_tokens, limit)
        self._check("stop_token_ids", isinstance(self.stop_token_ids, tuple | list), "must be a tuple of token ids")
        check_token_ids("SamplingParams.stop_token_ids", self.stop_token_ids)
        self._check("temperature", _is_number(self.temperature, 0.0, 100.0), "must be from 0.0 (greedy) to 100.0")
        self._check("top_k", _is_int(self.top_k, 0), "must be an int of at least 0, and 0 is all tokens")
        self._check("top_p", self.top_p != 0 and _is_number(self.top_p, 0.0, 1.0), "must be over 0.0 and at most 1.0")
        self._check("min_p", _is_number(self.min_p, 0.0, 1.0), "must be from 0.0 to 1.0")
        self._check("seed", self.seed is None or _is_int(self.seed, 0), "must be an int of at least 0, or None")
        self._check("logprobs", self.logprobs is None or _is_int(self.logprobs, 0), "must be an int of at least 0")

    def _check(self, name: str, is_valid: bool, rule: str) -> None:
        if not is_valid:
            raise ValueError(f"SamplingParams.{name} is {getattr(self, name)!r}, but {rule}.")


def _is_int(value: object, minimum: int) -> bool:
    return type(value) is int and value >= minimum


def _is_number(value: object, minimum: float, maximum: float) -> bool:
    return type(value) in (int, float) and minimum <= value <= maximum  # type: ignore[operator]


class BlockHasher(Protocol):
    """Gives the hashes of those full blocks of a request that ``block_hashes`` does not hold yet."""

    block_size: int

    def __call__(self, request: "Request") -> list[BlockHash]: ...


class Request:
    """One prompt and what has become of it.

    The Request owns its token list and its counters; queues belong to the Scheduler, blocks to the BlockPool.

    Args:
        request_id: a name that no other unfinished request has.
        prompt_token_ids: at least one token id (int).
        sampling_params: when the answer ends.
        arrival_time: seconds on any clock; used by the priority policy alone.
        priority: used by the priority policy alone; smaller goes first.
        cache_salt: requests share prefix blocks only with requests of the same salt.

    Attributes:
        num_computed_tokens: tokens whose KV is in the cache, or will be once the scheduled step has run.
        spec_token_ids: draft tokens for the next step, not part of ``num_tokens``.
        block_hashes: one hash for every full block of ``all_token_ids``; kept through a preemption.
        is_prefill_chunk: whether the last step left known tokens uncomputed.

    Raises:
        ValueError: an empty id, an empty prompt or a token that is no int.
    """

    __slots__ = (
        "_all_token_ids", "_block_hasher", "_num_tokens_of_next_hash", "arrival_time", "block_hashes", "cache_salt",
        "is_prefill_chunk", "num_computed_tokens", "num_preemptions", "num_prompt_tokens", "priority", "request_id",
        "sampling_params", "spec_token_ids", "status",
    )  # fmt: skip

    def __init__(
        self,
        request_id: str,
        prompt_token_ids: Sequence[int],
        sampling_params: SamplingParams,
        *,
        arrival_time: float = 0.0,
        priority: int = 0,
        cache_salt: str | None = None,
    ) -> None:
        if not isinstance(request_id, str) or not request_id:
            raise ValueError(f"Request.request_id is {request_id!r}, but must be a string that is not empty.")
        if isinstance(prompt_token_ids, str | bytes) or not isinstance(prompt_token_ids, Iterable):
            raise ValueError(
                f"Request {request_id!r}: prompt_token_ids is a {type(prompt_token_ids).__name__}, but must be a "
                "sequence of token ids: encode the text with a tokenizer."
            )
        token_ids = list(prompt_token_ids)
        if not token_ids:
            raise ValueError(
                f"Request {request_id!r}: prompt_token_ids is empty, but the model needs at least one token to "
                "predict the next one from."
            )
        check_token_ids(f"Request {request_id!r}: prompt_token_ids", token_ids)
        self.request_id = request_id
        self.sampling_params = sampling_params
        self.arrival_time = arrival_time
        self.priority = priority
        self.cache_salt = cache_salt
        self.status = RequestStatus.WAITING
        self.num_prompt_tokens = len(token_ids)
        self._all_token_ids = token_ids
        self.spec_token_ids: list[int] = []
        self.num_computed_tokens = 0
        self.num_preemptions = 0
        self.is_prefill_chunk = False
        self.block_hashes: list[BlockHash] = []
        self._block_hasher: BlockHasher | None = None
        self._num_tokens_of_next_hash = -1

    @property
    def all_token_ids(self) -> Sequence[int]:
        """Prompt and output; to be read, not changed."""
        return self._all_token_ids

    @property
    def prompt_token_ids(self) -> list[int]:
        return self._all_token_ids[: self.num_prompt_tokens]

    @property
    def output_token_ids(self) -> list[int]:
        return self._all_token_ids[self.num_prompt_tokens :]

    @property
    def num_tokens(self) -> int:
        """Known tokens: the prompt and the output so far."""
        return len(self._all_token_ids)

    @property
    def num_tokens_with_spec(self) -> int:
        """Known and draft tokens: what the scheduler tries to bring ``num_computed_tokens`` up to."""
        return len(self._all_token_ids) + len(self.spec_token_ids)

    @property
    def num_output_tokens(self) -> int:
        return len(self._all_token_ids) - self.num_prompt_tokens

    @property
    def is_finished(self) -> bool:
        return self.status.is_finished

    def append_output_token_ids(self, token_id: int) -> None:
        """Adds one sampled token, and the hash of its block if that is full now."""
        self._all_token_ids.append(token_id)
        if len(self._all_token_ids) == self._num_tokens_of_next_hash and self._block_hasher is not None:
            self._update_block_hashes(self._block_hasher)

    def set_block_hasher(self, block_hasher: "BlockHasher") -> None:
        """Hashes the full blocks, now and whenever a sampled token completes one."""
        self._block_hasher = block_hasher
        self._update_block_hashes(block_hasher)

    def _update_block_hashes(self, block_hasher: "BlockHasher") -> None:
        self.block_hashes.extend(block_hasher(self))
        self._num_tokens_of_next_hash = (len(self.block_hashes) + 1) * block_hasher.block_size

    def __lt__(self, other: "Request") -> bool:
        """The order of the priority policy: priority, then arrival, then id."""
        return (self.priority, self.arrival_time, self.request_id) < (
            other.priority,
            other.arrival_time,
            other.request_id,
        )

    def __repr__(self) -> str:
        return (
            f"Request({self.request_id!r}, {self.status.name}, computed {self.num_computed_tokens} of "
            f"{self.num_tokens_with_spec} tokens)"
        )
