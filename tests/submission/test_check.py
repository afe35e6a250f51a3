"""What `minivllm check-submission` finds in a file before it is handed in, and how it says to mend it."""

import copy
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autograder.release.course import record_of
from minivllm.submission.check import MAX_OUTPUTS, RECORD, SubmissionError, check_file, read_notebook, released
from tests.lesson.notebooks import LANGUAGES, NAMES, ROOT
from tools.answers import answered

NAME = "1-budget-planner"
Cells = list[dict[str, Any]]


@pytest.fixture(scope="module")
def answers() -> str:
    return json.dumps(answered(NAME, "en"))


@pytest.fixture
def good(answers: str) -> Any:
    """A notebook that holds every answer, as JupyterLab saves it."""
    return json.loads(answers)


def saved(notebook: Any, folder: Path, name: str = f"{NAME}.ipynb") -> Path:
    path = folder / name
    path.write_text(json.dumps(notebook), encoding="utf-8")
    return path


def of(cells: Cells, grade_id: str) -> dict[str, Any]:
    return next(cell for cell in cells if cell["metadata"].get("nbgrader", {}).get("grade_id") == grade_id)


def found(notebook: Any, folder: Path, name: str = f"{NAME}.ipynb") -> list[str]:
    return list(map(str, check_file(saved(notebook, folder, name))))


def test_the_record_in_the_package_is_that_of_the_released_notebooks() -> None:
    assert RECORD.read_text(encoding="utf-8") == record_of(), "run `make course`"


def test_the_record_holds_fingerprints_and_no_text() -> None:
    assert {key for cells in json.loads(RECORD.read_text()).values() for cell in cells for key in cell} == {
        "grade_id",
        "cell_type",
        "kind",
        "graded",
        "fingerprints",
        "targets",
    }


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_finished_notebook_has_no_problem(name: str, language: str, tmp_path: Path) -> None:
    assert found(answered(name, language), tmp_path, f"{name}.ipynb") == []


def test_colabs_format_without_cell_ids_and_without_a_kernels_language_is_no_problem(good: Any, tmp_path: Path) -> None:
    good["nbformat_minor"] = 0
    good["metadata"] = {"colab": {"provenance": []}, "kernelspec": {"name": "python3", "display_name": "Python 3"}}
    for cell in good["cells"]:
        del cell["id"]
        cell["source"] = cell["source"].splitlines(keepends=True)
    assert found(good, tmp_path) == []


@pytest.mark.parametrize("name", NAMES)
def test_the_released_notebook_lacks_every_graded_answer_and_nothing_else(name: str) -> None:
    problems = check_file(ROOT / "course" / "zh" / "lesson-2" / f"{name}.ipynb")
    wanted = [cell.grade_id for cell in released()[name] if cell.graded and cell.kind != "locked"]
    assert [problem.cell for problem in problems] == wanted
    assert all("blank ______" in problem.what or "no answer" in problem.what for problem in problems)


def test_practice_is_no_part_of_what_is_handed_in() -> None:
    graded = {name: [cell.grade_id for cell in cells if cell.graded] for name, cells in released().items()}
    assert graded[NAME] == [
        "unified_token_plan",
        "plan_examples",
        "plan_main_path",
        "plan_boundaries",
        "source_mapping",
        "source_mapping_check",
        "q1_answer",
    ]


def lose_all_metadata(cells: Cells) -> None:
    for cell in cells:
        cell["metadata"] = {}


def lose_one(cells: Cells) -> None:
    cells.remove(of(cells, "plan_main_path"))


def double_one(cells: Cells) -> None:
    cells.insert(0, copy.deepcopy(of(cells, "plan_main_path")))


def move_the_answer_to_the_end(cells: Cells) -> None:
    answer = of(cells, "unified_token_plan")
    cells.remove(answer)
    cells.append(answer)


def edit_a_test(cells: Cells) -> None:
    of(cells, "plan_examples")["source"] = "pass"


