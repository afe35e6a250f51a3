"""The check of `my_cache_write`, the first Triton kernel that a student completes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

from minivllm.lesson.common.checks import Wrong, report
from minivllm.lesson.on_the_gpu.kernel_launch import (
    MARGIN,
    PoisonedCase,
    launch_cache_write,
    launched,
    poisoned_cases,
    require_kernel,
)

if TYPE_CHECKING:
    import torch

_Address = Callable[[int, int], tuple[int, int]]
_ADDRESSES: tuple[tuple[_Address, str], ...] = (
    (lambda slot, size: (slot // size, slot % size), ""),
    (lambda slot, size: (slot, slot % size), "the slot was taken for a block id; a block holds BLOCK_SIZE slots"),
    (lambda slot, size: (slot, 0), "the slot was taken for a block id; a block holds BLOCK_SIZE slots"),
    (lambda slot, size: (slot // size, 0), "every token went to its block's first slot; offset is slot % BLOCK_SIZE"),
    (lambda slot, size: (slot % size, slot // size), "block and offset are swapped: the block is slot // BLOCK_SIZE"),
    (lambda slot, size: (slot // size, slot), "the whole slot was taken for the offset, which is less than BLOCK_SIZE"),
    (lambda slot, size: (0, slot), "the block was left at 0, so that the gaps between blocks were not skipped"),
)  # fmt: skip
_PADDING = "a slot of -1 is padding: it owns no memory, and a write there lands in front of the pool"
_SKIPS: tuple[tuple[Callable[[int], bool], str], ...] = (
    (lambda slot: slot < 0, ""),
    (lambda slot: False, _PADDING),
    (lambda slot: True, "every token was skipped; only a slot below 0 is padding"),
    (lambda slot: slot >= 0, "the condition is the wrong way round: a slot below 0 is padding"),
)


def check_cache_write(kernel: Any) -> None:
    """Launch a student's kernel on a step's keys and values, and compare the whole buffer with what belongs there."""
    report("my_cache_write", lambda: compare(kernel))


def compare(kernel: Any) -> str:
    """Raises NotYet or Wrong where it is not what belongs there."""
    import torch

    require_kernel("my_cache_write", kernel)
    for case in poisoned_cases():
        mapping = case.slot_mapping
        entries = torch.cat((case.history, case.history))[: len(mapping)]
        key, value = entries.chunk(2, dim=-1)
        slots = torch.tensor(mapping, device=entries.device)
        mine = case.fresh()
        launched("my_cache_write", kernel, partial(launch_cache_write, kernel, key, value, mine.kv_cache, slots))
        right, *wrong = _written(case, entries)
        if _same_bits(mine.buffer, right[0]):
            continue
        why = next((why for buffer, why in wrong if _same_bits(mine.buffer, buffer)), _CACHE_WHY)
        raise Wrong(*_first_wrong(case, mine, right[0]), why)
    return "every key and value is in its slot, and nothing else has changed"


_CACHE_WHY = (
    "slot = block * BLOCK_SIZE + offset, so that the block is slot // BLOCK_SIZE and the offset slot % BLOCK_SIZE"
)


def _written(case: PoisonedCase, entries: torch.Tensor) -> Iterator[tuple[torch.Tensor, str]]:
    """The buffer after the step's writes: first the right one, then those of wrong ideas with a sentence for each."""
    size = case.step.block_size
    stride_block, stride_slot = case.kv_cache.stride()[:2]
    for (address, misplaced), (skips, kept) in product(_ADDRESSES, _SKIPS):
        buffer = case.fresh().buffer
        for entry, slot in zip(entries, case.slot_mapping, strict=True):
            if not skips(slot):
                block, offset = address(slot, size) if slot >= 0 else (0, slot)
                start = MARGIN + block * stride_block + offset * stride_slot
                buffer[start : start + entry.numel()] = entry.flatten()
        yield buffer, " Also: ".join(filter(None, (misplaced, kept)))


def _same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    import torch

    return torch.equal(one.view(torch.int32), other.view(torch.int32))


def _first_wrong(case: PoisonedCase, mine: PoisonedCase, right: torch.Tensor) -> tuple[str, str, str]:
    import torch

    place = int((mine.buffer.view(torch.int32) != right.view(torch.int32)).nonzero()[0]) - MARGIN
    stride_block, stride_slot = case.kv_cache.stride()[:2]
    block, rest = place // stride_block, place % stride_block
    where = f"block {block}, offset {rest // stride_slot}"
    if not (0 <= block < len(case.kv_cache) and rest // stride_slot < case.step.block_size):
        where = "memory that belongs to no block"
    expected, actual = (float(buffer[place + MARGIN]) for buffer in (right, mine.buffer))
    empty = "nothing (NaN, as before)"
    return (where, empty if expected != expected else f"{expected:.4f}", empty if actual != actual else f"{actual:.4f}")
