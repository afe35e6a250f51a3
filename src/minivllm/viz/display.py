"""A widget in a notebook, and stills of it for every page without a kernel."""

from __future__ import annotations

from typing import Any

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


def display_widget(widget: Any, line: str, stills: str, text: str) -> None:
    """Display two things: the widget, and below it the stills.

    Args:
        line: a sentence in the place of the widget where none runs.
        stills: HTML that needs neither kernel nor style sheet.
        text: what a terminal prints of the stills.
    """
    view = {"version_major": 2, "version_minor": 0, "model_id": widget.model_id}
    display_html(f"<p>{line}</p>", line, {WIDGET_VIEW: view})
    display_html(stills, text)


def display_html(page: str, text: str, more: dict[str, Any] | None = None) -> None:
    """Display HTML; the text stands in for it where HTML isn't shown."""
    from IPython.display import display

    display({**(more or {}), "text/html": page, "text/plain": text}, raw=True)  # type: ignore[no-untyped-call]
