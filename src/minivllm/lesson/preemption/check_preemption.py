"""Checks of the practice functions of 4-preemption: each is driven beside minivllm.core through the same states."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from minivllm.config import CacheConfig, EngineConfig, SchedulerConfig, SpeculativeConfig
from minivllm.core.sched.scheduler import Scheduler
from minivllm.lesson.common.checks import Student, Wrong, call, report
from minivllm.request import Request, SamplingParams

# --- select_victim ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Running:
    """Requests as (id, priority, arrival time), in the order of admission, and the policy."""

    policy: str
    requests: tuple[tuple[str, int, float], ...]


_QUEUES = (
    _Running("fcfs", (("A", 0, 0.0), ("B", 0, 1.0), ("C", 0, 2.0))),
    _Running("fcfs", (("A", 0, 0.0), ("C", 0, 2.0), ("B", 0, 1.0))),
    _Running("fcfs", (("A", 0, 0.0), ("B", 9, 1.0), ("C", 1, 2.0))),
    _Running("fcfs", (("A", 0, 0.0),)),
    _Running("priority", (("A", 1, 0.0), ("B", 5, 1.0), ("C", 0, 2.0), ("D", 2, 3.0))),
    _Running("priority", (("A", 5, 1.0), ("B", 5, 2.0), ("C", 1, 3.0))),
    _Running("priority", (("A", 5, 2.0), ("B", 5, 1.0), ("C", 1, 3.0))),
    _Running("priority", (("A", -1, 0.0), ("B", 0, 1.0), ("C", -2, 2.0))),
    _Running("priority", (("B", 3, 4.0), ("A", 3, 4.0), ("C", 0, 9.0))),
)
_BELIEFS: tuple[tuple[str, Callable[[Sequence[Request], str], Request], str], ...] = (
    ("both", lambda running, policy: running[0], "this is the head, the one admitted first"),
    (
        "priority",
        lambda running, policy: min(running, key=lambda r: (r.priority, r.arrival_time)),
        "this is the lowest number: under the priority policy a smaller number is served first, so the largest goes",
    ),
    ("priority", lambda running, policy: running[-1], "this is the tail: the priority policy looks at priorities"),
    (
        "priority",
        lambda running, policy: max(running, key=lambda r: r.arrival_time),
        "this is the latest arrival: priority comes first, and arrival only decides among equals",
    ),
    (
        "priority",
        lambda running, policy: max(reversed(running), key=lambda r: (r.priority, r.arrival_time)),
        "priority and arrival are equal: the first of them in running goes (max keeps the first)",
    ),
    (
        "fcfs",
        lambda running, policy: max(running, key=lambda r: r.arrival_time),
        "this is the latest arrival: fcfs takes the tail, who was admitted (or readmitted) last",
    ),
    (
        "fcfs",
        lambda running, policy: max(running, key=lambda r: (r.priority, r.arrival_time)),
        "this is the largest (priority, arrival): fcfs looks at the order of running alone",
    ),
)
_RULES = {
    "fcfs": "fcfs takes the tail of running",
    "priority": "the priority policy takes the largest (priority, arrival_time), the first of equal ones",
}


def check_select_victim(function: Student) -> None:
    """Compare `function(running, policy)`, which gives a request, with the engine's choice in several queues."""
    report("select_victim", lambda: _compare_victims(function))


def _compare_victims(function: Student) -> str:
    takes = "it takes (running, policy) and returns a request of running"
    for queue in _QUEUES:
        scheduler = Scheduler(EngineConfig(SchedulerConfig(policy=queue.policy)))
        scheduler.running = running = [
            Request(name, [1], SamplingParams(), priority=priority, arrival_time=arrival)
            for name, priority, arrival in queue.requests
        ]
        expected = running[scheduler._select_victim()]
        given = list(running)
        name = f"select_victim({_listed(queue)}, {queue.policy!r})"
        actual = call(name, function, given, queue.policy, expected="a call that ends", why=takes)
        if given != running:
            chooses = "it only chooses: the scheduler takes the victim out of running"
            raise Wrong(name, "running as it was", _ids(given), chooses)
        if actual is not expected:
            raise Wrong(name, expected.request_id, _shown(actual), _believed(running, queue.policy, actual))
    return f"{len(_QUEUES)} queues as in minivllm.core"


def _believed(running: Sequence[Request], policy: str, actual: Any) -> str:
    if not any(actual is request for request in running):
        kind = "its index" if type(actual) is int else "its id" if isinstance(actual, str) else "anything else"
        return f"the victim is a request of running, not {kind}"
    largest = max(running, key=lambda r: (r.priority, r.arrival_time))
    if policy == "priority" and actual.priority == largest.priority and actual.arrival_time < largest.arrival_time:
        return "the priorities are equal: then the later arrival goes"
    for where, belief, why in _BELIEFS:
        if where in ("both", policy) and belief(running, policy) is actual:
            return f"{why}; {_RULES[policy]}" if where == "both" else why
    return _RULES[policy]


def _listed(queue: _Running) -> str:
    if queue.policy == "fcfs":
        return f"[{', '.join(name for name, _, _ in queue.requests)}]"
    return f"[{', '.join(f'{name} ({priority}, {arrival:g})' for name, priority, arrival in queue.requests)}]"


def _ids(requests: Sequence[Request]) -> str:
    return f"[{', '.join(request.request_id for request in requests)}]"


def _shown(value: Any) -> str:
    return value.request_id if isinstance(value, Request) else repr(value)


