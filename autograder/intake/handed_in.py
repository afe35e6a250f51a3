"""A notebook file as it was handed in, read with patience: cells with text, whatever the rest of it looks like."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from autograder.intake.attached import Attached
from autograder.intake.charset import decoded
from autograder.intake.notes import shown

MAX_CELLS = 20_000
MAX_TEXT = 4 << 20  # characters of all cells of an `_Allowance` together
MAX_CELL = 200_000
LONG = 20_000
MAX_TOLD = 5


class NoNotebook(ValueError):
    """The file can't be read as a notebook; the text says why."""


@dataclass(eq=False)
class Cell:
    """A cell of the student. `kind` is "code", "markdown" or "raw"; `grade_id` and `id` are empty where lost.

    `number` is its place in the file, from 1.
    """

    kind: str
    source: str
    grade_id: str = ""
    id: str = ""
    number: int = 0
    lang: str = ""
    pictures: dict[str, dict[str, str]] = field(default_factory=dict)
    lost_pictures: int = 0
    """Those that a reader of the graded notebook does not see."""


@dataclass
class HandedIn:
    """The cells, and sentences about what was odd with the file."""

    cells: list[Cell]
    repairs: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    """What a person has to look at."""


def read(data: bytes) -> HandedIn:
    """Raises NoNotebook."""
    if not data.strip():
        raise NoNotebook("the file is empty")
    handed_in = HandedIn([])
    notebook = _json(_text(data, handed_in), handed_in)
    if not isinstance(notebook, dict):
        raise NoNotebook(f"it holds a JSON {type(notebook).__name__}, not a notebook")
    version = notebook.get("nbformat")
    raw = notebook.get("cells")
    if not isinstance(raw, list):
        sheets = [sheet.get("cells") for sheet in _list(notebook.get("worksheets")) if isinstance(sheet, dict)]
        raw = [cell for cells in sheets for cell in _list(cells)]
        if not sheets:
            raise NoNotebook("it has no list of cells")
    if version != 4:
        handed_in.repairs.append(f"has the notebook format {shown(str(version)[:20])} instead of 4 and was converted")
    if len(raw) > MAX_CELLS:
        handed_in.doubts.append(f"has {len(raw)} cells: only the first {MAX_CELLS} were read")
    handed_in.cells = list(_cells(raw[:MAX_CELLS], handed_in))
    return handed_in


def _text(data: bytes, handed_in: HandedIn) -> str:
    found = decoded(data)
    handed_in.repairs += [found.repair] if found.repair else []
    handed_in.doubts += [found.doubt] if found.doubt else []
    return found.text


def _json(text: str, handed_in: HandedIn) -> Any:
    doubled: set[str] = set()

    def record(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) != len(pairs):
            values: dict[str, Any] = {}
            for key, value in pairs:
                if values.setdefault(key, value) != value and len(doubled) < 5:
                    doubled.add(shown(key[:40]))
        return made

    decoder = json.JSONDecoder(strict=False, object_pairs_hook=record, parse_int=_number)
    start = re.match(r"[\s\ufeff]*", text)
    try:
        found, end = decoder.raw_decode(text, start.end() if start else 0)
    except RecursionError:
        raise NoNotebook("it is nested too deeply") from None
    except MemoryError:
        raise NoNotebook("it takes too much memory to read") from None
    except json.JSONDecodeError as error:
        told = _instead(text) or ("it is no JSON" if error.pos < 2 else "it is broken off or damaged")
        raise NoNotebook(f"{told} (line {error.lineno}: {error.msg})") from None
    if doubled:
        handed_in.doubts.append(f"gives {', '.join(sorted(doubled))} twice in one place: the last was taken")
    if text[end : end + 1000].strip("\0 \t\r\n"):
        handed_in.doubts.append("goes on after the notebook's end: what follows was not read")
    return found


def _number(digits: str) -> int:
    return int(digits) if len(digits) < 20 else 0


