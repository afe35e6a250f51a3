"""Prompt lookup proposes what followed the earliest occurrence of the longest end, as vLLM's NgramProposer does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minivllm.engine.drafter import NgramProposer


@pytest.mark.parametrize(
    ("tokens", "drafts"),
    [
        ([1, 2, 3, 4, 9, 1, 2, 3], [4, 9]),
        ([1, 2, 3, 4, 7, 3, 5, 1, 2, 3], [4, 7]),
        ([3, 4, 7, 3, 5, 8, 3], [4, 7]),
        ([1, 2, 3, 4, 2, 3], [4, 2]),
        ([1, 2, 3], []),
        ([5], []),
        ([], []),
        ([5, 5], [5]),
        ([5, 5, 5, 5, 5], [5, 5]),
        ([1, 2, 1, 2, 1, 2], [1, 2]),
    ],
)
def test_drafts_follow_the_earliest_occurrence_of_the_longest_end(tokens: list[int], drafts: list[int]) -> None:
    assert NgramProposer(2).propose(tokens) == drafts


def test_short_ends_can_be_ruled_out() -> None:
    assert NgramProposer(2, min_n=2).propose([3, 4, 7, 3]) == []
    assert NgramProposer(2, max_n=1).propose([9, 3, 4, 7, 9, 3, 5, 3]) == [4, 7]


@given(st.lists(st.integers(0, 2), max_size=20), st.integers(1, 4), st.integers(1, 2), st.integers(2, 5))
def test_any_sequence_gets_the_drafts_of_the_definition(tokens: list[int], k: int, min_n: int, max_n: int) -> None:
    ends = [
        (-n, start + n)
        for n in range(min_n, max_n + 1)
        for start in range(len(tokens) - n)
        if tokens[start : start + n] == tokens[-n:]
    ]
    expected = tokens[min(ends)[1] :][:k] if ends else []
    assert NgramProposer(k, min_n, max_n).propose(tokens) == expected
