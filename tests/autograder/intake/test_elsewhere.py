"""An answer that is blank where it belongs and stands elsewhere is taken over, or a person is shown it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autograder.intake.folder import digest
from autograder.intake.intake import intake
from autograder.paths import COURSE
from tests.autograder.classroom import LESSON, MAPPING
from tests.autograder.intake.lesson import (
    FOUND,
    FOUR,
    ONE,
    TEXTS,
    TWO,
    answer,
    lesson,
    needs,
    of_cell,
    take,
    write,
)
from tests.autograder.intake.solved import PLANNER, Notebook, answers, insert, new, of, released

Files = dict[str, Any]
PROSE = "A hit of every token would leave nothing to compute, and the sampler needs logits of one position at least."


def below(name: str, grade_id: str, text: str, kind: str = "markdown") -> Callable[[Files], None]:
    return lambda files: insert(files[name], grade_id, text, 1, kind)


def in_the_cell(name: str, grade_id: str, text: str) -> Callable[[Files], None]:
    def change(files: Files) -> None:
        of(files[name], grade_id)["source"] += f"\n\n{text}"

    return change


def a_file(name: str, content: Any) -> Callable[[Files], None]:
    return lambda files: files.update({name: content})


def both(*changes: Callable[[Files], None]) -> Callable[[Files], None]:
    def change(files: Files) -> None:
        for each in changes:
            each(files)

    return change


def a_notebook(*cells: Notebook) -> Notebook:
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": list(cells)}


Q2 = TEXTS["q2_answer"]
COMMENTS = "\n".join(f"# {line}" for line in ("Q2", *Q2.splitlines()))
SURE: dict[str, Callable[[Files], None]] = {
    "below Q3 with a heading": below(FOUR, "q3_answer", f"## Q2\n\n{Q2}"),
    "below Q3 in two cells": both(below(FOUR, "q3_answer", Q2), below(FOUR, "q3_answer", "**Question 2**")),
    "in another notebook in two cells": lambda files: files[ONE]["cells"].extend(
        [new("x = 1"), new("### Q2", "markdown"), new(Q2, "markdown")]
    ),
    "in the cell of Q3": in_the_cell(FOUR, "q3_answer", f"**Q2:**\n\n{Q2}"),
    "in the cell of Q1": in_the_cell(ONE, "q1_answer", f"Answer to question 2:\n\n{Q2}"),
    "at the top of another notebook": lambda files: files[FOUR]["cells"].insert(0, new(f"Q2. {Q2}", "markdown")),
    "with its grade id in another notebook": lambda files: files[ONE]["cells"].insert(
        3, new(Q2, "markdown", nbgrader={"grade_id": "q2_answer", "solution": True})
    ),
    "with its labels in another notebook": lambda files: files[ONE]["cells"].insert(3, new(Q2, "markdown")),
    "in a notebook of their own": a_file("answers", a_notebook(new("# Q2", "markdown"), new(f"Q2\n{Q2}", "markdown"))),
    "in a Markdown file": a_file("answers.md", f"# My answers\n\n## Q2\n\n{Q2}"),
    "in a text file with labels": a_file("mine.txt", Q2),
    "in comments of a notebook": below(ONE, "unified_token_plan", f"x = 1\n{COMMENTS}", "code"),
    "in comments of the planner": lambda files: of(files[ONE], "unified_token_plan").update(
        source=f"{PLANNER}\n{COMMENTS}"
    ),
    "in comments of a Python file": a_file("q.py", f"import os\n\n{COMMENTS}\n"),
    "in a string of a Python file": a_file("q.py", f'answer = """Q2\n{Q2}"""\n'),
}


@pytest.mark.parametrize("where", SURE)
def test_an_answer_that_says_whose_it_is_is_taken_over(where: str, tmp_path: Path) -> None:
    files: Files = lesson(blank=("q2_answer",))
    SURE[where](files)
    found = take(tmp_path, files)
    assert all(line in answer(found, "q2_answer") for line in Q2.splitlines())
    [told] = [note for note in found.notes if note.cell == "q2_answer"]
    assert told.kind == "repaired" and "was taken from" in told.text
    for other in ("q1_answer", "q3_answer"):
        assert answer(found, other).strip() == TEXTS[other]
    assert answer(found, "unified_token_plan").startswith(PLANNER)
    assert {note.text.split()[0] for note in needs(found)} <= {"answers.ipynb"}


@pytest.mark.parametrize("edition", ("en", "zh"))
def test_all_questions_in_the_first_notebook_find_their_places(edition: str, tmp_path: Path) -> None:
    heads = {"en": "## Q{}", "zh": "第{}题"}
    files: Files = lesson(edition, blank=tuple(TEXTS))
    texts = [f"{heads[edition].format(n)}\n\n{text}" for n, text in enumerate(TEXTS.values(), 1)]
    of(files[ONE], "q1_answer")["source"] = "\n\n".join(texts)
    found = take(tmp_path, files)
    for (grade_id, text), whole in zip(TEXTS.items(), texts, strict=True):
        assert text in answer(found, grade_id) and answer(found, grade_id).strip() in (text, whole)
    assert not needs(found)


def test_a_notebook_that_was_not_handed_in_gets_the_answer_that_stands_elsewhere(tmp_path: Path) -> None:
    files: Files = lesson()
    del files[TWO]
    in_the_cell(ONE, "q1_answer", f"**Q2**\n\n{Q2}")(files)
    found = take(tmp_path, files)
    assert Q2 in answer(found, "q2_answer") and answer(found, "q1_answer").strip() == TEXTS["q1_answer"]
    assert not needs(found) and not any("is gone" in note.text for note in found.notes)


def test_labels_that_begin_again_below_an_answer_are_taken_over_and_shown(tmp_path: Path) -> None:
    files: Files = lesson(blank=("q2_answer",))
    below(FOUR, "q3_answer", Q2)(files)
    found = take(tmp_path, files)
    assert answer(found, "q2_answer") == Q2 and answer(found, "q3_answer") == TEXTS["q3_answer"]
    [told] = needs(found)
    assert told.cell == "q2_answer" and "labels begin again" in told.text


UNSURE: dict[str, tuple[Callable[[Files], None], str]] = {
    "prose in another notebook": (below(FOUR, "q3_answer", PROSE), PROSE),
    "prose far away in another notebook": (lambda files: files[ONE]["cells"].insert(3, new(PROSE, "markdown")), PROSE),
    "prose in a file": (a_file("thoughts.md", PROSE), PROSE),
    "prose in a page": (a_file("page.html", f"<html><style>{'x' * 999}</style><p>{PROSE}</p></html>"), PROSE),
    "an exported page": (a_file("page.html", f"<h2>Q2</h2><p>{PROSE}</p>"), PROSE),
    "prose in a notebook of their own": (a_file("own", a_notebook(new(PROSE, "markdown"))), PROSE),
    "long comments": (
        below(ONE, "unified_token_plan", f"# {PROSE[:50]}\n# {PROSE[50:]}\n# {PROSE}\nx = 1", "code"),
        PROSE,
    ),
    "two texts for one question": (
        lambda files: files.update({"a.md": f"Q2\n{PROSE}", "b.md": f"Q2\n{PROSE[::-1]}"}),
        PROSE[::-1],
    ),
}


@pytest.mark.parametrize("where", UNSURE)
def test_a_text_that_may_be_the_answer_is_shown_to_a_person(where: str, tmp_path: Path) -> None:
    files: Files = lesson(blank=("q2_answer",))
    change, text = UNSURE[where]
    change(files)
    found = take(tmp_path, files)
    if where != "prose in another notebook":  # that one continues Q3
        assert any(text[-40:] in note.other for note in of_cell(found, "q2_answer")), found.notes
    assert needs(found) or text in answer(found, "q3_answer")
    assert answer(found, "q2_answer") == of(released(name=TWO), "q2_answer")["source"]


def test_nothing_is_said_of_texts_elsewhere_where_no_answer_is_blank(tmp_path: Path) -> None:
    files: Files = lesson()
    files[FOUR]["cells"].insert(2, new(f"Q2: {PROSE}", "markdown"))
    assert not needs(take(tmp_path, files))


@pytest.mark.parametrize(
    ("grade_id", "code"), [("unified_token_plan", PLANNER), ("source_mapping", MAPPING)], ids=("planner", "mapping")
)
@pytest.mark.parametrize("where", ("another notebook", "a notebook of their own", "planner.py", "code.md"))
def test_code_with_the_names_of_an_exercise_is_taken_from_anywhere(
    where: str, grade_id: str, code: str, tmp_path: Path
) -> None:
    files: Files = lesson(blank=(grade_id,))
    match where:
        case "another notebook":
            files[TWO]["cells"].append(new(code))
        case "a notebook of their own":
            files["own"] = a_notebook(new(code))
        case "planner.py":
            files[where] = f"# -*- coding: utf-8 -*-\n{code}\n"
        case "code.md":
            files[where] = f"My code:\n\n```python\n{code}\n```\n"
    found = take(tmp_path, files)
    assert answer(found, grade_id).strip() == code.strip()
    assert [note.kind for note in found.notes if note.cell == grade_id] == ["repaired"]


def test_two_different_planners_elsewhere_are_for_a_person(tmp_path: Path) -> None:
    files: Files = lesson(blank=("unified_token_plan",))
    files |= {"a.py": PLANNER, "b.py": PLANNER.replace("min(need, token_budget)", "need")}
    [flag] = of_cell(take(tmp_path, files), "unified_token_plan")
    assert "a.py" in flag.text and "b.py" in flag.text and "take = need" in flag.other


@pytest.mark.parametrize("edition", ("en", "zh"))
def test_notebooks_merged_into_one_file_are_graded_as_their_parts(edition: str, tmp_path: Path) -> None:
    files = lesson(edition)
    cells = [cell for notebook in files.values() for cell in notebook["cells"]]
    found = take(tmp_path, {"all": a_notebook(*cells)})
    assert sorted(found.notebooks) == sorted(files) and not needs(found)
    for grade_id, text in {**TEXTS, "findings": FOUND, "unified_token_plan": PLANNER}.items():
        assert answer(found, grade_id) == text


def test_merged_notebooks_without_any_metadata_are_taken_apart_too(tmp_path: Path) -> None:
    cells = [
        {"cell_type": cell["cell_type"], "metadata": {}, "source": cell["source"]}
        for notebook in lesson().values()
        for cell in notebook["cells"]
    ]
    found = take(tmp_path, {"all": a_notebook(*cells)})
    for grade_id, text in {**TEXTS, "findings": FOUND, "unified_token_plan": PLANNER}.items():
        assert answer(found, grade_id) == text
    assert not needs(found)


def test_answers_spread_over_two_copies_come_together(tmp_path: Path) -> None:
    files: Files = lesson(blank=("source_mapping",))
    files[f"{ONE} (1)"] = lesson(blank=("unified_token_plan", "q1_answer"))[ONE]
    found = take(tmp_path, files)
    assert (
        answer(found, "unified_token_plan") == PLANNER
        and answer(found, "source_mapping") == answers()["source_mapping"]
    )
    assert not needs(found)


def test_what_only_a_checkpoint_holds_is_shown_and_not_taken(tmp_path: Path) -> None:
    files: Files = lesson(blank=("q2_answer",))
    files[f".ipynb_checkpoints/{TWO}-checkpoint"] = lesson()[TWO]
    found = take(tmp_path, files)
    [flag] = needs(found)
    assert flag.cell == "q2_answer" and Q2 in flag.other and "checkpoint" in flag.text


# --- beside the lesson's folder ---------------------------------------------------------------------------------------

BLANK = (*TEXTS, "unified_token_plan", "source_mapping", "findings")


@pytest.mark.parametrize(
    "aside", ("", "lesson-2 (1)", "Lesson-2", "lesson2", "homework/of mine", "home/a/b/c/d/e/f/g/h/i")
)
def test_filled_notebooks_beside_blank_ones_are_graded(aside: str, tmp_path: Path) -> None:
    folder = write(tmp_path, lesson(blank=BLANK))
    write(tmp_path / "drop", lesson())
    target = tmp_path / "drop" / LESSON
    shutil.copytree(target, tmp_path / aside, dirs_exist_ok=True)
    shutil.rmtree(tmp_path / "drop")
    found = intake(folder, "student")
    assert answer(found, "unified_token_plan") == PLANNER and answer(found, "q2_answer") == Q2
    assert not needs(found) and any("../" in note.text and "was taken as" in note.text for note in found.notes)


def test_a_filled_notebook_beside_an_equally_named_one_with_other_answers_is_shown(tmp_path: Path) -> None:
    folder = write(tmp_path, lesson())
    changed = lesson()[ONE]
    of(changed, "unified_token_plan")["source"] = PLANNER + "\n# newer"
    (tmp_path / "lesson-2 (1)").mkdir()
    write(tmp_path, {f"../lesson-2 (1)/{ONE}": changed})
    found = intake(folder, "student")
    assert answer(found, "unified_token_plan") == PLANNER
    assert any("# newer" in note.other for note in of_cell(found, "unified_token_plan"))


def test_another_lessons_folder_is_not_looked_at(tmp_path: Path) -> None:
    course = tmp_path / "course"
    shutil.copytree(COURSE, course)
    (course / "en" / "lesson-3").mkdir()
    folder = write(tmp_path / "student", lesson(blank=BLANK))
    write(tmp_path / "student", {f"../lesson-3/{ONE}": lesson()[ONE], "../lesson-3/x.pdf": "x"})
    before = digest(folder, course)
    found = intake(folder, "student", course)
    assert answer(found, "unified_token_plan") != PLANNER and not needs(found)
    write(tmp_path / "student", {f"../lesson-3/{ONE}": lesson()[TWO]})
    assert digest(folder, course) == before


def test_a_foreign_notebook_in_a_folder_of_something_else_is_no_matter(tmp_path: Path) -> None:
    folder = write(tmp_path, lesson())
    write(tmp_path, {"../other-course/own": a_notebook(new("print(1)")), "../other-course/report.pdf": "x"})
    assert not needs(intake(folder, "student"))


def test_a_folder_that_is_missing_is_made_up_for_by_what_lies_one_up(tmp_path: Path) -> None:
    folder = write(tmp_path, {f"../{name}": notebook for name, notebook in lesson().items()})
    folder.rmdir()
    assert answer(intake(folder, "student"), "unified_token_plan") == PLANNER


def test_a_fault_in_the_search_costs_no_answer_that_stands_where_it_belongs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fault(*_: object) -> None:
        raise RecursionError

    monkeypatch.setattr("autograder.intake.intake.Texts", fault)
    found = take(tmp_path, lesson(blank=("q2_answer",)))
    assert answer(found, "unified_token_plan") == PLANNER
    assert ["RecursionError" in note.text for note in needs(found)] == [True]
