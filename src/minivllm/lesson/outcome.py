"""The one door through which a test reaches student code.

``call(name, *args) -> Outcome`` hands the student's function fresh copies of the arguments and brings back what it
returned, what it left of the arguments, what it raised and what it wrote to stderr. Everything crosses as JSON, also
inside one kernel, so that a test can be moved out of the student's process without a change: what comes back is
plain data, whatever the student's objects pretend to be.

This module needs the standard library and encoding.py: the process that runs student code loads nothing else.
"""

from __future__ import annotations

import contextlib
import io
import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TextIO

from minivllm.lesson.encoding import Data, decode, encode, type_name

NOT_A_FUNCTION = "minivllm.lesson.outcome.NotAFunction"  # shown as the TypeError that Python itself would raise
STREAM_LIMIT = 10_000
RECURSION_LIMIT = 10_000


@dataclass(frozen=True)
class Raised:
    """What student code raised: the names along the MRO (builtins bare, others with module) and the text."""

    types: tuple[str, ...]
    message: str

    def is_a(self, name: str) -> bool:
        return name in self.types

    def __str__(self) -> str:
        name = next((name for name in self.types if name != NOT_A_FUNCTION), "TypeError").rpartition(".")[2]
        return f"{name}: {self.message}" if self.message else name


@dataclass(frozen=True)
class Outcome:
    """One call of a student's function, as plain data."""

    value: Any
    args_after: tuple[Any, ...]
    error: Raised | None
    stderr: str


Call = Callable[..., Outcome]
"""``call(name, *args, then=None, spoiled=None)``. A name that holds data is read when no argument is given.

``then`` is a second tuple of arguments: the function is called once more with them before the first value is looked
at, so that a value that a later call changes behind the caller's back shows. ``spoiled`` is one for a call before:
what that returns is emptied in place, so that a value that shares its objects shows.
"""


class NotDefined(NameError):
    """The namespace has no such name."""


class NotAFunction(TypeError):
    """The name holds something that can't be called."""


class BlankError(Exception):
    """A blank of the exercise was used before it was filled in."""

    def _render_traceback_(self) -> list[str]:
        """What Jupyter shows: the sentence, without a traceback through this module."""
        return [f"BlankError: {self}"]


class Blank:
    """``______`` in an exercise. It can be assigned, so that the cell runs; any use of it raises `BlankError`."""

    def __init__(self, remedy: str = "replace every ______ by your own expression and run the cell again") -> None:
        self._remedy = remedy

    def _use(self, *args: object, **kwargs: object) -> NoReturn:
        raise BlankError(f"the blank ______ is not filled in: {self._remedy}")

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):  # Jupyter asks every object for _repr_html_ and the like
            raise AttributeError(name)
        self._use()

    def __repr__(self) -> str:
        return "______"


_OPERATORS = """
abs add and bool call contains delitem divmod enter eq float floordiv format ge getitem gt hash index int invert iter le
len lshift lt matmul mod mul ne neg next or pos pow radd rand rdivmod reversed rfloordiv rlshift rmatmul rmod rmul ror
round rpow rrshift rshift rsub rtruediv rxor setitem str sub truediv trunc xor
"""
for _operator in _OPERATORS.split():
    setattr(Blank, f"__{_operator}__", Blank._use)

______ = Blank()


def door(namespace: Mapping[str, Any]) -> Call:
    """A `Call` into `namespace` (a notebook's ``globals()``), in this process. Its calls share one cap on stdout.

    A namespace with a `Call` of its own, ``namespace.call``, stands for one in another process.
    """
    own: Call | None = getattr(namespace, "call", None)
    if own is not None:
        return own
    stdout = _Capped(sys.stdout)

    def call(name: str, *args: Any, **more: tuple[Any, ...] | None) -> Outcome:
        with contextlib.redirect_stdout(stdout):
            return read_reply(answer(namespace, write_request(name, args, **more)), len(args))

    return call


def write_request(
    name: str, args: tuple[Any, ...], then: tuple[Any, ...] | None = None, spoiled: tuple[Any, ...] | None = None
) -> Data:
    return {"name": name, "args": encode(args), "then": encode(then), "spoiled": encode(spoiled)}


