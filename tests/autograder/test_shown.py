"""What a student wrote is text wherever it is shown."""

from __future__ import annotations

import html.parser
from typing import Any

import mistune
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autograder.intake.harmless import TAGS, as_html, as_text, harmless

PLAIN = [
    "The gap is *known* + drafts − computed; `take = min(need, budget)`.",
    "a < b and c > d, 5 <6",
    "- one\n- two\n\n| a | b |\n|---|---|\n| 1 | 2 |",
    "[the section](#chunked-prefill) and [the notebook](1-budget-planner.ipynb#Q1), <https://docs.vllm.ai>",
    "```python\nprint('<b>')\n```",
    "<svg/onload=alert(1)> and dict<int, str> are no tags in Markdown, but text",
    "$x<y$ 因为缺口只是一个减法",
]
ACTIVE = [
    "<script>alert(1)</script>",
    "text <img src=x onerror=alert(1)> text",
    "[click](javascript:alert(1))",
    "[click](JaVaScRiPt:alert(1))",
    "[click](data:text/html,<script>1</script>)",
    "[click][r]\n\n[r]: vbscript:x",
    "![pixel](https://elsewhere.example/pixel.png)",
    "![gone](attachment:gone.png)",
    '![x](a.png"onerror="alert(1))',
    "```mermaid\n<img src=x onerror=alert(1)>\n```",
    "a Sequence<int> is lost where HTML is read",
    "<!-- a comment -->",
    "&lt;ok&gt; <b onclick=alert(1)>bold</b>",
]


class Elements(html.parser.HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.names: set[str] = set()
        self.links: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.names |= {name for name, _ in attrs}
        self.links |= {value or "" for name, value in attrs if name in ("href", "src")}


def blocks(markdown: str) -> list[dict[str, Any]]:
    parsed: Any = mistune.create_markdown(renderer="ast")(markdown)
    return list(parsed)


@pytest.mark.parametrize("source", PLAIN)
def test_plain_markdown_stays_as_it_was_written(source: str) -> None:
    assert harmless(source) == source


@pytest.mark.parametrize("source", ACTIVE)
def test_what_could_do_more_than_be_read_becomes_its_own_text(source: str) -> None:
    shown = harmless(source)
    assert shown != source and source in shown
    [block] = blocks(shown)
    assert block["type"] == "block_code" and block["raw"] == f"{source}\n"


@pytest.mark.parametrize("source", [*PLAIN, *ACTIVE])
def test_a_page_made_of_it_has_nothing_that_runs(source: str) -> None:
    for text in (source, harmless(source)):
        if "attachment:" in text and text == source:
            continue  # nbconvert refuses it; on disk it is text already
        found = Elements(as_html(text))
        assert found.tags <= TAGS
        assert not any(name.startswith("on") or name in ("style", "srcdoc") for name in found.names)
        assert not any(":" in link and not link.startswith(("http", "mailto:", "data:image/")) for link in found.links)


@given(st.text(alphabet="`~ \n\r<>ab[]()!\\#-*\t", max_size=60))
def test_no_text_gets_out_of_its_code_block(source: str) -> None:
    [block] = blocks(as_text(source))
    assert block["type"] == "block_code"


def test_a_picture_that_was_attached_is_shown_and_a_forged_one_is_not() -> None:
    picture = {"a.png": {"image/png": "iVBORw0KGgo="}}
    assert harmless("![a](attachment:a.png)", picture) == "![a](attachment:a.png)"
    assert 'src="data:image/png;base64,iVBORw0KGgo="' in as_html("![a](attachment:a.png)", picture)
    forged = {"a.png": {"image/png": 'x" onerror="alert(1)'}}
    assert "onerror" not in Elements(as_html("![a](attachment:a.png)", forged)).names
    drawn = {"a.svg": {"image/svg+xml": "PHN2Zy8+"}}
    assert not Elements(as_html("![a](attachment:a.svg)", drawn)).links
