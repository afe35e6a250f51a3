"""The pool of KV blocks: who is free, who is shared, who can be found again.

Mirrors vllm/v1/core/block_pool.py (BlockPool, BlockHashToBlockMap).
"""

from collections.abc import Iterable, Sequence

from minivllm.core.kv_cache_utils import FreeKVCacheBlockQueue, KVCacheBlock
from minivllm.request import BlockHash


class BlockHashToBlockMap:
    """Finds a cached block by its hash. Blocks with equal hashes are all kept; the one filed first is found first.

    Almost every hash has one block, so a dict of blocks is made for the second one only.
    """

    def __init__(self) -> None:
        self._cache: dict[BlockHash, KVCacheBlock | dict[int, KVCacheBlock]] = {}

    def get_one_block(self, block_hash: BlockHash) -> KVCacheBlock | None:
        found = self._cache.get(block_hash)
        return next(iter(found.values())) if isinstance(found, dict) else found

    def insert(self, block_hash: BlockHash, block: KVCacheBlock) -> None:
        found = self._cache.setdefault(block_hash, block)
        if isinstance(found, dict):
            found[block.block_id] = block
        elif found is not block:
            self._cache[block_hash] = {found.block_id: found, block.block_id: block}

    def pop(self, block_hash: BlockHash, block: KVCacheBlock) -> None:
        found = self._cache.pop(block_hash)
        if isinstance(found, dict):
            del found[block.block_id]
            if found:
                self._cache[block_hash] = found

    def items(self) -> Iterable[tuple[BlockHash, list[KVCacheBlock]]]:
        """Every hash with its blocks, the one that a lookup finds first; for looking, not for scheduling."""
        for block_hash, found in self._cache.items():
            yield block_hash, list(found.values()) if isinstance(found, dict) else [found]

    def __len__(self) -> int:
        return len(self._cache)


class BlockPool:
    """Owns every block, its ref count and its place in the free queue.

    A block is in one of two places: in the free queue with ref_cnt 0, or in ref_cnt block tables. Having a hash is
    another matter: a freed block keeps it, and can be hit, until somebody takes the block.

    Args:
        num_gpu_blocks: blocks in the pool; block 0 becomes the null block.
        num_kv_cache_groups: groups whose hashes are filed apart.
    """

    def __init__(self, num_gpu_blocks: int, num_kv_cache_groups: int = 1) -> None:
        self.num_gpu_blocks = num_gpu_blocks
        self.blocks = [KVCacheBlock(block_id) for block_id in range(num_gpu_blocks)]
        self.free_block_queue = FreeKVCacheBlockQueue(self.blocks)
        self.cached_block_hash_to_block = tuple(BlockHashToBlockMap() for _ in range(num_kv_cache_groups))
        self.null_block = self.free_block_queue.popleft_n(1)[0]
        self.null_block.is_null = True

    def get_num_free_blocks(self) -> int:
        """Blocks that can be taken now, those with a hash among them."""
        return self.free_block_queue.num_free_blocks

    def get_usage(self) -> float:
        """The share of the pool, null block apart, that is in some block table: 0.0 to 1.0."""
        usable = self.num_gpu_blocks - 1
        return 1.0 - self.get_num_free_blocks() / usable if usable else 0.0

    def get_cached_block(self, block_hash: BlockHash, kv_cache_group_ids: Sequence[int]) -> list[KVCacheBlock] | None:
        """The blocks with that hash, one a group; None if any group lacks it. Nothing is changed by looking."""
        blocks = []
        for group_id in kv_cache_group_ids:
            block = self.cached_block_hash_to_block[group_id].get_one_block(block_hash)
            if block is None:
                return None
            blocks.append(block)
        return blocks

    def cache_full_blocks(
        self, blocks: Sequence[KVCacheBlock], block_hashes: Sequence[BlockHash], kv_cache_group_id: int
    ) -> None:
        """Files full blocks under their hashes, null blocks apart. Lengths must agree."""
        cache = self.cached_block_hash_to_block[kv_cache_group_id]
        for block, block_hash in zip(blocks, block_hashes, strict=True):
            if block.is_null:
                continue
            block.block_hash = block_hash
            block.kv_cache_group_id = kv_cache_group_id
            cache.insert(block_hash, block)

    def get_new_blocks(self, num_blocks: int) -> list[KVCacheBlock]:
        """Takes blocks from the front of the free queue, each with ref_cnt 1; what was cached in them is lost.

        Raises:
            ValueError: fewer blocks are free; nothing is taken.
        """
        blocks = self.free_block_queue.popleft_n(num_blocks)
        for block in blocks:
            if block.block_hash is not None:
                self._maybe_evict_cached_block(block)
            block.ref_cnt = 1
        return blocks

    def _maybe_evict_cached_block(self, block: KVCacheBlock) -> None:
        if block.block_hash is not None:
            self.cached_block_hash_to_block[block.kv_cache_group_id].pop(block.block_hash, block)
            block.block_hash = None

    def touch(self, blocks: Iterable[KVCacheBlock]) -> None:
        """One more table holds each of these blocks; those that were free leave the free queue."""
        for block in blocks:
            if block.ref_cnt == 0 and not block.is_null:
                self.free_block_queue.remove(block)
            block.ref_cnt += 1

    def free_blocks(self, ordered_blocks: Iterable[KVCacheBlock]) -> None:
        """One table less holds each of these blocks. Those that nobody holds any more become free.

        Args:
            ordered_blocks: the block to be taken first goes first; for a whole table that is tail first.

        A block without a hash can serve nobody, so it goes to the front of the free queue; one with a hash goes to the
        end, where it lives longest.
        """
        without_hash: list[KVCacheBlock] = []
        with_hash: list[KVCacheBlock] = []
        for block in ordered_blocks:
            block.ref_cnt -= 1
            if block.ref_cnt == 0 and not block.is_null:
                (without_hash if block.block_hash is None else with_hash).append(block)
        self.free_block_queue.prepend_n(without_hash)
        self.free_block_queue.append_n(with_hash)

    def evict_blocks(self, block_ids: Iterable[int]) -> None:
        """Takes blocks out of the prefix cache, wherever they are; tables, ref counts and the free queue stay."""
        for block_id in block_ids:
            self._maybe_evict_cached_block(self.blocks[block_id])

    def reset_prefix_cache(self) -> bool:
        """Forgets every hash; False, and nothing changes, while some table holds a block."""
        if self.get_num_free_blocks() != self.num_gpu_blocks - 1:
            return False
        for block in self.blocks:
            self._maybe_evict_cached_block(block)
        return True
