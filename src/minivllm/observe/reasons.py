"""A sentence for each thing that a step did, and the rule that made it happen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from minivllm.core.sched.output import EngineCoreOutput, SchedulerOutput
from minivllm.core.sched.scheduler import Scheduler
from minivllm.observe.frame import Frame, RequestFrame
from minivllm.observe.recorder import Event, around
from minivllm.request import Request, RequestStatus

_LISTED = 8  # ids in one sentence


@dataclass(frozen=True)
class Refusal:
    """An ``allocate_slots`` that returned None, in blocks.

    Attributes:
        needed: None where nobody counted: an ``allocate_slots`` of one's own has other ways to say no.
        is_gate: whether the full-sequence gate said no, before this step's tokens were looked at.
        watermark: blocks that an admission has to leave free.
    """

    request_id: str
    needed: int | None
    free: int
    watermark: int
    is_gate: bool

    def __str__(self) -> str:
        return f"{self.wants}, {self.free} free"

    @property
    def wants(self) -> str:
        return "gets None from allocate_slots" if self.needed is None else f"needs {count(self.needed, 'block')}"


class Reasons:
    """Listens to one scheduler for what no output tells: who asked for how many blocks, and who paid for it.

    Attributes:
        said: sentences since the last ``end``.
        lost: computed tokens that each victim of the step dropped.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.said: list[str] = []
        self.lost: dict[str, int] = {}
        self._refusal: Refusal | None = None
        self._needed: int | None = None
        self._is_gate = False
        self._running: list[str] | None = None  # None outside schedule()
        manager = scheduler.kv_cache_manager
        around(manager, "allocate_slots", self._on_allocate)
        around(manager.coordinator, "get_num_blocks_to_allocate", self._on_count)
        around(manager.coordinator, "remove_skipped_blocks", self._on_skip)
        around(scheduler, "_preempt_request", self._on_preempt)

    def begin(self) -> None:
        """A step starts; what was said since the last one stays."""
        self.lost = {}
        self._refusal = None
        self._running = [request.request_id for request in self.scheduler.running]

    def end(
        self, requests: Sequence[RequestFrame], output: SchedulerOutput, events: Iterable[Event], aborted: Iterable[str]
    ) -> list[str]:
        """All that there is to say about the step that was just decided."""
        self._running = None
        said, self.said = self.said, []
        gone = [f"{request_id} was aborted before this step" for request_id in aborted]
        admitted = {data.req_id for data in (*output.scheduled_new_reqs, *output.scheduled_resumed_reqs)}
        resumed = {data.req_id for data in output.scheduled_resumed_reqs}
        running = [request for request in requests if request.status == "running"]
        cut = [
            f"{r.request_id} gets {r.scheduled + r.drafts} of its gap of {r.gap}: {self._cut(r)}"
            for r in running
            if r.scheduled and r.remaining and r.request_id not in admitted
        ]
        came = [self._admitted(r, r.request_id in resumed) for r in running if r.request_id in admitted]
        sentences = [*gone, *said, *cut, *self._skipped(running, output), *came, *_evicted(events)]
        waiting = [request for request in requests if request.status != "running"]
        if waiting:
            sentences.append(self._stays(waiting, len(running), output))
        if not output.num_scheduled_tokens and (diagnosis := self.scheduler.diagnose()):
            sentences.append(diagnosis)
        if sentences:
            return sentences
        return ["every running request gets its whole gap" if running else "there is nobody to schedule"]

    def _cut(self, request: RequestFrame) -> str:
        config, got = self.scheduler.scheduler_config, request.scheduled + request.drafts
        if 0 < config.long_prefill_token_threshold == got:
            return f"long_prefill_token_threshold is {got}"
        if request.computed + got == config.max_model_len - 1:
            return f"max_model_len is {config.max_model_len}, and the token that is sampled needs a place"
        return "that is all that was left of the budget"

    def _admitted(self, request: RequestFrame, is_resumed: bool) -> str:
        verb = "resumed" if is_resumed else "admitted"
        known = request.target - request.drafts
        got, rest = request.scheduled, known - request.hit
        hit = f"{request.hit} of {known} tokens hit" if request.hit else "no hit"
        cut = f"; gets {got}: {self._cut(request)}" if got < rest else ""
        pad = f"; padded with {count(request.drafts, 'draft')} to the size of the others" if request.drafts else ""
        return f"{request.request_id} {verb}: {hit}, {rest} to compute{cut}{pad}"

    def _skipped(self, running: Sequence[RequestFrame], output: SchedulerOutput) -> list[str]:
        nothing = [r.request_id for r in running if not r.scheduled and not r.drafts]
        if not nothing:
            return []
        verb = "gets" if len(nothing) == 1 else "get"
        if self._spent(output):
            return [f"{listed(nothing)} {verb} nothing: the budget was used up before"]
        if self.lost:
            return [f"{listed(nothing)} {verb} nothing: a request that preempts itself ends the running pass"]
        return [f"{listed(nothing)} {verb} nothing: max_model_len is {self.scheduler.max_model_len}"]

    def _stays(self, waiting: Sequence[RequestFrame], num_running: int, output: SchedulerOutput) -> str:
        head, config = waiting[0], self.scheduler.scheduler_config
        behind = f"; {len(waiting) - 1} behind it, and nobody overtakes" if len(waiting) > 1 else ""
        left = self.scheduler.config.max_num_scheduled_tokens - output.total_num_scheduled_tokens
        refusal = self._refusal
        if output.preempted_req_ids:
            return f"nobody is admitted, {len(waiting)} waiting: a step that preempts admits nobody"
        if refusal is not None and refusal.request_id == head.request_id:
            gate = f" for all its {head.target} known tokens (full-sequence gate)" if refusal.is_gate else ""
            kept = f", and the watermark keeps {refusal.watermark} back" if refusal.watermark else ""
            why = f"{refusal.wants}{gate}, {refusal.free} free{kept}"
        elif num_running >= config.max_num_seqs:
            why = f"max_num_seqs is {config.max_num_seqs}, and as many run"
        elif left <= 0:
            why = "the budget is used up"
        elif self._spent(output):
            why = f"{left} tokens of budget are left, but the drafter's slots fill the model's input"
        elif not config.enable_chunked_prefill:
            why = f"its gap exceeds the {left} tokens of budget left, and chunked prefill is off"
        else:
            why = f"padded with drafts to the size of the others, it does not fit the {left} tokens of budget left"
        return f"{head.request_id} stays: {why}{behind}"

    def _spent(self, output: SchedulerOutput) -> bool:
        scheduler, total = self.scheduler, output.total_num_scheduled_tokens
        slots = scheduler.draft_slots * (1 + len(output.num_scheduled_tokens))
        input_left = scheduler.scheduler_config.max_num_batched_tokens - slots - total
        return min(scheduler.config.max_num_scheduled_tokens - total, input_left) <= 0

    # ---- listeners

    def _on_count(self, call: Callable[..., int], *args: Any, **kwargs: Any) -> int:
        self._needed = needed = call(*args, **kwargs)
        self._is_gate = kwargs.get("apply_admission_cap", False)
        return needed

    def _on_allocate(self, call: Callable[..., Any], request: Request, *args: Any, **kwargs: Any) -> Any:
        self._needed, self._is_gate = None, False
        blocks = call(request, *args, **kwargs)
        if blocks is None:
            manager = self.scheduler.kv_cache_manager
            is_gated = request.status is not RequestStatus.RUNNING and kwargs.get("has_scheduled_reqs", True)
            free = manager.block_pool.get_num_free_blocks()
            watermark = manager.watermark_blocks if is_gated and self._needed is not None else 0
            self._refusal = Refusal(request.request_id, self._needed, free, watermark, self._is_gate)
        return blocks

    def _on_skip(self, call: Callable[..., None], request_id: str, num_computed_tokens: int) -> None:
        pool = self.scheduler.kv_cache_manager.block_pool
        before = pool.get_num_free_blocks()
        call(request_id, num_computed_tokens)
        released = pool.get_num_free_blocks() - before
        if released:
            self.said.append(f"{request_id}: its sliding window left {count(released, 'block')} behind, free now")

    def _on_preempt(self, call: Callable[..., None], request: Request) -> None:
        victim, lost = request.request_id, request.num_computed_tokens
        call(request)
        dropped = f"its {lost} computed tokens are dropped"
        if self._running is None:
            self.said.append(f"{victim} preempted between two steps; {dropped}")
            return
        self.lost[victim] = lost
        chosen = self._why_chosen(request)
        self._running = [request_id for request_id in self._running if request_id != victim]
        refusal = self._refusal
        if refusal is None:
            self.said.append(f"{victim} preempted; {dropped}")
        elif refusal.request_id == victim:
            self.said.append(f"{victim} preempts itself: it {refusal}, and {chosen}; {dropped}")
        else:
            self.said.append(f"{victim} preempted: {refusal.request_id} {refusal}, {chosen}; {dropped}")

    def _why_chosen(self, victim: Request) -> str:
        """The policy's rule if it names this victim; a scheduler of one's own may follow another."""
        assert self._running is not None
        name, others = victim.request_id, self.scheduler.running
        if self.scheduler.scheduler_config.policy == "fcfs":
            return f"{name} is the tail of running" if self._running[-1:] == [name] else f"{name} was chosen"
        if any((victim.priority, victim.arrival_time) < (other.priority, other.arrival_time) for other in others):
            return f"{name} was chosen"
        if any(other.priority == victim.priority for other in others):
            return f"{name} arrived last of those with the largest priority, {victim.priority}"
        return f"{name} has the largest priority, {victim.priority}"


