"""From solutions/ to what students get: ``python -m autograder course``.

solutions/<lesson>/*.md (MyST Markdown, both languages, answers and hidden tests)
  -> build/source/<edition>/<lesson>/*.ipynb (nbgrader's *source*: one language)
  -> course/<edition>/<lesson>/*.ipynb (nbgrader's *release*: no answers, no hidden tests, no outputs)

Building twice gives the same bytes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from nbconvert.preprocessors import ClearOutputPreprocessor, TagRemovePreprocessor
from nbgrader.apps import NbGraderAPI
from nbgrader.preprocessors import ClearSolutions, SaveCells
from traitlets.config import Config

from autograder.paths import COURSE, EDITIONS, SOLUTIONS, SOURCES
from autograder.release.stubs import ClearSolutionsWithStubs
from autograder.swap import aside, in_force
from minivllm.engine.interrupts import hold_interrupts
from minivllm.submission.check import record as record_text

SET_UP_CELL = Path(__file__).with_name("set_up_cell.py")
"""What every notebook begins with; Colab needs it, and elsewhere it does nothing."""
KERNELSPEC = {"display_name": "Python 3", "language": "python", "name": "python3"}


class CourseError(Exception):
    """The course can't be built; the text names the notebook and the remedy."""


def configure(c: Config) -> None:
    """What generating an assignment needs in this course."""
    from nbgrader.converters import GenerateAssignment

    c.GenerateAssignment.preprocessors = [
        ClearSolutionsWithStubs if step is ClearSolutions else step
        for step in GenerateAssignment.preprocessors.default()
    ]


def build(
    solutions: Path = SOLUTIONS, sources: Path = SOURCES, course: Path = COURSE, record: Path | None = None
) -> list[Path]:
    """Build every edition of every lesson anew and return the released notebooks, sorted. All or nothing changes."""
    with built(solutions, sources, course, record) as new, hold_interrupts(), in_force(new.places):
        pass
    return sorted(course.glob("*/*/*.ipynb"))


@dataclass(frozen=True)
class Built:
    """A course that lies aside, and what of it takes whose place."""

    sources: Path
    course: Path
    places: tuple[tuple[Path, Path], ...]


@contextmanager
def built(solutions: Path, sources: Path, course: Path, record: Path | None) -> Iterator[Built]:
    """Build everything aside; what of it has not taken its place at the block's end is gone. Raises CourseError."""
    with ExitStack() as stack:
        new_sources, new_course = (stack.enter_context(aside(place, sources.parent)) for place in (sources, course))
        lessons = sorted(path for path in solutions.iterdir() if path.is_dir())
        for edition in EDITIONS:
            (new_sources / edition).mkdir()
            (new_course / edition).mkdir()
            for lesson in lessons:
                for path in sorted(lesson.glob("*.md")):
                    made = new_sources / edition / lesson.name / f"{path.stem}.ipynb"
                    write_notebook(edition_of(path, edition), made)
                release(new_sources / edition, new_course / edition, lesson.name)
        places = [(new_sources / edition, sources / edition) for edition in EDITIONS]
        places += [(new_course / edition, course / edition) for edition in EDITIONS]
        if record:
            made = stack.enter_context(aside(record, sources.parent)) / record.name
            made.write_text(record_of(new_course), encoding="utf-8")
            places.append((made, record))
        yield Built(new_sources, new_course, tuple(places))


def record_of(course: Path = COURSE) -> str:
    """What `minivllm check-submission` has to know of the released notebooks, as the text of its record."""
    names = {path.stem for path in course.glob("*/*/*.ipynb")}
    return record_text({name: [_cells(path) for path in sorted(course.glob(f"*/*/{name}.ipynb"))] for name in names})


def _cells(path: Path) -> list[Any]:
    return list(nbformat.read(path, as_version=4).cells)  # type: ignore[no-untyped-call]


def edition_of(path: Path, edition: str) -> Any:
    """The notebook less the cells of the other languages, with cell ids that depend on the cells alone."""
    notebook: Any = jupytext.read(path)
    for cell in notebook.cells:
        language = cell.metadata.get("lang")
        if cell.cell_type == "markdown" and language not in EDITIONS:
            raise CourseError(
                f"{path.name}: a markdown cell has lang {language!r}, expected one of {EDITIONS}: {cell.source[:40]!r}"
            )
        for line in cell.metadata.get("minivllm", {}).get("stub", ()):
            if not isinstance(line, str):
                raise CourseError(f"{path.name}: a line of a stub reads as {dict(line)!r}: put it in quotes")
        if language not in (None, edition):
            cell.metadata.setdefault("tags", []).append("other-language")
    steps: list[Any] = [TagRemovePreprocessor, ClearOutputPreprocessor]
    config = Config(TagRemovePreprocessor={"remove_cell_tags": {"other-language"}})
    for step in steps:
        notebook, _ = step(enabled=True, config=config).preprocess(notebook, {})
    first_code = next((index for index, cell in enumerate(notebook.cells) if cell.cell_type == "code"), 0)
    notebook.cells.insert(first_code, _set_up_cell())
    notebook.metadata = nbformat.from_dict({"kernelspec": KERNELSPEC})  # type: ignore[no-untyped-call]
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    taken: set[str] = set()
    for cell in notebook.cells:
        cell.id = _cell_id(cell, taken)
        taken.add(cell.id)
    return notebook


def _set_up_cell() -> Any:
    """Folded in JupyterLab and in Colab: nobody has to read it who does not want to."""
    folded = {"tags": ["setup"], "jupyter": {"source_hidden": True}, "cellView": "form"}
    source = SET_UP_CELL.read_text(encoding="utf-8").rstrip()
    return nbformat.v4.new_code_cell(source, metadata=folded)  # type: ignore[no-untyped-call]


def _cell_id(cell: Any, taken: set[str]) -> str:
    named: str | None = cell.metadata.get("nbgrader", {}).get("grade_id")
    name = named or hashlib.sha256(f"{cell.cell_type}\n{cell.source}".encode()).hexdigest()[:12]
    return next(id for id in (name, *(f"{name}-{i}" for i in range(2, 1000))) if id not in taken)


def write_notebook(notebook: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.validate(notebook)
    nbformat.write(notebook, path)  # type: ignore[no-untyped-call]


def release(source: Path, target: Path, lesson: str) -> None:
    """nbgrader's own generate_assignment into `target`, without a gradebook."""
    config = Config()
    configure(config)
    config.CourseDirectory.root = str(target.parent)
    config.CourseDirectory.source_directory = str(source.resolve())
    config.CourseDirectory.release_directory = str(target.resolve())
    config.GenerateAssignment.no_database = True
    config.GenerateAssignment.preprocessors = [
        step for step in config.GenerateAssignment.preprocessors if step is not SaveCells
    ]
    result: dict[str, Any] = NbGraderAPI(config=config).generate_assignment(lesson, force=True)
    if not result["success"]:
        raise CourseError(f"nbgrader could not release {lesson}: {reason_of(result)}")


def reason_of(answer: dict[str, Any]) -> str:
    """Why nbgrader says that it failed. Ctrl-C, which it takes for a failure, is raised again."""
    told = f"{answer.get('log', '')}\n{answer.get('error', '')}"
    if re.search(r"^KeyboardInterrupt$", told, flags=re.MULTILINE):
        raise KeyboardInterrupt
    reasons = re.findall(r"^ *([\w.]*(?:Error|Exception): .*)$", told, flags=re.MULTILINE)
    return str(reasons[0]) if reasons else told.strip()[-300:]
