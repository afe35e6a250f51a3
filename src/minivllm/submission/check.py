"""Look at a notebook before it is handed in: what was lost, doubled or left blank on the way, and how to mend it.

What a notebook should hold comes with the wheel, in released.json, which the course builder writes: no clone is needed.
"""

import ast
import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from minivllm.errors import MinivllmError
from minivllm.submission.own_cells import OwnCell, check

RECORD = Path(__file__).with_name("released.json")
MAX_OUTPUTS = 10 * 2**20  # bytes of JSON; a notebook that was run has 1 to 3 MiB
_COPY = "open a fresh copy of the notebook, copy your answers into it cell by cell, and hand that in"
_CLEAR = "clear them (JupyterLab: Edit > Clear Outputs of All Cells; Colab: Edit > Clear all outputs) and save"


class SubmissionError(MinivllmError):
    """The file is no notebook; the message says what it is and what to hand in."""


@dataclass(frozen=True)
class ReleasedCell:
    """One cell of a released notebook that grading looks for.

    Attributes:
        kind: `locked` must stay as it is, `code` and `text` are the student's to write; `free` is there to play with,
            and grading does not run it (`grade_id` is the cell's id then).
        graded: points depend on it; practice does not.
        targets: the names that a code answer has to define.
        fingerprints: of the text in each edition, as released: for `code` and `text` that is the blank.
    """

    grade_id: str
    cell_type: str
    kind: Literal["locked", "code", "text", "free"]
    graded: bool
    fingerprints: tuple[str, ...]
    targets: tuple[str, ...] = ()


@dataclass(frozen=True)
class Problem:
    """What is wrong with a notebook, and how to mend it; `cell` is a grade id, or empty where it is about the file."""

    cell: str
    what: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.cell}: {self.what}; {self.remedy}" if self.cell else f"{self.what}; {self.remedy}"


def fingerprint(source: str) -> str:
    """Of a cell's text, less the white space that editors and browsers change."""
    text = "\n".join(line.rstrip() for line in source.strip().splitlines())
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def released() -> Mapping[str, tuple[ReleasedCell, ...]]:
    """The released notebooks by name (without .ipynb): the cells that grading looks for."""
    return {name: tuple(cell for cell in cells if cell.kind != "free") for name, cells in _recorded().items()}


def practice() -> Mapping[str, tuple[ReleasedCell, ...]]:
    """The other code cells, by the same names."""
    return {name: tuple(cell for cell in cells if cell.kind == "free") for name, cells in _recorded().items()}


@cache
def _recorded() -> Mapping[str, tuple[ReleasedCell, ...]]:
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    return {name: tuple(map(_recorded_cell, cells)) for name, cells in record.items()}


def _recorded_cell(cell: dict[str, Any]) -> ReleasedCell:
    return ReleasedCell(**cell | {name: tuple(cell[name]) for name in ("fingerprints", "targets")})


def record(editions: Mapping[str, Sequence[Sequence[Any]]]) -> str:
    """The text of released.json: for each name, the cells of the notebook in every edition."""
    names = {name: [asdict(cell) for cell in _released_cells(cells)] for name, cells in sorted(editions.items())}
    return json.dumps(names, indent=1, ensure_ascii=False) + "\n"


def _released_cells(editions: Sequence[Sequence[Any]]) -> list[ReleasedCell]:
    twins = [[cell for cell in cells if "nbgrader" in cell["metadata"]] for cells in editions]
    cells = []
    for index, same in enumerate(zip(*twins, strict=True)):
        told = same[0]["metadata"]["nbgrader"]
        following = [cell["metadata"]["nbgrader"] for cell in twins[0][index + 1 : index + 2]]
        tested = any(cell["grade"] and not cell["solution"] for cell in following)
        kind: Literal["locked", "code", "text"] = "locked"
        if told["solution"]:
            kind = "code" if same[0]["cell_type"] == "code" else "text"
        prints = tuple(dict.fromkeys(fingerprint(cell["source"]) for cell in same))
        graded, targets = told["grade"] or tested, _targets(same[0]["source"]) if kind == "code" else ()
        cells.append(ReleasedCell(told["grade_id"], same[0]["cell_type"], kind, graded, prints, targets))
    others: dict[str, str] = {
        cell["id"]: fingerprint(cell["source"])
        for edition in editions
        for cell in edition
        if cell["cell_type"] == "code" and "nbgrader" not in cell["metadata"]
    }
    return cells + [ReleasedCell(id, "code", "free", False, (print,)) for id, print in others.items()]


