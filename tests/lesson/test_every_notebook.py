"""Every notebook of solutions/: both languages say the same, every question is asked, links are pinned, points add up."""

import ast
import json
import re
from collections import Counter
from importlib import import_module
from itertools import pairwise
from typing import Any

import jupytext
import pytest

from minivllm.lesson.predictions import QUESTIONS
from tests.lesson.notebooks import LANGUAGES, NAMES, ROOT, code_cells, prose, released, solved, source

LESSON = (
    "0-start-here",
    "1-budget-planner",
    "2-prefix-match",
    "3-allocate-slots",
    "4-preemption",
    "5-on-the-gpu",
)
COMMIT = "2cf0a6915ce544dc493a0990f2ea38d81601128a"
LESSON_PIN = "8e958902eee56ca5158728f1dd5a32246f0246f3"
DESIGN_DOCUMENTS = (
    "https://docs.vllm.ai/en/stable/design/prefix_caching/",
    "https://docs.vllm.ai/en/stable/design/hybrid_kv_cache_manager/",
)
SCHEDULER, MANAGER = "vllm/v1/core/sched/scheduler.py", "vllm/v1/core/kv_cache_manager.py"
TYPES, POOL = "vllm/v1/core/single_type_kv_cache_manager.py", "vllm/v1/core/block_pool.py"
READING = {
    "1-budget-planner": [
        "vllm/config/scheduler.py#L48-L141",
        *(
            f"{SCHEDULER}#{lines}"
            for lines in ("L476-L521", "L523-L626", "L694-L735", "L747-L803", "L913-L1003", "L1169-L1181")
        ),
    ],
    "2-prefix-match": [
        "vllm/v1/core/kv_cache_utils.py#L577-L604",
        "vllm/v1/core/kv_cache_utils.py#L671-L728",
        f"{SCHEDULER}#L810-L911",
        f"{MANAGER}#L232-L298",
        "vllm/v1/core/kv_cache_coordinator.py#L524-L542",
        "vllm/v1/core/kv_cache_coordinator.py#L749-L881",
        f"{TYPES}#L684-L779",
        f"{POOL}#L198-L223",
    ],
    "3-allocate-slots": [
        f"{MANAGER}#L347-L568",
        f"{TYPES}#L141-L227",
        f"{TYPES}#L229-L286",
        f"{TYPES}#L327-L366",
        f"{POOL}#L702-L717",
        f"{POOL}#L647-L700",
        f"{POOL}#L225-L295",
    ],
    "4-preemption": [
        f"{SCHEDULER}#L628-L692",
        f"{SCHEDULER}#L1336-L1377",
        f"{SCHEDULER}#L2429-L2442",
        f"{TYPES}#L497-L524",
        f"{POOL}#L719-L743",
        "vllm/v1/core/sched/request_queue.py",
    ],
    "5-on-the-gpu": [
        f"{SCHEDULER}#L1379-L1427",
        "vllm/v1/engine/core.py#L583-L613",
        f"{SCHEDULER}#L1733-L2050",
        f"{SCHEDULER}#L2182-L2199",
        "vllm/v1/core/sched/utils.py#L94-L130",
        f"{SCHEDULER}#L2388-L2420",
    ],
}
NUMBERS = """
zero 零, one 一, two 两, three 三, four 四, five 五, six 六, seven 七, eight 八, nine 九, ten 十, eleven 十一, twelve 十二,
thirteen 十三, fourteen 十四, fifteen 十五, sixteen 十六, seventeen 十七, eighteen 十八, nineteen 十九, twenty 二十
"""

notebook = pytest.mark.parametrize("name", NAMES)
language = pytest.mark.parametrize("language", LANGUAGES)


def called(name: str, function: str) -> list[str]:
    """The names that cells of a notebook give to `predict` or `settle`, in order."""
    starts = (re.match(rf'{function}\("(\w+)"', cell.source) for cell in code_cells(source(name)))
    return [match[1] for match in starts if match]


def grading(name: str) -> dict[str, Any]:
    """nbgrader's metadata by grade id; an answer in two languages counts once."""
    cells = source(name).cells
    return {cell.metadata.nbgrader.grade_id: cell.metadata.nbgrader for cell in cells if "nbgrader" in cell.metadata}


def test_the_lesson_has_its_six_notebooks() -> None:
    assert tuple(NAMES) == LESSON


