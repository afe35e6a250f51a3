"""A class through real nbgrader: release, validate, submit, collect, autograde, feedback, export."""

from __future__ import annotations

from typing import Any

import pytest
from nbgrader.api import Gradebook

from autograder.release.course import build
from tests.autograder.classroom import (
    ESSAY,
    LESSON,
    MAPPING,
    NOTEBOOK,
    PLANNER,
    Classroom,
    Student,
    cell,
    planner,
    read,
)

SUBMITTED = (
    "solved-en",
    "王小明",
    "blank-en",
    "blank-zh",
    "Zoë O'Brien",
    "skips",
    "accepts-debt",
    "syntax-error",
    "warns",
)
CODE_CELLS = ("plan_examples", "plan_main_path", "plan_boundaries", "source_mapping_check")
WARNS = 'import sys, warnings\nwarnings.warn("planning")\nprint("planning", file=sys.stderr)\n'


def students(released: Any) -> list[Student]:
    solved = {"unified_token_plan": planner(released), "source_mapping": MAPPING, "q1_answer": ESSAY}
    noisy = planner(
        released,
        {**PLANNER, "    plan = {}\n": f"    plan = {{}}\n    {WARNS.strip().replace(chr(10), chr(10) + '    ')}\n"},
    )
    return [
        Student("solved-en", "en", solved),
        Student("王小明", "zh", solved),
        Student("blank-en", "en", {}),
        Student("blank-zh", "zh", {}),
        Student("Zoë O'Brien", "zh", {"unified_token_plan": solved["unified_token_plan"], "q1_answer": ESSAY}),
        Student(
            "skips",
            "en",
            solved
            | {
                "unified_token_plan": planner(
                    released, {**PLANNER, "take = ______": "take = need * (need <= token_budget)"}
                )
            },
        ),
        Student(
            "accepts-debt",
            "zh",
            solved | {"unified_token_plan": planner(released, {**PLANNER, "token_budget < 0": "False"})},
        ),
        Student(
            "syntax-error",
            "en",
            solved | {"unified_token_plan": planner(released, {**PLANNER, "take = ______": "take = min(need,"})},
        ),
        Student("warns", "en", solved | {"unified_token_plan": noisy}),
    ]


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> Classroom:
    root = tmp_path_factory.mktemp("class")
    build(sources=root / "source", course=root / "course")
    room = Classroom(root / "classroom", root / "source", root / "course")
    before = {path: path.read_bytes() for path in (root / "course").rglob("*.ipynb")}
    room.nbgrader("generate_assignment", LESSON, "--force")
    assert before == {path: path.read_bytes() for path in (root / "course").rglob("*.ipynb")}, (
        "the release with a gradebook differs"
    )
    room.nbgrader("release_assignment", LESSON)
    for student in students(read(root / "course" / "en" / LESSON / f"{NOTEBOOK}.ipynb")):
        room.hand_in(student)
    room.nbgrader("collect", LESSON, "--ExchangeCollect.check_owner=False")
    room.nbgrader("autograde", LESSON)
    return room


def points(room: Classroom, student: str) -> dict[str, float | None]:
    with Gradebook(f"sqlite:///{room.root / 'gradebook.db'}") as gradebook:
        return {
            grade_id: gradebook.find_grade(grade_id, NOTEBOOK, LESSON, student).auto_score for grade_id in CODE_CELLS
        }


@pytest.mark.parametrize(
    ("student", "expected"),
    [
        ("solved-en", (0.25, 1.75, 1.0, 1.0)),
        ("王小明", (0.25, 1.75, 1.0, 1.0)),
        ("warns", (0.25, 1.75, 1.0, 1.0)),
        ("blank-en", (0.0, 0.0, 0.0, 0.0)),
        ("blank-zh", (0.0, 0.0, 0.0, 0.0)),
        ("Zoë O'Brien", (0.25, 1.75, 1.0, 0.0)),
        ("skips", (0.0, 1.25, 1.0, 1.0)),
        ("accepts-debt", (0.25, 1.75, 0.75, 1.0)),
        ("syntax-error", (0.0, 0.0, 0.0, 1.0)),
    ],
)
def test_each_cell_of_each_submission_has_its_points(
    graded: Classroom, student: str, expected: tuple[float | None, ...]
) -> None:
    assert tuple(points(graded, student).values()) == expected


