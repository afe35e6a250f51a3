"""What an instructor does from the command line; nbgrader's own commands in the root of the clone.

\b
The course
  python -m autograder course                    build course/en and course/zh from solutions/
  python -m autograder try unified_token_plan *.py
                                                 points and the first message of versions in files
\b
A class, with nbgrader's own commands; students may hand in either edition
  python -m autograder release en                build, and write the gradebook; zh: the Chinese edition
  nbgrader zip_collect lesson-2                  or copy the notebooks to
                                                 classroom/submitted/STUDENT/lesson-2/
  python -m autograder grade                     points for the code, with all cores, in a sandbox;
                                                 --student NAME: of these alone
  jupyter lab                                    read Q1-Q3 and the findings in the formgrader
  python -m autograder report                    the class on a page, feedback, a table; --final when all is read
  python -m autograder notes                     what a person still has to look at; settle ID says that you have
  python -m autograder decisions                 who gave which points to which answer, and when
  python -m autograder roster students.csv       who takes part, and who has not handed in
  python -m autograder term 2026-autumn          put the class away under this name and begin an empty one
\b
  python -m autograder demo                      a small class, graded: right, wrong, broken and hostile submissions
  python -m autograder doctor                    what of this machine grading can use
\b
classroom/ of the clone holds the class; the environment variable MINIVLLM_CLASSROOM names another folder.
"""

from __future__ import annotations

import io
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from autograder import disk, trail
from autograder.commands import COMMANDS, plainly
from autograder.judging.parts import Report
from autograder.judging.rubric.cli import score_answers
from minivllm.cli import UsageError, run

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help=__doc__, rich_markup_mode=None, pretty_exceptions_enable=False
)


@app.command("try")
def try_files(
    exercise: Annotated[str, typer.Argument(help="unified_token_plan or source_mapping")],
    files: Annotated[list[Path], typer.Argument(help="student versions, one a file", metavar="FILE...")],
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object a line")] = False,
) -> None:
    """Grade student versions from files: points, and the first message of each.

    Every file runs in a sandbox of its own, 10 seconds in all; a hang, an exit or a crash costs only itself.
    """
    from autograder.judging.exercises import EXERCISES, grade_file, total
    from autograder.running.sandbox import sandbox

    if exercise not in EXERCISES:
        raise UsageError(f"unknown exercise {exercise!r}: choose one of {', '.join(EXERCISES)}")
    for file in files:
        if not file.is_file():
            raise UsageError(f"{file} is {'a folder' if file.is_dir() else 'not there'}: name Python files")
        if file.suffix == ".ipynb":
            raise UsageError(f"{file} is a notebook: copy the cell's code into a .py file and name that")

    if sandbox().lacks:
        print(f"autograder: {sandbox().lacks}", file=sys.stderr)
    of = total(EXERCISES[exercise])
    show = print_json if as_json else Rows(exercise, files)
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for file, report in zip(files, pool.map(lambda file: grade_file(exercise, file), files), strict=True):
            show(file, report, of)


@app.command("grade")
def grade(
    lesson: Annotated[str, typer.Argument(help="which assignment")] = "lesson-2",
    force: Annotated[bool, typer.Option("--force", help="also what has not changed since it was graded")] = False,
    student: Annotated[
        list[str] | None, typer.Option("--student", metavar="NAME", help="only this one; may be given again")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", min=1, help="submissions at a time; default: one a core")
    ] = None,
    no_sandbox: Annotated[
        bool, typer.Option("--no-sandbox", help="run student code where nothing confines it")
    ] = False,
) -> None:
    """Grade what lies in classroom/submitted/STUDENT/LESSON/, each submission in a process of its own.

    A submission can neither stop nor change another. Only what changed since the last time is graded again, and what
    you decided about an answer stays while the answer does. Ends with 0 only if every submission is graded.
    """
    from autograder.classroom.classroom import Classroom, clone_config, grade_class
    from autograder.classroom.workers import Workers
    from autograder.reports.report_rows import ClassRows
    from autograder.running.sandbox import REMEDY, sandbox

    if sandbox().lacks and not no_sandbox:
        raise UsageError(f"{sandbox().lacks}. Remedy: {REMEDY}; or trust every submission and say --no-sandbox")
    config = clone_config()
    config.ExecuteTrusted.needs_sandbox = not no_sandbox
    room = Classroom(lesson, config)
    with plainly(room):
        room.check()
        workers = Workers(jobs or os.cpu_count() or 1)
        graded = closing(grade_class(room, workers, force, student or ()))  # an interrupt ends the workers at once
        with room.alone(), ClassRows(room, workers, student or ()) as rows, graded as found:
            room.check_release()
            for row in found:
                rows.add(row)
    if rows.ungraded:
        raise typer.Exit(1)


@app.command("course")
def build_course() -> None:
    """Build course/en and course/zh from solutions/ with nbgrader's generate_assignment."""
    from autograder.classroom.lock import BusyError, alone
    from autograder.paths import CLONE, SOURCES
    from autograder.release.course import CourseError, build
    from minivllm.submission.check import RECORD

    try:
        with alone(SOURCES.parent, "release"):
            released = build(record=RECORD)
    except (BusyError, CourseError) as error:
        raise UsageError(str(error)) from None
    for path in released:
        print(path.relative_to(CLONE))


for command in (*COMMANDS, *trail.COMMANDS):
    app.command(command.__name__)(command)
app.command("score-answers")(score_answers)


def print_json(file: Path, report: Report, of: float) -> None:
    line = {"file": str(file), "points": report.points, "of": of, "parts": report.parts, "messages": report.messages}
    print(json.dumps(line, ensure_ascii=False), flush=True)


class Rows:
    """A table that grows by one row a call, so that nothing is lost if a later file ends the command."""

    def __init__(self, exercise: str, files: list[Path]) -> None:
        self._console = Console(width=None if sys.stdout.isatty() else 160)
        self._width = min(max(cell_len(str(file)) for file in files), self._console.width // 2)
        self._console.print(Text(f"{exercise}: {len(files)} file{'s' * (len(files) != 1)}", style="bold"))

    def __call__(self, file: Path, report: Report, of: float) -> None:
        row = Table.grid(Column(width=self._width, overflow="fold"), Column(width=6), Column(), padding=(0, 2, 0, 0))
        row.add_row(Text(str(file)), f"{report.points:g}/{of:g}", Text(report.messages[0] if report.messages else ""))
        self._console.print(row)


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a file's name need not be text
    run(_told_of_a_full_disk, (OSError,))


def _told_of_a_full_disk(standalone_mode: bool) -> Any:
    try:
        return app(standalone_mode=standalone_mode)
    except Exception as error:
        if disk.is_full(error):
            raise UsageError(disk.full(error)) from None
        raise
