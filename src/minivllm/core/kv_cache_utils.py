"""Blocks, the queue of free blocks, and the hash chain.

Mirrors vllm/v1/core/kv_cache_utils.py (KVCacheBlock, FreeKVCacheBlockQueue, hash_block_tokens,
get_request_block_hasher).
"""

import hashlib
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from minivllm.request import BlockHash, Request

NONE_HASH = BlockHash(hashlib.sha256(b"minivllm").digest())
"""The parent of every first block."""


def hash_block_tokens(
    parent_block_hash: BlockHash | None,
    token_ids: Sequence[int],
    extra_keys: tuple[str, ...] | None = None,
) -> BlockHash:
    """The hash of one full block: 32 bytes that stand for its tokens and for every block before it.

    Args:
        parent_block_hash: the hash of the block before; None for the first block.
        token_ids: the block's tokens, ``block_size`` of them.
        extra_keys: what else two blocks must have in common, here the cache salt (first block only).
    """
    digest = hashlib.sha256(parent_block_hash or NONE_HASH)
    digest.update(array("q", token_ids).tobytes())
    if extra_keys:
        digest.update(repr(extra_keys).encode())
    return BlockHash(digest.digest())


@dataclass(slots=True)
class RequestBlockHasher:
    """Hashes the full blocks of a request that are not hashed yet (get_request_block_hasher)."""

    block_size: int

    def __call__(self, request: Request) -> list[BlockHash]:
        block_size = self.block_size
        token_ids = request.all_token_ids
        num_hashed = len(request.block_hashes)
        parent = request.block_hashes[-1] if num_hashed else None
        hashes = []
        for start in range(num_hashed * block_size, len(token_ids) - block_size + 1, block_size):
            extra_keys = (request.cache_salt,) if start == 0 and request.cache_salt else None
            parent = hash_block_tokens(parent, token_ids[start : start + block_size], extra_keys)
            hashes.append(parent)
        return hashes


@dataclass(slots=True, eq=False)
class KVCacheBlock:
    """One block of the pool. The BlockPool alone changes it.

    Attributes:
        block_id: its place in the pool, 0 to num_gpu_blocks - 1.
        ref_cnt: block tables that hold it (not kept for the null block).
        block_hash: set while the prefix cache can find the block; it survives the way into the free queue.
        kv_cache_group_id: the group under which ``block_hash`` is filed.
        prev_free_block, next_free_block: its neighbours in the free queue; None outside it.
        is_null: True for block 0, which stands where a sliding window needs no block.
    """

    block_id: int
    ref_cnt: int = 0
    block_hash: BlockHash | None = None
    kv_cache_group_id: int = 0
    prev_free_block: "KVCacheBlock | None" = None
    next_free_block: "KVCacheBlock | None" = None
    is_null: bool = False

    def __repr__(self) -> str:
        cached = "cached" if self.block_hash is not None else "not cached"
        return f"KVCacheBlock({self.block_id}, ref_cnt={self.ref_cnt}, {cached})"


class FreeKVCacheBlockQueue:
    """The free blocks in the order in which they will be taken: a doubly linked list through the blocks themselves.

    A hit can take a block out of the middle in O(1), which a deque can't. Two sentinels save the special cases at both
    ends.

    Args:
        blocks: the blocks that are free at the start, in order.
    """

    def __init__(self, blocks: Sequence[KVCacheBlock]) -> None:
        self._head = KVCacheBlock(-1)
        self._tail = KVCacheBlock(-1)
        self._head.next_free_block = self._tail
        self._tail.prev_free_block = self._head
        self.num_free_blocks = 0
        self.append_n(blocks)

    def popleft_n(self, n: int) -> list[KVCacheBlock]:
        """Takes the ``n`` blocks that are first in line.

        Raises:
            ValueError: fewer than ``n`` blocks are free; nothing is taken.
        """
        if n > self.num_free_blocks:
            raise ValueError(
                f"FreeKVCacheBlockQueue holds {self.num_free_blocks} blocks, but {n} were asked for: compare with "
                "num_free_blocks first."
            )
        blocks = []
        block = self._head.next_free_block
        for _ in range(n):
            assert block is not None
            following = block.next_free_block
            block.prev_free_block = block.next_free_block = None
            blocks.append(block)
            block = following
        assert block is not None
        self._head.next_free_block = block
        block.prev_free_block = self._head
        self.num_free_blocks -= n
        return blocks

    def remove(self, block: KVCacheBlock) -> None:
        """Takes a block out, wherever it stands.

        Raises:
            ValueError: the block is not in the queue.
        """
        before, after = block.prev_free_block, block.next_free_block
        if before is None or after is None:
            raise ValueError(f"{block!r} is not in the free queue: only a block with ref_cnt 0 is there.")
        before.next_free_block = after
        after.prev_free_block = before
        block.prev_free_block = block.next_free_block = None
        self.num_free_blocks -= 1

    def append_n(self, blocks: Sequence[KVCacheBlock]) -> None:
        """Puts blocks at the end, to be taken last; the first of them goes before the others."""
        assert self._tail.prev_free_block is not None
        self._link(self._tail.prev_free_block, blocks, self._tail)

    def prepend_n(self, blocks: Sequence[KVCacheBlock]) -> None:
        """Puts blocks at the front, to be taken next; the first of them is taken first."""
        assert self._head.next_free_block is not None
        self._link(self._head, blocks, self._head.next_free_block)

    def get_all_free_blocks(self) -> list[KVCacheBlock]:
        """All free blocks, next one first; for looking, not for scheduling."""
        blocks = []
        block = self._head.next_free_block
        while block is not None and block is not self._tail:
            blocks.append(block)
            block = block.next_free_block
        return blocks

    def _link(self, before: KVCacheBlock, blocks: Iterable[KVCacheBlock], after: KVCacheBlock) -> None:
        for block in blocks:
            before.next_free_block = block
            block.prev_free_block = before
            before = block
            self.num_free_blocks += 1
        before.next_free_block = after
        after.prev_free_block = before
