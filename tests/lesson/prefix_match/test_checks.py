"""The practice of 2-prefix-match: right answers pass, wrong ideas are named."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from minivllm.lesson import (
    ______,
    check_find_longest_cache_hit,
    check_hash_block_tokens,
    check_max_cache_hit_length,
    check_request_block_hasher,
)
from tests.lesson.notebooks import BLANK
from tests.lesson.prefix_match.student import RIGHT, student

CHECKS: dict[str, Callable[[Any], None]] = {
    "hash_block_tokens": check_hash_block_tokens,
    "request_block_hasher": check_request_block_hasher,
    "max_cache_hit_length": check_max_cache_hit_length,
    "find_longest_cache_hit": check_find_longest_cache_hit,
}


def told(grade_id: str, function: Any, capsys: pytest.CaptureFixture[str]) -> str:
    CHECKS[grade_id](function)
    return capsys.readouterr().out.strip()


@pytest.mark.parametrize("grade_id", CHECKS)
def test_the_right_answers_in_the_released_cell_pass_the_check(
    grade_id: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told(grade_id, student(grade_id, *RIGHT[grade_id]), capsys).startswith(f"{grade_id}: ok, ")


@pytest.mark.parametrize("grade_id", CHECKS)
def test_the_released_cell_is_told_to_be_filled_in(grade_id: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert told(grade_id, student(grade_id), capsys) == f"{grade_id}: {BLANK}"


@pytest.mark.parametrize(
    ("grade_id", "answers", "words"),
    [
        ("hash_block_tokens", ["(token_ids, extra_keys)"], ["behind two different blocks", "without the parent"]),
        ("hash_block_tokens", ["(parent_block_hash, extra_keys)"], ["the block's tokens have to enter"]),
        ("hash_block_tokens", ["(parent_block_hash, token_ids)"], ["salts 'x' and 'y'", "one tenant hits"]),
        ("hash_block_tokens", ["(parent_block_hash, sorted(token_ids), extra_keys)"], ["order of the tokens"]),
        (
            "hash_block_tokens",
            ["(parent_block_hash, ''.join(map(str, token_ids)), extra_keys)"],
            ["where a token ends"],
        ),
        ("hash_block_tokens", ["hash_block_tokens.missing"], ["AttributeError", "the function raised"]),
        ("hash_block_tokens", ["token_ids.clear() or ('x',)"], ["a changed list", "read it, don't edit it"]),
        (
            "request_block_hasher",
            ["-(-len(token_ids) // block_size)", "cache_salt and index == 0", "parent"],
            ["18 tokens at block size 4", "4 hashes", "5 hashes", "only full blocks"],
        ),
        (
            "request_block_hasher",
            ["(len(token_ids) - 1) // block_size", "cache_salt and index == 0", "parent"],
            ["16 tokens at block size 4", "3 hashes", "full with its last token"],
        ),
        (
            "request_block_hasher",
            ["len(token_ids) // block_size", "cache_salt and index == 0", "None"],
            ["another first token", "as the parent of the next block"],
        ),
        (
            "request_block_hasher",
            ["len(token_ids) // block_size", "False", "parent"],
            ["salt 'x'", "the salt has to enter the first block"],
        ),
        ("max_cache_hit_length", ["request.num_tokens"], ["63", "64", "no position gives the logits"]),
        ("max_cache_hit_length", ["request.num_prompt_tokens - 1"], ["8 outputs", "comes back with its outputs"]),
        ("max_cache_hit_length", ["(request.num_tokens - 1) // 16 * 16"], ["48", "knows no block size"]),
        ("max_cache_hit_length", ["request.num_tokens - 16"], ["48", "knows no block size"]),
        ("max_cache_hit_length", ["request.num_computed_tokens"], ["num_computed_tokens or a hit of nothing"]),
        ("max_cache_hit_length", ["request.num_tokens - 2"], ["62", "all but the last"]),
        ("max_cache_hit_length", ["'63'"], ["'63'", "an int"]),
        ("max_cache_hit_length", ["None"], ["None", "an int"]),
        (
            "find_longest_cache_hit",
            ["None", "if block_id is None: break\n        hit.append(block_id)"],
            ["at most 63 tokens", "[1, 2, 3, 4]", "the bound is in tokens"],
        ),
        (
            "find_longest_cache_hit",
            ["-(-max_length // block_size)", "if block_id is None: break\n        hit.append(block_id)"],
            ["at most 63 tokens", "63 // 16 = 3"],
        ),
        (
            "find_longest_cache_hit",
            ["(max_length - 1) // block_size", "if block_id is None: break\n        hit.append(block_id)"],
            ["at most 64 tokens", "the - 1 of the cap is in max_length already"],
        ),
        (
            "find_longest_cache_hit",
            ["max_length // 16", "if block_id is None: break\n        hit.append(block_id)"],
            ["block size 4", "don't write another number"],
        ),
        (
            "find_longest_cache_hit",
            ["max_length // block_size", "if block_id is None: continue\n        hit.append(block_id)"],
            ["[1, 3, 4] cached", "goes on behind a hole"],
        ),
        ("find_longest_cache_hit", ["max_length // block_size", "hit.append(block_id)"], ["None is no block"]),
        ("find_longest_cache_hit", ["max_length // block_size", "pass"], ["[]", "nothing is kept"]),
        ("find_longest_cache_hit", ["max_length // block_size"], ["[]", "nothing is kept"]),
        (
            "find_longest_cache_hit",
            ["max_length // block_size", "hit.append(block_hash)"],
            ["these are hashes", "…"],
        ),
    ],
)
def test_a_wrong_idea_is_named(
    grade_id: str, answers: Sequence[str], words: Sequence[str], capsys: pytest.CaptureFixture[str]
) -> None:
    shown = told(grade_id, student(grade_id, *answers), capsys)
    assert shown.splitlines()[0].split() == ["object", "expected", "actual", "why"]
    assert [word for word in words if word not in shown] == []


@pytest.mark.parametrize("grade_id", CHECKS)
@pytest.mark.parametrize("nonsense", [None, 4, lambda: 1, lambda *_: None, lambda *_: ______, lambda *_: [______]])
def test_nonsense_is_told_in_one_message_and_raises_nothing(
    grade_id: str, nonsense: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = told(grade_id, nonsense, capsys)
    assert ": ok" not in shown
    assert len(shown.splitlines()) == 3 or shown == f"{grade_id}: {BLANK}"
