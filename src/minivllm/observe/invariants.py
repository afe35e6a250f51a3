"""What holds after every step, whatever was scheduled; ``watch`` checks it in any run.

The checks read the core's state and repeat none of its arithmetic: they say what must be true, not how to get there.
"""

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from minivllm.core.kv_cache_utils import KVCacheBlock
from minivllm.core.sched.output import SchedulerOutput
from minivllm.core.sched.scheduler import Scheduler
from minivllm.kv_cache_interface import FullAttentionSpec
from minivllm.observe.recorder import around
from minivllm.request import Request, RequestStatus


@dataclass(frozen=True)
class Violation:
    """One thing that should hold and does not."""

    object: str
    expected: str
    actual: str
    why: str

    def __str__(self) -> str:
        return f"{self.object}: expected {self.expected}, actual {self.actual}; {self.why}"


class InvariantError(AssertionError):
    """At least one invariant is broken; the message gives each violation on a line of its own."""

    def __init__(self, violations: list[Violation]) -> None:
        self.violations = violations
        super().__init__("\n".join(map(str, violations)))


def watch(scheduler: Scheduler) -> None:
    """Checks a scheduler after every ``schedule`` and every ``update_from_output`` from now on.

    Raises (later, out of those two methods):
        InvariantError: an invariant is broken.
    """

    def after_schedule(call: Any, *args: Any, **kwargs: Any) -> Any:
        output = call(*args, **kwargs)
        _raise_any([*check_step(scheduler, output), *check_state(scheduler)])
        return output

    def after_update(call: Any, *args: Any, **kwargs: Any) -> Any:
        outputs = call(*args, **kwargs)
        _raise_any([*check_state(scheduler), *check_progress(scheduler)])
        return outputs

    around(scheduler, "schedule", after_schedule)
    around(scheduler, "update_from_output", after_update)


def check_step(scheduler: Scheduler, output: SchedulerOutput) -> list[Violation]:
    """What holds of the output of ``schedule``."""
    return list(_check_step(scheduler, output))


def check_state(scheduler: Scheduler) -> list[Violation]:
    """What holds of queues, tables, blocks and the prefix cache between any two calls."""
    return [
        *_check_queues(scheduler),
        *_check_free_queue(scheduler),
        *_check_tables(scheduler),
        *_check_cache(scheduler),
    ]


def check_progress(scheduler: Scheduler) -> list[Violation]:
    """What holds of the counters once the model's output is taken in."""
    return [
        Violation(
            f"request {request.request_id!r}: num_computed_tokens",
            f"at most num_tokens = {request.num_tokens}",
            str(request.num_computed_tokens),
            "a rejected draft token must not stay computed",
        )
        for request in scheduler.requests.values()
        if request.num_computed_tokens > request.num_tokens
    ]


def _raise_any(violations: list[Violation]) -> None:
    if violations:
        raise InvariantError(violations)


def _check_step(scheduler: Scheduler, output: SchedulerOutput) -> Iterator[Violation]:
    scheduled = output.num_scheduled_tokens
    budget = scheduler.config.max_num_scheduled_tokens
    if sum(scheduled.values()) > budget:
        yield Violation(
            "the step's scheduled tokens", f"at most {budget}", str(sum(scheduled.values())), "the budget is per step"
        )
    if output.total_num_scheduled_tokens != sum(scheduled.values()):
        yield Violation(
            "total_num_scheduled_tokens",
            str(sum(scheduled.values())),
            str(output.total_num_scheduled_tokens),
            "the model's batch is built from it",
        )
    rows = [data.req_id for data in (*output.scheduled_new_reqs, *output.scheduled_resumed_reqs)]
    if output.preempted_req_ids and rows:
        yield Violation("admissions", "none", f"{rows}", "a step that preempts admits nobody")
    if sorted([*rows, *output.scheduled_cached_reqs.req_ids]) != sorted(scheduled):
        yield Violation(
            "the rows of the output", f"{sorted(scheduled)}", f"{sorted(rows)}", "each scheduled request has one row"
        )
    for request_id in output.scheduled_spec_decode_tokens.keys() - scheduled.keys():
        yield Violation(f"request {request_id!r}: drafts to verify", "none", "some", "it is not scheduled in this step")
    for request_id, num_tokens in scheduled.items():
        name = f"request {request_id!r}"
        # Padding (-1) keeps its full length even where long_prefill_token_threshold cuts the newcomer's tokens.
        drafts = [draft for draft in output.scheduled_spec_decode_tokens.get(request_id, []) if draft >= 0]
        if num_tokens < 1:
            yield Violation(
                f"{name}: scheduled tokens", "at least 1", str(num_tokens), "there is nothing to compute in it"
            )
        if num_tokens < len(drafts) + 1:
            yield Violation(
                f"{name}: scheduled tokens",
                f"more than its {len(drafts)} drafts",
                str(num_tokens),
                "drafts are verified by a known token",
            )
        if request_id in output.preempted_req_ids:
            yield Violation(
                f"{name}", "not scheduled", "scheduled", "it was preempted in this step and holds no blocks"
            )
        request = scheduler.requests.get(request_id)
        if request is None or request.status is not RequestStatus.RUNNING:
            status = "gone" if request is None else request.status.name
            yield Violation(f"{name}: status", "RUNNING", status, "only a running request is computed")


