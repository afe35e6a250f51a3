"""The student's lookup beside the engine's, at every admission of a load: same requests, same cache, same moment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from minivllm.config import EngineConfig
from minivllm.core.kv_cache_manager import KVCacheBlocks, KVCacheManager
from minivllm.lesson.common.checks import Student, Wrong, call_on_copies, told
from minivllm.lesson.common.load import Arrival, Load, load_of
from minivllm.lesson.common.run import MAX_STEPS, Run
from minivllm.lesson.common.table import Table, show
from minivllm.lesson.prefix_match.check_cache_hits import cached_block_in
from minivllm.request import Request

_SYSTEM_PROMPT = [Arrival(name, prompt=40, shared=36, step=step) for step, name in enumerate("ABC")]
LOADS = {
    "shared": Load(_SYSTEM_PROMPT, budget=64, block_size=16),
    "whole": Load(
        [Arrival(name, prompt=64, shared=64, step=i // 2) for i, name in enumerate("ABC")], 128, block_size=16
    ),
    "resumed": Load([Arrival("A", prompt=5, max_tokens=10), Arrival("B", prompt=9, max_tokens=12)], 32, blocks=9),
}

Ask = Callable[[KVCacheManager, Request], list[int]]


@dataclass(frozen=True)
class Lookup:
    """One admission: what the student's functions found in the cache, and what the engine found, as block ids."""

    step: int
    request_id: str
    known: int
    yours: list[int]
    engines: list[int]


class _AsksFirst(KVCacheManager):
    """The engine's manager; before each of its own lookups it asks somebody else."""

    def __init__(self, config: EngineConfig, ask: Ask) -> None:
        super().__init__(config)
        self._ask = ask
        self.asked: list[tuple[str, int, list[int], list[int]]] = []

    def get_computed_blocks(self, request: Request) -> tuple[KVCacheBlocks, int]:
        yours = self._ask(self, request)
        blocks, hit = super().get_computed_blocks(request)
        self.asked.append((request.request_id, request.num_tokens, yours, blocks.get_block_ids()[0]))
        return blocks, hit


def run_lookup(find_longest_cache_hit: Student, max_cache_hit_length: Student, load: str | Load = "shared") -> None:
    """Run `load` on a real Scheduler and hold the student's two functions against its lookups, up to a difference.

    Args:
        find_longest_cache_hit: of `block_hashes, max_length, get_cached_block, block_size`.
        max_cache_hit_length: of `request`.
        load: one of LOADS by name, or a Load of your own.

    Raises:
        LessonError: no load has this name.
    """
    load = load_of(load, LOADS)
    with told("run_lookup"):
        show(compare_lookups(find_longest_cache_hit, max_cache_hit_length, load))


def compare_lookups(find_longest_cache_hit: Student, max_cache_hit_length: Student, load: Load) -> Table:
    def ask(manager: KVCacheManager, request: Request) -> list[int]:
        cap = call_on_copies("max_cache_hit_length", max_cache_hit_length, request)
        found: Any = call_on_copies(
            "find_longest_cache_hit",
            find_longest_cache_hit,
            request.block_hashes,
            cap,
            cached_block_in(manager.block_pool),
            load.block_size,
        )
        if not isinstance(found, list):
            raise Wrong("find_longest_cache_hit", "a list", repr(found), "a list of block ids is wanted")
        return found

    run = Run(load)
    manager = run.scheduler.kv_cache_manager = _AsksFirst(load.config, ask)
    lookups: list[Lookup] = []
    while not run.finished and run.num_steps < MAX_STEPS:
        step = run.num_steps
        run.step()
        lookups += [Lookup(step, *asked) for asked in manager.asked]
        manager.asked.clear()
        if lookups and lookups[-1].yours != lookups[-1].engines:
            break
    return _table(lookups, load.block_size)


def _table(lookups: list[Lookup], block_size: int) -> Table:
    rows = [
        (
            x.step,
            x.request_id,
            x.known,
            x.yours,
            x.engines,
            len(x.engines) * block_size,
            "same" if x.yours == x.engines else "differs",
        )
        for x in lookups
    ]
    first = next((x for x in lookups if x.yours != x.engines), None)
    note = f"{len(lookups)} lookups, every hit equals the engine's."
    if first is not None:
        yours, engines = (len(blocks) * block_size for blocks in (first.yours, first.engines))
        note = (
            f"First difference, step {first.step}: {first.request_id} knows {first.known} tokens; yours hits {yours}, "
            f"the engine {engines}."
        )
    return Table(("step", "request", "known", "your blocks", "engine's blocks", "hit", "verdict"), rows, note=note)
