"""Checks of the practice functions of 3-allocate-slots: each is driven beside minivllm.core through the same states."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from minivllm.core.kv_cache_utils import KVCacheBlock
from minivllm.core.single_type_kv_cache_manager import cdiv
from minivllm.lesson.allocate_slots.regions import PoolView
from minivllm.lesson.allocate_slots.slot_states import ASKING, LEAVING, Situation, State
from minivllm.lesson.common.checks import Student, Wrong, call, report


def check_get_num_blocks_to_allocate(function: Student) -> None:
    """Compare `function(num_tokens, table, hit_blocks, block_size)` with the engine's number in every state."""
    report("get_num_blocks_to_allocate", lambda: _in_each(ASKING, "get_num_blocks_to_allocate", _count, function))


def _in_each(
    states: Sequence[State], name: str, compare: Callable[[str, State, Student], None], function: Student
) -> str:
    for state in states:
        compare(f"{name}, {state.name}", state, function)
    return f"{len(states)} states as in minivllm.core"


def _count(name: str, state: State, function: Student) -> None:
    s = state.build()
    expected = s.manager.coordinator.get_num_blocks_to_allocate(
        s.request.request_id, s.num_tokens_need_slot, s.hit.blocks, s.num_computed_tokens
    )
    before = Outcome.of(s, s.table, None)
    table = list(s.table)
    takes = "a whole number of blocks is wanted; table and hit_blocks are lists of blocks"
    asked = (s.num_tokens_need_slot, table, s.hit_blocks, s.block_size)
    actual = call(name, function, *asked, expected=expected, why=takes)
    if type(actual) is not int:
        raise Wrong(name, expected, repr(actual), takes)
    if Outcome.of(s, table, None) != before:
        raise Wrong(name, expected, "a changed pool or table", "it only counts: nothing may change")
    if actual != expected:
        raise Wrong(name, expected, actual, _miscounted(s, expected, actual))


def _miscounted(s: Situation, expected: int, actual: int) -> str:
    """The idea that gives `actual`, or the engine's own reckoning."""
    held, hits = len(s.table), len(s.hit_blocks)
    free_hits = sum(block.ref_cnt == 0 for block in s.hit_blocks)
    required, is_full = cdiv(s.num_tokens_need_slot, s.block_size), s.num_tokens_need_slot % s.block_size == 0
    if actual < 0:
        return "rejected drafts leave blocks behind, so a table can be longer than it has to be: never below 0"
    if free_hits and actual == required - hits:
        return "forgot that free hit blocks leave the free queue: touching takes them out of it"
    if hits and not free_hits and actual == required:
        return f"the hit provides {hits} blocks, and a request owns them already: they are in no queue"
    if held and actual == required:
        return f"its table holds {held} blocks already"
    if not is_full and actual == expected - 1:
        return "a partly filled block is a block too: round up"
    if is_full and actual == expected + 1:
        return "tokens that fill their blocks need no further one"
    needs = f"{s.num_tokens_need_slot} tokens need {required} blocks of {s.block_size}"
    return f"{needs}; its table holds {held}, the hit provides {hits}, of which {free_hits} are free"


@dataclass(frozen=True)
class Outcome:
    """What a call left behind: what it returned (block ids, None, or a word for nonsense), its table, the pool."""

    returned: Any
    table: tuple[int, ...]
    view: PoolView

    @classmethod
    def of(cls, situation: Situation, table: Sequence[KVCacheBlock], returned: Any) -> Outcome:
        ids = tuple(getattr(block, "block_id", -1) for block in table)
        return cls(returned, ids, PoolView.of(situation.manager.block_pool))

    def parts(self) -> dict[str, Any]:
        return {
            "returns": self.returned,
            "table": list(self.table),
            "ref counts": dict(self.view.refs),
            "free queue": list(self.view.free),
            "free blocks": self.view.num_free,
        }

    def differing(self, other: Outcome) -> dict[str, Any]:
        """Those of its parts in which `other` differs."""
        theirs = other.parts()
        return {key: part for key, part in self.parts().items() if part != theirs[key]}


