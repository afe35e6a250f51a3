"""Who called whom in a run, and in which function each piece of state changed: found by watching, not by reading.

Between two events of the profiler (a call, a return) only the function on top of the stack has run: what differs
between them, it changed.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import minivllm.core
from minivllm.core.sched.scheduler import Scheduler
from minivllm.lesson.common.load import Arrival, Load
from minivllm.lesson.common.run import Run
from minivllm.lesson.common.table import Table
from minivllm.request import Request

FUNCTIONS = (
    "Scheduler.add_request",
    "Scheduler.schedule",
    "Scheduler.update_from_output",
    "Scheduler._preempt_request",
    "KVCacheManager.get_computed_blocks",
    "KVCacheManager.allocate_slots",
    "KVCacheManager.free",
    "BlockPool.get_cached_block",
    "BlockPool.touch",
    "BlockPool.get_new_blocks",
    "BlockPool.cache_full_blocks",
    "BlockPool.free_blocks",
)
"""The functions that the lesson reads; what a helper does counts for the one of these that called it."""
LOAD = Load(
    [
        Arrival("A", prompt=13, shared=8, max_tokens=12, drafts=2, accepted=1),
        Arrival("B", prompt=13, shared=8, max_tokens=12, step=1),
    ],
    budget=16,
    blocks=9,
)
"""Two requests with a common prefix, one of them with drafts, in a pool too small for both of them to the end."""
_CORE = str(Path(minivllm.core.__file__).parent)


@dataclass(frozen=True)
class Holder:
    """The live object in which a piece of state was found."""

    kinds: tuple[str, ...]
    """Its class and that class's bases."""

    @property
    def name(self) -> str:
        return self.kinds[0]


@dataclass
class CallRecord:
    """What was seen.

    Attributes:
        calls: each way from an entry of the scheduler to a function, and how often it was taken.
        writers: for each state, the functions during which it changed, and how often.
        holders: for each state, the object that has it as an attribute of its own.
    """

    calls: Counter[tuple[str, ...]] = field(default_factory=Counter)
    writers: dict[str, Counter[str]] = field(default_factory=dict)
    holders: dict[str, Holder] = field(default_factory=dict)

    def callers(self, function: str) -> list[str]:
        """Who called it, in the order of FUNCTIONS."""
        found = {way[-2] for way in self.calls if way[-1] == function and len(way) > 1}
        return [name for name in FUNCTIONS if name in found]

    @property
    def table(self) -> Table:
        """The call graph as a tree, one row a function."""
        ways = sorted(self.calls, key=lambda way: [FUNCTIONS.index(function) for function in way])
        rows = [("\u2003" * (len(way) - 1) + way[-1], self.calls[way]) for way in ways]
        return Table(("function", "calls"), rows, note="calls: from the function above it, over the whole run")


@cache
def call_record() -> CallRecord:
    """What happens while LOAD runs to its end."""
    run = Run(LOAD)
    watcher = _Watcher(run.scheduler)
    while not run.finished:
        before = sys.getprofile()
        sys.setprofile(watcher.on_event)
        try:
            run.step()
        finally:
            sys.setprofile(before)
    return watcher.record


STATES: dict[str, Callable[[Scheduler, Iterable[Request]], Any]] = {
    "running": lambda scheduler, _: [request.request_id for request in scheduler.running],
    "num_computed_tokens": lambda _, requests: [request.num_computed_tokens for request in requests],
    "req_to_blocks": lambda scheduler, _: {
        request_id: [block.block_id for block in blocks]
        for group in scheduler.kv_cache_manager.coordinator.single_type_managers
        for request_id, blocks in group.req_to_blocks.items()
    },
    "ref_cnt": lambda scheduler, _: [block.ref_cnt for block in scheduler.kv_cache_manager.block_pool.blocks],
    "block_hash": lambda scheduler, _: [block.block_hash for block in scheduler.kv_cache_manager.block_pool.blocks],
    "free_block_queue": lambda scheduler, _: scheduler.kv_cache_manager.block_pool.get_num_free_blocks(),
}
"""How to look at each state, given the scheduler and all requests of the run; looking changes nothing."""


class _Watcher:
    def __init__(self, scheduler: Scheduler) -> None:
        self.record = CallRecord(writers={state: Counter() for state in STATES})
        self._scheduler = scheduler
        self._requests: dict[str, Request] = {}  # finished ones too: that they are gone is no change of a counter
        self._stack: list[str | None] = []
        self._seen = self._values()

    def on_event(self, frame: FrameType, event: str, arg: Any) -> None:
        if event not in ("call", "return") or not frame.f_code.co_filename.startswith(_CORE):
            return
        self._look()
        if event == "return":
            self._stack.pop()
            return
        function = frame.f_code.co_qualname
        is_named = function in FUNCTIONS
        self._stack.append(function if is_named else None)
        if is_named:
            self.record.calls[tuple(name for name in self._stack if name)] += 1

    def _look(self) -> None:
        """Puts what changed since the last look down to the function that was running."""
        if self._scheduler.requests.keys() - self._requests.keys():
            self._requests |= self._scheduler.requests
            self._seen["num_computed_tokens"] = self._values()["num_computed_tokens"]
        values = self._values()
        for state, value in values.items():
            if value != self._seen[state] and self._current is not None:
                self.record.writers[state][self._current] += 1
        self._seen = values
        if len(self.record.holders) < len(STATES):
            self._find_holders()

    @property
    def _current(self) -> str | None:
        return next((function for function in reversed(self._stack) if function), None)

    def _values(self) -> dict[str, Any]:
        return {state: read(self._scheduler, self._requests.values()) for state, read in STATES.items()}

    def _find_holders(self) -> None:
        scheduler, manager = self._scheduler, self._scheduler.kv_cache_manager
        live: list[Any] = [scheduler, manager, manager.coordinator, *manager.coordinator.single_type_managers]
        live += [manager.block_pool, manager.block_pool.blocks[0], *list(self._requests.values())[:1]]
        for state in STATES:
            for thing in live:
                if state in _own_attributes(thing):
                    kinds = tuple(kind.__name__ for kind in type(thing).__mro__ if kind is not object)
                    self.record.holders.setdefault(state, Holder(kinds))


def _own_attributes(thing: Any) -> set[str]:
    slots = {name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())}
    return slots | set(getattr(thing, "__dict__", {}))
