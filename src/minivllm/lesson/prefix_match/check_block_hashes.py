"""Checks of the student's `hash_block_tokens` and `request_block_hasher` beside those of minivllm.core."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minivllm.core import kv_cache_utils
from minivllm.lesson.common.checks import Student, Wrong, call_on_copies, report
from minivllm.lesson.prefix_match.prefix_cache import hashed_request
from minivllm.request import BlockHash

# ---- hash_block_tokens

Block = tuple[BlockHash | None, list[int], tuple[str, ...] | None]
_PARENT, _OTHER = (kv_cache_utils.hash_block_tokens(None, tokens) for tokens in ([1, 2, 3, 4], [9, 2, 3, 4]))
_PAIRS: tuple[tuple[str, Block, Block, str], ...] = (
    (
        "one block, hashed twice", (None, [1, 2, 3, 4], None), (None, [1, 2, 3, 4], None),
        "a lookup has to meet the hash that was filed: nothing may enter it that changes from call to call",
    ),
    (
        "[1, 2, 3, 4] and [1, 2, 3, 5]", (None, [1, 2, 3, 4], None), (None, [1, 2, 3, 5], None),
        "the block's tokens have to enter, every one of them",
    ),
    (
        "[1, 2, 3, 4] and [4, 3, 2, 1]", (None, [1, 2, 3, 4], None), (None, [4, 3, 2, 1], None),
        "the order of the tokens has to enter: a set, a sum or a sorted list loses it",
    ),
    (
        "[1, 23, 4, 5] and [12, 3, 4, 5]", (None, [1, 23, 4, 5], None), (None, [12, 3, 4, 5], None),
        "digits that are strung together lose where a token ends",
    ),
    (
        "[5, 6, 7, 8] behind two different blocks", (_PARENT, [5, 6, 7, 8], None), (_OTHER, [5, 6, 7, 8], None),
        "without the parent the hash forgets what stands before the block, and keys and values depend on all of it",
    ),
    (
        "[5, 6, 7, 8] as a first and as a second block", (None, [5, 6, 7, 8], None), (_PARENT, [5, 6, 7, 8], None),
        "the same tokens at another place have other keys and values: the parent has to enter",
    ),
    (
        "salts 'x' and 'y'", (None, [1, 2, 3, 4], ("x",)), (None, [1, 2, 3, 4], ("y",)),
        "without the extra keys one tenant hits what another tenant cached",
    ),
    (
        "salt 'x' and no salt", (None, [1, 2, 3, 4], ("x",)), (None, [1, 2, 3, 4], None),
        "a request without a salt must not find what was cached under one",
    ),
)  # fmt: skip


def check_hash_block_tokens(function: Student) -> None:
    """Whether `function(parent_block_hash, token_ids, extra_keys)` tells apart the blocks that minivllm.core does."""

    def run() -> str:
        for name, a, b, why in _PAIRS:
            wanted = kv_cache_utils.hash_block_tokens(*a) == kv_cache_utils.hash_block_tokens(*b)
            _compare(name, wanted, _hash(function, a), _hash(function, b), why)
        return f"{len(_PAIRS)} pairs of blocks, told apart as minivllm.core does"

    report("hash_block_tokens", run)


def _hash(function: Student, block: Block) -> Any:
    value = call_on_copies("hash_block_tokens", function, *block)
    if value is None or not _is_key(value):
        raise Wrong("hash_block_tokens", "a hash", repr(value), "it is a key of the map from hash to block")
    return value


def _is_key(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _compare(name: str, wanted_equal: bool, a: Any, b: Any, why: str) -> None:
    if (a == b) is not wanted_equal:
        words = {True: "one hash", False: "two hashes"}
        raise Wrong(name, words[wanted_equal], words[not wanted_equal], why)


# ---- request_block_hasher

_BASE = list(range(100, 116))
_CHAINS: tuple[tuple[str, list[int], str | None, str], ...] = (
    ("16 other tokens", list(range(200, 216)), None, "no token is the same, so no block may be"),
    ("the same 16 tokens again", _BASE, None, "the same prompt has to find its own chain again"),
    (
        "another first token", [999, *_BASE[1:]], None,
        "every block hangs on the one before it: hand the last hash on as the parent of the next block",
    ),
    (
        "another token 9", [*_BASE[:9], 999, *_BASE[10:]], None,
        "blocks 0 and 1 stand before token 9 and stay, 2 and 3 hang on it and change",
    ),
    ("4 more tokens", [*_BASE, 1, 2, 3, 4], None, "a block keeps its hash, whatever comes behind it"),
    (
        "the same tokens, salt 'x'", _BASE, "x",
        "the salt has to enter the first block, as extra_keys (cache_salt,); the chain carries it on",
    ),
)  # fmt: skip


def check_request_block_hasher(function: Student) -> None:
    """Whether `function(token_ids, block_size, cache_salt)` builds the chains that minivllm.core builds."""

    def run() -> str:
        for num_tokens in (16, 18, 19, 3):
            _check_length(num_tokens, _chain(function, _BASE + [0] * 3, num_tokens, None))
        expected, actual = _core_chain(_BASE, None), _chain(function, _BASE, 16, None)
        for name, tokens, salt, why in _CHAINS:
            wanted = [a == b for a, b in zip(expected, _core_chain(tokens, salt), strict=False)]
            got = [a == b for a, b in zip(actual, _chain(function, tokens, len(tokens), salt), strict=False)]
            if got != wanted:
                raise Wrong(f"the chain of {name}", _same(wanted), _same(got), why)
        return f"{len(_CHAINS) + 4} chains, linked as in minivllm.core"

    report("request_block_hasher", run)


def _check_length(num_tokens: int, chain: Sequence[Any]) -> None:
    wanted = num_tokens // 4
    if len(chain) != wanted:
        why = "only full blocks are hashed, the tokens behind them wait for more"
        if len(chain) < wanted:
            why = "a block is full with its last token: nothing has to follow"
        raise Wrong(f"{num_tokens} tokens at block size 4", f"{wanted} hashes", f"{len(chain)} hashes", why)


def _chain(function: Student, tokens: list[int], num_tokens: int, salt: str | None) -> list[Any]:
    value = call_on_copies("request_block_hasher", function, tokens[:num_tokens], 4, salt)
    if not isinstance(value, list) or not all(item is not None and _is_key(item) for item in value):
        raise Wrong("request_block_hasher", "a list of hashes", repr(value), "one hash for each full block, in order")
    return value


def _core_chain(tokens: list[int], salt: str | None) -> list[BlockHash]:
    return hashed_request("r", tokens, 4, salt).block_hashes


def _same(equal: list[bool]) -> str:
    return f"same hash in blocks {[index for index, same in enumerate(equal) if same]}"
