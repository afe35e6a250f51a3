"""The formgrader in a browser: suggestions are seen and overridden, and what students wrote stays text."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output, new_raw_cell
from nbgrader.apps import NbGraderAPI
from playwright.sync_api import Page, expect

from autograder.classroom.classroom import Classroom, grade_class
from autograder.classroom.demo import create
from autograder.classroom.demo_files import LESSON
from autograder.classroom.workers import Workers
from autograder.paths import CLONE
from autograder.reports import report
from tests.browser.jupyterlab import TOKEN, browser_page, jupyterlab
from tests.browser.test_lesson import SCREENSHOTS

pytestmark = pytest.mark.requires_debian("chromium", "bubblewrap", "fonts-noto-cjk")

NOTEBOOK = "1-budget-planner"
READ = "2-prefix-match"
"""Whose answer is read in the test."""
FINDING = "5-on-the-gpu"
STUDENTS = {"honest": {"edition": "en"}, "hostile": {"edition": "en"}}
TAKE_ALL = """
window.ran = true;
const of = location.pathname.split('/')[3];
fetch('/formgrader/api/grades?submission_id=' + of).then(r => r.json()).then(all => Promise.all(all.map(grade =>
  fetch('/formgrader/api/grade/' + grade.id, {
    method: 'PUT', headers: {'X-CSRFToken': document.cookie.match(/_xsrf=([^;]*)/)[1]},
    body: JSON.stringify({manual_score: grade.max_score, extra_credit: 0})})))).then(() => window.done = true);
"""
"""Sets every grade of the open submission through the formgrader's own API."""
ONE_LINE = " ".join(TAKE_ALL.split()).replace('"', "&quot;")
MARKDOWN = f"""Each step has one budget.

<script>{TAKE_ALL}</script>
<img src=x onerror="{ONE_LINE}">
<svg onload="{ONE_LINE}"><script>{TAKE_ALL}</script></svg>
<iframe srcdoc="<script>parent.ran = true</script>"></iframe>
![a picture](x" onerror="window.ran=true)
[a link](javascript:window.ran=true)
![attached](attachment:a.png)

```mermaid
<img src=x onerror="window.ran=true">
```
"""


def html(data: dict[str, str]) -> NotebookNode:
    output: NotebookNode = new_output("display_data", data)  # type: ignore[no-untyped-call]
    return output


def poison(notebook: NotebookNode) -> None:
    """Put the script wherever a notebook can hold something that a page might run."""
    for cell in notebook.cells:
        grade_id = cell.metadata.get("nbgrader", {}).get("grade_id")
        if grade_id == "q1_answer":
            cell.source = MARKDOWN
            cell.attachments = {"a.png": {"image/png": 'AAAA" onerror="window.ran=true'}}
        elif grade_id == "source_mapping":
            cell.source = (
                f'raise ValueError("""<script>{TAKE_ALL}</script>""")  # </script><script>window.ran=true</script>'
            )
        elif cell.cell_type == "code":
            cell.outputs = [
                html({"text/html": f"<script>{TAKE_ALL}</script>"}),
                html({"application/javascript": TAKE_ALL}),
                html({"image/svg+xml": f"<svg xmlns='http://www.w3.org/2000/svg'><script>{TAKE_ALL}</script></svg>"}),
                html(
                    {"application/vnd.jupyter.widget-view+json": '{"model_id": "</script><script>ran=true</script>"}'}
                ),
            ]
    notebook.cells[4:4] = [
        new_markdown_cell(MARKDOWN),  # type: ignore[no-untyped-call]
        new_raw_cell(MARKDOWN),  # type: ignore[no-untyped-call]
        new_code_cell("1", outputs=[html({"text/html": f"<script>{TAKE_ALL}</script>"})]),  # type: ignore[no-untyped-call]
    ]
    notebook.cells += [new_raw_cell(f"<script>{TAKE_ALL}</script>", metadata={"raw_mimetype": "text/html"})]  # type: ignore[no-untyped-call]
    notebook.metadata.widgets = {
        "application/vnd.jupyter.widget-state+json": {"state": {"</script><script>ran=true": {}}}
    }
    notebook.metadata.title = f"<script>{TAKE_ALL}</script>"


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Classroom]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINIVLLM_CLASSROOM", "")  # `create` sets it; afterwards it is as it was
        patch.setenv("JUPYTER_PATH", "")
        room = create(tmp_path_factory.mktemp("class"), STUDENTS)
        path = room.submitted / "hostile" / LESSON / f"{NOTEBOOK}.ipynb"
        notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
        poison(notebook)
        nbformat.write(notebook, path)  # type: ignore[no-untyped-call]
        for other in room.submitted.glob("*/*/*.ipynb"):
            if other.stem not in (NOTEBOOK, READ, FINDING):
                other.unlink()
        assert not [row.reason for row in grade_class(room, Workers(2)) if row.reason]
        yield room


