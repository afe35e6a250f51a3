"""A student's way through the released notebook, in JupyterLab in a real browser."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from minivllm.lesson.predictions import QUESTIONS
from tests.browser.jupyterlab import NotebookPage, browser_page, jupyterlab
from tests.lesson.notebooks import LANGUAGES, ROOT, source

pytestmark = pytest.mark.requires_debian("chromium", "fonts-noto-cjk")

NAME = "1-budget-planner"
TEMPLATE = {"en": "State changes:", "zh": "状态变化："}
SCREENSHOTS = ROOT / "build" / "screenshots"


@pytest.fixture(params=LANGUAGES)
def language(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def notebook(language: str, tmp_path: Path) -> Iterator[NotebookPage]:
    """The released notebook of one edition, open in JupyterLab, in a folder of its own."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    shutil.copytree(ROOT / "course" / language / "lesson-2", tmp_path / "lesson-2")
    with jupyterlab(tmp_path / "lesson-2", tmp_path / "home") as address, browser_page() as page:
        yield NotebookPage.open(page, address, f"{NAME}.ipynb")


def solution(grade_id: str) -> str:
    return str(next(c.source for c in source(NAME).cells if c.metadata.get("nbgrader", {}).get("grade_id") == grade_id))


def test_a_student_fills_in_the_blanks_and_validates(notebook: NotebookPage, language: str) -> None:
    notebook.run_all()
    assert QUESTIONS["worked_example"].asks in notebook.cell('settle("worked_example")').inner_text()
    notebook.screenshot(notebook.cell("reqs = ["), SCREENSHOTS / f"{language}-1-blank.png")
    (error,) = notebook.errors()
    assert "the blank ______ is not filled in" in error
    assert "the blank ______ is not filled in" in notebook.validate()
    notebook.dismiss()

    notebook.rewrite(notebook.cell('predict("worked_example"'), 'predict("worked_example", {"A": 4, "B": 7})')
    notebook.rewrite(notebook.cell("def unified_token_plan"), solution("unified_token_plan"))
    notebook.rewrite(notebook.cell("source_mapping = {"), solution("source_mapping"))
    notebook.run_all()
    assert not notebook.errors()
    settled = notebook.cell('settle("worked_example")')
    assert "differs" in settled.inner_text() and "min(7, budget left 4) = 4" in settled.inner_text()
    picture = notebook.cell("step = watch_step(scheduler)").locator("img")
    assert (picture.get_attribute("alt") or "").startswith("Token budget 8, 0 left. A (running): 6 computed before")
    assert picture.evaluate("image => image.naturalWidth") > 0
    assert "every plan equals the engine's" in notebook.cell('run_planner(unified_token_plan, "spare")').inner_text()
    notebook.screenshot(picture, SCREENSHOTS / f"{language}-2-step.png")
    notebook.screenshot(
        notebook.cell('run_planner(unified_token_plan, "slots")'), SCREENSHOTS / f"{language}-3-beside.png"
    )

    assert "You did not provide a response." in notebook.validate()
    notebook.dismiss()
    notebook.rewrite_markdown(TEMPLATE[language], "A: 10 - 6. B: 7 - 0.")
    accepted = notebook.validate()
    notebook.page.screenshot(path=SCREENSHOTS / f"{language}-4-validated.png")
    assert "Success! Your notebook passes all the tests." in accepted
