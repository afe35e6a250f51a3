"""What did not run is told, with why; and nothing is said of a planner that never ran."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from nbformat import NotebookNode

from autograder.intake.notes import Note
from autograder.running import trusted
from autograder.running.beside import MAX_BYTES, MAX_FILES, kept
from autograder.running.cells import NO_FILES, Executed
from autograder.running.pipe import Process
from tests.autograder.classroom import NOTEBOOK
from tests.autograder.intake.solved import (
    FULL,
    PLANNER,
    Notebook,
    executed,
    insert,
    new,
    of,
    place,
    points_of,
    released,
    solved,
    taken,
)
from tests.autograder.odd.cases import PLAN, SMALLER

pytestmark = pytest.mark.requires_debian("bubblewrap")
HELPER = "def smaller(a, b):\n    return min(a, b)"
WRONG = PLANNER.replace("min(need, token_budget)", "need")
NOTHING = dict.fromkeys(("plan_examples", "plan_main_path", "plan_boundaries"), 0.0)
LOST = {**FULL, **NOTHING}


def run(notebook: Notebook, folder: Path, files: Mapping[str, bytes] = NO_FILES) -> tuple[Executed, list[Note]]:
    found = taken(folder, notebook)
    ran = executed(found.notebooks[NOTEBOOK], files)
    return ran, [*found.notes, *ran.notes]


def with_answer(source: str) -> Notebook:
    notebook = solved()
    of(notebook, PLAN)["source"] = source
    return notebook


def said(ran: Executed) -> str:
    return " ".join(output.get("evalue", "") for grade_id in NOTHING for output in ran.outputs[grade_id])


def flagged(notes: list[Note]) -> str:
    return " ".join(note.text for note in notes if note.kind == "flagged")


def not_run(notes: list[Note]) -> str:
    return " ".join(note.text for note in notes if note.kind == "not_run")


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (PLANNER.replace("unified_token_plan", "unified_plan"), "the cell does not define it"),
        (PLANNER.replace("token_budget):", "token_budget)", 1), "SyntaxError: expected ':'"),
        (f"@njit\n{PLANNER}", "NameError: name 'njit' is not defined"),
        (f"import os\nos._exit(0)\nraise SystemExit\n{WRONG.replace('unified_token_plan', 'p')}", "exit status 0"),
        ("import time\ntime.sleep(60)\nunified_token_plan = missing", "NameError: name 'missing' is not defined"),
        ("unified_token_plan = [time for time in iter(int, 1)]", "took longer than 4 s"),
        ("import os\nunified_token_plan = os._exit(3)", "exit status 3"),
        ("from my_answers import unified_token_plan", "No module named 'my_answers'"),
        ("%%bash\necho unified_token_plan", "the cell does not define it"),
        ("if False:\n" + PLANNER.replace("\n", "\n    ").join(["    ", ""]), "the cell does not define it"),
    ],
)
def test_of_a_planner_that_never_ran_nothing_else_is_said(answer: str, why: str, tmp_path: Path) -> None:
    ran, notes = run(with_answer(answer), tmp_path)
    assert points_of(ran) == LOST
    for grade_id in NOTHING:
        [output] = ran.outputs[grade_id]
        assert output["evalue"].startswith("unified_token_plan is not there: "), output
        assert why in output["evalue"] and "budget 8" not in output["evalue"]
    assert "unified_token_plan is not there" in flagged(notes)


def test_a_renamed_planner_is_found_for_a_person(tmp_path: Path) -> None:
    _, notes = run(with_answer(PLANNER.replace("unified_token_plan", "unified_plan")), tmp_path)
    assert "unified_token_plan defines unified_plan" in flagged(notes)


def test_a_planner_that_is_no_python_is_told_as_that_and_without_other_answers(tmp_path: Path) -> None:
    notebook = with_answer(PLANNER.replace("token_budget):", "token_budget)", 1))
    insert(notebook, PLAN, "demo = 'a cell with plenty of text in it, to look like code'")
    _, notes = run(notebook, tmp_path)
    told = [note for note in notes if note.kind == "flagged"]
    assert "unified_token_plan is no whole Python: line 1" in told[0].text and "expected ':'" in told[0].text
    assert not any("num_computed_tokens" in note.other or "found no place" in note.text for note in told), told


def test_a_helper_that_stands_in_a_text_cell_is_found_for_a_person(tmp_path: Path) -> None:
    notebook = with_answer(SMALLER)
    insert(notebook, PLAN, f"My helper:\n\n{HELPER}", kind="markdown")
    ran, notes = run(notebook, tmp_path)
    assert "name 'smaller' is not defined" in said(ran)
    assert "uses smaller, which is not there when it runs and stands in cell 45" in flagged(notes)


@pytest.mark.parametrize(
    ("helper", "why"),
    [
        ("import pandas as pd\nsmaller = pd.Series.min", "No module named 'pandas'"),
        (f"@numba.njit\n{HELPER}", "name 'numba' is not defined"),
        ("smaller = [n for n in iter(int, 1)]", "took longer than 4 s"),
        (f"%%cython\n{HELPER}", "%%cython"),
        (HELPER.replace("):", ")"), "SyntaxError: expected ':'"),
        ("import os\nsmaller = os._exit(1)", "exit status 1"),
    ],
)
def test_code_that_the_answer_needs_and_that_did_not_run_is_for_a_person(helper: str, why: str, tmp_path: Path) -> None:
    notebook = with_answer(SMALLER)
    insert(notebook, PLAN, helper)
    ran, notes = run(notebook, tmp_path)
    assert points_of(ran)["plan_examples"] == 0
    assert why in not_run(notes) and flagged(notes), notes


def test_what_is_left_out_is_told_without_need_of_a_person_where_no_point_is_lost(tmp_path: Path) -> None:
    notebook = solved()
    insert(notebook, PLAN, "!pip install pandas\nimport pandas as pd\nfiles = !ls\nlen?")
    ran, notes = run(notebook, tmp_path)
    assert points_of(ran) == FULL and not flagged(notes)
    [note] = [note for note in notes if note.kind == "not_run"]
    assert note.cell == "cell 45" and "!pip install pandas" in note.text and "!ls" in note.text


def test_a_demo_of_what_practice_cells_made_is_no_matter(tmp_path: Path) -> None:
    notebook = solved()
    insert(notebook, PLAN, "print(gaps(scheduler))")
    insert(notebook, PLAN, "unified_token_plan(reqs, 8)", 1)
    ran, notes = run(notebook, tmp_path)
    assert points_of(ran) == FULL and notes == []


def test_a_wrong_planner_is_no_matter_for_a_person(tmp_path: Path) -> None:
    ran, notes = run(with_answer(WRONG), tmp_path)
    assert points_of(ran)["plan_examples"] == 0 and notes == []


def test_practice_never_runs_and_what_was_added_to_it_does(tmp_path: Path) -> None:
    notebook = with_answer(SMALLER.replace("smaller(need", "smaller(ran and need"))
    practice = [c for c in notebook["cells"] if c["source"].startswith("predict(")]
    assert len(practice) > 3
    insert(notebook, PLAN, "ran = []\ndef predict(*a, **k):\n    ran.append(a)\nrun_planner = against_vllm = predict")
    for cell in practice:
        cell["source"] = cell["source"].replace("______", "3")
    practice[-1]["source"] += f"\n{HELPER}"
    insert(notebook, PLAN, "assert not ran\nran = True")
    ran, notes = run(notebook, tmp_path)
    assert points_of(ran) == FULL, ran.outputs
    assert not_run(notes) == ""


def test_notes_are_few_and_short_whatever_the_notebook_holds(tmp_path: Path) -> None:
    notebook = solved()
    for number in range(200):
        insert(notebook, PLAN, f"undefined_{number}\n" * 20 + "x" * 3000)
    ran, _ = run(notebook, tmp_path)
    assert points_of(ran) == FULL
    assert 0 < len(ran.notes) <= 25 and all(len(note.text) < 2000 for note in ran.notes)


def test_a_statement_that_ends_the_process_again_and_again_leaves_the_definitions(tmp_path: Path) -> None:
    notebook = with_answer(SMALLER)
    for _ in range(12):
        insert(notebook, PLAN, "import os\nos._exit(1)")
    insert(notebook, PLAN, HELPER)
    ran, _ = run(notebook, tmp_path)
    assert points_of(ran) == FULL


def test_a_notebook_takes_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []

    class Counted(Process):
        def __init__(self, module: str, cpu_seconds: int) -> None:
            started.append(module)
            super().__init__(module, cpu_seconds)

    monkeypatch.setattr(trusted, "Process", Counted)
    notebook = solved()
    for number in range(100):
        insert(notebook, PLAN, f"!ls\nx{number} = {number}\nraise RuntimeError\nprint(x{number})")
    ran, _ = run(notebook, tmp_path)
    assert points_of(ran) == FULL and len(started) == 1


# --- files beside the notebook ----------------------------------------------------------------------------------------

RAISES = b"raise RuntimeError('shadowed')\n"
LIES = b"def encode(value):\n    return {'tuple': [{'dict': []}, 0]}\nanswer = read_reply = describe = encode\n"


def test_files_take_no_module_of_the_tests_place(tmp_path: Path) -> None:
    names = ("json", "ast", "base64", "linecache", "asyncio", "inspect", "re", "random", "IPython", "numpy", "codecs")
    files = {f"{name}.py": RAISES for name in names}
    files |= {"minivllm/__init__.py": RAISES, "minivllm/lesson/outcome.py": LIES, "minivllm/lesson/encoding.py": LIES}
    files |= {"outcome.py": LIES, "sitecustomize.py": RAISES, "helpers.py": HELPER.encode()}
    shown = "import json, random, base64, numpy, minivllm.lesson.outcome\nfrom helpers import smaller\n"
    proof = "assert 'packages' in minivllm.__file__ and json.loads('1') == 1 and numpy.ones(1)[0] == 1\n"
    ran, _ = run(with_answer(f"{shown}{proof}{SMALLER}\ndisplay(3)"), tmp_path, files)
    assert points_of(ran) == FULL and ran.notes == [] and ran.outputs[PLAN] == []
    ran, _ = run(with_answer(WRONG), tmp_path, files)
    assert points_of(ran)["plan_examples"] == 0 and ran.faults == []


def test_files_with_odd_names_or_too_many_bytes_are_left_out_and_named() -> None:
    odd = dict.fromkeys(("../up.py", "/abs.py", ".hidden", "a//b.py", "a\\b.py", "new\nline", "x" * 999, ""), b"x")
    large = {"large.csv": b"x" * MAX_BYTES}
    found, told = kept({**odd, **large, "good.py": b"x", "sub/good.txt": b"", "other.ipynb": b"{}"})
    assert set(found) == {"good.py", "sub/good.txt"}
    assert len(told) == len(odd) + 1 and all(len(text) < 400 for text in told)
    found, told = kept({f"{number}.txt": b"" for number in range(MAX_FILES + 5)})
    assert len(found) == MAX_FILES and len(told) == 5


def test_the_metadata_of_the_rebuilt_notebook_is_no_way_around(tmp_path: Path) -> None:
    """A student's own metadata counts for nothing: the released cells are taken fresh."""
    notebook = solved()
    for cell in notebook["cells"]:
        cell["metadata"]["minivllm"] = {"own": "unified_token_plan = None", "cell": "x" * 9999}
    rebuilt: NotebookNode = taken(tmp_path, notebook).notebooks[NOTEBOOK]
    assert not any("minivllm" in cell.metadata for cell in rebuilt.cells)