# --- preempt ----------------------------------------------------------------------------------------------------


def check_preempt(function: Student) -> None:
    """Compare what `function(scheduler, request)` leaves behind with what the engine's own preemption does.

    The request is out of `running` already. It shares two blocks with another one, and has outputs and drafts.
    """
    report("preempt", lambda: _compare_preemptions(function))


def _compare_preemptions(function: Student) -> str:
    for policy in _POLICIES:
        (engine, its), (own, victim) = _situation(policy), _situation(policy)
        engine._preempt_request(its)
        name = f"preempt, {policy}"
        call(name, function, own, victim, expected="a call that ends")
        goes_on = "the engine goes on with what it leaves"
        left = call(name, _left, own, victim, expected="a call that ends", why=goes_on)
        for (what, expected, why), (_, actual, _) in zip(_traits(engine, its), left, strict=True):
            if type(actual) is not type(expected) or actual != expected:
                raise Wrong(f"{policy}: {what}", expected, actual, _wrong_idea(what, actual, why))
    return f"{len(_POLICIES)} situations as in minivllm.core"


_POLICIES = ("fcfs", "priority")


def _situation(policy: str) -> tuple[Scheduler, Request]:
    """A and B run and share two blocks, W waits; B, with drafts, has just been taken out of running."""
    config = SchedulerConfig(max_num_batched_tokens=64, policy=policy)
    scheduler = Scheduler(EngineConfig(config, CacheConfig(4, num_gpu_blocks=16), SpeculativeConfig("ngram", 2)))
    scheduler.add_request(_request("A", 100, priority=0))
    scheduler.add_request(_request("B", 200, priority=7))
    for token in (50, 51, 52):
        output = scheduler.schedule()
        scheduler.update_from_output(output, {name: [token] for name in output.num_scheduled_tokens})
    scheduler.update_draft_token_ids({"B": [53, 54]})
    scheduler.add_request(_request("W", 300, priority=3))
    victim = scheduler.requests["B"]
    scheduler.running.remove(victim)
    return scheduler, victim


def _request(name: str, own_token: int, priority: int) -> Request:
    prompt = [*range(8), own_token, own_token + 1]
    return Request(name, prompt, SamplingParams(max_tokens=8), priority=priority, arrival_time=float(own_token))


def _left(scheduler: Scheduler, request: Request) -> list[tuple[str, Any, str]]:
    return list(_traits(scheduler, request))


def _traits(scheduler: Scheduler, request: Request) -> Iterator[tuple[str, Any, str]]:
    """What a preemption decides, the telling things first: its name, its value, the rule."""
    pool = scheduler.kv_cache_manager.block_pool
    table = scheduler.kv_cache_manager.get_blocks("A").blocks[0]
    yield "known tokens", list(request.all_token_ids), "prompt and outputs belong to the Request and survive"
    yield (
        "blocks in its table",
        [block.block_id for block in scheduler.kv_cache_manager.get_blocks(request.request_id).blocks[0]],
        "a preempted request holds no block: the KV cache manager drops its whole table",
    )
    yield (
        "ref counts of A's blocks",
        [block.ref_cnt for block in table],
        "B drops its own references: a block that A holds too goes from 2 to 1",
    )
    yield (
        "findable blocks",
        sorted(block.block_id for block in pool.blocks if block.block_hash is not None),
        "a freed block keeps its hash until somebody takes it: B can find its own prefix again",
    )
    yield (
        "free queue",
        [block.block_id for block in pool.free_block_queue.get_all_free_blocks()],
        "only blocks that nobody holds are free, the tail of a table first",
    )
    yield "status", getattr(request.status, "name", request.status), "the status is PREEMPTED: it comes back as resumed"
    yield (
        "num_computed_tokens",
        request.num_computed_tokens,
        "without a table nothing is computed; what the cache still holds is looked up when it comes back",
    )
    yield "spec_token_ids", request.spec_token_ids, "drafts are dropped: they continued a sequence that is on hold"
    yield (
        "waiting",
        [waiting.request_id for waiting in scheduler.waiting],
        "fcfs puts it in front of waiting, the priority heap in its normal place",
    )
    yield "running", [running.request_id for running in scheduler.running], "the engine took it out of running already"
    yield "requests", sorted(scheduler.requests), "it is not finished: the scheduler still owns it"
    yield "num_preemptions", request.num_preemptions, "each preemption counts once"


def _wrong_idea(what: str, actual: Any, why: str) -> str:
    """The rule, after the name of the wrong idea where `actual` gives it away."""
    ideas: dict[tuple[str, bool], str] = {
        ("known tokens", True): "this drops the outputs",
        ("blocks in its table", True): "this forgets to give the blocks back",
        ("ref counts of A's blocks", isinstance(actual, list) and 0 in actual): "this frees shared blocks entirely",
        ("findable blocks", isinstance(actual, list) and bool(actual)): "this clears hashes",
        ("num_computed_tokens", bool(actual)): "this forgets to reset the progress, though the blocks are gone",
        ("status", actual == "WAITING"): "this makes it look like a new request",
        ("status", str(actual).startswith("FINISHED")): "this ends the request",
        ("waiting", isinstance(actual, list) and actual[-1:] == ["B"]): "this appends it to the end of waiting",
        ("waiting", isinstance(actual, list) and actual.count("B") > 1): "this queues it twice",
        ("waiting", isinstance(actual, list) and "B" not in actual): "this loses the request: no queue holds it",
    }
    idea = ideas.get((what, True))
    return f"{idea}; {why}" if idea else why
