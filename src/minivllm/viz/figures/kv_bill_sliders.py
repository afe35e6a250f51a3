"""Figure 2-1 with sliders: core ipywidgets, and the still picture where widgets don't run."""

from __future__ import annotations

from typing import Any

import ipywidgets as widgets

from minivllm.kv_bill import DTYPE_BYTES, GIB, GPUS, MODELS
from minivllm.viz.display import display_widget
from minivllm.viz.figures.kv_bill import K, kv_bill
from minivllm.viz.figures.picture import Picture, to_html

CONCURRENCY = (1, 2, 4, 8, 16, 32, 64, 128)


class KVBillSliders:
    """Model, dtype of the cache, context and concurrent requests to choose; the chart and a sentence follow.

    A notebook shows the widget and, closed below it, a still; a page without a kernel shows the still.
    """

    def __init__(self, model: str = "Llama-3-8B", context: int = 8 * K, requests: int = 16) -> None:
        style = {"description_width": "90px"}
        self.model = widgets.Dropdown(options=list(MODELS), value=model, description="model", style=style)
        self.dtype = widgets.Dropdown(options=list(DTYPE_BYTES), description="KV dtype", style=style)
        self.context = widgets.SelectionSlider(
            options=[(f"{size}K", size * K) for size in (1, 2, 4, 8, 16, 32, 64, 128)],
            value=context,
            description="context",
            continuous_update=False,
            style=style,
        )
        self.requests = widgets.SelectionSlider(
            options=CONCURRENCY, value=requests, description="requests", continuous_update=False, style=style
        )
        self._sentence = widgets.HTML()
        self._chart = widgets.HTML()
        choices = (self.model, self.dtype, self.context, self.requests)
        for choice in choices:
            choice.observe(self._draw, names="value")
        self.box = widgets.VBox([*choices, self._sentence, self._chart])
        self._draw()

    @property
    def sentence(self) -> str:
        """What the choices cost, and which GPUs hold it beside the weights."""
        shape, context, requests = MODELS[self.model.value], self.context.value, self.requests.value
        if context > self._longest:
            return f"{self.model.value} takes {self._longest // K}K tokens at most: choose a shorter context."
        kv = context * requests * shape.kv_bytes_per_token(self.dtype.value)
        fits = [gpu for gpu, size in GPUS.items() if size >= shape.weight_bytes + kv]
        return (
            f"{context // K}K tokens x {requests} x {shape.kv_bytes_per_token(self.dtype.value) / K:g} KiB = "
            f"{kv / GIB:,.2f} GiB of KV beside {shape.weight_bytes / GIB:.2f} GiB of weights: "
            f"{'fits ' + ', '.join(fits) if fits else 'fits none of ' + ', '.join(GPUS)}."
        )

    @property
    def picture(self) -> Picture:
        """The chart of the choices."""
        at = (self.context.value, self.requests.value)
        return kv_bill(self.model.value, dtype=self.dtype.value, at=at if at[0] <= self._longest else None)

    @property
    def _longest(self) -> int:
        shape = MODELS[self.model.value]
        return shape.same_shape_longer[1] if shape.same_shape_longer else shape.max_position_embeddings

    def _draw(self, change: Any = None) -> None:
        self._sentence.value = f"<p>{self.sentence}</p>"
        self._chart.value = to_html(self.picture)

    def __repr__(self) -> str:
        return f"{self.sentence} {self.picture!r}"

    def _ipython_display_(self) -> None:
        """The widget; and the chart of the choices, closed, for a page without a kernel."""
        still = f"<summary>Still: the choices as they stood</summary>{self._sentence.value}{self._chart.value}"
        line = "Sliders: run this cell in a notebook to move them."
        display_widget(self.box, line, f"<details>{still}</details>", repr(self))
