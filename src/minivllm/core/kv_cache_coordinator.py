"""Several KV cache groups over one pool: who must agree on a prefix hit.

Mirrors vllm/v1/core/kv_cache_coordinator.py (KVCacheCoordinator and its three kinds).
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from minivllm.config import EngineConfig
from minivllm.core.block_pool import BlockPool
from minivllm.core.kv_cache_utils import KVCacheBlock
from minivllm.core.single_type_kv_cache_manager import SingleTypeKVCacheManager, get_manager_for_kv_cache_spec
from minivllm.kv_cache_interface import FullAttentionSpec, KVCacheSpec
from minivllm.request import BlockHash, Request

GroupBlocks = tuple[Sequence[KVCacheBlock], ...]
"""Blocks of every group, in the order of the groups."""


class KVCacheCoordinator(ABC):
    """Asks every group's manager in turn. All groups draw from one BlockPool."""

    def __init__(self, config: EngineConfig) -> None:
        cache = config.cache
        self.block_size = cache.block_size
        self.kv_cache_groups = cache.kv_cache_groups
        self.use_eagle = config.speculative is not None and config.speculative.use_eagle
        self.block_pool = BlockPool(cache.num_gpu_blocks, len(cache.kv_cache_groups))
        self.single_type_managers = tuple(
            get_manager_for_kv_cache_spec(
                spec,
                block_size=cache.block_size,
                block_pool=self.block_pool,
                kv_cache_group_id=group_id,
                max_in_flight_tokens=config.scheduler.max_num_batched_tokens,
                max_model_len=config.scheduler.max_model_len,
                use_eagle=self.use_eagle,
            )
            for group_id, spec in enumerate(cache.kv_cache_groups)
        )

    def get_num_blocks_to_allocate(
        self,
        request_id: str,
        num_tokens: int,
        new_computed_blocks: GroupBlocks,
        total_computed_tokens: int,
        apply_admission_cap: bool = False,
    ) -> int:
        """Blocks that leave the free queue, over all groups; see SingleTypeKVCacheManager."""
        num_blocks = 0
        for manager in self.single_type_managers:
            num_blocks += manager.get_num_blocks_to_allocate(
                request_id,
                num_tokens,
                new_computed_blocks[manager.kv_cache_group_id],
                total_computed_tokens,
                apply_admission_cap,
            )
        return num_blocks

    def add_local_computed_blocks(
        self, request_id: str, new_computed_blocks: GroupBlocks, num_computed_tokens: int
    ) -> None:
        """Touches the hit of every group before any group takes a new block, which could be a hit of the next."""
        for manager, blocks in zip(self.single_type_managers, new_computed_blocks, strict=True):
            manager.add_local_computed_blocks(request_id, blocks, num_computed_tokens)

    def allocate_new_blocks(self, request_id: str, num_tokens: int) -> GroupBlocks:
        return tuple([manager.allocate_new_blocks(request_id, num_tokens) for manager in self.single_type_managers])

    def cache_blocks(self, request: Request, num_tokens: int) -> None:
        for manager in self.single_type_managers:
            manager.cache_blocks(request, num_tokens)

    def remove_skipped_blocks(self, request_id: str, num_computed_tokens: int) -> None:
        for manager in self.single_type_managers:
            manager.remove_skipped_blocks(request_id, num_computed_tokens)

    def free(self, request_id: str) -> None:
        for manager in self.single_type_managers:
            manager.free(request_id)

    def get_blocks(self, request_id: str) -> GroupBlocks:
        """The request's block table in every group."""
        return tuple(manager.req_to_blocks.get(request_id, ()) for manager in self.single_type_managers)

    @abstractmethod
    def find_longest_cache_hit(
        self, block_hashes: Sequence[BlockHash], max_cache_hit_length: int
    ) -> tuple[GroupBlocks, int]:
        """The blocks of the longest hit that every group has, and its length in tokens."""


class KVCacheCoordinatorNoPrefixCache(KVCacheCoordinator):
    """Prefix caching is off: any number of groups, and never a hit."""

    def find_longest_cache_hit(
        self, block_hashes: Sequence[BlockHash], max_cache_hit_length: int
    ) -> tuple[GroupBlocks, int]:
        return tuple(() for _ in self.single_type_managers), 0


