"""A reader's `allocate_slots` and `free` in a real Scheduler, beside the engine: call by call, until they differ."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from minivllm.config import EngineConfig
from minivllm.core.kv_cache_manager import KVCacheBlocks, KVCacheManager
from minivllm.core.kv_cache_utils import KVCacheBlock
from minivllm.lesson.allocate_slots.check_slots import returned_ids
from minivllm.lesson.allocate_slots.regions import PoolView
from minivllm.lesson.common.checks import Misfit, Student, ask
from minivllm.lesson.common.errors import LessonError
from minivllm.lesson.common.load import Arrival, Load, load_of
from minivllm.lesson.common.run import MAX_STEPS, Run
from minivllm.lesson.common.table import Table, show
from minivllm.observe.recorder import around
from minivllm.observe.recording import Recording
from minivllm.request import Request

LOADS = {
    "sharing": Load(
        [
            Arrival("A", prompt=14, shared=8),
            Arrival("B", prompt=13, shared=8, step=1),
            Arrival("C", prompt=10, shared=8, step=6, max_tokens=2),
        ],
        budget=32,
        blocks=10,
    ),
    "pressure": Load([Arrival("A", prompt=7), Arrival("B", prompt=7)], budget=16, blocks=5),
    "drafter": Load([Arrival("A", prompt=8), Arrival("B", prompt=6, step=1)], budget=16, blocks=9, lookahead=4),
    "watermark": Load(
        [Arrival("A", prompt=38, max_tokens=2), Arrival("B", prompt=15, step=1, max_tokens=2)],
        budget=64,
        blocks=20,
        watermark=0.3,
    ),
    "gate": Load([Arrival("A", prompt=17), Arrival("B", prompt=24, step=1)], budget=20, blocks=11),
}


class OwnKVCacheManager(KVCacheManager):
    """A KVCacheManager whose blocks are handed out and given back by two functions of a reader.

    Filing hashes and finding hits stay the engine's. Watermark and full-sequence gate are left out. One group, full
    attention.

    Raises (out of `allocate_slots` and `free`):
        Misfit: the function raised, left a blank, or returned something else than blocks or None.
    """

    def __init__(self, config: EngineConfig, allocate_slots: Student, free: Student) -> None:
        super().__init__(config)
        self._own_allocate_slots, self._own_free = allocate_slots, free
        (self._group,) = self.coordinator.single_type_managers

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
        hit_blocks = list((new_computed_blocks or self.empty_kv_cache_blocks).blocks[0])
        num_computed_tokens = request.num_computed_tokens + num_new_computed_tokens
        table = self._group.req_to_blocks.get(request.request_id, [])
        new_blocks = ask(
            self._own_allocate_slots,
            self.block_pool,
            table,
            num_computed_tokens,
            num_new_tokens,
            num_lookahead_tokens,
            hit_blocks,
            self._group.block_size,
        )
        if new_blocks is None:
            return None
        if isinstance(returned_ids(new_blocks), str):
            raise Misfit(f"it returned {new_blocks!r}, not a list of blocks or None")
        stranger = next((block for block in table if not isinstance(block, KVCacheBlock)), None)
        if stranger is not None:
            raise Misfit(f"it put {stranger!r} into the table, which is no block")
        self._check_queue()
        self._group.req_to_blocks[request.request_id] = table
        self._group.num_cached_block.setdefault(request.request_id, len(hit_blocks))
        num_slots = len(table) * self._group.block_size  # a table that is too short must not end the run
        self.coordinator.cache_blocks(request, min(num_computed_tokens + num_new_tokens, request.num_tokens, num_slots))
        return KVCacheBlocks((list(new_blocks),)) if new_blocks else self.empty_kv_cache_blocks

    def free(self, request: Request) -> None:
        table: list[KVCacheBlock] = self._group.req_to_blocks.pop(request.request_id, [])
        self._group.num_cached_block.pop(request.request_id, None)
        ask(self._own_free, self.block_pool, table)
        self._check_queue()

    def _check_queue(self) -> None:
        """The scheduler goes on only with a queue that can be walked to its end."""
        if PoolView.of(self.block_pool).tangled:
            raise Misfit("the free queue is broken: a block stands in it twice, or its count is wrong")


@dataclass(frozen=True)
class Call:
    """One call of the manager: what was asked, what came back, and the pool right after it."""

    step: int
    asked: str
    returned: str
    table: tuple[int, ...]
    view: PoolView

    def difference(self, engine: Call) -> str:
        """The first thing in which the engine's call differs; empty where nothing does."""
        pairs = {
            "call": (self.asked, engine.asked),
            "result": (self.returned, engine.returned),
            "block table": (list(self.table), list(engine.table)),
            "ref counts": (dict(self.view.refs), dict(engine.view.refs)),
            "free queue": (list(self.view.free), list(engine.view.free)),
            "free blocks": (self.view.num_free, engine.view.num_free),
        }
        return next((f"{what}: yours {own}, engine {its}" for what, (own, its) in pairs.items() if own != its), "")


