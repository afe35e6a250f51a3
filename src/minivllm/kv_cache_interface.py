"""What one KV cache group looks like: the kind of attention its layers use.

Mirrors vllm/v1/kv_cache_interface.py (FullAttentionSpec, SlidingWindowSpec). Here every group shares one block size,
``CacheConfig.block_size``, so a spec does not carry it.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class FullAttentionSpec:
    """Layers that read every earlier token, so a block is needed until its request ends."""


@dataclass(frozen=True)
class SlidingWindowSpec:
    """Layers in which a token reads itself and the ``sliding_window - 1`` tokens before it.

    Raises:
        ValueError: ``sliding_window`` is no positive int.
    """

    sliding_window: int

    def __post_init__(self) -> None:
        if type(self.sliding_window) is not int or self.sliding_window < 1:
            raise ValueError(
                f"SlidingWindowSpec.sliding_window is {self.sliding_window!r}, but must be an int of at least 1: "
                "a token always attends to itself."
            )

    def max_admission_blocks_per_request(self, max_in_flight_tokens: int, max_model_len: int, block_size: int) -> int:
        """The most blocks a request can hold at once, given that blocks left of the window are released.

        One step computes at most ``max_in_flight_tokens`` tokens on top of the window; one more block is needed
        because the window rarely starts on a block boundary (SlidingWindowSpec.max_admission_blocks_per_request).
        """
        num_tokens = min(self.sliding_window - 1 + max_in_flight_tokens, max_model_len)
        return -(-num_tokens // block_size) + 1


KVCacheSpec = FullAttentionSpec | SlidingWindowSpec