def turn_into_text(cells: Cells) -> None:
    of(cells, "unified_token_plan")["cell_type"] = "markdown"


def leave_a_blank(cells: Cells) -> None:
    of(cells, "unified_token_plan")["source"] += "\nx = ______"


def break_the_answer(cells: Cells) -> None:
    of(cells, "unified_token_plan")["source"] = "def unified_token_plan(requests, token_budget:\n    return {}\n"


def return_outside(cells: Cells) -> None:
    of(cells, "unified_token_plan")["source"] += "\nreturn plan"


def import_what_grading_lacks(cells: Cells) -> None:
    of(cells, "unified_token_plan")["source"] += "\nimport json, numpy.linalg\nfrom no_such_package.part import x"


def leave_the_template(cells: Cells) -> None:
    of(cells, "q1_answer")["source"] = "  \n"


@pytest.mark.parametrize(
    ("spoil", "cell", "what", "remedy"),
    [
        (lose_all_metadata, "", "the metadata by which grading finds your answers is gone from every cell", "open a fresh copy"),
        (lose_one, "plan_main_path", "this cell or its metadata is missing", "open a fresh copy"),
        (double_one, "plan_main_path", "this cell is there 2 times (cells 1 and ", "delete the copies"),
        (move_the_answer_to_the_end, "plan_examples", "this cell stands above unified_token_plan", "move it back below it"),
        (edit_a_test, "plan_examples", "this cell was changed, and only its original counts", "undo the change"),
        (turn_into_text, "unified_token_plan", "this is a markdown cell and was a code cell", "turn it back into a code cell"),
        (leave_a_blank, "unified_token_plan", "there is a blank ______ left", "fill it in"),
        (break_the_answer, "unified_token_plan", "line 1 is no Python (SyntaxError: '(' was never closed)", "correct it"),
        (return_outside, "unified_token_plan", "line ", "correct it"),
        (import_what_grading_lacks, "unified_token_plan", "it imports no_such_package, which grading lacks", "write it"),
        (leave_the_template, "q1_answer", "there is no answer yet", "write it into this cell"),
    ],
)  # fmt: skip
def test_a_spoilt_cell_is_named_with_what_happened_and_what_to_do(
    good: Any, tmp_path: Path, spoil: Callable[[Cells], None], cell: str, what: str, remedy: str
) -> None:
    spoil(good["cells"])
    (problem,) = check_file(saved(good, tmp_path))
    assert problem.cell == cell
    assert problem.what.startswith(what)
    assert problem.remedy.startswith(remedy)


def test_a_students_own_cell_is_read_too_as_a_notebook_reads_it(good: Any, tmp_path: Path) -> None:
    own: dict[str, Any] = {"cell_type": "code", "metadata": {}, "execution_count": None, "outputs": []}
    fine = [
        "%matplotlib inline\n!ls\nx = 1\nif x:\n    %time len(x)",
        "len?\nawait f()",
        "%%time\ndef f():\n    return 1",
        "",
    ]
    good["cells"] += [{**own, "source": source} for source in [*fine, "x ="]]
    number = len(good["cells"])
    assert found(good, tmp_path) == [
        f"cell {number}: line 1 is no Python (SyntaxError: invalid syntax); correct it, run the cell and save"
    ]


