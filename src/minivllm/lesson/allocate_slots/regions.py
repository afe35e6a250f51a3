"""The block pool at one moment: which block lies in which region, and the free queue in order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from minivllm.core.block_pool import BlockPool
from minivllm.core.kv_cache_manager import KVCacheManager
from minivllm.core.kv_cache_utils import KVCacheBlock
from minivllm.core.sched.scheduler import Scheduler
from minivllm.lesson.common.load import Load
from minivllm.lesson.common.run import MAX_STEPS, Run
from minivllm.lesson.common.table import Table
from minivllm.lesson.common.watch import snapshot


@dataclass(frozen=True)
class PoolView:
    """A BlockPool, copied out.

    Attributes:
        refs: ref count of each block whose count is not 0, by block id; the null block apart.
        free: the free queue, front first. Never more blocks than the pool has, even where its links are broken.
        cached: blocks that the prefix cache can find.
        num_free: blocks in the free queue, as the queue counts them.
    """

    refs: Mapping[int, int]
    free: tuple[int, ...]
    cached: frozenset[int]
    num_free: int

    @classmethod
    def of(cls, pool: BlockPool) -> PoolView:
        blocks = [block for block in pool.blocks if not block.is_null]
        return cls(
            refs={block.block_id: block.ref_cnt for block in blocks if block.ref_cnt},
            free=_walk(blocks),
            cached=frozenset(block.block_id for block in blocks if block.block_hash is not None),
            num_free=pool.get_num_free_blocks(),
        )

    @property
    def tangled(self) -> bool:
        """Whether the free queue is broken: a block was put into it twice or taken out badly, or its count is wrong."""
        return self.num_free != len(self.free) or len(set(self.free)) != len(self.free)

    @property
    def queue(self) -> str:
        """The free queue as text, front first, with a star behind each block that is still cached."""
        blocks = " ".join(f"{block}{'*' if block in self.cached else ''}" for block in self.free) or "empty"
        return f"{blocks} (broken: {self.num_free} are counted)" if self.tangled else blocks

    @property
    def table(self) -> Table:
        regions = {
            "null": ["0"],
            "owned": [f"{block} (ref {ref})" for block, ref in self.refs.items()],
            "free, cached": [str(block) for block in self.free if block in self.cached],
            "free, not cached": [str(block) for block in self.free if block not in self.cached],
        }
        rows = [(region, len(blocks), ", ".join(blocks) or "-") for region, blocks in regions.items()]
        note = f"free queue, front first (* is cached): {self.queue}"
        return Table(("region", "count", "blocks"), rows, note=note)


def regions(where: BlockPool | KVCacheManager | Scheduler) -> Table:
    """The regions of a pool: the null block, owned blocks with their ref counts, free ones with and without a hash."""
    manager = where.kv_cache_manager if isinstance(where, Scheduler) else where
    return PoolView.of(manager.block_pool if isinstance(manager, KVCacheManager) else manager).table


def watch_tables(load: Load) -> Table:
    """Run `load` to its end: block tables and free queue right after each `schedule()`.

    It ends after MAX_STEPS steps, or earlier where a request stands still for ever. Block 0 in a table is the null
    block; a star marks a free block that is still cached.
    """
    run = Run(load)
    groups = len(load.config.cache.kv_cache_groups)
    rows: list[tuple[object, ...]] = []
    standstill: str | None = None
    while not run.finished and not standstill and run.num_steps < MAX_STEPS:
        run.arrive()
        index, step = run.num_steps, run.schedule()
        queue = PoolView.of(run.scheduler.kv_cache_manager.block_pool).queue
        for view in snapshot(run.scheduler):
            tables = [" ".join(map(str, ids)) or "-" for ids in run.tables_of(view.request_id)]
            rows.append((index, view.request_id, view.status, view.computed, *tables, queue))
            queue = '"'
        run.answer(step)
        standstill = run.standstill(step)
    tables = ["block table"] if groups == 1 else [f"block table, group {group}" for group in range(groups)]
    note = standstill or ("" if run.finished else f"stopped after {MAX_STEPS} steps")
    return Table(("step", "request", "status", "computed", *tables, "free queue, front first"), rows, note=note)


def _walk(blocks: list[KVCacheBlock]) -> tuple[int, ...]:
    """The free queue by its links alone, at most one lap: the queue's own walk would not end in a loop of links."""
    block = next((b for b in blocks if b.prev_free_block is not None and b.prev_free_block.block_id < 0), None)
    free: list[int] = []
    while block is not None and block.block_id >= 0 and len(free) < len(blocks):
        free.append(block.block_id)
        block = block.next_free_block
    return tuple(free)
