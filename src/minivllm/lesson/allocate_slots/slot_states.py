"""States of a KVCacheManager in which a reader's functions meet the engine's: each is built anew, equal every time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from minivllm.config import CacheConfig, EngineConfig, SchedulerConfig
from minivllm.core.kv_cache_manager import KVCacheBlocks, KVCacheManager
from minivllm.core.kv_cache_utils import KVCacheBlock
from minivllm.lesson.prefix_match.prefix_cache import hashed_request
from minivllm.request import Request, RequestStatus

_OWN_TOKENS = 1000  # token ids below are a common prefix


class Situation:
    """One request that asks for slots or leaves, and the pool around it. One KV cache group, full attention."""

    def __init__(self, blocks: int, block_size: int = 4) -> None:
        self.block_size = block_size
        self.manager = KVCacheManager(
            EngineConfig(SchedulerConfig(max_model_len=4096), CacheConfig(block_size, num_gpu_blocks=blocks + 1))
        )
        self._num_requests = 0
        self.request = self._new_request(1, 0)
        self.num_new_tokens = self.num_lookahead_tokens = 0

    def run(self, num_tokens: int, shared: int = 0, num_drafts: int = 0) -> Request:
        """Admit a request and compute all its tokens; drafts behind them are computed too, and rejected."""
        request = self._new_request(num_tokens, shared)
        blocks, hit = self.manager.get_computed_blocks(request)
        assert self.manager.allocate_slots(request, num_tokens - hit + num_drafts, hit, blocks) is not None
        request.status = RequestStatus.RUNNING
        request.num_computed_tokens = num_tokens
        return request

    def finish(self, request: Request) -> None:
        self.manager.free(request)

    def arrives(self, num_tokens: int, shared: int = 0, num_lookahead_tokens: int = 0) -> Situation:
        """The request that asks is a new one, and wants slots for its whole prompt."""
        self.request = self._new_request(num_tokens, shared)
        self.num_new_tokens = num_tokens - self.num_hit_tokens
        self.num_lookahead_tokens = num_lookahead_tokens
        return self

    def decodes(self, request: Request, num_new_tokens: int = 1, num_lookahead_tokens: int = 0) -> Situation:
        """The request that asks is one that runs."""
        self.request = request
        for token in range(num_new_tokens):
            request.append_output_token_ids(token)
        self.num_new_tokens, self.num_lookahead_tokens = num_new_tokens, num_lookahead_tokens
        return self

    def leaves(self, request: Request) -> Situation:
        self.request = request
        return self

    @property
    def hit(self) -> KVCacheBlocks:
        if self.request.status is RequestStatus.RUNNING:
            return self.manager.empty_kv_cache_blocks
        return self.manager.get_computed_blocks(self.request)[0]

    @property
    def hit_blocks(self) -> list[KVCacheBlock]:
        return list(self.hit.blocks[0])

    @property
    def num_hit_tokens(self) -> int:
        return len(self.hit_blocks) * self.block_size

    @property
    def num_computed_tokens(self) -> int:
        """Computed tokens, the hit included."""
        return self.request.num_computed_tokens + self.num_hit_tokens

    @property
    def num_tokens_need_slot(self) -> int:
        return self.num_computed_tokens + self.num_new_tokens + self.num_lookahead_tokens

    @property
    def table(self) -> list[KVCacheBlock]:
        """The request's block table itself; an empty list of its own for a request that has none."""
        return self.manager.coordinator.single_type_managers[0].req_to_blocks.get(self.request.request_id, [])

    def allocate(self) -> list[int] | None:
        """What the engine's `allocate_slots` gives the request: ids of new blocks, or None."""
        blocks = self.manager.allocate_slots(
            self.request, self.num_new_tokens, self.num_hit_tokens, self.hit, self.num_lookahead_tokens
        )
        return None if blocks is None else [block.block_id for block in blocks.blocks[0]]

    def _new_request(self, num_tokens: int, shared: int) -> Request:
        self._num_requests += 1
        first = _OWN_TOKENS * self._num_requests
        tokens = [*range(shared), *range(first, first + num_tokens - shared)]
        return hashed_request(f"r{self._num_requests}", tokens, self.block_size)


@dataclass(frozen=True)
class State:
    """A situation by name."""

    name: str
    build: Callable[[], Situation]


