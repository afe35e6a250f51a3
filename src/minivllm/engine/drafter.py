"""Draft tokens without a draft model: what followed the last time the text read like this.

Mirrors vllm/v1/spec_decode/ngram_proposer.py (NgramProposer).
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class NgramDrafter:
    """Prompt lookup: finds the last few tokens earlier in the sequence and proposes what came behind them.

    Attributes:
        num_speculative_tokens: drafts at most.
        max_ngram: tokens that are looked up first; shorter ends follow down to ``min_ngram``.
        max_lookback: how many tokens back the search goes.
    """

    num_speculative_tokens: int
    max_ngram: int = 3
    min_ngram: int = 1
    max_lookback: int = 1024

    def propose(self, token_ids: Sequence[int]) -> list[int]:
        """Up to ``num_speculative_tokens`` drafts from the latest earlier match of the longest end; [] for none."""
        recent = list(token_ids[-self.max_lookback :])
        for length in range(min(self.max_ngram, len(recent) - 1), self.min_ngram - 1, -1):
            end = recent[-length:]
            for start in range(len(recent) - length - 1, -1, -1):
                if recent[start] == end[0] and recent[start : start + length] == end:
                    return recent[start + length : start + length + self.num_speculative_tokens]
        return []
