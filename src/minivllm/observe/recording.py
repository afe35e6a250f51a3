"""A whole run, one Frame an engine step, to be stepped through, drawn and compared.

Like the Recorder it wraps the methods of one scheduler: ``core`` knows nothing of it, and several recordings of one
scheduler do not meet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from minivllm.core.sched.output import EngineCoreOutput, SchedulerOutput
from minivllm.core.sched.scheduler import Scheduler
from minivllm.observe.frame import BlockFrame, BlockTables, Frame, RequestFrame
from minivllm.observe.reasons import Reasons, answered
from minivllm.observe.recorder import HashTable, Recorder, around
from minivllm.request import Request


class Recording:
    """Records every step of a scheduler from now on.

    Args:
        scheduler: any Scheduler, with requests in it or without; also an engine's: ``llm.llm_engine.scheduler``.

    Attributes:
        frames: one Frame a step, in order; there after ``schedule()``, and completed by ``update_from_output()``.
        hashes: what the hash numbers in the frames stand for.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.frames: list[Frame] = []
        self._recorder = Recorder(scheduler)
        self._reasons = Reasons(scheduler)
        self._blocks: tuple[BlockFrame, ...] = ()
        for request in scheduler.requests.values():
            self.hashes.note(request)
            for block_hash in request.block_hashes:  # parents first
                self.hashes.number(block_hash)
        around(scheduler, "schedule", self._on_schedule)
        around(scheduler, "update_from_output", self._on_update)

    @property
    def hashes(self) -> HashTable:
        return self._recorder.hashes

    def __repr__(self) -> str:
        return f"Recording({len(self.frames)} steps)"

    def _on_schedule(self, call: Callable[[], SchedulerOutput]) -> SchedulerOutput:
        scheduler, reasons = self.scheduler, self._reasons
        drafts = {r.request_id: len(r.spec_token_ids) for r in scheduler.running if r.spec_token_ids}
        reasons.begin()
        output = call()
        events = self._recorder.take_events()
        admitted = (*output.scheduled_new_reqs, *output.scheduled_resumed_reqs)
        hits = {data.req_id: data.num_computed_tokens for data in admitted if data.num_computed_tokens}
        requests = tuple(
            _request_frame(request, output, drafts, hits, reasons.lost)
            for request in (*scheduler.running, *scheduler.waiting)
        )
        ended = self.frames[-1].finished if self.frames else {}
        why = reasons.end(requests, output, events, sorted(output.finished_req_ids - ended.keys()))
        memory = self._memory()
        frame = Frame(
            index=len(self.frames),
            output=output,
            budget=scheduler.config.max_num_scheduled_tokens,
            requests=requests,
            blocks=memory.blocks,
            free_queue=memory.free_queue,
            block_tables=memory.block_tables,
            admitted=tuple(data.req_id for data in admitted),
            hits=hits,
            preempted=tuple(output.preempted_req_ids),
            evicted=tuple((event[1], event[2]) for event in events if event[0] == "evict"),
            events=events,
            why=why,
            free_queue_after=memory.free_queue,
        )
        self._recorder.take_events()  # a diagnosis looks into the cache, which is no part of the step
        self.frames.append(frame)
        return output

    def _on_update(
        self,
        call: Callable[..., list[EngineCoreOutput]],
        scheduler_output: SchedulerOutput,
        sampled_token_ids: Mapping[str, Sequence[int]],
    ) -> list[EngineCoreOutput]:
        outputs = call(scheduler_output, sampled_token_ids)
        frame = next((frame for frame in reversed(self.frames) if frame.output is scheduler_output), None)
        if frame is None:  # decided before the recording began
            return outputs
        drafts = scheduler_output.scheduled_spec_decode_tokens
        frame.events += self._recorder.take_events()
        frame.sampled = {output.request_id: len(output.new_token_ids) for output in outputs}
        for request_id in frame.sampled:
            num_rejected = len(drafts.get(request_id, ())) + 1 - len(sampled_token_ids[request_id])
            if num_rejected:
                frame.rejected[request_id] = num_rejected
        frame.finished = {o.request_id: o.finish_reason for o in outputs if o.finish_reason is not None}
        frame.why += answered(frame, sampled_token_ids, outputs)
        if frame.finished:
            frame.free_queue_after = self._free_queue()
        return outputs

    def _free_queue(self) -> tuple[int, ...]:
        queue = self.scheduler.kv_cache_manager.block_pool.free_block_queue
        return tuple(block.block_id for block in queue.get_all_free_blocks())

    def _memory(self) -> _Memory:
        manager = self.scheduler.kv_cache_manager
        owners: dict[int, list[str]] = {}
        groups: dict[int, int] = {}
        tables: BlockTables = {}
        for group in manager.coordinator.single_type_managers:
            for request_id, blocks in group.req_to_blocks.items():
                ids = tuple(block.block_id for block in blocks)
                tables[request_id] = (*tables.get(request_id, ()), ids)
                for block_id in ids:
                    groups[block_id] = group.kv_cache_group_id
                    owners.setdefault(block_id, []).append(request_id)
        number = self._recorder.hashes.number
        blocks_now = []
        # A block that is as it was a step before is the same object: a long recording stays small.
        before: Sequence[BlockFrame | None] = self._blocks or [None] * len(manager.block_pool.blocks)
        for block, old in zip(manager.block_pool.blocks, before, strict=True):
            hash_number = None if block.block_hash is None else number(block.block_hash)
            held_by = () if block.is_null else tuple(owners.get(block.block_id, ()))
            group_id = groups.get(block.block_id, 0)
            now = BlockFrame(block.block_id, held_by, group_id, block.ref_cnt, hash_number, block.is_null)
            blocks_now.append(old if old == now else now)
        self._blocks = tuple(blocks_now)
        return _Memory(self._blocks, self._free_queue(), tables)


class _Memory(NamedTuple):
    blocks: tuple[BlockFrame, ...]
    free_queue: tuple[int, ...]
    block_tables: BlockTables


def _request_frame(
    request: Request,
    output: SchedulerOutput,
    drafts: Mapping[str, int],
    hits: Mapping[str, int],
    lost: Mapping[str, int],
) -> RequestFrame:
    """The request behind ``schedule()``, which has moved ``num_computed_tokens`` forward already."""
    request_id = request.request_id
    total = output.num_scheduled_tokens.get(request_id, 0)
    num_drafts = len(output.scheduled_spec_decode_tokens.get(request_id, ()))
    proposed = 0 if request_id in lost else drafts.get(request_id, 0)
    return RequestFrame(
        request_id=request_id,
        status=request.status.name.lower(),
        prompt=request.num_prompt_tokens,
        computed=request.num_computed_tokens - total,
        scheduled=total - num_drafts,
        drafts=num_drafts,
        target=request.num_tokens + max(proposed, num_drafts),
        preemptions=request.num_preemptions,
        priority=request.priority,
        hit=hits.get(request_id, 0),
        lost=lost.get(request_id, 0),
    )
