"""From a SchedulerOutput to the tensors of one forward pass.

Mirrors vllm/v1/worker/gpu_input_batch.py (InputBatch), vllm/v1/worker/block_table.py (BlockTable) and
GPUModelRunner._prepare_inputs of vllm/v1/worker/gpu_model_runner.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from minivllm.core.sched.output import NewRequestData, SchedulerOutput
from minivllm.model.attention import AttentionMetadata
from minivllm.request import SamplingParams

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Batch:
    """One forward pass: the tokens of all scheduled requests, one request behind the other.

    Attributes:
        req_ids: the requests in the order of the batch.
        num_sampled: rows of logits that each request gets: one and one for each draft, or none amid a prompt.
        drafts: for each request the draft tokens among its tokens.
        input_ids: int64 [num_tokens].
        positions: int64 [num_tokens], 0-based place of each token in its sequence.
        logits_indices: int64 [sum of num_sampled], the tokens whose logits are wanted.
        attn_metadata: whose tokens these are, and where their keys and values lie.
    """

    req_ids: list[str]
    num_sampled: list[int]
    drafts: list[list[int]]
    input_ids: torch.Tensor
    positions: torch.Tensor
    logits_indices: torch.Tensor
    attn_metadata: AttentionMetadata


@dataclass
class Row:
    """What the runner remembers of a request that holds blocks.

    Attributes:
        index: its row of the block table.
        token_ids: the Request's own list, to be read: it grows as tokens are sampled.
        num_prompt_tokens: how many of them are the prompt.
        num_blocks: blocks in its row.
    """

    index: int
    token_ids: Sequence[int]
    num_prompt_tokens: int
    sampling_params: SamplingParams
    num_blocks: int = 0


class InputBatch:
    """Keeps a row for every request that holds blocks, so that a step appends the new block ids and no more.

    Args:
        max_num_reqs: rows.
        max_num_blocks: blocks of the longest sequence.
        block_size: tokens in a block.
        device: where the tensors of a step go.
    """

    def __init__(self, max_num_reqs: int, max_num_blocks: int, block_size: int, device: torch.device) -> None:
        self.block_size = block_size
        self.device = device
        self.rows: dict[str, Row] = {}
        self._free_rows = list(range(max_num_reqs))
        self._block_table = np.zeros((max_num_reqs, max_num_blocks), dtype=np.int32)

    def update(self, output: SchedulerOutput) -> None:
        """Follows what the step changed: who left, who came, and who got blocks."""
        for req_id in (*output.finished_req_ids, *output.preempted_req_ids):
            self.remove(req_id)
        for data in (*output.scheduled_new_reqs, *output.scheduled_resumed_reqs):
            self._add(data)
        cached = output.scheduled_cached_reqs
        for req_id, block_ids in zip(cached.req_ids, cached.new_block_ids, strict=True):
            if block_ids is not None:
                self._append(self.rows[req_id], block_ids[0])

    def remove(self, req_id: str) -> None:
        """Forgets a request; one that has no row is no error, since it may have finished before it ever ran."""
        row = self.rows.pop(req_id, None)
        if row is not None:
            self._free_rows.append(row.index)

    def _add(self, data: NewRequestData) -> None:
        row = Row(self._free_rows.pop(), data.token_ids, data.num_prompt_tokens, data.sampling_params)
        self._block_table[row.index] = 0
        self.rows[data.req_id] = row
        self._append(row, data.block_ids[0])

    def _append(self, row: Row, block_ids: list[int]) -> None:
        self._block_table[row.index, row.num_blocks : row.num_blocks + len(block_ids)] = block_ids
        row.num_blocks += len(block_ids)

    def build(self, output: SchedulerOutput) -> Batch:
        """The tensors of a step, with one copy to the device."""
        num_computed = _num_computed(output)
        req_ids = list(output.num_scheduled_tokens)
        rows = [self.rows[req_id] for req_id in req_ids]
        input_ids: list[int] = []
        drafts: list[list[int]] = []
        num_sampled: list[int] = []
        for req_id, row in zip(req_ids, rows, strict=True):
            start = num_computed[req_id]
            end = start + output.num_scheduled_tokens[req_id]
            known = row.token_ids[start:end]
            own_drafts = output.scheduled_spec_decode_tokens.get(req_id, [])[: end - start - len(known)]
            input_ids += known
            # Padding (-1) stands for no token; what is computed in its place is always rejected.
            input_ids += [max(draft, 0) for draft in own_drafts]
            drafts.append(own_drafts)
            num_sampled.append(1 + len(own_drafts) if end >= len(row.token_ids) else 0)

        query_lens = np.fromiter(output.num_scheduled_tokens.values(), dtype=np.int64, count=len(req_ids))
        computed = np.array([num_computed[req_id] for req_id in req_ids], dtype=np.int64)
        query_start_loc = np.concatenate(([0], query_lens.cumsum()))
        seq_lens = computed + query_lens
        request_of_token = np.repeat(np.arange(len(req_ids)), query_lens)
        positions = np.arange(query_start_loc[-1]) - query_start_loc[request_of_token] + computed[request_of_token]
        num_blocks = -(-int(seq_lens.max()) // self.block_size)
        block_table = self._block_table[[row.index for row in rows], :num_blocks]
        block_ids = block_table[request_of_token, positions // self.block_size].astype(np.int64)
        slot_mapping = block_ids * self.block_size + positions % self.block_size
        host = (
            np.array(input_ids, dtype=np.int64),
            positions,
            _last_of_each(query_start_loc, num_sampled),
            slot_mapping,
            block_table,
            seq_lens.astype(np.int32),
            query_start_loc.astype(np.int32),
        )
        tensors = _to_device(self.device, host)
        attn_metadata = AttentionMetadata(
            slot_mapping=tensors[3],
            block_table=tensors[4],
            seq_lens=tensors[5],
            query_start_loc=tensors[6],
            max_query_len=int(query_lens.max()),
        )
        return Batch(req_ids, num_sampled, drafts, tensors[0], tensors[1], tensors[2], attn_metadata)


def _num_computed(output: SchedulerOutput) -> dict[str, int]:
    """Tokens of each scheduled request that were computed before the step."""
    cached = output.scheduled_cached_reqs
    admitted = (*output.scheduled_new_reqs, *output.scheduled_resumed_reqs)
    return dict(zip(cached.req_ids, cached.num_computed_tokens, strict=True)) | {
        data.req_id: data.num_computed_tokens for data in admitted
    }


def _last_of_each(query_start_loc: Ints, counts: list[int]) -> Ints:
    """The last ``counts[i]`` token indices of each request i."""
    ends = query_start_loc[1:]
    return np.concatenate([np.arange(end - count, end) for end, count in zip(ends, counts, strict=True)])


def _to_device(device: torch.device, arrays: Sequence[npt.NDArray[Any]]) -> list[torch.Tensor]:
    """Copies arrays in one transfer: a step pays the latency of a copy once, not once a tensor."""
    offsets = np.concatenate(([0], np.cumsum([-(-array.nbytes // 8) * 8 for array in arrays])))
    buffer = torch.empty(int(offsets[-1]), dtype=torch.uint8, pin_memory=device.type == "cuda")
    for offset, array in zip(offsets, arrays, strict=False):
        buffer.numpy()[offset : offset + array.nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    on_device = buffer.to(device, non_blocking=True)
    dtypes = {np.dtype(np.int64): torch.int64, np.dtype(np.int32): torch.int32}
    return [
        on_device[offset : offset + array.nbytes].view(dtypes[array.dtype]).view(array.shape)
        for offset, array in zip(offsets, arrays, strict=False)
    ]
