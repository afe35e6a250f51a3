import pytest

from minivllm.lesson import ______, check


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
