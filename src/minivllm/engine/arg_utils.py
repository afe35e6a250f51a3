"""From what a user says to what the engine needs: the size of the pool above all.

Mirrors vllm/engine/arg_utils.py (EngineArgs) and the memory profiling of vllm/v1/worker/gpu_worker.py
(Worker.determine_available_memory).
"""

from dataclasses import dataclass

import torch

from minivllm.config import CacheConfig, EngineConfig, SchedulerConfig, SpeculativeConfig, check_int
from minivllm.engine.runner import kv_bytes_per_token
from minivllm.model.attention import AttentionMetadata
from minivllm.model.hub import DEFAULT_MODEL
from minivllm.model.llama import LlamaForCausalLM

MIB = 1 << 20


@dataclass(frozen=True)
class EngineArgs:
    """The settings of an engine; names and meanings are vLLM's.

    Attributes:
        model: a name, a path or a Hugging Face id; see ``minivllm.model.hub.fetch``.
        dtype: "auto", "float32", "float16" or "bfloat16"; "auto" asks the device.
        max_model_len: the longest sequence in tokens; None is the model's own, or what fits the pool if that is less.
        kv_cache_memory_bytes: size of the KV pool on a CPU.
        gpu_memory_utilization: on a GPU, the share of its memory that weights, activations and KV pool may take.
        num_gpu_blocks_override: size of the pool in blocks, whatever the memory.
        num_speculative_tokens: n-gram drafts a step; 0 for none.

    The other fields are those of SchedulerConfig and CacheConfig.
    """

    model: str = DEFAULT_MODEL
    dtype: str = "auto"
    max_model_len: int | None = None
    max_num_batched_tokens: int = 2048
    max_num_seqs: int = 128
    block_size: int = 16
    enable_prefix_caching: bool = True
    enable_chunked_prefill: bool = True
    long_prefill_token_threshold: int = 0
    policy: str = "fcfs"
    watermark: float = 0.0
    scheduler_reserve_full_isl: bool = True
    kv_cache_memory_bytes: int = 512 * MIB
    gpu_memory_utilization: float = 0.9
    num_gpu_blocks_override: int | None = None
    num_speculative_tokens: int = 0

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise ValueError(f"EngineArgs.dtype is {self.dtype!r}, but must be one of {', '.join(map(repr, DTYPES))}.")
        if type(self.gpu_memory_utilization) not in (int, float) or not 0 < self.gpu_memory_utilization <= 1:
            raise ValueError(
                f"EngineArgs.gpu_memory_utilization is {self.gpu_memory_utilization!r}, but must be over 0.0 and at "
                "most 1.0."
            )
        check_int(self, "block_size", 1, "a block holds the keys and values of that many tokens")
        check_int(self, "kv_cache_memory_bytes", 1, "it is the size of the KV pool in bytes")
        check_int(self, "num_speculative_tokens", 0, "it counts drafts, and 0 turns them off")
        if self.max_model_len is not None:
            check_int(self, "max_model_len", 2, "a prompt and an output token are the least (None: all that fits)")
        if self.num_gpu_blocks_override is not None:
            check_int(self, "num_gpu_blocks_override", 2, "block 0 is never handed out (None: what the memory holds)")

    @property
    def torch_dtype(self) -> torch.dtype | None:
        """None where the device decides."""
        return DTYPES[self.dtype]

    def create_engine_config(self, model: LlamaForCausalLM) -> EngineConfig:
        """The engine's configuration for a loaded model.

        Raises:
            ValueError: the memory holds no sequence of two blocks, or a field is out of its range.
        """
        num_gpu_blocks = self.num_gpu_blocks_override
        if num_gpu_blocks is None:
            num_gpu_blocks = self._num_blocks_that_fit(model)
        trained, pool = model.config.max_position_embeddings, (num_gpu_blocks - 1) * self.block_size
        max_model_len = min(trained, pool) if self.max_model_len is None else self.max_model_len
        if max_model_len > trained:
            raise ValueError(
                f"EngineArgs.max_model_len is {max_model_len}, but the model was made for at most {trained} tokens: "
                "lower it."
            )
        if max_model_len > pool:
            raise ValueError(
                f"EngineArgs.max_model_len is {max_model_len}, but the KV pool holds {pool} tokens, so that a request "
                "of this length could never end: lower it, or give the pool more memory."
            )
        if not self.enable_chunked_prefill and self.max_num_batched_tokens < max_model_len:
            raise ValueError(
                f"EngineArgs.max_num_batched_tokens is {self.max_num_batched_tokens}, but without chunked prefill "
                f"a prompt of up to max_model_len = {max_model_len} tokens has to fit one step: raise it, lower "
                "max_model_len, or set enable_chunked_prefill=True."
            )
        return EngineConfig(
            SchedulerConfig(
                max_num_batched_tokens=self.max_num_batched_tokens,
                max_num_seqs=self.max_num_seqs,
                max_model_len=max_model_len,
                enable_chunked_prefill=self.enable_chunked_prefill,
                long_prefill_token_threshold=self.long_prefill_token_threshold,
                policy=self.policy,
                watermark=self.watermark,
                scheduler_reserve_full_isl=self.scheduler_reserve_full_isl,
            ),
            CacheConfig(self.block_size, num_gpu_blocks, self.enable_prefix_caching),
            SpeculativeConfig("ngram", self.num_speculative_tokens) if self.num_speculative_tokens else None,
        )

    def _num_blocks_that_fit(self, model: LlamaForCausalLM) -> int:
        weight = model.model.embed_tokens.weight
        block_bytes = self.block_size * kv_bytes_per_token(model.config, weight.dtype)
        memory, source = self.kv_cache_memory_bytes, "kv_cache_memory_bytes"
        if weight.device.type == "cuda":
            memory, source = self._free_gpu_memory(model), "gpu_memory_utilization"
        num_blocks = memory // block_bytes
        if num_blocks < 3:
            raise ValueError(
                f"EngineArgs.{source} leaves {memory / MIB:.0f} MiB for the KV cache, but a block of {self.block_size} "
                f"tokens takes {block_bytes / MIB:.2f} MiB and three are the least: raise it."
            )
        return num_blocks

    def _free_gpu_memory(self, model: LlamaForCausalLM) -> int:
        """What the share of the GPU leaves beside the weights and the activations of the largest step."""
        device = model.model.embed_tokens.weight.device
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        _run_largest_step(model, self.max_num_batched_tokens, self.max_num_seqs, self.block_size)
        torch.cuda.synchronize(device)
        activations = torch.cuda.max_memory_allocated(device) - before
        torch.cuda.empty_cache()
        free, total = torch.cuda.mem_get_info(device)
        return int(total * self.gpu_memory_utilization) - (total - free) - activations


