"""Figure 2-2: one engine step as the source takes it."""

from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from minivllm.viz.figures.picture import WIDTH, Picture

_Point = tuple[float, float]


@dataclass(frozen=True)
class _Node:
    x: float
    y: float
    text: str
    asks: bool = False


_NODES = {
    "start": _Node(1.0, 0, "schedule(): new budget"),
    "running": _Node(1.0, 1, "RUNNING left\nand budget left?", asks=True),
    "need": _Node(1.0, 2, "need = gap, apply caps"),
    "allocate": _Node(1.0, 3, "allocate_slots\nok?", asks=True),
    "charge": _Node(0.0, 2, "charge budget"),
    "preempt": _Node(1.0, 4, "preempt: FCFS tail,\nPRIORITY max"),
    "any": _Node(2.35, 1, "preempted\nthis step?", asks=True),
    "waiting": _Node(3.6, 1, "WAITING left, budget left,\nsequence slot free?", asks=True),
    "lookup": _Node(3.6, 2, "prefix lookup,\nno ref change"),
    "admit": _Node(3.6, 3, "caps ok and\nallocate_slots ok?", asks=True),
    "enter": _Node(4.7, 2, "touch hits,\nset computed,\nRUNNING"),
    "output": _Node(2.35, 4, "build output,\nadvance computed"),
    "gpu": _Node(2.35, 5, "GPU step"),
    "update": _Node(3.6, 5, "update_from_output"),
}


@dataclass(frozen=True)
class _Path:
    """From under the box `start` through `points` to the border of the box `end`, with a label somewhere on it."""

    start: str
    points: tuple[_Point, ...]
    end: str
    label: str = ""
    at: _Point = (0, 0)


_PATHS = (
    _Path("start", ((1, 0), (1, 1)), "running"),
    _Path("running", ((1, 1), (1, 2)), "need", "yes", (1.05, 1.45)),
    _Path("running", ((1, 1), (2.35, 1)), "any", "no", (1.66, 0.9)),
    _Path("need", ((1, 2), (1.62, 2), (1.62, 1.13), (1, 1.13)), "running", "0", (1.56, 1.9)),
    _Path("need", ((1, 2), (1, 3)), "allocate", "> 0", (1.05, 2.42)),
    _Path("allocate", ((1, 2.9), (0, 2.9), (0, 2)), "charge", "yes", (0.3, 2.8)),
    _Path("charge", ((0, 2), (0, 1), (1, 1)), "running"),
    _Path("allocate", ((1, 3), (1, 4)), "preempt", "no", (1.05, 3.45)),
    _Path("preempt", ((1, 4), (0.2, 4), (0.2, 3.1), (1, 3.1)), "allocate", "victim is\nanother", (0.24, 3.6)),
    _Path("preempt", ((1, 4), (1.7, 4), (1.7, 1.13), (2.35, 1.13)), "any", "victim\nis itself", (1.74, 3.3)),
    _Path("any", ((2.35, 1), (2.35, 4)), "output", "yes", (2.4, 1.45)),
    _Path("any", ((2.35, 1), (3.6, 1)), "waiting", "no", (2.8, 0.9)),
    _Path("waiting", ((3.6, 1.13), (2.9, 1.13), (2.9, 3.88), (2.35, 3.88)), "output", "no", (2.94, 1.45)),
    _Path("waiting", ((3.6, 1), (3.6, 2)), "lookup", "yes", (3.65, 1.45)),
    _Path("lookup", ((3.6, 2), (3.6, 3)), "admit"),
    _Path("admit", ((3.6, 3), (4.7, 3), (4.7, 2)), "enter", "yes", (4.3, 2.9)),
    _Path("admit", ((3.6, 3), (3.6, 4.1), (2.35, 4.1)), "output", "no", (3.65, 3.45)),
    _Path("enter", ((4.7, 2), (4.7, 1), (3.6, 1)), "waiting"),
    _Path("output", ((2.35, 4), (2.35, 5)), "gpu"),
    _Path("gpu", ((2.35, 5), (3.6, 5)), "update"),
)
_ALT = """
One engine step. schedule() starts with a new budget. While RUNNING requests and budget are left: the need of the next
one is its gap under the caps. A need of 0 goes on to the next; otherwise allocate_slots is asked. If it succeeds, the
budget is charged. If it fails, a victim is preempted (FCFS: the tail of running; PRIORITY: the largest priority, then
arrival). Another victim means that allocate_slots is asked again; the request itself ends the RUNNING loop. Then, if
anybody was preempted in this step, nobody is admitted. Otherwise, while WAITING requests, budget and a sequence slot
are left: the head's prefix is looked up, which changes no ref count, and the caps and allocate_slots are asked. If they
agree, hits are touched, computed is set and the request is RUNNING; if not, the loop ends and nobody is preempted. Then
the output is built and computed advanced, the GPU takes its step, and update_from_output takes in what was sampled.
"""


def schedule_flow() -> Picture:
    """RUNNING first, then admission; only a RUNNING request's failed allocation preempts."""
    figure = Figure(figsize=(WIDTH + 1.4, 5.2))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(-0.5, 5.15)
    axes.set_ylim(5.4, -0.4)
    axes.axis("off")
    boxes = {name: _box(axes, node) for name, node in _NODES.items()}
    for path in _PATHS:
        _arrow(axes, path, boxes[path.start], boxes[path.end])
    return Picture(figure, " ".join(_ALT.split()))


def _box(axes: Axes, node: _Node) -> Patch:
    """A question has round corners and a thick border; what is done has square ones."""
    text = axes.text(node.x, node.y, node.text, ha="center", va="center", fontsize=8, zorder=2)
    style = "round,pad=0.5,rounding_size=0.9" if node.asks else "square,pad=0.45"
    text.set_bbox(
        {
            "boxstyle": style,
            "facecolor": "#FFF2CC" if node.asks else "white",
            "edgecolor": "black",
            "linewidth": 1.6 if node.asks else 0.8,
        }
    )
    box = text.get_bbox_patch()
    assert box is not None
    return box


def _arrow(axes: Axes, path: _Path, start: Patch, end: Patch) -> None:
    *way, before, last = path.points
    axes.plot(*zip(*way, before, strict=True), color="black", linewidth=1, zorder=1)
    arrow = {"arrowstyle": "-|>", "color": "black", "linewidth": 1, "shrinkA": 0, "shrinkB": 0, "patchB": end}
    if not way:
        arrow["patchA"] = start
    axes.annotate("", last, before, arrowprops=arrow, zorder=3)  # above the boxes, whose size is known once drawn
    axes.text(*path.at, path.label, fontsize=8, va="center", zorder=3)