@notebook
def test_every_english_cell_is_followed_by_its_chinese_twin_and_code_has_no_language(name: str) -> None:
    languages = [cell.metadata.get("lang") for cell in source(name).cells]
    assert [cell.cell_type == "markdown" for cell in source(name).cells] == [lang is not None for lang in languages]
    order = "".join({"en": "e", "zh": "z", None: "c"}[lang] for lang in languages)
    assert re.fullmatch("(ez|c)+", order)


@notebook
def test_twins_hold_the_same_numbers_code_links_headings_and_hints(name: str) -> None:
    marks = {
        "number": r"\d+(?:\.\d+)*",
        "code": r"`[^`]+`",
        "link": r"\]\(([^)]+)\)",
        "heading": r"^#+ ",
        "hint": r"<details>",
        "row": r"^\|",
        "item": r"^(?:- |\d\. )",
    }
    for english, chinese in zip(prose(name, "en"), prose(name, "zh"), strict=True):
        for kind, pattern in marks.items():
            found = [Counter(re.findall(pattern, text, re.MULTILINE)) for text in (english, chinese)]
            assert found[0] == found[1], f"{kind} of the cell {english[:60]!r}"


@notebook
def test_twins_carry_the_same_grading(name: str) -> None:
    cells = source(name).cells
    for english, chinese in pairwise(cells):
        if english.metadata.get("lang") == "en":
            assert english.metadata.get("nbgrader") == chinese.metadata.get("nbgrader"), english.source[:60]


def without_code_and_links(markdown: str) -> str:
    return re.sub(r"```.*?```|\$[^$\n]+\$|`[^`]*`|\]\([^)]*\)|<[^>]*>|\*\*|https?://\S+", "", markdown, flags=re.DOTALL)


@notebook
def test_chinese_prose_uses_chinese_punctuation_between_chinese_characters(name: str) -> None:
    for text in prose(name, "zh"):
        found = re.findall(r".{0,8}[一-鿿][,;:?!\"'(][一-鿿 ].{0,8}", without_code_and_links(text))
        assert not found, text[:40]


@notebook
def test_chinese_prose_has_a_space_between_chinese_and_latin(name: str) -> None:
    for text in prose(name, "zh"):
        found = re.findall(r".{0,8}(?:[一-鿿][A-Za-z0-9]|[A-Za-z0-9][一-鿿]).{0,8}", without_code_and_links(text))
        assert not found, text[:40]


@notebook
@language
def test_one_language_stays_in_its_cells(name: str, language: str) -> None:
    for text in prose(name, language):
        assert bool(re.search("[一-鿿]", without_code_and_links(text))) == (language == "zh"), text[:60]
    assert not [cell.source for cell in code_cells(source(name)) if re.search("[一-鿿]", cell.source)]


@notebook
def test_there_is_one_title_and_the_head_says_what_why_and_how_long(name: str) -> None:
    for lang, words in {
        "en": ["After this notebook you can", "Prerequisites", "Time", "GPU", "Graded"],
        "zh": ["学完本节", "先修", "时间", "GPU", "计分"],
    }.items():
        first, *others = prose(name, lang)
        assert first.startswith("# ") and not any(re.search(r"^# ", text, re.MULTILINE) for text in others)
        assert [word for word in words if word not in first] == []


@notebook
def test_the_last_cell_asks_for_an_invariant_a_boundary_and_what_needs_a_benchmark(name: str) -> None:
    cells = [text for text in prose(name, "en") if text.startswith("## ")]
    assert all(word in cells[-1] for word in ("correctness invariant", "performance boundary", "needs a benchmark"))


@notebook
@language
def test_hints_come_in_three_steps(name: str, language: str) -> None:
    word = {"en": "Hint", "zh": "提示"}[language]
    for text in prose(name, language):
        steps = re.findall(rf"<summary>{word} (\d)[:：]", text)
        assert steps == [*"123"][: len(steps)] and len(steps) in (0, 3), text[:60]


@notebook
def test_the_first_code_cell_imports_the_lesson_as_a_set_up_cell(name: str) -> None:
    first = code_cells(source(name))[0]
    assert (first.source, first.metadata.get("tags")) == ("from minivllm.lesson import *", ["setup"])


@notebook
def test_every_question_of_the_notebook_is_asked_once_settled_next_and_counted_in_the_head(name: str) -> None:
    module = import_module(f"minivllm.lesson.{name[2:].replace('-', '_')}.questions")
    asked = called(name, "predict")
    assert sorted(asked) == sorted(question.name for question in module.QUESTIONS)
    starts = [cell.source.split(",")[0].removesuffix(")") for cell in source(name).cells if cell.cell_type == "code"]
    for question in asked:
        assert starts[starts.index(f'predict("{question}"') + 1] == f'settle("{question}"', question
    english, chinese = NUMBERS.split(",")[len(asked)].split()
    assert re.search(rf"\b{english}\b", prose(name, "en")[0], re.IGNORECASE), f"the head doesn't say {english}"
    assert re.search(rf"(?<!十){chinese}[处次个道]", prose(name, "zh")[0]), f"the head doesn't say {chinese}处"