def _instead(text: str) -> str:
    """What a file is that is no JSON."""
    start = text[:300].lstrip("\ufeff \r\n\t").lower()
    known = {"pk\3\4": "a ZIP archive", "rar!": "a RAR archive", "7z\xbc": "a 7z archive", "%pdf": "a PDF"}
    known |= {"<!doctype html": "a web page", "<html": "a web page"}
    return next((f"it is no JSON but {what}" for mark, what in known.items() if start.startswith(mark)), "")


def _cells(raw: list[Any], handed_in: HandedIn) -> Iterator[Cell]:
    room = _Allowance()
    attached = Attached()
    odd, zeros = 0, []
    for number, each in enumerate(raw, 1):
        if not isinstance(each, dict):
            odd += 1
            continue
        source = _source(each)
        if source is None:
            odd += 1
            source = ""
        cell = _cell(each, source, number)
        attached.take(cell, _dict(each.get("attachments")))
        if "\0" in cell.source:
            zeros.append(cell.grade_id or f"cell {number}")
            cell.source = cell.source.replace("\0", "\ufffd")
        room.cut(cell)
        yield cell
    if odd:
        handed_in.doubts.append(f"has {odd} broken cells without text")
    if zeros:
        told = f"holds zero bytes in {_few(zeros)}, which are shown as \ufffd"
        handed_in.doubts.append(told)
    handed_in.doubts += room.told()


def _few(names: list[str]) -> str:
    more = f" and {len(names) - MAX_TOLD} more" if len(names) > MAX_TOLD else ""
    return shown(", ".join(names[:MAX_TOLD])) + more


class _Allowance:
    """How much text is read: cells with a grade id, short cells and long ones have an allowance each, so that what is
    too long costs itself and no answer.
    """

    def __init__(self) -> None:
        self._read: Counter[tuple[bool, bool]] = Counter()
        self._long: list[str] = []
        self._left_out: list[str] = []

    def cut(self, cell: Cell) -> None:
        name = cell.grade_id or f"cell {cell.number}"
        size = len(cell.source)
        if size > MAX_CELL:
            self._long.append(name)
            cell.source, size = cell.source[:MAX_CELL], MAX_CELL
        kind = (bool(cell.grade_id), size > LONG)
        if self._read[kind] + size > MAX_TEXT:
            self._left_out.append(name)
            cell.source = ""
        else:
            self._read[kind] += size

    def told(self) -> Iterator[str]:
        if self._long:
            yield f"holds more than {MAX_CELL} characters in {_few(self._long)}: only the first were read"
        if self._left_out:
            yield f"holds more than {MAX_TEXT >> 20} million characters: left out were {_few(self._left_out)}"


def _cell(each: dict[str, Any], source: str, number: int) -> Cell:
    metadata = _dict(each.get("metadata"))
    kind = each.get("cell_type")
    if kind == "heading":  # format 3
        kind, source = "markdown", f"# {source}"
    if kind not in ("code", "markdown", "raw"):
        kind = "code" if "outputs" in each or "input" in each else "markdown"
    grade_id = _str(_dict(metadata.get("nbgrader")).get("grade_id"))
    cell_id = _str(each.get("id")) or _str(metadata.get("id"))  # Colab keeps it there
    return Cell(kind, source, grade_id, cell_id, number, _str(metadata.get("lang")))


def _source(cell: dict[str, Any]) -> str | None:
    """Clean text: one kind of line end, and characters that can be written. None if there is no text."""
    source = cell.get("source", cell.get("input"))
    if isinstance(source, list):
        source = "".join(line for line in source if isinstance(line, str))
    if not isinstance(source, str):
        return None
    source = source.replace("\r\n", "\n").replace("\r", "\n")
    if source.isascii():
        return source
    return source.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _str(value: Any) -> str:
    return value if isinstance(value, str) and len(value) <= 200 else ""
