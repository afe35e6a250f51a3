"""A run as a Gantt chart: what every request did in every step."""

from collections.abc import Sequence
from itertools import groupby

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from minivllm.observe.frame import Frame, RequestFrame
from minivllm.observe.recording import Recording
from minivllm.viz.figures.over_time import below, frames_of, is_decode
from minivllm.viz.figures.picture import WIDTH, Picture, Style, no_frame

_STYLES = {
    "waiting": Style("waiting", "#FFFFFF"),
    "prefill": Style("prefill", "#56B4E9", "///"),
    "decode": Style("decode", "#BBBBBB"),
    "preempted": Style("preempted", "#D55E00", "xxx"),
    "resumed": Style("resumed: prefill again", "#F0E442", "\\\\\\"),
    "held": Style("running, no token", "#FFFFFF", "..."),
}
_Span = tuple[str, int, int]
"""Kind, first step, number of steps."""


def timeline(recording: Recording) -> Picture:
    """One row a request, in the order in which they came; one column a step.

    Raises:
        ValueError: the recording holds no step.
    """
    frames = frames_of(recording, "timeline")
    spans = _spans(frames)
    row = 0.36 if len(spans) <= 12 else 0.2
    height = row * max(len(spans), 1) + 1.1
    figure = Figure(figsize=(WIDTH, height))
    left = (0.3 + 0.075 * max(map(len, spans), default=0)) / WIDTH
    axes = figure.add_axes((left, 0.95 / height, 0.98 - left, row * max(len(spans), 1) / height))
    for place, request_spans in enumerate(spans.values()):
        for kind, start, length in request_spans:
            axes.barh(place, length, left=start - 0.5, height=0.7, **_STYLES[kind].fill)
    axes.set_yticks(range(len(spans)), list(spans), fontsize=9 if row > 0.3 else 7)
    axes.set_ylim(len(spans) - 0.4, -0.6)
    axes.set_xlim(-0.5, len(frames) - 0.5)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("step")
    axes.tick_params(axis="y", length=0)
    no_frame(axes, "top", "right", "left")
    there = {kind for request_spans in spans.values() for kind, _, _ in request_spans}
    below(figure, [style for kind, style in _STYLES.items() if kind in there])
    return Picture(figure, _alt(spans, len(frames)))


def _spans(frames: Sequence[Frame]) -> dict[str, list[_Span]]:
    """Steps in a row of one kind, for each request."""
    kinds: dict[str, list[tuple[int, str]]] = {}
    for frame in frames:
        for request in frame.requests:
            kinds.setdefault(request.request_id, []).append((frame.index, _kind(frame, request)))
    spans: dict[str, list[_Span]] = {}
    for request_id, steps in kinds.items():
        spans[request_id] = []
        # Steps of one stretch keep the same distance between their number and their place in the list.
        for (kind, _), group in groupby(enumerate(steps), key=lambda item: (item[1][1], item[1][0] - item[0])):
            stretch = [step for _, (step, _) in group]
            spans[request_id].append((kind, stretch[0], len(stretch)))
    return spans


def _kind(frame: Frame, request: RequestFrame) -> str:
    if request.status != "running":
        return request.status
    if not request.scheduled:
        return "held"
    if is_decode(frame, request):
        return "decode"
    return "resumed" if request.preemptions else "prefill"


def _alt(spans: dict[str, list[_Span]], num_steps: int) -> str:
    sentences = [f"{len(spans)} requests over {num_steps} steps."]
    for request_id, request_spans in spans.items():
        parts = [
            f"{kind} {start}" if length == 1 else f"{kind} {start} to {start + length - 1}"
            for kind, start, length in request_spans
        ]
        sentences.append(f"{request_id}: {', '.join(parts)}.")
    return " ".join(sentences)
