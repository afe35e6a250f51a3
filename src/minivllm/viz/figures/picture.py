"""A figure that shows itself in a notebook, and what all figures have in common.

Labels are English. Kinds of things differ in hatch, marker or line style as well as in colour (Okabe-Ito's, which are
told apart in every kind of colour vision). The background is white, so that a dark notebook shows the same picture.
"""

import base64
import html
import io
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

WIDTH = 7.2
"""Inches; a notebook's column."""


@dataclass(frozen=True, repr=False)
class Picture:
    """A figure and the sentences that say the same: its alt text, and what a terminal prints."""

    figure: Figure
    alt: str

    def __repr__(self) -> str:
        return self.alt

    def _repr_html_(self) -> str:
        return to_html(self)


@dataclass(frozen=True)
class Style:
    """How one kind of area is filled, and what the legend calls it."""

    label: str
    face: str
    hatch: str = ""

    @property
    def fill(self) -> dict[str, Any]:
        """The arguments that a bar or a patch takes."""
        return {"facecolor": self.face, "hatch": self.hatch, "edgecolor": "black", "linewidth": 0.8}


def to_html(picture: Picture) -> str:
    """The picture as an inline SVG image whose alt text is the picture's sentences."""
    buffer = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "minivllm"}):  # equal pictures give equal bytes
        picture.figure.savefig(buffer, format="svg", metadata={"Date": None})
    data = base64.b64encode(buffer.getvalue()).decode("ascii")
    return f'<img alt="{html.escape(picture.alt)}" src="data:image/svg+xml;base64,{data}" style="max-width:100%">'


def area_legend(figure: Figure, styles: Iterable[Style]) -> None:
    """One row below the figure that names what the areas are."""
    handles = [Patch(label=style.label, **style.fill) for style in styles]
    figure.legend(handles=handles, loc="lower center", ncols=max(len(handles), 1), fontsize=8, frameon=False)


def no_frame(axes: Axes, *sides: str) -> None:
    """Takes the named spines away; without names the top and the right one."""
    for side in sides or ("top", "right"):
        axes.spines[side].set_visible(False)