HELPED = ("min(need, token_budget)", "smaller(need, token_budget)")
SMALLER = "def smaller(a, b):\n    return min(a, b)"
SPEAKS: tuple[tuple[str, str, str], ...] = (
    ("", "rename", "unified_token_plan: unified_token_plan is not defined: unified_token_plan defines unified_plan"),
    ("", "no colon", "unified_token_plan: line 1 is no Python (SyntaxError: expected ':')"),
    ("", "text", "line 1 is no Python"),
    ("", "%load_ext cudf\nimport pandas as pd", "it imports pandas, which grading lacks"),
    ("", "files = !ls", "line 1 (!ls) is a shell line, which grading does not run"),
    ("", "!pip install pandas", "line 1 (!pip install pandas) is a shell line, which grading does not run"),
    ("", "name = input()", "line 1 (name = input()) fails when it is graded: EOFError"),
    ("", "import time\ntime.sleep(60)", "line 2 (time.sleep(60)) fails when it is graded: it took longer than 4 s"),
    ("", "import os\nos._exit(0)", "line 2 ended the process"),
    ("", "d = {'a': 1}\nprint(f'{d['a']}')", "line 2 is Python 3.12 syntax, and grading may run Python 3.11"),
    ("", "type Plan = dict[str, int]", "line 1 is Python 3.12 syntax"),
    ("", "class Box[T = int]: ...", "line 1 is Python 3.13 syntax"),
    ("", "from no_helpers import smaller", "it imports no_helpers, which grading lacks"),
    ("import pandas\nsmaller = pandas.Series.min", "", "cell 45: it imports pandas, which grading lacks"),
    ("from no_helpers import smaller", "", "cell 45: it imports no_helpers, which grading lacks"),
    (f"@njit\n{SMALLER}", "", "cell 45: line 1 (@njit def smaller(a, b): return min(a, b)) fails when it is graded: NameError"),
    (f"%%bash\n{SMALLER}", "", "cell 45: it is a cell for %%bash, which grading does not run"),
    (f"%%cython\n{SMALLER}", "", "cell 45: it is a cell for %%cython, which grading does not run"),
    ("lesser = min", "", "unified_token_plan: it uses smaller, which no cell defines when it is graded"),
    ("x = 3 +\n" + SMALLER, "", "cell 45: line 1 is no Python"),
    ("table = {}\nfor name in ['a']:\n    table[name] = undefined\nsmaller = table['a']", "", "fails when it is graded: KeyError"),
)  # fmt: skip


@pytest.mark.parametrize(("own", "above", "what"), SPEAKS)
def test_what_grading_leaves_out_or_misses_is_told(good: Any, tmp_path: Path, own: str, above: str, what: str) -> None:
    cell = of(good["cells"], "unified_token_plan")
    if own:
        new: dict[str, Any] = {"cell_type": "code", "metadata": {}, "execution_count": None, "outputs": []}
        new["source"] = own
        good["cells"].insert(good["cells"].index(cell), new)
        assert HELPED[0] in cell["source"]
        cell["source"] = cell["source"].replace(*HELPED)
    elif above == "rename":
        cell["source"] = cell["source"].replace("unified_token_plan", "unified_plan")
    elif above == "no colon":
        cell["source"] = cell["source"].replace("token_budget):", "token_budget)", 1)
    elif above == "text":
        cell["source"] = "This is my planner:\n" + cell["source"]
    else:
        cell["source"] = f"{above}\n{cell['source']}"
    problems = found(good, tmp_path)
    assert any(what in problem for problem in problems), problems
    assert len(problems) < 4


def test_a_helper_that_stands_anywhere_or_lies_beside_the_notebook_is_no_problem(good: Any, tmp_path: Path) -> None:
    (tmp_path / "helpers.py").write_text(SMALLER, encoding="utf-8")
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "more.py").write_text("low = min\n", encoding="utf-8")
    cell = of(good["cells"], "unified_token_plan")
    cell["source"] = "from helpers import smaller\nfrom tools.more import low\n" + cell["source"].replace(*HELPED)
    new: dict[str, Any] = {"cell_type": "code", "metadata": {}, "execution_count": None, "outputs": []}
    good["cells"] += [{**new, "source": "def further_down():\n    return low"}]
    cell["source"] += "\ndef check():\n    return further_down()"
    assert found(good, tmp_path) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{NAME}.ipynb", "helpers.py", "tools"]


