"""Checks of the student's `find_longest_cache_hit` and `max_cache_hit_length` beside those of minivllm.core."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minivllm.config import CacheConfig, EngineConfig, SchedulerConfig
from minivllm.core.block_pool import BlockPool
from minivllm.core.kv_cache_manager import KVCacheManager
from minivllm.core.single_type_kv_cache_manager import FullAttentionManager
from minivllm.kv_cache_interface import FullAttentionSpec
from minivllm.lesson.common.checks import Student, Wrong, call_on_copies, report, same
from minivllm.lesson.prefix_match.prefix_cache import hashed_request
from minivllm.request import BlockHash, Request

# ---- find_longest_cache_hit

_LOOKUPS = (  # cached blocks of the 4 that a prompt fills, the bound in tokens, the block size
    ((0, 1, 2, 3), 64, 16),
    ((0, 1, 2, 3), 63, 16),
    ((0, 1, 2, 3), 16, 16),
    ((0, 1, 2, 3), 15, 16),
    ((0, 2, 3), 64, 16),
    ((1, 2, 3), 64, 16),
    ((), 64, 16),
    ((0, 1, 2, 3), 15, 4),
)


def check_find_longest_cache_hit(function: Student) -> None:
    """Whether `function(block_hashes, max_length, get_cached_block, block_size)` finds what minivllm.core finds."""

    def run() -> str:
        for lookup in _LOOKUPS:
            _check_lookup(function, *lookup)
        return f"{len(_LOOKUPS)} lookups, block for block those of minivllm.core"

    report("find_longest_cache_hit", run)


def cached_block_in(pool: BlockPool) -> Callable[[BlockHash], int | None]:
    """`get_cached_block` as a student's lookup asks it: the id of a block with this hash."""

    def get_cached_block(block_hash: BlockHash) -> int | None:
        blocks = pool.get_cached_block(block_hash, (0,))
        return None if blocks is None else blocks[0].block_id

    return get_cached_block


def _check_lookup(function: Student, cached: tuple[int, ...], max_length: int, block_size: int) -> None:
    pool, hashes = BlockPool(num_gpu_blocks=8), hashed_request("r", range(4 * block_size), block_size).block_hashes
    for index, block in enumerate(pool.get_new_blocks(4)):
        if index in cached:
            pool.cache_full_blocks([block], [hashes[index]], 0)
    (hit,) = FullAttentionManager.find_longest_cache_hit(
        hashes, max_length, (0,), pool, FullAttentionSpec(), block_size, drop_eagle_block=False
    )
    wanted = [block.block_id for block in hit]
    name = f"blocks {[index + 1 for index in cached]} cached, at most {max_length} tokens, block size {block_size}"
    value = call_on_copies(name, function, hashes, max_length, cached_block_in(pool), block_size)
    if not same(value, wanted):
        raise Wrong(name, wanted, repr(value), _wrong_lookup(value, wanted, cached, max_length, block_size))


def _wrong_lookup(value: Any, wanted: list[int], cached: tuple[int, ...], max_length: int, block_size: int) -> str:
    if not isinstance(value, list):
        return "a list of block ids is wanted, in the order of the chain"
    if any(isinstance(item, bytes) for item in value):
        return "these are hashes: keep the block that get_cached_block found for each"
    if None in value:
        return "None is no block: ask what get_cached_block found before you keep it"
    if not value and wanted:
        if block_size != 16:
            return f"blocks hold block_size tokens, here {block_size}: don't write another number"
        if max_length < 32:
            return "a bound of 16 tokens has room for one whole block of 16"
        return "nothing is kept: append what get_cached_block found, as long as it finds something"
    found = [index + 1 for index in cached]
    if value == found and len(cached) < 4:
        return "the hit goes on behind a hole; the KV of a later block is of use only with all that stands before it"
    if value == found:
        whole = f"{max_length} // {block_size} = {max_length // block_size}"
        return f"the bound is in tokens, block_hashes counts blocks: {whole}; a block that fits only in part is no hit"
    if len(value) == len(wanted) + 1:
        return f"one block too many: round down, {max_length} // {block_size} = {max_length // block_size}"
    if len(value) == len(wanted) - 1 and len(cached) == 4:
        fit = f"{max_length} // {block_size} blocks fit"
        return f"one block too few: the - 1 of the cap is in max_length already, and {fit}"
    if len(value) < len(wanted):
        return f"the hit ends too early: {len(wanted)} whole blocks fit and are cached"
    return "the hit is the run of cached blocks from the start, and ends at the first one that is missing"


# ---- the cap


def check_max_cache_hit_length(function: Student) -> None:
    """Whether `function(request)` gives the bound that KVCacheManager.get_computed_blocks hands to the lookup."""

    def run() -> str:
        cases = ((64, 0), (17, 0), (1, 0), (9, 8))
        for num_prompt, num_outputs in cases:
            _check_cap(function, num_prompt, num_outputs)
        return f"{len(cases)} requests, one of them resumed with its outputs"

    report("max_cache_hit_length", run)


def _check_cap(function: Student, num_prompt: int, num_outputs: int) -> None:
    request = _resumed(num_prompt, num_outputs)
    wanted, known = _core_cap(request), request.num_tokens
    outputs = f" and {num_outputs} outputs" if num_outputs else ""
    name = f"a prompt of {num_prompt}{outputs}"
    value = call_on_copies(name, function, request)
    if type(value) is int and value == wanted:
        return
    if type(value) is not int:
        why = "a number of tokens is wanted, an int"
    elif value == known:
        why = "no cap: if all blocks are cached, 0 tokens are left, and no position gives the logits of the next token"
    elif value == num_prompt - 1:
        why = "this is the prompt's length; a resumed request comes back with its outputs, and their blocks can be hit"
    elif value == wanted // 16 * 16 or value == known - 16:
        why = "the cap is in tokens and knows no block size; find_longest_cache_hit rounds down to whole blocks"
    elif value == 0:
        why = "this is num_computed_tokens or a hit of nothing; the cap is the longest hit that is allowed"
    else:
        why = f"of {known} known tokens all but the last may come from the cache"
    raise Wrong(name, wanted, repr(value), why)


def _resumed(num_prompt: int, num_outputs: int) -> Request:
    request = hashed_request("r", range(num_prompt), 1)
    for token in range(num_outputs):
        request.append_output_token_ids(1000 + token)
    return request


def _core_cap(request: Request) -> int:
    """With blocks of one token nothing is rounded: what a fully cached request hits is the cap."""
    cache = CacheConfig(block_size=1, num_gpu_blocks=256)
    manager = KVCacheManager(EngineConfig(SchedulerConfig(), cache))
    manager.allocate_slots(hashed_request("first", request.all_token_ids, 1), request.num_tokens)
    return manager.get_computed_blocks(request)[1]
