"""What a run cost: steps, scheduled tokens, and how many of them had been computed before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from minivllm.lesson.common.table import Table
from minivllm.observe.recording import Recording


@dataclass(frozen=True)
class Cost:
    """One run in numbers.

    Attributes:
        steps: engine steps.
        scheduled: tokens that the steps computed, all together.
        recomputed: those of them whose position had been computed before and was lost to a preemption.
        preemptions: how often a request was preempted.
        most_running: the most requests that a step computed.
    """

    steps: int
    scheduled: int
    recomputed: int
    preemptions: int
    most_running: int


def cost(recording: Recording) -> Cost:
    """The cost of a run without drafts (a rejected draft's position is computed again without any preemption)."""
    reached: dict[str, int] = {}
    recomputed = 0
    for frame in recording.frames:
        for request in frame.requests:
            end, before = request.computed + request.scheduled, reached.get(request.request_id, 0)
            if request.scheduled:
                recomputed += max(0, min(end, before) - request.computed)
                reached[request.request_id] = max(end, before)
    frames = recording.frames
    return Cost(
        steps=len(frames),
        scheduled=sum(frame.output.total_num_scheduled_tokens for frame in frames),
        recomputed=recomputed,
        preemptions=sum(len(frame.preempted) for frame in frames),
        most_running=max((len(frame.handed_out) for frame in frames), default=0),
    )


def costs(recordings: Mapping[str, Recording]) -> Table:
    """The cost of each run, side by side; a note names the requests that a run ended without."""
    columns = ("run", "steps", "scheduled tokens", "recomputed tokens", "preemptions", "most requests in a step")
    rows = []
    for name, recording in recordings.items():
        it = cost(recording)
        rows.append((name, it.steps, it.scheduled, it.recomputed, it.preemptions, it.most_running))
    left = {name: _unfinished(recording) for name, recording in recordings.items()}
    note = "; ".join(f"{name} ended without {', '.join(ids)}" for name, ids in left.items() if ids)
    return Table(columns, rows, note=note)


def _unfinished(recording: Recording) -> list[str]:
    if not recording.frames:
        return []
    last = recording.frames[-1]
    return [request.request_id for request in last.requests if request.request_id not in last.finished]
