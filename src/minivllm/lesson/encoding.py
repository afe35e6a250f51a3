"""How values of student code cross: as JSON that keeps Python's plain types apart and trusts no object of the student.

This module needs the standard library alone, and torch only where a tensor crosses.
"""

from __future__ import annotations

import operator
import sys
from typing import Any

MAX_DEPTH = 40
MAX_ITEMS = 100_000
MAX_CHARACTERS = 1_000_000
MAX_BITS = 10_000  # Python refuses to print an int of more than 4300 digits
MAX_NAME = 200
TENSOR_DTYPES = ("float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool")

Data = Any
"""What ``json.dumps`` takes: None, bool, int, str, and lists and dicts of them."""


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


class ForeignInt(int):
    """A whole number of a type that is no int (numpy.int64, ...): it counts like one and knows its type's name."""

    type_name: str

    def __new__(cls, value: int, type_name: str) -> ForeignInt:
        number = super().__new__(cls, value)
        number.type_name = type_name
        return number

    def __repr__(self) -> str:
        return f"{self.type_name}({int.__repr__(self)})"


class ForeignFloat(float):
    """A number of a type that is no float (fractions.Fraction, ...): the nearest float, and its type's name."""

    type_name: str

    def __new__(cls, value: float, type_name: str) -> ForeignFloat:
        number = super().__new__(cls, value)
        number.type_name = type_name
        return number

    def __repr__(self) -> str:
        return f"{self.type_name}({float.__repr__(self)})"


def encode(value: Any) -> Data:
    """`value` as JSON that keeps None, bool, int, float, str, list, tuple, dict (with any keys) and tensors apart.

    Subclasses (OrderedDict, IntEnum, a namedtuple) are read through the base type's own methods, so that what they
    override does nothing. Other types of numbers keep their name. Deep or huge values and all else become an `Opaque`.
    """
    try:
        return _Encoder().encode(value, 0)
    except _TooLarge:
        return {"opaque": f"{type_name(type(value))} of more than {MAX_ITEMS} items"}


def decode(data: Data) -> Any:
    """The inverse of `encode`: fresh objects of the plain types. Raises ValueError for what `encode` never sends.

    A tensor comes back on the CPU, wherever it was.
    """
    match data:
        case None | bool() | str():
            return data
        case int() if data.bit_length() <= 64:
            return data
        case list():
            return [decode(item) for item in data]
        case dict() if len(data) != 1:
            pass
        case {"tuple": list(items)}:
            return tuple(decode(item) for item in items)
        case {"dict": list(pairs)}:
            return {_as_key(decode(key)): decode(item) for key, item in pairs}
        case {"int": str(digits)} if abs(number := int(digits, 16)).bit_length() <= MAX_BITS:
            return number
        case {"float": str(digits)}:
            return float.fromhex(digits)
        case {"tensor": [str(dtype), list(shape), list(items)]} if dtype in TENSOR_DTYPES:
            return _tensor(dtype, shape, items)
        case {"number": [str(name), content]}:
            return _foreign(name, decode(content))
        case {"opaque": str(name)}:
            return Opaque(name[:MAX_NAME])
    raise ValueError("no encoded value")


def _tensor(dtype: str, shape: list[Any], items: list[Any]) -> Any:
    import torch

    values = [decode(item) for item in items]
    if not all(type(size) is int and size >= 0 for size in shape):
        raise ValueError("no shape of a tensor")
    if not all(type(value) in (bool, int, float) for value in values):
        raise ValueError("no elements of a tensor")
    try:
        return torch.tensor(values, dtype=getattr(torch, dtype)).reshape(shape)
    except (RuntimeError, OverflowError, TypeError) as error:  # another number of elements, or one out of range
        raise ValueError(str(error)) from None


def _foreign(name: str, value: Any) -> ForeignInt | ForeignFloat:
    return ForeignInt(value, name[:MAX_NAME]) if type(value) is int else ForeignFloat(value, name[:MAX_NAME])


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
        if depth > MAX_DEPTH:
            return {"opaque": type_name(kind)}
        if issubclass(kind, str):
            text = str.__str__(value)
            return text if len(text) <= MAX_CHARACTERS else {"opaque": f"str of {len(text)} characters"}
        if issubclass(kind, int):
            return self._int(int.__add__(value, 0))
        if issubclass(kind, float):
            return {"float": float.hex(value)}
        if issubclass(kind, list | tuple | dict) and self._items + _length(value) > MAX_ITEMS:
            raise _TooLarge
        if issubclass(kind, list):
            return [self.encode(item, depth + 1) for item in list.__iter__(value)]
        if issubclass(kind, tuple):
            return {"tuple": [self.encode(item, depth + 1) for item in tuple.__iter__(value)]}
        if issubclass(kind, dict):
            pairs = dict.items(value)
            return {"dict": [[self.encode(key, depth + 1), self.encode(item, depth + 1)] for key, item in pairs]}
        return self._tensor(value) or self._number(value) or {"opaque": type_name(kind)}

    def _tensor(self, value: Any) -> Data:
        """A tensor's dtype, shape and elements; None for everything else, a subclass of torch.Tensor too."""
        torch = sys.modules.get("torch")
        if torch is None or type(value) is not getattr(torch, "Tensor", None):
            return None
        dtype = str(value.dtype).removeprefix("torch.")
        if dtype not in TENSOR_DTYPES or value.layout is not torch.strided:
            return {"opaque": f"tensor of {dtype}"}
        if self._items + value.numel() > MAX_ITEMS:
            raise _TooLarge
        items = value.detach().cpu().reshape(-1).tolist()
        return {"tensor": [dtype, list(value.shape), [self.encode(item, MAX_DEPTH) for item in items]]}

    def _number(self, value: Any) -> Data:
        """What a number of another type says that it is; its methods are the student's."""
        number: int | float
        for read in (operator.index, float):
            try:
                number = read(value)
            except BaseException:  # no number, or a blank
                continue
            return {"number": [type_name(type(value)), self.encode(number, MAX_DEPTH)]}
        return None

    def _int(self, number: int) -> Data:
        bits = number.bit_length()
        if bits <= 64:
            return number
        return {"int": hex(number)} if bits <= MAX_BITS else {"opaque": f"int of {bits} bits"}


def _length(value: Any) -> int:
    return next(base.__len__(value) for base in (list, tuple, dict) if issubclass(type(value), base))


_module_of = type.__dict__["__module__"].__get__
_qualname_of = type.__dict__["__qualname__"].__get__


def type_name(kind: type) -> str:
    """Builtins bare, others with their module."""
    module, name = _module_of(kind), _qualname_of(kind)  # past any metaclass
    return f"{name}" if module == "builtins" else f"{module}.{name}"
