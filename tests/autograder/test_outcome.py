"""The door to student code: fresh arguments, plain data back, and nothing that the code does gets past it."""

from __future__ import annotations

import json
import logging
import math
import sys
from collections import Counter, OrderedDict, UserDict, defaultdict, namedtuple
from enum import IntEnum
from fractions import Fraction
from typing import Any

import numpy
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from minivllm.lesson.encoding import MAX_ITEMS, TENSOR_DTYPES, ForeignFloat, ForeignInt, Opaque, decode, encode
from minivllm.lesson.outcome import STREAM_LIMIT, Blank, BlankError, ______, door, read_reply

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False)
    | st.text(st.characters())
)
keys = st.recursive(scalars, lambda inner: st.tuples(inner, inner), max_leaves=4)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(keys, inner),
    max_leaves=20,
)


def exactly(value: Any) -> Any:
    """`value` with every type written down, so that True is not 1 and 0.0 is not -0.0."""
    if isinstance(value, list | tuple):
        return (type(value), [exactly(item) for item in value])
    if isinstance(value, dict):
        return (dict, [(exactly(key), exactly(item)) for key, item in value.items()])
    return (type(value), repr(value))


@given(values)
def test_plain_values_come_back_exactly_as_they_were_through_json(value: Any) -> None:
    assert exactly(decode(json.loads(json.dumps(encode(value))))) == exactly(value)


@pytest.mark.parametrize("dtype", TENSOR_DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0), (2, 3)], ids=str)
def test_a_tensor_comes_back_with_its_dtype_shape_and_elements(dtype: str, shape: tuple[int, ...]) -> None:
    tensor = torch.arange(math.prod(shape)).reshape(shape).to(getattr(torch, dtype))
    back = decode(json.loads(json.dumps(encode(tensor))))
    assert type(back) is torch.Tensor and back.dtype == tensor.dtype and back.shape == tensor.shape
    assert torch.equal(back, tensor)


def test_a_tensors_nan_and_infinities_cross_and_a_view_loses_its_strides() -> None:
    tensor = torch.tensor([[1.0, math.nan], [math.inf, -math.inf]], requires_grad=True).T
    back = decode(encode(tensor))
    torch.testing.assert_close(back, tensor.detach(), equal_nan=True)
    assert back.is_contiguous() and not back.requires_grad


def test_a_tensor_that_is_too_large_or_of_an_odd_kind_is_opaque() -> None:
    class Own(torch.Tensor):
        pass

    for value in (torch.zeros(MAX_ITEMS + 1), torch.zeros(2, dtype=torch.complex64), torch.ones(3, 3).to_sparse()):
        assert isinstance(decode(encode(value)), Opaque)
    assert not isinstance(decode(encode(torch.ones(2).as_subclass(Own))), torch.Tensor)


@pytest.mark.parametrize(
    "content",
    [
        ["float32", [2], [1]],
        ["float32", [-1], [1]],
        ["float32", ["1"], [1]],
        ["float32", [1], ["1"]],
        ["float32", [1], [[1]]],
        ["int8", [1], [1000]],
        ["Tensor", [1], [1]],
        ["float32", [1]],
    ],
    ids=repr,
)
def test_no_tensor_is_made_of_what_encode_never_sends(content: Any) -> None:
    with pytest.raises(ValueError):
        decode({"tensor": content})


def test_what_a_function_does_to_a_tensor_in_place_is_told() -> None:
    def scale(x: Any, by: float) -> None:
        x *= by

    x = torch.ones(2, 2)
    outcome = door({"scale": scale})("scale", x, 3.0)
    assert outcome.error is None and torch.equal(outcome.args_after[0], torch.full((2, 2), 3.0))
    assert torch.equal(x, torch.ones(2, 2))


@given(values)
def test_what_comes_back_shares_nothing_mutable(value: Any) -> None:
    back = decode(encode(value))
    if isinstance(value, list | dict) and value:
        assert back is not value
        back.clear()
        assert value


