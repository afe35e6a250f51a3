"""The commands about a whole class, for `autograder.cli`."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from minivllm.cli import UsageError

if TYPE_CHECKING:  # nbgrader need not be installed for `doctor`
    from autograder.classroom.classroom import Classroom

FIRST = "run `python -m autograder release en`"
Lesson = Annotated[str, typer.Argument(help="which assignment")]


@contextmanager
def plainly(room: Classroom) -> Iterator[None]:
    """What is wrong with the class or its gradebook is told in one line."""
    with told_plainly(room.config.CourseDirectory.db_url):
        yield


@contextmanager
def told_plainly(db_url: str) -> Iterator[None]:
    from nbgrader.api import InvalidEntry
    from sqlalchemy.exc import DatabaseError, SQLAlchemyError

    from autograder import disk
    from autograder.classroom.classroom import ClassroomError
    from autograder.classroom.lock import BusyError
    from autograder.gradebook.address import file_of, shown, without_password
    from autograder.gradebook.roster import RosterError
    from autograder.release.course import CourseError

    try:
        yield
    except (BusyError, ClassroomError, CourseError, RosterError) as error:
        raise UsageError(without_password(str(error), db_url)) from None
    except (SQLAlchemyError, InvalidEntry, ModuleNotFoundError) as error:
        why = error.orig if isinstance(error, DatabaseError) else error
        file = file_of(db_url)
        if file and "disk is full" in str(why):
            raise UsageError(disk.full(error, [file.parent])) from None
        remedy = "end what else uses it, or put your last copy of it back, and run this again"
        if isinstance(error, ModuleNotFoundError):
            remedy = f"pip install the package that has {error.name}, and run this again"
        elif file is None:
            remedy = "see that the database runs, and that c.CourseDirectory.db_url is right, and run this again"
        told = without_password(str(why), db_url)
        raise UsageError(f"the gradebook {shown(db_url)} can't be used ({told}): {remedy}") from None


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
    exchange: Annotated[
        bool, typer.Option("--exchange", help="also put the feedback where `nbgrader fetch_feedback` finds it")
    ] = False,
) -> None:
    """Write the class on one page, the registrar's table and every student's feedback, and print the table."""
    from autograder.classroom.classroom import Classroom
    from autograder.release.feedback_exchange import LINKS, hand_out
    from autograder.reports import report as pages

    room = Classroom(lesson)
    with plainly(room):
        room.check()
        found = room.verdicts()
    unknown = sorted(set(without or ()) - {verdict.student for verdict in found})
    if unknown:
        raise UsageError(f"--without {unknown[0]}: neither {room.submitted} nor the gradebook has it; check the name")
    for verdict in found:
        verdict.left_open = verdict.student in (without or ())
    open_ends = pages.open_ends(found)
    if final and open_ends:
        raise UsageError(
            f"{len(open_ends)} of {len(found)} students are ungraded, or something about them is unread or open, so "
            f"nothing is final: {'; '.join(open_ends)}. Remedy: run `python -m autograder grade`, give points in the "
            "formgrader, settle notes, or leave out with --without STUDENT whom you have decided about; then try again"
        )
    out = out or room.root / "reports" / lesson
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{out} can't be made ({error.strerror}): name a folder that you may write to") from None
    base = f"{notebooks.rstrip('/')}/" if notebooks else LINKS if exchange else ""
    with plainly(room):
        pages.show(pages.write(room, found, out, base), out)
        if not exchange:
            return
        folder, left_out = hand_out(room.config, lesson, pages.feedback_of(found, out))
    print(f"feedback for `nbgrader fetch_feedback {lesson}`: {folder}")
    if left_out:
        print(_named("handed in without the exchange, so their pages have to go another way", left_out))


def release(
    edition: Annotated[str, typer.Argument(help="en or zh")],
    lesson: Annotated[str, typer.Option("--lesson", help="which assignment")] = "lesson-2",
    exchange: Annotated[bool, typer.Option("--exchange", help="also into nbgrader's exchange (JupyterHub)")] = False,
) -> None:
    """Build the course, enter the lesson into the gradebook and release an edition. Points given already stay."""
    from autograder.classroom.classroom import Classroom, clone_config
    from autograder.classroom.lock import alone
    from autograder.gradebook.address import shown
    from autograder.paths import COURSE, EDITIONS, SOURCES
    from autograder.release import publish

    if edition not in EDITIONS:
        raise UsageError(f"unknown edition {edition!r}: choose one of {', '.join(EDITIONS)}")
    config = clone_config()
    db_url = config.CourseDirectory.db_url
    with told_plainly(db_url):
        if exchange:
            publish.exchange_folder(config)  # before anything is done
        with alone(Classroom(lesson, config).root, "release"), alone(SOURCES.parent, "release"):
            publish.release(config, lesson, edition)
            into = publish.to_exchange(config, lesson, edition) if exchange else ""
    print(f"the gradebook knows {lesson}: {shown(db_url)}")
    print(f"released: {COURSE / edition / lesson}{f' and {into}' if into else ''}")
    print(f"a bundle for students: make student EDITION={edition}; for Colab: make colab EDITION={edition}")


def term(
    name: Annotated[str, typer.Argument(help="of the term that has ended, 2026-spring for example")],
) -> None:
    """Begin a new term: all of the class goes to archive/NAME of its folder, and an empty class knows the lessons."""
    from autograder.classroom.classroom import clone_config
    from autograder.classroom.term import archive

    config = clone_config()
    with told_plainly(config.CourseDirectory.db_url):
        moved, lessons = archive(config, name)
    print(f"the class of {name} lies in {moved}; to look at it again: MINIVLLM_CLASSROOM={moved}")
    print(
        f"the new class is empty and knows {', '.join(lessons)}"
        if lessons
        else f"the new class knows no lesson: {FIRST}"
    )


def roster(
    file: Annotated[Path, typer.Argument(help="CSV with the columns id, first_name, last_name, email")],
    lesson: Annotated[str, typer.Option("--lesson", help="of which hand-ins are compared")] = "lesson-2",
) -> None:
    """Enter the students of a list into the gradebook, and say who of them has no folder and who is not on the list."""
    from autograder.classroom.classroom import Classroom
    from autograder.gradebook import roster as of_class

    room = Classroom(lesson)
    with plainly(room):
        students, ignored = of_class.read(file)
        with room.gradebook() as gradebook:
            new, changed = of_class.enter(gradebook.db, students)
        handed_in = room.folders()
    listed = [student.id for student in students]
    print(f"{len(listed)} students are in {room.gradebook_path}: {new} new, {changed} changed")
    print(_named("columns not used", ignored))
    print(_named(f"without a folder in {room.submitted}", [each for each in listed if each not in handed_in]))
    print(_named(f"with a folder, and not in {file.name}", sorted({*handed_in} - {*listed})))


def _named(what: str, names: Sequence[str]) -> str:
    """`what`: how many, and who."""
    from autograder.intake.notes import shown

    told = f" ({', '.join(map(shown, names))})" if names else ""
    return f"{what}: {len(names)}{told}"


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


COMMANDS = (report, release, roster, term, doctor, demo)
