"""What all figures of a whole run share: steps on the x axis, and what a request does in a step."""

from collections.abc import Iterable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from minivllm.observe.frame import Frame, RequestFrame
from minivllm.observe.recording import Recording
from minivllm.viz.figures.picture import WIDTH, Style, no_frame

PREEMPTION = Line2D([], [], marker="v", color="black", markersize=6, linestyle="none", label="a preemption")


def frames_of(recording: Recording, name: str) -> Sequence[Frame]:
    """Its frames.

    Raises:
        ValueError: there are none.
    """
    if not recording.frames:
        raise ValueError(f"{name}: the recording holds no step: let its scheduler take at least one.")
    return recording.frames


def is_decode(frame: Frame, request: RequestFrame) -> bool:
    """Whether its known token of this step is the one that was sampled last; anything else is a part of a prefill."""
    return request.scheduled == 1 and request.computed >= request.prompt and request.request_id not in frame.admitted


def step_axes(num_steps: int, height: float) -> tuple[Figure, Axes]:
    """A figure of `height` inches with room for a legend, over steps 0 to `num_steps` - 1."""
    figure = Figure(figsize=(WIDTH, height))
    axes = figure.add_axes((0.11, 0.95 / height, 0.87, (height - 1.3) / height))
    axes.set_xlim(-0.5, num_steps - 0.5)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("step")
    no_frame(axes)
    return figure, axes


def stack(axes: Axes, layers: Iterable[tuple[Style, Sequence[int]]], num_steps: int) -> None:
    """Areas on top of each other, one value a step."""
    edges = [step - 0.5 for step in range(num_steps + 1)]
    floor = [0] * num_steps
    for style, values in layers:
        ceiling = [low + value for low, value in zip(floor, values, strict=True)]
        axes.stairs(ceiling, edges, baseline=floor, fill=True, **style.fill)
        floor = ceiling


def mark_preemptions(axes: Axes, frames: Iterable[Frame]) -> bool:
    """Triangles above the steps that preempted somebody; whether there are any."""
    steps = [frame.index for frame in frames if frame.preempted]
    top = axes.get_ylim()[1]
    axes.plot(steps, [top] * len(steps), marker="v", color="black", markersize=6, linestyle="none", clip_on=False)
    return bool(steps)


def below(figure: Figure, styles: Iterable[Style], *lines: Line2D) -> None:
    """The legend of areas and lines, in one row below the axes."""
    handles = [*(Patch(label=style.label, **style.fill) for style in styles), *lines]
    figure.legend(handles=handles, loc="lower center", ncols=min(len(handles), 5), fontsize=8, frameon=False)


def steps_in_words(steps: Sequence[int]) -> str:
    """ "step 3", "steps 3 to 5" or "steps 3, 7 and 9"; of many the first ones."""
    if len(steps) == 1:
        return f"step {steps[0]}"
    if list(steps) == list(range(steps[0], steps[-1] + 1)):
        return f"steps {steps[0]} to {steps[-1]}"
    shown, more = steps[:10], len(steps) - 10
    last = f"{more} more" if more > 0 else str(shown[-1])
    return f"steps {', '.join(map(str, shown if more > 0 else shown[:-1]))} and {last}"
