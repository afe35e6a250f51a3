"""Pictures in an answer are kept, redrawn and bounded; where there are or were any, a person reads the answer."""

from __future__ import annotations

import base64
import io
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from autograder.intake.harmless import as_html, harmless
from autograder.intake.harmless import pictures as safe_pictures
from autograder.intake.pictures import MAX_KEPT, Painter
from autograder.judging.suggestions import suggest
from tests.autograder.intake.lesson import ONE, TEXTS, TWO, answer, lesson, needs, of_cell, take
from tests.autograder.intake.solved import PLANNER, Notebook, new, of, place

Q1 = TEXTS["q1_answer"]
SVG = base64.b64encode(b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>").decode()


def encoded(picture: Image.Image, kind: str, **options: Any) -> str:
    file = io.BytesIO()
    picture.save(file, kind, **options)
    return base64.b64encode(file.getvalue()).decode()


def noise(width: int, height: int) -> Image.Image:
    return Image.frombytes("RGB", (width, height), os.urandom(3 * width * height))


def photo() -> str:
    """As a telephone takes it: more than 3.5 MB."""
    data = encoded(noise(4_000, 3_000), "JPEG", quality=50)
    assert len(data) > 3_500_000
    return data


def in_lines(data: str) -> str:
    return "\n".join(data[start : start + 76] for start in range(0, len(data), 76))


def attached(data: str, mime: str = "image/png", name: str = "image.png") -> Notebook:
    notebook = lesson()[ONE]
    cell = of(notebook, "q1_answer")
    cell["source"] = f"{Q1}\n\n![image]({'attachment:' + name})"
    cell["attachments"] = {name: {mime: data}}
    return notebook


def cell_of(tmp_path: Path, notebook: Notebook) -> Any:
    found = take(tmp_path, {ONE: notebook}).notebooks[ONE]
    [cell] = [cell for cell in found.cells if cell.metadata.get("nbgrader", {}).get("grade_id") == "q1_answer"]
    return cell


KINDS: dict[str, Callable[[], str]] = {
    "PNG": lambda: encoded(noise(30, 20), "PNG"),
    "JPEG": lambda: encoded(noise(30, 20), "JPEG"),
    "GIF": lambda: encoded(noise(30, 20).convert("P"), "GIF"),
    "WEBP": lambda: encoded(noise(30, 20), "WEBP"),
    "BMP": lambda: encoded(noise(30, 20), "BMP"),
    "transparent": lambda: encoded(Image.new("RGBA", (30, 20)), "PNG"),
    "a photo": photo,
    "a large screenshot": lambda: encoded(noise(1_500, 1_200), "PNG"),
    "in lines": lambda: in_lines(encoded(noise(30, 20), "PNG")),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_picture_is_kept_and_bounded(kind: str, tmp_path: Path) -> None:
    cell = cell_of(tmp_path, attached(KINDS[kind]()))
    [(mime, data)] = cell.attachments["image.png"].items()
    content = base64.b64decode(data)
    with Image.open(io.BytesIO(content)) as picture:
        assert Image.MIME[picture.format or ""] == mime and picture.width > 20 and len(content) <= MAX_KEPT
    assert cell.metadata.minivllm == {"pictures": 1} and Q1 in cell.source
    assert safe_pictures(cell.attachments) == cell.attachments
    assert "data:image/" in as_html(harmless(cell.source, cell.attachments), cell.attachments)


@pytest.mark.parametrize("kind", ("PNG", "WEBP", "a photo"))
@pytest.mark.parametrize("form", ("![]({})", '<img src="{}" width="300">', "![me][p]\n\n[p]: {}\n\nbelow"))
def test_a_picture_in_the_text_itself_is_kept_too(kind: str, form: str, tmp_path: Path) -> None:
    notebook = lesson()[ONE]
    mime = "image/jpeg" if kind == "a photo" else f"image/{kind.lower()}"
    url = f"data:{mime};base64,{KINDS[kind]()}"
    of(notebook, "q1_answer")["source"] = f"{Q1}\n\n{form.format(url)}"
    cell = cell_of(tmp_path, notebook)
    assert len(cell.attachments) == 1 and len(cell.source) < 500 and Q1 in cell.source
    assert cell.metadata.minivllm["pictures"] >= 1
    assert ("below" in form) == ("below" in cell.source)
    assert "data:image/" in as_html(harmless(cell.source, cell.attachments), cell.attachments)


def lost_svg() -> Notebook:
    return attached(SVG, "image/svg+xml", "a.svg")


def lost_svg_in_the_text() -> Notebook:
    notebook = lesson()[ONE]
    of(notebook, "q1_answer")["source"] = f"{Q1}\n\n![](data:image/svg+xml;base64,{SVG})"
    return notebook


def drawn_in_html() -> Notebook:
    notebook = lesson()[ONE]
    of(notebook, "q1_answer")["source"] = f"{Q1}\n\n<svg><circle r='1'/></svg>"
    return notebook


def on_another_server() -> Notebook:
    notebook = lesson()[ONE]
    of(notebook, "q1_answer")["source"] = f"{Q1}\n\n![my drawing](https://example.org/a.png)"
    return notebook


def in_a_file() -> Notebook:
    notebook = lesson()[ONE]
    of(notebook, "q1_answer")["source"] = f"{Q1}\n\n<img src='figures/a.png'>"
    return notebook


def attachment_gone() -> Notebook:
    notebook = attached("", name="b.png")
    del of(notebook, "q1_answer")["attachments"]
    return notebook


def damaged() -> Notebook:
    return attached(encoded(noise(30, 20), "PNG")[:200])


def no_picture() -> Notebook:
    return attached("aGVsbG8=")


def a_bomb() -> Notebook:
    return attached(encoded(Image.new("1", (12_000, 12_000)), "PNG"))


LOST = (
    lost_svg,
    lost_svg_in_the_text,
    drawn_in_html,
    on_another_server,
    in_a_file,
    attachment_gone,
    damaged,
    no_picture,
    a_bomb,
)


@pytest.mark.parametrize("how", LOST, ids=lambda how: how.__name__)
def test_a_picture_that_can_not_be_shown_is_said_to_be_missing(how: Any, tmp_path: Path) -> None:
    started = time.monotonic()
    cell = cell_of(tmp_path, how())
    assert "attachments" not in cell and cell.metadata.minivllm["pictures"] >= 1 and Q1 in cell.source
    [flag] = of_cell(take(tmp_path, {ONE: how()}), "q1_answer")
    assert "can't be shown" in flag.text and time.monotonic() - started < 5
    harmless(cell.source)


@pytest.mark.parametrize("edition", ("en", "zh"))
@pytest.mark.parametrize("data", (KINDS["PNG"](), SVG), ids=("kept", "lost"))
def test_nothing_is_suggested_for_an_answer_with_a_picture(data: str, edition: str, tmp_path: Path) -> None:
    files = lesson(edition)
    cell = of(files[TWO], "q2_answer")
    cell["attachments"] = {"a.png": {"image/png": data}}
    cell["source"] += "\n\n![](attachment:a.png)"
    found = suggest(take(tmp_path, files).notebooks[TWO])["q2_answer"]
    assert found["points"] is None and found["confidence"] is None
    assert ("person" if edition == "en" else "人") in found["comment"]


def test_an_answer_without_pictures_has_its_suggestion(tmp_path: Path) -> None:
    assert suggest(take(tmp_path, lesson()).notebooks[TWO])["q2_answer"]["confidence"] is not None


def test_pictures_come_with_an_answer_that_was_taken_over(tmp_path: Path) -> None:
    files = lesson(blank=("q2_answer",))
    cell = new(f"Q2\n\n{TEXTS['q2_answer']}\n\n![](attachment:a.png)", "markdown")
    files[ONE]["cells"].insert(2, cell | {"attachments": {"a.png": {"image/png": KINDS["PNG"]()}}})
    found = take(tmp_path, files).notebooks[TWO]
    [target] = [cell for cell in found.cells if cell.id == "q2_answer"]
    assert "a.png" in target.attachments and target.metadata.minivllm == {"pictures": 1}


def test_a_notebook_full_of_pictures_is_bounded(tmp_path: Path) -> None:
    notebook = lesson()[ONE]
    data = encoded(noise(200, 150), "PNG")
    for number in range(150):
        notebook["cells"].append(new("see", "markdown") | {"attachments": {f"{number}.png": {"image/png": data}}})
    started = time.monotonic()
    found = take(tmp_path, {ONE: notebook}).notebooks[ONE]
    assert time.monotonic() - started < 10 and len(json.dumps(found)) < 20 << 20


def test_pixels_of_all_pictures_together_are_bounded() -> None:
    painter = Painter(pixels_left=1_000)
    assert painter.redrawn(encoded(noise(30, 20), "PNG")) and not painter.redrawn(encoded(noise(30, 20), "PNG"))


# --- long cells --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", (1, 3))
def test_a_picture_above_the_planner_takes_nothing_from_it(count: int, tmp_path: Path) -> None:
    files = lesson()
    text = f"![](data:image/jpeg;base64,{photo()})"
    for _ in range(count):
        files[ONE]["cells"].insert(place(files[ONE], "unified_token_plan"), new(text, "markdown"))
    found = take(tmp_path, files)
    assert answer(found, "unified_token_plan") == PLANNER and answer(found, "q1_answer") == Q1
    assert not needs(found)


@pytest.mark.parametrize("kind", ("code", "markdown", "raw"))
def test_a_cell_that_is_too_long_costs_itself_alone(kind: str, tmp_path: Path) -> None:
    files = lesson()
    for _ in range(3):
        files[ONE]["cells"].insert(2, new("x" * 5_000_000, kind))
    found = take(tmp_path, files)
    assert answer(found, "unified_token_plan") == PLANNER and answer(found, "q1_answer") == Q1
    assert any("characters in cell 3" in note.text for note in needs(found))


def test_answers_stay_below_thousands_of_long_cells(tmp_path: Path) -> None:
    files = lesson()
    files[ONE]["cells"][2:2] = [new(f"# {number}\n" + "y = 1\n" * 2_000) for number in range(800)]
    found = take(tmp_path, files)
    assert answer(found, "unified_token_plan") == PLANNER and answer(found, "q1_answer") == Q1
    assert any("left out were" in note.text for note in needs(found))


def test_an_answer_that_is_too_long_is_cut_and_a_person_is_told(tmp_path: Path) -> None:
    files = lesson()
    of(files[ONE], "q1_answer")["source"] = "word " * 100_000
    found = take(tmp_path, files)
    assert 199_000 < len(answer(found, "q1_answer")) <= 200_000
    assert any("q1_answer" in note.text for note in needs(found))


@pytest.mark.parametrize(
    ("grade_id", "text"), [("q1_answer", f"{Q1}\0 and \0more"), ("unified_token_plan", f"{PLANNER}\n# a\0b")]
)
def test_zero_bytes_stay_visible(grade_id: str, text: str, tmp_path: Path) -> None:
    files = lesson()
    of(files[ONE], grade_id)["source"] = text
    found = take(tmp_path, files)
    assert answer(found, grade_id) == text.replace("\0", "\ufffd")
    [told] = needs(found)
    assert "zero bytes" in told.text and grade_id in told.text
