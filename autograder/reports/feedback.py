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

from autograder.gradebook.decisions import spoken
from autograder.gradebook.verdict import Verdict, idea
from autograder.intake.harmless import as_html
from autograder.judging.points import PARTS, Part
from autograder.paths import CLONE

PAGES = Path(__file__).with_name("pages")
PLANNER, PREFIX, PREEMPTION, GPU = "1-budget-planner", "2-prefix-match", "4-preemption", "5-on-the-gpu"
READ_AGAIN = {
    "planner": (
        (PLANNER, "Chunked prefill and decode"),
        (PLANNER, "Verification and what a rejection gives back"),
        (PLANNER, "RUNNING before WAITING"),
    ),
    "boundaries": ((PLANNER, "Your planner"),),
    "mapping": ((PLANNER, "In the source"),),
    "q1": ((PLANNER, "Verification and what a rejection gives back"), (PLANNER, "Your planner beside the engine")),
    "q2": ((PREFIX, "The hash chain"), (PREFIX, "Why one position has to run"), (PREFIX, "What a lookup changes")),
    "q3": ((PREEMPTION, "What is kept, what is lost"), (PREEMPTION, "Coming back"), (PREEMPTION, "Thrash, measured")),
    "findings": ((GPU, "Before you leave: three findings"),),
}
"""Which sections belong to a part, by their heading in English."""


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
            is_blank=lambda part: _is_blank(verdict, part),
            waits=texts["and"].join(texts["parts"][part.name] for part in verdict.waits),
            lost=[(part, *_why(verdict, part, texts)) for part in PARTS if _loses(verdict, part)],
            comments=[(part, said) for part in PARTS if (said := _comments(verdict, part))],
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
    pages.globals["style"] = Markup((PAGES / "style.css").read_text(encoding="utf-8"))
    return pages


@cache
def _texts() -> Any:
    return yaml.safe_load((PAGES / "texts.yaml").read_text(encoding="utf-8"))


def _loses(verdict: Verdict, part: Part) -> bool:
    if part.of:
        return verdict.points(part) < part.of
    return not verdict.confirmed and not verdict.provisional(part)


def _by_person(verdict: Verdict, part: Part) -> bool:
    return any(verdict.cells[name].by_person for name in part.cells if name in verdict.cells)


def _is_blank(verdict: Verdict, part: Part) -> bool:
    return any(verdict.cells[name].blank for name in (part.answer, *part.cells) if name in verdict.cells)


def _why(verdict: Verdict, part: Part, texts: Any) -> tuple[list[str], Markup | None]:
    """What stopped the answer, the sentences of the tests, and the comment on an answer that a person reads."""
    if part.notebook in verdict.missing:
        return [texts["missing_notebook"]], None
    cells = [verdict.cells[name] for name in part.cells if name in verdict.cells]
    if any(cell.blank for cell in cells) or not cells:
        return [texts["handed_in_blank"]], None
    told = [sentence for name in (part.answer, *part.cells) for sentence in verdict.told.get(name, ())]
    sentences = list({idea(sentence): sentence for sentence in reversed(told)}.values())[::-1]  # an example of each
    sentences = [each for each in sentences if not any(each in other for other in sentences if other != each)]
    imports = next((place for place, sentence in enumerate(sentences) if "ModuleNotFoundError" in sentence), None)
    if imports is not None:
        sentences.insert(imports + 1, texts["only_packages"])
    comments = [cell.comment for cell in cells if cell.comment and not cell.said]
    if not sentences and not comments:
        sentences = [texts["read_without_a_word" if _by_person(verdict, part) else "no_sentence"]]
    return sentences, Markup(as_html("\n\n".join(comments))) if comments else None


def _comments(verdict: Verdict, part: Part) -> Markup | None:
    """What a person wrote about the part: below its code, its tests or its text, whether points were lost or not."""
    names = dict.fromkeys((part.answer, *part.cells))
    said = [each for name in names if name in verdict.cells and (each := spoken(verdict.cells[name].said))]
    return Markup(as_html("\n\n".join(said))) if said else None


def _links(verdict: Verdict, lesson: str, course: Path) -> Iterator[Link]:
    seen = set()
    for part in PARTS:
        for notebook, heading in READ_AGAIN[part.name] if _loses(verdict, part) else ():
            english = sections(course / "en" / lesson / f"{notebook}.ipynb")
            if heading in english and (notebook, heading) not in seen:
                seen.add((notebook, heading))
                text = sections(course / verdict.edition / lesson / f"{notebook}.ipynb")[english.index(heading)]
                yield Link(text, notebook, f"{notebook}.ipynb#{text.replace(' ', '-')}")


@cache
def sections(path: Path) -> list[str]:
    """The headings ``##`` of a released notebook, in order."""
    notebook: NotebookNode = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    prose = [cell.source for cell in notebook.cells if cell.cell_type == "markdown" and not utils.is_solution(cell)]
    return [line[3:].strip() for source in prose for line in source.splitlines() if line.startswith("## ")]
