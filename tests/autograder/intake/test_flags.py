"""What a person has to decide is flagged with both texts, and nothing that was written is lost without a word."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autograder.intake.handed_in import Cell
from autograder.intake.notes import Note
from autograder.intake.released import identify
from autograder.intake.released import released as all_released
from autograder.intake.transplant import Transplant
from tests.autograder.classroom import LESSON, NOTEBOOK
from tests.autograder.intake import broken
from tests.autograder.intake.broken import CHECK, ESSAY, PLAN
from tests.autograder.intake.solved import (
    PLANNER,
    Notebook,
    answers,
    insert,
    new,
    of,
    place,
    solved,
    source,
    taken,
    twin,
)

WRONG = PLANNER.replace("min(need, token_budget)", "need")
KNOWN = all_released(LESSON)


def doubled_and_different(nb: Notebook) -> tuple[str, str]:
    nb["cells"].insert(place(nb, PLAN), twin(of(nb, PLAN), source=WRONG, id="x"))
    return PLANNER, WRONG


def defined_again_later(nb: Notebook) -> tuple[str, str]:
    nb["cells"].append(new(WRONG))
    return PLANNER, WRONG


def defined_again_in_the_check(nb: Notebook) -> tuple[str, str]:
    of(nb, CHECK)["source"] = WRONG + "\n\n" + of(nb, CHECK)["source"]
    return PLANNER, WRONG


def filled_in_better_below(nb: Notebook) -> tuple[str, str]:
    half = PLANNER.replace("take = min(need, token_budget)", "take = ______")
    of(nb, PLAN)["source"] = half
    insert(nb, PLAN, PLANNER, 1)
    return PLANNER, half


def texts_doubled_and_different(nb: Notebook) -> tuple[str, str]:
    text = of(nb, ESSAY)["source"]
    nb["cells"].insert(2, twin(of(nb, ESSAY), source="**Objects:** no idea", id="x"))
    return text, "**Objects:** no idea"


def renamed_and_moved(nb: Notebook) -> tuple[str, str]:
    blank = of(nb, PLAN)["source"]
    broken.blanked(nb)
    blank = of(nb, PLAN)["source"]
    nb["cells"].append(new("plan = lambda requests, budget: ({}, budget)\n"))
    return blank, "plan = lambda requests, budget: ({}, budget)"


def text_far_away(nb: Notebook) -> tuple[str, str]:
    broken.blanked(nb, ESSAY)
    text = "The engine subtracts two counters and asks nothing about phases."
    nb["cells"].insert(4, new(text, "markdown"))
    return of(nb, ESSAY)["source"], text


FLAGGED = (
    doubled_and_different,
    defined_again_later,
    defined_again_in_the_check,
    filled_in_better_below,
    texts_doubled_and_different,
    renamed_and_moved,
    text_far_away,
)


@pytest.mark.parametrize("how", FLAGGED, ids=lambda how: how.__name__)
def test_a_person_sees_both_texts(how: Callable[[Notebook], tuple[str, str]], tmp_path: Path) -> None:
    notebook = solved()
    kept, other = how(notebook)
    found = taken(tmp_path, notebook)
    [flag] = [note for note in found.notes if note.kind == "flagged"]
    assert flag.kept.strip() == kept.strip() and other.strip() in flag.other
    assert source(found.notebooks[NOTEBOOK], flag.cell).strip() == kept.strip()


def test_marks_that_turn_the_writing_in_code_are_flagged(tmp_path: Path) -> None:
    notebook = solved()
    of(notebook, PLAN)["source"] += "\n# \u202e} \u2066if admin\u2069 \u2066"
    assert [note.cell for note in taken(tmp_path, notebook).notes if note.kind == "flagged"] == [PLAN]


# --- random damage ----------------------------------------------------------------------------------------------------

Edit = tuple[str, int, int]
EDITS = st.tuples(
    st.sampled_from(
        [
            "drop metadata",
            "drop ids",
            "swap metadata",
            "swap cells",
            "insert code",
            "insert text",
            "double",
            "delete",
            "split",
            "merge",
            "change kind",
            "blank below",
        ]
    ),
    st.integers(0, 10_000),
    st.integers(0, 10_000),
)


def apply(cells: list[Cell], edits: list[Edit], filled: list[str]) -> list[Cell]:
    """As a student's tools or hands might, mostly near the answers; a cell with an answer is never deleted."""

    def pick(number: int) -> int:
        word = filled[number % len(filled)]
        near = [index + number // 7 % 5 - 2 for index, cell in enumerate(cells) if word in cell.source]
        return (near[0] if near and number % 7 else number) % len(cells)

    for what, one, other in edits:
        i, j = pick(one), pick(other)
        cell = cells[i]
        match what:
            case "drop metadata":
                cell.grade_id = ""
            case "drop ids":
                cell.id = ""
            case "swap metadata":
                cells[j].grade_id, cell.grade_id = cell.grade_id, cells[j].grade_id
            case "swap cells":
                cells[i], cells[j] = cells[j], cells[i]
            case "insert code":
                cells.insert(i, Cell("code", f"own_{other} = {other}"))
            case "insert text":
                cells.insert(i, Cell("markdown", f"A note of mine, number {other}."))
            case "double" | "blank below":
                text = cell.source if what == "double" else ""
                cells.insert(i + 1, Cell(cell.kind, text, cell.grade_id, cell.id))
            case "delete":
                if not any(word in cell.source for word in filled):
                    del cells[i]
            case "split":
                lines = cell.source.split("\n")
                cut = other % len(lines)
                cell.source = "\n".join(lines[:cut])
                cells.insert(i + 1, Cell(cell.kind, "\n".join(lines[cut:]), cell.grade_id if other % 2 else "", ""))
            case "merge":
                if i + 1 < len(cells):
                    cell.source += "\n\n" + cells.pop(i + 1).source
            case "change kind":
                cell.kind = ("code", "markdown", "raw")[other % 3]
    return cells


@pytest.mark.parametrize("edition", ("en", "zh"))
@given(edits=st.lists(EDITS, min_size=1, max_size=12))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_edits_lose_an_answer_without_a_word(edition: str, edits: list[Edit]) -> None:
    notebook = solved(edition)
    words = {PLAN: "take = min(need, token_budget)", "source_mapping": '"Request.num_computed_tokens"'}
    words[ESSAY] = answers(edition)[ESSAY].partition("\n")[0]
    cells = [
        Cell(c["cell_type"], c["source"], c["metadata"].get("nbgrader", {}).get("grade_id", ""), c["id"], number)
        for number, c in enumerate(notebook["cells"], 1)
    ]
    cells = apply(cells, edits, list(words.values()))
    released = identify(f"{NOTEBOOK}.ipynb", cells, KNOWN)
    assert released is not None and released.name == NOTEBOOK
    transplant = Transplant(released, cells)
    for grade_id, word in words.items():
        if not any(word in cell.source for cell in cells):
            continue  # split in the word itself
        graded = source(transplant.notebook, grade_id)
        assert word in graded or any(_tells(note, word) for note in transplant.notes), (grade_id, transplant.notes)


def _tells(note: Note, word: str) -> bool:
    return note.kind in ("flagged", "edited") and word in note.other
