"""Right answers to the practice of 4-preemption, as a student writes them."""

from minivllm.core.sched.scheduler import Scheduler
from minivllm.request import Request, RequestStatus


def select_victim(running: list[Request], policy: str) -> Request:
    return running[-1] if policy == "fcfs" else max(running, key=lambda r: (r.priority, r.arrival_time))


def preempt(scheduler: Scheduler, request: Request) -> None:
    scheduler.kv_cache_manager.free(request)
    request.status = RequestStatus.PREEMPTED
    request.num_computed_tokens = 0
    request.spec_token_ids = []
    request.num_preemptions += 1
    scheduler.waiting.prepend_request(request)
