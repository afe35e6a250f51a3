"""Latencies side by side: every measurement, the median and the 99th percentile."""

import math
import statistics
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from minivllm.bench.machine import percentile
from minivllm.viz.figures.picture import WIDTH, Picture, no_frame

_ROW, _FOOT, _HEAD = 0.75, 0.85, 0.35  # inches
_GOLDEN = 0.6180339887  # steps of this length spread points evenly, the same way every time


def latency_figure(latencies: Mapping[str, Sequence[float]], *, title: str) -> Picture:
    """One row for each label, of seconds: a dot a measurement, a line at the median, a diamond at p99.

    Raises:
        ValueError: nothing was measured under a label, or a measurement is no number of at least 0.
    """
    if not latencies:
        raise ValueError("latency_figure: latencies is empty, but holds at least one label with its seconds.")
    for label, seconds in latencies.items():
        if not len(seconds) or not all(math.isfinite(value) and value >= 0 for value in seconds):
            raise ValueError(
                f"latency_figure: {label!r} holds {list(seconds)!r}, but must hold at least one number of seconds, "
                "each at least 0: measure again."
            )
    in_seconds = max(map(max, latencies.values())) >= 1
    unit, scale = ("s", 1.0) if in_seconds else ("ms", 1000.0)
    height = _HEAD + _ROW * len(latencies) + _FOOT
    figure = Figure(figsize=(WIDTH, height))
    left = (0.25 + 0.08 * max(map(len, latencies))) / WIDTH
    axes = figure.add_axes((left, _FOOT / height, 0.97 - left, _ROW * len(latencies) / height))
    axes.set_xlim(0, 1.05 * scale * max(map(max, latencies.values())) or 1)
    for row, seconds in enumerate(latencies.values()):
        _draw_row(axes, row, [value * scale for value in seconds], unit)
    axes.set_yticks(range(len(latencies)), list(latencies))
    axes.set_ylim(len(latencies) - 0.5, -0.5)
    axes.set_xlabel(unit)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color="#DDDDDD", linewidth=0.6)
    axes.set_axisbelow(True)
    no_frame(axes, "top", "right", "left")
    figure.suptitle(title, fontsize=10, y=1 - 0.08 / height, va="top")
    figure.legend(handles=[*_KEY], loc="lower center", ncols=3, fontsize=8, frameon=False)
    parts = [_sentence(label, [value * scale for value in seconds], unit) for label, seconds in latencies.items()]
    return Picture(figure, " ".join([f"{title}.", *parts]))


_DOT = {"marker": "o", "markersize": 3.5, "markerfacecolor": "none", "markeredgecolor": "#0072B2", "linestyle": "none"}
_P99 = {"marker": "D", "markersize": 7, "color": "#D55E00", "markeredgecolor": "black", "linestyle": "none"}
_KEY = (
    Line2D([], [], label="one measurement", **_DOT),  # type: ignore[arg-type]
    Line2D([], [], label="median", color="black", linewidth=2),
    Line2D([], [], label="p99", **_P99),  # type: ignore[arg-type]
)


def _draw_row(axes: Axes, row: int, values: Sequence[float], unit: str) -> None:
    heights = [row + 0.2 * (2 * ((index * _GOLDEN) % 1) - 1) for index in range(len(values))]
    axes.plot(values, heights, **_DOT)  # type: ignore[arg-type]
    median, p99 = statistics.median(values), percentile(values, 99)
    axes.plot([median, median], [row - 0.24, row + 0.24], color="black", linewidth=2)
    axes.plot([p99], [row], **_P99)  # type: ignore[arg-type]
    half = axes.get_xlim()[1] / 2
    _write(axes, median, row - 0.26, f"median {_number(median)} {unit}", "left" if median < half else "right", "bottom")
    _write(axes, p99, row + 0.26, f"p99 {_number(p99)} {unit}", "left" if p99 < half else "right", "top")


def _write(axes: Axes, x: float, y: float, text: str, ha: str, va: str) -> None:
    axes.text(x, y, text, ha=ha, va=va, fontsize=8, bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5})


def _number(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def _sentence(label: str, values: Sequence[float], unit: str) -> str:
    return (
        f"{label}: {len(values)} measured, median {_number(statistics.median(values))} {unit}, "
        f"p99 {_number(percentile(values, 99))} {unit}, from {_number(min(values))} to {_number(max(values))} {unit}."
    )
