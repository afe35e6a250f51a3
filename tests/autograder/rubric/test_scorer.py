"""What earns points, what earns none, and what a suggestion shows."""

import pytest

from autograder.judging.rubric import score
from autograder.judging.rubric.points import QUESTIONS
from autograder.judging.rubric.scorer import judge
from tests.autograder.rubric.data import LANGUAGES, NOTEBOOKS, model_answer, template

Q2_GOOD = (
    "The cached blocks hold keys and values, no logits. The first token is sampled from the logits of the last prompt "
    "position, so that position must be run again."
)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("question", QUESTIONS)
def test_the_model_answers_are_full(question: str, language: str) -> None:
    answer = model_answer(NOTEBOOKS[question], f"{question.lower()}_answer", language)
    suggestion = judge(question, answer)
    assert suggestion.points == 2
    assert not suggestion.abstains
    assert suggestion.veto is None


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("question", QUESTIONS)
def test_the_empty_template_earns_nothing_for_sure(question: str, language: str) -> None:
    suggestion = score(question, template(NOTEBOOKS[question], f"{question.lower()}_answer", language))
    assert suggestion.points == 0
    assert not suggestion.abstains


@pytest.mark.parametrize(
    ("affirmed", "denied"),
    [
        ("The cache holds no logits.", "The cache holds the logits."),
        ("缓存里没有 logits，采样首 token 要最后位置的 logits。", "缓存里存有 logits，采样首 token 不需要重新算。"),
        ("Sampling needs the logits and the cache has none, so the last token is run.", "Sampling needs no logits."),
    ],
)
def test_a_denial_of_the_decisive_fact_earns_no_chain(affirmed: str, denied: str) -> None:
    assert score("Q2", affirmed).dimensions["chain"].label >= score("Q2", denied).dimensions["chain"].label
    assert score("Q2", denied).dimensions["chain"].label == 0


@pytest.mark.parametrize(
    ("question", "right", "wrong"),
    [
        ("Q2", "缓存里只有 K/V，没有 logits", "缓存里有 K/V，也存了 logits"),
        ("Q2", "the blocks never store the logits", "the blocks also store the logits"),
        ("Q3", "不合理，块数不会变多，更多请求争同样的块，抢占更多", "合理，块数会变多，allocate_slots 就能成功"),
        (
            "Q3",
            "No: the pool stays the same, more requests fight for it, more recompute",
            "Yes, raising max_num_seqs is reasonable",
        ),
    ],
)
def test_polarity_decides(question: str, right: str, wrong: str) -> None:
    assert score(question, right).points > 0 or score(question, right).dimensions["objects"].label > 0
    assert score(question, wrong).points == 0
    assert score(question, wrong).factual_error


@pytest.mark.parametrize(
    ("question", "stuffed"),
    [
        ("Q1", "Scheduler, Request, KVCacheManager, BlockPool, token_budget, num_computed_tokens, prefill, decode"),
        ("Q1", "涉及 Scheduler、Request、KVCacheManager、BlockPool、EncoderCacheManager 等对象，它们都很重要。"),
        ("Q2", "logits KV cache sampler forward pass last token recompute full block num_tokens-1 get_computed_blocks"),
        ("Q2", "The concepts are the KVCacheManager, the BlockPool, get_computed_blocks, the sampler and the logits."),
        ("Q3", "allocate_slots → KVCacheManager → BlockPool → free queue → preempt → waiting → running → max_num_seqs"),
        ("Q3", "Key classes: the Scheduler, the KVCacheManager, the BlockPool, the free queue, recompute and goodput."),
    ],
)
def test_stuffed_names_earn_at_most_half_a_point(question: str, stuffed: str) -> None:
    assert score(question, stuffed).points <= 0.5


@pytest.mark.parametrize("question", QUESTIONS)
def test_an_answer_to_another_question_earns_at_most_half_a_point(question: str) -> None:
    for other in QUESTIONS:
        if other != question:
            answer = "The weather in spring is mild, and a good model is trained with a small learning rate."
            assert score(question, answer).points == 0


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("language", LANGUAGES)
def test_the_copied_question_earns_nothing(question: str, language: str) -> None:
    from autograder.judging.rubric.rubric import load

    asked = dict(zip(("zh", "en"), load(question).texts, strict=True))[language]
    assert score(question, asked).points == 0
    assert score(question, f"{asked}\n{asked}").points == 0


