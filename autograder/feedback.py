"""A student's feedback: one page in the language of the edition, with what was lost and where to read again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import nbformat
import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from nbformat import NotebookNode
from nbgrader import utils

from autograder.course import CLONE
from autograder.shown import as_html
from autograder.verdict import PARTS, Part, Verdict

PAGES = Path(__file__).with_name("pages")
READ_AGAIN = {
    "planner": (("1-budget-planner", 3), ("1-budget-planner", 4), ("1-budget-planner", 5)),
    "boundaries": (("1-budget-planner", 1), ("1-budget-planner", 7)),
    "mapping": (("1-budget-planner", 9), ("1-budget-planner", 8)),
    "q1": (("1-budget-planner", 1), ("1-budget-planner", 4), ("1-budget-planner", 8)),
    "q2": (("2-prefix-match", 1), ("2-prefix-match", 4), ("2-prefix-match", 7)),
    "q3": (("4-preemption", 2), ("4-preemption", 3), ("4-preemption", 10)),
    "findings": (("5-on-the-gpu", -1),),
}
"""Which sections (the headings ``##`` of a notebook, from 0) belong to a part."""


@dataclass(frozen=True)
class Link:
    text: str
    notebook: str
    address: str


def page_of(verdict: Verdict, lesson: str, base: str = "", course: Path = CLONE / "course") -> str:
    """The page as HTML. `base` is where the student's notebooks lie, and ends with ``/`` or is empty."""
    texts = _texts()[verdict.edition]
    return (
        environment()
        .get_template("feedback.html.j2")
        .render(
            verdict=verdict,
            lesson=lesson,
            t=texts,
            parts=PARTS,
            by_person=lambda part: _by_person(verdict, part),
            waits=", ".join(texts["parts"][part.name] for part in verdict.waits),
            lost=[(part, *_why(verdict, part, texts)) for part in PARTS if _loses(verdict, part)],
            links=[(link.text, link.notebook, base + link.address) for link in _links(verdict, lesson, course)],
            notes=[note for note in verdict.notes if note.kind != "flagged" or note.other],
        )
    )


@cache
def environment() -> Environment:
    """For every page: what is put in is escaped, and a name that is missing is an error."""
    pages = Environment(
        loader=FileSystemLoader(PAGES), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    pages.filters["number"] = lambda number: f"{number:g}"
    pages.globals["style"] = Markup((PAGES / "style.css").read_text(encoding="utf-8"))  # noqa: S704
    return pages


@cache
def _texts() -> Any:
    return yaml.safe_load((PAGES / "texts.yaml").read_text(encoding="utf-8"))


def _loses(verdict: Verdict, part: Part) -> bool:
    if part.of:
        return verdict.points(part) < part.of
    return not verdict.confirmed and not verdict.provisional(part)


def _by_person(verdict: Verdict, part: Part) -> bool:
    return any(verdict.cells[name].manual is not None for name in part.cells if name in verdict.cells)


def _why(verdict: Verdict, part: Part, texts: Any) -> tuple[list[str], Markup | None]:
    """The sentences of the tests, and the comment on an answer that a person reads."""
    cells = [verdict.cells[name] for name in part.cells if name in verdict.cells]
    if any(cell.blank for cell in cells) or not cells:
        return [texts["handed_in_blank"]], None
    sentences = [text for name in part.cells for text in verdict.told.get(name, ()) if not text.startswith("not so:")]
    comments = [cell.comment for cell in cells if cell.comment]
    if not sentences and not comments:
        sentences = [texts["no_sentence"]]
    return list(dict.fromkeys(sentences)), Markup(as_html("\n\n".join(comments))) if comments else None  # noqa: S704


def _links(verdict: Verdict, lesson: str, course: Path) -> Iterator[Link]:
    seen = set()
    for part in PARTS:
        for place in READ_AGAIN[part.name] if _loses(verdict, part) else ():
            if place not in seen:
                seen.add(place)
                notebook, number = place
                headings = sections(course / verdict.edition / lesson / f"{notebook}.ipynb")
                yield Link(headings[number], notebook, f"{notebook}.ipynb#{headings[number].replace(' ', '-')}")


@cache
def sections(path: Path) -> list[str]:
    """The headings ``##`` of a released notebook, in order."""
    notebook: NotebookNode = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    prose = [cell.source for cell in notebook.cells if cell.cell_type == "markdown" and not utils.is_solution(cell)]
    return [line[3:].strip() for source in prose for line in source.splitlines() if line.startswith("## ")]