def check_allocate_slots(function: Student) -> None:
    """Compare `function` with the engine in every state: what it returns, the table, the ref counts, the free queue.

    It is called as `function(pool, table, num_computed_tokens, num_new_tokens, num_lookahead_tokens, hit_blocks,
    block_size)`; the computed tokens include the hit, and the table grows in place.
    """
    report("allocate_slots", lambda: _in_each(ASKING, "allocate_slots", _allocate, function))


def _allocate(name: str, state: State, function: Student) -> None:
    engine, own = state.build(), state.build()
    table, hit_blocks = list(own.table), own.hit_blocks
    hit, asked = [block.block_id for block in hit_blocks], own.num_tokens_need_slot
    given = engine.allocate()
    why = f"{asked} tokens get their slots here, and enough blocks are free"
    if given is None and hit:
        why = "more was taken than is free: the number to compare includes the hit's own free blocks"
    elif given is None:
        why = "popped before the check: compare with pool.get_num_free_blocks() before anything is taken"
    counters = (own.num_computed_tokens, own.num_new_tokens, own.num_lookahead_tokens)
    everything = (own.manager.block_pool, table, *counters, hit_blocks, own.block_size)
    value = call(name, function, *everything, expected=given, why=why)
    expected, actual = Outcome.of(engine, engine.table, given), Outcome.of(own, table, returned_ids(value))
    if actual.parts() != expected.parts():
        why = (
            _not_refused(hit, engine.num_lookahead_tokens, expected, actual)
            if given is None
            else _misallocated(hit, engine.num_lookahead_tokens, asked, expected, actual)
        )
        raise Wrong(name, expected.differing(actual), actual.differing(expected), why)


def _misallocated(hit: list[int], lookahead: int, asked: int, expected: Outcome, actual: Outcome) -> str:
    """The idea behind a wrong allocation where the engine allocates."""
    missing = len(expected.table) - len(actual.table)
    if isinstance(actual.returned, str):
        return "it returns the new blocks in a list, or None"
    if actual.returned is None:
        if any(block in actual.view.refs for block in expected.returned):
            return "popped before the check: what has been taken is no longer free"
        if hit and all(actual.view.refs.get(block) == expected.view.refs[block] for block in hit):
            return "touched before the capacity check: the hit's blocks have left the queue and are counted once more"
        exact = "an exact fit is enough: only more blocks than are free make it fail"
        return f"{asked} tokens fit: enough blocks are free" if expected.view.free else exact
    if actual.view.tangled:
        return "the pool was asked for a negative number of blocks: a table can be longer than it has to be"
    if list(actual.table[: len(hit)]) != hit:
        return "touch the hit and put it into the table first; what the table then lacks is taken"
    if set(actual.table[len(hit) :]) & set(hit):
        return "touch before you take: the hit's blocks stood in the free queue and were handed out as new ones"
    if missing > 0 and lookahead:
        return "lookahead forgotten: the slots behind the new tokens need blocks too"
    if missing < 0 and hit:
        return "the number that leaves the free queue counts the hit's free blocks; take only what the table lacks"
    if missing:
        return f"{asked} tokens need {len(expected.table)} blocks in the table"
    if any(actual.view.refs.get(block) != expected.view.refs[block] for block in hit):
        return "the hit is not touched once: one more table holds these blocks, and free ones leave the queue"
    if actual.view.free != expected.view.free:
        return "new blocks come from the front of the free queue: pool.get_new_blocks"
    return "the new blocks are returned, in a list, without the hit's"


