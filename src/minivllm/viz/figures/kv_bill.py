"""Figure 2-1: what the KV cache of many long requests takes, beside what a GPU has left after the weights."""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from minivllm.kv_bill import GIB, GPUS, ModelShape, shape_of
from minivllm.viz.figures.picture import WIDTH, Picture, no_frame

K = 1024
_LINES = (("#0072B2", "-", "o"), ("#D55E00", "--", "s"), ("#009E73", "-.", "^"), ("#CC79A7", ":", "D"))


def kv_bill(
    model: str = "Llama-3-8B",
    *,
    dtype: str = "bfloat16",
    concurrency: Sequence[int] = (1, 4, 16, 64),
    at: tuple[int, int] | None = None,
) -> Picture:
    """GiB of KV against context, one line for each number of concurrent requests, nothing shared between them.

    The same lines twice: straight on linear axes, of slope 1 on logarithmic ones.

    Args:
        model: a name in minivllm.kv_bill.MODELS.
        dtype: of the KV cache; the weights stay at two bytes a parameter.
        concurrency: requests at once; up to four numbers.
        at: a point to mark, as (tokens of context, requests).

    Raises:
        KVBillError: the model or the dtype is unknown.
        ValueError: `concurrency` holds no number, more than four, or one below 1.
    """
    shape = shape_of(model)
    if not 1 <= len(concurrency) <= len(_LINES) or min(concurrency) < 1:
        raise ValueError(
            f"kv_bill: concurrency is {tuple(concurrency)!r}, but must hold one to {len(_LINES)} numbers from 1 on."
        )
    bill = _Bill(model, shape, dtype, tuple(sorted(concurrency)), at)
    figure = Figure(figsize=(WIDTH, 3.9))
    linear, logarithmic = figure.subplots(1, 2, gridspec_kw={"wspace": 0.62})
    figure.subplots_adjust(left=0.065, right=0.935, bottom=0.22, top=0.85)
    _draw(linear, bill, "linear")
    _draw(logarithmic, bill, "log")
    figure.suptitle(bill.title, fontsize=10, y=0.98)
    figure.legend(*linear.get_legend_handles_labels(), loc="lower center", ncols=4, fontsize=8, frameon=False)
    return Picture(figure, _alt(bill))


@dataclass(frozen=True)
class _Bill:
    name: str
    shape: ModelShape
    dtype: str
    concurrency: Sequence[int]
    at: tuple[int, int] | None

    @property
    def token_bytes(self) -> int:
        return self.shape.kv_bytes_per_token(self.dtype)

    @property
    def longest(self) -> int:
        """Where the lines end: the most positions of a model of this shape."""
        longer = self.shape.same_shape_longer
        return longer[1] if longer else self.shape.max_position_embeddings

    @property
    def rooms(self) -> dict[str, float]:
        """GiB beside the weights, on the GPUs that hold the weights."""
        weights = self.shape.weight_bytes
        return {gpu: (size - weights) / GIB for gpu, size in GPUS.items() if size > weights}

    @property
    def most(self) -> float:
        return self.gib(self.longest, self.concurrency[-1])

    @property
    def title(self) -> str:
        return f"{self.name}, KV in {self.dtype}: {self.token_bytes / K:g} KiB a token, times context, times requests"

    @property
    def weights(self) -> str:
        return f"{self.shape.weight_bytes / GIB:.2f} GiB of weights"

    def gib(self, context: int, requests: int) -> float:
        return context * requests * self.token_bytes / GIB


