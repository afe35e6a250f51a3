"""Code of your own in the place of the scheduler's, against what vLLM 0.28.0 really did: up to the first difference.

The requests of a recorded trace (docs/traces.md) run through minivllm.core with one piece exchanged. The core knows
nothing of it: a function takes the place of one object's method, a subclass the place of the object.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from minivllm.config import EngineConfig
from minivllm.core.kv_cache_manager import KVCacheManager
from minivllm.core.sched.scheduler import Scheduler
from minivllm.lesson.against.seats import FunctionSeat, PlannerSeat, PreemptSeat, Seat, VictimSeat, owners
from minivllm.lesson.against.slot_seats import AllocateSlotsSeat, FreeSeat, NumBlocksSeat
from minivllm.lesson.against.trace_step import Finding
from minivllm.lesson.common.checks import text
from minivllm.lesson.common.errors import LessonError
from minivllm.lesson.common.load import Load
from minivllm.lesson.common.run import MAX_RECORDED_STEPS, Run
from minivllm.lesson.common.table import Table, show
from minivllm.observe.recorder import Recorder
from minivllm.observe.recording import Recording
from minivllm.observe.replay import Replay, load_trace, make_config

_FOLDER = Path(__file__).with_name("traces")
TRACES = tuple(sorted(path.name.removesuffix(".json.gz") for path in _FOLDER.glob("*.json.gz")))
"""The traces that `against_vllm` knows by name."""


@dataclass(frozen=True)
class Verdict:
    """What came of `yours` against one trace.

    Attributes:
        yours: the name of the exchanged piece.
        steps: steps that are as vLLM's.
        calls: how often the piece was asked; None for a subclass.
        finding: what ended the comparison in step `steps`; None at the end of the trace.
    """

    yours: str
    trace: str
    steps: int
    calls: int | None
    finding: Finding | None

    @property
    def sentence(self) -> str:
        start = f"your {self.yours} against vLLM's trace {self.trace}: "
        if self.finding is None:
            return f"{start}all {self.steps} steps as vLLM's{_asked(self.calls)}."
        if self.finding.expected is None:
            return f"{start}{self.finding.actual} (step {self.steps})."
        return f"{start}first difference at step {self.steps}"

    @property
    def table(self) -> Table | None:
        finding = self.finding
        if finding is None or finding.expected is None:
            return None
        row = (finding.object, text(finding.expected), text(finding.actual), finding.why)
        return Table(("object", "expected (vLLM)", "actual (yours)", "why"), [row], title=self.sentence)

    def __repr__(self) -> str:
        return repr(self.table) if self.table else self.sentence


def against_vllm(yours: Any, trace: str | Path = "preempt_fcfs-000") -> None:
    """Run the requests of a trace with `yours` in place, and show the first step that vLLM 0.28.0 did otherwise.

    Args:
        yours: a function of the notebooks by its name (see _SEATS); or one with the name and the parameters, `self`
            first, of a method of Scheduler, KVCacheManager, the single-type managers or BlockPool, such as
            `get_computed_blocks(self, request)`; or a subclass of Scheduler or KVCacheManager.
        trace: a name in TRACES, or the path of a trace file.

    Raises:
        LessonError: no trace has this name, or no piece of the engine has the name of `yours`.
        TraceError: the file is no trace.
    """
    verdict = compare(yours, trace)
    show(verdict.table or verdict.sentence)


def compare(yours: Any, trace: str | Path) -> Verdict:
    path = _path(trace)
    recorded = load_trace(path)
    seat = _seat(yours, make_config(recorded["config"]))
    name, steps = path.name.removesuffix(".gz").removesuffix(".json"), recorded["steps"]
    replay = _Replay(recorded, seat.scheduler).steps()
    for number, expected in enumerate(steps):
        try:
            finding = seat.difference(expected, next(replay))
        except LessonError as misfit:
            finding = Finding(seat.name, None, str(misfit))
        except Exception as error:  # a wrong piece may break the engine anywhere; that is its result
            finding = Finding(seat.name, None, f"the engine stopped with {type(error).__name__}: {error}")
        if finding is not None:
            return Verdict(seat.name, name, number, seat.calls, finding)
    return Verdict(seat.name, name, len(steps), seat.calls, None)


def record_with(yours: Any, load: Load) -> Recording:
    """Record a load with `yours` in place (see `against_vllm`), to its end, its first failure or a standstill.

    Raises:
        LessonError: no piece of the engine has the name of `yours`, or it is a planner, which has no place in one.
    """
    seat = _seat(yours, load.config)
    if isinstance(seat, PlannerSeat):
        raise LessonError(f"{seat.name} plans beside the engine: run_planner({seat.name}, load) compares the two")
    run = Run(load)
    run.scheduler = seat.scheduler
    recording = Recording(run.scheduler)
    try:
        while not run.finished and run.num_steps < MAX_RECORDED_STEPS:
            if not run.step().scheduled and run.scheduler.diagnose():
                break
    except LessonError as misfit:
        show(f"your {seat.name} stopped the run in step {run.num_steps}: {misfit}")
    return recording


_SEATS: dict[str, type[FunctionSeat]] = {
    "unified_token_plan": PlannerSeat,
    "select_victim": VictimSeat,
    "preempt": PreemptSeat,
    "get_num_blocks_to_allocate": NumBlocksSeat,
    "allocate_slots": AllocateSlotsSeat,
    "free": FreeSeat,
}
"""The functions of the notebooks, with the parameters that they have there."""

Made = TypeVar("Made")


def _seat(yours: Any, config: EngineConfig) -> Seat:
    if isinstance(yours, type) and issubclass(yours, Scheduler):
        return Seat(yours.__name__, _made(yours, config))
    scheduler = Scheduler(config)
    if isinstance(yours, type) and issubclass(yours, KVCacheManager):
        scheduler.kv_cache_manager = _made(yours, config)
        return Seat(yours.__name__, scheduler)
    if not inspect.isfunction(yours):
        raise LessonError(f"against_vllm wants a function, or a subclass of Scheduler or KVCacheManager, not {yours!r}")
    name = yours.__name__
    if next(iter(inspect.signature(yours).parameters), "") == "self" and owners(scheduler, name):
        return FunctionSeat(yours, scheduler)
    if name not in _SEATS:
        raise LessonError(
            f"no piece of the engine is called {name!r}: against_vllm knows {', '.join(_SEATS)}, and with self as the "
            "first parameter the methods of Scheduler, KVCacheManager and BlockPool"
        )
    return _SEATS[name](yours, scheduler)


def _made(kind: type[Made], config: EngineConfig) -> Made:
    try:
        return kind(config)  # type: ignore[call-arg]
    except Exception as error:
        raise LessonError(f"your {kind.__name__}(config) raised {type(error).__name__}: {error}") from error


def _path(trace: str | Path) -> Path:
    if trace in TRACES:
        return _FOLDER / f"{trace}.json.gz"
    if Path(trace).is_file():
        return Path(trace)
    raise LessonError(f"there is no trace {str(trace)!r}; the traces are {', '.join(TRACES)}, or give a file's path")


class _Replay(Replay):
    """A replay with a scheduler that is there already, and with the hash numbers of the trace."""

    def __init__(self, trace: dict[str, Any], scheduler: Scheduler) -> None:
        super().__init__(trace["config"], trace["requests"])
        self.scheduler = scheduler
        self.recorder = Recorder(scheduler)
        self.recorder.hashes.preload(trace["hashes"])


def _asked(calls: int | None) -> str:
    if calls is None:
        return ""
    if calls == 0:
        return "; it was never asked, so this trace says nothing about it"
    return f"; it was asked {calls} time{'s' if calls > 1 else ''}"
