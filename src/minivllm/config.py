"""Configuration of an engine. Every value is checked when it is given, so that nothing wrong reaches a schedule.

Mirrors vllm/config: SchedulerConfig (scheduler.py), CacheConfig (cache.py), SpeculativeConfig (speculative.py) and
VllmConfig, here EngineConfig (vllm.py).
"""

from dataclasses import dataclass, field
from typing import Any

from minivllm.kv_cache_interface import FullAttentionSpec, KVCacheSpec, SlidingWindowSpec

SCHEDULING_POLICIES = ("fcfs", "priority")
SPECULATIVE_METHODS = ("ngram", "draft_model", "eagle")


def check_int(owner: Any, name: str, minimum: int, why: str) -> None:
    value = getattr(owner, name)
    if type(value) is not int or value < minimum:
        raise ValueError(
            f"{type(owner).__name__}.{name} is {value!r}, but must be an int of at least {minimum}: {why}."
        )


def _check_bool(owner: Any, name: str) -> None:
    value = getattr(owner, name)
    if type(value) is not bool:
        raise ValueError(f"{type(owner).__name__}.{name} is {value!r}, but must be True or False.")


def _check_choice(owner: Any, name: str, choices: tuple[str, ...]) -> None:
    value = getattr(owner, name)
    if value not in choices:
        known = ", ".join(map(repr, choices))
        raise ValueError(f"{type(owner).__name__}.{name} is {value!r}, but must be one of {known}.")


@dataclass(frozen=True)
class SchedulerConfig:
    """How requests are admitted, ordered and cut (vllm/config/scheduler.py, SchedulerConfig).

    Attributes:
        max_num_batched_tokens: tokens that the model takes in one step.
        max_num_scheduled_tokens: tokens that the scheduler hands out in one step; None means max_num_batched_tokens.
        max_num_seqs: requests that may be RUNNING at once; a cap on admissions, not memory.
        max_model_len: the longest sequence in tokens, prompt and output together.
        enable_chunked_prefill: False makes a prompt wait until the budget holds all of it.
        long_prefill_token_threshold: the most tokens one request gets in a step; 0 is off.
        policy: "fcfs", or "priority" (a smaller number goes first, ties by arrival time).
        watermark: the fraction of the pool that an admission has to leave free while others run.
        scheduler_reserve_full_isl: admit a request only if all tokens known by now fit the free blocks; a gate that
            looks, it reserves nothing.

    Raises:
        ValueError: a field has a wrong type or lies outside its range; the message names it.
    """

    max_num_batched_tokens: int = 2048
    max_num_seqs: int = 128
    max_model_len: int = 8192
    max_num_scheduled_tokens: int | None = None
    enable_chunked_prefill: bool = True
    long_prefill_token_threshold: int = 0
    policy: str = "fcfs"
    watermark: float = 0.0
    scheduler_reserve_full_isl: bool = True

    def __post_init__(self) -> None:
        check_int(self, "max_num_batched_tokens", 1, "it is the token budget of a step, and each request needs one")
        if self.max_num_scheduled_tokens is not None:
            check_int(self, "max_num_scheduled_tokens", 1, "it is the token budget of a step (None for the default)")
        check_int(self, "max_num_seqs", 1, "with no place in RUNNING nothing is ever admitted")
        check_int(self, "max_model_len", 2, "a sequence holds at least one prompt token and one output token")
        check_int(self, "long_prefill_token_threshold", 0, "it caps one request's tokens in a step, and 0 turns it off")
        _check_bool(self, "enable_chunked_prefill")
        _check_bool(self, "scheduler_reserve_full_isl")
        _check_choice(self, "policy", SCHEDULING_POLICIES)
        if type(self.watermark) not in (int, float) or not 0 <= self.watermark < 1:
            raise ValueError(
                f"SchedulerConfig.watermark is {self.watermark!r}, but must be a fraction of the pool: at least 0.0 "
                "(off) and less than 1.0."
            )


@dataclass(frozen=True)
class CacheConfig:
    """The KV block pool (vllm/config/cache.py, CacheConfig).

    Attributes:
        block_size: tokens in a block, the same in every group.
        num_gpu_blocks: blocks in the pool, block 0 (the null block, never handed out) among them.
        enable_prefix_caching: whether full blocks are hashed and found again.
        kv_cache_groups: one spec a group of layers; all groups draw from the one pool.

    Raises:
        ValueError: a field has a wrong type or lies outside its range; the message names it.
    """

    block_size: int = 16
    num_gpu_blocks: int = 1024
    enable_prefix_caching: bool = True
    kv_cache_groups: tuple[KVCacheSpec, ...] = (FullAttentionSpec(),)

    def __post_init__(self) -> None:
        check_int(self, "block_size", 1, "a block holds the keys and values of that many tokens")
        check_int(self, "num_gpu_blocks", 1, "block 0 is the null block, and requests live in the others")
        _check_bool(self, "enable_prefix_caching")
        groups = self.kv_cache_groups
        if not isinstance(groups, tuple) or not groups:
            raise ValueError(
                f"CacheConfig.kv_cache_groups is {groups!r}, but must be a tuple of at least one spec, "
                "for example (FullAttentionSpec(),)."
            )
        for group in groups:
            if not isinstance(group, FullAttentionSpec | SlidingWindowSpec):
                raise ValueError(
                    f"CacheConfig.kv_cache_groups holds {group!r}, but a group is a FullAttentionSpec or a "
                    "SlidingWindowSpec."
                )
        if self.enable_prefix_caching and len(groups) > 1 and len(set(groups)) == 1:
            raise ValueError(
                f"CacheConfig.kv_cache_groups holds {len(groups)} groups that are all {groups[0]!r}, but groups that "
                "are alike belong together: give one, or turn enable_prefix_caching off."
            )


@dataclass(frozen=True)
class SpeculativeConfig:
    """Draft tokens (vllm/config/speculative.py, SpeculativeConfig).

    Attributes:
        method: "ngram" proposes from the text itself, "draft_model" and "eagle" run a model with a KV cache of its own.
        num_speculative_tokens: the most draft tokens a request gets in a step.
        max_num_new_slots_for_drafting: input slots that the drafter adds to each request, charged to the step's input
            budget (1 for a draft model in v0.28.0).

    Raises:
        ValueError: a field has a wrong type or lies outside its range; the message names it.
    """

    method: str
    num_speculative_tokens: int
    max_num_new_slots_for_drafting: int = 0

    def __post_init__(self) -> None:
        _check_choice(self, "method", SPECULATIVE_METHODS)
        check_int(self, "num_speculative_tokens", 1, "leave SpeculativeConfig out to run without drafts")
        check_int(self, "max_num_new_slots_for_drafting", 0, "it counts input slots")

    @property
    def use_eagle(self) -> bool:
        return self.method == "eagle"

    @property
    def num_lookahead_tokens(self) -> int:
        """KV slots behind the scheduled tokens that the drafter writes to (VllmConfig.num_lookahead_tokens)."""
        return 0 if self.method == "ngram" else self.num_speculative_tokens


@dataclass(frozen=True)
class EngineConfig:
    """All that a scheduler has to know (vllm/config/vllm.py, VllmConfig)."""

    scheduler: SchedulerConfig = field(default_factory=SchedulerConfig)
    cache: CacheConfig = field(default_factory=CacheConfig)
    speculative: SpeculativeConfig | None = None

    @property
    def max_num_scheduled_tokens(self) -> int:
        """Tokens that one step may schedule: the token budget that every step starts with."""
        return self.scheduler.max_num_scheduled_tokens or self.scheduler.max_num_batched_tokens
