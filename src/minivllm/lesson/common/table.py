"""A table that a notebook draws as HTML and a terminal prints as text: the same words in both."""

import html
import importlib
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Table:
    """`rows` of cells under `columns`, a `title` above and a `note` below (each may be empty)."""

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    title: str = ""
    note: str = ""

    def __repr__(self) -> str:
        cells = [[str(cell) for cell in row] for row in (self.columns, *self.rows)]
        widths = [max(map(_width, column)) for column in zip(*cells, strict=True)]
        header, *body = [
            "  ".join(_padded(cell, w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in cells
        ]
        rule = "  ".join("-" * w for w in widths)
        return "\n".join(line for line in (self.title, header, rule, *body, self.note) if line)

    def _repr_html_(self) -> str:
        head = "".join(f"<th scope='col' style='text-align:left'>{html.escape(str(c))}</th>" for c in self.columns)
        body = "".join(
            "<tr>"
            + "".join(f"<td style='text-align:left;vertical-align:top'>{html.escape(str(c))}</td>" for c in row)
            + "</tr>"
            for row in self.rows
        )
        title = f"<p><strong>{html.escape(self.title)}</strong></p>" if self.title else ""
        note = f"<p>{html.escape(self.note)}</p>" if self.note else ""
        return f"{title}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{note}"


def show(value: Any) -> None:
    """Draw `value` in a notebook, print it elsewhere."""
    try:
        from IPython.core.getipython import get_ipython
    except ImportError:
        print(value)
        return
    shell = get_ipython()
    if shell is None or isinstance(value, str):
        print(value)
        return
    draw: Callable[[Any], None] = importlib.import_module("IPython.display").display
    draw(value)


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def _padded(text: str, width: int) -> str:
    return text + " " * (width - _width(text))
