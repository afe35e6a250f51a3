"""The prefix cache from outside: a chain of block hashes, one request served to its end, and what the pool can find."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from minivllm.core.kv_cache_utils import RequestBlockHasher
from minivllm.core.sched.scheduler import Scheduler
from minivllm.lesson.common.errors import LessonError
from minivllm.lesson.common.table import Table
from minivllm.request import BlockHash, Request, SamplingParams

_ANSWER = 7_000_000  # the model's every token: no prompt of the lesson holds it


def short(block_hash: BlockHash | None) -> str:
    """The first 6 hex digits of a hash, enough to tell the lesson's blocks apart."""
    return "-" if block_hash is None else block_hash.hex()[:6]


def hashed_request(
    request_id: str, token_ids: Sequence[int], block_size: int, cache_salt: str | None = None
) -> Request:
    """A request that has the hashes of its full blocks."""
    request = Request(request_id, token_ids, SamplingParams(), cache_salt=cache_salt)
    request.set_block_hasher(RequestBlockHasher(block_size))
    return request


def hash_chain(token_ids: Sequence[int], block_size: int, cache_salt: str | None = None) -> Table:
    """What enters the hash of each full block of `token_ids`, and what comes out."""
    request = hashed_request("chain", token_ids, block_size, cache_salt)
    parents = [None, *request.block_hashes]
    rows = [
        (
            index,
            short(parents[index]),
            " ".join(map(str, request.all_token_ids[index * block_size : (index + 1) * block_size])),
            cache_salt or "-" if index == 0 else "-",
            short(block_hash),
        )
        for index, block_hash in enumerate(request.block_hashes)
    ]
    left = request.num_tokens % block_size
    note = f"{left} tokens at the end fill no block and have no hash" if left else ""
    return Table(("block", "parent", "tokens", "extra keys", "hash"), rows, note=note)


@dataclass(frozen=True)
class Served:
    """What one request met: `tokens` known at its admission, of them `hit` from the cache; its block table."""

    request_id: str
    tokens: int
    hit: int
    table: tuple[int, ...]

    @property
    def computed(self) -> int:
        """Tokens that had to be computed."""
        return self.tokens - self.hit

    def __repr__(self) -> str:
        tokens = f"{self.tokens} tokens, hit {self.hit}, {self.computed} computed"
        return f"{self.request_id}: {tokens}, table {list(self.table)}"


def serve(scheduler: Scheduler, request_id: str, token_ids: Sequence[int], *, cache_salt: str | None = None) -> Served:
    """Run one request for one output token on `scheduler`, which has no other and a budget for its whole prompt.

    Raises:
        LessonError: the scheduler has other requests, or the prompt does not fit one step.
    """
    if scheduler.has_unfinished_requests():
        raise LessonError(
            f"serve({request_id!r}): the scheduler still has {', '.join(scheduler.requests)}; make a new Scheduler"
        )
    request = Request(request_id, token_ids, SamplingParams(max_tokens=1), cache_salt=cache_salt)
    scheduler.add_request(request)
    output = scheduler.schedule()
    if request.num_computed_tokens < request.num_tokens:
        raise LessonError(
            f"serve({request_id!r}): one step took {request.num_computed_tokens} of {request.num_tokens} tokens; raise "
            "max_num_batched_tokens or num_gpu_blocks"
        )
    (new,) = output.scheduled_new_reqs
    served = Served(request_id, request.num_tokens, new.num_computed_tokens, tuple(new.block_ids[0]))
    scheduler.update_from_output(output, {request_id: [_ANSWER]})
    return served


def prefix_cache(scheduler: Scheduler) -> Table:
    """The map from hash to blocks, and below it the free queue, the block that is taken next first."""
    pool = scheduler.kv_cache_manager.block_pool
    rows = [
        (short(block_hash), block.block_id, block.ref_cnt, "yes" if block.ref_cnt == 0 else "no")
        for block_hash, blocks in pool.cached_block_hash_to_block[0].items()
        for block in blocks
    ]
    free = [block.block_id for block in pool.free_block_queue.get_all_free_blocks()]
    shown = f"{free}" if len(free) <= 16 else f"[{', '.join(map(str, free[:16]))}, …], {len(free)} blocks"
    return Table(("hash", "block", "ref_cnt", "in the free queue"), rows, note=f"free queue: {shown}")
