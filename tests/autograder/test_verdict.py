"""Points, what passing asks for, and how a person's word is read; the registrar's table; the class on a page."""

from __future__ import annotations

import csv
import re
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbgrader import utils

from autograder.gradebook.decisions import _chain
from autograder.gradebook.tables import Decision, now
from autograder.gradebook.verdict import OUTDATED, Cell, Verdict, idea
from autograder.intake.notes import Note
from autograder.judging.points import PARTS
from autograder.judging.suggestions import FINDINGS, Suggested
from autograder.paths import CLONE, EDITIONS
from autograder.reports.feedback import READ_AGAIN, page_of, sections
from autograder.reports.registrar import COLUMNS, inert, write_csv
from autograder.reports.report import ClassReport, open_ends

LESSON = "lesson-2"
OF = {"plan_examples": 0.25, "plan_main_path": 1.75, "plan_boundaries": 1.0, "source_mapping_check": 1.0}


def suggested(points: float | None = 2.0, chain: float = 1.0, veto: str = "", confidence: float = 0.9) -> Suggested:
    return Suggested(points, points or 0.0, confidence, chain, veto, "because ...", "")


def decided(points: float | None, chain: float | None = None, **more: Any) -> Decision:
    known = {"confirmed": None, "veto": "", "comment": "", "why": "", **more}
    return Decision(at=now(), who="tess", points=points, chain=chain, **known)


def read(points: float, of: float = 2.0, chain: float | None = None, **more: Any) -> Cell:
    """A cell that a person gave points."""
    return Cell(points, of, decision=decided(points, chain, **more))


FULL = read(2.0, chain=1.0)
CONFIRMED = read(0.0, 0.0, confirmed=True)


def verdict(**cells: Cell) -> Verdict:
    """One who has all points, read by a person, but for the cells given."""
    all_cells = {name: Cell(of, of, False) for name, of in OF.items()}
    all_cells |= {f"q{n}_answer": FULL for n in (1, 2, 3)} | {FINDINGS: CONFIRMED}
    suggestions = {f"q{n}_answer": suggested() for n in (1, 2, 3)}
    return Verdict("ada", "en", all_cells | cells, suggestions)


def test_the_parts_are_the_graded_cells_of_the_course_and_make_ten_points() -> None:
    for edition in EDITIONS:
        graded = {}
        for path in sorted((CLONE / "course" / edition / LESSON).glob("*.ipynb")):
            for cell in nbformat.read(path, as_version=4).cells:  # type: ignore[no-untyped-call]
                if utils.is_grade(cell):
                    graded[cell.metadata["nbgrader"]["grade_id"]] = (path.stem, cell.metadata["nbgrader"]["points"])
        assert {name: part.notebook for part in PARTS for name in part.cells} == {n: b for n, (b, _) in graded.items()}
        assert [sum(graded[name][1] for name in part.cells) for part in PARTS] == [part.of for part in PARTS]
    assert sum(part.of for part in PARTS) == 10


def test_all_points_read_by_a_person_pass() -> None:
    good = verdict()
    assert (good.total, good.passed, good.waits) == (10, True, [])


@pytest.mark.parametrize(
    ("cells", "fails"),
    [
        ({"q1_answer": read(0.5, chain=0.0)}, "chain_q1"),
        ({"plan_boundaries": Cell(0.75, 1, False)}, "plan"),
        ({"plan_examples": Cell(0, 0.25, False)}, "plan"),
        ({FINDINGS: Cell(0, 0, True)}, "findings"),
        ({FINDINGS: read(0, 0, confirmed=False)}, "findings"),
        ({FINDINGS: Cell(0, 0, decision=decided(None, comment="findings: yes"))}, "findings"),
        ({FINDINGS: Cell(0, 0, False, blank=True)}, "findings"),
        ({"source_mapping_check": Cell(0, 1, False), "q1_answer": read(0.9, chain=0.5)}, "points"),
        ({"q2_answer": Cell(0, 2, False, blank=True)}, "chain_q2"),
    ],
)
def test_each_condition_alone_keeps_one_from_passing(cells: dict[str, Cell], fails: str) -> None:
    found = verdict(**cells)
    assert not found.passed
    assert [name for name, holds in found.conditions.items() if not holds] == [fails]


