"""The course that students get is the one that solutions/ describes, and gives nothing away."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from autograder.paths import CLONE, EDITIONS
from autograder.release.course import CourseError, build, edition_of
from tests.autograder.classroom import LESSON, NOTEBOOK, cell, read

SOLUTIONS = CLONE / "solutions"
COURSE = CLONE / "course"
SOURCE = SOLUTIONS / LESSON / f"{NOTEBOOK}.md"
NOTEBOOKS = sorted(path.stem for path in SOURCE.parent.glob("*.md"))


def released(edition: str) -> Any:
    return read(COURSE / edition / LESSON / f"{NOTEBOOK}.ipynb")


def graded_cells(notebook: Any) -> dict[str, Any]:
    return {c.metadata.nbgrader.grade_id: c for c in notebook.cells if "nbgrader" in c.metadata}


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("course")
    build(SOLUTIONS, root / "source", root / "course")
    return root


def tree(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def test_the_committed_course_is_a_fresh_build(fresh: Path) -> None:
    expected, actual = tree(fresh / "course"), tree(COURSE)
    assert set(actual) == set(expected), "run `make course`"
    assert [name for name in expected if actual[name] != expected[name]] == [], "run `make course`"


def test_building_again_over_an_old_build_gives_the_same_bytes(fresh: Path) -> None:
    before = tree(fresh)
    (fresh / "course" / "en" / LESSON / "left-over.ipynb").write_text("{}")
    (fresh / "course" / "zh" / "lesson-0").mkdir()
    build(SOLUTIONS, fresh / "source", fresh / "course")
    assert tree(fresh) == before


@pytest.mark.parametrize("name", NOTEBOOKS)
@pytest.mark.parametrize("edition", EDITIONS)
def test_the_release_holds_no_solution_no_hidden_test_and_no_output(edition: str, name: str) -> None:
    path = COURSE / edition / LESSON / f"{name}.ipynb"
    text = path.read_text(encoding="utf-8")
    for secret in ("BEGIN SOLUTION", "END SOLUTION", "HIDDEN TESTS", "autograder", "grade_main_path", '"stub"'):
        assert secret not in text, f"{path} holds {secret!r}"
    shown = "\n".join(c.source for c in read(path).cells)
    solved = [c for c in edition_of(SOURCE.with_stem(name), edition).cells if "BEGIN SOLUTION" in c.source]
    assert len(solved) == sum(c.metadata.get("nbgrader", {}).get("solution", False) for c in read(path).cells)
    for c in solved:
        region = c.source.partition("BEGIN SOLUTION")[2].partition("### END SOLUTION")[0]
        for line in map(str.strip, region.splitlines()):
            if line and line not in map(str.strip, c.metadata.minivllm.stub) and len(line) >= 20:
                assert line not in shown, f"{path} holds the solution {line!r}"
    for c in read(path).cells:
        assert c.cell_type == "markdown" or (c.outputs == [] and c.execution_count is None)


def test_both_editions_have_the_same_code_cells_grade_ids_and_points() -> None:
    en, zh = (released(edition) for edition in EDITIONS)
    assert [c.cell_type for c in en.cells] == [c.cell_type for c in zh.cells]
    assert [(c.id, c.source) for c in en.cells if c.cell_type == "code"] == [
        (c.id, c.source) for c in zh.cells if c.cell_type == "code"
    ]

    def grading(notebook: Any) -> Any:
        return [(grade_id, c.metadata.nbgrader.get("points")) for grade_id, c in graded_cells(notebook).items()]

    assert grading(en) == grading(zh)
    points = {grade_id: points for grade_id, points in grading(en) if points is not None}
    assert points == {
        "plan_examples": 0.25,
        "plan_main_path": 1.75,
        "plan_boundaries": 1,
        "source_mapping_check": 1,
        "q1_answer": 2,
    }


@pytest.mark.parametrize("edition", EDITIONS)
def test_the_exercise_is_released_with_the_lessons_own_blanks(edition: str) -> None:
    source = cell(released(edition), "unified_token_plan").source
    assert "        need = ______\n        take = ______\n        if take:\n" in source
    assert "raise NotImplementedError" not in source
    assert cell(released(edition), "source_mapping").source.count(": ______,") == 4


@pytest.mark.parametrize("edition", EDITIONS)
def test_a_question_is_plain_text_and_its_answer_has_a_template(edition: str) -> None:
    notebook = released(edition)
    answers = [c for c in notebook.cells if c.metadata.get("nbgrader", {}).get("grade_id", "").endswith("_answer")]
    assert answers
    for answer in answers:
        assert answer.cell_type == "markdown" and answer.source.strip() and "YOUR ANSWER HERE" not in answer.source
        assert answer.metadata.lang == edition
        question = notebook.cells[notebook.cells.index(answer) - 1]
        assert question.cell_type == "markdown" and "nbgrader" not in question.metadata


def test_the_templates_of_an_answer_differ_by_language() -> None:
    en, zh = (cell(released(edition), "q1_answer").source for edition in EDITIONS)
    assert en != zh
    assert re.search("[一-鿿]", zh) and not re.search("[一-鿿]", en)


@pytest.mark.parametrize("edition", EDITIONS)
def test_an_edition_has_one_language_a_kernel_with_a_language_and_cell_ids_of_its_own(edition: str) -> None:
    notebook = released(edition)
    assert {c.metadata.lang for c in notebook.cells if c.cell_type == "markdown"} == {edition}
    assert notebook.metadata == {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    ids = [c.id for c in notebook.cells]
    assert len(set(ids)) == len(ids)
    assert {tag for c in notebook.cells for tag in c.metadata.get("tags", [])} == {"setup"}


def test_a_cells_id_stays_when_another_cell_changes(tmp_path: Path) -> None:
    changed = tmp_path / SOURCE.name
    text = SOURCE.read_text(encoding="utf-8")
    changed.write_text(
        text.replace("from minivllm.lesson import *", "from minivllm.lesson import *\nx = 1", 1), encoding="utf-8"
    )
    before, after = ([c.id for c in edition_of(path, "en").cells] for path in (SOURCE, changed))
    assert sum(a != b for a, b in zip(before, after, strict=True)) == 1


def test_a_markdown_cell_without_a_language_is_named(tmp_path: Path) -> None:
    lesson = tmp_path / "solutions" / "lesson-9"
    lesson.mkdir(parents=True)
    (lesson / "x.md").write_text(
        SOURCE.read_text(encoding="utf-8").replace('+++ {"lang": "zh"}', "+++", 1), encoding="utf-8"
    )
    with pytest.raises(CourseError, match=r"x\.md: a markdown cell has lang None, expected one of"):
        build(tmp_path / "solutions", tmp_path / "source", tmp_path / "course")


def test_a_release_that_fails_leaves_the_old_one(tmp_path: Path) -> None:
    lesson = tmp_path / "solutions" / "lesson-9"
    lesson.mkdir(parents=True)
    shutil.copy(SOURCE, lesson / "x.md")
    build(tmp_path / "solutions", tmp_path / "source", tmp_path / "course")
    before = tree(tmp_path / "course")
    (lesson / "x.md").write_text(
        SOURCE.read_text(encoding="utf-8").replace("### END SOLUTION", "", 1), encoding="utf-8"
    )
    with pytest.raises(
        CourseError, match=r"nbgrader could not release lesson-9: RuntimeError: no end solution statement found$"
    ):
        build(tmp_path / "solutions", tmp_path / "source", tmp_path / "course")
    assert tree(tmp_path / "course") == before