DTYPES: dict[str, torch.dtype | None] = {
    "auto": None,
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
}


def _run_largest_step(model: LlamaForCausalLM, num_tokens: int, num_logits: int, block_size: int) -> None:
    """One prompt that fills the budget, and logits for a full house: the most that a step ever asks for."""
    weight = model.model.embed_tokens.weight
    shape = model.config
    num_tokens = min(num_tokens, shape.max_position_embeddings)
    num_blocks = -(-num_tokens // block_size)

    def ints(values: list[int], dtype: torch.dtype = torch.int32) -> torch.Tensor:
        return torch.tensor(values, dtype=dtype, device=weight.device)

    kv_cache = torch.zeros(
        (num_blocks, block_size, shape.num_key_value_heads, 2 * shape.head_dim),
        dtype=weight.dtype,
        device=weight.device,
    )
    positions = torch.arange(num_tokens, device=weight.device)
    attn_metadata = AttentionMetadata(
        slot_mapping=positions,
        block_table=ints([list(range(num_blocks))]),  # type: ignore[list-item]
        seq_lens=ints([num_tokens]),
        query_start_loc=ints([0, num_tokens]),
        max_query_len=num_tokens,
    )
    hidden = model.forward(torch.zeros_like(positions), positions, [kv_cache] * shape.num_hidden_layers, attn_metadata)
    model.compute_logits(hidden[: min(num_logits, num_tokens)])