def _targets(source: str) -> tuple[str, ...]:
    """What the released cell of an answer defines."""
    found = []
    for each in ast.parse(source).body:
        match each:
            case ast.FunctionDef(name) | ast.ClassDef(name):
                found.append(name)
            case ast.Assign([ast.Name(name)]):
                found.append(name)
    return tuple(found)


def read_notebook(data: bytes) -> dict[str, Any]:
    """The notebook in `data`, with every source as one string.

    Raises:
        SubmissionError: it is not JSON in UTF-8, no notebook, or one of an older format than 4.
    """
    hand_in = "hand in the .ipynb file itself (JupyterLab: File > Download; Colab: File > Download > Download .ipynb)"
    try:
        notebook = json.loads(data.decode("utf-8-sig"))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise SubmissionError(f"the file is not JSON in UTF-8 ({error}), so it is no notebook; {hand_in}") from None
    if not isinstance(notebook, dict) or not isinstance(notebook.get("nbformat"), int):
        raise SubmissionError(f"the file is JSON, but no notebook; {hand_in}")
    if notebook["nbformat"] < 4:
        told = f"the notebook has the old format {notebook['nbformat']}, and grading reads format 4"
        raise SubmissionError(f"{told}; open it in JupyterLab and save it, which converts it")
    cells = notebook.get("cells")
    if not isinstance(cells, list) or not all(map(_is_cell, cells)):
        raise SubmissionError(f"the notebook has no proper list of cells; {_COPY}")
    for cell in cells:
        cell["source"] = "".join(cell["source"])
    return notebook


def _is_cell(cell: Any) -> bool:
    return (
        isinstance(cell, dict)
        and isinstance(cell.get("cell_type"), str)
        and isinstance(cell.get("metadata"), dict)
        and isinstance(cell.get("source"), str | list)
        and all(isinstance(line, str) for line in cell["source"])
    )


def check_file(path: Path) -> list[Problem]:
    """What is wrong with the notebook in `path`, worst first; an empty list if nothing is.

    Raises:
        OSError: the file cannot be read.
    """
    try:
        notebook = read_notebook(path.read_bytes())
    except SubmissionError as error:
        what, _, remedy = str(error).rpartition("; ")
        return [Problem("", what, remedy)]
    name = name_of(path.name, notebook["cells"])
    if name is None:
        names = ", ".join(f"{name}.ipynb" for name in released())
        return [Problem("", f"{path.name} is none of the lesson's notebooks", f"hand in one of {names}")]
    cells, expected = notebook["cells"], released()[name]
    return [
        *_name_problems(path, name),
        *check_cells(cells, expected),
        *check_code(cells, expected, practice()[name], path.parent),
        *_outputs(notebook),
    ]


def name_of(file_name: str, cells: Sequence[Any]) -> str | None:
    """The released notebook that a file is: by its name, however a browser changed it, else by its grade ids."""
    by_name = [name for name in released() if name in file_name]
    if by_name:
        return by_name[0]
    ids = {grade_id for cell in cells if (grade_id := grade_id_of(cell))}
    shared = {name: len(ids & {cell.grade_id for cell in cells}) for name, cells in released().items()}
    best = max(shared, key=lambda name: shared[name])
    return best if shared[best] else None


def grade_id_of(cell: Any) -> str | None:
    """The grade id in a cell's metadata, or None where there is none or it is not text."""
    told = cell["metadata"].get("nbgrader")
    grade_id = told.get("grade_id") if isinstance(told, dict) else None
    return grade_id if isinstance(grade_id, str) else None


def _name_problems(path: Path, name: str) -> Iterator[Problem]:
    if path.name != f"{name}.ipynb":
        yield Problem("", f"the file is called {path.name}", f"rename it to {name}.ipynb")


