"""Checks of a reader's work: one line when it holds, object / expected / actual / why when it does not. 0 points.

Whatever the work does - raise, change what it was given, return nonsense, leave a blank - one sentence says so, and the
cells after the check still run.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from minivllm.lesson.common.errors import LessonError
from minivllm.lesson.common.table import Table, show
from minivllm.lesson.outcome import Blank, BlankError

Student = Callable[..., Any]
_WIDTH = 240  # characters of a value in a message


class Wrong(Exception):
    """What is wrong, in the four cells of the message; a str stands as it is, any other value as its repr."""

    def __init__(self, name: str, expected: object, actual: object, why: str) -> None:
        super().__init__(why)
        self.name, self.expected, self.actual, self.why = name, text(expected), text(actual), why

    @property
    def table(self) -> Table:
        return Table(
            ("object", "expected", "actual", "why"), [(self.name, self.expected, shorten(self.actual), self.why)]
        )


class NotYet(Exception):
    """There is nothing to check yet; the text is the whole sentence."""


def check(name: str, *, expected: Any, actual: Any, why: str) -> None:
    """Compare `actual` with `expected`, and say why `expected` is right where they differ.

    A callable is called for its value.
    """

    def run() -> str:
        wanted, given = (call(name, value, why=why) if callable(value) else value for value in (expected, actual))
        if not same(wanted, given):
            raise Wrong(name, repr(wanted), repr(given), why)
        return repr(given)

    report(name, run)


def report(name: str, run: Callable[[], str]) -> None:
    """Say `ok` and what `run` returns, or the first thing that is wrong."""
    with told(name):
        show(f"{name}: ok, {run()}")


@contextmanager
def told(name: str) -> Iterator[None]:
    """Leaves the block with a message where something is wrong, blank or missing."""
    try:
        yield
    except BlankError as blank:
        show(f"{name}: {blank}")
    except NotYet as sentence:
        show(str(sentence))
    except Wrong as wrong:
        show(wrong.table)


def call(
    name: str,
    function: Student,
    *args: Any,
    expected: object = "a value",
    why: str = "the function raised, so nothing came back",
) -> Any:
    """`function(*args)`.

    Args:
        expected, why: what the message says where the function raises.

    Raises:
        BlankError: a blank was used, or returned.
        Wrong: the function raised.
    """
    try:
        value = function(*args)
    except BlankError:
        raise
    except Exception as error:
        raise Wrong(name, expected, f"{type(error).__name__}: {error}", why) from None
    _no_blank_in(value)
    return value


class Misfit(LessonError):
    """The piece raised, left a blank, or gave what the engine can't use; the text is the rest of a sentence."""


def ask(piece: Student, *args: Any, **more: Any) -> Any:
    """`piece(*args, **more)`.

    Raises:
        Misfit: it raised, or left a blank.
    """
    try:
        return call("", partial(piece, **more), *args)
    except BlankError as blank:
        raise Misfit(str(blank)) from None
    except Wrong as wrong:
        raise Misfit(f"it raised {wrong.actual}") from None


def call_on_copies(
    name: str,
    function: Student,
    *args: Any,
    expected: object = "a value",
    why: str = "the function raised, so nothing came back",
    owner: str = "others read this list too: read it, don't edit it",
) -> Any:
    """`call` with copies of the arguments.

    Args:
        owner: why a list that is given is not to be changed.

    Raises:
        Wrong: the function raised, or it changed a list that it was given.
    """
    given = copy.deepcopy(args)
    value = call(name, function, *given, expected=expected, why=why)
    if any(isinstance(after, list) and not same(before, after) for before, after in zip(args, given, strict=True)):
        raise Wrong(name, "the list as it was given", "a changed list", owner)
    return value


def same(one: object, other: object) -> bool:
    """Whether two values are equal; one that can't be compared (an array, a tensor) equals nothing.

    Raises:
        BlankError: one of them is a blank, or holds one.
    """
    try:
        return bool(one == other)
    except BlankError:
        raise
    except Exception:
        return False


def text(value: object) -> str:
    return value if isinstance(value, str) else repr(value)


def shorten(text: str, width: int = _WIDTH) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _no_blank_in(value: object, levels: int = 3) -> None:
    if isinstance(value, Blank):
        bool(value)  # it asks to be filled in
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    for item in items if levels else ():
        _no_blank_in(item, levels - 1)
