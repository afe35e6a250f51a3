"""A load: requests that arrive over time, and the engine that they meet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from minivllm.config import CacheConfig, EngineConfig, SchedulerConfig, SpeculativeConfig
from minivllm.kv_cache_interface import FullAttentionSpec, KVCacheSpec
from minivllm.lesson.common.errors import LessonError

_MAX_MODEL_LEN = 256
_LEAST = {"prompt": 1, "step": 0, "max_tokens": 1, "drafts": 0, "accepted": 0, "shared": 0}
_NAMES = {  # what an engine's setting is called in a Load
    "SchedulerConfig.max_num_batched_tokens": "Load.budget",
    "CacheConfig.num_gpu_blocks": "Load.blocks",
    "SchedulerConfig.": "Load.",
    "CacheConfig.": "Load.",
}


@dataclass(frozen=True)
class Arrival:
    """One request of a load, in tokens.

    Attributes:
        request_id: its name in every table.
        prompt: tokens of its prompt.
        step: the step (from 0) before which it joins the waiting queue.
        max_tokens: outputs after which it finishes.
        drafts: tokens that the drafter proposes before each of its decodes.
        accepted: how many of them the model accepts (the first ones).
        shared: tokens at the start of its prompt that it has in common with every other request that shares some.
        priority: smaller is served first under the priority policy.
    """

    request_id: str
    prompt: int
    step: int = 0
    max_tokens: int = 4
    drafts: int = 0
    accepted: int = 0
    shared: int = 0
    priority: int = 0

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if type(value) is not int or value < least:
                raise LessonError(
                    f"Arrival {self.request_id!r}: {name} is {value!r}, but must be a whole number of at least {least}"
                )
        if self.prompt >= _MAX_MODEL_LEN:
            raise LessonError(
                f"Arrival {self.request_id!r}: prompt is {self.prompt}, but a load's sequences hold at most "
                f"{_MAX_MODEL_LEN} tokens, an output among them"
            )
        if self.accepted > self.drafts:
            raise LessonError(
                f"Arrival {self.request_id!r}: accepted is {self.accepted}, but only {self.drafts} drafts are proposed"
            )
        if self.shared > self.prompt:
            raise LessonError(
                f"Arrival {self.request_id!r}: shared is {self.shared}, but its prompt has only {self.prompt} tokens"
            )


@dataclass(frozen=True)
class Load:
    """Arrivals, and the engine that they meet.

    Attributes:
        budget: tokens a step.
        blocks: of `block_size` tokens each, the null block among them.
        watermark: the fraction of the pool that an admission leaves free while others run.
        scheduler_reserve_full_isl: the full-sequence gate.
        lookahead: KV slots behind a request's tokens that a draft model writes to; 0 for no draft model.
        kv_cache_groups: one spec a group of layers.
    """

    arrivals: Sequence[Arrival]
    budget: int = 8
    max_num_seqs: int = 8
    blocks: int = 64
    block_size: int = 4
    long_prefill_token_threshold: int = 0
    enable_chunked_prefill: bool = True
    policy: str = "fcfs"
    watermark: float = 0.0
    scheduler_reserve_full_isl: bool = True
    lookahead: int = 0
    kv_cache_groups: tuple[KVCacheSpec, ...] = (FullAttentionSpec(),)

    def __post_init__(self) -> None:
        if not isinstance(self.arrivals, Sequence) or not all(isinstance(entry, Arrival) for entry in self.arrivals):
            raise LessonError('a Load takes a list of arrivals: Load([Arrival("A", prompt=20)], budget=8)')
        names = [arrival.request_id for arrival in self.arrivals]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise LessonError(f"two arrivals of this load are called {twice!r}: give each a name of its own")
        try:
            _ = self.config
        except ValueError as error:
            raise LessonError(in_names_of_a_load(str(error))) from None

    @property
    def config(self) -> EngineConfig:
        return EngineConfig(
            scheduler=SchedulerConfig(
                max_num_batched_tokens=self.budget,
                max_num_seqs=self.max_num_seqs,
                max_model_len=_MAX_MODEL_LEN,
                policy=self.policy,
                enable_chunked_prefill=self.enable_chunked_prefill,
                long_prefill_token_threshold=self.long_prefill_token_threshold,
                watermark=self.watermark,
                scheduler_reserve_full_isl=self.scheduler_reserve_full_isl,
            ),
            cache=CacheConfig(self.block_size, self.blocks, kv_cache_groups=self.kv_cache_groups),
            speculative=self._drafter,
        )

    @property
    def _drafter(self) -> SpeculativeConfig | None:
        if self.lookahead:
            return SpeculativeConfig("draft_model", self.lookahead)
        drafts = max((arrival.drafts for arrival in self.arrivals), default=0)
        return SpeculativeConfig("ngram", drafts) if drafts else None


def load_of(load: str | Load, loads: Mapping[str, Load]) -> Load:
    """A Load as it is, a name as the one of `loads`.

    Raises:
        LessonError: none of them has this name.
    """
    if not isinstance(load, str):
        return load
    if load not in loads:
        raise LessonError(f"there is no load {load!r}; the loads are {', '.join(loads)}, or give a Load of your own")
    return loads[load]


def in_names_of_a_load(message: str) -> str:
    """A sentence of the engine with its settings called as in a Load."""
    for engine_name, name in _NAMES.items():
        message = message.replace(engine_name, name)
    return message
