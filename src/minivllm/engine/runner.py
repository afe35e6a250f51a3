"""Runs the model on a schedule, and owns the memory behind the blocks.

Mirrors vllm/v1/worker/gpu_model_runner.py (GPUModelRunner).
"""

import torch

from minivllm.config import EngineConfig
from minivllm.core.sched.output import SchedulerOutput
from minivllm.engine.batch import Batch, InputBatch
from minivllm.engine.sampler import SampledTokens, forbid_stop_tokens, sample, token_logprobs, uniform, verify
from minivllm.kv_cache_interface import FullAttentionSpec
from minivllm.model.config import LlamaConfig
from minivllm.model.llama import LlamaForCausalLM


def kv_bytes_per_token(config: LlamaConfig, dtype: torch.dtype) -> int:
    """Bytes that one token's keys and values take over all layers."""
    return 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim * dtype.itemsize


class ModelRunner:
    """Holds the KV cache, and turns a SchedulerOutput into sampled tokens.

    Args:
        model: its weights' device and dtype are those of the KV cache.
        config: one KV cache group of full attention.

    Raises:
        ValueError: the configuration has other groups, which the model does not use.
    """

    def __init__(self, model: LlamaForCausalLM, config: EngineConfig) -> None:
        groups = config.cache.kv_cache_groups
        if len(groups) != 1 or not isinstance(groups[0], FullAttentionSpec):
            raise ValueError(
                f"CacheConfig.kv_cache_groups is {groups!r}, but a Llama has one group, of full attention: leave the "
                "field out."
            )
        self.model = model
        weight = model.model.embed_tokens.weight
        shape = model.config
        block_size = config.cache.block_size
        self.input_batch = InputBatch(
            config.scheduler.max_num_seqs,
            -(-config.scheduler.max_model_len // block_size),
            block_size,
            weight.device,
        )
        self.kv_caches = [
            torch.zeros(
                (config.cache.num_gpu_blocks, block_size, shape.num_key_value_heads, 2 * shape.head_dim),
                dtype=weight.dtype,
                device=weight.device,
            )
            for _ in range(shape.num_hidden_layers)
        ]

    def update_states(self, output: SchedulerOutput) -> None:
        """Takes in who left, who came and who got blocks; once for each output, before ``execute_model``."""
        self.input_batch.update(output)

    @torch.inference_mode()
    def execute_model(self, output: SchedulerOutput) -> dict[str, SampledTokens]:
        """Computes one step.

        Returns:
            For each scheduled request its accepted drafts and one more token; no tokens amid a prompt.
        """
        if not output.num_scheduled_tokens:
            return {}
        batch = self.input_batch.build(output)
        hidden = self.model.forward(batch.input_ids, batch.positions, self.kv_caches, batch.attn_metadata)
        if len(batch.logits_indices) == 0:
            return {req_id: SampledTokens([], None) for req_id in batch.req_ids}
        return self._sample(batch, self.model.compute_logits(hidden[batch.logits_indices]))

    def _sample(self, batch: Batch, logits: torch.Tensor) -> dict[str, SampledTokens]:
        params = []
        uniforms = []
        num_outputs = []
        for req_id, num_sampled in zip(batch.req_ids, batch.num_sampled, strict=True):
            row = self.input_batch.rows[req_id]
            params += [row.sampling_params] * num_sampled
            seed = row.sampling_params.seed or 0
            uniforms += [uniform(seed, len(row.token_ids) + i) for i in range(num_sampled)]
            num_outputs += [len(row.token_ids) - row.num_prompt_tokens + i for i in range(num_sampled)]
        token_ids = sample(forbid_stop_tokens(logits, params, num_outputs), params, uniforms).tolist()

        results = {}
        start = 0
        for req_id, num_sampled, drafts in zip(batch.req_ids, batch.num_sampled, batch.drafts, strict=True):
            kept = verify(token_ids[start : start + num_sampled], drafts)
            num_top = self.input_batch.rows[req_id].sampling_params.logprobs
            logprobs = None
            if num_top is not None:
                logprobs = [token_logprobs(logits[start + i], token_id, num_top) for i, token_id in enumerate(kept)]
            results[req_id] = SampledTokens(kept, logprobs)
            start += num_sampled
        return results
