"""A load: requests that arrive over time at a real Scheduler, beside a model that answers by script, not by weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from minivllm.config import CacheConfig, EngineConfig, SchedulerConfig, SpeculativeConfig
from minivllm.core.sched.scheduler import Scheduler
from minivllm.kv_cache_interface import FullAttentionSpec, KVCacheSpec
from minivllm.lesson.errors import LessonError
from minivllm.lesson.table import Table
from minivllm.lesson.watch import VIEW_COLUMNS, Step, watch_step
from minivllm.lesson.why import explain
from minivllm.observe.recording import Recording
from minivllm.request import Request, SamplingParams

MAX_STEPS = 50
MAX_RECORDED_STEPS = 1000
_MAX_MODEL_LEN = 256
_LEAST = {"prompt": 1, "step": 0, "max_tokens": 1, "drafts": 0, "accepted": 0, "shared": 0}
_NAMES = {  # what an engine's setting is called in a Load
    "SchedulerConfig.max_num_batched_tokens": "Load.budget",
    "CacheConfig.num_gpu_blocks": "Load.blocks",
    "SchedulerConfig.": "Load.",
    "CacheConfig.": "Load.",
}
_PROMPT_STRIDE = 10_000  # token ids of two requests never meet, unless their prompts share a prefix on purpose


@dataclass(frozen=True)
class Arrival:
    """One request of a load, in tokens.

    Attributes:
        request_id: its name in every table.
        prompt: tokens of its prompt.
        step: the step (from 0) before which it joins the waiting queue.
        max_tokens: outputs after which it finishes.
        drafts: tokens that the drafter proposes before each of its decodes.
        accepted: how many of them the model accepts (the first ones).
        shared: tokens at the start of its prompt that it has in common with every other request that shares some.
        priority: smaller is served first under the priority policy.
    """

    request_id: str
    prompt: int
    step: int = 0
    max_tokens: int = 4
    drafts: int = 0
    accepted: int = 0
    shared: int = 0
    priority: int = 0

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if type(value) is not int or value < least:
                raise LessonError(
                    f"Arrival {self.request_id!r}: {name} is {value!r}, but must be a whole number of at least {least}"
                )
        if self.prompt >= _MAX_MODEL_LEN:
            raise LessonError(
                f"Arrival {self.request_id!r}: prompt is {self.prompt}, but a load's sequences hold at most "
                f"{_MAX_MODEL_LEN} tokens, an output among them"
            )
        if self.accepted > self.drafts:
            raise LessonError(
                f"Arrival {self.request_id!r}: accepted is {self.accepted}, but only {self.drafts} drafts are proposed"
            )
        if self.shared > self.prompt:
            raise LessonError(
                f"Arrival {self.request_id!r}: shared is {self.shared}, but its prompt has only {self.prompt} tokens"
            )


@dataclass(frozen=True)
class Load:
    """Arrivals, and the engine that they meet.

    Attributes:
        budget: tokens a step.
        blocks: of `block_size` tokens each, the null block among them.
        watermark: the fraction of the pool that an admission leaves free while others run.
        scheduler_reserve_full_isl: the full-sequence gate.
        lookahead: KV slots behind a request's tokens that a draft model writes to; 0 for no draft model.
        kv_cache_groups: one spec a group of layers.
    """

    arrivals: Sequence[Arrival]
    budget: int = 8
    max_num_seqs: int = 8
    blocks: int = 64
    block_size: int = 4
    long_prefill_token_threshold: int = 0
    enable_chunked_prefill: bool = True
    policy: str = "fcfs"
    watermark: float = 0.0
    scheduler_reserve_full_isl: bool = True
    lookahead: int = 0
    kv_cache_groups: tuple[KVCacheSpec, ...] = (FullAttentionSpec(),)

    def __post_init__(self) -> None:
        if not isinstance(self.arrivals, Sequence) or not all(isinstance(entry, Arrival) for entry in self.arrivals):
            raise LessonError('a Load takes a list of arrivals: Load([Arrival("A", prompt=20)], budget=8)')
        names = [arrival.request_id for arrival in self.arrivals]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise LessonError(f"two arrivals of this load are called {twice!r}: give each a name of its own")
        try:
            _ = self.config
        except ValueError as error:
            raise LessonError(_in_names_of_a_load(str(error))) from None

    @property
    def config(self) -> EngineConfig:
        return EngineConfig(
            scheduler=SchedulerConfig(
                max_num_batched_tokens=self.budget,
                max_num_seqs=self.max_num_seqs,
                max_model_len=_MAX_MODEL_LEN,
                policy=self.policy,
                enable_chunked_prefill=self.enable_chunked_prefill,
                long_prefill_token_threshold=self.long_prefill_token_threshold,
                watermark=self.watermark,
                scheduler_reserve_full_isl=self.scheduler_reserve_full_isl,
            ),
            cache=CacheConfig(self.block_size, self.blocks, kv_cache_groups=self.kv_cache_groups),
            speculative=self._drafter,
        )

    @property
    def _drafter(self) -> SpeculativeConfig | None:
        if self.lookahead:
            return SpeculativeConfig("draft_model", self.lookahead)
        drafts = max((arrival.drafts for arrival in self.arrivals), default=0)
        return SpeculativeConfig("ngram", drafts) if drafts else None


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
        return _in_names_of_a_load(diagnosis) if diagnosis else None

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


def load_of(load: str | Load, loads: Mapping[str, Load]) -> Load:
    """A Load as it is, a name as the one of `loads`.

    Raises:
        LessonError: none of them has this name.
    """
    if not isinstance(load, str):
        return load
    if load not in loads:
        raise LessonError(f"there is no load {load!r}; the loads are {', '.join(loads)}, or give a Load of your own")
    return loads[load]


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


def _in_names_of_a_load(message: str) -> str:
    for engine_name, name in _NAMES.items():
        message = message.replace(engine_name, name)
    return message


def _request(arrival: Arrival, index: int) -> Request:
    own = range((index + 1) * _PROMPT_STRIDE, (index + 1) * _PROMPT_STRIDE + arrival.prompt - arrival.shared)
    return Request(
        arrival.request_id,
        prompt_token_ids=[*range(arrival.shared), *own],
        sampling_params=SamplingParams(max_tokens=arrival.max_tokens),
        arrival_time=float(index),
        priority=arrival.priority,
    )
