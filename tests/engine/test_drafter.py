"""Prompt lookup proposes what followed the latest earlier match of the longest end."""

import pytest

from minivllm.engine.drafter import NgramDrafter


@pytest.mark.parametrize(
    ("tokens", "drafts"),
    [
        ([1, 2, 3, 4, 9, 1, 2, 3], [4, 9]),
        ([1, 2, 3, 4, 7, 3, 5, 1, 2, 3], [4, 7]),
        ([3, 4, 7, 3, 5, 8, 3], [5, 8]),
        ([1, 2, 3], []),
        ([5], []),
        ([], []),
        ([5, 5], [5]),
        ([1, 2, 1, 2, 1, 2], [1, 2]),
    ],
)
def test_drafts_follow_the_latest_match_of_the_longest_end(tokens: list[int], drafts: list[int]) -> None:
    assert NgramDrafter(2).propose(tokens) == drafts


def test_a_match_farther_back_than_the_limit_is_not_found() -> None:
    tokens = [1, 2, 3, *range(10, 30), 1, 2]
    assert NgramDrafter(2).propose(tokens) == [3, 10]
    assert NgramDrafter(2, max_lookback=10).propose(tokens) == []


def test_short_ends_can_be_ruled_out() -> None:
    assert NgramDrafter(2, min_ngram=2).propose([3, 4, 7, 3]) == []