def answered(frame: Frame, sampled: Mapping[str, Sequence[int]], outputs: Iterable[EngineCoreOutput]) -> list[str]:
    """What the model's answer changed: drafts that were verified and requests that ended."""
    ended, rolled_back, all_right = [], [], []
    for output in outputs:
        if output.finish_reason is None:
            continue
        tables = frame.block_tables.get(output.request_id, ())
        held = [str(block_id) for table in tables for block_id in reversed(table) if block_id]
        ending = f"{output.request_id} finished ({output.finish_reason})"
        ended.append(f"{ending}: its blocks go back, tail first: {listed(held)}")
    for request in frame.requests:
        request_id, drafts = request.request_id, request.drafts
        if not drafts or not sampled.get(request_id):
            continue
        accepted, reached = len(sampled[request_id]) - 1, request.computed + request.scheduled + drafts
        if accepted == drafts:
            all_right.append(request_id)
            continue
        back = f"computed goes back from {reached} to {reached - drafts + accepted}"
        rolled_back.append(f"{request_id}: {accepted} of {count(drafts, 'draft')} accepted, {back}")
    return [*ended, *rolled_back, *([f"all drafts accepted: {listed(all_right)}"] if all_right else [])]


def _evicted(events: Iterable[Event]) -> list[str]:
    """Who took blocks whose hashes were lost by it."""
    taken: dict[str, list[str]] = {}
    taker = ""
    for name, *rest in events:
        if name == "alloc":
            taker = rest[0]
        elif name == "evict":
            taken.setdefault(taker, []).append(f"#{rest[1]} (block {rest[0]})")
    return [
        f"evicted: {listed(hashes)}, because {taker} takes the front of the free queue"
        for taker, hashes in taken.items()
    ]


def count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def listed(names: Sequence[str]) -> str:
    """The names, or the first of them and how many more there are."""
    more = len(names) - _LISTED
    return ", ".join(names[:_LISTED]) + (f" and {more} more" if more > 0 else "")