def test_plain_words_count_as_much_as_identifiers() -> None:
    plain = (
        "The memory only keeps what later words look back at, not the opinion about what comes next. That opinion comes "
        "out only when the last word goes through the model again; otherwise there is nothing to choose the first word from."
    )
    assert score("Q2", plain).points == score("Q2", Q2_GOOD).points == 1.5


def test_traditional_full_width_and_upper_case_change_nothing() -> None:
    plain = "块里只有 K/V，没有 logits；采样首 token 需要 logits，所以最后一个 token 必须重算。"
    traditional = "區塊裡只有 Ｋ／Ｖ，沒有 LOGITS；取樣首 token 需要 Logits，所以最後一個 ＴＯＫＥＮ 必須重算。"
    assert score("Q2", plain).points == score("Q2", traditional).points == 1.5


@pytest.mark.parametrize(
    ("veto", "near_miss", "vetoed"),
    [
        (
            "peak_as_general",
            "A blog claims 5x; that is their hardware and must be measured here.",
            "A blog measured 5x, so every service in production gets 5x.",
        ),
        (
            "support_as_universal",
            "The code has a path for it; whether the backend supports it has to be checked.",
            "The code has it, so it works on every model and every GPU.",
        ),
        (
            "correctness_vs_performance",
            "The cap is a matter of correctness; the extra block is a cost. Both are kept apart.",
            "The cap is merely a performance optimisation and could be removed, the output stays the same.",
        ),
    ],
)
def test_a_veto_needs_the_claim_and_not_its_words(veto: str, near_miss: str, vetoed: str) -> None:
    assert score("Q2", f"{Q2_GOOD} {vetoed}").veto == veto
    assert score("Q2", f"{Q2_GOOD} {vetoed}").points == 0
    assert score("Q2", f"{Q2_GOOD} {near_miss}").veto is None
    assert score("Q2", f"{Q2_GOOD} {near_miss}").points == 1.5


def test_a_right_half_and_a_false_half_earn_at_most_a_point() -> None:
    wrong = "get_computed_blocks returns 31 for a prompt of 32 with block size 16, half of the second block is reused."
    suggestion = score("Q2", f"{Q2_GOOD} {wrong}")
    assert suggestion.factual_error
    assert suggestion.points == 1
    assert any("31" in quote for quote in suggestion.fault_evidence)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("question", QUESTIONS)
def test_evidence_is_quoted_word_for_word(question: str, language: str) -> None:
    answer = model_answer(NOTEBOOKS[question], f"{question.lower()}_answer", language)
    words = " ".join(answer.split())
    quotes = [quote for judged in score(question, answer).dimensions.values() for quote in judged.evidence]
    assert quotes
    assert all(quote in words for quote in quotes)


def test_evidence_of_a_misspelt_full_width_answer_is_quoted_as_written() -> None:
    answer = "ＫＶ cahce 里只有 k 和 v，没有 <b>logist</b>，所以最后一个 tokne 一定要从新算一遍"
    quotes = [quote for judged in score("Q2", answer).dimensions.values() for quote in judged.evidence]
    assert quotes
    assert all(quote in answer for quote in quotes)


def test_what_is_missing_is_said_in_both_languages() -> None:
    suggestion = score("Q2", Q2_GOOD)
    assert suggestion.dimensions["objects"].label == 0.5
    assert "get_computed_blocks" in suggestion.comment("en")
    assert "命中记在哪里" in suggestion.comment("zh")
    assert "num" not in suggestion.comment("zh").split("\n")[0]


def test_a_comment_in_another_language_is_refused() -> None:
    with pytest.raises(ValueError, match="choose en or zh"):
        score("Q2", Q2_GOOD).comment("fr")


def test_an_unknown_question_is_refused() -> None:
    with pytest.raises(ValueError, match="choose one of Q1, Q2, Q3"):
        score("Q4", Q2_GOOD)


def test_an_abstention_still_suggests() -> None:
    unsure = score("Q2", "The last token is run once more. " + "A matter of taste among the builders of bridges. " * 12)
    assert unsure.abstains
    assert unsure.points == 0.5
