import pytest
import torch

from minivllm.lesson import ______, check
from minivllm.lesson.common.checks import Wrong, call, call_on_copies
from minivllm.lesson.outcome import BlankError


def test_a_check_that_holds_takes_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    check("blocks of 20 tokens", expected=5, actual=lambda: 20 // 4, why="four tokens to a block")
    assert capsys.readouterr().out == "blocks of 20 tokens: ok, 5\n"


def test_a_check_that_fails_says_object_expected_actual_and_why(capsys: pytest.CaptureFixture[str]) -> None:
    check("blocks of 21 tokens", expected=6, actual=21 // 4, why="the last block is partly filled")
    header, _, row = capsys.readouterr().out.splitlines()
    assert header.split() == ["object", "expected", "actual", "why"]
    assert row.split(maxsplit=6) == ["blocks", "of", "21", "tokens", "6", "5", "the last block is partly filled"]


def test_values_of_different_types_are_told_apart_by_their_repr(capsys: pytest.CaptureFixture[str]) -> None:
    check("plan", expected=({}, 8), actual=[{}, 8], why="a tuple")
    assert "({}, 8)" in (out := capsys.readouterr().out) and "[{}, 8]" in out


def test_a_blank_is_told_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    check("gap", expected=4, actual=lambda: ______ - 6, why="10 - 6")  # type: ignore[operator]
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("gap: the blank ______ is not filled in: replace every ______ by")


def test_an_exception_of_the_practice_is_the_actual_value(capsys: pytest.CaptureFixture[str]) -> None:
    check("gap", expected=4, actual=lambda: int("computed"), why="10 - 6")
    assert "ValueError: invalid literal for int()" in capsys.readouterr().out


def test_a_value_that_cannot_be_compared_is_a_wrong_one(capsys: pytest.CaptureFixture[str]) -> None:
    check("ids", expected=[1, 2], actual=torch.tensor([1, 2]), why="a list of ids")
    assert "tensor([1, 2])" in (out := capsys.readouterr().out) and "a list of ids" in out


@pytest.mark.parametrize("value", [______, [______], {"positions": [0, ______]}, ([1], (______, 2))])
def test_a_blank_inside_of_what_a_function_returns_is_found(value: object) -> None:
    with pytest.raises(BlankError):
        call("it", lambda: value)


def test_a_function_that_changes_a_list_that_it_was_given_is_told_and_the_list_is_as_it_was() -> None:
    given = [{"id": "A"}]
    with pytest.raises(Wrong) as wrong:
        call_on_copies("plan", lambda requests: requests[0].clear(), given, owner="the scheduler owns them")
    assert (wrong.value.actual, wrong.value.why) == ("a changed list", "the scheduler owns them")
    assert given == [{"id": "A"}]


def test_a_list_that_holds_itself_ends_the_search_for_blanks() -> None:
    loop: list[object] = []
    loop.append(loop)
    assert call("it", lambda: loop) is loop


def test_a_long_value_is_cut_in_the_message(capsys: pytest.CaptureFixture[str]) -> None:
    check("ids", expected=[], actual=list(range(1000)), why="none")
    assert "…" in (out := capsys.readouterr().out) and len(out.splitlines()[2]) < 300