def test_special_floats_cross() -> None:
    nan, infinity, negative = decode(encode((float("nan"), float("inf"), -math.inf)))
    assert math.isnan(nan) and infinity == math.inf and negative == -math.inf


class Sly(dict):  # type: ignore[type-arg]
    def __eq__(self, other: object) -> bool:
        return True

    def items(self) -> Any:
        return [("plan", 4)]

    __iter__ = keys = values = items


class SlyList(list):  # type: ignore[type-arg]
    def __iter__(self) -> Any:
        return iter([1, 2, 3])

    def __len__(self) -> int:
        return 3


class SlyInt(int):
    def __eq__(self, other: object) -> bool:
        return True

    def __add__(self, other: object) -> Any:
        return 4

    def __index__(self) -> int:
        return 4

    __hash__ = int.__hash__


class SlyStr(str):
    def __str__(self) -> str:
        return "plan"

    def __len__(self) -> int:
        return 4


class SlyFloat(float):
    def hex(self) -> str:
        return "0x1p2"


class Fake:
    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return dict

    def __eq__(self, other: object) -> bool:
        return True


class Color(IntEnum):
    RED = 7


Pair = namedtuple("Pair", "plan left")


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (OrderedDict(a=1), {"a": 1}),
        (defaultdict(int, a=1), {"a": 1}),
        (Counter("aab"), {"a": 2, "b": 1}),
        (Sly(a=1), {"a": 1}),
        (SlyList([9]), [9]),
        (SlyInt(7), 7),
        (SlyStr("x"), "x"),
        (SlyFloat(0.5), 0.5),
        (Color.RED, 7),
        (Pair({"a": 1}, 2), ({"a": 1}, 2)),
        (numpy.float64(4), 4.0),
        (numpy.str_("a"), "a"),
    ],
)
def test_a_subclass_is_read_by_the_base_types_own_methods(value: Any, plain: Any) -> None:
    assert exactly(decode(encode(value))) == exactly(plain)


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (numpy.zeros(3), "numpy.ndarray"),
        ({1}, "set"),
        (b"x", "bytes"),
        (UserDict(a=1), "collections.UserDict"),
        ((n for n in "ab"), "generator"),
        (Fake(), f"{__name__}.Fake"),
        (Blank(), "minivllm.lesson.outcome.Blank"),
        ([0] * (MAX_ITEMS + 1), f"list of more than {MAX_ITEMS} items"),
        ("x" * 2_000_000, "str of 2000000 characters"),
        pytest.param(1 << 20_000, "int of 20001 bits", id="a huge int"),
    ],
)
def test_everything_else_is_opaque_known_by_its_type_and_equal_to_nothing(value: Any, name: str) -> None:
    opaque = decode(encode(value))
    assert isinstance(opaque, Opaque) and opaque.type_name == name
    assert opaque != value
    assert opaque != opaque


@pytest.mark.parametrize(
    ("value", "kind", "number", "shown"),
    [
        (numpy.int64(4), ForeignInt, 4, "numpy.int64(4)"),
        (numpy.array(4), ForeignInt, 4, "numpy.ndarray(4)"),
        (numpy.float32(0.5), ForeignFloat, 0.5, "numpy.float32(0.5)"),
        (Fraction(1, 2), ForeignFloat, 0.5, "fractions.Fraction(0.5)"),
    ],
)
def test_a_number_of_another_type_counts_and_keeps_its_types_name(
    value: Any, kind: type, number: float, shown: str
) -> None:
    back = decode(json.loads(json.dumps(encode({"a": value}))))["a"]
    assert type(back) is kind and back == number
    assert repr(back) == shown


