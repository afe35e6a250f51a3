"""How attention is cut into programs on which GPU: what fits the registers and the shared memory of each.

Mirrors the choice of BLOCK_M and TILE_SIZE in vllm/v1/attention/ops/triton_unified_attention.py (unified_attention).
"""

from dataclasses import dataclass

import torch
import triton


@dataclass(frozen=True)
class Tile:
    """How a launch is cut: BLOCK_M rows (tokens x heads of a group) times TILE keys, by num_warps warps."""

    block_m: int
    tile: int
    num_warps: int
    num_stages: int


def choose_tile(capability: int, head_size: int, group_size: int, element_size: int, max_query_len: int) -> Tile:
    """A tile without spills whose memory fits the device; `minivllm kernels --check` shows that.

    Args:
        capability: compute capability, major * 10 + minor.
        head_size, group_size: D, and query heads for each KV head.
        element_size: bytes of an element of the cache.
        max_query_len: the most new tokens of a sequence in the batch.
    """
    rows = triton.next_power_of_2(max(16, group_size))  # tl.dot takes no fewer than 16
    if capability < 80 or element_size == 4:
        # Products without tensor cores: Triton uses none before sm_80, and fp32 would lose bits in them. The registers
        # of a small matrix are what is left.
        return Tile(rows, 32 if head_size <= 64 else 16, num_warps=8, num_stages=1)
    keys = 32 if capability < 90 else 64  # for all query lengths, so that a row adds up its keys in one order
    if max_query_len * group_size <= rows:  # decodes: small matrices, and many keys under way from memory
        return Tile(rows, keys, num_warps=4, num_stages=3)
    if max_query_len * group_size <= 2 * rows:  # verifications
        return Tile(2 * rows, keys, num_warps=4, num_stages=3)
    # Prefill chunks: each key serves many rows. On sm_100 three stages of small heads are one register too many.
    return Tile(128, keys, num_warps=8, num_stages=2 if capability >= 100 and head_size <= 64 else 3)


def device_capability(device: torch.device) -> int:
    """Compute capability as major * 10 + minor; on a CPU (Triton's interpreter) that of the smallest tiles."""
    if device.type != "cuda":
        return 75
    major, minor = torch.cuda.get_device_capability(device)
    return major * 10 + minor
