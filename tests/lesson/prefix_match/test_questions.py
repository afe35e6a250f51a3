"""The questions of 2-prefix-match are answered as vLLM does."""

from minivllm.lesson.predictions import QUESTIONS
from minivllm.lesson.prefix_match import questions as prefix_match


def test_the_answers_are_those_of_vllm() -> None:
    answers = {q.name: list(q.answer().actual.values()) for q in prefix_match.QUESTIONS}
    assert answers == {
        "full_blocks": [2, 3, 3],
        "changed_chain": [0, 2, 0],
        "full_hit": [0, 0, 16, 48, 48, 64],
        "without_cap": ["runs", "error", "runs", "runs", "error", "runs"],
        "lookup": [0, 1, 0],
        "resume": [16, 1],
        "salts": [0, 32, 0],
        "twins": [64, 16],
        "duplicates": [5, 2, 1],
        "eviction": [8, 0],
        "eagle": [0, 32, 48],
        "block_size": [96, 64, 992, 960],
    }


def test_an_error_without_the_cap_is_the_refusal_of_a_step_without_tokens() -> None:
    why = QUESTIONS["without_cap"].answer().why
    assert why["64"].startswith("ValueError: allocate_slots('again'): num_new_tokens is 0, but must be at least 1")
    assert why["17"] == "hit 16: 1 of 17 tokens left to compute"
