"""minivllm's side of ``minivllm bench scheduler``."""

import platform

from minivllm.bench.scheduler_workloads import serve
from minivllm.config import CacheConfig, EngineConfig, SchedulerConfig
from minivllm.core.sched.output import SchedulerOutput
from minivllm.core.sched.scheduler import Scheduler
from minivllm.request import Request, SamplingParams


class MinivllmEngine:
    def __init__(self, config: dict[str, int]) -> None:
        self.scheduler = Scheduler(
            EngineConfig(
                SchedulerConfig(
                    max_num_batched_tokens=config["max_num_batched_tokens"],
                    max_num_seqs=config["max_num_seqs"],
                    max_model_len=config["max_model_len"],
                ),
                CacheConfig(block_size=config["block_size"], num_gpu_blocks=config["num_gpu_blocks"]),
            )
        )
        self.schedule = self.scheduler.schedule
        self.update = self.scheduler.update_from_output

    def add(self, request_id: str, prompt_token_ids: list[int], max_tokens: int, arrival_time: float) -> None:
        params = SamplingParams(max_tokens=max_tokens)
        self.scheduler.add_request(Request(request_id, prompt_token_ids, params, arrival_time=arrival_time))

    def scheduled(self, output: SchedulerOutput) -> dict[str, int]:
        return output.num_scheduled_tokens

    def samples(self, request_id: str) -> bool:
        request = self.scheduler.requests[request_id]
        return request.num_computed_tokens >= request.num_tokens


if __name__ == "__main__":
    serve(MinivllmEngine, f"minivllm on Python {platform.python_version()}")