def _check_queues(scheduler: Scheduler) -> Iterator[Violation]:
    places = Counter(request.request_id for request in (*scheduler.running, *scheduler.waiting))
    for request_id in sorted(places.keys() | scheduler.requests.keys()):
        if places[request_id] != 1 or request_id not in scheduler.requests:
            expected = "exactly 1" if request_id in scheduler.requests else "none: it has finished"
            yield Violation(
                f"request {request_id!r}: queues that hold it",
                expected,
                str(places[request_id]),
                "one queue owns a request",
            )
    for request in scheduler.running:
        if request.status is not RequestStatus.RUNNING:
            yield Violation(
                f"{request!r} in running", "RUNNING", request.status.name, "the queue and the status must agree"
            )
    for request in scheduler.waiting:
        if request.status not in (RequestStatus.WAITING, RequestStatus.PREEMPTED):
            yield Violation(
                f"{request!r} in waiting",
                "WAITING or PREEMPTED",
                request.status.name,
                "the queue and the status must agree",
            )
        if request.num_computed_tokens:
            yield Violation(
                f"{request!r} in waiting",
                "0 computed tokens",
                str(request.num_computed_tokens),
                "a waiting request holds no KV",
            )
        if request.spec_token_ids and request.status is RequestStatus.PREEMPTED:
            yield Violation(
                f"{request!r}: drafts", "none", str(request.spec_token_ids), "a preemption drops the drafts"
            )
    limit = scheduler.scheduler_config.max_num_seqs
    if len(scheduler.running) > limit:
        yield Violation(
            "running",
            f"at most max_num_seqs = {limit}",
            str(len(scheduler.running)),
            "the model's batch has no more rows",
        )


def _check_free_queue(scheduler: Scheduler) -> Iterator[Violation]:
    pool = scheduler.kv_cache_manager.block_pool
    free = pool.free_block_queue.get_all_free_blocks()
    if len(free) != pool.get_num_free_blocks():
        yield Violation(
            "free queue",
            f"{pool.get_num_free_blocks()} blocks, as counted",
            str(len(free)),
            "admission trusts the count",
        )
    for block, follower in itertools.pairwise(free):
        if follower.prev_free_block is not block:
            yield Violation(
                f"{follower!r}: its predecessor in the free queue",
                f"{block!r}",
                f"{follower.prev_free_block!r}",
                "both directions must agree",
            )
    in_queue = Counter(block.block_id for block in free)
    in_tables = Counter(block.block_id for table in _tables(scheduler) for block in table if not block.is_null)
    for block in pool.blocks:
        queued, held = in_queue[block.block_id], in_tables[block.block_id]
        if block.is_null:
            if queued or block.block_hash is not None:
                yield Violation(
                    "the null block", "neither free nor cached", f"{block!r}", "it stands for no memory of anybody"
                )
            continue
        if block.ref_cnt != held:
            yield Violation(
                f"{block!r}: ref_cnt",
                f"{held}, the tables that hold it",
                str(block.ref_cnt),
                "a wrong count leaks a block or frees it under its owner",
            )
        if queued != (held == 0):
            places = f"in the free queue {queued} times and in {held} tables"
            yield Violation(f"{block!r}", "either once in the free queue or in tables", places, "a block has one place")


