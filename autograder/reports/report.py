"""The class on one page, each student's feedback and the registrar's table: ``python -m autograder report``."""

from __future__ import annotations

import datetime
import os
import statistics
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from urllib.parse import quote

from rich.console import Console
from rich.table import Table
from rich.text import Text

from autograder.classroom.classroom import Classroom
from autograder.gradebook.verdict import NOTHING, OF, Verdict, idea
from autograder.judging.points import PARTS, Part
from autograder.reports.feedback import environment, page_of
from autograder.reports.registrar import PARTS_WITH_POINTS, write_csv

MOST_FREQUENT = 12
SHOWN_REVIEWS = 20


@dataclass(frozen=True)
class Tested:
    """How the class did on one graded cell."""

    cell: str
    share: float
    full: int
    students: int


@dataclass(frozen=True)
class Review:
    """An answer that a person has to read, with what is suggested for it, if anything is."""

    student: str
    part: Part
    points: float | None
    confidence: float | None
    note: str


@dataclass
class ClassReport:
    """What the page shows, from the verdicts of the class."""

    verdicts: list[Verdict]

    @property
    def graded(self) -> list[Verdict]:
        return [verdict for verdict in self.verdicts if not verdict.ungraded]

    @property
    def failed(self) -> list[Verdict]:
        return [verdict for verdict in self.verdicts if verdict.ungraded]

    @property
    def mended(self) -> list[Verdict]:
        return [v for v in self.verdicts if any(note.kind in ("repaired", "edited") for note in v.notes)]

    @property
    def noted(self) -> list[Verdict]:
        return [verdict for verdict in self.verdicts if verdict.notes or verdict.flagged or verdict.fault]

    @property
    def open_notes(self) -> int:
        return sum(len(verdict.open_notes) for verdict in self.verdicts)

    @property
    def provisional(self) -> bool:
        return any(verdict.fault != NOTHING and not verdict.final for verdict in self.verdicts)

    @property
    def late(self) -> bool:
        return any(verdict.hours_late or verdict.penalty for verdict in self.verdicts)

    @property
    def passed(self) -> int:
        return sum(verdict.passed for verdict in self.graded)

    @property
    def median(self) -> float:
        return statistics.median([verdict.total for verdict in self.graded] or [0.0])

    @cached_property
    def distribution(self) -> list[tuple[int, int]]:
        """How many students have `low` to `low` + 1 points; the last holds the full points too."""
        last = int(OF) - 1
        counted = Counter(min(int(verdict.total), last) for verdict in self.graded)
        return [(low, counted[low]) for low in range(last + 1)]

    @property
    def most(self) -> int:
        return max(count for _, count in self.distribution)

    @cached_property
    def tests(self) -> list[Tested]:
        """The graded cells, hardest first."""
        cells: dict[str, list[float]] = {}
        for verdict in self.graded:
            for part in PARTS_WITH_POINTS:
                for name in part.cells:
                    if name in verdict.cells:
                        cell = verdict.cells[name]
                        cells.setdefault(name, []).append(cell.points / cell.of if cell.of else 0.0)
        tests = [
            Tested(name, statistics.mean(shares), sum(share >= 1 for share in shares), len(shares))
            for name, shares in cells.items()
        ]
        return sorted(tests, key=lambda test: test.share)

    @cached_property
    def misconceptions(self) -> list[tuple[str, int]]:
        """What the tests said, without the examples, and to how many students."""
        counted = Counter(text for verdict in self.graded for text in set(_ideas(verdict)))
        return counted.most_common(MOST_FREQUENT)

    @cached_property
    def reviews(self) -> list[Review]:
        """The least certain first; findings, for which nothing is suggested, last."""
        found = [_review(verdict, part) for verdict in self.graded for part in verdict.waits]
        return sorted(
            found, key=lambda review: (2.0 if review.confidence is None else review.confidence, review.student)
        )


