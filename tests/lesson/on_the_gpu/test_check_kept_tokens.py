"""Verification: a wrong rule of acceptance is named."""

import pytest

from minivllm.lesson.on_the_gpu.check_kept_tokens import check_kept_tokens
from tests.lesson.notebooks import BLANK
from tests.lesson.on_the_gpu.student import student, told


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("drafts[i] != token", "drafts[i] == token", "the wrong way round"),
        ("drafts[i] != token", "False", "every sampled token was kept"),
        ("kept.append(token)", "kept.append(drafts[i])", "the model's own token takes its place"),
        ("break", "continue", "every sampled token was kept"),
        ("return kept", "return kept[:-1] if kept != sampled or drafts else []", "the accepted drafts alone"),
        ("return kept", "return [t for i, t in enumerate(sampled) if i == len(drafts) or drafts[i] == t]", "behind a rejected one"),
        ("kept.append(token)", "kept.append(______)", BLANK),
    ],
)  # fmt: skip
def test_a_wrong_rule_of_acceptance_is_named(
    right: str, wrong: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = student("kept_tokens", (right, wrong))
    assert message in told(check_kept_tokens, code, "kept_tokens", capsys)