def _draw(axes: Axes, bill: _Bill, scale: str) -> None:
    axes.set_xscale(scale)
    axes.set_yscale(scale)
    roomiest = max(bill.rooms.values(), default=bill.most)
    start = K if scale == "log" else 0
    if scale == "log":
        axes.set_ylim(bill.gib(K, bill.concurrency[0]) / 2, 3 * max(bill.most, roomiest))
    else:
        axes.set_ylim(0, 1.15 * min(bill.most, roomiest))
    axes.set_xlim(start, bill.longest)
    for requests, (colour, dashes, marker) in zip(bill.concurrency, _LINES, strict=False):
        contexts = [start, *(context for context in _powers_of_two(bill.longest) if context > start)]
        heights = [bill.gib(context, requests) for context in contexts]
        label = f"{requests} request{'s' if requests > 1 else ''}"
        axes.plot(contexts, heights, color=colour, linestyle=dashes, marker=marker, markersize=4, label=label)
    _draw_rooms(axes, bill)
    _draw_longer_model(axes, bill)
    _draw_mark(axes, bill)
    ticks = [2 * K, 8 * K, 32 * K, 128 * K] if scale == "log" else [bill.longest * i // 4 for i in range(5)]
    ticks = [tick for tick in ticks if tick <= bill.longest]
    axes.set_xticks(ticks, [_tokens(tick) for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel("context in tokens")
    axes.set_title(
        f"GiB, {'logarithmic axes: slope 1' if scale == 'log' else 'linear axes: straight lines'}", fontsize=9
    )
    no_frame(axes)


def _draw_rooms(axes: Axes, bill: _Bill) -> None:
    """A line at what each GPU has left for KV, named in the margin; where none has, a sentence."""
    for gpu, room in bill.rooms.items():
        if room < axes.get_ylim()[1]:
            axes.axhline(room, color="black", linewidth=0.8, dashes=(1, 2))
            axes.annotate(
                f"{room:.2f} left of {gpu}" if axes.get_yscale() == "linear" else gpu,
                (1, room),
                xytext=(4, 0),
                textcoords="offset points",
                xycoords=("axes fraction", "data"),
                va="center",
                fontsize=6.5,
            )
    if not bill.rooms:
        text = f"{bill.weights}:\nmore than {', '.join(GPUS)}"
        axes.text(0.03, 0.97, text, transform=axes.transAxes, va="top", fontsize=7)


def _draw_longer_model(axes: Axes, bill: _Bill) -> None:
    if bill.shape.same_shape_longer is None:
        return
    limit = bill.shape.max_position_embeddings
    axes.axvspan(limit, bill.longest, color="#EEEEEE", zorder=0)
    axes.annotate(
        f"beyond {_tokens(limit)}: {bill.shape.same_shape_longer[0]}",
        (0.99, 0.98),
        xycoords="axes fraction",
        ha="right",
        va="top",
        fontsize=7,
        bbox={"facecolor": "#EEEEEE", "edgecolor": "none", "pad": 1},
    )


def _draw_mark(axes: Axes, bill: _Bill) -> None:
    """The point that `at` asks for; an arrow head at the upper edge where it lies above."""
    if bill.at is None:
        return
    context, requests = bill.at
    gib, top = bill.gib(context, requests), axes.get_ylim()[1]
    marker, height = ("*", gib) if gib <= top else ("^", top)
    axes.plot([context], [height], marker, markersize=13, color="black", markeredgecolor="white", clip_on=False)
    right = context > bill.longest / 4
    axes.annotate(
        f"{gib:.2f} GiB",
        (context, height),
        xytext=(-9 if right else 9, 0),
        textcoords="offset points",
        ha="right" if right else "left",
        va="center",
        fontsize=8,
        bbox={"facecolor": "white", "edgecolor": "black", "pad": 1.5, "linewidth": 0.6},
        annotation_clip=False,
    )


def _alt(bill: _Bill) -> str:
    limit = bill.shape.max_position_embeddings
    parts = [
        f"KV cache of {bill.name} in {bill.dtype}: {bill.token_bytes / K:g} KiB a token. GiB grow in proportion to "
        "context and to concurrent requests: straight lines on linear axes, slope 1 on logarithmic ones."
    ]
    if bill.shape.same_shape_longer is not None:
        parts.append(f"It takes {_tokens(limit)} tokens; longer contexts are {bill.shape.same_shape_longer[0]}'s.")
    for requests in bill.concurrency:
        ends = [
            f"{_number(bill.gib(end, requests))} GiB at {_tokens(end)}" for end in dict.fromkeys([limit, bill.longest])
        ]
        parts.append(f"{requests} at once: {' and '.join(ends)}.")
    for gpu, room in bill.rooms.items():
        tokens = bill.shape.tokens_that_fit(GPUS[gpu], bill.dtype)
        parts.append(f"{gpu} less {bill.weights} leave {room:.2f} GiB, {tokens:,} tokens.")
    too_small = [gpu for gpu in GPUS if gpu not in bill.rooms]
    if too_small:
        parts.append(f"{bill.weights} do not fit in {', '.join(too_small)}.")
    if bill.at is not None:
        context, requests = bill.at
        parts.append(f"Marked: {_tokens(context)} tokens x {requests} = {bill.gib(context, requests):.2f} GiB.")
    return " ".join(parts)


def _number(gib: float) -> str:
    return f"{gib:,.0f}" if gib >= 100 else f"{gib:.3g}"


def _powers_of_two(longest: int) -> list[int]:
    """From 1K on, up to `longest`."""
    return [K * 2**i for i in range((longest // K).bit_length())]


def _tokens(count: int) -> str:
    return f"{count // K}K" if count and count % K == 0 else f"{count:,}"
