"""The commands about a whole class, for `autograder.cli`."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from minivllm.cli import UsageError

if TYPE_CHECKING:  # nbgrader need not be installed for `doctor`
    from autograder.classroom.classroom import Classroom

Lesson = Annotated[str, typer.Argument(help="which assignment")]


@contextmanager
def plainly(room: Classroom) -> Iterator[None]:
    """What is wrong with the class or its gradebook is told in one line."""
    from sqlalchemy.exc import DatabaseError

    from autograder.classroom.classroom import ClassroomError

    try:
        yield
    except ClassroomError as error:
        raise UsageError(str(error)) from None
    except DatabaseError as error:
        remedy = "end what else uses it, or put your last copy of it back, and run this again"
        raise UsageError(f"the gradebook {room.gradebook_path} can't be used ({error.orig}): {remedy}") from None


def report(
    lesson: Lesson = "lesson-2",
    final: Annotated[bool, typer.Option("--final", help="refuse while anything is ungraded or unread")] = False,
    without: Annotated[
        list[str] | None, typer.Option("--without", metavar="STUDENT", help="with --final: leave STUDENT's row open")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="default: reports/LESSON of the class")] = None,
    notebooks: Annotated[
        str, typer.Option("--notebooks", help="where feedback's links find the notebooks, an address or a folder")
    ] = "",
) -> None:
    """Write the class on one page, the registrar's table and every student's feedback, and print the table."""
    from autograder.classroom.classroom import Classroom
    from autograder.reports import report as pages

    room = Classroom(lesson)
    with plainly(room):
        room.check()
        found = room.verdicts()
    unknown = sorted(set(without or ()) - {verdict.student for verdict in found})
    if unknown:
        raise UsageError(f"--without {unknown[0]}: neither {room.submitted} nor the gradebook has it; check the name")
    open_ends = pages.open_ends(found, without or ())
    if final and open_ends:
        raise UsageError(
            f"{len(open_ends)} of {len(found)} students are ungraded or have answers that nobody has read, so nothing "
            f"is final: {'; '.join(open_ends)}. Remedy: run `python -m autograder grade`, give points in the "
            "formgrader, or leave out with --without STUDENT whom you have decided about; then run this again"
        )
    out = out or room.root / "reports" / lesson
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{out} can't be made ({error.strerror}): name a folder that you may write to") from None
    base = f"{notebooks.rstrip('/')}/" if notebooks else ""
    with plainly(room):
        pages.show(pages.write(room, found, out, base), out)


def release(
    edition: Annotated[str, typer.Argument(help="en or zh")],
    lesson: Annotated[str, typer.Option("--lesson", help="which assignment")] = "lesson-2",
    exchange: Annotated[bool, typer.Option("--exchange", help="also into nbgrader's exchange (JupyterHub)")] = False,
) -> None:
    """Build the course, enter the lesson into the gradebook and release an edition. Points given already stay."""
    from autograder.classroom.classroom import clone_config
    from autograder.paths import CLONE, EDITIONS
    from autograder.release.course import CourseError, build, write_record
    from autograder.release.publish import enter_gradebook, to_exchange

    if edition not in EDITIONS:
        raise UsageError(f"unknown edition {edition!r}: choose one of {', '.join(EDITIONS)}")
    config = clone_config()
    try:
        build()
        write_record()
        enter_gradebook(config, lesson)
        if exchange:
            to_exchange(config, lesson, edition)
    except CourseError as error:
        raise UsageError(str(error)) from None
    print(f"the gradebook knows {lesson}: {config.CourseDirectory.db_url.removeprefix('sqlite:///')}")
    print(f"released: {CLONE / 'course' / edition / lesson}{' and the exchange' if exchange else ''}")
    print(f"a bundle for students: make student EDITION={edition}; for Colab: make colab EDITION={edition}")


def doctor() -> None:
    """Say what of this machine grading can use, and what to do about the rest. Ends with 1 if grading can't work."""
    from autograder.classroom.doctor import checks

    found = checks()
    for check in found:
        print(f"{'ok' if check.ok else '--'} {check.name:<12} {check.told}")
    raise typer.Exit(1 if any(check.needed and not check.ok for check in found) else 0)


def demo(
    folder: Annotated[
        Path | None, typer.Argument(help="a new folder; default: one in the folder for temporary files")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", min=1, help="submissions at a time; default: one a core")
    ] = None,
) -> None:
    """Create a small class of right, wrong, broken and hostile submissions in both editions, and grade it."""
    from autograder.classroom.classroom import grade_class
    from autograder.classroom.demo import create, read_answers
    from autograder.classroom.demo_files import LESSON
    from autograder.classroom.workers import Workers
    from autograder.release.course import CourseError
    from autograder.reports import report as pages
    from autograder.reports.report_rows import ClassRows
    from autograder.running.sandbox import REMEDY, sandbox

    if folder is not None and folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty: name a new folder")
    if sandbox().lacks:
        raise UsageError(f"{sandbox().lacks}. The demo runs hostile code: {REMEDY}")
    root = (folder or Path(tempfile.mkdtemp(prefix="minivllm-demo-"))).absolute()
    root.mkdir(parents=True, exist_ok=True)
    print(f"A class in {root}")
    try:
        room = create(root)
    except CourseError as error:
        raise UsageError(str(error)) from None
    workers = Workers(jobs or os.cpu_count() or 1)
    with ClassRows(room, workers) as rows:
        for row in grade_class(room, workers):
            rows.add(row)
    read_answers(room)
    out = root / "reports" / LESSON
    pages.show(pages.write(room, room.verdicts(), out), out)
    print(f"To read the answers in the formgrader: MINIVLLM_CLASSROOM={root} make lab, then Nbgrader > Formgrader")


COMMANDS = (report, release, doctor, demo)
