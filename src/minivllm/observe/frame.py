"""What one engine step looked like: plain data, made to be drawn, printed and compared."""

from __future__ import annotations

from dataclasses import dataclass, field

from minivllm.core.sched.output import SchedulerOutput
from minivllm.observe.recorder import Event

BlockTables = dict[str, tuple[tuple[int, ...], ...]]
"""Block ids of each request that holds some, one tuple a KV cache group; 0 is the null block."""


@dataclass(frozen=True, slots=True)
class RequestFrame:
    """One unfinished request in one step, in tokens.

    Attributes:
        status: "running", "waiting" or "preempted", as ``schedule()`` left it.
        prompt: tokens of its prompt.
        computed: computed before this step; for a request that was just admitted its prefix hit.
        scheduled: known tokens (prompt and output) that this step computes.
        drafts: draft tokens that this step verifies, those that only pad among them.
        target: known and draft tokens: what ``computed`` is to be brought up to.
        preemptions: how often it was preempted so far.
        priority: smaller goes first; read by the priority policy alone.
        hit: tokens that its admission in this step took from the prefix cache, a part of ``computed``.
        lost: computed tokens that its preemption in this step dropped.
    """

    request_id: str
    status: str
    prompt: int
    computed: int
    scheduled: int
    drafts: int
    target: int
    preemptions: int
    priority: int
    hit: int
    lost: int

    @property
    def gap(self) -> int:
        return self.target - self.computed

    @property
    def remaining(self) -> int:
        """What is left of the gap after this step."""
        return self.gap - self.scheduled - self.drafts


@dataclass(frozen=True, slots=True)
class BlockFrame:
    """One block of the pool.

    Attributes:
        owners: the requests whose tables hold it.
        group: the KV cache group of those tables.
        hash_number: the number of its hash in ``Recording.hashes``; None if it has none.
    """

    block_id: int
    owners: tuple[str, ...]
    group: int
    ref_count: int
    hash_number: int | None
    is_null: bool

    @property
    def state(self) -> str:
        """ "null", "used", "cached" (free, but it can be hit) or "free"."""
        if self.is_null:
            return "null"
        if self.owners:
            return "used"
        return "free" if self.hash_number is None else "cached"


@dataclass
class Frame:
    """One engine step: what ``schedule()`` decided, the memory as it left it, and what the model's answer changed.

    Attributes:
        index: steps from the start of the recording, from 0.
        output: what ``schedule()`` returned.
        budget: the token budget that the step started with.
        requests: running ones in the order of ``running``, then the waiting queue, head first.
        blocks: every block of the pool, by id.
        free_queue: ids of the free blocks, the next one to be taken first.
        block_tables: who holds which blocks.
        admitted: requests that came (or came back) to running, in order.
        hits: prefix hit in tokens of each admitted request that had one.
        preempted: victims, in order.
        evicted: (block id, hash number) of each hash that was lost because its block was taken.
        events: what the Recorder heard since the step before, in order.
        why: a sentence for each thing that happened.
        sampled: how many tokens each request got from the model; empty until ``update_from_output()``.
        rejected: how many drafts of each request were rolled back.
        finished: the finish reason of each request that ended in this step.
        free_queue_after: the free queue once the finished requests have dropped their blocks.
    """

    index: int
    output: SchedulerOutput
    budget: int
    requests: tuple[RequestFrame, ...]
    blocks: tuple[BlockFrame, ...]
    free_queue: tuple[int, ...]
    block_tables: BlockTables
    admitted: tuple[str, ...]
    hits: dict[str, int]
    preempted: tuple[str, ...]
    evicted: tuple[tuple[int, int], ...]
    events: list[Event]
    why: list[str]
    sampled: dict[str, int] = field(default_factory=dict)
    rejected: dict[str, int] = field(default_factory=dict)
    finished: dict[str, str] = field(default_factory=dict)
    free_queue_after: tuple[int, ...] = ()

    @property
    def running(self) -> tuple[str, ...]:
        return tuple(request.request_id for request in self.requests if request.status == "running")

    @property
    def waiting(self) -> tuple[str, ...]:
        """Waiting and preempted requests, head first."""
        return tuple(request.request_id for request in self.requests if request.status != "running")

    @property
    def handed_out(self) -> tuple[tuple[str, int], ...]:
        """(request id, tokens) in the order in which the budget was handed out, drafts included."""
        return tuple(self.output.num_scheduled_tokens.items())

    @property
    def left(self) -> int:
        """What nobody took of the token budget."""
        return self.budget - self.output.total_num_scheduled_tokens

    @property
    def num_used_blocks(self) -> int:
        """Blocks in some table; the null block is in none."""
        return len(self.blocks) - 1 - len(self.free_queue)
