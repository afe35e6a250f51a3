"""The one door through which a test reaches student code.

``call(name, *args) -> Outcome`` hands the student's function fresh copies of the arguments and brings back what it
returned, what it left of the arguments, what it raised and what it wrote to stderr. Everything crosses as JSON, also
inside one kernel, so that a test can be moved out of the student's process without a change: what comes back is
plain data, whatever the student's objects pretend to be.

This module needs the standard library alone: the process that runs student code loads nothing else.
"""

from __future__ import annotations

import contextlib
import io
import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, TextIO

MAX_DEPTH = 40
MAX_ITEMS = 100_000
MAX_CHARACTERS = 1_000_000
MAX_BITS = 10_000  # Python refuses to print an int of more than 4300 digits
STREAM_LIMIT = 10_000
RECURSION_LIMIT = 10_000

Data = Any
"""What ``json.dumps`` takes: None, bool, int, str, and lists and dicts of them."""


@dataclass(frozen=True)
class Raised:
    """What student code raised: the names along the MRO (builtins bare, others with module) and the text."""

    types: tuple[str, ...]
    message: str

    def is_a(self, name: str) -> bool:
        return name in self.types

    def __str__(self) -> str:
        name = self.types[0].rpartition(".")[2]
        return f"{name}: {self.message}" if self.message else name


@dataclass(frozen=True)
class Outcome:
    """One call of a student's function, as plain data."""

    value: Any
    args_after: tuple[Any, ...]
    error: Raised | None
    stderr: str


Call = Callable[..., Outcome]
"""``call(name, *args, then=None)``. A name that holds data instead of a function is read when no argument is given.

``then`` is a second tuple of arguments: the function is called once more with them before the first value is looked
at, so that a value that a later call changes behind the caller's back shows.
"""


class NotDefined(NameError):
    """The namespace has no such name."""


class BlankError(Exception):
    """A blank of the exercise was used before it was filled in."""

    def _render_traceback_(self) -> list[str]:
        """What Jupyter shows: the sentence, without a traceback through this module."""
        return [f"BlankError: {self}"]


class Opaque:
    """Something that JSON has no word for; known by its type's name and equal to nothing."""

    def __init__(self, type_name: str) -> None:
        self.type_name = type_name

    def __eq__(self, other: object) -> bool:
        return False

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"<{self.type_name}>"


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
    """A `Call` into `namespace` (a notebook's ``globals()``), in this process. Its calls share one cap on stdout."""
    stdout = _Capped(sys.stdout)

    def call(name: str, *args: Any, then: tuple[Any, ...] | None = None) -> Outcome:
        with contextlib.redirect_stdout(stdout):
            return read_reply(answer(namespace, write_request(name, args, then)))

    return call


def write_request(name: str, args: tuple[Any, ...], then: tuple[Any, ...] | None) -> Data:
    return {"name": name, "args": encode(args), "then": encode(then)}


def read_reply(reply: Data) -> Outcome:
    error = reply["error"] and Raised(tuple(reply["error"]["types"]), reply["error"]["message"])
    return Outcome(decode(reply["value"]), decode(reply["args_after"]), error, reply["stderr"])


def answer(namespace: Mapping[str, Any], request: Data) -> Data:
    """Run one request against student code. Nothing that the code raises gets out."""
    args, then = decode(request["args"]), decode(request["then"])
    stderr = _Capped()
    value = error = None
    with _captured(stderr), _deep_recursion():
        try:
            value = _run(namespace, request["name"], args)
            if then is not None:
                _run(namespace, request["name"], then)
        except BaseException as raised:  # also exits and interrupts: they are the student's result, not ours
            error = describe(raised)
        value = encode(value if error is None else None)
    return {"value": value, "args_after": encode(args), "error": error, "stderr": stderr.text()}


def _run(namespace: Mapping[str, Any], name: str, args: tuple[Any, ...]) -> Any:
    if name not in namespace:
        raise NotDefined(f"{name} is not defined")
    target = namespace[name]
    if not args and not callable(target):
        return target
    return target(*args)


def describe(raised: BaseException) -> Data:
    try:
        message = encode(str(raised))
    except BaseException:  # __str__ is student code too
        message = ""
    types = [_type_name(kind) for kind in type.mro(type(raised)) if kind is not object]
    return {"types": types, "message": message[:500] if isinstance(message, str) else ""}


# --- the encoding -----------------------------------------------------------------------------------------------


def encode(value: Any) -> Data:
    """`value` as JSON that keeps None, bool, int, float, str, list, tuple and dict (with any keys) apart.

    Subclasses (OrderedDict, IntEnum, a namedtuple) are read through the base type's own methods, so that what they
    override does nothing. numpy's scalars, deep or huge values and everything else become an `Opaque`.
    """
    try:
        return _Encoder().encode(value, 0)
    except _TooLarge:
        return {"opaque": f"{_type_name(type(value))} of more than {MAX_ITEMS} items"}


def decode(data: Data) -> Any:
    """The inverse of `encode`: fresh objects of the plain types, and `Opaque` ones."""
    if isinstance(data, list):
        return [decode(item) for item in data]
    if not isinstance(data, dict):
        return data
    [(tag, content)] = data.items()
    if tag == "tuple":
        return tuple(decode(item) for item in content)
    if tag == "dict":
        return {_as_key(decode(key)): decode(item) for key, item in content}
    if tag == "int":
        return int(content, 16)
    if tag == "float":
        return float.fromhex(content)
    if tag == "opaque":
        return Opaque(content)
    raise ValueError(f"unknown tag {tag!r} in encoded data: expected tuple, dict, int, float or opaque")


def _as_key(value: Any) -> Any:
    try:
        hash(value)
    except TypeError:  # a list of a kind that can be hashed, read as a list
        return Opaque("key")
    return value


class _TooLarge(Exception):
    pass


class _Encoder:
    def __init__(self) -> None:
        self._items = 0

    def encode(self, value: Any, depth: int) -> Data:
        kind = type(value)  # not value.__class__, which an object may fake
        self._items += 1
        if self._items > MAX_ITEMS:
            raise _TooLarge
        if value is None or kind is bool:
            return value
        if depth > MAX_DEPTH or _type_name(kind).startswith("numpy."):
            return {"opaque": _type_name(kind)}
        if issubclass(kind, str):
            text = str.__str__(value)
            return text if len(text) <= MAX_CHARACTERS else {"opaque": f"str of {len(text)} characters"}
        if issubclass(kind, int):
            return self._int(int.__add__(value, 0))
        if issubclass(kind, float):
            return {"float": float.hex(value)}
        if issubclass(kind, list):
            return [self.encode(item, depth + 1) for item in list.__iter__(value)]
        if issubclass(kind, tuple):
            return {"tuple": [self.encode(item, depth + 1) for item in tuple.__iter__(value)]}
        if issubclass(kind, dict):
            pairs = dict.items(value)
            return {"dict": [[self.encode(key, depth + 1), self.encode(item, depth + 1)] for key, item in pairs]}
        return {"opaque": _type_name(kind)}

    def _int(self, number: int) -> Data:
        bits = number.bit_length()
        if bits <= 64:
            return number
        return {"int": hex(number)} if bits <= MAX_BITS else {"opaque": f"int of {bits} bits"}


_module_of = type.__dict__["__module__"].__get__
_qualname_of = type.__dict__["__qualname__"].__get__


def _type_name(kind: type) -> str:
    module, name = _module_of(kind), _qualname_of(kind)  # past any metaclass
    return f"{name}" if module == "builtins" else f"{module}.{name}"


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
