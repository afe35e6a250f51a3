"""Code as text: what a piece of it defines, and what of it is the student's own.

Nothing is run here. A cell that is no Python counts as text that defines nothing.
"""

from __future__ import annotations

import ast
import dis
import re
import textwrap
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from minivllm.submission import cell_code, magics, newer_syntax

MAX_REMEMBERED = 20_000  # characters
BLANK = "______"
_CODE = re.compile(
    r"^[ \t]*(?:def \w+\(|class \w+|import \w+|from [\w.]+ import|return\b|for \w+ in |\w+ = )", re.MULTILINE
)


@dataclass(frozen=True)
class Statement:
    """One statement at the top level of a cell."""

    text: str
    tree: ast.stmt
    binds: frozenset[str]


def plain(source: str) -> str:
    """The Python in a cell: without a text cell's fences, and without lines that only a notebook understands."""
    source = _fenced(source) if "```" in source else source
    if _parse(source) is not None or magics.as_a_notebook(source) == source:
        return source
    code = cell_code.read(source)
    return code.text if code.parses else source


def _fenced(source: str) -> str:
    """The lines between ``` and ```, or all if there are none."""
    inside, lines = False, []
    for line in source.split("\n"):
        if line.lstrip().startswith("```"):
            inside = not inside
        elif inside:
            lines.append(line)
    return textwrap.dedent("\n".join(lines)) if lines else source


def parses(source: str) -> bool:
    """By the Python of any version that the course supports."""
    if _parse(plain(source)) is not None:
        return True
    older, version = newer_syntax.rewritten(source) if len(source) <= magics.MAX_SOURCE else ("", "")
    return bool(version) and _parse(plain(older)) is not None


def _parse(source: str) -> ast.Module | None:
    if len(source) > magics.MAX_SOURCE:
        return None
    return _parsed(source) if len(source) < MAX_REMEMBERED else magics.parse(source)


_parsed = lru_cache(maxsize=128)(magics.parse)


def statements(source: str) -> tuple[Statement, ...]:
    """Those that are Python, also of a cell that is none as a whole."""
    return _remembered(source) if len(source) < MAX_REMEMBERED else _statements(source)


def _statements(source: str) -> tuple[Statement, ...]:
    source = _fenced(source) if "```" in source else source
    return tuple(Statement(each.text, each.tree, _binds(each.tree)) for each in cell_code.read(source).statements)


_remembered = lru_cache(maxsize=128)(_statements)


def _binds(tree: ast.stmt) -> frozenset[str]:
    try:
        code = compile(ast.Module([tree], []), "<cell>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError, TypeError):
        return frozenset()
    stored = {i.argval for i in dis.get_instructions(code) if i.opname in ("STORE_NAME", "STORE_GLOBAL")}
    return frozenset(stored)


def broken(source: str) -> str:
    """What of a cell is no Python, and where; empty if nothing is."""
    source = _fenced(source) if "```" in source else source
    return next((str(each) for each in cell_code.read(source).skipped if each.kind == "syntax"), "")


def defined(source: str) -> frozenset[str]:
    """The names that a cell binds at its top level."""
    return frozenset().union(*(each.binds for each in statements(source)))


def own_names(source: str) -> frozenset[str]:
    """What it binds other than by an import."""
    imports = (ast.Import, ast.ImportFrom)
    return frozenset().union(*(each.binds for each in statements(source) if not isinstance(each.tree, imports)))


def defines(source: str, names: frozenset[str]) -> bool:
    """Whether it binds them all. Quick where it does not."""
    return bool(names) and all(name in source for name in names) and names <= defined(source)


def builds_on(source: str, names: frozenset[str]) -> bool:
    """Whether it takes one of these names to make another of it, as a wrapper does: ``plan = logged(plan)``."""
    definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    trees = [each.tree for each in statements(source) if not isinstance(each.tree, definitions)]
    read = {n.id for tree in trees for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    return bool(read & names)


def same_code(one: str, other: str) -> bool:
    """Whether the two differ in comments and layout at most."""
    trees = _parse(plain(one)), _parse(plain(other))
    if None in trees:
        return one.split() == other.split()
    try:
        return ast.dump(trees[0]) == ast.dump(trees[1])  # type: ignore[arg-type]
    except RecursionError:
        return one == other


def added(source: str, released: str) -> str:
    """The statements of `source` that are not in `released`, nor one of `released` with other values in it."""
    mine, theirs = statements(source), statements(released)
    known = {_dump(each.tree) for each in theirs}
    there = {_dump(each.tree) for each in mine}
    gone = Counter(_shape(each) for each in theirs if _dump(each.tree) not in there)
    found = []
    for each in mine:
        if _dump(each.tree) in known:
            continue
        if gone[_shape(each)] > 0:
            gone[_shape(each)] -= 1
            continue
        found.append(each.text)
    return "\n".join(found)


def _shape(each: Statement) -> tuple[str, ...]:
    """What stays the same when a blank is filled in: what is bound, or what is called."""
    value = each.tree.value if isinstance(each.tree, ast.Expr | ast.Assign) else None
    called = value.func.id if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) else ""
    return (type(each.tree).__name__, called if isinstance(each.tree, ast.Expr) else "", *sorted(each.binds))


def _dump(tree: ast.AST) -> str:
    try:
        return ast.dump(tree)
    except RecursionError:
        return ""


def without(source: str, names: Iterable[frozenset[str]]) -> str:
    """The cell less the statements that define any of these names."""
    others = frozenset().union(*names)
    return "\n".join(each.text for each in statements(source) if not each.binds or not each.binds <= others)


def has_code(source: str) -> bool:
    return bool(_CODE.search(source))


def prose(source: str) -> str | None:
    """The text that a code cell holds instead of code: one string, or what is no Python at all."""
    tree = _parse(plain(source))
    if tree is None:
        return source if not _CODE.search(source) else None
    match tree.body:
        case [ast.Expr(ast.Constant(str() as text))]:
            return text
    return None
