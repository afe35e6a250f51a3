"""What a student's kernel is launched with: the mixed batch, in a pool where all that nobody wrote is NaN.

A wrong address must show and do no harm, so that the pool lies in the middle of a larger buffer of NaN: what is read
there spoils the result, and what is written there is found.
"""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import FunctionType
from typing import TYPE_CHECKING, Any

from minivllm.lesson.common.checks import NotYet, Wrong
from minivllm.lesson.common.load import Arrival, Load
from minivllm.lesson.on_the_gpu.batch_step import BatchStep, batch_step
from minivllm.lesson.on_the_gpu.triton_here import MissingKernel
from minivllm.lesson.outcome import BlankError, ______

if TYPE_CHECKING:
    import torch

NUM_KV_HEADS, NUM_HEADS, HEAD_SIZE = 2, 4, 16
MARGIN = 1 << 20  # elements around the pool
_GAP = 64  # elements between two blocks: a pool may hold blocks of several kinds, so that a block has its own stride
_WIDER = Load([Arrival("P", prompt=21, max_tokens=3), Arrival("Q", prompt=18, step=1)], budget=30, block_size=8)


def launch_cache_write(
    kernel: Any, key: torch.Tensor, value: torch.Tensor, kv_cache: torch.Tensor, slot_mapping: torch.Tensor
) -> None:
    """One program for each token and KV head; arguments as minivllm.kernels.cache_write."""
    num_tokens, num_kv_heads, head_size = key.shape
    if num_tokens:
        kernel[(num_tokens, num_kv_heads)](
            key.contiguous(),
            value.contiguous(),
            kv_cache,
            slot_mapping,
            *kv_cache.stride()[:3],
            NUM_KV_HEADS=num_kv_heads,
            HEAD_SIZE=head_size,
            BLOCK_SIZE=kv_cache.shape[1],
        )


def launch_paged_attention(
    kernel: Any,
    out: torch.Tensor,
    query: torch.Tensor,
    kv_cache: torch.Tensor,
    block_table: torch.Tensor,
    seq_lens: torch.Tensor,
    query_start_loc: torch.Tensor,
    *,
    scale: float,
    max_query_len: int,
) -> None:
    """One program for each sequence, new token and query head; arguments as minivllm.kernels.paged_attention."""
    num_heads, head_size = query.shape[1:]
    result = out.new_empty(out.shape).copy_(out)
    kernel[(len(seq_lens), max_query_len, num_heads)](
        result,
        query.contiguous(),
        kv_cache,
        block_table.contiguous(),
        seq_lens,
        query_start_loc,
        scale,
        *kv_cache.stride()[:3],
        block_table.shape[1],
        NUM_HEADS=num_heads,
        GROUP_SIZE=num_heads // kv_cache.shape[2],
        HEAD_SIZE=head_size,
        BLOCK_SIZE=kv_cache.shape[1],
    )
    out.copy_(result)


@dataclass(frozen=True)
class PoisonedCase:
    """A step's batch, and keys and values for every token of its sequences.

    Attributes:
        buffer: NaN, with the pool in its middle.
        kv_cache: a view of the pool, [num_blocks, block_size, kv heads, 2 * head size].
        history: [sum of the sequences' lengths, kv heads, 2 * head size], with their slots.
    """

    step: BatchStep
    buffer: torch.Tensor
    kv_cache: torch.Tensor
    history: torch.Tensor
    history_slots: list[int]
    query: torch.Tensor

    @property
    def slot_mapping(self) -> list[int]:
        """The step's slots, and two tokens of padding."""
        return [*self.step.batch.attn_metadata.slot_mapping.tolist(), -1, -1]

    def fresh(self) -> PoisonedCase:
        """The same with a pool of its own in which nothing is written."""
        buffer = self.buffer.clone().fill_(float("nan"))
        view = self.kv_cache
        return replace(self, buffer=buffer, kv_cache=buffer.as_strided(view.shape, view.stride(), MARGIN))

    def written(self, *, elsewhere: float = float("nan")) -> PoisonedCase:
        """The same with the keys and values of all sequences in their slots, and `elsewhere` in all other memory."""
        case, size = self.fresh(), self.step.block_size
        case.buffer.fill_(elsewhere)
        for entry, slot in zip(self.history, self.history_slots, strict=True):
            case.kv_cache[slot // size, slot % size] = entry
        return case


def _case(step: BatchStep, device: torch.device) -> PoisonedCase:
    import torch

    generator = torch.Generator().manual_seed(7)

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator).to(device)

    size, width = step.block_size, 2 * HEAD_SIZE
    slots = [
        request["block_ids"][position // size] * size + position % size
        for request in step.requests
        for position in range(request["computed"] + request["scheduled"])
    ]
    num_blocks = max(block for request in step.requests for block in request["block_ids"]) + 1
    stride_block = size * NUM_KV_HEADS * width + _GAP
    buffer = torch.full((2 * MARGIN + num_blocks * stride_block,), float("nan"), device=device)
    shape, stride = (num_blocks, size, NUM_KV_HEADS, width), (stride_block, NUM_KV_HEADS * width, width, 1)
    query = 2 * random(sum(request["scheduled"] for request in step.requests), NUM_HEADS, HEAD_SIZE)
    return PoisonedCase(
        step, buffer, buffer.as_strided(shape, stride, MARGIN), random(len(slots), NUM_KV_HEADS, width), slots, query
    )


def poisoned_cases() -> Iterator[PoisonedCase]:
    import torch

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    for load, step in ((None, 2), (_WIDER, 1)):
        yield _case(batch_step(step=step) if load is None else batch_step(load, step), device)


def launched(name: str, kernel: Any, launch: Callable[[], None]) -> None:
    """Launch a student's kernel.

    Raises:
        Wrong: it failed; names the line of the kernel where it did.
    """
    import torch

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # the interpreter's numpy meets NaN where the idea is wrong
            launch()
        if torch.cuda.is_available():
            torch.cuda.synchronize()  # a launch returns at once: the error comes here
    except Exception as error:
        raise Wrong(name, "a launch without an error", _told(error, kernel), "the kernel stopped there") from None


def _told(error: Exception, kernel: Any) -> str:
    """The error, and the line of the student's kernel where it arose."""
    cause = error.__cause__ or error
    name = getattr(getattr(kernel, "fn", kernel), "__name__", "")
    lines = [frame.line for frame in traceback.extract_tb(cause.__traceback__) if frame.name == name and frame.line]
    text = next((line for line in reversed(str(cause).splitlines()) if line.strip()), "")
    return f"{type(cause).__name__}: {text:.200}" + (f", at: {lines[-1]}" if lines else "")


def require_kernel(name: str, kernel: Any) -> None:
    """Raises NotYet where there is nothing to launch: no Triton here, a blank that is left, something else."""
    plain = getattr(kernel, "fn", kernel)
    if isinstance(kernel, MissingKernel):
        raise NotYet(kernel.reason)
    if isinstance(plain, FunctionType) and "______" in plain.__code__.co_names:
        try:
            bool(______)
        except BlankError as blank:
            raise NotYet(f"{name}: {blank}") from None
    if not hasattr(kernel, "fn"):
        raise NotYet(f"{name} is {type(kernel).__name__}, no Triton kernel: keep the line @triton.jit above its def.")