def _ideas(verdict: Verdict) -> Iterator[str]:
    for sentences in verdict.told.values():
        yield from filter(None, map(idea, sentences))


def _review(verdict: Verdict, part: Part) -> Review:
    suggested = next((verdict.suggestions[name] for name in part.cells if name in verdict.suggestions), None)
    if suggested is None:
        return Review(verdict.student, part, None, None, "")
    if suggested.confidence is None:
        note = suggested.comment.splitlines()[0]
    else:
        unsure = "" if suggested.points is not None else f"unsure: perhaps {suggested.guess:g}"
        note = f"veto: {suggested.veto}" if suggested.veto else unsure
    return Review(verdict.student, part, suggested.points, suggested.confidence, note)


def open_ends(verdicts: Iterable[Verdict]) -> list[str]:
    """Who handed something in of which the points are not final, and why. Not asked about whom it leaves open."""
    faults = {
        verdict.student: verdict.fault if verdict.fault != NOTHING and verdict.fault else "; ".join(verdict.open_ends)
        for verdict in verdicts
        if not verdict.left_open
    }
    return [f"{student} ({fault})" for student, fault in faults.items() if fault]


def write(room: Classroom, found: list[Verdict], out: Path, base: str = "") -> ClassReport:
    """Write report.html, grades.csv and feedback/STUDENT/ below `out`. `base` is where the notebooks lie."""
    report = ClassReport(found)
    pages = feedback_of(found, out)
    for verdict in report.verdicts:
        page = pages[verdict.student]
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(page_of(verdict, room.lesson, base), encoding="utf-8")
    html = (
        environment()
        .get_template("report.html.j2")
        .render(
            report=report,
            lesson=room.lesson,
            parts=PARTS,
            shown=SHOWN_REVIEWS,
            pages={verdict.student: f"feedback/{quote(verdict.student)}/feedback.html" for verdict in report.verdicts},
            written=datetime.datetime.now().strftime("%Y-%m-%d %H:%M"),
        )
    )
    (out / "report.html").write_text(html, encoding="utf-8")
    write_csv(out / "grades.csv", report.verdicts)
    return report


def feedback_of(found: Iterable[Verdict], out: Path) -> dict[str, Path]:
    """Where each student's page lies below `out`."""
    return {verdict.student: out / "feedback" / verdict.student / "feedback.html" for verdict in found}


def show(report: ClassReport, out: Path) -> None:
    """Print the class as a table, and where the pages lie."""
    console = Console(width=None if sys.stdout.isatty() else 160)
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("student", overflow="fold", max_width=30)
    late = ("late h", "penalty") if report.late else ()
    for name in ("total", *(part.name for part in PARTS_WITH_POINTS), *late):
        table.add_column(name, justify="right")
    table.add_column("verdict")
    for verdict in report.verdicts:
        points = [f"{verdict.points(part):g}{'?' * verdict.provisional(part)}" for part in PARTS_WITH_POINTS]
        told = [verdict.state.replace("_", " ")]
        told += ["provisional"] if verdict.waits and verdict.state != "open" else []
        told += [verdict.outdated.partition(":")[0]] if verdict.outdated else []
        points += [f"{verdict.hours_late:g}", f"{verdict.penalty:g}"] if late else []
        row = ["-"] * (1 + len(points)) if verdict.ungraded else [f"{verdict.total:g}", *points]
        table.add_row(
            *(
                Text(_printable(text))
                for text in (verdict.student, *row, verdict.ungraded.partition(";")[0] or ", ".join(told))
            )
        )
    console.print(table)
    console.print(
        f"{report.passed} of {len(report.verdicts)} pass{' as things stand' * report.provisional}, "
        f"{len(report.reviews)} answers to read (?), {report.open_notes} open notes, {len(report.failed)} not graded",
        highlight=False,
    )
    for name in ("report.html", "grades.csv", f"feedback{os.sep}"):
        console.print(Text(f"  {out / name}"))


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)