def check_cells(cells: Sequence[Any], expected: Sequence[ReleasedCell]) -> Iterator[Problem]:
    """Compare the cells of a notebook with those that were released: lost, doubled, moved, changed, left blank."""
    found: dict[str, list[int]] = defaultdict(list)
    for index, cell in enumerate(cells):
        if (grade_id := grade_id_of(cell)) is not None:
            found[grade_id].append(index)
    if expected and not any(cell.grade_id in found for cell in expected):
        yield Problem("", "the metadata by which grading finds your answers is gone from every cell", _COPY)
        return
    for cell in expected:
        places = found[cell.grade_id]
        if not places:
            yield Problem(cell.grade_id, "this cell or its metadata is missing", _COPY)
        elif len(places) > 1:
            where = " and ".join(str(place + 1) for place in places)
            yield Problem(cell.grade_id, f"this cell is there {len(places)} times (cells {where})", "delete the copies")
        else:
            yield from _check_cell(cells[places[0]], cell)
    single = [cell.grade_id for cell in expected if len(found[cell.grade_id]) == 1]
    for above, below in pairwise(single):
        if found[below] < found[above]:
            yield Problem(below, f"this cell stands above {above}", "move it back below it")


def _check_cell(cell: Any, expected: ReleasedCell) -> Iterator[Problem]:
    name, same = expected.grade_id, fingerprint(cell["source"]) in expected.fingerprints
    if cell["cell_type"] != expected.cell_type:
        remedy = f"turn it back into a {expected.cell_type} cell"
        yield Problem(name, f"this is a {cell['cell_type']} cell and was a {expected.cell_type} cell", remedy)
    elif expected.kind == "locked" and not same:
        yield Problem(name, "this cell was changed, and only its original counts", f"undo the change, or {_COPY}")
    elif expected.graded and expected.kind == "code" and (same or "______" in cell["source"]):
        yield Problem(name, "there is a blank ______ left", "fill it in, run the cell and save")
    elif expected.graded and expected.kind == "text" and (same or not cell["source"].strip()):
        yield Problem(name, "there is no answer yet", "write it into this cell and save")


def check_code(
    cells: Sequence[Any], expected: Sequence[ReleasedCell], free: Sequence[ReleasedCell], folder: Path
) -> Iterator[Problem]:
    """What of the student's code grading could not run or would not find."""
    for cell, what, remedy in check(list(_own_cells(cells, expected, free)), folder):
        yield Problem(cell, what, remedy)


def _own_cells(
    cells: Sequence[Any], expected: Sequence[ReleasedCell], free: Sequence[ReleasedCell]
) -> Iterator[OwnCell]:
    """Code cells that grading runs: answers, and all that was not released."""
    known = {cell.grade_id: cell for cell in expected}
    ids, prints = {cell.grade_id for cell in free}, {print for cell in free for print in cell.fingerprints}
    for number, cell in enumerate(cells, 1):
        if cell["cell_type"] != "code":
            continue
        released_cell = known.get(grade_id_of(cell) or "")
        if released_cell is not None and (released_cell.kind != "code" or not released_cell.graded):
            continue
        if released_cell is not None:
            yield OwnCell(released_cell.grade_id, cell["source"], frozenset(released_cell.targets))
            continue
        is_free = cell.get("id") in ids or fingerprint(cell["source"]) in prints or "setup" in _tags(cell)
        yield OwnCell(grade_id_of(cell) or f"cell {number}", cell["source"], None, definitions_only=is_free)


def _tags(cell: Any) -> Sequence[Any]:
    tags = cell["metadata"].get("tags")
    return tags if isinstance(tags, list) else ()


def _outputs(notebook: Any) -> Iterator[Problem]:
    sizes = [len(json.dumps(cell.get("outputs", []))) for cell in notebook["cells"]]
    if sum(sizes) > MAX_OUTPUTS:
        largest = max(range(len(sizes)), key=lambda index: sizes[index]) + 1
        what = (
            f"the outputs take {sum(sizes) / 2**20:.0f} MiB (most in cell {largest}), {MAX_OUTPUTS // 2**20} are taken"
        )
        yield Problem("", what, _CLEAR)
