"""docs/glossary.md fixes the terms of both languages, and the course keeps to them."""

import re

import pytest

from tests.lesson.notebooks import NAMES, ROOT, prose

ROWS = [
    [cell.strip() for cell in row.strip("|").split("|")]
    for row in (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").splitlines()
    if re.match(r"\| (?!English)[^-]", row)
]
FORBIDDEN = {
    "zh": {word: chinese for _, chinese, words, _ in ROWS for word in words.split("、") if word},
    "en": {word: english for english, _, _, words in ROWS for word in words.split(", ") if word},
}
PAGES = {
    "en": ["tools/start/en.md"],
    "zh": ["README.zh.md", "tools/start/zh.md"],
}
QUOTED = {"zh": r"“[^”]*”", "en": r'"[^"]*"'}


def deviations(text: str, language: str) -> list[str]:
    """The words of `text` that the glossary does not use, outside code, links and quotations, with the word to use."""
    plain = re.sub(rf"```.*?```|`[^`]*`|\]\([^)]*\)|https?://\S+|{QUOTED[language]}", "", text, flags=re.DOTALL)
    pattern = r"{}" if language == "zh" else r"\b{}s?\b"
    return [
        f"{word} (write {right})"
        for word, right in FORBIDDEN[language].items()
        if re.search(pattern.format(re.escape(word)), plain, re.IGNORECASE)
    ]


def test_every_row_has_a_term_in_both_languages() -> None:
    assert len(ROWS) > 40
    assert [row for row in ROWS if len(row) != 4 or not row[0] or not row[1]] == []


def test_no_word_is_both_right_and_wrong() -> None:
    right = [part for row in ROWS for part in re.split("[；、]", row[1])]
    assert [word for word in FORBIDDEN["zh"] if word in right] == []
    assert [word for word in FORBIDDEN["en"] if word in [part for row in ROWS for part in row[0].split("; ")]] == []


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_uses_the_terms_of_the_glossary(name: str, language: str) -> None:
    found = [f"{word} in {text[:60]!r}" for text in prose(name, language) for word in deviations(text, language)]
    assert found == []


@pytest.mark.parametrize(("language", "page"), [(language, page) for language in PAGES for page in PAGES[language]])
def test_a_page_of_the_course_uses_the_terms_of_the_glossary(language: str, page: str) -> None:
    assert deviations((ROOT / page).read_text(encoding="utf-8"), language) == []


@pytest.mark.parametrize(
    ("language", "text", "word"),
    [
        ("zh", "分配失败时，最后一个内存块被驱逐。", "内存块"),
        ("zh", "受害者回到 `waiting`。", "受害者"),
        ("en", "A free page is taken from the pool.", "free page"),
        ("en", "Two reference counts fall.", "reference count"),
    ],
)
def test_a_deviation_is_found(language: str, text: str, word: str) -> None:
    assert deviations(text, language)[0].startswith(f"{word} (write ")


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("zh", "课文说“高并发下的惊群抖动”，源码里是 `内存块`。"),
        ("en", 'The lesson text says "a free page"; `free page` and [paged attention](https://example.org/page) stay.'),
    ],
)
def test_code_links_and_quotations_are_left_alone(language: str, text: str) -> None:
    assert deviations(text, language) == []
