import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from html import escape

import pytest

from minivllm.lesson import ______, predict, predictions, settle
from minivllm.lesson.budget_planner import questions as budget_planner
from minivllm.lesson.common.errors import LessonError
from minivllm.lesson.common.question import Answer
from minivllm.lesson.predictions import QUESTIONS, Settlement

WORKED = {"A": 4, "B": 4}
NAMES = sorted(QUESTIONS)


@pytest.fixture(autouse=True)
def no_guesses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predictions, "_guesses", {})


def test_settle_shows_guess_and_engine_side_by_side_with_the_rule(capsys: pytest.CaptureFixture[str]) -> None:
    predict("worked_example", {"A": 4, "B": 7})
    settle("worked_example")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Kept {'A': 4, 'B': 7}.")
    assert lines[2].split() == ["object", "expected", "(you)", "actual", "(engine)", "verdict", "why"]
    assert lines[4].split()[:4] == ["A", "4", "4", "same"]
    assert lines[5].split()[:4] == ["B", "7", "4", "differs"]
    assert lines[5].endswith("gap 7 - 0 = 7; min(7, budget left 4) = 4")


@pytest.mark.parametrize("name", NAMES)
def test_settle_without_a_guess_asks_in_one_line_and_reveals_nothing(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def not_asked() -> Answer:
        raise AssertionError("the engine ran before there was a guess")

    monkeypatch.setattr(predictions, "QUESTIONS", {name: replace(QUESTIONS[name], answer=not_asked)})
    settle(name)
    (line,) = capsys.readouterr().out.splitlines()
    assert line == QUESTIONS[name].request
    assert line.endswith(")") and "? " in line


def test_a_blank_in_the_guess_asks_the_question_and_forgets_an_older_guess(capsys: pytest.CaptureFixture[str]) -> None:
    predict("worked_example", WORKED)
    predict("worked_example", {"A": 4, "B": ______})
    settle("worked_example")
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:] == [QUESTIONS["worked_example"].request] * 2


def test_a_blank_alone_asks_the_question(capsys: pytest.CaptureFixture[str]) -> None:
    predict("long_prompt", ______)
    assert capsys.readouterr().out.strip() == QUESTIONS["long_prompt"].request


def test_the_last_guess_counts(capsys: pytest.CaptureFixture[str]) -> None:
    predict("worked_example", {"A": 1, "B": 1})
    predict("worked_example", WORKED)
    settle("worked_example")
    assert "differs" not in capsys.readouterr().out


@pytest.mark.parametrize("ask", [lambda name: predict(name, WORKED), settle], ids=["predict", "settle"])
@pytest.mark.parametrize(
    "name, remedy",
    [("worked_exampel", "did you mean 'worked_example'?"), ("xyz", r"copy the name from its predict\(…\) cell")],
)
def test_an_unknown_name_is_told_the_ones_that_look_like_it(ask: Callable[[str], None], name: str, remedy: str) -> None:
    with pytest.raises(LessonError, match=f"there is no question '{name}'; {remedy}"):
        ask(name)


@pytest.mark.parametrize(
    "value",
    [4, [4, 4], None, {"A": 4}, {"A": 4, "B": 4, "C": 0}, "44"],
    ids=["int", "list", "None", "short", "long", "str"],
)
def test_a_guess_of_the_wrong_shape_is_told_the_right_one(value: object) -> None:
    with pytest.raises(LessonError) as error:
        predict("worked_example", value)
    assert str(error.value) == f'predict("worked_example", …) wants {{"A": …, "B": …}}, not {value!r}'


@pytest.mark.parametrize("number", ["4", 4.0, True, -1, None])
def test_a_guess_that_is_no_whole_number_is_named(number: object) -> None:
    with pytest.raises(LessonError, match=r"wants a whole number from 0 for B, not "):
        predict("worked_example", {"A": 4, "B": number})


@pytest.mark.parametrize("word", ["maybe", "", 0, True, ["runs"]])
def test_a_guess_that_is_none_of_the_choices_is_told_them(word: object) -> None:
    question = QUESTIONS["without_cap"]
    with pytest.raises(LessonError, match=r"wants one of 'runs', 'error' for 15, not "):
        predict("without_cap", dict.fromkeys(question.objects, "runs") | {"15": word})


@pytest.mark.parametrize("value", [{"step 0": 8}, [8, 8, 4, 1], 8])
def test_a_list_of_the_wrong_length_is_told_how_many(value: object) -> None:
    with pytest.raises(LessonError, match=r"wants \[…, …, …, …, …\], not "):
        predict("long_prompt", value)


def test_a_tuple_is_as_good_as_a_list_and_a_refused_guess_leaves_the_last_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    predict("long_prompt", (8, 8, 4, 1, 1))
    with pytest.raises(LessonError):
        predict("long_prompt", [8])
    settle("long_prompt")
    assert "differs" not in capsys.readouterr().out


@pytest.mark.parametrize("name", NAMES)
def test_every_question_has_an_allowed_answer_and_a_reason_for_each_object(name: str) -> None:
    question = QUESTIONS[name]
    answer = question.answer()
    assert tuple(answer.actual) == question.objects == tuple(answer.why)
    assert question.parse(list(answer.actual.values()) if question.ordered else dict(answer.actual)) == answer.actual
    assert all(answer.why.values())
    assert question.asks.endswith("?") and "\n" not in question.request


@pytest.mark.parametrize("name", NAMES)
def test_a_settlement_is_the_same_words_as_text_and_as_html(name: str) -> None:
    question = QUESTIONS[name]
    settlement = Settlement(question, dict.fromkeys(question.objects, 99), question.answer())
    text, html = repr(settlement), settlement._repr_html_()
    for reason in settlement.answer.why.values():
        assert reason in text
        assert escape(reason) in html
    assert html.count('<img alt="Token budget ') == len(settlement.answer.steps)


def test_the_answers_of_the_budget_planner_are_those_of_the_lesson() -> None:
    answers = {q.name: list(q.answer().actual.values()) for q in budget_planner.QUESTIONS}
    assert answers == {
        "worked_example": [4, 4],
        "long_prompt": [8, 8, 4, 1, 1],
        "rollback": [10, 8],
        "running_first": [8, 0],
        "carry_over": [1, 7],
        "chunk_size": [12, 12, 6, 0],
        "sequence_slot": [1, 0],
        "head_of_line": [1, 0, 0],
        "padding": [4, 4],
    }


def test_the_lesson_imports_no_torch_matplotlib_or_ipywidgets() -> None:
    code = "import sys; from minivllm.lesson import *; print(sorted({'torch', 'matplotlib', 'ipywidgets'} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (run.stdout, run.stderr) == ("[]\n", "")


def test_a_lesson_error_is_one_line_in_a_notebook() -> None:
    assert LessonError("no such load")._render_traceback_() == ["LessonError: no such load"]
