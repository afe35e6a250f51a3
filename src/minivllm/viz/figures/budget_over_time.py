"""How the token budget of each step was spent."""

from collections.abc import Sequence

from matplotlib.lines import Line2D

from minivllm.observe.frame import Frame
from minivllm.observe.recording import Recording
from minivllm.viz.figures.over_time import below, frames_of, is_decode, stack, step_axes, steps_in_words
from minivllm.viz.figures.picture import Picture, Style

_STYLES = {
    "prefill": Style("prefill chunks", "#56B4E9", "///"),
    "decode": Style("decodes", "#BBBBBB"),
    "drafts": Style("drafts to verify", "#E69F00", "xxx"),
}

_FAR = 4
"""A budget of more than so many times what was used is not drawn: the bars would be too small to see."""


def budget_over_time(recording: Recording) -> Picture:
    """Tokens of each step, stacked: prefill chunks, decodes, drafts; the dashed line is the budget.

    Raises:
        ValueError: the recording holds no step.
    """
    frames = frames_of(recording, "budget_over_time")
    tokens = {kind: [_tokens(frame)[kind] for frame in frames] for kind in _STYLES}
    figure, axes = step_axes(len(frames), 3.2)
    stack(axes, [(style, tokens[kind]) for kind, style in _STYLES.items()], len(frames))
    budget = frames[-1].budget
    most = max(frame.output.total_num_scheduled_tokens for frame in frames)
    is_far = budget > _FAR * max(most, 1)
    axes.axhline(budget, color="black", linewidth=1.4, linestyle="--")
    axes.set_ylim(0, 1.12 * (max(most, 1) if is_far else budget))
    axes.set_ylabel("tokens")
    used = [style for kind, style in _STYLES.items() if any(tokens[kind])]
    label = f"budget {budget}{' (above the picture)' if is_far else ''}"
    below(figure, used, Line2D([], [], color="black", linewidth=1.4, linestyle="--", label=label))
    return Picture(figure, _alt(frames, tokens, budget))


def _tokens(frame: Frame) -> dict[str, int]:
    decode = sum(1 for request in frame.requests if is_decode(frame, request))
    scheduled = sum(request.scheduled for request in frame.requests)
    drafts = sum(request.drafts for request in frame.requests)
    return {"prefill": scheduled - decode, "decode": decode, "drafts": drafts}


def _alt(frames: Sequence[Frame], tokens: dict[str, list[int]], budget: int) -> str:
    totals = ", ".join(f"{sum(tokens[kind])} in {style.label}" for kind, style in _STYLES.items() if any(tokens[kind]))
    full = [frame.index for frame in frames if frame.left == 0]
    spent = f"The whole budget went in {steps_in_words(full)}." if full else "No step spent the whole budget."
    return f"Tokens over {len(frames)} steps, budget {budget} a step: {totals or 'none'}. {spent}"
