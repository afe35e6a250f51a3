"""What holds after every step, whatever was scheduled; ``watch`` checks it in any run.

The checks read the core's state and repeat none of its arithmetic: they say what must be true, not how to get there.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from minivllm.core.sched.output import SchedulerOutput
from minivllm.core.sched.scheduler import Scheduler
from minivllm.observe.memory_invariants import check_cache, check_free_queue, check_tables
from minivllm.observe.recorder import around
from minivllm.observe.violation import InvariantError, Violation
from minivllm.request import RequestStatus


def watch(scheduler: Scheduler) -> None:
    """Checks a scheduler after every ``schedule`` and every ``update_from_output`` from now on.

    Raises (later, out of those two methods):
        InvariantError: an invariant is broken.
    """

    def after_schedule(call: Any, *args: Any, **kwargs: Any) -> Any:
        output = call(*args, **kwargs)
        _raise_any([*check_step(scheduler, output), *check_state(scheduler)])
        return output

    def after_update(call: Any, *args: Any, **kwargs: Any) -> Any:
        outputs = call(*args, **kwargs)
        _raise_any([*check_state(scheduler), *check_progress(scheduler)])
        return outputs

    around(scheduler, "schedule", after_schedule)
    around(scheduler, "update_from_output", after_update)


def check_step(scheduler: Scheduler, output: SchedulerOutput) -> list[Violation]:
    """What holds of the output of ``schedule``."""
    return list(_check_step(scheduler, output))


def check_state(scheduler: Scheduler) -> list[Violation]:
    """What holds of queues, tables, blocks and the prefix cache between any two calls."""
    return [
        *_check_queues(scheduler),
        *check_free_queue(scheduler),
        *check_tables(scheduler),
        *check_cache(scheduler),
    ]


def check_progress(scheduler: Scheduler) -> list[Violation]:
    """What holds of the counters once the model's output is taken in."""
    return [
        Violation(
            f"request {request.request_id!r}: num_computed_tokens",
            f"at most num_tokens = {request.num_tokens}",
            str(request.num_computed_tokens),
            "a rejected draft token must not stay computed",
        )
        for request in scheduler.requests.values()
        if request.num_computed_tokens > request.num_tokens
    ]


def _raise_any(violations: list[Violation]) -> None:
    if violations:
        raise InvariantError(violations)


def _check_step(scheduler: Scheduler, output: SchedulerOutput) -> Iterator[Violation]:
    scheduled = output.num_scheduled_tokens
    budget = scheduler.config.max_num_scheduled_tokens
    if sum(scheduled.values()) > budget:
        yield Violation(
            "the step's scheduled tokens", f"at most {budget}", str(sum(scheduled.values())), "the budget is per step"
        )
    if output.total_num_scheduled_tokens != sum(scheduled.values()):
        yield Violation(
            "total_num_scheduled_tokens",
            str(sum(scheduled.values())),
            str(output.total_num_scheduled_tokens),
            "the model's batch is built from it",
        )
    rows = [data.req_id for data in (*output.scheduled_new_reqs, *output.scheduled_resumed_reqs)]
    if output.preempted_req_ids and rows:
        yield Violation("admissions", "none", f"{rows}", "a step that preempts admits nobody")
    if sorted([*rows, *output.scheduled_cached_reqs.req_ids]) != sorted(scheduled):
        yield Violation(
            "the rows of the output", f"{sorted(scheduled)}", f"{sorted(rows)}", "each scheduled request has one row"
        )
    for request_id in output.scheduled_spec_decode_tokens.keys() - scheduled.keys():
        yield Violation(f"request {request_id!r}: drafts to verify", "none", "some", "it is not scheduled in this step")
    for request_id, num_tokens in scheduled.items():
        name = f"request {request_id!r}"
        # Padding (-1) keeps its full length even where long_prefill_token_threshold cuts the newcomer's tokens.
        drafts = [draft for draft in output.scheduled_spec_decode_tokens.get(request_id, []) if draft >= 0]
        if num_tokens < 1:
            yield Violation(
                f"{name}: scheduled tokens", "at least 1", str(num_tokens), "there is nothing to compute in it"
            )
        if num_tokens < len(drafts) + 1:
            yield Violation(
                f"{name}: scheduled tokens",
                f"more than its {len(drafts)} drafts",
                str(num_tokens),
                "drafts are verified by a known token",
            )
        if request_id in output.preempted_req_ids:
            yield Violation(
                f"{name}", "not scheduled", "scheduled", "it was preempted in this step and holds no blocks"
            )
        request = scheduler.requests.get(request_id)
        if request is None or request.status is not RequestStatus.RUNNING:
            status = "gone" if request is None else request.status.name
            yield Violation(f"{name}: status", "RUNNING", status, "only a running request is computed")


def _check_queues(scheduler: Scheduler) -> Iterator[Violation]:
    places = Counter(request.request_id for request in (*scheduler.running, *scheduler.waiting))
    for request_id in sorted(places.keys() | scheduler.requests.keys()):
        if places[request_id] != 1 or request_id not in scheduler.requests:
            expected = "exactly 1" if request_id in scheduler.requests else "none: it has finished"
            yield Violation(
                f"request {request_id!r}: queues that hold it",
                expected,
                str(places[request_id]),
                "one queue owns a request",
            )
    for request in scheduler.running:
        if request.status is not RequestStatus.RUNNING:
            yield Violation(
                f"{request!r} in running", "RUNNING", request.status.name, "the queue and the status must agree"
            )
    for request in scheduler.waiting:
        if request.status not in (RequestStatus.WAITING, RequestStatus.PREEMPTED):
            yield Violation(
                f"{request!r} in waiting",
                "WAITING or PREEMPTED",
                request.status.name,
                "the queue and the status must agree",
            )
        if request.num_computed_tokens:
            yield Violation(
                f"{request!r} in waiting",
                "0 computed tokens",
                str(request.num_computed_tokens),
                "a waiting request holds no KV",
            )
        if request.spec_token_ids and request.status is RequestStatus.PREEMPTED:
            yield Violation(
                f"{request!r}: drafts", "none", str(request.spec_token_ids), "a preemption drops the drafts"
            )
    limit = scheduler.scheduler_config.max_num_seqs
    if len(scheduler.running) > limit:
        yield Violation(
            "running",
            f"at most max_num_seqs = {limit}",
            str(len(scheduler.running)),
            "the model's batch has no more rows",
        )
