"""From a schedule to tensors: wrong batches are named, the prose gives what was measured."""

from typing import Any

import pytest

from minivllm.lesson.on_the_gpu import measure
from minivllm.lesson.on_the_gpu import questions as on_the_gpu
from minivllm.lesson.on_the_gpu.batch_step import batch_step
from minivllm.lesson.on_the_gpu.check_prepare_inputs import check_prepare_inputs
from minivllm.lesson.predictions import QUESTIONS
from tests.lesson.notebooks import BLANK, prose
from tests.lesson.on_the_gpu.student import NAME, student, told


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ('r["computed"] + i', "i", "this counts from the start of the step"),
        ("block_id * block_size + position % block_size", "block_id", "this is the block id"),
        ("block_id * block_size + position % block_size", "position", "this is the position"),
        ("block_id * block_size + position % block_size", "block_id * block_size", "this is the first slot of the block"),
        ("block_id * block_size + position % block_size", "block_id + position % block_size", "is not multiplied by block_size"),
        ("block_id * block_size + position % block_size", "block_id * block_size + i % block_size", "comes from the position"),
        ('query_start_loc[-1] + r["scheduled"]', 'r["scheduled"]', "these are the counts"),
        ('query_start_loc[-1] + r["scheduled"]', 'query_start_loc[-1] + r["computed"] + r["scheduled"]', "this sums whole sequences"),
        ('seq_lens.append(r["computed"] + r["scheduled"])', 'seq_lens.append(r["computed"])', "these are the tokens before the step"),
        ('seq_lens.append(r["computed"] + r["scheduled"])', 'seq_lens.append(r["scheduled"])', "these are the tokens of the step"),
        ('r["computed"] + i', 'r["computed"] + i + 99', "IndexError: list index out of range"),
        ('r["computed"] + i', "______", BLANK),
    ],
)  # fmt: skip
def test_a_wrong_batch_is_named(right: str, wrong: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = student("prepare_inputs", (right, wrong))
    assert message in told(check_prepare_inputs, code, "prepare_inputs", capsys)


@pytest.mark.parametrize("nonsense", [None, 3, [], lambda: None, lambda a, b: None, lambda a, b: a.clear(), print])
def test_a_batch_that_is_none_is_told_in_a_table(nonsense: Any, capsys: pytest.CaptureFixture[str]) -> None:
    check_prepare_inputs(nonsense)
    out = capsys.readouterr().out
    assert any(words in out for words in ("five lists by name", "a dict with positions", "a changed list"))


def test_a_batch_that_changes_the_requests_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    code = student("prepare_inputs", ("return {", 'requests[0]["computed"] = 0\n    return {'))
    assert "the scheduler owns them" in told(check_prepare_inputs, code, "prepare_inputs", capsys)


def test_the_mixed_step_is_the_one_that_the_prose_describes() -> None:
    found = batch_step()
    rows = {r["id"]: (found.drafts[r["id"]], r["scheduled"], r["block_ids"]) for r in found.requests}
    assert rows["A"][0] == 2 and rows["A"][2] == [1, 2, 4]  # hint 1 names this row
    assert rows["B"][:2] == (0, 1) and rows["C"][0] == 0
    assert next(view.known for view in found.step.before if view.request_id == "C") == 13
    assert found.new_block_ids["A"] == [] and found.block_size == 4


def test_the_prose_gives_the_numbers_of_the_measurements() -> None:
    english = "\n".join(prose(NAME, "en"))
    first, second, third = measure.CHUNK_BUDGETS
    assert f"a prompt of {measure.CHUNK_PROMPT} tokens arrives" in english
    assert f"under a token budget of {first}, {second} and {third}?" in english
    length = measure.PREFIX_SHARED + measure.PREFIX_OWN
    assert f"A prompt of {length} tokens, {measure.PREFIX_SHARED} of them cached" in english
    assert f"The hit computes {measure.PREFIX_OWN} of {length} tokens" in english
    asked = f"Drafts: {', '.join(map(str, on_the_gpu.DRAFTS))}."
    assert asked in english and f"and behind all drafts: {on_the_gpu.SAMPLED[-1]}." in english


def test_answers_are_what_the_lesson_text_gets_wrong() -> None:
    hits = QUESTIONS["block_size_hits"].answer().actual
    assert hits["60 shared, block 64"] == 0 and 1000 - int(hits["1000 shared, block 64"]) < 64  # claim 37
    steps = list(QUESTIONS["chunk_steps"].answer().actual.values())
    assert steps == sorted(steps) and steps[0] == 1
    assert dict(QUESTIONS["split_kv"].answer().actual) == {"equal up to rounding": "yes", "equal bit for bit": "no"}
    assert dict(QUESTIONS["draft_text"].answer().actual)["the greedy text is the same"] == "yes"