def answer(namespace: Mapping[str, Any], request: Data) -> Data:
    """Run one request against student code. Nothing that the code raises gets out."""
    name = request["name"]
    args, then, spoiled = (decode(request[which]) for which in ("args", "then", "spoiled"))
    stderr = _Capped()
    value = error = None
    with _captured(stderr), _deep_recursion():
        try:
            if spoiled is not None:
                _empty(_run(namespace, name, spoiled))
            value = _run(namespace, name, args)
            if then is not None:
                _run(namespace, name, then)
        except BaseException as raised:  # also exits and interrupts: they are the student's result, not ours
            error = describe(raised)
        value = encode(value if error is None else None)
        args_after = [encode(arg) for arg in args]
    return {"value": value, "args_after": args_after, "error": error, "stderr": stderr.text()}


def read_reply(reply: Data, args: int) -> Outcome:
    """What `answer` sent for a call of `args` arguments. Raises ValueError for anything that it never sends."""
    match reply:
        case {"value": value, "args_after": [*after], "error": error, "stderr": str(stderr)} if len(after) == args:
            return Outcome(decode(value), tuple(decode(arg) for arg in after), read_error(error), stderr)
    raise ValueError("no reply of a call")


def read_error(error: Data) -> Raised | None:
    """What `describe` sent, or None. Raises ValueError for anything that it never sends."""
    match error:
        case None:
            return None
        case {"types": [_, *_] as types, "message": str(message)} if all(isinstance(name, str) for name in types):
            return Raised(tuple(types), message)
    raise ValueError("no description of an error")


def _run(namespace: Mapping[str, Any], name: str, args: tuple[Any, ...]) -> Any:
    if name not in namespace:
        raise NotDefined(f"{name} is not defined")
    target = namespace[name]
    if callable(target):
        return target(*args)
    if args:
        raise NotAFunction(f"{type_name(type(target))!r} object is not callable")
    return target


def _empty(value: Any) -> None:
    """Take everything out of a result and of the dicts and lists in it."""
    kind = type(value)
    if issubclass(kind, dict):
        dict.clear(value)
    elif issubclass(kind, list | tuple):
        for item in tuple(value):
            _empty(item) if item is not value else None
        if issubclass(kind, list):
            list.clear(value)


def describe(raised: BaseException) -> Data:
    try:
        message = encode(str(raised))
    except BaseException:  # __str__ is student code too
        message = ""
    types = [type_name(kind) for kind in type.mro(type(raised)) if kind is not object]
    return {"types": types, "message": message[:500] if isinstance(message, str) else ""}


# --- the streams ------------------------------------------------------------------------------------------------


class _Capped(io.TextIOBase):
    """Keeps (or passes on to `target`) the first `STREAM_LIMIT` characters and drops a flood behind them."""

    def __init__(self, target: TextIO | None = None) -> None:
        self._target: io.StringIO | TextIO = io.StringIO() if target is None else target
        self._room = STREAM_LIMIT

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        kept = text[: self._room]
        if kept:
            self._room -= len(kept)
            self._target.write(kept if self._room else f"{kept}\n[cut after {STREAM_LIMIT} characters]\n")
        return len(text)

    def text(self) -> str:
        return self._target.getvalue() if isinstance(self._target, io.StringIO) else ""


@contextlib.contextmanager
def _captured(stderr: _Capped) -> Iterator[None]:
    """stderr goes to `stderr`, also a root logger's, which holds on to the stream."""
    real = sys.stderr
    handlers = [h for h in logging.root.handlers if isinstance(h, logging.StreamHandler) and h.stream is real]
    for handler in handlers:
        handler.setStream(stderr)
    try:
        with contextlib.redirect_stderr(stderr):
            yield
    finally:
        for handler in handlers:
            handler.setStream(real)


@contextlib.contextmanager
def _deep_recursion() -> Iterator[None]:
    """A right answer may recurse once a token: give it frames for several thousand."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, RECURSION_LIMIT))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)
