"""A text that is made to be slow is shown at once, and whole."""

from __future__ import annotations

import html
import re
import time

import pytest

from autograder.intake.harmless import MAX_MARKDOWN, as_html, harmless

UNITS = [
    " ",
    "\n",
    "\t",
    "*",
    "**a ",
    "_a ",
    "[",
    "[a](",
    "![",
    "[a][",
    "[^1]",
    "`",
    "` `` ",
    ">",
    "> ",
    "<",
    "<b>",
    "<a ",
]
UNITS += [
    "<!--",
    "$",
    "$a ",
    "$$",
    "\\(",
    "\\begin{a}",
    "~",
    "- a\n",
    " \n",
    "|",
    "|a|b\n",
    "#",
    "\\",
    "&#",
    "http://",
    "(",
]
UNITS += ["a\n-", "[a]: b\n", "a\n: b\n", "1. ", "```\n", "缺口", "x", "<b><i>", "\0", "\u2028"]
PICTURE = {"a.png": {"image/png": "iVBORw0KGgo="}}


def nested(mark: str, length: int) -> str:
    lines: list[str] = []
    level = 1
    while len("".join(lines)) < length:
        lines.append(f"{mark * level}a\n")
        level += 1
    return "".join(lines)


TEXTS = {f"{unit!r} {size}": unit * (size // len(unit)) for unit in UNITS for size in (MAX_MARKDOWN, 300_000)}
TEXTS |= {f"{mark!r} deeper and deeper": nested(mark, MAX_MARKDOWN - 500) for mark in ("> ", "  - ", ">", "    ")}
TEXTS |= {"a word after spaces": " " * 200_000 + "x", "unlike units": "".join(unit * 40 for unit in UNITS)}


@pytest.mark.parametrize("name", TEXTS)
def test_any_text_is_shown_within_a_second(name: str) -> None:
    text = TEXTS[name]
    for step in (harmless, as_html, lambda source: as_html(harmless(source))):
        started = time.process_time()
        step(text)
        assert time.process_time() - started < 1


def test_a_long_text_loses_its_format_and_no_word() -> None:
    text = "The gap < budget & *nothing* else. " * 2_000
    page = as_html(harmless(text))
    assert html.unescape(re.sub(r"</?(?:pre|code)>", "", page)) == text
    assert as_html(text) == page


def test_the_longest_text_that_is_read_as_markdown_is_a_long_answer() -> None:
    text = "The gap is *known* minus computed. " * (MAX_MARKDOWN // 36)
    assert harmless(text) == text and "<em>known</em>" in as_html(text)


@pytest.mark.parametrize("text", ["<b>see</b> <img src='attachment:a.png'>", "see the picture " * 1_000])
def test_a_picture_of_a_text_that_became_a_block_is_still_shown(text: str) -> None:
    assert 'src="data:image/png;base64,iVBORw0KGgo="' in as_html(harmless(text, PICTURE), PICTURE)
