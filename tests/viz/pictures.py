"""Recordings to draw, and what has to hold of every picture."""

import io
from itertools import combinations

import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from minivllm.lesson.common.load import Arrival, Load
from minivllm.lesson.common.run import record
from minivllm.observe.recording import Recording
from minivllm.viz.figures import Picture

CROWDED = Load(
    [
        Arrival("A", prompt=13, max_tokens=12, drafts=3, accepted=1),
        Arrival("B", prompt=9, max_tokens=14, step=1),
        Arrival("C", prompt=6, max_tokens=10, step=2),
        Arrival("late", prompt=20, step=8),
    ],
    budget=8,
    blocks=10,
)
"""Chunks, decodes, drafts, two preemptions, and a request that waits for long."""


def crowded() -> Recording:
    return record(CROWDED)


def xs(line: Line2D) -> list[float]:
    return [float(x) for x in np.asarray(line.get_xdata())]


def ys(line: Line2D) -> list[float]:
    return [float(y) for y in np.asarray(line.get_ydata())]


def assert_every_text_lies_inside(picture: Picture) -> None:
    figure = picture.figure
    figure.savefig(io.BytesIO(), format="png")  # lays the figure out
    frame = figure.bbox
    texts = [*figure.texts, *(text for legend in figure.legends for text in legend.get_texts())]
    for axes in figure.axes:
        texts += [*axes.texts, axes.xaxis.label, axes.yaxis.label, axes.title]
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            texts += [tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
    for text in texts:
        if text.get_visible() and text.get_text():
            box = text.get_window_extent()
            inside = frame.x0 <= box.x0 and box.x1 <= frame.x1 and frame.y0 <= box.y0 and box.y1 <= frame.y1
            assert inside, text.get_text()


def assert_told_apart_without_colour(patches: list[Patch]) -> None:
    """Any two areas differ in hatch, or in how light they are."""
    for one, other in combinations(patches, 2):
        differ = one.get_hatch() != other.get_hatch() or abs(_lightness(one) - _lightness(other)) > 0.2
        assert differ, (one.get_label(), other.get_label())


def _lightness(patch: Patch) -> float:
    red, green, blue = to_rgb(patch.get_facecolor())
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