def _check_tables(scheduler: Scheduler) -> Iterator[Violation]:
    block_size = scheduler.config.cache.block_size
    running = {request.request_id: request for request in scheduler.running}
    managers = scheduler.kv_cache_manager.coordinator.single_type_managers
    for spec, manager in zip(scheduler.config.cache.kv_cache_groups, managers, strict=True):
        for request_id in (manager.req_to_blocks.keys() | manager.num_cached_block.keys()) - running.keys():
            yield Violation(f"block table of {request_id!r}", "none", "one", "only a running request holds blocks")
        for request_id, request in running.items():
            table = manager.req_to_blocks.get(request_id, [])
            if len(table) * block_size < request.num_computed_tokens:
                yield Violation(
                    f"block table of {request_id!r}",
                    f"slots for {request.num_computed_tokens} computed tokens",
                    f"{len(table) * block_size} slots",
                    "every computed token needs a place for its keys and values",
                )
            needed = (
                table
                if isinstance(spec, FullAttentionSpec)
                else table[_first_needed(spec.sliding_window, request, block_size) :]
            )
            if any(block.is_null for block in needed):
                yield Violation(
                    f"block table of {request_id!r}",
                    "no null block in reach",
                    f"{needed}",
                    "the next token reads these positions",
                )
            yield from _check_table_hashes(manager.kv_cache_group_id, request, table, block_size)


def _check_table_hashes(
    group_id: int, request: Request, table: list[KVCacheBlock], block_size: int
) -> Iterator[Violation]:
    for index, block in enumerate(table):
        if block.is_null or block.block_hash is None:
            continue
        name = f"block {block.block_id} at place {index} of {request.request_id!r}"
        if (index + 1) * block_size > request.num_tokens:
            yield Violation(f"{name}: hash", "none", "one", "only a block that known tokens fill may be found again")
        elif [block.block_hash] != request.block_hashes[index : index + 1] or block.kv_cache_group_id != group_id:
            yield Violation(
                f"{name}: hash", "that of these tokens", "another", "a hit would read another text's keys and values"
            )


def _check_cache(scheduler: Scheduler) -> Iterator[Violation]:
    pool = scheduler.kv_cache_manager.block_pool
    filed = Counter[int]()
    for group_id, cache in enumerate(pool.cached_block_hash_to_block):
        for block_hash, blocks in cache.items():
            for block in blocks:
                filed[block.block_id] += 1
                if block.block_hash != block_hash or block.kv_cache_group_id != group_id:
                    yield Violation(
                        f"{block!r} in the cache map",
                        "filed under the hash it holds",
                        "another",
                        "a hit would read another text's keys and values",
                    )
    for block in pool.blocks:
        if filed[block.block_id] != (block.block_hash is not None):
            yield Violation(
                f"{block!r}: entries in the cache map",
                "one if it holds a hash",
                str(filed[block.block_id]),
                "a lookup must find what is cached, once",
            )
    for request in scheduler.requests.values():
        num_hashes = (
            request.num_tokens // scheduler.config.cache.block_size if scheduler.block_hasher is not None else 0
        )
        if len(request.block_hashes) != num_hashes:
            yield Violation(
                f"{request!r}: block_hashes",
                f"{num_hashes}, one a full block",
                str(len(request.block_hashes)),
                "hashes and tokens must stay in step",
            )


def _tables(scheduler: Scheduler) -> Iterator[list[KVCacheBlock]]:
    for manager in scheduler.kv_cache_manager.coordinator.single_type_managers:
        yield from manager.req_to_blocks.values()


def _first_needed(sliding_window: int, request: Request, block_size: int) -> int:
    """The first place in a table that the token after the computed ones reads."""
    return max(request.num_computed_tokens - sliding_window + 1, 0) // block_size
