"""A notebook file as it was handed in, read with patience: cells with text, whatever the rest of it looks like."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from autograder.intake.notes import shown

MAX_CELLS = 20_000
MAX_TEXT = 4 << 20  # characters of all cells together
MAX_GARBLED = 20
PICTURES = ("image/png", "image/jpeg", "image/gif")
MAX_PICTURES = 4 << 20  # characters of base64 in one cell


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
    encoding = json.detect_encoding(data)
    if encoding not in ("utf-8", "utf-8-sig") or data.startswith(b"\xef\xbb\xbf"):
        handed_in.repairs.append(f"is encoded in {encoding} instead of UTF-8 and was converted")
    try:
        return data.decode(encoding, "surrogatepass")
    except UnicodeDecodeError:
        pass
    garbled = data.decode(encoding, "replace")
    if encoding.startswith("utf-8") and garbled.count("\ufffd") > MAX_GARBLED:
        try:
            text = data.decode("gb18030")
        except UnicodeDecodeError:
            pass
        else:
            handed_in.repairs.append("is encoded in GB 18030 instead of UTF-8 and was converted")
            return text
    handed_in.doubts.append(f"holds {garbled.count(chr(0xFFFD))} characters that are not {encoding} and were replaced")
    return garbled


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
        told = "it is no JSON" if error.pos < 2 else "it is broken off or damaged"
        raise NoNotebook(f"{told} (line {error.lineno}: {error.msg})") from None
    if doubled:
        handed_in.doubts.append(f"gives {', '.join(sorted(doubled))} twice in one place: the last was taken")
    if text[end : end + 1000].strip("\0 \t\r\n"):
        handed_in.doubts.append("goes on after the notebook's end: what follows was not read")
    return found


def _number(digits: str) -> int:
    return int(digits) if len(digits) < 20 else 0


def _cells(raw: list[Any], handed_in: HandedIn) -> Iterator[Cell]:
    left, odd = MAX_TEXT, 0
    for number, each in enumerate(raw, 1):
        if not isinstance(each, dict):
            odd += 1
            continue
        source = _source(each)
        if source is None:
            odd += 1
            source = ""
        left -= len(source)
        if left < 0:
            told = f"holds more than {MAX_TEXT >> 20} million characters: cells from {number} on were left out"
            handed_in.doubts.append(told)
            break
        yield _cell(each, source, number)
    if odd:
        handed_in.doubts.append(f"has {odd} broken cells without text")


def _cell(each: dict[str, Any], source: str, number: int) -> Cell:
    metadata = _dict(each.get("metadata"))
    kind = each.get("cell_type")
    if kind == "heading":  # format 3
        kind, source = "markdown", f"# {source}"
    if kind not in ("code", "markdown", "raw"):
        kind = "code" if "outputs" in each or "input" in each else "markdown"
    grade_id = _str(_dict(metadata.get("nbgrader")).get("grade_id"))
    cell_id = _str(each.get("id")) or _str(metadata.get("id"))  # Colab keeps it there
    pictures = _pictures(each.get("attachments"))
    return Cell(kind, source, grade_id, cell_id, number, _str(metadata.get("lang")), pictures)


def _source(cell: dict[str, Any]) -> str | None:
    """Clean text: one kind of line end, and characters that can be written. None if there is no text."""
    source = cell.get("source", cell.get("input"))
    if isinstance(source, list):
        source = "".join(line for line in source if isinstance(line, str))
    if not isinstance(source, str):
        return None
    source = source.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")
    if source.isascii():
        return source
    return source.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _pictures(attachments: Any) -> dict[str, dict[str, str]]:
    kept: dict[str, dict[str, str]] = {}
    left = MAX_PICTURES
    for name, bundle in _dict(attachments).items():
        for kind, data in _dict(bundle).items():
            if kind in PICTURES and isinstance(data, str) and re.fullmatch(r"[A-Za-z0-9+/=\s]*", data[:left]):
                left -= len(data)
                if left > 0 and name.isprintable():
                    kept.setdefault(name, {})[kind] = data
    return kept


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _str(value: Any) -> str:
    return value if isinstance(value, str) and len(value) <= 200 else ""
