"""What a step tells the attention layers about its batch.

Mirrors vllm/v1/attention/backend.py (CommonAttentionMetadata).
"""

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class AttentionMetadata:
    """Whose tokens a step computes, and where their keys and values lie; one for all layers of a KV cache group.

    All tensors are on the device of the KV cache.

    Attributes:
        slot_mapping: int64 [num_tokens], ``block id * block_size + offset`` for each token; -1 writes nowhere.
        block_table: int32 [num_seqs, max_blocks], the block ids of each sequence.
        seq_lens: int32 [num_seqs], tokens of each sequence after this step.
        query_start_loc: int32 [num_seqs + 1], where each sequence's tokens begin among the step's tokens, and the end.
        max_query_len: the most tokens that one sequence has in this step.
    """

    slot_mapping: torch.Tensor
    block_table: torch.Tensor
    seq_lens: torch.Tensor
    query_start_loc: torch.Tensor
    max_query_len: int
