"""Who holds the block pool over a run."""

from collections import Counter
from collections.abc import Sequence

from minivllm.observe.frame import Frame
from minivllm.observe.recording import Recording
from minivllm.viz.figures.over_time import (
    PREEMPTION,
    below,
    frames_of,
    mark_preemptions,
    stack,
    step_axes,
    steps_in_words,
)
from minivllm.viz.figures.picture import Picture, Style

_STYLES = {
    "used": Style("owned by a request", "#0072B2", "///"),
    "cached": Style("free, but cached", "#E69F00", "---"),
    "free": Style("free", "#FFFFFF"),
}


def block_occupancy(recording: Recording) -> Picture:
    """Blocks of each step as ``schedule()`` left them, stacked to the size of the pool (the null block is left out).

    Raises:
        ValueError: the recording holds no step.
    """
    frames = frames_of(recording, "block_occupancy")
    counts = [Counter(block.state for block in frame.blocks) for frame in frames]
    blocks = {kind: [count[kind] for count in counts] for kind in _STYLES}
    size = len(frames[0].blocks) - 1
    figure, axes = step_axes(len(frames), 3.2)
    stack(axes, [(style, blocks[kind]) for kind, style in _STYLES.items()], len(frames))
    axes.set_ylim(0, size * 1.06)
    axes.set_ylabel("blocks")
    lines = [PREEMPTION] if mark_preemptions(axes, frames) else []
    below(figure, _STYLES.values(), *lines)
    return Picture(figure, _alt(frames, blocks, size))


def _alt(frames: Sequence[Frame], blocks: dict[str, list[int]], size: int) -> str:
    used, cached = blocks["used"], blocks["cached"]
    parts = [
        f"A pool of {size} blocks over {len(frames)} steps.",
        f"Owned: at most {max(used)} (step {used.index(max(used))}), {used[-1]} in the last step.",
        f"Free, but cached: at most {max(cached)} (step {cached.index(max(cached))}), {cached[-1]} in the last step.",
    ]
    preempting = [frame.index for frame in frames if frame.preempted]
    if preempting:
        parts.append(f"Somebody was preempted in {steps_in_words(preempting)}.")
    return " ".join(parts)
