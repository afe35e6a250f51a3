"""The answer edition: a notebook with its answers, run, as .ipynb and .html in both languages."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.lesson.notebooks import LANGUAGES, ROOT, code_cells, printed

NAME = "1-budget-planner"
MODEL_ANSWER = {
    "en": "Chain:** Because only the distance to the target counts",
    "zh": "因果链：** 因为只看离目标还差多少",
}


def run_tool(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, str(ROOT / "tools" / "answers.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("answers")
    done = run_tool(NAME, "--out", str(folder))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{NAME:<18} ") and " s\n" in done.stdout, "it prints how long the notebook ran"
    return folder


def read(folder: Path, language: str) -> Any:
    return nbformat.read(folder / language / "lesson-2" / f"{NAME}.ipynb", as_version=4)  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_cell_was_run_and_every_prediction_holds(answers: Path, language: str) -> None:
    cells = code_cells(read(answers, language))
    assert all(cell.execution_count for cell in cells)
    settled = [printed(cell) for cell in cells if cell.source.startswith("settle(")]
    assert settled and all("same" in text and "differs" not in text for text in settled)


@pytest.mark.parametrize("language", LANGUAGES)
def test_it_holds_the_model_answers_without_marks_and_no_hidden_test(answers: Path, language: str) -> None:
    text = "\n".join(cell.source for cell in read(answers, language).cells)
    assert 'need = request["total_with_spec"] - request["computed"]' in text
    assert MODEL_ANSWER[language] in text
    for mark in ("BEGIN SOLUTION", "END SOLUTION", "HIDDEN TESTS", "autograder", "______ "):
        assert mark not in text


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_page_shows_answers_and_outputs_in_its_language(answers: Path, language: str) -> None:
    page = (answers / language / "lesson-2" / f"{NAME}.html").read_text(encoding="utf-8")
    assert f'<html lang="{language}">' in page
    assert "every plan equals the engine" in page
    assert ("因果链" in page) == (language == "zh")


def test_both_languages_show_the_outputs_of_one_run(answers: Path) -> None:
    english, chinese = ([cell.outputs for cell in code_cells(read(answers, language))] for language in LANGUAGES)
    assert english == chinese


def test_an_unknown_notebook_is_refused() -> None:
    done = run_tool("9-nothing")
    assert done.returncode == 2
    assert "no notebook '9-nothing': choose of 0-start-here, 1-budget-planner" in done.stderr
