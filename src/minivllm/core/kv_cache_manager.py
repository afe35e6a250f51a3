"""What the scheduler asks about memory: is it cached, does it fit, give it back.

Mirrors vllm/v1/core/kv_cache_manager.py (KVCacheManager, KVCacheBlocks).
"""

from collections.abc import Iterable
from dataclasses import dataclass

from minivllm.config import EngineConfig
from minivllm.core.kv_cache_coordinator import GroupBlocks, get_kv_cache_coordinator
from minivllm.request import Request, RequestStatus


@dataclass(slots=True)
class KVCacheBlocks:
    """Blocks of one request, one sequence a group; the scheduler hands them on without looking inside."""

    blocks: GroupBlocks

    def get_block_ids(self) -> tuple[list[int], ...]:
        return tuple([block.block_id for block in group] for group in self.blocks)


class KVCacheManager:
    """Block tables and prefix cache of all requests.

    Raises:
        ValueError: what the configuration asks for is impossible; see CacheConfig.
    """

    def __init__(self, config: EngineConfig) -> None:
        self.max_model_len = config.scheduler.max_model_len
        self.enable_caching = config.cache.enable_prefix_caching
        self.watermark_blocks = int(config.scheduler.watermark * config.cache.num_gpu_blocks)
        self.coordinator = get_kv_cache_coordinator(config)
        self.block_pool = self.coordinator.block_pool
        self.empty_kv_cache_blocks = KVCacheBlocks(tuple(() for _ in config.cache.kv_cache_groups))

    @property
    def usage(self) -> float:
        """The share of the pool that is in use: 0.0 to 1.0."""
        return self.block_pool.get_usage()

    def get_computed_blocks(self, request: Request) -> tuple[KVCacheBlocks, int]:
        """The cached blocks from the request's start on, and the tokens they hold. A lookup: no ref count changes.

        The cache holds keys and values, not the logits of the last token, so one token at least has to be computed:
        the hit ends at ``num_tokens - 1`` at the latest, and since blocks are cached whole, at a block boundary.
        """
        if not self.enable_caching or request.sampling_params.skip_reading_prefix_cache:
            return self.empty_kv_cache_blocks, 0
        max_cache_hit_length = request.num_tokens - 1
        blocks, num_computed_tokens = self.coordinator.find_longest_cache_hit(
            request.block_hashes, max_cache_hit_length
        )
        if num_computed_tokens == 0:
            return self.empty_kv_cache_blocks, 0
        return KVCacheBlocks(blocks), num_computed_tokens

    def allocate_slots(
        self,
        request: Request,
        num_new_tokens: int,
        num_new_computed_tokens: int = 0,
        new_computed_blocks: KVCacheBlocks | None = None,
        num_lookahead_tokens: int = 0,
        full_sequence_must_fit: bool = False,
        has_scheduled_reqs: bool = True,
    ) -> KVCacheBlocks | None:
        """Gives a request slots for its next tokens, or nothing at all if the pool is short of blocks.

        ::

            | computed | new computed | new tokens | lookahead |
                       | the hit      | to compute | drafts' KV |
                                      | blocks needed up to here |

        Args:
            request: RUNNING, or WAITING / PREEMPTED and about to be admitted.
            num_new_tokens: tokens to compute, draft tokens included; at least 1.
            num_new_computed_tokens: tokens of the prefix hit (admissions).
            new_computed_blocks: blocks of the prefix hit (admissions).
            num_lookahead_tokens: slots for the drafter behind the new tokens.
            full_sequence_must_fit: whether all known tokens have to fit, not only this step's (admissions).
            has_scheduled_reqs: whether others run; an idle engine ignores the watermark.

        Returns:
            The new blocks, or None if more blocks are needed than are free. After None all is as before, but for blocks
            that a sliding window had left behind: those are released either way.

        Raises:
            ValueError: ``num_new_tokens`` is less than 1.
        """
        if num_new_tokens < 1:
            raise ValueError(
                f"allocate_slots({request.request_id!r}): num_new_tokens is {num_new_tokens}, but must be at least 1: "
                "a step without a new token has nothing to compute."
            )
        coordinator = self.coordinator
        num_free_blocks = self.block_pool.get_num_free_blocks
        request_id = request.request_id
        hit_blocks = (new_computed_blocks or self.empty_kv_cache_blocks).blocks
        num_computed_tokens = request.num_computed_tokens + num_new_computed_tokens

        watermark_blocks = 0
        if has_scheduled_reqs and request.status is not RequestStatus.RUNNING:
            watermark_blocks = self.watermark_blocks

        if full_sequence_must_fit:
            num_blocks_to_allocate = coordinator.get_num_blocks_to_allocate(
                request_id,
                min(request.num_tokens, self.max_model_len),
                hit_blocks,
                num_computed_tokens,
                apply_admission_cap=True,
            )
            if num_blocks_to_allocate + watermark_blocks > num_free_blocks():
                return None

        coordinator.remove_skipped_blocks(request_id, num_computed_tokens)

        num_tokens_need_slot = min(num_computed_tokens + num_new_tokens + num_lookahead_tokens, self.max_model_len)
        num_blocks_to_allocate = coordinator.get_num_blocks_to_allocate(
            request_id, num_tokens_need_slot, hit_blocks, num_computed_tokens
        )
        if num_blocks_to_allocate + watermark_blocks > num_free_blocks():
            return None

        if num_new_computed_tokens:
            coordinator.add_local_computed_blocks(request_id, hit_blocks, num_computed_tokens)
        new_blocks = self.empty_kv_cache_blocks
        if num_blocks_to_allocate:
            new_blocks = KVCacheBlocks(coordinator.allocate_new_blocks(request_id, num_tokens_need_slot))
        if self.enable_caching:
            # Draft tokens may be rejected, so only known tokens give a block its hash.
            coordinator.cache_blocks(request, min(num_computed_tokens + num_new_tokens, request.num_tokens))
        return new_blocks

    def get_num_blocks_needed_at_once(self, request: Request, num_lookahead_tokens: int) -> int:
        """Blocks that a waiting request holds at the least when its last known token is computed, no prefix shared."""
        num_tokens_need_slot = min(request.num_tokens + num_lookahead_tokens, self.max_model_len)
        return self.coordinator.get_num_blocks_to_allocate(
            request.request_id,
            num_tokens_need_slot,
            self.empty_kv_cache_blocks.blocks,
            total_computed_tokens=request.num_tokens - 1,
        )

    def free(self, request: Request) -> None:
        """Drops the request's tables; its hashed blocks can be hit until somebody takes them."""
        self.coordinator.free(request.request_id)

    def get_blocks(self, request_id: str) -> KVCacheBlocks:
        """The request's block tables; empty if it holds none."""
        return KVCacheBlocks(self.coordinator.get_blocks(request_id))

    def evict_blocks(self, block_ids: Iterable[int]) -> None:
        """Takes blocks out of the prefix cache because what they hold is not what their hash says."""
        self.block_pool.evict_blocks(block_ids)

    def reset_prefix_cache(self) -> bool:
        """Forgets every hash; False, and nothing changes, while some table holds a block."""
        return self.block_pool.reset_prefix_cache()
