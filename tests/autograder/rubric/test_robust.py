"""No text breaks the scorer or keeps it busy."""

import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autograder.judging.rubric import score
from autograder.judging.rubric.findings import find
from autograder.judging.rubric.points import QUESTIONS
from tests.autograder.rubric.data import public

WORST = 1.0
TYPICAL = 0.05
GOOD = "The cache has no logits, the first token is sampled from them, so the last position must be run again. "


def junk() -> str:
    return random.Random(7).randbytes(200_000).decode("utf-8", errors="replace")


TEXTS = {
    "nothing": "",
    "white space": " \n\t\u3000\r\n" * 2000,
    "a megabyte of prose": GOOD * 10_000,
    "a megabyte of one letter": "a" * 1_000_000,
    "a megabyte of one character": "块" * 1_000_000,
    "binary junk": junk(),
    "NUL and control characters": "\x00\x01\x02logits\x7f\x9b" * 500,
    "HTML": "<div onclick='x()'><script>alert('logits')</script><b>cache</b></div>" * 300,
    "open tags": "<a " * 4000,
    "emoji": "🙂👍🏽👨‍👩‍👧 logits 🎉" * 500,
    "code only": "```python\nneed = request.num_tokens_with_spec - request.num_computed_tokens\n```\n" * 100,
    "negations": "not " * 2000 + "不没无非" * 1000,
    "nested marks": "((((" * 2000 + "))))" * 2000,
    "dots": "." * 8000,
    "commas": "cache, logits, " * 600,
    "near matches": "no logits no no no the first the last token is is is not not " * 130,
    "identifiers": "num_computed_tokens" * 400,
    "combining marks": "e\u0301\u0327" * 3000,
    "lone surrogates": "\ud800logits\udfff",
    "right to left": "\u202elogits\u202c" * 500,
}


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("name", list(TEXTS))
def test_an_odd_text_is_scored_in_less_than_a_second(question: str, name: str) -> None:
    score(question, "warm")
    start = time.process_time()
    suggestion = score(question, TEXTS[name])
    assert time.process_time() - start < WORST
    assert 0 <= suggestion.points <= 2
    assert suggestion.comment("en") and suggestion.comment("zh")


@pytest.mark.parametrize("name", list(TEXTS))
def test_odd_findings_are_judged_in_less_than_a_second(name: str) -> None:
    find("warm")
    start = time.process_time()
    assert find(TEXTS[name]).comment("en")
    assert time.process_time() - start < WORST


def test_a_typical_answer_takes_less_than_50_ms() -> None:
    answers = public(locked=False)
    for question in QUESTIONS:
        score(question, "warm")
    start = time.process_time()
    for answer in answers:
        score(answer.question, answer.text)
    assert (time.process_time() - start) / len(answers) < TYPICAL


def test_what_is_too_long_to_read_is_left_to_a_person() -> None:
    assert score("Q2", GOOD * 200).abstains


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=400), st.sampled_from(QUESTIONS))
def test_any_text_gets_points_that_exist(text: str, question: str) -> None:
    assert score(question, text).points in (0, 0.5, 1, 1.5, 2)


def test_the_same_text_scores_the_same_twice() -> None:
    for answer in public(locked=False)[:20]:
        assert score(answer.question, answer.text) == score(answer.question, answer.text)