@pytest.mark.parametrize(
    ("cells", "state"),
    [
        ({}, "passed"),
        ({FINDINGS: Cell(0, 0, True)}, "open"),
        ({FINDINGS: Cell(0, 0, True), "plan_boundaries": Cell(0.75, 1, False)}, "not_passed"),
        ({"q1_answer": Cell(0, 2, True), "q2_answer": read(1, chain=0.5)}, "open"),
        ({f"q{n}_answer": Cell(0, 2, n == 1) for n in (1, 2, 3)}, "not_passed"),  # 8 points are out of reach
    ],
)
def test_a_verdict_is_open_while_only_a_persons_word_lacks(cells: dict[str, Cell], state: str) -> None:
    found = verdict(**cells)
    found.suggestions["q1_answer"] = suggested(None, 0.0)
    assert found.state == state


def test_a_missing_notebook_costs_its_points_and_its_chain() -> None:
    found = verdict()
    del found.cells["q3_answer"]
    assert (found.total, found.passed, found.chain("q3")) == (8, False, 0)


@pytest.mark.parametrize(
    ("points", "comment", "suggestion", "chain"),
    [
        (1.5, "", suggested(1.5, 0.0), 0.0),  # a person let the suggestion stand
        (1.0, "", suggested(1.5, 0.0), 0.5),  # a person gave other points
        (0.5, "", suggested(2.0, 1.0), 0.0),
        (1.5, "fine, but chain: 0", suggested(2.0, 1.0), 0.0),
        (0.5, "Chain：1", suggested(2.0, 0.0), 1.0),
        (1.5, "", suggested(None, 1.0), 0.5),  # nothing was suggested
    ],
)
def test_a_persons_word_on_the_chain_wins(points: float, comment: str, suggestion: Suggested, chain: float) -> None:
    assert _chain(points, comment, asdict(suggestion), None) == chain


def test_a_comment_added_later_leaves_the_chain_as_it_was_unless_it_speaks_of_it() -> None:
    before, rubric_since = decided(1.5, 1.0), asdict(suggested(1.5, 0.0))
    assert _chain(1.5, "well told", rubric_since, before) == 1.0
    assert _chain(1.5, "well told, chain: 0.5", rubric_since, before) == 0.5
    assert _chain(1.5, "well told", rubric_since, decided(1.5, 1.0, comment="chain: 1")) == 0.0, "taken back"
    assert _chain(1.0, "well told", rubric_since, before) == 0.5, "other points"


def test_the_suggested_chain_counts_until_a_person_decides_and_never_after() -> None:
    found = verdict(q1_answer=Cell(1.5, 2, True))
    found.suggestions["q1_answer"] = suggested(1.5, 0.5)
    assert found.chain("q1") == 0.5
    found.cells["q1_answer"] = read(1.5, chain=1.0)
    found.suggestions["q1_answer"] = suggested(1.5, 0.0)
    assert found.chain("q1") == 1.0 and found.passed


def test_a_veto_stands_until_a_person_gives_points_and_the_persons_stays() -> None:
    for cell, stands in (
        (Cell(0, 2, True), True),
        (read(0.0, chain=0.0, veto="peak_as_production"), True),
        (read(0.0, chain=0.0), False),  # nothing was suggested when they read it
        (read(1.5, chain=1.0), False),
    ):
        found = verdict(q2_answer=cell)
        found.suggestions["q2_answer"] = suggested(0.0, 1.0, "peak_as_production")
        assert found.vetoes == ({"q2": "peak_as_production"} if stands else {})
        assert found.conditions["veto"] is not stands


@pytest.mark.parametrize(
    "value", ["=1+1", "+1", "-1", "@x", "\t=1", "\r=1", " =1", "\n=1", "＝1", '=HYPERLINK("http://x")']
)
def test_no_cell_of_the_table_can_start_a_formula(value: str, tmp_path: Path) -> None:
    assert inert(value) == f"'{value}"
    write_csv(tmp_path / "grades.csv", [replace(verdict(), student=value, reason=value)])
    with (tmp_path / "grades.csv").open(encoding="utf-8-sig", newline="") as file:
        [row] = csv.DictReader(file)
    assert row["student"] == row["reason"] == f"'{value}"


