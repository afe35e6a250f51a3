"""Checks of practice cells: one line when it holds, object / expected / actual / why when it does not. 0 points."""

from collections.abc import Callable
from typing import Any

from minivllm.lesson.outcome import BlankError
from minivllm.lesson.table import Table, show


def check(name: str, *, expected: Any, actual: Any, why: str) -> None:
    """Compare `actual` with `expected`, and say why `expected` is right where they differ.

    A callable is called for its value; what it raises is told in one line, so that the cells after it still run.
    """
    try:
        expected, actual = _value(expected), _value(actual)
    except BlankError as blank:
        show(f"{name}: {blank}")
        return
    except Exception as error:
        show(
            Table(("object", "expected", "actual", "why"), [(name, "a value", f"{type(error).__name__}: {error}", why)])
        )
        return
    if expected == actual:
        show(f"{name}: ok, {actual!r}")
        return
    show(Table(("object", "expected", "actual", "why"), [(name, repr(expected), repr(actual), why)]))


def _value(given: Any | Callable[[], Any]) -> Any:
    return given() if callable(given) else given
