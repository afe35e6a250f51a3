"""Whether the gradebook's database, the released course and the disks are fit for grading: lines of the doctor."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbgrader.api
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, inspect, select, text
from sqlalchemy.exc import DatabaseError, SQLAlchemyError
from sqlalchemy.orm import Session
from traitlets.config import Config

from autograder import disk
from autograder.classroom.doctor import Check
from autograder.gradebook.address import file_of, shown, without_password
from autograder.gradebook.lesson import REMEDY, fault_of_release
from autograder.paths import EDITIONS, SOLUTIONS

SECONDS = 3
"""A database that does not answer by then, or is locked for longer, is not fit for use."""
TIMEOUTS: dict[str, dict[str, Any]] = {
    "sqlite": {"timeout": SECONDS},
    "postgresql": {"connect_timeout": SECONDS},
    "mysql": {"connect_timeout": SECONDS},
}


def course(config: Config) -> Check:
    """Whether what solutions/ holds is there in every edition, for the instructor and for students."""
    directories = config.CourseDirectory
    places = (Path(directories.source_directory).parent, Path(directories.release_directory).parent)
    lacking = [
        str(place / edition / path.parent.name / f"{path.stem}.ipynb")
        for place in places
        for edition in EDITIONS
        for path in sorted(SOLUTIONS.glob("*/*.md"))
        if not (place / edition / path.parent.name / f"{path.stem}.ipynb").is_file()
    ]
    if lacking:
        return Check("course", False, f"{lacking[0]} is not there, nor {len(lacking) - 1} more: {REMEDY}")
    return Check("course", True, " and ".join(map(str, places)))


def gradebook(config: Config) -> Iterator[Check]:
    db_url = config.CourseDirectory.db_url
    place, file = shown(db_url), file_of(db_url)
    if file and not file.exists():
        yield Check("gradebook", False, f"{place} is not there yet: {REMEDY}", needed=False)
        return
    try:
        engine = create_engine(db_url, connect_args=TIMEOUTS.get(str(db_url).partition(":")[0].partition("+")[0], {}))
        with engine.connect() as connection:
            yield from _connected(connection, config, place)
        engine.dispose()
    except (SQLAlchemyError, ImportError, ValueError) as error:
        why = without_password(str(error.orig if isinstance(error, DatabaseError) else error), db_url)
        remedy = "put your last copy of it back, or end what else uses it" if file else "see that the database runs"
        yield Check("gradebook", False, f"{place} can't be used ({' '.join(why.split())}): {remedy}")


def _connected(connection: Connection, config: Config, place: str) -> Iterator[Check]:
    fault = _fault_of_schema(connection)
    if fault:
        remedy = "save a copy of it, then `nbgrader db upgrade`"
        yield Check("gradebook", False, f"{place} {fault}: {remedy}")
        return
    if connection.dialect.name == "postgresql":
        connection.execute(text(f"set lock_timeout = '{SECONDS}s'"))
    connection.execute(text("update course set id = id where 1 = 0"))  # refused where it is locked or read-only
    connection.rollback()
    directories = config.CourseDirectory
    sources, released = Path(directories.source_directory).parent, Path(directories.release_directory).parent
    known = [*connection.execute(select(nbgrader.api.Assignment.name)).scalars()]
    yield Check("gradebook", bool(known), f"{place}: {', '.join(known) or f'knows no lesson: {REMEDY}'}", bool(known))
    with Session(connection) as session:
        for lesson in known:
            fault = fault_of_release(session, lesson, sources, released)
            yield Check("released", not fault, fault or f"{lesson}: what lies on disk is what the gradebook knows")


def _fault_of_schema(connection: Connection) -> str:
    """What this version of nbgrader wants of the database and does not find."""
    there = inspect(connection)
    if not there.get_table_names():
        return ""  # nbgrader fills it
    for table in nbgrader.api.Base.metadata.sorted_tables:
        if not there.has_table(table.name):
            return f"has no table {table.name}"
        columns = {column["name"] for column in there.get_columns(table.name)}
        if lacking := [column.name for column in table.columns if column.name not in columns]:
            return f"has no column {lacking[0]} in {table.name}"
    wanted = ScriptDirectory(str(Path(nbgrader.api.__file__).with_name("alembic"))).get_current_head()
    found = (
        there.has_table("alembic_version")
        and connection.execute(text("select version_num from alembic_version")).scalar()
    )
    return "" if found == wanted else f"has the schema {found or 'of no version'}, and nbgrader here wants {wanted}"


def disks(config: Config) -> Iterator[Check]:
    root = Path(config.CourseDirectory.autograded_directory).parent
    for place in dict.fromkeys([root, *disk.places()]):
        free = disk.free(place)
        told = f"{free / (1 << 30):.1f} GiB free for {place}"
        if free < disk.ENOUGH:
            told += f": less than {disk.ENOUGH >> 30} GiB; delete something there or enlarge it"
        yield Check("disk", free >= disk.ENOUGH, told, needed=free < disk.ENOUGH / 10)
