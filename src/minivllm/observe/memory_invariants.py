"""What holds of the free queue, the block tables and the prefix cache between any two calls."""

import itertools
from collections import Counter
from collections.abc import Iterator

from minivllm.core.kv_cache_utils import KVCacheBlock
from minivllm.core.sched.scheduler import Scheduler
from minivllm.kv_cache_interface import FullAttentionSpec
from minivllm.observe.violation import Violation
from minivllm.request import Request


def check_free_queue(scheduler: Scheduler) -> Iterator[Violation]:
    pool = scheduler.kv_cache_manager.block_pool
    free = pool.free_block_queue.get_all_free_blocks()
    if len(free) != pool.get_num_free_blocks():
        yield Violation(
            "free queue",
            f"{pool.get_num_free_blocks()} blocks, as counted",
            str(len(free)),
            "admission trusts the count",
        )
    for block, follower in itertools.pairwise(free):
        if follower.prev_free_block is not block:
            yield Violation(
                f"{follower!r}: its predecessor in the free queue",
                f"{block!r}",
                f"{follower.prev_free_block!r}",
                "both directions must agree",
            )
    in_queue = Counter(block.block_id for block in free)
    in_tables = Counter(block.block_id for table in _tables(scheduler) for block in table if not block.is_null)
    for block in pool.blocks:
        queued, held = in_queue[block.block_id], in_tables[block.block_id]
        if block.is_null:
            if queued or block.block_hash is not None:
                yield Violation(
                    "the null block", "neither free nor cached", f"{block!r}", "it stands for no memory of anybody"
                )
            continue
        if block.ref_cnt != held:
            yield Violation(
                f"{block!r}: ref_cnt",
                f"{held}, the tables that hold it",
                str(block.ref_cnt),
                "a wrong count leaks a block or frees it under its owner",
            )
        if queued != (held == 0):
            places = f"in the free queue {queued} times and in {held} tables"
            yield Violation(f"{block!r}", "either once in the free queue or in tables", places, "a block has one place")


def check_tables(scheduler: Scheduler) -> Iterator[Violation]:
    block_size = scheduler.config.cache.block_size
    running = {request.request_id: request for request in scheduler.running}
    managers = scheduler.kv_cache_manager.coordinator.single_type_managers
    for spec, manager in zip(scheduler.config.cache.kv_cache_groups, managers, strict=True):
        for request_id in (manager.req_to_blocks.keys() | manager.num_cached_block.keys()) - running.keys():
            yield Violation(f"block table of {request_id!r}", "none", "one", "only a running request holds blocks")
        for request_id, request in running.items():
            table = manager.req_to_blocks.get(request_id, [])
            if len(table) * block_size < request.num_computed_tokens:
                yield Violation(
                    f"block table of {request_id!r}",
                    f"slots for {request.num_computed_tokens} computed tokens",
                    f"{len(table) * block_size} slots",
                    "every computed token needs a place for its keys and values",
                )
            needed = (
                table
                if isinstance(spec, FullAttentionSpec)
                else table[_first_needed(spec.sliding_window, request, block_size) :]
            )
            if any(block.is_null for block in needed):
                yield Violation(
                    f"block table of {request_id!r}",
                    "no null block in reach",
                    f"{needed}",
                    "the next token reads these positions",
                )
            yield from _check_table_hashes(manager.kv_cache_group_id, request, table, block_size)


def _check_table_hashes(
    group_id: int, request: Request, table: list[KVCacheBlock], block_size: int
) -> Iterator[Violation]:
    for index, block in enumerate(table):
        if block.is_null or block.block_hash is None:
            continue
        name = f"block {block.block_id} at place {index} of {request.request_id!r}"
        if (index + 1) * block_size > request.num_tokens:
            yield Violation(f"{name}: hash", "none", "one", "only a block that known tokens fill may be found again")
        elif [block.block_hash] != request.block_hashes[index : index + 1] or block.kv_cache_group_id != group_id:
            yield Violation(
                f"{name}: hash", "that of these tokens", "another", "a hit would read another text's keys and values"
            )


def check_cache(scheduler: Scheduler) -> Iterator[Violation]:
    pool = scheduler.kv_cache_manager.block_pool
    filed = Counter[int]()
    for group_id, cache in enumerate(pool.cached_block_hash_to_block):
        for block_hash, blocks in cache.items():
            for block in blocks:
                filed[block.block_id] += 1
                if block.block_hash != block_hash or block.kv_cache_group_id != group_id:
                    yield Violation(
                        f"{block!r} in the cache map",
                        "filed under the hash it holds",
                        "another",
                        "a hit would read another text's keys and values",
                    )
    for block in pool.blocks:
        if filed[block.block_id] != (block.block_hash is not None):
            yield Violation(
                f"{block!r}: entries in the cache map",
                "one if it holds a hash",
                str(filed[block.block_id]),
                "a lookup must find what is cached, once",
            )
    for request in scheduler.requests.values():
        num_hashes = (
            request.num_tokens // scheduler.config.cache.block_size if scheduler.block_hasher is not None else 0
        )
        if len(request.block_hashes) != num_hashes:
            yield Violation(
                f"{request!r}: block_hashes",
                f"{num_hashes}, one a full block",
                str(len(request.block_hashes)),
                "hashes and tokens must stay in step",
            )


def _tables(scheduler: Scheduler) -> Iterator[list[KVCacheBlock]]:
    for manager in scheduler.kv_cache_manager.coordinator.single_type_managers:
        yield from manager.req_to_blocks.values()


def _first_needed(sliding_window: int, request: Request, block_size: int) -> int:
    """The first place in a table that the token after the computed ones reads."""
    return max(request.num_computed_tokens - sliding_window + 1, 0) // block_size
