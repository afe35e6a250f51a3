"""From a SchedulerOutput to what the kernels read: a step of a real Scheduler beside the engine's own InputBatch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from minivllm.lesson.common.errors import LessonError
from minivllm.lesson.common.load import Arrival, Load
from minivllm.lesson.common.run import Run
from minivllm.lesson.common.table import Table
from minivllm.lesson.common.watch import Step

if TYPE_CHECKING:
    from minivllm.engine.batch import Batch, InputBatch

MIXED = Load(
    [
        Arrival("A", prompt=6, drafts=2, accepted=1, max_tokens=12),
        Arrival("B", prompt=3, max_tokens=12),
        Arrival("C", prompt=13, step=2),
    ],
    budget=12,
)
"""Step 2 holds a verification (A), a decode (B) and the first chunk of a prompt (C)."""


@dataclass(frozen=True)
class BatchStep:
    """One step on its way to the GPU.

    Attributes:
        requests: what the student's function gets, in schedule order: for each request its id, the tokens computed
            before the step, the tokens scheduled (drafts included) and its whole row of block ids.
        new_block_ids: the block ids that this SchedulerOutput carries for each request.
        batch: what the engine's InputBatch made of the same output.
    """

    step: Step
    block_size: int
    requests: list[dict[str, Any]]
    new_block_ids: dict[str, list[int]]
    batch: Batch

    @property
    def drafts(self) -> dict[str, int]:
        return {request["id"]: self.step.drafts_of(request["id"]) for request in self.requests}

    @property
    def table(self) -> Table:
        rows = [
            (r["id"], r["computed"], r["scheduled"], self.drafts[r["id"]], self.new_block_ids[r["id"]], r["block_ids"])
            for r in self.requests
        ]
        columns = ("request", "computed", "scheduled", "of these drafts", "new block ids", "its whole row")
        return Table(columns, rows, note=f"block_size {self.block_size}")

    def __repr__(self) -> str:
        return repr(self.table)

    def _repr_html_(self) -> str:
        return self.table._repr_html_()

    @property
    def tensors(self) -> Table:
        """What `InputBatch.build` made: one row a tensor."""
        rows = [(name, str(values)) for name, values in engine_inputs(self.batch).items()]
        return Table(("tensor", "values"), [*rows, ("logits_indices", str(self.batch.logits_indices.tolist()))])


def engine_inputs(batch: Batch) -> dict[str, list[Any]]:
    meta = batch.attn_metadata
    return {
        "positions": batch.positions.tolist(),
        "slot_mapping": meta.slot_mapping.tolist(),
        "query_start_loc": meta.query_start_loc.tolist(),
        "seq_lens": meta.seq_lens.tolist(),
        "block_table": meta.block_table.tolist(),
    }


def batch_step(load: Load = MIXED, step: int = 2) -> BatchStep:
    """Step number `step` (from 0) of `load`, and the batch that the engine makes of it.

    Raises:
        LessonError: the load is finished before.
    """
    for index, found in enumerate(batch_steps(load, step + 1)):
        if index == step:
            return found
    raise LessonError(f"the load has no step {step} that computes something: ask for an earlier one, from 0")


def batch_steps(load: Load, most: int) -> Iterator[BatchStep]:
    """The first `most` steps of `load` that compute something."""
    import torch

    from minivllm.engine.batch import InputBatch

    run = Run(load)
    config = load.config
    size = load.block_size
    width = -(-config.scheduler.max_model_len // size)
    input_batch = InputBatch(config.scheduler.max_num_seqs, width, size, torch.device("cpu"))
    while not run.finished and run.num_steps < most:
        run.arrive()
        step = run.schedule()
        input_batch.update(step.output)
        if step.scheduled:
            yield _batch_step(run, step, input_batch)
        run.answer(step)


def _batch_step(run: Run, step: Step, input_batch: InputBatch) -> BatchStep:
    before = {view.request_id: view for view in step.before}
    manager = run.scheduler.kv_cache_manager
    requests: list[dict[str, Any]] = [
        {
            "id": request_id,
            "computed": before[request_id].computed + step.hit_of(request_id),
            "scheduled": count,
            "block_ids": list(manager.get_blocks(request_id).get_block_ids()[0]),
        }
        for request_id, count in step.scheduled.items()
    ]
    cached = step.output.scheduled_cached_reqs
    new = {data.req_id: data.block_ids for data in step.output.scheduled_new_reqs + step.output.scheduled_resumed_reqs}
    new |= {id: blocks or ([],) for id, blocks in zip(cached.req_ids, cached.new_block_ids, strict=True)}
    new_block_ids = {request["id"]: list(new[request["id"]][0]) for request in requests}
    return BatchStep(step, run.load.block_size, requests, new_block_ids, input_batch.build(step.output))
