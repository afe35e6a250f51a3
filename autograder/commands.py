"""The commands about a whole class, for `autograder.cli`."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from minivllm.cli import UsageError

Lesson = Annotated[str, typer.Argument(help="which assignment")]


def report(
    lesson: Lesson = "lesson-2",
    final: Annotated[bool, typer.Option("--final", help="refuse while an answer waits for a person")] = False,
    out: Annotated[Path | None, typer.Option("--out", help="default: reports/LESSON of the class")] = None,
    notebooks: Annotated[
        str, typer.Option("--notebooks", help="where feedback's links find the notebooks, an address or a folder")
    ] = "",
) -> None:
    """Write the class on one page, the registrar's table and every student's feedback, and print the table."""
    from autograder import report as pages
    from autograder.classroom import Classroom, ClassroomError
    from autograder.verdict import verdicts

    room = Classroom(lesson)
    try:
        room.check()
    except ClassroomError as error:
        raise UsageError(str(error)) from None
    found = verdicts(room)
    waiting = [f"{verdict.student} ({', '.join(p.name for p in verdict.waits)})" for verdict in found if verdict.waits]
    if final and waiting:
        raise UsageError(
            f"{len(waiting)} of {len(found)} students have answers that nobody has read, so nothing is final: "
            f"{'; '.join(waiting)}. Remedy: give points in the formgrader, then run this again"
        )
    out = out or room.root / "reports" / lesson
    base = f"{notebooks.rstrip('/')}/" if notebooks else ""
    pages.show(pages.write(room, out, base), out)


def release(
    edition: Annotated[str, typer.Argument(help="en or zh")],
    lesson: Annotated[str, typer.Option("--lesson", help="which assignment")] = "lesson-2",
    exchange: Annotated[bool, typer.Option("--exchange", help="also into nbgrader's exchange (JupyterHub)")] = False,
) -> None:
    """Build the course, enter the lesson into the gradebook and release an edition. Points given already stay."""
    from autograder.classroom import clone_config
    from autograder.course import CLONE, EDITIONS, CourseError, build, write_record
    from autograder.release import enter_gradebook, to_exchange

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
    from autograder.doctor import checks

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
    from autograder import report as pages
    from autograder.classroom import grade_class
    from autograder.course import CourseError
    from autograder.demo import LESSON, create, read_answers
    from autograder.report_rows import ClassRows
    from autograder.sandbox import REMEDY, sandbox

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
    with ClassRows(room) as rows:
        for row in grade_class(room, jobs or os.cpu_count() or 1):
            rows.add(row)
    read_answers(room)
    out = root / "reports" / LESSON
    pages.show(pages.write(room, out), out)
    print(f"To read the answers in the formgrader: MINIVLLM_CLASSROOM={root} make lab, then Nbgrader > Formgrader")


COMMANDS = (report, release, doctor, demo)