def _not_refused(hit: list[int], lookahead: int, expected: Outcome, actual: Outcome) -> str:
    """The idea behind a call that should have returned None and changed nothing."""
    if actual.returned is not None:
        if lookahead:
            return "lookahead forgotten: the slots behind the new tokens have to fit too, or it returns None"
        return "more blocks are needed than are free: it returns None"
    if any(actual.view.refs.get(block, 0) != expected.view.refs.get(block, 0) for block in hit):
        return "touched before the capacity check: a request that is refused leaves every ref count as it was"
    if actual.view.free != expected.view.free:
        return "popped before the check: a request that is refused leaves the free queue as it was"
    return "the table grew before the check: a request that is refused leaves everything as it was"


def check_free(function: Student) -> None:
    """Compare `function(pool, table)` with the engine in every state, and call it a second time with the same table."""
    report("free", lambda: f"{_in_each(LEAVING, 'free', _free_twice, function)}, each freed twice")


def _free_twice(name: str, state: State, function: Student) -> None:
    engine, own = state.build(), state.build()
    before = Outcome.of(own, own.table, None)
    hashed = [block.block_id for block in own.table if block.block_hash is not None]
    table = list(own.table)
    engine.manager.free(engine.request)
    expected = Outcome.of(engine, [], None)
    queue = {"free queue": list(expected.view.free)}
    call(name, function, own.manager.block_pool, table, expected=queue)
    actual = Outcome.of(own, table, None)
    why = _misfreed(before, hashed, expected, actual)
    if not why:
        why = "freed twice: empty the table, so that a second free finds nothing to give back"
        call(name, function, own.manager.block_pool, table, expected=queue, why=why)
        actual = Outcome.of(own, table, None)
    if actual.view.cached != expected.view.cached:
        hashed_blocks, left = ({"cached blocks": sorted(outcome.view.cached)} for outcome in (expected, actual))
        raise Wrong(name, hashed_blocks, left, "a freed block keeps its hash, and can be hit, until somebody takes it")
    if actual != expected:
        raise Wrong(name, expected.differing(actual), actual.differing(expected), why)


def _misfreed(before: Outcome, hashed: list[int], expected: Outcome, actual: Outcome) -> str:
    owned = [block for block in actual.view.free if expected.view.refs.get(block)]
    if owned:
        return f"block {owned[0]} went into the free queue while another table holds it: only ref count 0 is free"
    if actual.view.refs != expected.view.refs:
        return "each block of the table loses one reference, and no other block does"
    if actual.view.tangled:
        return "a block was put into the free queue twice, or not through prepend_n / append_n"
    if set(actual.view.free) != set(expected.view.free):
        return "a block whose ref count falls to 0 goes into the free queue"
    if actual.view.free != expected.view.free:
        return _misordered(before, hashed, expected, actual)
    return ""


def _misordered(before: Outcome, hashed: list[int], expected: Outcome, actual: Outcome) -> str:
    old, freed = before.view.free, [block for block in reversed(before.table) if block in expected.view.free]
    with_hash, without = [b for b in freed if b in hashed], [b for b in freed if b not in hashed]
    forwards = "freed forwards: the head of the prefix would be taken first, so free the tail first"
    ideas = {
        (*with_hash, *old, *without): "the two ends are swapped: without a hash to the front, with a hash to the end",
        (*freed, *old): "a block with a hash can be hit until it is taken: it goes to the end, not to the front",
        (*old, *freed): "a block without a hash can serve nobody: it goes to the front, not to the end",
        (*freed[::-1], *old): forwards,
        (*old, *freed[::-1]): forwards,
        (*without[::-1], *old, *with_hash[::-1]): forwards,
    }
    return ideas.get(actual.view.free, "without a hash to the front, with a hash to the end, each tail first")


def returned_ids(value: Any) -> Any:
    """A list of blocks as their ids; anything else as it is, or as text where a reader's object has to be told."""
    if value is None:
        return None
    if isinstance(value, list | tuple) and all(isinstance(block, KVCacheBlock) for block in value):
        return [block.block_id for block in value]
    return f"{type(value).__name__} {value!r}"
