"""Code as text: what a piece of it defines, what it reads, and which statements of other cells give it that.

Nothing is run here. A cell that is no Python counts as text that defines nothing.
"""

from __future__ import annotations

import ast
import builtins
import dis
import re
import textwrap
import types
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

MAX_SOURCE = 50_000  # characters of a cell that is read as code
MAX_LINES = 2_000
MAX_STATEMENTS = 1_000
MAX_CELLS = 500  # that are read for what an answer uses
READS = {"LOAD_NAME", "LOAD_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS"}
BLANK = "______"
_CODE = re.compile(
    r"^[ \t]*(?:def \w+\(|class \w+|import \w+|from [\w.]+ import|return\b|for \w+ in |\w+ = )", re.MULTILINE
)
_MAGIC = re.compile(r"^[ \t]*[%!].*$", re.MULTILINE)


@dataclass(frozen=True)
class Statement:
    """One statement at the top level of a cell."""

    text: str
    tree: ast.stmt
    binds: frozenset[str]
    reads: frozenset[str]

    @property
    def is_definition(self) -> bool:
        return isinstance(
            self.tree, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom
        )

    @property
    def changes(self) -> str:
        """The variable whose object this changes: ``orders`` in ``orders.append(1)`` and ``orders[0] = 1``."""
        tree = self.tree
        match tree:
            case ast.Expr(ast.Call(ast.Attribute() as method)):
                return _root(method)
        targets = tree.targets if isinstance(tree, ast.Assign) else [getattr(tree, "target", None)]
        places = [target for target in targets if isinstance(target, ast.Attribute | ast.Subscript)]
        return _root(places[0]) if places else ""


def _root(tree: ast.expr) -> str:
    while isinstance(tree, ast.Attribute | ast.Subscript):
        tree = tree.value
    return tree.id if isinstance(tree, ast.Name) else ""


def plain(source: str) -> str:
    """The Python in a cell: without a text cell's fences, and without lines that only a notebook understands."""
    if len(source) > MAX_SOURCE:
        return source
    source = _fenced(source) if "```" in source else source
    return source if _parse(source) is not None else _MAGIC.sub("", source)


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
    return _parse(plain(source)) is not None


@lru_cache(maxsize=128)
def _parse(source: str) -> ast.Module | None:
    if len(source) > MAX_SOURCE or source.count("\n") > MAX_LINES:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


@lru_cache(maxsize=128)
def statements(source: str) -> tuple[Statement, ...]:
    source = plain(source)
    tree = _parse(source)
    if tree is None:
        return ()
    lines = source.splitlines()
    return tuple(_statement(each, lines) for each in tree.body[:MAX_STATEMENTS])


def _statement(tree: ast.stmt, lines: Sequence[str]) -> Statement:
    first = min([tree.lineno, *(each.lineno for each in getattr(tree, "decorator_list", ()))])
    text = "\n".join(lines[first - 1 : tree.end_lineno])
    try:
        again = ast.parse(text).body
        text = text if len(again) == 1 else ast.unparse(tree)  # it shares its line
        code = compile(ast.Module([tree], []), "<cell>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Statement(text, tree, frozenset(), frozenset())
    stored = {i.argval for i in dis.get_instructions(code) if i.opname in ("STORE_NAME", "STORE_GLOBAL")}
    if isinstance(tree, ast.ImportFrom) and tree.names[0].name == "*":
        stored.add("*")
    reads = {i.argval for each in _nested(code) for i in dis.get_instructions(each) if i.opname in READS}
    return Statement(text, tree, frozenset(stored), frozenset(reads))


def _nested(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from _nested(const)


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
    """The statements of `source` that are not in `released`."""
    known = {_dump(each.tree) for each in statements(released)}
    return "\n".join(each.text for each in statements(source) if _dump(each.tree) not in known)


def _dump(tree: ast.AST) -> str:
    try:
        return ast.dump(tree)
    except RecursionError:
        return ""


def is_all_in(source: str, others: str) -> bool:
    """Whether it is code of which every statement stands in `others`."""
    found = statements(source) if others else ()
    return bool(found) and all(each.text in others for each in found)


def needed(answer: str, before: Iterable[str], after: Iterable[str], given: frozenset[str] = frozenset()) -> str:
    """What `answer` reads and does not define, as statements of other cells, in their order.

    A cell after the answer counts only for names that none before defines; `given` is what graded cells define.
    """
    mine = defined(answer) | given
    wanted = frozenset().union(*(each.reads for each in statements(answer))) - mine - vars(builtins).keys()
    if not wanted:
        return ""
    first = [each for source in list(before)[-MAX_CELLS:] for each in statements(source)][-MAX_STATEMENTS:]
    found = frozenset().union(*(each.binds for each in first)) if first else frozenset()
    then = [
        each for source in list(after)[:MAX_CELLS] for each in statements(source) if not each.binds & (found | mine)
    ]
    return "\n".join(each.text for each in _closure(wanted, [*first, *then[:MAX_STATEMENTS]], mine))


def part(source: str, names: frozenset[str]) -> str:
    """The statements of a cell that define these names, and what of the cell they need."""
    return "\n".join(each.text for each in _closure(names, statements(source), frozenset()))


def _closure(wanted: frozenset[str], given: Sequence[Statement], mine: frozenset[str]) -> list[Statement]:
    taken: set[int] = set()
    variables = {name for each in given if not each.is_definition for name in each.binds}
    seen = set(wanted)
    while True:
        useful = {
            index
            for index, each in enumerate(given)
            if index not in taken
            and not each.binds & mine
            and (each.binds & seen or (each.changes in seen and each.changes in variables) or "*" in each.binds)
        }
        if not useful:
            return [given[index] for index in sorted(taken)]
        taken |= useful
        seen |= {name for index in useful for name in given[index].reads} - mine


def prose(source: str) -> str | None:
    """The text that a code cell holds instead of code: one string, or what is no Python at all."""
    tree = _parse(plain(source))
    if tree is None:
        return source if not _CODE.search(source) else None
    match tree.body:
        case [ast.Expr(ast.Constant(str() as text))]:
            return text
    return None
