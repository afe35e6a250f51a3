"""Notebooks 0, 1 and 4 as a student works in them: an exercise is left blank, then filled in, and the player is moved."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from tests.browser.jupyterlab import NotebookPage, browser_page, jupyterlab
from tests.browser.player import PlayerView
from tests.lesson.notebooks import ROOT
from tools.answers import answered

pytestmark = pytest.mark.requires_debian("chromium", "fonts-noto-cjk")

SCREENSHOTS = ROOT / "build" / "screenshots"


@dataclass(frozen=True)
class Walk:
    """Where the exercise, its check and the player stand in one notebook; cells are named by what their code holds."""

    name: str
    language: str
    exercise: str  # its grade id
    begins: str
    check: str
    good: str
    before_player: str
    player: str
    button: Literal["next", "next preemption"]
    told: str


WALKS = [
    Walk(
        "0-start-here",
        "en",
        "kv_bytes_per_token",
        "def kv_bytes_per_token",
        "check_kv_bytes_per_token(kv",
        "kv_bytes_per_token: ok",
        "demonstration = [",
        "demonstration = [",
        "next",
        "B admitted",
    ),
    Walk(
        "1-budget-planner",
        "zh",
        "unified_token_plan",
        "def unified_token_plan",
        'run_planner(unified_token_plan, "spare")',
        "every plan equals the engine's",
        "crowded = Load(",
        "play(record(crowded))",
        "next preemption",
        "B preempted: A needs 1 block, 0 free, B is the tail of running",
    ),
    Walk(
        "4-preemption",
        "en",
        "select_victim",
        "def select_victim",
        "check_select_victim(select",
        "select_victim: ok",
        "shortage = Load(",
        "shortage = Load(",
        "next preemption",
        "C preempted: A needs 1 block, 0 free, C is the tail of running",
    ),
]


@pytest.fixture(params=WALKS, ids=lambda walk: walk.name)
def walk(request: pytest.FixtureRequest) -> Walk:
    found: Walk = request.param
    return found


@pytest.fixture
def notebook(walk: Walk, tmp_path: Path) -> Iterator[NotebookPage]:
    """The released notebook, open in JupyterLab, in a folder of its own."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    shutil.copytree(ROOT / "course" / walk.language / "lesson-2", tmp_path / "lesson-2")
    with jupyterlab(tmp_path / "lesson-2", tmp_path / "home") as address, browser_page() as page:
        yield NotebookPage.open(page, address, f"{walk.name}.ipynb")


def solution(walk: Walk) -> str:
    cells = answered(walk.name, walk.language).cells
    (source,) = [c.source for c in cells if c.metadata.get("nbgrader", {}).get("grade_id") == walk.exercise]
    return str(source)


def test_a_student_fills_in_an_exercise_and_moves_the_player(notebook: NotebookPage, walk: Walk) -> None:
    notebook.run("from minivllm.lesson import *")
    notebook.run(walk.begins)
    assert "______" in notebook.run(walk.check).locator(".jp-OutputArea").inner_text()
    notebook.rewrite(notebook.cell(walk.begins), solution(walk))
    notebook.run(walk.begins)
    assert walk.good in notebook.run(walk.check).locator(".jp-OutputArea").inner_text()

    notebook.run(walk.before_player)
    notebook.run(walk.player)
    player = PlayerView.of(notebook, walk.player)
    assert player.step == 0
    picture = player.stage.inner_html()
    player.press(walk.button)
    assert player.step > 0 and player.stage.inner_html() != picture
    assert any(walk.told in sentence for sentence in player.sentences), player.sentences
    notebook.screenshot(player.stage, SCREENSHOTS / f"{walk.name}-player.png")
    assert not notebook.errors()
