"""vLLM's side of ``minivllm bench scheduler``: its own Scheduler, unchanged, driven in an interpreter that has vllm.

Run as a script by that interpreter; minivllm need not be installed there.
"""

import json
import os
import platform
import tempfile
from pathlib import Path
from typing import Any

os.environ |= {
    "VLLM_TARGET_DEVICE": "cpu",
    "VLLM_USE_V2_MODEL_RUNNER": "0",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
}

import torch
import vllm
from scheduler_workloads import serve
from vllm.config import CacheConfig, ModelConfig, SchedulerConfig, VllmConfig
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.request import Request
from vllm.v1.structured_output import StructuredOutputManager

# The scheduler asks a model for little more than its length; no weights are loaded.
MODEL = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "num_hidden_layers": 2,
    "vocab_size": 32_000,
    "max_position_embeddings": 65_536,
    "rms_norm_eps": 1e-6,
    "torch_dtype": "float32",
}


class VllmEngine:
    def __init__(self, config: dict[str, int]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "config.json").write_text(json.dumps(MODEL))
            model_config = ModelConfig(
                model=folder, dtype="float32", seed=0, skip_tokenizer_init=True, max_model_len=config["max_model_len"]
            )
        vllm_config = VllmConfig(
            model_config=model_config,
            scheduler_config=SchedulerConfig(
                max_num_seqs=config["max_num_seqs"],
                max_num_batched_tokens=config["max_num_batched_tokens"],
                max_model_len=config["max_model_len"],
                is_encoder_decoder=False,
                enable_chunked_prefill=True,
                policy="fcfs",
                async_scheduling=False,
            ),
            cache_config=CacheConfig(block_size=config["block_size"], enable_prefix_caching=True),
        )
        vllm_config.cache_config.num_gpu_blocks = config["num_gpu_blocks"]
        spec = FullAttentionSpec(block_size=config["block_size"], num_kv_heads=1, head_size=1, dtype=torch.float32)
        self.block_hasher = get_request_block_hasher(config["block_size"], sha256)
        self.scheduler = Scheduler(
            vllm_config=vllm_config,
            kv_cache_config=KVCacheConfig(
                num_blocks=config["num_gpu_blocks"],
                kv_cache_tensors=[],
                kv_cache_groups=[KVCacheGroupSpec(["layer"], spec)],
            ),
            structured_output_manager=StructuredOutputManager(vllm_config),
            block_size=config["block_size"],
            log_stats=False,
        )
        self.schedule = self.scheduler.schedule

    def add(self, request_id: str, prompt_token_ids: list[int], max_tokens: int, arrival_time: float) -> None:
        self.scheduler.add_request(
            Request(
                request_id=request_id,
                prompt_token_ids=prompt_token_ids,
                sampling_params=SamplingParams(max_tokens=max_tokens, ignore_eos=True),
                pooling_params=None,
                arrival_time=arrival_time,
                block_hasher=self.block_hasher,
            )
        )

    def scheduled(self, output: Any) -> dict[str, int]:
        return output.num_scheduled_tokens  # type: ignore[no-any-return]

    def samples(self, request_id: str) -> bool:
        request = self.scheduler.requests[request_id]
        return bool(request.num_computed_tokens >= request.num_tokens)

    def update(self, output: Any, sampled: dict[str, list[int]]) -> None:
        model_runner_output = ModelRunnerOutput(
            req_ids=list(sampled),
            req_id_to_index={request_id: index for index, request_id in enumerate(sampled)},
            sampled_token_ids=list(sampled.values()),
            logprobs=None,
            prompt_logprobs_dict={},
            pooler_output=[],
        )
        self.scheduler.update_from_output(output, model_runner_output)


if __name__ == "__main__":
    init_none_hash(sha256)
    serve(VllmEngine, f"vLLM {vllm.__version__} on Python {platform.python_version()}")
