"""One step's token budget, and what each request draws from it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from minivllm.viz.figures.picture import WIDTH, Picture, Style, area_legend, no_frame


@dataclass(frozen=True)
class Bar:
    """One request of a step, in tokens: `computed` before it, `scheduled` and `drafts` in it, `target` to reach."""

    name: str
    status: str
    computed: int
    scheduled: int
    drafts: int
    target: int

    @property
    def remaining(self) -> int:
        return self.target - self.computed - self.scheduled - self.drafts

    @property
    def taken(self) -> int:
        return self.scheduled + self.drafts


_STYLES = {
    "computed": Style("computed before", "#BBBBBB"),
    "scheduled": Style("scheduled: known tokens", "#56B4E9", "///"),
    "drafts": Style("scheduled: drafts", "#E69F00", "xxx"),
    "remaining": Style("remaining gap", "#FFFFFF", "..."),
}
_LEFT = Style("budget left", "#FFFFFF")
_ROW, _HEAD, _BETWEEN, _FOOT = 0.42, 0.1, 0.45, 0.9  # inches
_CHARACTER = 0.014  # of the axis: a label that finds no room inside its segment stands above it


def budget_figure(bars: Sequence[Bar], budget: int) -> Picture:
    """The step's budget filling from left to right, and below it each request's way to its target."""
    rows = max(len(bars), 1) * _ROW
    height = _FOOT + rows + _BETWEEN + _ROW + _HEAD
    figure = Figure(figsize=(WIDTH, height))
    left = (0.3 + 0.08 * max(len(label) for label in ["budget", *map(_label, bars)])) / WIDTH
    top = figure.add_axes((left, (height - _HEAD - _ROW) / height, 0.98 - left, _ROW / height))
    bottom = figure.add_axes((left, _FOOT / height, 0.98 - left, rows / height))
    _draw_budget(top, bars, budget)
    _draw_requests(bottom, bars)
    area_legend(figure, (style for kind, style in _STYLES.items() if any(getattr(bar, kind) for bar in bars)))
    return Picture(figure, _alt(bars, budget))


def _draw_budget(axes: Axes, bars: Sequence[Bar], budget: int) -> None:
    _tidy(axes, ["budget"], budget)
    shares = [(bar.taken, _STYLES["scheduled"], f"{bar.name}: {bar.taken}") for bar in bars]
    left = budget - sum(bar.taken for bar in bars)
    _draw_row(axes, 0, [*shares, (left, _LEFT, f"left: {left}")])


def _draw_requests(axes: Axes, bars: Sequence[Bar]) -> None:
    _tidy(axes, list(map(_label, bars)), max((bar.target for bar in bars), default=1))
    axes.set_xlabel("tokens")
    for row, bar in enumerate(bars):
        widths = [(getattr(bar, kind), style) for kind, style in _STYLES.items()]
        _draw_row(axes, row, [(width, style, str(width)) for width, style in widths])


def _label(bar: Bar) -> str:
    return f"{bar.name} ({bar.status})"


def _draw_row(axes: Axes, row: int, segments: Iterable[tuple[int, Style, str]]) -> None:
    """Segments of some width, end to end. Labels above them move aside for each other, or are left out."""
    length = axes.get_xlim()[1]
    start, free_from = 0.0, -length  # above the segments, labels may stand from there on
    for width, style, text in segments:
        if width <= 0:
            continue
        axes.barh(row, width, left=start, height=0.6, **style.fill)
        room, middle = _CHARACTER * (len(text) + 1) * length, start + width / 2
        start += width
        if room <= width:
            white = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
            axes.annotate(text, (middle, row), ha="center", va="center", fontsize=9, bbox=white)
            continue
        place = max(middle, free_from + room / 2)
        if place - middle <= room and place + room / 2 <= 1.02 * length:
            at = (place, row - 0.33)
            axes.annotate(text, at, ha="center", va="bottom", fontsize=9, annotation_clip=False)
            free_from = place + room / 2


def _tidy(axes: Axes, names: Sequence[str], length: int) -> None:
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.75)
    axes.set_xlim(0, length * 1.01)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    no_frame(axes, "top", "right", "left")
    axes.tick_params(axis="y", length=0)


def _alt(bars: Sequence[Bar], budget: int) -> str:
    parts = [f"Token budget {budget}, {budget - sum(bar.taken for bar in bars)} left."]
    for bar in bars:
        drafts = f" and {bar.drafts} drafts" if bar.drafts else ""
        parts.append(
            f"{bar.name} ({bar.status}): {bar.computed} computed before, {bar.scheduled} known{drafts} scheduled, "
            f"{bar.remaining} remaining."
        )
    return " ".join(parts)
