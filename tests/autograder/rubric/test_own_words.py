"""A list of the right words and the course's own sentences earn no sure suggestion; a student's own words are no list."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterator

import nbformat
import pytest

from autograder.judging.rubric import copied, score
from autograder.judging.rubric.answers import read_answers
from autograder.judging.rubric.listing import is_list
from autograder.judging.rubric.points import QUESTIONS
from autograder.judging.rubric.rubric import load
from autograder.judging.rubric.scorer import judge
from autograder.judging.suggestions import Suggested
from autograder.paths import COURSE
from tests.autograder.rubric.data import LANGUAGES, NOTEBOOKS, PARAPHRASES, PUBLIC, SECOND, model_answer

NAMES = {
    "Q1": "Scheduler, Request, KVCacheManager, BlockPool, token_budget, num_computed_tokens, chunked prefill, decode, "
    "speculative verification, rejected drafts, preemption, recompute",
    "Q2": "KVCacheManager, BlockPool, get_computed_blocks, K/V, no logits, last token, forward pass, sampler, first "
    "token, num_tokens - 1, full block, recompute, correctness, cost",
    "Q3": "Scheduler, KVCacheManager, BlockPool, allocate_slots returns None, free blocks, max_num_seqs, pool size fixed, "
    "more requests, same blocks, more preemption, recompute, goodput falls, victim, not reasonable",
}
JOINED = {
    "arrows": " → ",
    "written arrows": " -> ",
    "commas": ", ",
    "enumeration commas": "、",
    "semicolons": "; ",
    "lines": "\n",
    "paragraphs": "\n\n",
    "bullets": "\n- ",
    "bars": " | ",
    "slashes": " / ",
    "plus signs": " + ",
    "equals signs": " = ",
    "colons": ": ",
    "full stops": ". ",
    "nothing": " ",
    "and": " and ",
    "because": " because ",
    "so": " so ",
    "or": " or ",
    "其": "和",
    "因为": "因为",
}
FRAMES = ("{}", "the {}", "`{}`", "{} ↑", "there is {}", "the role of {}", "{} matters", "有{}", "{}很重要")


def items(question: str, language: str) -> list[str]:
    """The names of the lesson, and what the rubric looks for, as it says it."""
    said = [part.says[language] for of in load(question).dimensions.values() for part in of.parts.values()]
    return [*NAMES[question].split(", "), *said]


def lists(question: str, language: str) -> Iterator[tuple[str, str]]:
    rng = random.Random(f"{question} {language}")
    of = items(question, language)
    for place, (name, mark) in enumerate(JOINED.items()):
        frame = FRAMES[place % len(FRAMES)]
        yield name, mark.join(of)
        rng.shuffle(of)
        yield f"{name}, {frame}", mark.join(frame.format(one) for one in of)
        rows = zip(of[::2], of[1::2], strict=False)
        yield f"table {place}", "| a | b |\n|---|---|\n" + "\n".join(f"| {a} | {b} |" for a, b in rows)
        yield f"two marks {place}", "".join(f"{one}{mark if at % 3 else '; '}" for at, one in enumerate(of))
        heads = ("**Objects:** ", "**State changes:** ", "**Chain:** ")
        yield f"headings {place}", "\n\n".join(head + mark.join(of[at::3]) for at, head in enumerate(heads))
        yield f"a sentence before {place}", f"These ideas belong to the question and to each other: {mark.join(of)}."


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("question", QUESTIONS)
def test_a_list_of_the_rubrics_words_is_never_sure_of_more_than_half_a_point(question: str, language: str) -> None:
    tried = list(lists(question, language))
    assert sum(judge(question, text).points > 0.5 for _, text in tried) > 20, "the lists meet no pattern"
    sure = {}
    for name, text in tried:
        suggested = Suggested.of(question, text, language)
        if (suggested.points or 0) > 0.5:
            sure[name] = (suggested.points, suggested.confidence)
    assert sure == {}


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("question", QUESTIONS)
def test_the_words_of_a_full_answer_in_an_order_of_chance_are_never_sure(question: str, language: str) -> None:
    answer = model_answer(NOTEBOOKS[question], f"{question.lower()}_answer", language)
    rng = random.Random(question)
    for cut in (r"[\s，。；：、]+", r"[,.;:，。；：]"):
        for _ in range(4):
            pieces = [one.strip() for one in re.split(cut, answer) if one.strip()]
            rng.shuffle(pieces)
            found = score(question, " ".join(pieces) if cut.startswith(r"[\s") else ", ".join(pieces))
            assert found.points <= 0.5 or found.abstains


def honest() -> list[tuple[str, str, str, float]]:
    files = (PUBLIC, SECOND, PARAPHRASES)
    return [(one.id, one.question, one.text, one.points) for path in files for one in read_answers(path)]


def test_notes_are_rarely_taken_for_a_list_and_then_only_wait() -> None:
    """8 of 286 answers that are worth a point or more, all written as notes."""
    worth = [one for one in honest() if one[3] >= 1]
    taken = [(question, text) for _, question, text, _ in worth if is_list(text)]
    assert len(worth) > 250 and len(taken) / len(worth) < 0.04
    for question, text in taken:
        assert score(question, text).points == judge(question, text).points, "the guess stays for the person"


# --- the course's sentences ------------------------------------------------------------------------------------------


def prose(language: str) -> list[tuple[str, str]]:
    """Sentences of the released notebooks, with the name of theirs."""
    found = []
    for path in sorted((COURSE / language).rglob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
        for cell in notebook.cells:
            if cell.cell_type == "markdown":
                found += [(path.stem, line) for line in cell.source.splitlines() if len(copied._tokens(line)) >= 25]
    return found


@pytest.mark.parametrize("language", LANGUAGES)
def test_pasted_prose_of_the_course_waits_and_is_told_where_it_stands(language: str) -> None:
    lines = prose(language)
    assert len(lines) > 100
    missed = []
    for notebook, line in lines:
        found = copied.find(line)
        if found is None or not found.where or found.share < 0.6:
            missed.append((notebook, line))
    assert len(missed) / len(lines) < 0.02, missed  # but what only the released notebook says, or repeats of Q1-Q3


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("question", QUESTIONS)
def test_pasted_sentences_that_were_full_get_half_a_point_at_most_and_no_suggestion(
    question: str, language: str
) -> None:
    answer = model_answer(NOTEBOOKS[question], f"{question.lower()}_answer", language)
    assert judge(question, answer).points == 2
    for text in (answer, f"In my own words:\n\n{answer}", answer.replace("**", "").replace("`", ""), answer.upper()):
        suggested = Suggested.of(question, text, language)
        assert suggested.points is None and suggested.guess <= 0.5 and suggested.chain == 0
        assert f"the model answer {question.lower()}_answer of {NOTEBOOKS[question]}" in suggested.comment


def test_the_lessons_sentences_pasted_for_q2_wait_and_name_their_place() -> None:
    pasted = (
        "The cache holds keys and values, no hidden states and no logits. The first output token is sampled from the "
        "logits of the last prompt token, and those exist only if that token runs through the model in this step."
    )
    place = next(text for name, text in prose("en") if name == "2-prefix-match" and "logits" in text)
    for text in (place, f"{place} {pasted}"):
        suggested = Suggested.of("Q2", text, "en")
        assert suggested.points is None or suggested.points == 0
        assert "2-prefix-match" in suggested.comment


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_word_changed_here_and_there_hides_nothing(language: str) -> None:
    rng = random.Random(4)
    for question in QUESTIONS:
        answer = model_answer(NOTEBOOKS[question], f"{question.lower()}_answer", language)
        words = re.findall(r"[A-Za-z_]+|[\u3400-\u9fff]|[^A-Za-z_\u3400-\u9fff]", answer)
        for at in rng.sample(range(len(words)), len(words) // 15):
            if words[at].isalnum():
                words[at] = "truly" if words[at].isascii() else "真"
        assert copied.find("".join(words)) is not None


def test_no_honest_answer_that_is_worth_something_is_taken_for_the_course() -> None:
    """0 of 637: what others wrote about the same lesson shares at most 41 % with it, where it is long enough to tell."""
    taken = [(id, found.share) for id, _, text, _ in honest() if (found := copied.find(text))]
    assert taken == []


def test_a_quotation_of_the_course_among_own_words_is_no_copy() -> None:
    own = read_answers(PUBLIC)
    long = max((one for one in own if one.points == 2), key=lambda one: len(one.text))
    quote = "One gap instead of phases."
    assert copied.find(f"{quote} {long.text}") is None


def test_the_course_is_read_once_and_an_answer_is_compared_in_milliseconds() -> None:
    copied.find("warm " * 30)
    start = time.process_time()
    for _, _, text, _ in honest():
        copied.find(text)
        is_list(text)
    assert (time.process_time() - start) / len(honest()) < 0.02
