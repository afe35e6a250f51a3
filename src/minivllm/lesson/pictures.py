"""The figures of minivllm.viz as a notebook calls them; matplotlib and ipywidgets are imported at the first picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from minivllm.observe.recording import Recording
    from minivllm.viz.figures import Picture
    from minivllm.viz.figures.kv_bill_sliders import KVBillSliders


def schedule_flow() -> Picture:
    """Figure 2-2: one engine step as the source takes it."""
    from minivllm.viz import figures

    return figures.schedule_flow()


def kv_bill(
    model: str = "Llama-3-8B",
    *,
    dtype: str = "bfloat16",
    concurrency: Sequence[int] = (1, 4, 16, 64),
    at: tuple[int, int] | None = None,
) -> Picture:
    """Figure 2-1: GiB of KV against context and concurrent requests, beside what GPUs have left after the weights."""
    from minivllm.viz import figures

    return figures.kv_bill(model, dtype=dtype, concurrency=concurrency, at=at)


def kv_bill_sliders() -> KVBillSliders:
    """Figure 2-1 with a choice of model, dtype of the cache, context and concurrent requests."""
    from minivllm.viz.figures.kv_bill_sliders import KVBillSliders

    return KVBillSliders()


def budget_over_time(recording: Recording) -> Picture:
    """Tokens of each step, stacked: prefill chunks, decodes, drafts; and the budget."""
    from minivllm.viz import figures

    return figures.budget_over_time(recording)


def block_occupancy(recording: Recording) -> Picture:
    """Blocks of each step: owned, free but cached, free."""
    from minivllm.viz import figures

    return figures.block_occupancy(recording)


def timeline(recording: Recording) -> Picture:
    """A Gantt chart: what every request did in every step."""
    from minivllm.viz import figures

    return figures.timeline(recording)


def latency_figure(latencies: Mapping[str, Sequence[float]], *, title: str) -> Picture:
    """One row for each label, of seconds: every measurement, the median and p99."""
    from minivllm.viz import figures

    return figures.latency_figure(latencies, title=title)