def _shared_hit() -> Situation:
    situation = Situation(blocks=12)
    situation.run(14, shared=8)
    return situation.arrives(13, shared=8)


def _free_hit(blocks: int = 12, num_tokens: int = 13, num_lookahead_tokens: int = 0) -> Situation:
    situation = Situation(blocks)
    situation.finish(situation.run(14, shared=8))
    return situation.arrives(num_tokens, shared=8, num_lookahead_tokens=num_lookahead_tokens)


def _hit_at_the_front() -> Situation:
    """All free blocks but one are the hit's own, and they stand at the front of the queue."""
    situation = Situation(blocks=6)
    first = situation.run(8, shared=8)
    second = situation.run(8)
    third = situation.run(8)
    for request in (first, third):
        situation.finish(request)
    assert second.num_computed_tokens
    return situation.arrives(13, shared=8)


def _spare_block() -> Situation:
    situation = Situation(blocks=8)
    return situation.decodes(situation.run(7, num_drafts=6), num_new_tokens=1)


def _running(num_tokens: int, blocks: int = 8, num_lookahead_tokens: int = 0, others: int = 0) -> Situation:
    situation = Situation(blocks)
    request = situation.run(num_tokens)
    if others:
        situation.run(others)
    return situation.decodes(request, num_lookahead_tokens=num_lookahead_tokens)


ASKING = (
    State("a prompt of 13 tokens, 8 free blocks", lambda: Situation(8).arrives(13)),
    State("a prompt of 12 tokens, 8 free blocks", lambda: Situation(8).arrives(12)),
    State("a decode behind 12 computed tokens", lambda: _running(12)),
    State("a decode behind 13 computed tokens", lambda: _running(13)),
    State("a prompt of 13 tokens, a hit of 8 that another request owns", _shared_hit),
    State("a prompt of 13 tokens, a hit of 8 whose blocks are free", _free_hit),
    State("a hit of 8 whose blocks stand at the front of the free queue", _hit_at_the_front),
    State("a decode with one block to spare, left by rejected drafts", _spare_block),
    State("a prompt of 8 tokens and 4 lookahead tokens", lambda: Situation(8).arrives(8, num_lookahead_tokens=4)),
    State("a decode behind 13 computed tokens, 4 lookahead tokens", lambda: _running(13, num_lookahead_tokens=4)),
    State("a prompt of 16 tokens, exactly 4 free blocks", lambda: Situation(4).arrives(16)),
    State("a prompt of 17 tokens, 4 free blocks", lambda: Situation(4).arrives(17)),
    State("a decode behind 12 computed tokens, no free block", lambda: _running(12, blocks=5, others=8)),
    State("a free hit of 8 and 3 more blocks to take, 4 free blocks in all", lambda: _free_hit(4, num_tokens=20)),
    State("a prompt of 8 tokens, 4 lookahead tokens, 2 free blocks", lambda: Situation(2).arrives(8, 0, 4)),
    State("block size 16: a prompt of 33 tokens", lambda: Situation(8, block_size=16).arrives(33)),
)
"""Requests that ask for slots."""


def _finished(num_tokens: int, num_drafts: int = 0, blocks: int = 8) -> Situation:
    situation = Situation(blocks)
    return situation.leaves(situation.run(num_tokens, num_drafts=num_drafts))


def _shares_its_head() -> Situation:
    situation = Situation(blocks=8)
    first = situation.run(14, shared=8)
    situation.run(13, shared=8)
    return situation.leaves(first)


def _last_owner() -> Situation:
    situation = _shares_its_head()
    situation.finish(situation.request)
    return situation.leaves(hashed_request("r3", [*range(8), *range(3000, 3005)], situation.block_size))


LEAVING = (
    State("a table of 3 full blocks", lambda: _finished(12)),
    State("a table of 3 full blocks and a partly filled one", lambda: _finished(14)),
    State("a table whose last 2 blocks have no hash (rejected drafts)", lambda: _finished(9, num_drafts=6)),
    State("a table whose first 2 blocks another request owns too", _shares_its_head),
    State("the last owner of 2 shared blocks", _last_owner),
    State("a request that holds no block", lambda: Situation(8).arrives(5)),
)
"""Requests whose blocks are given back."""
