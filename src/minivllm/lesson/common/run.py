"""A load on its way through a real Scheduler, beside a model that answers by script, not by weights."""

from __future__ import annotations

from dataclasses import dataclass, field

from minivllm.core.sched.scheduler import Scheduler
from minivllm.lesson.common.load import Arrival, Load, in_names_of_a_load
from minivllm.lesson.common.table import Table
from minivllm.lesson.common.watch import VIEW_COLUMNS, Step, watch_step
from minivllm.lesson.common.why import explain
from minivllm.observe.recording import Recording
from minivllm.request import Request, SamplingParams

MAX_STEPS = 50
MAX_RECORDED_STEPS = 1000
_PROMPT_STRIDE = 10_000  # token ids of two requests never meet, unless their prompts share a prefix on purpose


@dataclass
class Run:
    """A load on its way through one Scheduler; `begin` and `end` are the halves of an engine step around the model."""

    load: Load
    scheduler: Scheduler = field(init=False)
    num_steps: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.scheduler = Scheduler(self.load.config)
        self._arrivals = {arrival.request_id: arrival for arrival in self.load.arrivals}

    @classmethod
    def after(cls, load: Load, steps: int) -> Run:
        """`load` after that many steps, with the requests of the next one in the queue."""
        run = cls(load)
        for _ in range(steps):
            run.step()
        run.arrive()
        return run

    @property
    def finished(self) -> bool:
        return not self.scheduler.requests and all(arrival.step < self.num_steps for arrival in self.load.arrivals)

    def standstill(self, step: Step) -> str | None:
        """Why nothing will move any more after `step`; None if something will."""
        if step.scheduled or any(arrival.step >= self.num_steps for arrival in self.load.arrivals):
            return None
        diagnosis = self.scheduler.diagnose()
        return in_names_of_a_load(diagnosis) if diagnosis else None

    def arrive(self) -> None:
        """Add the requests that arrive before the coming step."""
        for index, arrival in enumerate(self.load.arrivals):
            if arrival.step == self.num_steps:
                self.scheduler.add_request(_request(arrival, index))

    def schedule(self) -> Step:
        return watch_step(self.scheduler)

    def answer(self, step: Step) -> None:
        """Play the model and the drafter for `step`."""
        requests = self.scheduler.requests
        sampled = {request_id: self._sampled(requests[request_id], step) for request_id in step.scheduled}
        self.scheduler.update_from_output(step.output, sampled)
        drafts = {
            r.request_id: self._drafts(r) for r in self.scheduler.running if r.num_computed_tokens + 1 == r.num_tokens
        }
        self.scheduler.update_draft_token_ids({request_id: tokens for request_id, tokens in drafts.items() if tokens})
        self.num_steps += 1

    def tables_of(self, request_id: str) -> tuple[list[int], ...]:
        """Block ids of a request, one list a KV cache group."""
        return self.scheduler.kv_cache_manager.get_blocks(request_id).get_block_ids()

    def step(self) -> Step:
        self.arrive()
        step = self.schedule()
        self.answer(step)
        return step

    def _sampled(self, request: Request, step: Step) -> list[int]:
        if request.num_computed_tokens < request.num_tokens:
            return []  # a chunk that stops short of the last known token has nothing to sample from
        arrival = self._arrivals[request.request_id]
        drafts = step.output.scheduled_spec_decode_tokens.get(request.request_id, [])
        accepted = [token for token in drafts[: arrival.accepted] if token >= 0]
        return [*accepted, request.num_tokens]

    def _drafts(self, request: Request) -> list[int]:
        return list(range(1, 1 + self._arrivals[request.request_id].drafts))


def watch_load(load: Load) -> Table:
    """Run `load` to its end: what every request got in every step, and by which rule.

    It ends after MAX_STEPS steps, or earlier where a request stands still for ever.
    """
    run = Run(load)
    rows: list[tuple[object, ...]] = []
    standstill: str | None = None
    while not run.finished and not standstill and run.num_steps < MAX_STEPS:
        index, step = run.num_steps, run.step()
        for view in step.before:
            got = step.scheduled.get(view.request_id, 0)
            rows.append((index, *view.row, got, explain(step, view.request_id)))
        standstill = run.standstill(step)
    note = standstill or ("" if run.finished else f"stopped after {MAX_STEPS} steps")
    return Table(("step", *VIEW_COLUMNS, "scheduled", "why"), rows, note=note)


def record(load: Load) -> Recording:
    """Run `load` to its end (at most MAX_RECORDED_STEPS steps, or until a request stands still for ever)."""
    run = Run(load)
    recording = Recording(run.scheduler)
    while not run.finished:
        step = run.step()
        if run.num_steps == MAX_RECORDED_STEPS:
            recording.frames[-1].why.append(f"the recording ends here, after {MAX_RECORDED_STEPS} steps")
            break
        if run.standstill(step):
            break
    return recording


def _request(arrival: Arrival, index: int) -> Request:
    own = range((index + 1) * _PROMPT_STRIDE, (index + 1) * _PROMPT_STRIDE + arrival.prompt - arrival.shared)
    return Request(
        arrival.request_id,
        prompt_token_ids=[*range(arrival.shared), *own],
        sampling_params=SamplingParams(max_tokens=arrival.max_tokens),
        arrival_time=float(index),
        priority=arrival.priority,
    )
