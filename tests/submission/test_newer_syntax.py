"""Python 3.12 and 3.13 in the words of 3.11: the same values, and nothing else is touched."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from minivllm.submission.newer_syntax import rewritten

DATA = {"a": 1, "x": {"y": 2}}


@pytest.mark.parametrize(
    ("text", "version", "value"),
    [
        ('r = f"{d["a"]}"', "3.12", "1"),
        (r"""r = f"{d["a"]!r:>5}|{'\n'.join(["p", "q"])}" """, "3.12", "    1|p\nq"),
        ('r = f"{d["a"]=}"', "3.12", 'd["a"]=1'),
        ('r = f"{d["a"]:{d["x"]["y"]}d}{{}}"', "3.12", " 1{}"),
        ('r = ("z"\n  f"{d["a"]}"  # one\n "q" f"{1}")', "3.12", "z1q1"),
        ('r = f"{\n d["a"] # c\n}"', "3.12", "1"),
        ("r = f'{f'{f'{1}'}'}'", "3.12", "1"),
        (r'r = f"\N{DIGIT ONE}{"\N{DIGIT TWO}"}\t"', "3.12", "12\t"),
        (r'r = rf"\d{d["a"]}"', "3.12", r"\d1"),
        ('r = f"{d["a"]}%s" % 3', "3.12", "13"),
        ('r = f"{(lambda q: q["a"])(d)}{d["a"] != 2}"', "3.12", "1True"),
        ("type X = int\nr = X", "3.12", int),
        ("type P[K] = dict[K, int]\nr = P[str]", "3.12", dict[str, int]),
        ("def f[T](x: T) -> T:\n    return x\nr = f(3)", "3.12", 3),
        ("async def f[T: (int, str)](x: T) -> T: ...\nr = f.__name__", "3.12", "f"),
        ("class A[T]:\n    def m(self): return 4\nr = A[int]().m()", "3.12", 4),
        ("class B: pass\nclass A[T, *Ts](B): pass\nr = issubclass(A, B)", "3.12", True),
        ("import functools\n@functools.cache\ndef f[T: int = int](x: T) -> T:\n    return x\nr = f(3)", "3.13", 3),
        ("class C:\n    def m[T](self, x: T) -> T:\n        return x\nr = C().m(5)", "3.12", 5),
    ],
)
def test_newer_code_means_the_same_in_older_words(text: str, version: str, value: Any) -> None:
    older, needs = rewritten(text)
    assert needs == version
    ast.parse(older, feature_version=(3, 11))
    namespace: dict[str, Any] = {"d": DATA}
    exec(older, namespace)
    assert namespace["r"] == value


@pytest.mark.parametrize(
    "text",
    [
        "f'{x}' f\"{y['a']}\" '''{'''",
        "def f(x)\n    return x",
        "x = d[0]\nprint(f'{x!r:>{5}}')",
        "f'{",
        "'''",
        "type(x) == int\ntype = 3\nprint(type, x[1])",
        "# f'{d['a']}'\nx = 1",
        "s = \"f'{d['a']}'\"",
        "def f(\n",
        "class A[",
        "match type:\n    case int: pass",
        "\\",
        "",
    ],
)
def test_other_code_is_not_taken_for_newer(text: str) -> None:
    assert rewritten(text) == ("", "")