class UnitaryKVCacheCoordinator(KVCacheCoordinator):
    """One group: its hit is the hit."""

    def find_longest_cache_hit(
        self, block_hashes: Sequence[BlockHash], max_cache_hit_length: int
    ) -> tuple[GroupBlocks, int]:
        blocks = self.single_type_managers[0].find_longest_cache_hit(
            block_hashes,
            max_cache_hit_length,
            kv_cache_group_ids=(0,),
            block_pool=self.block_pool,
            kv_cache_spec=self.kv_cache_groups[0],
            block_size=self.block_size,
            drop_eagle_block=self.use_eagle,
        )
        return blocks, len(blocks[0]) * self.block_size


@dataclass(frozen=True)
class SpecGroup:
    """Groups with equal specs: looked up together."""

    spec: KVCacheSpec
    group_ids: list[int]
    manager_cls: type[SingleTypeKVCacheManager]


class HybridKVCacheCoordinator(KVCacheCoordinator):
    """Several kinds of attention: each can only shorten the hit, until all accept one length."""

    def __init__(self, config: EngineConfig) -> None:
        super().__init__(config)
        by_spec: dict[KVCacheSpec, SpecGroup] = {}
        for group_id, (spec, manager) in enumerate(zip(self.kv_cache_groups, self.single_type_managers, strict=True)):
            by_spec.setdefault(spec, SpecGroup(spec, [], type(manager))).group_ids.append(group_id)
        # Full attention scans from the left and so gives the tightest first bound.
        self.attention_groups = sorted(by_spec.values(), key=lambda group: not _is_full(group))

    def find_longest_cache_hit(
        self, block_hashes: Sequence[BlockHash], max_cache_hit_length: int
    ) -> tuple[GroupBlocks, int]:
        hits: dict[int, list[KVCacheBlock]] = {}
        full_hit_length: int | None = None
        eagle_dropped: set[KVCacheSpec] = set()
        hit_length = max_cache_hit_length
        # Behind full attention one other kind has the last word, and needs no second round.
        is_simple_hybrid = len(self.attention_groups) == 2 and _is_full(self.attention_groups[0])

        while True:
            length = hit_length
            for group in self.attention_groups:
                if _is_full(group) and full_hit_length is not None:
                    # Any shorter prefix of a full-attention hit is a hit too.
                    length = min(length, full_hit_length)
                    continue
                drop_eagle_block = self.use_eagle and group.spec not in eagle_dropped
                # EAGLE gives one block back, so look one block further to land where the others are.
                margin = self.block_size if drop_eagle_block else 0
                blocks = group.manager_cls.find_longest_cache_hit(
                    block_hashes,
                    min(length + margin, max_cache_hit_length),
                    kv_cache_group_ids=group.group_ids,
                    block_pool=self.block_pool,
                    kv_cache_spec=group.spec,
                    block_size=self.block_size,
                    drop_eagle_block=drop_eagle_block,
                )
                found_length = len(blocks[0]) * self.block_size
                if drop_eagle_block:
                    eagle_dropped.add(group.spec)
                elif found_length < length:
                    eagle_dropped.clear()
                length = found_length
                hits.update(zip(group.group_ids, blocks, strict=True))
                if _is_full(group):
                    full_hit_length = found_length
            if length >= hit_length:
                break
            hit_length = length
            if is_simple_hybrid:
                break

        # Blocks of full attention behind the agreed length are no hit.
        num_blocks = hit_length // self.block_size
        return tuple(hits[group_id][:num_blocks] for group_id in range(len(self.kv_cache_groups))), hit_length


def _is_full(group: SpecGroup) -> bool:
    return isinstance(group.spec, FullAttentionSpec)


def get_kv_cache_coordinator(config: EngineConfig) -> KVCacheCoordinator:
    """The coordinator that a configuration needs (get_kv_cache_coordinator)."""
    if not config.cache.enable_prefix_caching:
        return KVCacheCoordinatorNoPrefixCache(config)
    if len(config.cache.kv_cache_groups) == 1:
        return UnitaryKVCacheCoordinator(config)
    return HybridKVCacheCoordinator(config)
