"""What a release enters into the gradebook: the rows that nbgrader's generate_assignment enters, in one transaction."""

from __future__ import annotations

import copy
import datetime
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from nbgrader.api import Gradebook
from nbgrader.apps import NbGraderAPI
from sqlalchemy import event
from sqlalchemy.engine import Engine
from traitlets.config import Config

from autograder.gradebook.lesson import Release, current_release, release_digest
from autograder.paths import CLONE, COURSE, SOURCES
from autograder.release.course import CourseError, build
from autograder.release.publish import enter_gradebook
from tests.autograder.classroom import LESSON, NOTEBOOK
from tests.autograder.release.course import Course, rows

CELL = """```{code-cell} ipython3
---
nbgrader:
  cell_type: code
  grade: true
  grade_id: %s
  locked: true
  points: 1
  schema_version: 3
  solution: false
  task: false
---
assert True
```

"""


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Course:
    course = Course(tmp_path_factory.mktemp("release") / "course")
    course.release()
    return course


@pytest.fixture
def course(released: Course, tmp_path: Path) -> Course:
    return released.copy(tmp_path / "course")


def gradebook(course: Course) -> Gradebook:
    return Gradebook(course.config.CourseDirectory.db_url, "minivllm")


def nbgraders(config: Config, path: Path, release: Path) -> dict[str, list[object]]:
    """The rows after nbgrader's own command."""
    config = copy.deepcopy(config)
    config.CourseDirectory.db_url = f"sqlite:///{path}"
    config.CourseDirectory.release_directory = str(release)
    done = NbGraderAPI(config=config).generate_assignment(LESSON, force=True)
    assert done["success"], done
    return rows(path)


def test_the_rows_are_those_of_nbgraders_generate_assignment_for_the_whole_lesson(tmp_path: Path) -> None:
    if not any((SOURCES / "en" / LESSON).glob("*.ipynb")):
        build(sources=SOURCES, course=tmp_path / "course")
    course = Course(tmp_path / "small")
    course.config.CourseDirectory.source_directory = str(SOURCES / "en")
    course.config.CourseDirectory.release_directory = str(COURSE / "en")
    enter_gradebook(course.config, LESSON)
    expected = nbgraders(course.config, tmp_path / "nbgrader.db", tmp_path / "release")
    assert all(found for table, found in expected.items() if table != "task_cells")
    assert len(expected["notebook"]) == len([*(CLONE / "solutions" / LESSON).glob("*.md")])
    assert any("HIDDEN TESTS" in str(row) for row in expected["source_cell"])
    assert course.rows() == expected


def test_an_edited_lesson_changes_the_rows_as_nbgrader_does(course: Course, tmp_path: Path) -> None:
    nbgraders(course.config, tmp_path / "nbgrader.db", tmp_path / "release")
    before = course.rows()
    course.edit()
    course.edit("grade_id: plan_boundaries", "grade_id: plan_limits")
    course.release()
    assert course.rows() == nbgraders(course.config, tmp_path / "nbgrader.db", tmp_path / "release") != before


def test_releasing_again_changes_no_id_and_no_due_date(course: Course) -> None:
    due = datetime.datetime(2026, 5, 2, 12)
    with gradebook(course) as before:
        before.find_assignment(LESSON).duedate = due
        ids = {(cell.name, cell.id) for cell in before.find_notebook(NOTEBOOK, LESSON).grade_cells}
        before.db.commit()
    course.edit()
    course.release()
    with gradebook(course) as after:
        assert after.find_assignment(LESSON).duedate == due
        assert {(cell.name, cell.id) for cell in after.find_notebook(NOTEBOOK, LESSON).grade_cells} == ids
        assert after.find_grade_cell("plan_main_path", NOTEBOOK, LESSON).max_score == 1.5


