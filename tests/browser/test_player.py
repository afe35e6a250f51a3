"""The player in JupyterLab, in a real browser: it moves, it is quick, and it can be read on a dark page."""

from collections.abc import Iterator
from pathlib import Path
from statistics import median

import nbformat
import pytest
from playwright.sync_api import Page, expect

from tests.browser.jupyterlab import NotebookPage, browser_page, jupyterlab
from tests.browser.player import PlayerView
from tests.lesson.notebooks import ROOT

pytestmark = pytest.mark.requires_debian("chromium")

SCREENSHOTS = ROOT / "build" / "screenshots"
PYTHON = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
MOST_MILLISECONDS = 100
SLACK = 3  # a machine that runs other tests beside this one
SMALL = """
from minivllm.lesson import *
load = Load(
    [
        Arrival("A", 20, shared=12, max_tokens=6, drafts=2, accepted=1),
        Arrival("B", 30, step=1, shared=12, drafts=2, accepted=2, max_tokens=12),
        Arrival("C", 25, step=2, max_tokens=20),
        Arrival("D", 40, step=3),
    ],
    blocks=18, budget=16,
)
recording = record(load)
play(recording)
"""
LARGE = """
from minivllm.lesson import *
arrivals = [
    Arrival(f"r{i}", 60 + i % 17, step=i // 4, max_tokens=90, shared=32 * (i % 3 == 0), drafts=2, accepted=i % 3)
    for i in range(60)
]
large = record(Load(arrivals, blocks=256, block_size=16, budget=256, max_num_seqs=40))
play(large)
"""


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """A JupyterLab of the test's own: one that remembers no open tab."""
    (tmp_path / "work").mkdir()
    for name, code in (("small", SMALL), ("large", LARGE)):
        cells = [nbformat.v4.new_code_cell(code.strip())]  # type: ignore[no-untyped-call]
        notebook = nbformat.v4.new_notebook(cells=cells, metadata=PYTHON)  # type: ignore[no-untyped-call]
        nbformat.write(notebook, tmp_path / "work" / f"{name}.ipynb")  # type: ignore[no-untyped-call]
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    with jupyterlab(tmp_path / "work", tmp_path / "home") as address:
        yield address


@pytest.fixture
def page() -> Iterator[Page]:
    with browser_page() as page:
        yield page


def test_the_slider_and_the_jumps_change_the_step(address: str, page: Page) -> None:
    notebook = NotebookPage.open(page, address, "small.ipynb")
    notebook.run_all()
    player = PlayerView.of(notebook, "play(recording)")
    assert player.step == 0 and player.sentences == [
        "A admitted: no hit, 20 to compute; gets 16: that is all that was left of the budget"
    ]
    player.slide(2)
    assert any(sentence.startswith("C stays: needs 7 blocks") for sentence in player.sentences)
    player.press("next preemption")
    assert player.step == 6 and "C preempts itself" in player.sentences[0]
    notebook.screenshot(player.stage, SCREENSHOTS / "player-light.png")
    player.press("next")
    player.press("previous")
    assert player.step == 6
    assert "C preempts itself" in player.as_text()


def test_a_dark_page_has_a_dark_player_and_a_narrow_one_stacks_its_halves(address: str, page: Page) -> None:
    notebook = NotebookPage.open(page, address, "small.ipynb")
    notebook.run_all()
    player = PlayerView.of(notebook, "play(recording)")
    light = player.stage.evaluate("stage => getComputedStyle(stage).backgroundColor")
    page.evaluate("document.body.dataset.jpThemeLight = 'false'")
    dark = player.stage.evaluate("stage => getComputedStyle(stage).backgroundColor")
    assert (light, dark) == ("rgb(255, 255, 255)", "rgb(21, 24, 28)")
    ink = player.stage.locator("svg text").first.evaluate("text => getComputedStyle(text).fill")
    assert ink == "rgb(238, 241, 244)"
    player.press("next hit")
    notebook.screenshot(player.stage, SCREENSHOTS / "player-dark.png")
    page.set_viewport_size({"width": 760, "height": 1000})
    halves = player.stage.locator("svg")
    left, right = halves.first.bounding_box(), halves.last.bounding_box()
    assert left is not None and right is not None and right["y"] > left["y"] + left["height"]
    notebook.screenshot(player.stage, SCREENSHOTS / "player-narrow.png")


def test_a_step_of_forty_requests_and_256_blocks_changes_at_once(address: str, page: Page) -> None:
    notebook = NotebookPage.open(page, address, "large.ipynb")
    notebook.run_all()
    player = PlayerView.of(notebook, "play(large)")
    player.slide(20)
    times = [player.milliseconds_of_a_click("next") for _ in range(20)]
    print(f"from click to painted step: median {median(times):.0f} ms, at most {max(times):.0f} ms")
    assert median(times) < MOST_MILLISECONDS * SLACK, times
    page.set_viewport_size({"width": 1500, "height": 1400})
    player.press("next preemption")
    notebook.screenshot(player.stage, SCREENSHOTS / "player-large.png")


def test_a_notebook_that_is_only_opened_still_shows_the_stills(address: str, page: Page) -> None:
    notebook = NotebookPage.open(page, address, "small.ipynb")
    notebook.run_all()
    with page.expect_response(lambda sent: "/api/contents/" in sent.url and sent.request.method == "PUT"):
        notebook.menu("File", "Save Notebook")
    notebook.menu("Kernel", "Shut Down Kernel")
    page.reload()
    expect(page.locator(".jp-NotebookPanel-notebook .jp-Cell").first).to_be_visible()
    stills = page.locator("details", has_text="Stills:").first
    stills.locator("summary").first.click()
    expect(stills.locator("img").first).to_be_visible()
    assert stills.locator("img").first.evaluate("image => image.naturalWidth") > 0
    page.screenshot(path=SCREENSHOTS / "player-without-kernel.png")
