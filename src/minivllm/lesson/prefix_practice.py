"""What the checks of the practice in 2-prefix-match share: calling a student's function, and saying what is wrong."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from minivllm.core.kv_cache_utils import RequestBlockHasher
from minivllm.lesson.outcome import Blank, BlankError
from minivllm.lesson.table import Table, show
from minivllm.request import Request, SamplingParams

Student = Callable[..., Any]


def shorten(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


class Wrong(Exception):
    """What is wrong about a student's function, in the four cells of the message."""

    def __init__(self, name: str, expected: object, actual: object, why: str) -> None:
        super().__init__(why)
        self.row = (name, str(expected), shorten(str(actual), 100), why)


def report(name: str, run: Callable[[], str]) -> None:
    """Say `ok` and what `run` returns, or the first thing that is wrong; the cells after this one still run."""
    try:
        told = run()
    except BlankError as blank:
        show(f"{name}: {blank}")
    except Wrong as wrong:
        show(Table(("object", "expected", "actual", "why"), [wrong.row]))
    else:
        show(f"{name}: ok, {told}")


def call(name: str, function: Student, *args: Any) -> Any:
    """`function(*args)` on copies of the arguments.

    Raises:
        BlankError: a blank was used, or returned.
        Wrong: it raised, or it changed a list that it was given.
    """
    given = copy.deepcopy(args)
    try:
        value = function(*given)
    except BlankError:
        raise
    except Exception as error:
        raised = f"{type(error).__name__}: {error}"
        raise Wrong(name, "a value", raised, "the function raised, so nothing came back") from None
    for item in value if isinstance(value, list | tuple) else [value]:
        if isinstance(item, Blank):
            bool(item)  # it asks to be filled in
    if any(isinstance(after, list) and before != after for before, after in zip(args, given, strict=True)):
        raise Wrong(
            name, "the list as it was given", "a changed list", "others read this list too: read it, don't edit it"
        )
    return value


def hashed_request(request_id: str, tokens: Sequence[int], block_size: int, salt: str | None = None) -> Request:
    """A request that has the hashes of its full blocks."""
    request = Request(request_id, tokens, SamplingParams(), cache_salt=salt)
    request.set_block_hasher(RequestBlockHasher(block_size))
    return request