@pytest.mark.parametrize("name", [f"{NAME} (1).ipynb", f"{NAME}-Copy1.ipynb", f"Copy of {NAME}.ipynb", "hw.ipynb"])
def test_a_wrong_file_name_is_told_with_the_right_one(good: Any, tmp_path: Path, name: str) -> None:
    assert found(good, tmp_path, name) == [f"the file is called {name}; rename it to {NAME}.ipynb"]


def test_a_notebook_of_something_else_is_told(tmp_path: Path) -> None:
    other = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": []}
    (problem,) = found(other, tmp_path, "other.ipynb")
    assert problem.startswith("other.ipynb is none of the lesson's notebooks; hand in one of ")


def test_large_outputs_are_told_with_the_largest_cell(good: Any, tmp_path: Path) -> None:
    cell = next(cell for cell in good["cells"] if cell["cell_type"] == "code")
    cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "x" * 2 * MAX_OUTPUTS}]
    where = good["cells"].index(cell) + 1
    (problem,) = found(good, tmp_path)
    assert problem.startswith(f"the outputs take 20 MiB (most in cell {where}), 10 are taken; clear them")


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "not JSON in UTF-8"),
        (b"# In[1]:\nprint(1)\n", "not JSON in UTF-8"),
        (b"\xff\xfe{\x00}\x00", "not JSON in UTF-8"),
        (b"\xef\xbb\xbf{}", "no notebook"),
        (b"[" * 100_000, "not JSON in UTF-8"),
        (b"[]", "JSON, but no notebook"),
        (b'{"nbformat": "4"}', "JSON, but no notebook"),
        (b'{"nbformat": 3, "worksheets": []}', "the old format 3, and grading reads format 4; open it in JupyterLab and save it"),
        (b'{"nbformat": 4}', "no proper list of cells"),
        (b'{"nbformat": 4, "cells": [1]}', "no proper list of cells"),
        (b'{"nbformat": 4, "cells": [{"cell_type": "code", "metadata": {}, "source": [1]}]}', "no proper list of cells"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_notebook_is_told_in_one_sentence(data: bytes, told: str, tmp_path: Path) -> None:
    with pytest.raises(SubmissionError, match=told):
        read_notebook(data)
    path = tmp_path / f"{NAME}.ipynb"
    path.write_bytes(data)
    (problem,) = check_file(path)
    assert told in str(problem) and "\n" not in str(problem)


@pytest.mark.parametrize("metadata", [{"nbgrader": None}, {"nbgrader": []}, {"nbgrader": {"grade_id": 7}}])
def test_nonsense_in_the_metadata_counts_as_none(good: Any, tmp_path: Path, metadata: Any) -> None:
    of(good["cells"], "plan_main_path")["metadata"] = metadata
    (problem,) = check_file(saved(good, tmp_path))
    assert (problem.cell, problem.what) == ("plan_main_path", "this cell or its metadata is missing")


def run_command(*arguments: object) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "minivllm", "check-submission", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_command_says_0_for_good_1_for_problems_and_2_for_a_wrong_command_line(good: Any, tmp_path: Path) -> None:
    path = saved(good, tmp_path)
    done = run_command(path)
    assert (done.returncode, done.stdout) == (0, f"{NAME}.ipynb: no problems\n")

    lose_one(good["cells"])
    done = run_command(path, saved(good, tmp_path, "a.ipynb"))
    assert done.returncode == 1
    assert f"{NAME}.ipynb: no problems\na.ipynb: 2 problems\n- the file is called a.ipynb; rename it" in done.stdout

    done = run_command(tmp_path)
    assert done.returncode == 1
    assert done.stdout.startswith(f"{NAME}.ipynb: no problems\na.ipynb: 2 problems\n"), "a folder is its notebooks"

    (tmp_path / "empty").mkdir()
    for arguments in ((), (tmp_path / "absent.ipynb",), (tmp_path / "empty",)):
        done = run_command(*arguments)
        assert done.returncode == 2
        assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
