"""The functions of 3-allocate-slots as pieces of the engine: they know the pool and one table, not the manager."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minivllm.core.kv_cache_utils import KVCacheBlock
from minivllm.lesson.against.seats import FunctionSeat
from minivllm.lesson.allocate_slots.in_engine import OwnKVCacheManager
from minivllm.lesson.common.checks import Misfit
from minivllm.lesson.common.errors import LessonError
from minivllm.observe.recorder import around
from minivllm.request import Request


class _SlotsSeat(FunctionSeat):
    def sit(self) -> None:
        managers = self.scheduler.kv_cache_manager.coordinator.single_type_managers
        if len(managers) > 1:
            raise LessonError(f"{self.name} fills one block table, but this trace has {len(managers)} KV cache groups")
        self.manager = managers[0]
        self.pool = self.manager.block_pool
        self.take_place()

    def take_place(self) -> None:
        raise NotImplementedError


class AllocateSlotsSeat(_SlotsSeat):
    """`allocate_slots(pool, table, ...)`: watermark and full-sequence gate are no part of it, and are left out."""

    def take_place(self) -> None:
        config = self.scheduler.config
        if not config.cache.enable_prefix_caching:
            raise LessonError(f"{self.name} leaves blocks to be cached, but this trace was recorded with caching off")
        self.scheduler.kv_cache_manager = OwnKVCacheManager(config, self._count, _free)

    def _count(self, *args: Any) -> Any:
        self.calls += 1
        return self.piece(*args)


def _free(pool: Any, table: Sequence[KVCacheBlock]) -> None:
    pool.free_blocks(reversed(table))


class FreeSeat(_SlotsSeat):
    """`free(pool, table)`"""

    def take_place(self) -> None:
        around(self.scheduler.kv_cache_manager, "free", self._on_free)

    def _on_free(self, call: Callable[..., Any], request: Request) -> None:
        self.manager.num_cached_block.pop(request.request_id, None)
        self.ask(self.pool, self.manager.req_to_blocks.pop(request.request_id, []))


class NumBlocksSeat(_SlotsSeat):
    """`get_num_blocks_to_allocate(num_tokens, table, hit_blocks, block_size)`"""

    def take_place(self) -> None:
        around(self.manager, self.name, self._on_count)

    def _on_count(
        self, call: Callable[..., int], request_id: str, num_tokens: int, hit_blocks: Sequence[Any], *more: Any
    ) -> int:
        table = self.manager.req_to_blocks.get(request_id, [])
        number = self.ask(num_tokens, list(table), list(hit_blocks), self.manager.block_size)
        if type(number) is not int:
            raise Misfit(f"it returned {number!r}, not a whole number of blocks")
        return number
