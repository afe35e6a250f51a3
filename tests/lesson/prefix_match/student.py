"""What the tests of 2-prefix-match share."""

import re
from collections.abc import Sequence
from typing import Any

from minivllm.lesson import ______
from minivllm.lesson.prefix_match.in_engine import LOADS, compare_lookups
from tests.lesson.notebooks import code_cells, source

NAME = "2-prefix-match"

RIGHT: dict[str, Sequence[str]] = {
    "hash_block_tokens": ["(parent_block_hash, token_ids, extra_keys)"],
    "request_block_hasher": ["len(token_ids) // block_size", "cache_salt and index == 0", "parent"],
    "max_cache_hit_length": ["request.num_tokens - 1"],
    "find_longest_cache_hit": ["max_length // block_size", "if block_id is None: break\n        hit.append(block_id)"],
}


def cell_of(grade_id: str) -> Any:
    (cell,) = [c for c in code_cells(source(NAME)) if c.metadata.get("nbgrader", {}).get("grade_id") == grade_id]
    return cell


def student(grade_id: str, *answers: str) -> Any:
    """The released cell with each blank replaced by an answer, run as a student would; the function that it defines."""
    cell = cell_of(grade_id)
    stub = "\n".join(f"    {line}" for line in cell.metadata.minivllm.stub)
    code = re.sub(r"    ### BEGIN SOLUTION.*?### END SOLUTION", lambda _: stub, cell.source, flags=re.DOTALL)
    for answer in answers:
        assert "______" in code
        code = code.replace("______", answer, 1)
    namespace: dict[str, Any] = {"______": ______}
    for needed in ("hash_block_tokens",) if grade_id == "request_block_hasher" else ():
        namespace[needed] = student(needed, *RIGHT[needed])
    exec(code, namespace)
    return namespace[grade_id]


find_longest_cache_hit = student("find_longest_cache_hit", *RIGHT["find_longest_cache_hit"])

max_cache_hit_length = student("max_cache_hit_length", *RIGHT["max_cache_hit_length"])


def lookup_rows(load: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in compare_lookups(find_longest_cache_hit, max_cache_hit_length, LOADS[load]).rows]
