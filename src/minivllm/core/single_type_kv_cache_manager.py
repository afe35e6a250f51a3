"""The block tables of one KV cache group, for each kind of attention.

Mirrors vllm/v1/core/single_type_kv_cache_manager.py (SingleTypeKVCacheManager, FullAttentionManager,
SlidingWindowManager).
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from minivllm.core.block_pool import BlockPool
from minivllm.core.kv_cache_utils import KVCacheBlock
from minivllm.kv_cache_interface import FullAttentionSpec, KVCacheSpec, SlidingWindowSpec
from minivllm.request import BlockHash, Request


def cdiv(a: int, b: int) -> int:
    """a / b, rounded up."""
    return -(-a // b)


class SingleTypeKVCacheManager(ABC):
    """Owns the block tables of one group.

    Args:
        block_size: tokens in a block.
        block_pool: shared with the other groups.
        kv_cache_group_id: this group's index.
        max_admission_blocks_per_request: what the full-sequence gate counts at most for one request.

    Attributes:
        req_to_blocks: block table of each request that holds blocks, first token first.
        num_cached_block: leading blocks of a table whose hashes are filed; only requests that got past their first
            full block are here.
    """

    def __init__(
        self,
        block_size: int,
        block_pool: BlockPool,
        kv_cache_group_id: int,
        max_admission_blocks_per_request: int | None = None,
    ) -> None:
        self.block_size = block_size
        self.block_pool = block_pool
        self.kv_cache_group_id = kv_cache_group_id
        self.max_admission_blocks_per_request = max_admission_blocks_per_request
        self.req_to_blocks: dict[str, list[KVCacheBlock]] = {}
        self.num_cached_block: dict[str, int] = {}

    def get_num_blocks_to_allocate(
        self,
        request_id: str,
        num_tokens: int,
        new_computed_blocks: Sequence[KVCacheBlock],
        total_computed_tokens: int,
        apply_admission_cap: bool = False,
    ) -> int:
        """Blocks that leave the free queue if the request gets slots for ``num_tokens`` tokens in all.

        New blocks count, and so do hit blocks that are free at the moment: touching them takes them out of the queue.

        Args:
            num_tokens: tokens that need a slot, those with one included.
            new_computed_blocks: the prefix hit, not touched yet; empty for a request that runs.
            total_computed_tokens: computed tokens, the hit included.
            apply_admission_cap: True for the full-sequence gate, where a sliding window never needs the whole table.
        """
        num_required_blocks = cdiv(num_tokens, self.block_size)
        if apply_admission_cap and self.max_admission_blocks_per_request is not None:
            num_required_blocks = min(num_required_blocks, self.max_admission_blocks_per_request)
        blocks = self.req_to_blocks.get(request_id)
        if blocks is not None:
            # Rejected drafts leave blocks behind, so a table can be longer than it has to be.
            return max(num_required_blocks - len(blocks), 0)

        num_skipped_blocks = self.get_num_skipped_tokens(total_computed_tokens) // self.block_size
        num_new_blocks = max(num_required_blocks - max(num_skipped_blocks, len(new_computed_blocks)), 0)
        return num_new_blocks + sum(
            block.ref_cnt == 0 and not block.is_null for block in new_computed_blocks[num_skipped_blocks:]
        )

    def add_local_computed_blocks(
        self, request_id: str, new_computed_blocks: Sequence[KVCacheBlock], num_computed_tokens: int
    ) -> None:
        """Starts the table of a request with its prefix hit: touched here, not when it was looked up."""
        num_skipped_blocks = self.get_num_skipped_tokens(num_computed_tokens) // self.block_size
        hit_blocks = new_computed_blocks[num_skipped_blocks:]
        self.block_pool.touch(hit_blocks)
        self.req_to_blocks[request_id] = [self.block_pool.null_block] * num_skipped_blocks + list(hit_blocks)
        self.num_cached_block[request_id] = num_skipped_blocks + len(hit_blocks)

    def allocate_new_blocks(self, request_id: str, num_tokens: int) -> list[KVCacheBlock]:
        """Appends the blocks that ``num_tokens`` tokens in all still need, and returns them."""
        blocks = self.req_to_blocks.setdefault(request_id, [])
        num_new_blocks = cdiv(num_tokens, self.block_size) - len(blocks)
        if num_new_blocks <= 0:
            return []
        new_blocks = self.block_pool.get_new_blocks(num_new_blocks)
        blocks.extend(new_blocks)
        return new_blocks

    def cache_blocks(self, request: Request, num_tokens: int) -> None:
        """Files the hashes of the blocks that the first ``num_tokens`` tokens fill."""
        num_cached_blocks = self.num_cached_block.get(request.request_id, 0)
        num_full_blocks = num_tokens // self.block_size
        if num_cached_blocks >= num_full_blocks:
            return
        self.block_pool.cache_full_blocks(
            self.req_to_blocks[request.request_id][num_cached_blocks:num_full_blocks],
            request.block_hashes[num_cached_blocks:num_full_blocks],
            self.kv_cache_group_id,
        )
        self.num_cached_block[request.request_id] = num_full_blocks

    def free(self, request_id: str) -> None:
        """Drops the table, tail first, so that the head of a prefix outlives its tail; no table is no error."""
        blocks = self.req_to_blocks.pop(request_id, [])
        self.num_cached_block.pop(request_id, None)
        self.block_pool.free_blocks(reversed(blocks))

    def remove_skipped_blocks(self, request_id: str, num_computed_tokens: int) -> None:  # noqa: B027
        """Releases the blocks that no later token reads; under full attention there are none."""

    def get_num_skipped_tokens(self, num_computed_tokens: int) -> int:
        """Leading tokens that the next token does not read."""
        return 0

    @classmethod
    @abstractmethod
    def find_longest_cache_hit(
        cls,
        block_hashes: Sequence[BlockHash],
        max_length: int,
        kv_cache_group_ids: Sequence[int],
        block_pool: BlockPool,
        kv_cache_spec: KVCacheSpec,
        block_size: int,
        drop_eagle_block: bool,
    ) -> tuple[list[KVCacheBlock], ...]:
        """The longest hit of at most ``max_length`` tokens, found in every one of the groups.

        Args:
            drop_eagle_block: give the last block back; EAGLE needs the hidden states in front of the first new token.

        Returns:
            One list a group, all of one length, with null blocks where a window needs none.
        """


class FullAttentionManager(SingleTypeKVCacheManager):
    """Every block is needed: a hit is a run of blocks from the start, and ends at the first one that is missing."""

    @classmethod
    def find_longest_cache_hit(
        cls,
        block_hashes: Sequence[BlockHash],
        max_length: int,
        kv_cache_group_ids: Sequence[int],
        block_pool: BlockPool,
        kv_cache_spec: KVCacheSpec,
        block_size: int,
        drop_eagle_block: bool,
    ) -> tuple[list[KVCacheBlock], ...]:
        hits: list[list[KVCacheBlock]] = []
        for block_hash in block_hashes[: max_length // block_size]:
            blocks = block_pool.get_cached_block(block_hash, kv_cache_group_ids)
            if blocks is None:
                break
            hits.append(blocks)
        if drop_eagle_block and hits:
            hits.pop()
        return tuple([blocks[i] for blocks in hits] for i in range(len(kv_cache_group_ids)))


class SlidingWindowManager(SingleTypeKVCacheManager):
    """Only the blocks that reach into the window are needed: a hit is a long enough run anywhere, the last one best."""

    def __init__(
        self,
        kv_cache_spec: SlidingWindowSpec,
        block_size: int,
        block_pool: BlockPool,
        kv_cache_group_id: int,
        max_admission_blocks_per_request: int,
        use_eagle: bool,
    ) -> None:
        super().__init__(block_size, block_pool, kv_cache_group_id, max_admission_blocks_per_request)
        self.sliding_window = kv_cache_spec.sliding_window
        self.use_eagle = use_eagle

    @staticmethod
    def _contiguous_blocks_for_hit(sliding_window: int, block_size: int, use_eagle: bool) -> int:
        return cdiv(sliding_window - 1, block_size) + use_eagle

    def get_num_skipped_tokens(self, num_computed_tokens: int) -> int:
        return max(num_computed_tokens - self.sliding_window + 1, 0)

    def remove_skipped_blocks(self, request_id: str, num_computed_tokens: int) -> None:
        """Releases the blocks left of the window and leaves the null block in their place."""
        blocks = self.req_to_blocks.get(request_id, [])
        num_skipped_blocks = self.get_num_skipped_tokens(num_computed_tokens) // self.block_size
        null_block = self.block_pool.null_block
        removed = []
        for i in range(min(num_skipped_blocks, len(blocks)) - 1, -1, -1):
            if blocks[i] is null_block:
                break
            removed.append(blocks[i])
            blocks[i] = null_block
        if removed:
            self.block_pool.free_blocks(removed)

    def cache_blocks(self, request: Request, num_tokens: int) -> None:
        # A window of one token reads no earlier block, so no block could ever serve a hit.
        if self._contiguous_blocks_for_hit(self.sliding_window, self.block_size, self.use_eagle) == 0:
            return
        super().cache_blocks(request, num_tokens)

    @classmethod
    def find_longest_cache_hit(
        cls,
        block_hashes: Sequence[BlockHash],
        max_length: int,
        kv_cache_group_ids: Sequence[int],
        block_pool: BlockPool,
        kv_cache_spec: KVCacheSpec,
        block_size: int,
        drop_eagle_block: bool,
    ) -> tuple[list[KVCacheBlock], ...]:
        assert isinstance(kv_cache_spec, SlidingWindowSpec)
        num_needed = cls._contiguous_blocks_for_hit(kv_cache_spec.sliding_window, block_size, drop_eagle_block)
        max_num_blocks = min(max_length // block_size, len(block_hashes))
        hits = [[block_pool.null_block] * max_num_blocks for _ in kv_cache_group_ids]
        num_contiguous = 0
        for i in range(max_num_blocks - 1, -1, -1):
            blocks = block_pool.get_cached_block(block_hashes[i], kv_cache_group_ids)
            if blocks is None:
                num_contiguous = 0
                continue
            num_contiguous += 1
            for hit, block in zip(hits, blocks, strict=True):
                hit[i] = block
            if num_contiguous >= num_needed:
                num_blocks = i + num_contiguous
                break
        else:
            # No run is long enough, but one that starts at the first token reads nothing before itself.
            num_blocks = num_contiguous
        if drop_eagle_block and num_blocks:
            num_blocks -= 1
        return tuple(hit[:num_blocks] for hit in hits)


def get_manager_for_kv_cache_spec(
    kv_cache_spec: KVCacheSpec,
    *,
    block_size: int,
    block_pool: BlockPool,
    kv_cache_group_id: int,
    max_in_flight_tokens: int,
    max_model_len: int,
    use_eagle: bool,
) -> SingleTypeKVCacheManager:
    """The manager for one group (get_manager_for_kv_cache_spec)."""
    if isinstance(kv_cache_spec, FullAttentionSpec):
        return FullAttentionManager(block_size, block_pool, kv_cache_group_id)
    max_blocks = kv_cache_spec.max_admission_blocks_per_request(max_in_flight_tokens, max_model_len, block_size)
    return SlidingWindowManager(kv_cache_spec, block_size, block_pool, kv_cache_group_id, max_blocks, use_eagle)
