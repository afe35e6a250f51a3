"""A Load with the settings that decide about memory, and a view of every block table while it runs."""

from dataclasses import dataclass, replace

from minivllm.config import CacheConfig, EngineConfig, SpeculativeConfig
from minivllm.kv_cache_interface import FullAttentionSpec, KVCacheSpec
from minivllm.lesson.load import MAX_STEPS, Load, Run
from minivllm.lesson.views.regions import PoolView
from minivllm.lesson.table import Table
from minivllm.lesson.watch import snapshot


@dataclass(frozen=True)
class SlotsLoad(Load):
    """A Load with the settings that `allocate_slots` meets.

    Attributes:
        watermark: the fraction of the pool that an admission leaves free while others run.
        scheduler_reserve_full_isl: the full-sequence gate.
        lookahead: KV slots behind a request's tokens that a draft model writes to; 0 for no draft model.
        kv_cache_groups: one spec a group of layers.
    """

    watermark: float = 0.0
    scheduler_reserve_full_isl: bool = True
    lookahead: int = 0
    kv_cache_groups: tuple[KVCacheSpec, ...] = (FullAttentionSpec(),)

    @property
    def config(self) -> EngineConfig:
        config = super().config
        drafter = SpeculativeConfig("draft_model", self.lookahead) if self.lookahead else config.speculative
        return replace(
            config,
            scheduler=replace(
                config.scheduler,
                watermark=self.watermark,
                scheduler_reserve_full_isl=self.scheduler_reserve_full_isl,
            ),
            cache=CacheConfig(self.block_size, self.blocks, kv_cache_groups=self.kv_cache_groups),
            speculative=drafter,
        )


def after(load: Load, steps: int) -> Run:
    """`load` after that many steps, with the requests of the next one in the queue."""
    run = Run(load)
    for _ in range(steps):
        run.step()
    run.arrive()
    return run


def tables_of(run: Run, request_id: str) -> tuple[list[int], ...]:
    """Block ids of a request, one list a KV cache group."""
    return run.scheduler.kv_cache_manager.get_blocks(request_id).get_block_ids()


def watch_tables(load: Load) -> Table:
    """Run `load` to its end (at most MAX_STEPS steps): block tables and free queue right after each `schedule()`.

    Block 0 in a table is the null block; a star marks a free block that is still cached.
    """
    run = Run(load)
    groups = len(load.config.cache.kv_cache_groups)
    rows: list[tuple[object, ...]] = []
    while not run.finished and run.num_steps < MAX_STEPS:
        run.arrive()
        index, step = run.num_steps, run.schedule()
        queue = PoolView.of(run.scheduler.kv_cache_manager.block_pool).queue
        for view in snapshot(run.scheduler):
            tables = [" ".join(map(str, ids)) or "-" for ids in tables_of(run, view.request_id)]
            rows.append((index, view.request_id, view.status, view.computed, *tables, queue))
            queue = '"'
        run.answer(step)
    tables = ["block table"] if groups == 1 else [f"block table, group {group}" for group in range(groups)]
    note = "" if run.finished else f"stopped after {MAX_STEPS} steps"
    return Table(("step", "request", "status", "computed", *tables, "free queue, front first"), rows, note=note)
