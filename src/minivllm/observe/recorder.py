"""Records what a scheduler does: events while a step is decided, and the state after it.

The recorder wraps bound methods of one scheduler, so that ``core`` carries no hook and pays nothing when nobody looks.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from minivllm.core.kv_cache_utils import KVCacheBlock, hash_block_tokens
from minivllm.core.sched.output import SchedulerOutput
from minivllm.core.sched.scheduler import Scheduler
from minivllm.request import BlockHash, Request

Event = list[Any]
"""A name and what belongs to it, as in the traces: ``["touch", [3, 4]]``."""


@dataclass
class HashTable:
    """Small numbers for block hashes. Row i of ``rows`` is [parent's number or -1, tokens, [salt] or None].

    A hash whose request had finished before anybody listened has no tokens in its row.
    """

    block_size: int
    rows: list[list[Any]] = field(default_factory=list)
    _numbers: dict[BlockHash, int] = field(default_factory=dict)
    _sources: dict[BlockHash, tuple[Request, int]] = field(default_factory=dict)

    def preload(self, rows: list[list[Any]]) -> None:
        """Takes the rows of another table, so that equal blocks get equal numbers in both."""
        hashes: list[BlockHash] = []
        for parent, tokens, extra_keys in rows:
            parent_hash = hashes[parent] if parent >= 0 else None
            hashes.append(hash_block_tokens(parent_hash, tokens, tuple(extra_keys) if extra_keys else None))
        self.rows = list(rows)
        self._numbers = {block_hash: number for number, block_hash in enumerate(hashes)}

    def note(self, request: Request) -> None:
        """Remembers where the hashes of a request come from."""
        for index, block_hash in enumerate(request.block_hashes):
            self._sources.setdefault(block_hash, (request, index))

    def number(self, block_hash: BlockHash) -> int:
        if block_hash not in self._numbers and block_hash not in self._sources:
            self._numbers[block_hash] = len(self.rows)
            self.rows.append([-1, [], None])
        elif block_hash not in self._numbers:
            request, index = self._sources[block_hash]
            parent = self.number(request.block_hashes[index - 1]) if index else -1
            self._numbers[block_hash] = len(self.rows)
            tokens = list(request.all_token_ids[index * self.block_size : (index + 1) * self.block_size])
            self.rows.append([parent, tokens, [request.cache_salt] if index == 0 and request.cache_salt else None])
        return self._numbers[block_hash]


class Recorder:
    """Listens to one scheduler.

    Args:
        scheduler: what to listen to; its methods are wrapped, not replaced.

    Attributes:
        events: what happened since the last ``take_events``, in order. ``["hit", id, tokens, [[block]]]``,
            ``["alloc", id, new tokens, hit tokens, lookahead, free before, 1 or 0]``, ``["new", [block]]``,
            ``["evict", block, hash]``, ``["touch", [block]]``, ``["cache", id, group, [[block, hash]]]``,
            ``["free", [block]]``, ``["preempt", id]``.
        hashes: the numbers that stand for block hashes.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.events: list[Event] = []
        self.hashes = HashTable(scheduler.config.cache.block_size)
        self._caching_for = ""
        self._wrap()

    def take_events(self) -> list[Event]:
        events, self.events = self.events, []
        return events

    def state(self) -> dict[str, Any]:
        """Queues, free queue, ref counts and cached hashes, in the form of a trace's snapshot."""
        for request in self.scheduler.requests.values():
            self.hashes.note(request)
        pool = self.scheduler.kv_cache_manager.block_pool
        return {
            "run": [request.request_id for request in self.scheduler.running],
            "wait": [request.request_id for request in self.scheduler.waiting],
            "nfree": pool.get_num_free_blocks(),
            "fq": _ids(pool.free_block_queue.get_all_free_blocks()),
            "ref": [[block.block_id, block.ref_cnt] for block in pool.blocks if block.ref_cnt and not block.is_null],
            "cached": sorted(
                [self.hashes.number(block_hash), group_id, *_ids(blocks)]
                for group_id, cache in enumerate(pool.cached_block_hash_to_block)
                for block_hash, blocks in cache.items()
            ),
        }

    def block_tables(self, request_id: str) -> list[list[int]]:
        """Block ids of a request, one list a group."""
        return [list(ids) for ids in self.scheduler.kv_cache_manager.get_blocks(request_id).get_block_ids()]

    def _wrap(self) -> None:
        manager = self.scheduler.kv_cache_manager
        pool = manager.block_pool
        around(manager, "get_computed_blocks", self._on_hit)
        around(manager, "allocate_slots", self._on_alloc)
        around(pool, "get_new_blocks", self._on_new)
        around(pool, "_maybe_evict_cached_block", self._on_evict)
        around(pool, "touch", self._on_touch)
        around(pool, "free_blocks", self._on_free)
        around(pool, "cache_full_blocks", self._on_cache)
        for single_type_manager in manager.coordinator.single_type_managers:
            around(single_type_manager, "cache_blocks", self._on_cache_blocks)
        around(self.scheduler, "_preempt_request", self._on_preempt)

    def _on_hit(self, call: Callable[..., Any], request: Request) -> Any:
        result = call(request)
        blocks, num_tokens = result
        self.events.append(["hit", request.request_id, num_tokens, [list(ids) for ids in blocks.get_block_ids()]])
        return result

    def _on_alloc(
        self,
        call: Callable[..., Any],
        request: Request,
        num_new_tokens: int,
        num_new_computed_tokens: int = 0,
        new_computed_blocks: Any = None,
        num_lookahead_tokens: int = 0,
        **gates: bool,
    ) -> Any:
        num_free = self.scheduler.kv_cache_manager.block_pool.get_num_free_blocks()
        position = len(self.events)
        result = call(
            request, num_new_tokens, num_new_computed_tokens, new_computed_blocks, num_lookahead_tokens, **gates
        )
        ok = int(result is not None)
        event = ["alloc", request.request_id, num_new_tokens, num_new_computed_tokens, num_lookahead_tokens]
        self.events.insert(position, [*event, num_free, ok])
        return result

    def _on_new(self, call: Callable[..., Any], num_blocks: int) -> Any:
        blocks = call(num_blocks)
        if blocks:
            self.events.append(["new", _ids(blocks)])
        return blocks

    def _on_evict(self, call: Callable[..., Any], block: KVCacheBlock) -> Any:
        if block.block_hash is not None:
            self.events.append(["evict", block.block_id, self.hashes.number(block.block_hash)])
        return call(block)

    def _on_touch(self, call: Callable[..., Any], blocks: Sequence[KVCacheBlock]) -> Any:
        if blocks:
            self.events.append(["touch", _ids(blocks)])
        return call(blocks)

    def _on_free(self, call: Callable[..., Any], ordered_blocks: Iterable[KVCacheBlock]) -> Any:
        blocks = list(ordered_blocks)
        if blocks:
            self.events.append(["free", _ids(blocks)])
        return call(blocks)

    def _on_cache_blocks(self, call: Callable[..., Any], request: Request, num_tokens: int) -> Any:
        self._caching_for = request.request_id
        self.hashes.note(request)
        return call(request, num_tokens)

    def _on_cache(
        self,
        call: Callable[..., Any],
        blocks: Sequence[KVCacheBlock],
        block_hashes: Sequence[BlockHash],
        kv_cache_group_id: int,
    ) -> Any:
        result = call(blocks, block_hashes, kv_cache_group_id)
        filed = [
            [block.block_id, self.hashes.number(block_hash)]
            for block, block_hash in zip(blocks, block_hashes, strict=True)
            if not block.is_null
        ]
        if filed:
            self.events.append(["cache", self._caching_for, kv_cache_group_id, filed])
        return result

    def _on_preempt(self, call: Callable[..., Any], request: Request) -> Any:
        self.events.append(["preempt", request.request_id])
        return call(request)


class StepCounter:
    """Counts what one scheduler hands out from now on: steps, scheduled tokens and preemptions."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.steps = self.scheduled_tokens = self.preemptions = 0
        around(scheduler, "schedule", self._count)

    def _count(self, call: Callable[[], SchedulerOutput]) -> SchedulerOutput:
        output = call()
        self.steps += 1
        self.scheduled_tokens += output.total_num_scheduled_tokens
        self.preemptions += len(output.preempted_req_ids)
        return output


def _ids(blocks: Iterable[KVCacheBlock]) -> list[int]:
    return [block.block_id for block in blocks]


def around(owner: object, name: str, listener: Callable[..., Any]) -> None:
    """Has ``listener(method, *args)`` called in place of one object's method; the listener calls the method itself."""
    method = getattr(owner, name)
    setattr(owner, name, lambda *args, **kwargs: listener(method, *args, **kwargs))
