"""Draft tokens without a draft model: what followed the first time the text read like this.

Mirrors vllm/v1/spec_decode/ngram_proposer.py (NgramProposer).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class NgramProposer:
    """Prompt lookup: finds the end of a sequence earlier in it and proposes what came behind.

    Attributes:
        k: drafts at most.
        min_n, max_n: how many tokens of the end must occur earlier. The longest end that does counts.
    """

    k: int
    min_n: int = 1
    max_n: int = 3

    def propose(self, token_ids: Sequence[int]) -> list[int]:
        """Up to ``k`` tokens that follow the earliest occurrence of the longest end; [] if there is none.

        The earliest one has most behind it: in a text that repeats itself it never runs out of drafts.
        """
        tokens = np.array(token_ids, dtype=np.int64)
        for n in range(min(self.max_n, len(tokens) - 1), self.min_n - 1, -1):
            earlier = np.lib.stride_tricks.sliding_window_view(tokens[:-1], n)
            matches = (earlier == tokens[-n:]).all(axis=1)
            if matches.any():
                start = int(matches.argmax()) + n
                return list(map(int, tokens[start : start + self.k]))
        return []