def test_right_code_that_is_slow_waits_for_a_person_where_it_loses_points(tmp_path: Path) -> None:
    slow = PLANNER.replace("    plan = {}", "    import time; time.sleep(2.5)\n    plan = {}")
    ran, notes = run(with_answer(slow), tmp_path)
    assert points_of(ran) != FULL
    assert "unified_token_plan lost points where a call gave no answer" in flagged(notes)


def test_a_planner_of_another_name_is_taken_through_its_alias(tmp_path: Path) -> None:
    """The answer's cell is as it was released; two cells of the student's own stand below it."""
    notebook = with_answer(of(released(), PLAN)["source"])
    for source in ("unified_token_plan = my_plan", PLANNER.replace("unified_token_plan", "my_plan")):
        notebook["cells"].insert(place(notebook, PLAN) + 1, new(source))
    ran, _ = run(notebook, tmp_path)
    assert points_of(ran) == FULL


def test_a_wrapper_of_the_answer_is_no_second_answer(tmp_path: Path) -> None:
    notebook = solved()
    wrapper = "def logged(f):\n    return lambda *given: f(*given)\n\nunified_token_plan = logged(unified_token_plan)"
    notebook["cells"].insert(place(notebook, PLAN) + 1, new(wrapper))
    ran, notes = run(notebook, tmp_path)
    assert points_of(ran) == FULL and not flagged(notes)