def record_slots(allocate_slots: Student, free: Student, load: str | Load = "sharing") -> Recording:
    """Record a load whose blocks are handed out by your functions, to its end or to the first call that fails."""
    run = _own(allocate_slots, free, _load(load))
    recording = Recording(run.scheduler)
    try:
        while not run.finished and run.num_steps < MAX_STEPS:
            run.step()
    except Misfit as error:
        show(f"Stopped in step {run.num_steps}: {error}")
    return recording


def _own(allocate_slots: Student, free: Student, load: Load) -> Run:
    run = Run(load)
    run.scheduler.kv_cache_manager = OwnKVCacheManager(load.config, allocate_slots, free)
    return run


def run_slots(allocate_slots: Student, free: Student, load: str | Load = "sharing") -> None:
    """Run a load with your functions beside the engine, up to the first call in which they differ.

    Args:
        allocate_slots: as `check_allocate_slots` calls it.
        free: as `check_free` calls it.
        load: one of LOADS by name, or a Load of your own with one KV cache group.

    Raises:
        LessonError: no load has this name, or the load has several KV cache groups.
    """
    load = _load(load)
    engine, _ = calls_of(Run(load))
    own, problem = calls_of(_own(allocate_slots, free, load), engine)
    rows = [
        (mine.step, mine.asked, mine.returned, " ".join(map(str, mine.table)) or "-", mine.view.queue) for mine in own
    ]
    different = own[-1].difference(engine[len(own) - 1]) if own else ""
    if problem:
        note = f"Stopped in step {engine[len(own)].step}, {engine[len(own)].asked}: {problem}"
    elif different:
        note = f"First difference, step {own[-1].step}, {own[-1].asked}: {different}"
    else:
        note = f"{len(own)} calls, every one as the engine's."
    show(Table(("step", "call", "result", "block table", "free queue, front first"), rows, note=note) if rows else note)


def calls_of(run: Run, engine: list[Call] | None = None) -> tuple[list[Call], str]:
    """Every call of a run's manager, up to the first that differs from `engine`; and what a reader's function did."""
    calls: list[Call] = []
    manager = run.scheduler.kv_cache_manager

    def listen(method: Callable[..., Any], request: Request, *args: Any, **options: Any) -> Any:
        result = method(request, *args, **options)
        blocks = manager.get_blocks(request.request_id).get_block_ids()[0]
        name = "allocate_slots" if args else "free"
        calls.append(
            Call(
                run.num_steps,
                f"{name}({request.request_id})",
                _result(result) if args else "",
                tuple(blocks),
                PoolView.of(manager.block_pool),
            )
        )
        if engine is not None and calls[-1].difference(engine[len(calls) - 1]):
            raise _Different
        return result

    around(manager, "allocate_slots", listen)
    around(manager, "free", listen)
    try:
        while not run.finished and run.num_steps < MAX_STEPS:
            run.step()
    except _Different:
        pass
    except Misfit as error:
        return calls, str(error)
    return calls, ""


class _Different(Exception):
    """Ends a run at its first difference."""


def _result(blocks: KVCacheBlocks | None) -> str:
    return "None" if blocks is None else f"new {' '.join(map(str, blocks.get_block_ids()[0])) or '-'}"


def _load(load: str | Load) -> Load:
    load = load_of(load, LOADS)
    groups = len(load.config.cache.kv_cache_groups)
    if groups != 1:
        raise LessonError(f"your functions know one block table a request, but this load has {groups} KV cache groups")
    return load