@pytest.mark.parametrize(
    "data",
    [
        0.5,
        float("nan"),
        1 << 70,
        {},
        {"tuple": [], "dict": []},
        {"tuple": 3},
        {"dict": [[1]]},
        {"dict": {"a": 1}},
        {"int": 5},
        {"int": "0x" + "f" * 5000},
        {"int": "ten"},
        {"float": 1},
        {"float": "one"},
        {"number": [3, 4]},
        {"number": ["x", "y"]},
        {"number": ["x", [1]]},
        {"opaque": 3},
        {"nonsense": []},
    ],
)
def test_what_encode_never_sends_is_refused(data: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        decode(data)


REPLY: dict[str, Any] = {"value": None, "args_after": [1], "error": None, "stderr": ""}
ERROR: dict[str, Any] = {"types": ["ValueError"], "message": ""}


NO_TYPES: list[Any] = [None, [], [3], "ValueError", [None]]
NO_TEXTS: list[Any] = [None, 3, []]
FORGED: dict[str, list[Any]] = {
    "args_after": [None, True, 3, [], [1, 2], {"tuple": [1]}, {}, [0.5]],
    "error": [
        *(True, 3, [], {}, "ValueError"),
        *(ERROR | {"types": types} for types in NO_TYPES),
        *(ERROR | {"message": message} for message in NO_TEXTS),
    ],
    "stderr": NO_TEXTS,
}


@pytest.mark.parametrize(
    "reply",
    [
        *(None, 3, [], {}),
        *({name: part for name, part in REPLY.items() if name != missing} for missing in REPLY),
        *(REPLY | {name: part} for name, parts in FORGED.items() for part in parts),
    ],
)
def test_a_reply_of_another_shape_is_refused(reply: Any) -> None:
    assert read_reply(REPLY, 1).args_after == (1,)
    with pytest.raises(ValueError):
        read_reply(reply, 1)


def test_a_value_that_holds_itself_ends() -> None:
    knot: list[Any] = []
    knot.append(knot)
    json.dumps(encode(knot))


class HashableList(list):  # type: ignore[type-arg]
    def __hash__(self) -> int:  # type: ignore[override]
        return 1


def test_a_key_that_only_students_can_hash_is_opaque() -> None:
    [(key, item)] = decode(encode({HashableList([1]): 4})).items()
    assert isinstance(key, Opaque) and item == 4


def call(function: Any, *args: Any, **more: Any) -> Any:
    return door({"f": function})("f", *args, **more)


def test_each_call_gets_fresh_arguments_and_tells_what_became_of_them() -> None:
    def change(requests: list[dict[str, int]]) -> int:
        requests[0]["computed"] += 1
        requests.append({})
        return requests[0]["computed"]

    mine = [{"computed": 4}]
    first, second = call(change, mine), call(change, mine)
    assert first.value == second.value == 5
    assert mine == [{"computed": 4}]
    assert first.args_after == ([{"computed": 5}, {}],)


def test_a_second_call_before_the_value_is_looked_at_shows_a_shared_result() -> None:
    plan: dict[str, int] = {}

    def shared(id: str) -> dict[str, int]:
        plan.clear()
        plan[id] = 1
        return plan

    assert call(shared, "a").value == {"a": 1}
    assert call(shared, "a", then=("b",)).value == {"b": 1}


def test_a_call_before_whose_result_is_emptied_shows_a_shared_result() -> None:
    plans: dict[str, dict[str, int]] = {}

    def shared(id: str) -> tuple[dict[str, int], int]:
        return plans.setdefault(id, {id: 1}), 0

    assert call(lambda id: ({id: 1}, 0), "a", spoiled=("a",)).value == ({"a": 1}, 0)
    assert call(shared, "a").value == ({"a": 1}, 0)
    assert call(shared, "a", spoiled=("a",)).value == ({}, 0)


def test_an_argument_that_has_grown_too_large_is_opaque_and_the_others_are_told() -> None:
    def grow(requests: list[Any], budget: int) -> None:
        requests.extend([0] * (MAX_ITEMS + 1))

    requests, budget = call(grow, [1], 3).args_after
    assert isinstance(requests, Opaque) and budget == 3


@pytest.mark.parametrize(
    ("raised", "kinds", "message"),
    [
        (ValueError("bad budget"), ("ValueError", "Exception", "BaseException"), "bad budget"),
        (SystemExit(3), ("SystemExit", "BaseException"), "3"),
        (KeyboardInterrupt(), ("KeyboardInterrupt", "BaseException"), ""),
        (
            type("ValueError", (Exception,), {"__module__": "student"})("fake"),
            ("student.ValueError", "Exception", "BaseException"),
            "fake",
        ),
        (type("Mine", (ValueError,), {"__str__": lambda self: 1 / 0})(), None, ""),
        (ValueError("x" * 10_000), ("ValueError", "Exception", "BaseException"), "x" * 500),
    ],
)
def test_whatever_is_raised_comes_back_as_names_and_text(
    raised: BaseException, kinds: tuple[str, ...] | None, message: str
) -> None:
    def fail() -> None:
        raise raised

    error = call(fail).error
    assert kinds is None or error.types == kinds
    assert error.message == message


def test_only_real_value_errors_are_value_errors() -> None:
    def fake() -> None:
        raise type("ValueError", (Exception,), {})("fake")

    def own() -> None:
        raise type("Mine", (ValueError,), {})("own")

    assert not call(fake).error.is_a("ValueError")
    assert call(own).error.is_a("ValueError")


def test_endless_recursion_is_an_error_and_deep_recursion_is_not() -> None:
    def down(n: int) -> int:
        return 0 if n == 0 else 1 + down(n - 1)

    before = sys.getrecursionlimit()
    assert call(down, 5000).value == 5000
    assert call(down, -1).error.is_a("RecursionError")
    assert sys.getrecursionlimit() == before


def test_stderr_is_caught_however_it_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    handler = logging.StreamHandler()
    logging.root.addHandler(handler)

    def noisy() -> int:
        print("printed", file=sys.stderr)
        logging.warning("logged")
        sys.stderr.write("x" * 10**6)
        return 3

    try:
        outcome = call(noisy)
    finally:
        logging.root.removeHandler(handler)
    assert outcome.value == 3
    assert all(word in outcome.stderr for word in ("printed", "logged", "[cut after"))
    assert len(outcome.stderr) < STREAM_LIMIT + 100
    assert capsys.readouterr().err == ""
    assert isinstance(handler, logging.StreamHandler) and handler.stream is not None


def test_stdout_is_left_alone_but_for_a_flood(capsys: pytest.CaptureFixture[str]) -> None:
    ask = door({"f": lambda: print("hello " * 1000)})
    ask("f")
    assert capsys.readouterr().out == "hello " * 1000 + "\n"
    for _ in range(20):
        ask("f")
    assert len(capsys.readouterr().out) < STREAM_LIMIT + 100


def test_a_name_may_hold_data_or_nothing() -> None:
    ask = door({"source_mapping": {"a": "b"}, "three": 3})
    assert ask("source_mapping").value == {"a": "b"}
    data = ask("three", 1).error
    assert data is not None and data.is_a("minivllm.lesson.outcome.NotAFunction") and data.is_a("TypeError")
    missing = ask("nowhere").error
    assert missing is not None and missing.is_a("minivllm.lesson.outcome.NotDefined") and missing.is_a("NameError")


def test_a_name_is_looked_up_when_it_is_called() -> None:
    namespace: dict[str, Any] = {}
    ask = door(namespace)
    namespace["f"] = lambda: 1
    assert ask("f").value == 1


@pytest.mark.parametrize(
    "use",
    [
        lambda blank: blank + 1,
        lambda blank: 1 - blank,
        lambda blank: min(blank, 3),
        lambda blank: bool(blank),
        lambda blank: blank == 3,
        lambda blank: blank["x"],
        lambda blank: blank.tokens,
        lambda blank: blank(),
        lambda blank: list(blank),
        lambda blank: len(blank),
        lambda blank: f"{blank}",
        lambda blank: {"a": 1}[blank],
        lambda blank: range(blank),
    ],
)
def test_any_use_of_a_blank_says_that_it_is_not_filled_in(use: Any) -> None:
    with pytest.raises(BlankError, match="the blank ______ is not filled in: replace every ______"):
        use(______)


def test_a_blank_can_be_shown_and_assigned() -> None:
    need = ______
    assert repr(need) == "______"
    assert not hasattr(need, "_repr_html_")
