"""What the launchers hand to Triton, compiled for sm_90 and not started; run by test_launch.py in a process of its own.

The interpreter ignores everything that only a compiler sees: which integers and addresses are compiled in, and how often.
"""

from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.runtime.jit import JITFunction

from minivllm.kernels import cache_write, paged_attention, rms_norm, rotary, silu_mul, split_kv
from tests.kernels.cases import AttentionCase, build


class Sm90:
    """A driver for a GPU that is not there."""

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 90, 32)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0


_run = JITFunction.run


def compile_only(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
    return _run(self, *args, grid=grid, warmup=True, **kwargs)


def attend(seqs: tuple[tuple[int, int], ...], split: bool = False, offset: int = 0, **shape: Any) -> None:
    """Calls attention on seq_lens that lie `offset` bytes into a buffer, as they do when a step comes in one copy."""
    arguments = build(AttentionCase("", seqs, dtype=torch.float16, **shape)).arguments()
    buffer = torch.zeros(4096, dtype=torch.uint8)
    seq_lens = buffer[offset : offset + 4 * len(seqs)].view(torch.int32)
    arguments["seq_lens"] = seq_lens.copy_(arguments["seq_lens"])
    (split_kv.split_kv_attention if split else paged_attention.paged_attention)(**arguments)


def compiled(kernel: Any) -> int:
    return len(kernel.device_caches[0][0])


def main() -> None:
    triton.runtime.driver.set_active(Sm90())
    JITFunction.run = compile_only
    for module in (paged_attention, split_kv):
        module.device_capability = lambda _: 90  # type: ignore[attr-defined]

    smol: dict[str, Any] = {"num_heads": 9, "num_kv_heads": 3}
    for seqs in (((1, 33), (1, 40)), ((1, 33),), ((1, 33),) * 16, ((1, 700), (1, 2), (1, 600))):
        for offset in (0, 8, 16):
            attend(seqs, offset=offset, **smol)
            attend(seqs, split=True, offset=offset, **smol)
    print("decode", compiled(paged_attention.paged_attention_kernel))
    print("split", compiled(split_kv.split_kv_kernel), compiled(split_kv.join_segments_kernel))
    for seqs in (((3, 33), (1, 40)), ((8, 40),), ((100, 133),), ((16, 48), (70, 100))):
        attend(seqs, **smol)
    print("prefill", compiled(paged_attention.paged_attention_kernel))

    cos_sin_cache = torch.zeros(99, 64)
    numbers = torch.arange(40)  # slots or positions, cut out anywhere
    for start, num_tokens in ((0, 1), (1, 7), (2, 16)):
        fused = torch.randn(num_tokens, 15, 64, dtype=torch.float16)
        query, key, value = torch.split(fused, [9, 3, 3], dim=1)
        cut = numbers[start : start + num_tokens]
        cache_write.cache_write(key, value, torch.zeros(4, 16, 3, 128, dtype=torch.float16), cut)
        rotary.rotary_embedding(cut, query, key, cos_sin_cache)
        x, weight = torch.zeros(num_tokens, 576), torch.ones(576)
        rms_norm.rms_norm(torch.empty_like(x), x, weight, 1e-5)
        rms_norm.fused_add_rms_norm(x, torch.zeros_like(x), weight, 1e-5)
        silu_mul.silu_and_mul(torch.empty(num_tokens, 1536), torch.empty(num_tokens, 3072))
    print("cache_write", compiled(cache_write.cache_write_kernel))
    print("rotary", compiled(rotary.rotary_kernel))
    print("rms_norm", compiled(rms_norm.rms_norm_kernel))
    print("silu_and_mul", compiled(silu_mul.silu_and_mul_kernel))


if __name__ == "__main__":
    main()