def test_the_table_has_a_row_a_student_and_says_what_its_columns_mean(tmp_path: Path) -> None:
    waiting = replace(verdict(q1_answer=Cell(1.5, 2, True)), student='王小明, "Zoë"; O\'Brien')
    failed = Verdict("late", reason="no notebook was handed in")
    write_csv(tmp_path / "grades.csv", [verdict(), waiting, failed])
    with (tmp_path / "grades.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = {row["student"]: row for row in csv.DictReader(file)}
    assert {name: (row["total"], row["passed"], row["final"]) for name, row in rows.items()} == {
        "ada": ("10", "yes", "yes"),
        waiting.student: ("9.5", "yes", "no"),
        "late": ("0", "no", "no"),
    }
    assert rows[waiting.student]["waits"] == "q1"
    explained = (tmp_path / "grades-columns.txt").read_text(encoding="utf-8")
    assert [line.split()[0] for line in explained.splitlines()] == list(COLUMNS)


def test_the_table_says_how_late_it_was_and_what_that_cost(tmp_path: Path) -> None:
    late = replace(verdict(), seconds_late=5401.0, penalty=2.0)
    write_csv(tmp_path / "grades.csv", [late, replace(late, seconds_late=0.0, penalty=0.0)])
    with (tmp_path / "grades.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["total"], row["late"], row["penalty"]) for row in rows] == [("8", "1.6", "2"), ("10", "0", "0")]


@pytest.mark.parametrize("change", [{"reason": "an archive"}, {"outdated": OUTDATED}])
def test_points_of_anything_but_what_was_handed_in_are_never_final(change: dict[str, Any], tmp_path: Path) -> None:
    found = replace(verdict(), **change)
    assert verdict().final and not found.final
    write_csv(tmp_path / "grades.csv", [found])
    with (tmp_path / "grades.csv").open(encoding="utf-8-sig", newline="") as file:
        [row] = csv.DictReader(file)
    assert row["final"] == "no" and row["reason"] == found.fault != ""


def test_final_points_ask_for_everybody_who_handed_in_unless_left_out() -> None:
    nothing = Verdict("absent", reason="nothing was handed in", folder=False)
    failed, unread = Verdict("bob", reason="an archive"), replace(verdict(q1_answer=Cell(1, 2, True)), student="cy")
    changed = replace(verdict(), student="dan", outdated=OUTDATED)
    told = open_ends([verdict(), nothing, failed, unread, changed])
    assert told[:2] == ["bob (an archive)", "cy (unread: q1)"]
    assert len(told) == 3 and told[2].startswith("dan (the files, tests or rubrics changed")
    failed.left_open = changed.left_open = True
    assert open_ends([failed, unread, changed]) == ["cy (unread: q1)"]


def test_a_row_that_is_left_open_is_not_final_whatever_else_holds(tmp_path: Path) -> None:
    found = replace(verdict(), left_open=True)
    assert verdict().final and not found.final
    write_csv(tmp_path / "grades.csv", [found])
    with (tmp_path / "grades.csv").open(encoding="utf-8-sig", newline="") as file:
        assert [row["final"] for row in csv.DictReader(file)] == ["no"]


@pytest.mark.parametrize(("edition", "state"), [("en", "left blank"), ("zh", "未作答")])
def test_feedback_calls_no_test_the_judge_of_a_question_left_blank(edition: str, state: str) -> None:
    found = replace(verdict(q2_answer=Cell(0, 2, blank=True)), edition=edition)
    assert found.final and f">{state}</td>" in page_of(found, LESSON)


def test_feedback_says_nothing_twice() -> None:
    why = "line 1 (def plan) is no Python"
    found = verdict(plan_boundaries=Cell(0, 1, False))
    found.told = {"unified_token_plan": [why], "plan_boundaries": [f"the planner is not there: {why}"]}
    assert page_of(found, LESSON).count(why) == 1


@pytest.mark.parametrize("edition", EDITIONS)
def test_feedback_says_first_why_the_answer_did_not_run(edition: str) -> None:
    found = verdict(plan_main_path=Cell(0, 1.75, False), plan_boundaries=Cell(0, 1, False))
    found.edition = edition
    undefined, reason = "name 'unified_token_plan' is not defined", "SyntaxError: never closed (line 10)"
    found.told = {"plan_main_path": [undefined], "plan_boundaries": [undefined], "unified_token_plan": [reason]}
    page = page_of(found, LESSON)
    assert page.count(reason) == 2 and page.index(reason) < page.index("is not defined")
    only_packages = {"en": "only the packages that the course itself uses", "zh": "只能 import 本课用到的包"}[edition]
    assert only_packages not in page
    found.told["unified_token_plan"] = ["ModuleNotFoundError: No module named 'pandas'"]
    assert only_packages in page_of(found, LESSON)


@pytest.mark.parametrize(
    ("edition", "says", "tests"),
    [
        ("en", "This notebook was not handed in or could not be read.", "by tests"),
        ("zh", "这个 notebook 没有提交，或者无法读取。", "测试评分"),
    ],
)
def test_feedback_speaks_of_no_test_where_a_notebook_is_missing(edition: str, says: str, tests: str) -> None:
    found = replace(verdict(), edition=edition, missing=frozenset(part.notebook for part in PARTS))
    found.cells = {name: Cell(0, 2, False) for name in found.cells}
    page = page_of(found, LESSON)
    assert page.count(says) == len(PARTS) and tests not in page and "accept it yet" not in page
    assert "测试尚未通过" not in page


@pytest.mark.parametrize(
    ("edition", "late", "costs", "free"),
    [
        ("en", "Handed in 1.5 h late.", "Points taken for it: 2.", "No points were taken"),
        ("zh", "迟交 1.5 小时", "因迟交扣 2 分", "未因此扣分"),
    ],
)
def test_feedback_says_how_late_it_was_and_what_that_cost(edition: str, late: str, costs: str, free: str) -> None:
    found = replace(verdict(), edition=edition, seconds_late=5400.0)
    page = page_of(found, LESSON)
    assert late in page and free in page
    page = page_of(replace(found, penalty=2.0), LESSON)
    assert late in page and costs in page and free not in page
    assert late not in page_of(replace(found, seconds_late=0.0), LESSON)


@pytest.mark.parametrize("edition", EDITIONS)
def test_feedback_says_what_was_lost_what_is_provisional_and_where_to_read_again(edition: str) -> None:
    found = verdict(plan_main_path=Cell(1.25, 1.75, False), q1_answer=Cell(1.0, 2, True, comment="**Chain:** say why."))
    found.edition = edition
    found.told = {
        "plan_main_path": ["no chunk: with requests [A]", "no chunk: with requests [B]", "wrong order: with [C]"]
    }
    found.notes = (
        Note("repaired", "a renamed file was taken", NOTEBOOK := "1-budget-planner"),
        Note("flagged", "secret"),
    )
    page = page_of(found, LESSON)
    assert "no chunk: with requests [A]" in page and "requests [B]" not in page and "wrong order" in page
    assert "<strong>Chain:</strong> say why." in page
    assert ("provisional" in page) == (edition == "en") and ("待定" in page) == (edition == "zh")
    assert "a renamed file was taken" in page and "secret" not in page
    heading = sections(CLONE / "course" / edition / LESSON / f"{NOTEBOOK}.ipynb")[2]
    assert f'href="{NOTEBOOK}.ipynb#{heading.replace(" ", "-")}"' in page


def test_feedback_and_report_escape_what_they_quote(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>"
    found = replace(
        verdict(plan_main_path=Cell(0, 1.75, False)),
        student=evil,
        notes=(Note("flagged", evil, evil, evil, kept=evil, other=evil),),
    )
    found.told = {"plan_main_path": [evil]}
    found.cells["q1_answer"] = read(0.0, comment=f"{evil} [x](javascript:alert(1))")
    for edition in EDITIONS:
        found.edition = edition
        page = page_of(found, LESSON)
        assert "<script" not in page and not re.search(r"(href|src)=.?javascript", page)


def test_sections_to_read_again_are_in_both_editions_of_the_course() -> None:
    for notebook, heading in {place for places in READ_AGAIN.values() for place in places}:
        english, chinese = (sections(CLONE / "course" / e / LESSON / f"{notebook}.ipynb") for e in EDITIONS)
        assert heading in english and len(english) == len(chinese)


def test_the_class_page_orders_reviews_by_confidence_and_counts_each_misconception_once_a_student() -> None:
    first, second = (
        verdict(q1_answer=Cell(1, 2, True), **{FINDINGS: Cell(0, 0, True)}),
        verdict(q2_answer=Cell(1, 2, True)),
    )
    second.student = "bob"
    first.suggestions["q1_answer"], second.suggestions["q2_answer"] = (
        suggested(1.0, confidence=0.8),
        suggested(None, confidence=0.3),
    )
    for each in (first, second):
        each.told = {"plan_main_path": ["no chunk: with requests [A]", "no chunk: with requests [B]"]}
    report = ClassReport([first, second, Verdict("cy", reason="no notebook was handed in")])
    assert [(review.student, review.part.name) for review in report.reviews] == [
        ("bob", "q2"),
        ("ada", "q1"),
        ("ada", FINDINGS),
    ]
    assert report.misconceptions == [("no chunk", 2)]
    assert [verdict.student for verdict in report.failed] == ["cy"]
    assert sum(count for _, count in report.distribution) == 2


def test_an_idea_is_a_sentence_without_its_example() -> None:
    assert idea("no chunk: with requests [A], budget 4 expected 1; because") == "no chunk"
    assert idea("keep the four keys; not so: assert set(x) == {1}") == "keep the four keys"