def test_no_two_notebooks_ask_the_same_question() -> None:
    names = [question for name in NAMES for question in called(name, "predict")]
    assert len(names) == len(set(names)) and set(names) == set(QUESTIONS)


@notebook
def test_a_released_prediction_has_the_blanks_that_its_question_wants(name: str) -> None:
    for cell in code_cells(source(name)):
        if match := re.match(r'predict\("(\w+)"', cell.source):
            wanted = QUESTIONS[match[1]].wanted.replace("…", "______")
            assert ast.dump(ast.parse(cell.source)) == ast.dump(ast.parse(f'predict("{match[1]}", {wanted})'))


@notebook
@language
def test_links_into_the_source_are_pinned_and_in_reading_order(name: str, language: str) -> None:
    text = "\n".join(prose(name, language))
    links = re.findall(r"https://github\.com/vllm-project/vllm/blob/(\w+)/([^)\s]+)", text)
    assert {commit for commit, _ in links} <= {COMMIT}
    wanted = READING.get(name, [])
    assert list(dict.fromkeys(place for _, place in links if place in wanted)) == wanted
    if wanted:
        assert LESSON_PIN in text and "https://docs.vllm.ai/en/stable/" in text


@language
def test_the_lesson_links_the_two_design_documents(language: str) -> None:
    text = "\n".join(cell for name in NAMES for cell in prose(name, language))
    assert [link for link in DESIGN_DOCUMENTS if link not in text] == []


@notebook
def test_the_solved_notebook_holds_no_blank(name: str) -> None:
    for cell in code_cells(solved(name, "en")):
        names = [node.id for node in ast.walk(ast.parse(cell.source)) if isinstance(node, ast.Name)]
        assert "______" not in names, cell.source


@notebook
def test_practice_carries_no_points_and_has_blanks_of_its_own(name: str) -> None:
    for cell in code_cells(source(name)):
        if cell.metadata.get("nbgrader", {}).get("solution"):
            assert not cell.metadata.nbgrader.grade and "points" not in cell.metadata.nbgrader, cell.source[:60]
            assert any("______" in line for line in cell.metadata.minivllm.stub), cell.source[:60]


def test_grade_ids_are_unique_over_the_lesson_and_readable() -> None:
    ids = [grade_id for name in NAMES for grade_id in grading(name)]
    assert len(ids) == len(set(ids))
    assert [grade_id for grade_id in ids if not re.fullmatch(r"[a-z][a-z0-9_]+", grade_id)] == []


def test_the_points_of_the_lesson_are_four_for_code_two_for_each_question_and_none_for_the_findings() -> None:
    graded = {id: of for name in NAMES for id, of in grading(name).items() if of.grade}
    code = sum(of.points for of in graded.values() if of.cell_type == "code")
    texts = {id: of.points for id, of in graded.items() if of.cell_type == "markdown" and of.points}
    assert (code, texts) == (4, {"q1_answer": 2, "q2_answer": 2, "q3_answer": 2})
    assert [id for id in graded if id.startswith("findings")], "the three findings are a cell that a person confirms"


@notebook
def test_both_editions_hold_the_same_code_cells_grade_ids_and_points(name: str) -> None:
    """So that what one edition's code does, the other's does."""
    english, chinese = (
        [(c.id, c.source, c.metadata.get("nbgrader")) for c in code_cells(released(name, lang))] for lang in LANGUAGES
    )
    assert english == chinese


@notebook
@language
def test_students_do_not_get_what_the_course_builder_reads(name: str, language: str) -> None:
    assert not [cell.source for cell in released(name, language).cells if "minivllm" in cell.metadata]


@notebook
def test_the_file_survives_a_round_trip_through_jupytext(name: str) -> None:
    text = (ROOT / "solutions" / "lesson-2" / f"{name}.md").read_text(encoding="utf-8")
    once = jupytext.reads(text, fmt="md:myst")
    again = jupytext.reads(jupytext.writes(once, fmt="md:myst"), fmt="md:myst")

    def content(notebook: Any) -> list[tuple[str, str, str]]:
        return [(cell.cell_type, cell.source, json.dumps(cell.metadata, sort_keys=True)) for cell in notebook.cells]

    assert content(once) == content(again)
