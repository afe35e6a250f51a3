"""Every notebook runs top to bottom: solved without an error and in time, released with errors only where work is asked.

The code cells of both editions are equal (test_every_notebook.py says so), so that each is run once: the solved notebook
in English, the released one in Chinese.
"""

import ast
import functools
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.lesson.notebooks import BLANK, NAMES, code_cells, execute, printed, released, solved, source

LIMIT_SECONDS, LIMIT_OF_ALL = 180, 720

Run = Callable[[str], tuple[Any, float]]


def timed(notebook: Any, folder: Path, **options: bool) -> tuple[Any, float]:
    started = time.monotonic()
    return execute(notebook, folder, **options), time.monotonic() - started


@pytest.fixture(scope="module")
def solved_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs a notebook the first time that it is asked for."""
    return functools.cache(lambda name: timed(solved(name, "en"), tmp_path_factory.mktemp(name)))


@pytest.fixture(scope="module")
def released_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return functools.cache(lambda name: timed(released(name, "zh"), tmp_path_factory.mktemp(name), allow_errors=True))


@pytest.mark.parametrize("name", NAMES)
def test_the_solved_notebook_runs_top_to_bottom_in_time(name: str, solved_run: Run, record_property: Any) -> None:
    notebook, seconds = solved_run(name)
    record_property("notebook seconds", f"{seconds:6.1f}  {name}")
    assert seconds < LIMIT_SECONDS
    for cell in code_cells(notebook):
        assert not [output for output in cell.outputs if output.get("name") == "stderr"], cell.source
        text = printed(cell)
        assert not re.search(r"^object +expected +actual +why", text, re.MULTILINE), f"a check fails:\n{text}"
        assert not (cell.source.startswith("settle(") and "differs" in text), text


def test_all_solved_notebooks_together_run_in_time(solved_run: Run) -> None:
    assert sum(solved_run(name)[1] for name in NAMES) < LIMIT_OF_ALL


@pytest.mark.parametrize("name", NAMES)
def test_the_released_notebook_fails_only_where_work_is_asked_with_a_message_of_the_course(
    name: str, released_run: Run
) -> None:
    notebook, _ = released_run(name)
    unwritten = names_with_a_blank(notebook)
    for cell in code_cells(notebook):
        for output in cell.outputs:
            if output.output_type == "error":
                told = f"{output.ename}: {output.evalue}"
                assert asks_for_work(cell, unwritten), f"{cell.source}\n{told}"
                stated = output.ename == "AssertionError" and output.evalue and output.evalue in cell.source
                assert stated or told == f"BlankError: {BLANK}", f"{cell.source}\n{told}"
            assert output.get("name") != "stderr", cell.source


def names_with_a_blank(notebook: Any) -> set[str]:
    """What the student's cells define: functions, classes and variables."""
    trees = [ast.parse(cell.source) for cell in code_cells(notebook) if "______" in cell.source]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    functions = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    return functions | {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def asks_for_work(cell: Any, unwritten: set[str]) -> bool:
    names = {node.id for node in ast.walk(ast.parse(cell.source)) if isinstance(node, ast.Name)}
    return "______" in cell.source or "nbgrader" in cell.metadata or bool(names & unwritten)


@pytest.mark.parametrize("name", NAMES)
def test_the_released_notebook_asks_for_a_guess_and_reveals_nothing(name: str, released_run: Run) -> None:
    for cell in code_cells(released_run(name)[0]):
        if cell.source.startswith(("predict(", "settle(")):
            assert "Guess first: predict(" in printed(cell)


def graded_code(name: str) -> Any:
    """The solved notebook less every code cell that grading does not need."""
    notebook = source(name)
    notebook.cells = [
        cell for cell in code_cells(notebook) if "nbgrader" in cell.metadata or "setup" in cell.metadata.get("tags", [])
    ]
    return notebook


@pytest.mark.parametrize("name", [n for n in NAMES if any(c.metadata.get("nbgrader") for c in code_cells(source(n)))])
def test_graded_code_and_practice_need_the_set_up_cells_alone(name: str, tmp_path: Path) -> None:
    execute(graded_code(name), tmp_path)
