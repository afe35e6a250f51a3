"""The pictures of a notebook's text cells, attached or written into the text: kept where they can be drawn, and
counted where not.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Any

from autograder.intake.pictures import Painter

if TYPE_CHECKING:
    from autograder.intake.handed_in import Cell

MAX_PICTURES = 60
MAX_COUNTED = 1_000
MAX_NAME = 200
WRITTEN = re.compile(
    r"data:image/([\w.+-]{1,40})(;[\w=.+-]{1,60}){0,3}?,((?:[A-Za-z0-9+/]{60,}+\n)*+[A-Za-z0-9+/=%._~-]*)"
)
"""A picture in the text itself, as some editors paste it: in one line, or in lines of base64."""
REFERENCES = (
    re.compile(r"!\[[^\[\]\n]{0,200}\](?:\(\s{0,3}<?([^)\s>]{0,300})|\[)"),
    re.compile(r"<(?:img|svg|picture)\b(?:[^>\n]{0,200}?\bsrc\s?=\s?[\"']?([^\"'\s>]{0,300}))?", re.IGNORECASE),
)
ATTACHED = "attachment:"


class Attached:
    """Takes the pictures of the cells of one notebook."""

    def __init__(self) -> None:
        self._painter = Painter()
        self._kept = 0

    def take(self, cell: Cell, attachments: dict[str, Any]) -> None:
        """Fill in the cell's `pictures`, with those out of its text, and count the lost ones."""
        if cell.kind == "code":
            return
        lost = 0
        for name, bundle in attachments.items():
            lost += not self._keep(cell, name, bundle if isinstance(bundle, dict) else {})
        if "data:image/" in cell.source:
            cell.source = WRITTEN.sub(lambda found: self._moved(cell, found), cell.source)
        shown = {f"{ATTACHED}{name}" for name in cell.pictures}
        found = (each for pattern in REFERENCES for each in pattern.finditer(cell.source))
        references = [each[1] for each in islice(found, MAX_COUNTED)]
        missing = sum(url not in shown for url in references if url is None or not url.startswith(ATTACHED))
        gone = {url for url in references if url and url.startswith(ATTACHED)} - shown
        cell.lost_pictures = max(lost, len(gone)) + missing

    def _keep(self, cell: Cell, name: str, bundle: dict[str, Any]) -> bool:
        for kind, data in bundle.items():
            data = "".join(map(str, data)) if isinstance(data, list) else data
            if not isinstance(data, str) or not kind.startswith("image/") or self._kept >= MAX_PICTURES:
                continue
            drawn = self._painter.redrawn(data)
            if drawn and name.isprintable() and len(name) <= MAX_NAME:
                self._kept += 1
                cell.pictures[name] = drawn
                return True
        return False

    def _moved(self, cell: Cell, found: re.Match[str]) -> str:
        name = f"picture-{len(cell.pictures) + 1}"
        is_encoded = ";base64" in found[0][:200]
        if is_encoded and self._keep(cell, name, {"image/any": found[3].replace("\n", "")}):
            return f"{ATTACHED}{name}"
        return "lost-picture"
