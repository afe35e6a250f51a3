"""Step through a recorded run: a slider, jumps to what is worth a look, and the same as stills where no widget runs."""

from __future__ import annotations

import html
import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from minivllm.observe.frame import Frame
from minivllm.observe.recording import Recording
from minivllm.viz.display import display_html, display_widget
from minivllm.viz.frame_html import stage_html, still_html, text_html
from minivllm.viz.frame_scene import Scene
from minivllm.viz.frame_style import page_css
from minivllm.viz.frame_text import frame_text

_EMPTY = "Nothing was recorded: make the Recording before the scheduler's first step, or give record() a load."
_MAX_STILLS = 8
_MILLISECONDS = 900  # a step, when the run plays by itself
_numbers = itertools.count()

JUMPS: dict[str, Callable[[Frame], bool]] = {
    "preemption": lambda frame: bool(frame.preempted),
    "hit": lambda frame: bool(frame.hits),
    "eviction": lambda frame: bool(frame.evicted),
}


def play(recording: Recording) -> Player:
    """The player of a recording; as the last line of a cell it shows itself."""
    return Player(recording)


def next_step(frames: Sequence[Frame], index: int, kind: str) -> int | None:
    """The next step after ``index`` with such an event; behind the last one it begins anew. None if there is none."""
    steps = [number for number, frame in enumerate(frames) if JUMPS[kind](frame)]
    return next((number for number in steps if number > index), steps[0] if steps else None)


def worth_a_look(frames: Sequence[Frame]) -> list[int]:
    """The first and the last step, and those between with a preemption, a hit or an eviction, the rarest kind first."""
    if not frames:
        return []
    chosen = {0, len(frames) - 1}
    by_kind = [[i for i, frame in enumerate(frames) if happened(frame)] for happened in JUMPS.values()]
    for step in itertools.chain.from_iterable(itertools.zip_longest(*sorted(by_kind, key=len))):
        if step is not None and len(chosen) < _MAX_STILLS:
            chosen.add(step)
    return sorted(chosen)


class Player:
    """Shows one recording, as far as it had come when the player was made.

    In a notebook it displays two things: the widget, and stills of the steps worth a look in a closed ``<details>``.
    A page without a kernel (GitHub, exported HTML, a notebook that was only opened) has the stills, a terminal has the
    text.
    """

    def __init__(self, recording: Recording) -> None:
        self.scene = Scene.of(recording)
        self.frames = self.scene.frames
        self._prefix = f"mv{next(_numbers)}"

    def __repr__(self) -> str:
        if not self.frames:
            return _EMPTY
        texts = [frame_text(self.frames[step], len(self.frames)) for step in worth_a_look(self.frames)]
        return "\n\n".join(texts)

    def stills(self) -> str:
        """HTML that needs neither kernel nor style sheet."""
        if not self.frames:
            return f"<p>{_EMPTY}</p>"
        steps = worth_a_look(self.frames)
        summary = f"Stills: {len(steps)} of {len(self.frames)} steps, as pictures and text, without a running kernel"
        stills = "".join(still_html(self.frames[step], self.scene, step == 0) for step in steps)
        return f"<details><summary>{summary}</summary>{stills}</details>"

    def render(self, step: int, as_text: bool = False) -> str:
        """HTML of one step, for a page that has the player's style sheet."""
        frame = self.frames[step]
        return text_html(frame, self.scene) if as_text else stage_html(frame, self.scene, self._prefix)

    def widget(self) -> Any:
        """A new widget (ipywidgets 7.7 or later)."""
        import ipywidgets

        if not self.frames:
            return ipywidgets.HTML(html.escape(_EMPTY))
        return _build(self, ipywidgets)

    def _ipython_display_(self) -> None:
        if not self.frames:
            display_html(self.stills(), _EMPTY)
            return
        line = f"Player of {len(self.frames)} steps: run this cell in a notebook to step through them."
        display_widget(self.widget(), line, self.stills(), repr(self))


def _build(player: Player, widgets: Any) -> Any:
    frames, last = player.frames, len(player.frames) - 1
    stage = widgets.HTML(player.render(0))
    as_text = widgets.ToggleButton(value=False, description="as text", tooltip="Show the step in words instead")
    style = widgets.HTML(f"<style>{page_css()}</style>", layout=widgets.Layout(display="none"))
    # A slider from 0 to 0 is an error in the browser.
    slider = widgets.IntSlider(0, 0, max(last, 1), description="step", layout=widgets.Layout(flex="1 1 260px"))

    def show(change: Any) -> None:
        stage.value = player.render(min(slider.value, last), as_text.value)

    slider.observe(show, "value")
    as_text.observe(show, "value")
    if last == 0:
        return widgets.VBox([style, _row(widgets, [as_text]), stage])

    run = widgets.Play(value=0, min=0, max=last, interval=_MILLISECONDS)
    widgets.jslink((run, "value"), (slider, "value"))

    def go(description: str, target: Callable[[], int | None], tooltip: str) -> Any:
        button = widgets.Button(description=description, tooltip=tooltip, layout=widgets.Layout(width="auto"))
        button.disabled = target() is None

        def on_click(_: Any) -> None:
            step = target()
            if step is not None:
                slider.value = step

        button.on_click(on_click)
        return button

    def jump(kind: str) -> int | None:
        return next_step(frames, slider.value, kind)

    back = go("previous", lambda: max(slider.value - 1, 0), "One step back")
    forth = go("next", lambda: min(slider.value + 1, last), "One step on")
    jumps = []
    for kind, happened in JUMPS.items():
        number = sum(map(happened, frames))
        tooltip = f"{number} of {last + 1} steps have one; behind the last it begins anew"
        jumps.append(go(f"next {kind} ({number})", partial(jump, kind), tooltip))
    return widgets.VBox([style, _row(widgets, [run, back, forth, slider]), _row(widgets, [*jumps, as_text]), stage])


def _row(widgets: Any, children: list[Any]) -> Any:
    return widgets.HBox(children, layout=widgets.Layout(flex_flow="row wrap", align_items="center"))