@pytest.fixture
def graded(course: Course) -> Iterator[Course]:
    """A submission with points that a person gave."""
    with gradebook(course) as book:
        book.add_student("a")
        book.add_submission(LESSON, "a")
        book.find_grade("plan_main_path", NOTEBOOK, LESSON, "a").manual_score = 1.25
        book.db.commit()
    yield course
    with gradebook(course) as book:
        assert book.find_grade("plan_main_path", NOTEBOOK, LESSON, "a").manual_score == 1.25


def test_points_given_already_stay(graded: Course) -> None:
    graded.edit()
    graded.release()
    assert graded.fault() == ""


@pytest.mark.parametrize("change", ["a new cell", "a cell that goes", "a new notebook", "another notebook"])
def test_with_submissions_cells_and_notebooks_stay_the_same_and_nothing_changes(graded: Course, change: str) -> None:
    if change == "a new cell":
        text = graded.lesson.read_text(encoding="utf-8")
        graded.lesson.write_text(f"{text}\n\n{CELL % 'new_cell'}", encoding="utf-8")
    elif change == "a cell that goes":
        graded.edit("grade_id: plan_boundaries", "grade_id: plan_limits")
    elif change == "a new notebook":
        graded.lesson.with_name("9-new.md").write_bytes(graded.lesson.read_bytes())
    else:
        graded.lesson.rename(graded.lesson.with_name("9-new.md"))
    files, known = graded.files(), graded.rows()
    with pytest.raises(CourseError, match=r"gradebook\.db has submissions, so the .* can't change .*would.* new term"):
        graded.release()
    assert (graded.files(), graded.rows(), graded.fault()) == (files, known, "")


def test_the_lesson_is_entered_with_a_single_commit_and_its_release_with_it(course: Course, released: Course) -> None:
    seen = []

    def commit(_: object) -> None:
        seen.append("commit")

    def execute(_: object, __: object, statement: str, *___: object) -> None:
        seen.append(statement.split()[0].lower())

    course.edit()
    event.listen(Engine, "commit", commit)
    event.listen(Engine, "before_cursor_execute", execute)
    try:
        course.release()
    finally:
        event.remove(Engine, "commit", commit)
        event.remove(Engine, "before_cursor_execute", execute)
    writes = [place for place, what in enumerate(seen) if what in ("insert", "update", "delete")]
    assert len(writes) > 1 and seen[writes[0] :].count("commit") == 1 and seen[-1] == "commit"
    assert course.rows()["grade_cells"] != released.rows()["grade_cells"]
    with gradebook(course) as book:
        row = book.db.get(Release, LESSON)
        assert row and row.digest == current_release(book.db, LESSON)
        assert row.digest == release_digest(LESSON, course.sources, course.course)


@pytest.mark.parametrize("edition", ["en", "zh"])
@pytest.mark.parametrize("place", ["sources", "course"])
def test_a_notebook_that_is_gone_changed_or_new_is_seen_and_the_remedy_named(
    course: Course, place: str, edition: str
) -> None:
    folder = getattr(course, place) / edition / LESSON
    path = folder / f"{NOTEBOOK}.ipynb"
    content = path.read_bytes()
    assert course.fault() == ""
    path.write_bytes(content + b"\n")
    assert "is not what was released into this gradebook: run `python -m autograder release en`" in course.fault()
    path.unlink()
    assert f"{folder} has no notebooks: run `python -m autograder release en`" in course.fault()
    path.write_bytes(content)
    (folder / "more.ipynb").write_bytes(content)
    assert "is not what was released" in course.fault()


def test_a_gradebook_that_nbgrader_alone_has_filled_is_told(course: Course) -> None:
    with closing(sqlite3.connect(course.gradebook)) as database:
        database.execute("drop table minivllm_release")
    assert f"{LESSON} was not released into this gradebook: run" in course.fault()


def test_an_unknown_lesson_is_told_with_the_known_ones(course: Course) -> None:
    with pytest.raises(CourseError, match=f"unknown lesson 'lesson-9': choose one of {LESSON}"):
        enter_gradebook(course.config, "lesson-9")