def test_only_what_a_person_has_to_read_waits_for_one(graded: Classroom) -> None:
    with Gradebook(f"sqlite:///{graded.root / 'gradebook.db'}") as gradebook:
        waiting = {s.student.id for s in gradebook.assignment_submissions(LESSON) if s.needs_manual_grade}
    assert waiting == {student for student in SUBMITTED if not student.startswith("blank")}


def test_a_lost_idea_is_told_in_the_graded_notebook_without_the_hidden_test(graded: Classroom) -> None:
    def text(student: str, grade_id: str) -> str:
        return "".join(output.get("text", "") for output in cell(graded.autograded(student), grade_id).outputs)

    assert "- a request that does not fit whole got nothing instead of a chunk: with requests [A running 0→7]" in text(
        "skips", "plan_main_path"
    )
    assert "- a negative budget was accepted: with requests" in text("accepts-debt", "plan_boundaries")
    assert "the blank ______ is not filled in" in text("blank-zh", "plan_main_path")
    assert text("solved-en", "plan_main_path") == ""


def test_feedback_and_csv_carry_manual_points_too(graded: Classroom) -> None:
    with Gradebook(f"sqlite:///{graded.root / 'gradebook.db'}") as gradebook:
        for student, score in (("solved-en", 2.0), ("王小明", 1.5)):
            grade = gradebook.find_grade("q1_answer", NOTEBOOK, LESSON, student)
            grade.manual_score, grade.needs_manual_grade = score, False
            gradebook.find_comment("q1_answer", NOTEBOOK, LESSON, student).manual_comment = "链条完整"
        gradebook.db.commit()
    graded.nbgrader("generate_feedback", LESSON)
    page = (graded.root / "feedback" / "王小明" / LESSON / f"{NOTEBOOK}.html").read_text(encoding="utf-8")
    assert "链条完整" in page
    assert "Score: 5.5 / 6.0" in page
    for secret in ("HIDDEN TESTS", "grade_main_path", "autograder", "Traceback (most"):
        assert secret not in page

    code = {
        "solved-en": 4.0,
        "王小明": 4.0,
        "warns": 4.0,
        "blank-en": 0.0,
        "blank-zh": 0.0,
        "Zoë O'Brien": 3.0,
        "skips": 3.25,
        "accepts-debt": 3.75,
        "syntax-error": 1.0,
    }
    assert set(code) == set(SUBMITTED)
    with Gradebook(f"sqlite:///{graded.root / 'gradebook.db'}") as gradebook:
        prose = {name: gradebook.find_grade("q1_answer", NOTEBOOK, LESSON, name).score for name in code}
    assert (prose["solved-en"], prose["王小明"], prose["blank-en"]) == (2.0, 1.5, 0.0)  # the others': as suggested
    assert {student: (float(row["score"]), float(row["max_score"])) for student, row in graded.export().items()} == {
        student: (points + prose[student], 10.0) for student, points in code.items()
    }


def test_validate_passes_the_solved_notebook_and_names_the_blanks_of_the_released_one(graded: Classroom) -> None:
    home = graded.root / "homes"
    solved = graded.nbgrader("validate", str(home / "王小明" / LESSON / f"{NOTEBOOK}.ipynb"))
    assert "Success! Your notebook passes all the tests." in solved.stdout
    blank = graded.nbgrader(
        "validate", str(home / "blank-zh" / LESSON / f"{NOTEBOOK}.ipynb")
    )  # ends with 0 all the same
    assert "VALIDATION FAILED ON 3 CELL(S)" in blank.stdout
    assert "the blank ______ is not filled in" in blank.stdout
