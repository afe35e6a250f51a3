"""What the tests of 3-allocate-slots share."""

from collections.abc import Callable
from typing import Any

from minivllm.core.block_pool import BlockPool
from minivllm.core.kv_cache_utils import KVCacheBlock
from minivllm.core.single_type_kv_cache_manager import cdiv
from minivllm.lesson import ______
from tests.lesson.notebooks import BLANK

Blocks = list[KVCacheBlock]

blank: Any = ______


def num_blocks(num_tokens: int, table: Blocks, hit: Blocks, block_size: int) -> int:
    num_new = max(cdiv(num_tokens, block_size) - len(table) - len(hit), 0)
    return num_new + sum(block.ref_cnt == 0 for block in hit)


def without_free_hits(num_tokens: int, table: Blocks, hit: Blocks, block_size: int) -> int:
    return max(cdiv(num_tokens, block_size) - len(table) - len(hit), 0)


def mutates(num_tokens: int, table: Blocks, hit: Blocks, block_size: int) -> int:
    table.append(KVCacheBlock(99))
    return num_blocks(num_tokens, table[:-1], hit, block_size)


WRONG_COUNTS: dict[str, tuple[Callable[..., Any], str]] = {
    "rounds down": (lambda t, table, hit, s: t // s, "round up"),
    "one more than full blocks": (lambda t, table, hit, s: t // s + 1, "need no further one"),
    "forgets the table": (
        lambda t, table, hit, s: max(cdiv(t, s) - len(hit), 0) + sum(b.ref_cnt == 0 for b in hit),
        "its table holds 3 blocks already",
    ),
    "forgets the hit": (lambda t, table, hit, s: max(cdiv(t, s) - len(table), 0), "they are in no queue"),
    "counts every hit block": (
        lambda t, table, hit, s: max(cdiv(t, s) - len(table) - len(hit), 0) + len(hit),
        "they are in no queue",
    ),
    "forgets free hits": (without_free_hits, "forgot that free hit blocks leave the free queue"),
    "goes below 0": (
        lambda t, table, hit, s: cdiv(t, s) - len(table) - len(hit) + sum(b.ref_cnt == 0 for b in hit),
        "never below 0",
    ),
    "changes the table": (mutates, "it only counts"),
    "divides": (lambda t, table, hit, s: t / s, "a whole number of blocks is wanted"),
    "returns nothing": (lambda *args: None, "a whole number of blocks is wanted"),
    "raises": (lambda *args: args[9], "IndexError: tuple index out of range"),
    "takes fewer arguments": (lambda t: t, "takes 1 positional argument but 4 were given"),
    "is a blank": (lambda *args: blank, BLANK),
    "uses a blank": (lambda *args: blank + 1, BLANK),
}


def slots(
    order: str = "check touch take",
    *,
    count: Callable[..., int] = num_blocks,
    lookahead: bool = True,
    fits: Callable[[int, int], bool] = lambda needed, free: needed <= free,
    missing: Callable[[int, int], int] = lambda needed, lacking: max(lacking, 0),
    returns: Callable[[Blocks, Blocks], Any] = lambda new, table: new,
) -> Callable[..., Any]:
    """An `allocate_slots`, right unless it is told otherwise."""

    def allocate_slots(
        pool: BlockPool, table: Blocks, computed: int, new: int, num_lookahead: int, hit: Blocks, size: int
    ) -> Any:
        num_tokens = computed + new + (num_lookahead if lookahead else 0)
        needed = count(num_tokens, table, hit, size)
        new_blocks: Blocks = []
        for part in order.split():
            if part == "check" and not fits(needed, pool.get_num_free_blocks()):
                return None
            if part == "touch":
                pool.touch(hit)
            if part in ("touch", "extend"):
                table.extend(hit)
            if part == "take":
                new_blocks = pool.get_new_blocks(missing(needed, cdiv(num_tokens, size) - len(table)))
                table.extend(new_blocks)
        return returns(new_blocks, table)

    return allocate_slots


WRONG_ALLOCATIONS: dict[str, tuple[Callable[..., Any], str]] = {
    "touches before the check": (slots("touch check take"), "touched before the capacity check"),
    "pops before the check": (slots("touch take check"), "popped before the check"),
    "pops without a check": (slots("touch take"), "popped before the check"),
    "takes before it touches": (slots("check take touch"), "touch the hit and put it into the table first"),
    "does not touch": (slots("check extend take"), "the hit is not touched once"),
    "forgets free hits": (slots(count=without_free_hits), "includes the hit's own free blocks"),
    "forgets lookahead": (slots(lookahead=False), "lookahead forgotten"),
    "refuses an exact fit": (slots(fits=lambda needed, free: needed < free), "an exact fit is enough"),
    "pops what leaves the queue": (slots(missing=lambda needed, lacking: needed), "take only what the table lacks"),
    "pops a negative number": (slots(missing=lambda needed, lacking: lacking), "a negative number of blocks"),
    "returns the table": (slots(returns=lambda new, table: list(table)), "without the hit's"),
    "returns a number": (slots(returns=lambda new, table: len(new)), "the new blocks in a list, or None"),
    "always refuses": (lambda *args: None, "13 tokens fit: enough blocks are free"),
    "raises": (lambda *args: 1 / 0, "ZeroDivisionError: division by zero"),
    "is a blank": (lambda *args: blank, BLANK),
}


def freeing(
    *,
    forwards: bool = False,
    drops: int = 1,
    only_unowned: bool = True,
    ends: Callable[[Blocks, Blocks], tuple[Blocks, Blocks]] = lambda without_hash, with_hash: (without_hash, with_hash),
    clears: bool = True,
    keeps_hashes: bool = True,
) -> Callable[[BlockPool, Blocks], None]:
    """A `free`, right unless it is told otherwise."""

    def free(pool: BlockPool, table: Blocks) -> None:
        freed = []
        for block in table if forwards else reversed(table):
            block.ref_cnt -= drops
            if block.ref_cnt == 0 or not only_unowned:
                freed.append(block)
        without_hash = [block for block in freed if block.block_hash is None]
        front, end = ends(without_hash, [block for block in freed if block.block_hash is not None])
        pool.free_block_queue.prepend_n(front)
        pool.free_block_queue.append_n(end)
        for block in [] if keeps_hashes else freed:
            block.block_hash = None
        if clears:
            table.clear()

    return free


WRONG_FREES: dict[str, tuple[Callable[..., Any], str]] = {
    "forwards": (freeing(forwards=True), "freed forwards"),
    "forwards, everything to the end": (freeing(forwards=True, ends=lambda u, h: ([], [*h, *u])), "freed forwards"),
    "everything to the end": (freeing(ends=lambda u, h: ([], [*u, *h])), "goes to the front, not to the end"),
    "everything to the front": (freeing(ends=lambda u, h: ([*u, *h], [])), "goes to the end, not to the front"),
    "keeps the references": (freeing(drops=0), "each block of the table loses one reference"),
    "frees what others hold": (freeing(only_unowned=False), "while another table holds it"),
    "keeps the table": (freeing(clears=False), "freed twice"),
    "drops two references": (freeing(drops=2), "each block of the table loses one reference"),
    "does nothing": (lambda pool, table: None, "each block of the table loses one reference"),
    "puts a block in twice": (freeing(ends=lambda u, h: ([*u, *h], h)), "into the free queue twice"),
    "clears hashes": (freeing(keeps_hashes=False), "a freed block keeps its hash"),
    "raises": (lambda pool, table: 1 / 0, "ZeroDivisionError"),
    "is a blank": (lambda pool, table: blank.append_n(table), BLANK),
}