@pytest.fixture(scope="module")
def page(room: Classroom, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """Logged in to JupyterLab, in the root of the clone. Every address outside is refused, as without a network."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    with jupyterlab(CLONE, tmp_path_factory.mktemp("home")) as address, browser_page() as page:
        page.route(re.compile(rf"^(?!{re.escape(address)}|data:)"), lambda route: route.abort())
        page.goto(f"{address}/lab?token={TOKEN}")
        expect(page.locator("#jp-main-dock-panel")).to_be_visible()
        yield page


def submission(room: Classroom, student: str, notebook: str) -> str:
    with room.gradebook() as gradebook:
        return str(gradebook.find_submission_notebook(notebook, LESSON, student).id)


def opened(page: Page, room: Classroom, student: str, notebook: str) -> list[str]:
    """Open a student's notebook in the formgrader as an instructor does, and return the page's errors."""
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    address = page.url.partition("/lab")[0].partition("/formgrader")[0]
    page.goto(f"{address}/formgrader/submissions/{submission(room, student, notebook)}/")
    expect(page.locator("#notebook-container .score").first).to_be_visible()
    page.wait_for_function("window.MathJax && MathJax.loaded === true")
    # Before it has these, its buttons and boxes are there but deaf.
    page.wait_for_function("formgrader.grades?.loaded && formgrader.comments?.loaded")
    return errors


def type_into(page: Page, box: str, text: str, saved_by: str) -> None:
    """Type as an instructor does, leave the box, and wait until it is saved."""
    with page.expect_response(lambda response: saved_by in response.url and response.request.method == "PUT"):
        page.locator(box).fill(text)
        page.locator(box).blur()


def show(page: Page, place: str, name: str) -> None:
    """A screenshot with `place` near its top; the formgrader takes half a second to scroll."""
    page.locator(place).focus()
    page.wait_for_timeout(800)
    page.screenshot(path=SCREENSHOTS / f"{name}.png")


def grades(room: Classroom, student: str, notebook: str) -> dict[str, tuple[float | None, float | None, bool]]:
    with room.gradebook() as gradebook:
        found = gradebook.find_submission_notebook(notebook, LESSON, student).grades
        return {grade.name: (grade.manual_score, grade.extra_credit, grade.needs_manual_grade) for grade in found}


def total(page: Page, student: str) -> float:
    address = page.url.partition("/formgrader")[0]
    page.goto(f"{address}/formgrader/manage_students/{student}/")
    row = page.locator("tr", has_text=LESSON)
    expect(row).to_be_visible()
    return float(row.locator("td.score").inner_text().split("/")[0])


def test_a_suggestion_is_seen_and_overridden_and_the_total_follows_and_survives_regrading(
    page: Page, room: Classroom
) -> None:
    errors = opened(page, room, "honest", READ)
    score, comment = page.locator("#q2_answer"), page.locator("#q2_answer-comment")
    expect(score).to_have_attribute("placeholder", re.compile(r"\d"))
    suggested = float(score.get_attribute("placeholder") or "nan")
    assert score.input_value() == "" and "needs_manual_grade" in (score.get_attribute("class") or "")
    assert re.match(r"Suggested: .*Confidence", comment.get_attribute("placeholder") or "", flags=re.DOTALL)
    show(page, "#q2_answer", "formgrader-suggestion")
    assert not errors

    rest = total(page, "honest") - suggested
    opened(page, room, "honest", READ)
    given = 1.5 if suggested != 1.5 else 0.5
    type_into(page, "#q2_answer", f"{given}", "/api/grade/")
    type_into(page, "#q2_answer-comment", "chain: 1, and the budget is never given back", "/api/comment/")
    show(page, "#q2_answer", "formgrader-overridden")
    assert grades(room, "honest", READ)["q2_answer"] == (given, None, False)
    assert total(page, "honest") == rest + given

    assert not [row.reason for row in grade_class(room, Workers(2), force=True) if row.reason]
    assert grades(room, "honest", READ)["q2_answer"] == (given, None, False)
    opened(page, room, "honest", READ)
    assert float(page.locator("#q2_answer").input_value()) == given
    assert page.locator("#q2_answer-comment").input_value().startswith("chain: 1")
    assert total(page, "honest") == rest + given


def test_full_credit_confirms_the_findings_and_no_credit_does_not(page: Page, room: Classroom) -> None:
    def confirmed() -> bool:
        [honest] = [verdict for verdict in room.verdicts() if verdict.student == "honest"]
        assert "findings" not in [part.name for part in honest.waits]
        return honest.confirmed

    for button, confirms in (("full-credit", True), ("no-credit", False)):
        opened(page, room, "honest", FINDING)
        cell = page.locator(".nbgrader_cell", has=page.locator("#findings"))
        with page.expect_response(lambda response: "/api/grade/" in response.url and response.request.method == "PUT"):
            cell.locator(f".{button}").click()
        assert confirmed() is confirms
    type_into(page, "#findings-comment", "findings: yes, on second thoughts", "/api/comment/")
    assert confirmed()


def test_no_script_of_a_student_runs_when_the_instructor_opens_the_submission(page: Page, room: Classroom) -> None:
    before = grades(room, "hostile", NOTEBOOK)
    errors = opened(page, room, "hostile", NOTEBOOK)
    page.wait_for_timeout(1500)
    assert page.evaluate("window.ran") is None
    assert not errors
    assert grades(room, "hostile", NOTEBOOK) == before
    notebook = page.locator("#notebook-container").first
    assert notebook.locator("script, iframe, svg, object, embed, [onerror], [onload]").count() == 0
    assert notebook.locator("a[href^='javascript']").count() == 0
    expect(notebook).to_contain_text("Each step has one budget.")
    expect(notebook).to_contain_text("<svg onload=")
    show(page, "#q1_answer", "formgrader-hostile")

    page.evaluate(TAKE_ALL)  # the script itself works: it is the page that does not run it
    page.wait_for_function("window.done === true")
    assert grades(room, "hostile", NOTEBOOK) != before


def test_the_graded_notebook_on_disk_is_text_whoever_shows_it(room: Classroom) -> None:
    path = room.root / "autograded" / "hostile" / LESSON / f"{NOTEBOOK}.ipynb"
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    assert set(notebook.metadata) == {"kernelspec"}
    for cell in notebook.cells:
        assert cell.cell_type in ("code", "markdown")
        assert not cell.get("attachments")
        for output in cell.get("outputs", ()):
            assert set(output.get("data", {"text/plain"})) == {"text/plain"}


def test_feedback_and_report_show_what_the_student_wrote_as_text(page: Page, room: Classroom, tmp_path: Path) -> None:
    report.write(room, room.verdicts(), tmp_path)
    page.unroute_all()
    for path in (tmp_path / "report.html", tmp_path / "feedback" / "hostile" / "feedback.html"):
        page.goto(path.as_uri())
        page.wait_for_timeout(300)
        assert page.evaluate("window.ran") is None
        assert page.locator("script, iframe, img, svg, [onerror], [onload]").count() == 0
        assert not re.search(r"(?:src|href)=\"(?:https?:)?//", path.read_text(encoding="utf-8"))
    shutil.copy(tmp_path / "report.html", SCREENSHOTS / "report.html")


def test_nbgraders_own_feedback_runs_nothing_of_a_student_either(page: Page, room: Classroom) -> None:
    done = NbGraderAPI(config=room.config).generate_feedback(LESSON, "hostile", force=True)
    assert done["success"], done
    page.unroute_all()
    page.goto((room.root / "feedback" / "hostile" / LESSON / f"{NOTEBOOK}.html").as_uri())
    page.wait_for_timeout(500)
    assert page.evaluate("window.ran") is None
    container = page.locator("#notebook-container").first
    expect(container).to_contain_text("<svg onload=")
    assert container.locator("script, iframe, svg, img, [onerror], [onload]").count() == 0
